// Malformed API requests, each with its answer.
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import { api, env, must, unique } from '../support/postern.mjs';

const edge = await must('POST', '/edges/https', {});
const routes = `/edges/https/${edge.id}/routes`;
const routed = (fields) => ['POST', routes, { match_type: 'path_prefix', match: `/${Math.random()}`, ...fields }];
const other = await must('POST', '/edges/https', {});
const route = await must('POST', routes, { match_type: 'path_prefix', match: '/taken' });
const backend = await must('POST', '/backends/http_response', {});
const taken = await must('POST', '/reserved_domains', { domain: unique('taken') });
const front = await must('POST', '/edges/https', { hostports: [`${taken.domain}:443`] });
const noKey = { Authorization: undefined };
const xml = '<EntityDescriptor/>';
const ksuid = '2abcdefghijklmnopqrstuvwxyz';

// [what, status, code, method, path, body, headers, field in details]
const cases = [
  ['no key', 401, 103, 'GET', '/api_keys', undefined, noKey],
  ['basic auth', 401, 104, 'GET', '/api_keys', undefined, { Authorization: 'Basic eDp5' }],
  ['malformed token', 401, 105, 'GET', '/api_keys', undefined, { Authorization: 'Bearer nonsense' }],
  ['empty token', 401, 105, 'GET', '/api_keys', undefined, { Authorization: 'Bearer ' }],
  ['unknown token', 401, 106, 'GET', '/api_keys', undefined, { Authorization: `Bearer ${ksuid}_${'x'.repeat(21)}` }],
  ['a token with one character changed', 401, 106, 'GET', '/api_keys', undefined, { Authorization: `Bearer ${env.POSTERN_API_KEY.slice(0, -1)}${env.POSTERN_API_KEY.endsWith('a') ? 'b' : 'a'}` }],
  ['key id as token', 400, 107, 'GET', '/api_keys', undefined, { Authorization: `Bearer ak_${ksuid}` }],
  ['no version', 400, 101, 'GET', '/api_keys', undefined, { 'Service-Version': undefined }],
  ['version 1', 400, 102, 'GET', '/api_keys', undefined, { 'Service-Version': '1' }],
  ['version word', 400, 102, 'GET', '/api_keys', undefined, { 'Service-Version': 'two' }],
  ['unknown path', 404, undefined, 'GET', '/nothing', undefined, {}, 'path'],
  ['path with a trailing slash', 404, undefined, 'GET', '/api_keys/', undefined, {}, 'path'],
  ['path with an escaped NUL', 404, undefined, 'GET', '/api_keys%00', undefined, {}, 'path'],
  ['wrong method', 405, undefined, 'PUT', '/api_keys', {}, {}, 'path'],
  ['no content type', 400, 112, 'POST', '/api_keys', '{}', { 'Content-Type': undefined }],
  ['form body', 415, 113, 'POST', '/api_keys', 'a=b', { 'Content-Type': 'application/x-www-form-urlencoded' }],
  ['body on GET', 400, 114, 'GET', '/api_keys', '{}'],
  ['body on DELETE', 400, 114, 'DELETE', `/api_keys/ak_${ksuid}`, '{}'],
  ['empty body', 400, 116, 'POST', '/api_keys', ''],
  ['half JSON', 400, 116, 'POST', '/api_keys', '{"description":'],
  ['JSON list', 400, 116, 'POST', '/api_keys', '[]'],
  ['JSON null', 400, 116, 'POST', '/api_keys', 'null'],
  ['duplicate key', 400, 116, 'POST', '/api_keys', '{"description":"a","description":"b"}'],
  ['trailing garbage', 400, 116, 'POST', '/api_keys', '{} x'],
  ['NUL in a string', 400, 116, 'POST', '/api_keys', '{"description":"a\\u0000b"}'],
  ['invalid UTF-8', 400, 116, 'POST', '/api_keys', Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d])],
  ['deeply nested', 400, 116, 'POST', '/api_keys', '['.repeat(100000)],
  ['body over 1 MiB', 413, 117, 'POST', '/api_keys', JSON.stringify({ metadata: 'x'.repeat(1 << 20) })],
  ['unknown field', 400, 120, 'POST', '/api_keys', { nope: 1 }, {}, 'nope'],
  ['unknown nested field', 400, 120, ...routed({ compression: { level: 9 } }), {}, 'compression.level'],
  ['read-only field', 400, 120, 'POST', '/api_keys', { token: 'mine' }, {}, 'token'],
  ['number for string', 400, 121, 'POST', '/api_keys', { description: 5 }, {}, 'description'],
  ['string for boolean', 400, 121, ...routed({ compression: { enabled: 'yes' } }), {}, 'compression.enabled'],
  ['list for object', 400, 121, ...routed({ compression: [] }), {}, 'compression'],
  ['string for list', 400, 121, 'POST', '/edges/https', { hostports: 'a:443' }, {}, 'hostports'],
  ['description of 256 bytes', 400, 123, 'POST', '/api_keys', { description: 'x'.repeat(256) }, {}, 'description'],
  ['metadata of 4097 bytes', 400, 124, 'POST', '/api_keys', { metadata: 'x'.repeat(4097) }, {}, 'metadata'],
  ['owner of nobody', 400, 128, 'POST', '/api_keys', { owner_id: `usr_${ksuid}` }, {}, 'owner_id'],
  ['immutable owner', 400, 126, 'PATCH', `/reserved_domains/${taken.id}`, { domain: 'x.example.test' }, {}, 'domain'],
  ['empty update of a domain', 400, 125, 'PATCH', `/reserved_domains/${taken.id}`, {}],
  ['limit 0', 400, 133, 'GET', '/api_keys?limit=0', undefined, {}, 'limit'],
  ['limit 101', 400, 133, 'GET', '/api_keys?limit=101', undefined, {}, 'limit'],
  ['limit word', 400, 134, 'GET', '/api_keys?limit=ten', undefined, {}, 'limit'],
  ['limit twice', 400, 132, 'GET', '/api_keys?limit=1&limit=2'],
  ['unknown parameter', 400, 131, 'GET', '/api_keys?colour=red'],
  ['parameter on GET of one', 400, 131, 'GET', `/reserved_domains/${taken.id}?limit=1`],
  ['before_id of another kind', 400, 127, 'GET', `/api_keys?before_id=${taken.id}`, undefined, {}, 'before_id'],
  ['unknown id', 404, 140, 'GET', `/reserved_domains/rd_${ksuid}`],
  ['id of another kind', 404, 146, 'GET', `/reserved_domains/${edge.id}`],
  ['malformed id', 404, undefined, 'GET', '/reserved_domains/..%2f..%2fetc', undefined, {}, 'path'],
  ['id of the wrong shape', 404, 146, 'GET', '/reserved_domains/rd_short'],
  ['id with a quote', 404, 146, 'GET', "/reserved_domains/rd_'%20OR%201=1"],
  ['delete of nothing', 404, 140, 'DELETE', `/reserved_domains/rd_${ksuid}`],
  ['route under another edge', 404, 141, 'GET', `/edges/https/${other.id}/routes/${route.id}`],
  ['route of an unknown edge', 404, 140, 'POST', `/edges/https/edghts_${ksuid}/routes`, { match_type: 'path_prefix', match: '/' }],
  ['no match', 400, 122, 'POST', routes, { match_type: 'path_prefix' }, {}, 'match'],
  ['empty match', 400, 154, 'POST', routes, { match_type: 'path_prefix', match: '' }, {}, 'match'],
  ['match with a space', 400, 155, 'POST', routes, { match_type: 'path_prefix', match: '/a b' }, {}, 'match'],
  ['match with a query', 400, 155, 'POST', routes, { match_type: 'path_prefix', match: '/a?b' }, {}, 'match'],
  ['match word', 400, 155, 'POST', routes, { match_type: 'path_prefix', match: 'word' }, {}, 'match'],
  ['match type', 400, 156, 'POST', routes, { match_type: 'regex', match: '/' }, {}, 'match_type'],
  ['match taken', 409, 157, 'POST', routes, { match_type: 'exact_path', match: '/taken' }, {}, 'match'],
  ['match taken in another spelling', 409, 157, 'POST', routes, { match_type: 'exact_path', match: '/x/../%74aken' }, {}, 'match'],
  ['two sign-in modules', 400, 158, ...routed({ saml: { idp_metadata: xml }, oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's' } })],
  ['hostport without port', 400, 150, 'POST', '/edges/https', { hostports: ['a.example.test'] }, {}, 'hostports[0]'],
  ['hostport port 70000', 400, 150, 'POST', '/edges/https', { hostports: ['a.example.test:70000'] }, {}, 'hostports[0]'],
  ['hostport not reserved', 400, 151, 'POST', '/edges/https', { hostports: ['nobody.example.test:443'] }, {}, 'hostports[0]'],
  ['hostport 8443', 400, 152, 'POST', '/edges/https', { hostports: [`${taken.domain}:8443`] }, {}, 'hostports[0]'],
  ['hostport of another edge', 409, 143, 'POST', '/edges/https', { hostports: [`${taken.domain}:443`] }, {}, 'hostports'],
  ['hostport twice', 400, 153, 'POST', '/edges/https', { hostports: [`${taken.domain}:443`, `${taken.domain}:443`] }, {}, 'hostports[1]'],
  ['TLS 1.1', 400, 159, 'POST', '/edges/https', { tls_termination: { min_version: '1.1' } }, {}, 'tls_termination.min_version'],
  ['terminate at upstream', 400, 160, 'POST', '/edges/https', { tls_termination: { terminate_at: 'upstream' } }, {}, 'tls_termination.terminate_at'],
  ['client CA that does not exist', 400, 128, 'POST', '/edges/https', { mutual_tls: { certificate_authority_ids: [`ca_${ksuid}`] } }],
  ['no client CA', 400, 162 + 1, 'POST', '/edges/https', { mutual_tls: { certificate_authority_ids: [] } }],
  ['breaker share 1.5', 400, 161, ...routed({ circuit_breaker: { error_threshold_percentage: 1.5 } })],
  ['breaker 129 buckets', 400, 161, ...routed({ circuit_breaker: { error_threshold_percentage: 1, num_buckets: 129 } })],
  ['breaker negative window', 400, 161, ...routed({ circuit_breaker: { error_threshold_percentage: 1, rolling_window: -1 } })],
  ['breaker window of more than a day', 400, 161, ...routed({ circuit_breaker: { error_threshold_percentage: 1, rolling_window: 86401 } })],
  ['no IP policy', 400, 162, ...routed({ ip_restriction: { ip_policy_ids: [] } })],
  ['header name with a space', 400, 164, ...routed({ request_headers: { add: { 'a b': 'c' } } })],
  ['header value with a newline', 400, 164, ...routed({ request_headers: { add: { a: 'b\r\nc: d' } } })],
  ['header twice in different case', 400, 164, ...routed({ request_headers: { add: { 'X-A': '1', 'x-a': '2' } } })],
  ['six headers', 400, 164, ...routed({ request_headers: { add: { a: '1', b: '2', c: '3', d: '4', e: '5', f: '6' } } })],
  ['framing header', 400, 164, ...routed({ response_headers: { add: { 'Content-Length': '5' } } })],
  ['host removed', 400, 165, ...routed({ request_headers: { remove: ['Host'] } })],
  ['bad expression', 400, 166, ...routed({ user_agent_filter: { deny: ['('] } })],
  ['webhook provider', 400, 167, ...routed({ webhook_verification: { provider: 'nobody', secret: 'x' } })],
  ['webhook without secret', 400, 168, ...routed({ webhook_verification: { provider: 'github' } })],
  ['sns with secret', 400, 168, ...routed({ webhook_verification: { provider: 'sns', secret: 'x' } })],
  ['no OAuth provider', 400, 169, ...routed({ oauth: { provider: {} } })],
  ['two OAuth providers', 400, 169, ...routed({ oauth: { provider: { github: {}, google: {} } } })],
  ['client id alone', 400, 170, ...routed({ oauth: { provider: { github: { client_id: 'x' } } } })],
  ['scopes without application', 400, 171, ...routed({ oauth: { provider: { github: { scopes: ['x'] } } } })],
  ['no managed application', 400, 172, ...routed({ oauth: { provider: { amazon: {} } } })],
  ['e-mail with two ats', 400, 173, ...routed({ oauth: { provider: { github: { email_addresses: ['a@evil.com@good.com'] } } } })],
  ['upper-case domain', 400, 173, ...routed({ oauth: { provider: { github: { email_domains: ['Good.com'] } } } })],
  ['cookie prefix', 400, 174, ...routed({ oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's', cookie_prefix: 'a b' } })],
  ['session of two years', 400, 175, ...routed({ oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's', inactivity_timeout: 63072000 } })],
  ['issuer without TLS', 400, 176, ...routed({ oidc: { issuer: 'http://a.test', client_id: 'c', client_secret: 's' } })],
  ['issuer with a user', 400, 176, ...routed({ oidc: { issuer: 'https://a@b.test', client_id: 'c', client_secret: 's' } })],
  ['metadata that is not XML', 400, 177, ...routed({ saml: { idp_metadata: 'hello' } })],
  ['metadata with a DTD', 400, 177, ...routed({ saml: { idp_metadata: '<!DOCTYPE x><EntityDescriptor/>' } })],
  ['NameID format', 400, 178, ...routed({ saml: { idp_metadata: xml, nameid_format: 'mine' } })],
  ['policy that is not YAML', 400, 179, ...routed({ traffic_policy: { value: '{' } })],
  ['policy with an unknown phase', 400, 179, ...routed({ traffic_policy: { value: 'on_coffee: []' } })],
  ['backend of another kind', 400, 127, ...routed({ backend: { backend_id: taken.id } })],
  ['backend that does not exist', 400, 128, ...routed({ backend: { backend_id: `bkdsc_${ksuid}` } })],
  ['address without port', 400, 180, 'POST', '/backends/static', { address: 'host' }],
  ['address with leading zeros', 400, 180, 'POST', '/backends/static', { address: '010.0.0.1:80' }],
  ['address with a path', 400, 180, 'POST', '/backends/static', { address: 'host/x:80' }],
  ['status 99', 400, 181, 'POST', '/backends/http_response', { status_code: 99 }],
  ['status 600', 400, 181, 'POST', '/backends/http_response', { status_code: 600 }],
  ['domain with an underscore', 400, 182, 'POST', '/reserved_domains', { domain: 'a_b.example.test' }],
  ['domain that is an address', 400, 182, 'POST', '/reserved_domains', { domain: '10.0.0.1' }],
  ['domain of 64-byte label', 400, 182, 'POST', '/reserved_domains', { domain: `${'a'.repeat(64)}.test` }],
  ['domain taken', 409, 143, 'POST', '/reserved_domains', { domain: taken.domain.toUpperCase() }],
  ['domain taken with a dot', 409, 143, 'POST', '/reserved_domains', { domain: `${taken.domain}.` }],
  ['certificate and policy', 400, 183, 'POST', '/reserved_domains', { domain: unique('x'), certificate_id: `cert_${ksuid}`, certificate_management_policy: {} }],
  ['no ACME', 400, 186, 'POST', '/reserved_domains', { domain: unique('x'), certificate_management_policy: {} }],
  ['certificate that is none', 400, 184, 'POST', '/tls_certificates', { certificate_pem: 'x', private_key_pem: 'y' }],
  ['domain in use', 409, 142, 'DELETE', `/reserved_domains/${taken.id}`],
  ['idempotency key of 100 bytes', 400, 121, 'POST', '/backends/static', { address: '127.0.0.1:1' }, { 'Idempotency-Key': 'x'.repeat(100) }],
];

test(`at_least_60_malformed_requests`, () => assert.ok(cases.length >= 60, `${cases.length} cases`));

for (const [what, status, code, method, path, body, headers, field] of cases)
  test(`bad_api: ${what}`, async () => {
    const answer = await api(method, path, body, headers);
    assert.equal(answer.status, status, answer.raw);
    assert.equal(answer.body.status_code, status);
    assert.equal(answer.body.error_code, code === undefined ? undefined : `ERR_POSTERN_${code}`, answer.raw);
    assert.match(answer.body.details.operation_id, /^op_/);
    assert.equal(answer.headers['ngrok-operation-id'], answer.body.details.operation_id);
    for (const value of Object.values(answer.body.details)) assert.equal(typeof value, 'string');
    if (field) assert.ok(field in answer.body.details, `${field} in ${answer.raw}`);
    assert.ok(!answer.raw.includes(env.POSTERN_API_KEY), 'the credential is never quoted');
  });

test('several_faults_are_reported_together', async () => {
  const { body } = await api('POST', '/backends/http_response', { status_code: 9, body: 5, nope: 1 });
  for (const field of ['status_code', 'body', 'nope']) assert.ok(field in body.details, field);
});

test('a_slow_client_is_cut_off', { timeout: 40000 }, async () => {
  const url = new URL(env.POSTERN_API_URL);
  const socket = net.connect(Number(url.port), url.hostname);
  const start = Date.now();
  socket.write('GET /api_keys HTTP/1.1\r\n');
  const drip = setInterval(() => socket.write('x'), 1000);
  await new Promise((resolve) => { socket.on('close', resolve); socket.on('error', resolve); });
  clearInterval(drip);
  assert.ok(Date.now() - start < 30000);
});

test('after_all_that_the_api_still_answers', async () => {
  assert.equal((await api('GET', `/edges/https/${front.id}`)).status, 200);
  assert.equal((await api('GET', `/backends/http_response/${backend.id}`)).status, 200);
});
