// An Idempotency-Key is for one request: method, path and body. The same one again gets the same answer and does nothing, another
// one under that key is refused and does nothing.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { api, elsewhere, env, home, must, unique } from '../support/postern.mjs';

const sql = (schema, text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = ${schema}; ${text}`], { encoding: 'utf8' }).trim();
const fresh = () => ({ 'Idempotency-Key': unique('key') });
const refused = (answer, what) => {
  assert.equal(answer.status, 422, `${what}: ${answer.raw}`);
  assert.equal(answer.body.error_code, 'ERR_POSTERN_230', what);
};

test('a key that deleted one API key does not claim to have deleted another', async () => {
  const [one, two] = [await must('POST', '/api_keys', {}), await must('POST', '/api_keys', {})];
  const headers = fresh(), works = async (key) => (await api('GET', '/api_keys?limit=1', undefined, { Authorization: `Bearer ${key.token}` })).status === 200;
  assert.equal((await api('DELETE', `/api_keys/${one.id}`, undefined, headers)).status, 204);
  refused(await api('DELETE', `/api_keys/${two.id}`, undefined, headers), 'another object');
  assert.deepEqual([await works(one), await works(two)], [false, true], 'and says so: the second works');
  assert.equal((await api('DELETE', `/api_keys/${one.id}`, undefined, headers)).status, 204, 'the same request again');
  assert.equal((await api('DELETE', `/api_keys/${two.id}`, undefined, fresh())).status, 204);
});

test('another method, path or body under a used key is refused, wherever it goes', async () => {
  const backend = await must('POST', '/backends/http_response', { body: 'x' });
  const [one, two] = [await must('POST', '/edges/https', {}), await must('POST', '/edges/https', {})];
  const route = (edge) => must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  const [first, second] = [await route(one), await route(two)];
  const destination = await must('POST', '/event_destinations', { format: 'json', target: { datadog: { api_key: 'a', ddsite: 'datadoghq.com' } } });
  const sources = [{ type: 'vault_created.v0' }, { type: 'vault_deleted.v0' }];
  const [here, there] = [await must('POST', '/event_subscriptions', { destination_ids: [destination.id], sources }), await must('POST', '/event_subscriptions', { destination_ids: [destination.id], sources })];
  const at = (edge, its) => `/edges/https/${edge.id}/routes/${its.id}`;
  // what is asked for first, and what is no longer asked for under its key
  const cases = [
    [['POST', '/ip_policies', { description: 'a' }], [['POST', '/ip_policies', { description: 'b' }], ['POST', '/ip_policies', {}], ['POST', '/backends/static', { address: '127.0.0.1:9' }], ['POST', '/edges/https', { description: 'a' }]]],
    [['POST', '/api_keys', { description: 'a' }], [['POST', '/api_keys', { description: 'b' }], ['POST', '/credentials', { description: 'a' }]]],
    [['POST', `/edges/https/${one.id}/routes`, { match_type: 'exact_path', match: '/x' }], [['POST', `/edges/https/${two.id}/routes`, { match_type: 'exact_path', match: '/x' }]]],
    [['PATCH', at(one, first), { description: 'a' }], [['PATCH', at(one, first), { description: 'b' }], ['PATCH', at(two, second), { description: 'a' }], ['DELETE', at(one, first)]]],
    [['PUT', `${at(one, first)}/compression`, {}], [['PUT', `${at(one, first)}/compression`, { enabled: false }], ['PUT', `${at(two, second)}/compression`, {}], ['PUT', `${at(one, first)}/websocket_tcp_converter`, {}], ['DELETE', `${at(one, first)}/compression`]]],
    [['DELETE', `${at(one, first)}/compression`], [['DELETE', `${at(two, second)}/compression`], ['DELETE', `${at(one, first)}/backend`], ['DELETE', at(one, first)]]],
    [['POST', `/event_subscriptions/${here.id}/sources`, { type: 'api_key_created.v0' }], [['POST', `/event_subscriptions/${here.id}/sources`, { type: 'api_key_deleted.v0' }], ['POST', `/event_subscriptions/${there.id}/sources`, { type: 'api_key_created.v0' }]]],
    [['PATCH', `/event_subscriptions/${here.id}/sources/vault_created.v0`, { type: 'vault_created.v0' }], [['PATCH', `/event_subscriptions/${here.id}/sources/vault_deleted.v0`, { type: 'vault_deleted.v0' }], ['PATCH', `/event_subscriptions/${there.id}/sources/vault_created.v0`, { type: 'vault_created.v0' }]]],
    [['DELETE', `/event_subscriptions/${here.id}/sources/vault_created.v0`], [['DELETE', `/event_subscriptions/${here.id}/sources/vault_deleted.v0`], ['DELETE', `/event_subscriptions/${there.id}/sources/vault_created.v0`], ['DELETE', `/event_subscriptions/${here.id}`]]],
    [['DELETE', `/event_subscriptions/${here.id}`], [['DELETE', `/event_subscriptions/${there.id}`]]],
    [['DELETE', at(one, first)], [['DELETE', at(two, second)], ['DELETE', `/edges/https/${one.id}`]]],
  ];
  for (const [[method, path, body], others] of cases) {
    const headers = fresh(), answer = await api(method, path, body, headers);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.raw}`);
    for (const [otherMethod, otherPath, otherBody] of others) refused(await api(otherMethod, otherPath, otherBody, headers), `${method} ${path}, then ${otherMethod} ${otherPath} ${JSON.stringify(otherBody)}`);
    const again = await api(method, path, body, headers);
    assert.deepEqual([again.status, again.body], [answer.status, answer.body], `${method} ${path} again`);
  }
  assert.equal((await must('GET', at(two, second))).description, '');
  assert.deepEqual((await must('GET', `/event_subscriptions/${there.id}`)).sources.map(({ type }) => type), ['vault_created.v0', 'vault_deleted.v0']);
  await must('GET', `/edges/https/${one.id}`);
});

test('a request is the same however it is spelled, and whatever it was to meet', async () => {
  const headers = fresh();
  const made = await api('POST', '/ip_policies', '{"description": "a", "metadata": "b"}', headers);
  assert.equal(made.status, 201);
  assert.equal((await api('POST', '/ip_policies', '{"metadata":"b",\n"description":"\\u0061"}', headers)).body.id, made.body.id);
  const patch = fresh(), where = `/ip_policies/${made.body.id}`;
  assert.equal((await api('PATCH', where, { description: 'c' }, { ...patch, 'If-Match': made.headers.etag })).status, 200);
  assert.equal((await api('PATCH', where, { description: 'c' }, { ...patch, 'If-Match': made.headers.etag })).status, 200, 'the tag was good when it was done');
});

test('requests that come at once under one key: one of them is done, its likes get its answer, the others are refused', async () => {
  const headers = fresh(), mark = unique('race');
  const answers = await Promise.all(Array.from({ length: 24 }, (_, i) => api('POST', '/ip_policies', { metadata: mark, description: `${i % 3}` }, headers)));
  const done = answers.filter((answer) => answer.status === 201);
  assert.equal(new Set(done.map(({ body }) => body.id)).size, 1);
  assert.equal(done.length, 8, 'those that asked for the same');
  for (const answer of answers.filter((one) => one.status !== 201)) refused(answer, 'another body');
  assert.equal((await must('GET', `/ip_policies?filter=${encodeURIComponent(`obj.metadata == "${mark}"`)}`)).ip_policies.length, 1);
  const deletes = fresh(), pair = await Promise.all([0, 1].map(() => must('POST', '/ip_policies', {})));
  const gone = await Promise.all(Array.from({ length: 16 }, (_, i) => api('DELETE', `/ip_policies/${pair[i % 2].id}`, undefined, deletes)));
  const left = await Promise.all(pair.map(({ id }) => api('GET', `/ip_policies/${id}`)));
  assert.deepEqual(left.map(({ status }) => status).sort(), [200, 404], 'one of them');
  gone.forEach((answer, i) => (left[i % 2].status === 404 ? assert.equal(answer.status, 204) : refused(answer, 'the other')));
});

test('what failed used up no key, and a key is its account\'s own', async () => {
  const headers = fresh(), other = account();
  assert.equal((await api('POST', '/ip_policies', { nope: 1 }, headers)).status, 400);
  assert.equal((await api('POST', '/ip_policies', { description: 'x'.repeat(256) }, headers)).status, 400);
  const mine = await api('POST', '/ip_policies', { description: 'mine' }, headers);
  const its = await other.api('POST', '/ip_policies', { description: 'its' }, headers);
  assert.deepEqual([mine.status, its.status], [201, 201]);
  assert.equal(mine.body.description, 'mine');
  assert.equal(its.body.description, 'its');
});

test('of requests from before there were fingerprints, the operation and the object count', async () => {
  const [one, two] = [await must('POST', '/ip_policies', {}), await must('POST', '/ip_policies', {})];
  const headers = fresh(), create = fresh();
  assert.equal((await api('DELETE', `/ip_policies/${one.id}`, undefined, headers)).status, 204);
  const made = await api('POST', '/ip_policies', {}, create);
  for (const key of [headers, create]) sql('routes', `UPDATE request SET fingerprint = NULL WHERE key LIKE '%key:${key['Idempotency-Key']}'`);
  assert.equal((await api('DELETE', `/ip_policies/${one.id}`, undefined, headers)).status, 204);
  refused(await api('DELETE', `/ip_policies/${two.id}`, undefined, headers), 'another object');
  assert.equal((await api('POST', '/ip_policies', {}, create)).body.id, made.body.id);
  refused(await api('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [two.id] }, create), 'another kind');
});

test('what is kept of a request tells nothing of its body', async () => {
  const name = unique('s'), vault = await must('POST', '/vaults', { name });
  const headers = fresh(), value = `secret-${name}`;
  const made = await api('POST', '/vault_secrets', { name: 's', value, vault_id: vault.id }, headers);
  assert.equal(made.status, 201, made.raw);
  const kept = sql('identity', `SELECT to_jsonb(request) FROM request WHERE key LIKE '%key:${headers['Idempotency-Key']}'`);
  assert.match(JSON.parse(kept).fingerprint, /^[0-9a-f]{64}$/);
  assert.ok(!kept.includes(value));
  assert.deepEqual((await api('POST', '/vault_secrets', { name: 's', value, vault_id: vault.id }, headers)).body, made.body);
  refused(await api('POST', '/vault_secrets', { name: 's', value: `${value}x`, vault_id: vault.id }, headers), 'another value');
});

test('requests are remembered for as long at least as one may come again', { skip: elsewhere }, () => {
  const needed = ['database-url=x', 'master-key=/nowhere/key', 'rpc=inproc://rpc', 'events=inproc://events'].map((setting) => `--${setting}`);
  const start = (seconds) => spawnSync(path.join(home, 'bin/postern-identity'), [...needed, `--idempotency-seconds=${seconds}`], { encoding: 'utf8', env: { PATH: process.env.PATH }, timeout: 120000 }).stderr;
  assert.match(start('59'), /POSTERN_IDEMPOTENCY_SECONDS \(--idempotency-seconds\) must be a number from 60 /);
  assert.match(start('60'), /cannot start: .*\/nowhere\/key/);
});
