// What official clients send, byte for byte: generated code in other languages says "not given" with "", 0, [] and {}, sends
// lists that nobody touched, repeats what cannot change, and leaves a body out that has nothing to say.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import { api, elsewhere, env, must, unique } from '../support/postern.mjs';

const refused = async (code, field, method, path, body) => {
  const answer = await api(method, path, body);
  assert.equal(answer.body.error_code, `ERR_POSTERN_${code}`, `${method} ${path} ${JSON.stringify(body)}: ${answer.raw}`);
  assert.ok(field in answer.body.details, `${field} in ${answer.raw}`);
  return answer;
};
const remove = async (...objects) => { for (const { uri } of objects) await must('DELETE', new URL(uri).pathname); };

// As the Python client asks: a method, a path and its three headers, nothing else.
const bare = (method, path, headers = {}) => new Promise((resolve, reject) => {
  const url = new URL(env.POSTERN_API_URL);
  const request = http.request({ host: url.hostname, port: url.port, method, path, headers: { 'User-Agent': 'ngrok-api-python/0.19.0/3.11.2', 'Accept-Encoding': 'gzip, deflate', Accept: '*/*', Connection: 'keep-alive', 'ngrok-version': '2', authorization: `Bearer ${env.POSTERN_API_KEY}`, ...headers } }, (response) => {
    let text = '';
    response.on('data', (part) => { text += part; });
    response.on('end', () => resolve({ status: response.statusCode, body: text ? JSON.parse(text) : undefined, text }));
  });
  request.on('error', reject);
  request.end();
});

test('an empty reference, time, choice or size was not given', async () => {
  // the Go client of Terraform's provider
  const domain = await must('POST', '/reserved_domains', { domain: unique('client'), region: '', description: '', metadata: '', certificate_id: '' });
  assert.deepEqual([domain.certificate, domain.region], [null, '']);
  assert.equal((await must('PATCH', `/reserved_domains/${domain.id}`, { description: 'x', certificate_id: '' })).description, 'x');
  await refused(127, 'certificate_id', 'PATCH', `/reserved_domains/${domain.id}`, { certificate_id: 'x' });
  await refused(121, 'certificate_id', 'PATCH', `/reserved_domains/${domain.id}`, { certificate_id: 0 });
  await refused(121, 'certificate_id', 'PATCH', `/reserved_domains/${domain.id}`, { certificate_id: [] });

  // Python: secrets.create(vault_name=…)
  const vault = await must('POST', '/vaults', { name: unique('vault') });
  const secret = await must('POST', '/vault_secrets', { name: 'a', value: 'v', metadata: '', description: '', vault_id: '', vault_name: vault.name });
  assert.equal(secret.vault.id, vault.id);
  await refused(122, 'vault_id', 'POST', '/vault_secrets', { name: 'b', value: 'v', vault_id: '', vault_name: '' });
  await refused(122, 'value', 'POST', '/vault_secrets', { name: 'b', value: '', vault_id: vault.id });

  // Python: ssh_certificate_authorities.create(), and what it makes certificates with
  for (const [given, type] of [[{ private_key_type: '', elliptic_curve: '', key_size: 0 }, 'ed25519'], [{ private_key_type: 'ecdsa', elliptic_curve: '', key_size: 0 }, 'ecdsa'], [{ private_key_type: 'rsa', elliptic_curve: '', key_size: 0 }, 'rsa']]) {
    const authority = await must('POST', '/ssh_certificate_authorities', { description: '', metadata: '', ...given });
    assert.equal(authority.key_type, type);
    if (type === 'ed25519') {
      const body = { ssh_certificate_authority_id: authority.id, public_key: authority.public_key, principals: [], valid_after: '', valid_until: '', description: '', metadata: '' };
      for (const path of ['/ssh_host_certificates', '/ssh_user_certificates']) {
        const made = await must('POST', path, body);
        assert.match(made.valid_after, /^20/);
        assert.ok(made.valid_until > made.valid_after);
        await refused(202, 'valid_after', 'POST', path, { ...body, valid_after: 'x' });
        await refused(122, 'ssh_certificate_authority_id', 'POST', path, { ...body, ssh_certificate_authority_id: '' });
        await remove(made);
      }
    }
    await remove(authority);
  }
  await refused(197, 'key_size', 'POST', '/ssh_certificate_authorities', { private_key_type: 'rsa', key_size: 1 });

  const edge = await must('POST', '/edges/https', {});
  const route = await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', circuit_breaker: { tripped_duration: 0, rolling_window: 0, num_buckets: 0, volume_threshold: 0, error_threshold_percentage: 0 } });
  assert.deepEqual(route.circuit_breaker, { enabled: true, tripped_duration: 10, rolling_window: 10, num_buckets: 10, volume_threshold: 0, error_threshold_percentage: 0 });
  const { min_version, terminate_at } = await must('PUT', `/edges/https/${edge.id}/tls_termination`, { min_version: '' });
  assert.deepEqual([min_version, terminate_at], [null, 'edge']);
  await refused(122, 'match_type', 'POST', `/edges/https/${edge.id}/routes`, { match_type: '', match: '/x' });
  await remove(edge, secret, vault, domain);
});

test('an empty value in a query is none', async () => {
  const keys = await must('GET', '/api_keys?limit=100');
  assert.deepEqual(await must('GET', '/api_keys?before_id=&limit='), { ...keys, uri: keys.uri });
  await must('GET', '/api_keys?before_id=&limit=&filter=');
  assert.equal((await must('GET', '/api_keys?limit=&limit=1')).keys.length, 1);
  const all = await must('GET', '/endpoints?limit=100');
  assert.deepEqual(await must('GET', '/endpoints?id=&url=&limit=100'), all);
  assert.equal((await api('GET', '/api_keys?colour=')).body.error_code, 'ERR_POSTERN_131', 'known ones only');
  assert.equal((await api('GET', `/api_keys/ak_${'0'.repeat(27)}?limit=`)).body.error_code, 'ERR_POSTERN_131');
});

test('lists, maps and objects that a client sends empty in every update stay', async () => {
  const to = await must('POST', '/backends/static', { address: 'a.test:80' });
  const policy = await must('POST', '/ip_policies', {});
  const domain = unique('client');
  const rows = [
    ['/backends/weighted', { backends: { [to.id]: 7 } }, 'backends', {}],
    ['/backends/failover', { backends: [to.id] }, 'backends', []],
    ['/backends/tunnel_group', { labels: { app: 'x' } }, 'labels', {}],
    ['/backends/static', { address: 'a.test:443', tls: { enabled: true } }, 'tls', {}],
    ['/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] }, 'ip_policy_ids', [], 'ip_policies'],
    ['/event_subscriptions', { sources: [{ type: 'vault_created.v0' }] }, 'sources', []],
    ['/reserved_domains', { domain, resolves_to: [{ value: 'us' }] }, 'resolves_to', []],
    ['/credentials', { acl: ['bind:x'] }, 'acl', []],
  ];
  for (const [path, body, field, empty, shown = field] of rows) {
    const made = await must('POST', path, body);
    const changed = await must('PATCH', `${path}/${made.id}`, { description: 'new', [field]: empty });
    assert.deepEqual([changed.description, changed[shown]], ['new', made[shown]], path);
    assert.deepEqual((await must('GET', `${path}/${made.id}`))[shown], made[shown], path);
    await refused(121, field, 'PATCH', `${path}/${made.id}`, { [field]: 1 });
    await remove(made);
  }
  await refused(162, 'ip_policy_ids', 'POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [] });
  await remove(to, policy);
});

test('other lists and maps are emptied by an update, which takes away reach and no restriction', async () => {
  const host = unique('emptied');
  const domain = await must('POST', '/reserved_domains', { domain: host });
  const destination = await must('POST', '/event_destinations', { target: { datadog: { api_key: 'k', ddsite: 'datadoghq.com' } }, format: 'JSON' });
  const rows = [
    ['/edges/https', { hostports: [`${host}:443`] }, 'hostports', []],
    ['/edges/tls', { hostports: [`${host}:443`] }, 'hostports', []],
    ['/backends/http_response', { headers: { a: 'b' } }, 'headers', {}],
    ['/event_subscriptions', { sources: [{ type: 'vault_created.v0' }], destination_ids: [destination.id] }, 'destination_ids', [], 'destinations'],
  ];
  for (const [path, body, field, empty, shown = field] of rows) {
    const made = await must('POST', path, body);
    assert.deepEqual((await must('PATCH', `${path}/${made.id}`, { description: 'new' }))[shown], made[shown], `${path}: absent stays`);
    assert.deepEqual((await must('PATCH', `${path}/${made.id}`, { [field]: empty }))[shown], empty, path);
    await remove(made);
  }
  await remove(destination, domain);
});

test('an update without a body and its type says nothing', async () => {
  const key = await must('POST', '/api_keys', { description: 'd', metadata: 'm' });
  const same = await bare('PATCH', `/api_keys/${key.id}`);
  assert.deepEqual([same.status, same.body.description, same.body.metadata], [200, 'd', 'm'], same.text);
  const policy = await must('POST', '/ip_policies', {});
  assert.equal((await bare('PATCH', `/ip_policies/${policy.id}`)).body.error_code, 'ERR_POSTERN_125', 'where an update must say something it says that');
  const subscription = await must('POST', '/event_subscriptions', { sources: [{ type: 'vault_created.v0' }] });
  const source = await bare('PATCH', `/event_subscriptions/${subscription.id}/sources/vault_created.v0`);
  assert.deepEqual([source.status, source.body], [200, subscription.sources[0]]);
  const edge = await must('POST', '/edges/tls', {});
  const module = await bare('PUT', `/edges/tls/${edge.id}/tls_termination`);
  assert.deepEqual([module.status, module.body?.terminate_at], [200, 'edge'], module.text);
  assert.equal((await bare('PUT', `/edges/tls/${edge.id}/backend`)).status, 400, 'what a module must have is still asked for');
  assert.equal((await bare('POST', '/api_keys')).body.error_code, 'ERR_POSTERN_112', 'a create says something');
  const form = await api('PATCH', `/api_keys/${key.id}`, 'a=b', { 'Content-Type': 'text/plain' });
  assert.equal(form.body.error_code, 'ERR_POSTERN_113');
  await remove(key, policy, subscription, edge);
});

test('a fixed field may be sent again as it is', async () => {
  const policy = await must('POST', '/ip_policies', {});
  const domain = await must('POST', '/reserved_domains', { domain: unique('client'), region: 'eu' });
  const authority = await must('POST', '/ssh_certificate_authorities', {});
  const vault = await must('POST', '/vaults', { name: unique('vault') });
  const rows = [
    [await must('POST', '/reserved_addrs', {}), { region: 'us' }, { region: 'eu' }],
    [domain, { region: 'eu', domain: domain.domain.toUpperCase() }, { region: 'us' }],
    [await must('POST', '/ip_policy_rules', { cidr: '192.0.2.0/24', action: 'deny', ip_policy_id: policy.id }), { action: 'deny', ip_policy_id: policy.id }, { action: 'allow' }],
    [await must('POST', '/vault_secrets', { name: 'a', value: 'v', vault_id: vault.id }), { vault_id: vault.id, vault_name: vault.name }, { vault_name: 'another' }],
    [await must('POST', '/ssh_host_certificates', { ssh_certificate_authority_id: authority.id, public_key: authority.public_key, principals: ['a.test'], valid_after: '2030-01-01T01:00:00+01:00', valid_until: '2031-01-01T00:00:00Z' }),
      { ssh_certificate_authority_id: authority.id, public_key: authority.public_key, principals: ['a.test'], valid_after: '2030-01-01T00:00:00Z', valid_until: '2031-01-01T00:00:00Z' }, { principals: [] }],
    [authority, { elliptic_curve: '', key_size: 0 }, { private_key_type: 'rsa' }],
    [await must('POST', '/credentials', {}), { owner_id: '' }, { owner_id: `usr_${'0'.repeat(27)}` }],
  ];
  for (const [made, again, other] of rows) {
    const path = new URL(made.uri).pathname;
    const changed = await must('PATCH', path, { ...again, description: 'again' });
    // when it was changed is all else that may differ
    assert.ok(!made.updated_at || changed.updated_at >= made.updated_at, `${path} ${changed.updated_at}`);
    assert.deepEqual({ ...changed, token: 0, updated_at: made.updated_at }, { ...made, description: 'again', token: 0, updated_at: made.updated_at }, path);
    const [[name, value]] = Object.entries(other);
    await refused(126, name, 'PATCH', path, { ...again, ...other });
    await refused(126, name, 'PATCH', path, { [name]: value, description: 'never' });
    await refused(126, name, 'PATCH', path, { [name]: { a: 'wrong type' } });
    assert.equal((await must('GET', path)).description, 'again');
  }
  await must('PATCH', new URL(rows[0][0].uri).pathname, { region: 'us' });
  await remove(...rows.map(([made]) => made).filter((made) => made !== authority && made.principals), ...rows.map(([made]) => made).filter((made) => !made.principals), policy, vault);
});

test('a domain says where it resolves to only when somebody said', async () => {
  for (const given of [{}, { resolves_to: [] }, { resolves_to: null }]) {
    const made = await must('POST', '/reserved_domains', { domain: unique('client'), ...given });
    assert.equal(made.resolves_to, null);
    assert.equal((await must('GET', `/reserved_domains/${made.id}`)).resolves_to, null);
    const set = await must('PATCH', `/reserved_domains/${made.id}`, { resolves_to: [{ value: 'eu' }] });
    assert.deepEqual(set.resolves_to, [{ value: 'eu' }]);
    await remove(made);
  }
});

test('older clients call the domain of a reservation its name', async () => {
  const name = unique('client');
  const made = await must('POST', '/reserved_domains', { name, region: '', description: '', metadata: '' });
  assert.equal(made.domain, name);
  assert.ok(!('name' in made));
  const path = `/reserved_domains/${made.id}`;
  assert.equal((await must('PATCH', path, { name, description: 'x' })).description, 'x');
  await refused(126, 'domain', 'PATCH', path, { name: unique('other') });
  await refused(240, 'name', 'PATCH', path, { name, domain: unique('other') });
  await refused(240, 'name', 'POST', '/reserved_domains', { name: unique('one'), domain: unique('two') });
  await refused(122, 'domain', 'POST', '/reserved_domains', { name: '' });
  await refused(182, 'domain', 'POST', '/reserved_domains', { name: 'a b' });
  await refused(120, 'name', 'POST', '/reserved_addrs', { name });
  const both = unique('both');
  for (const body of [{ name: both, domain: both }, { name: both, domain: '' }, { name: null, domain: both }]) await remove(await must('POST', '/reserved_domains', body));
  await remove(made);
});

test('ids and urls ask for endpoints as id and url do', async () => {
  const domains = [unique('a'), unique('b')];
  const reserved = await Promise.all(domains.map((domain) => must('POST', '/reserved_domains', { domain })));
  const edge = await must('POST', '/edges/https', { hostports: domains.map((domain) => `${domain}:443`) });
  const urls = domains.map((domain) => `https://${domain}`);
  const { endpoints } = await must('GET', `/endpoints?urls=${encodeURIComponent(urls.join(','))}`);
  assert.deepEqual(endpoints.map(({ url }) => url).sort(), urls.sort());
  assert.deepEqual((await must('GET', `/endpoints?ids=${endpoints[0].id}`)).endpoints, [endpoints[0]]);
  assert.deepEqual((await must('GET', `/endpoints?ids=${endpoints[0].id}&id=${endpoints[1].id}`)).endpoints.length, 2, 'any of both');
  assert.equal((await api('GET', '/endpoints?idss=x')).body.error_code, 'ERR_POSTERN_131');
  assert.equal((await api('GET', '/endpoints?types=cloud')).body.error_code, 'ERR_POSTERN_131');
  await remove(edge, ...reserved);
});

test('a traffic event source without fields has all of them', async () => {
  const subscription = await must('POST', '/event_subscriptions', { description: '', metadata: '', sources: [{ type: 'http_request_complete.v0' }], destination_ids: [] });
  const [{ fields }] = subscription.sources;
  for (const one of ['conn.client_ip', 'http.request.method', 'http.response.status_code', 'tls.version']) assert.ok(fields.includes(one), one);
  const where = `/event_subscriptions/${subscription.id}/sources`;
  const tcp = await must('POST', where, { type: 'tcp_connection_closed.v0', filter: 'ev.conn.server_port == 443' });
  assert.ok(tcp.fields.includes('conn.bytes_in') && !tcp.fields.includes('http.request.method'), tcp.fields);
  await must('PATCH', `${where}/tcp_connection_closed.v0`, { fields: ['conn.bytes_in'] });
  assert.deepEqual((await must('PATCH', `${where}/tcp_connection_closed.v0`, {})).fields, ['conn.bytes_in'], 'what was chosen stays');
  await refused(208, 'sources[0].fields', 'POST', '/event_subscriptions', { sources: [{ type: 'http_request_complete.v0', fields: [] }] });
  assert.equal((await must('POST', where, { type: 'vault_created.v0' })).fields, null, 'an audit event is whole anyway');
  await remove(subscription);
});

test('the last rule of a policy goes while nothing enforces it', { skip: elsewhere }, async () => {
  const policy = await must('POST', '/ip_policies', {});
  const rule = () => must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' });
  const restriction = await must('POST', '/ip_restrictions', { type: 'dashboard', ip_policy_ids: [policy.id], enforced: false });
  await remove(await rule());
  const kept = await rule();
  const enforce = (on) => execFileSync('psql', [env.DATABASE_URL, '-qc', `UPDATE routes.ip_restriction SET enforced = ${on} WHERE id = '${restriction.id}'`]);
  enforce(true);
  assert.equal((await api('DELETE', `/ip_policy_rules/${kept.id}`)).body.error_code, 'ERR_POSTERN_213');
  enforce(false);
  await remove(kept, restriction, policy);
});

test('every error has a message, whatever came in', async () => {
  const paths = ['/nothing', '/%ff', '/api_keys/%ff', '/api_keys?%ff=1', '/api_keys?limit=%ff', '/api_keys?before_id=%ff', '/api_keys?filter=%ff', '/endpoints?id=%ff', `/api_keys?${'%C3%A9'.repeat(60)}=1`,
    `/api_keys?a${'%C3%A9'.repeat(60)}=1`, '/api_keys?limit=1&limit=2', '/abuse_reports', '/ai_gateway_api_keys', '/errors/ERR_POSTERN_999', '/edges/https/%ff/routes/%ff', '/tunnel_sessions/ts_x/restart'];
  for (const method of ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'])
    for (const path of paths) {
      const answer = await api(method, path, ['GET', 'DELETE'].includes(method) ? undefined : {});
      const told = `${method} ${path}: ${answer.raw}`;
      assert.ok(answer.status >= 400 && answer.status < 500, told);
      assert.ok(typeof answer.body.msg === 'string' && answer.body.msg.length > 5, told);
      assert.equal(answer.body.status_code, answer.status, told);
      assert.match(answer.body.details.operation_id, /^op_/, told);
    }
});
