// Vaults and secrets: a value goes in and never comes out.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { api, client, env, listening, must, unique, until } from '../support/postern.mjs';

const refused = async (code, field, method, where, body) => {
  const answer = await api(method, where, body);
  assert.equal(answer.body.error_code, `ERR_POSTERN_${code}`, `${method} ${where} ${JSON.stringify(body)}: ${answer.raw}`);
  if (field) assert.ok(Object.keys(answer.body.details).includes(field), `${field} in ${answer.raw}`);
};

test('vaults and their secrets', async () => {
  const ngrok = client();
  const events = await listening();
  const name = unique('vault');
  const vault = await must('POST', '/vaults', { name, description: 'd', metadata: 'm' });
  assert.match(vault.id, /^vault_[0-9A-Za-z]{27}$/);
  assert.match(vault.created_by, /^usr_/);
  assert.deepEqual([vault.updated_at, vault.last_updated_by], [vault.created_at, vault.created_by]);
  assert.deepEqual(await must('GET', `/vaults/${vault.id}`), vault);
  const value = unique('the-value');
  const secret = await must('POST', '/vault_secrets', { vault_id: vault.id, name: 'a/b.c-d_E9', value, description: 'd', metadata: 'm' });
  assert.match(secret.id, /^secret_/);
  assert.ok(!('value' in secret));
  assert.deepEqual([secret.vault, secret.vault_name, secret.created_by], [{ id: vault.id, uri: vault.uri }, name, { id: vault.created_by, uri: '' }]);
  assert.deepEqual(await must('GET', `/vault_secrets/${secret.id}`), secret);
  const second = await must('POST', '/vault_secrets', { vault_name: name, name: 'second', value: 'x'.repeat(65536) });
  assert.equal(second.vault.id, vault.id);

  const inside = await must('GET', `/vaults/${vault.id}/secrets?limit=1`);
  assert.deepEqual(inside.secrets, [second]);
  assert.ok(inside.uri.endsWith(`/vaults/${vault.id}/secrets`));
  const next = new URL(inside.next_page_uri);
  assert.equal(next.pathname, `/vaults/${vault.id}/secrets`);
  assert.deepEqual((await must('GET', next.pathname + next.search)).secrets, [secret]);
  assert.equal((await api('GET', `/vaults/vault_${'0'.repeat(27)}/secrets`)).status, 404);
  assert.equal((await api('POST', `/vaults/${vault.id}/secrets`, {})).status, 405);
  assert.deepEqual((await must('GET', `/vault_secrets?filter=${encodeURIComponent(`obj.name == "second" && obj.id == "${second.id}"`)}`)).secrets, [second]);
  assert.ok((await must('GET', `/vaults?filter=${encodeURIComponent(`obj.name == "${name}"`)}`)).vaults.length === 1);

  const other = await must('POST', '/vaults', { name: unique('other') });
  await refused(143, 'name', 'POST', '/vaults', { name });
  await refused(143, 'name', 'PATCH', `/vaults/${other.id}`, { name });
  await refused(143, 'name', 'POST', '/vault_secrets', { vault_id: vault.id, name: 'second', value: 'v' });
  await must('POST', '/vault_secrets', { vault_id: other.id, name: 'second', value: 'v' });
  await refused(128, 'vault_name', 'POST', '/vault_secrets', { vault_name: 'no such vault', name: 'n', value: 'v' });
  await refused(128, 'vault_id', 'POST', '/vault_secrets', { vault_id: vault.id, vault_name: other.name, name: 'n', value: 'v' });
  await refused(128, 'vault_id', 'POST', '/vault_secrets', { vault_id: `vault_${'0'.repeat(27)}`, name: 'n', value: 'v' });
  await refused(127, 'vault_id', 'POST', '/vault_secrets', { vault_id: secret.id, name: 'n', value: 'v' });
  await refused(122, 'vault_id', 'POST', '/vault_secrets', { name: 'n', value: 'v' });
  await refused(122, 'value', 'POST', '/vault_secrets', { vault_id: vault.id, name: 'n' });
  await refused(122, 'name', 'POST', '/vaults', {});
  for (const bad of ['a b', 'é', 'a\nb', 'a:b', 'x'.repeat(256)]) await refused(121, 'name', 'POST', '/vault_secrets', { vault_id: vault.id, name: bad, value: 'v' });
  await refused(121, 'value', 'POST', '/vault_secrets', { vault_id: vault.id, name: 'n', value: 'x'.repeat(65537) });
  await refused(126, 'vault_id', 'PATCH', `/vault_secrets/${secret.id}`, { vault_id: other.id });
  await refused(142, null, 'DELETE', `/vaults/${vault.id}`);

  const renamed = await must('PATCH', `/vaults/${vault.id}`, { name: `${name}-2`, description: '' });
  assert.deepEqual([renamed.description, renamed.metadata], ['', 'm']);
  assert.equal((await must('GET', `/vault_secrets/${secret.id}`)).vault_name, `${name}-2`, 'the name follows');
  await must('PATCH', `/vault_secrets/${secret.id}`, { value: `${value}-2`, description: 'new' });

  const stored = execFileSync('psql', [env.DATABASE_URL, '-Atc', `SELECT value FROM identity.secret WHERE id = '${secret.id}'`]).toString();
  assert.ok(stored.length > 20 && !stored.includes(value), 'encrypted at rest');
  await until(() => events.events.some((event) => event.event_type === 'secret_updated.v0' && event.object.id === secret.id), 'the audit event');
  await events.stop();
  assert.ok(!JSON.stringify(events.events).includes(value), 'no value in an event');
  for (const one of [secret, second]) await must('DELETE', `/vault_secrets/${one.id}`);
  await must('DELETE', `/vaults/${vault.id}`);
  assert.equal((await api('GET', `/vaults/${vault.id}`)).status, 404);
  assert.ok(ngrok);
});
