// No statement of a request reads a whole table: a missing index is a cost that grows with what users keep, and nothing else would say so.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { elsewhere, endpoint, env, must, through, unique, until } from '../support/postern.mjs';

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtF,', '-c', text], { encoding: 'utf8' }).trim();
// of tables that may be long: these have a row or a few. outbox_refused, which should have none, is counted as a whole once a period.
const scans = () => new Map(sql("SELECT schemaname || '.' || relname, seq_scan, coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname NOT IN ('config_head', 'local_authority', 'migration', 'outbox_refused')").split('\n')
  .map((line) => line.split(',')).map(([name, whole, index]) => [name, { whole: Number(whole), index: Number(index) }]));

test('every foreign key has an index: a delete looks for what refers to the row', { skip: elsewhere }, () => {
  assert.equal(sql(`SELECT c.conrelid::regclass, a.attname FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
    WHERE c.contype = 'f' AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1])`), '');
});

test('no request reads a whole table', { skip: elsewhere }, async () => {
  const work = async () => {
    const to = await endpoint({ body: 'x' });
    await through(to.host);
    const policy = await must('POST', '/ip_policies', { description: 'plans' });
    const rule = await must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' });
    const restriction = await must('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] });
    const weighted = await must('POST', '/backends/weighted', { backends: { [to.backend.id]: 1 } });
    const bot = await must('POST', '/bot_users', { name: unique('bot') });
    const key = await must('POST', '/api_keys', { owner_id: bot.id });
    const vault = await must('POST', '/vaults', { name: unique('vault') });
    const secret = await must('POST', '/vault_secrets', { vault_id: vault.id, name: 'one', value: 'x' });
    const addr = await must('POST', '/reserved_addrs', {});
    const tcp = await must('POST', '/edges/tcp', { hostports: [addr.addr] });
    const credential = await must('POST', '/credentials', {});
    const service = await must('POST', '/service_users', { name: unique('service') });
    const ingress = await must('POST', '/agent_ingresses', { domain: `${unique('in')}.example.test` });
    const destination = await must('POST', '/event_destinations', { format: 'json', target: { datadog: { api_key: 'k', ddsite: 'datadoghq.com' } } });
    const subscription = await must('POST', '/event_subscriptions', { destination_ids: [destination.id], sources: [{ type: 'api_key_created.v0' }] });
    const cloud = await must('POST', '/endpoints', { url: `https://${unique('own')}.internal`, type: 'cloud', bindings: ['internal'], traffic_policy: '{}' });
    const made = [`/endpoints/${cloud.id}`, `/event_subscriptions/${subscription.id}`, `/event_destinations/${destination.id}`, `/agent_ingresses/${ingress.id}`, `/service_users/${service.id}`, `/credentials/${credential.id}`, `/edges/tcp/${tcp.id}`, `/reserved_addrs/${addr.id}`,
      `/vault_secrets/${secret.id}`, `/vaults/${vault.id}`, `/api_keys/${key.id}`, `/bot_users/${bot.id}`, `/backends/weighted/${weighted.id}`,
      `/ip_restrictions/${restriction.id}`, `/ip_policy_rules/${rule.id}`, `/ip_policies/${policy.id}`, `/edges/https/${to.edge.id}/routes/${to.route.id}`, `/edges/https/${to.edge.id}`, `/backends/http_response/${to.backend.id}`, `/reserved_domains/${to.domain.id}`];
    for (const path of made) {
      await must('GET', path);
      await must('PATCH', path, /^.(bot|service)_users/.test(path) ? { active: true } : { description: 'plans' });
    }
    for (const list of ['/edges/https', '/ip_policies', '/ip_policy_rules', '/endpoints', '/api_keys', '/vaults', '/vault_secrets', '/reserved_domains', `/ip_policies?filter=${encodeURIComponent('obj.description == "plans"')}`]) await must('GET', list);
    for (const path of made) await must('DELETE', path);
  };
  await work(); // what is prepared and looked up once
  await must('GET', '/self');
  const before = scans();
  for (let i = 0; i < 5; i++) await work();
  // the server counts what a session did when it next has time to
  const counted = await until(async () => { for (const list of ['/edges/https', '/vaults']) await must('GET', list); const now = scans(); return now.get('routes.reserved_domain').index - before.get('routes.reserved_domain').index >= 20 && now.get('identity.vault').index - before.get('identity.vault').index >= 20 ? now : null; }, 'the counters');
  const whole = [...counted].filter(([name, now]) => now.whole - (before.get(name)?.whole ?? 0) >= 5).map(([name, now]) => `${name}: ${now.whole - (before.get(name)?.whole ?? 0)}`);
  assert.deepEqual(whole, []);
});
