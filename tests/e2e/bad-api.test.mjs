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
  ['half JSON of somebody unknown', 401, 106, 'POST', '/api_keys', '{"description":', { Authorization: `Bearer ${ksuid}_${'x'.repeat(21)}` }],
  ['more values than fit', 413, 117, 'POST', '/api_keys', `{"a":[${'{},'.repeat(300000)}{}]}`],
  ['half JSON, and values without end', 413, 117, 'POST', '/api_keys', `{"a":[${'[],'.repeat(300000)}`],
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
  ...['request_headers', 'response_headers'].flatMap((module) => ['Postern-Request-Id', 'x-postern-a', 'HTTP2-Settings', 'Trailer'].flatMap((name) => [
    [`${name} added by ${module}`, 400, 164, ...routed({ [module]: { add: { [name]: '5' } } })],
    [`${name} removed by ${module}`, 400, 164, ...routed({ [module]: { remove: [name] } })]])),
  ...['Postern-Request-Id', 'x-postern-a', 'Upgrade', 'Keep-Alive', 'TE', 'Trailer', 'Proxy-Connection', 'HTTP2-Settings', 'Connection', 'Content-Length', 'Transfer-Encoding', 'Date', 'Server'].map((name) =>
    [`${name} of a fixed answer`, 400, 181, 'POST', '/backends/http_response', { headers: { [name]: 'x' } }]),
  ['host removed', 400, 165, ...routed({ request_headers: { remove: ['Host'] } })],
  ['bad expression', 400, 166, ...routed({ user_agent_filter: { deny: ['('] } })],
  ['webhook provider', 400, 167, ...routed({ webhook_verification: { provider: 'nobody', secret: 'x' } })],
  ['webhook without secret', 400, 168, ...routed({ webhook_verification: { provider: 'github' } })],
  ['sns with secret', 400, 168, ...routed({ webhook_verification: { provider: 'sns', secret: 'x' } })],
  ['a provider that signs as nobody knows', 400, 219, ...routed({ webhook_verification: { provider: 'Orbit', secret: 'x' } }), {}, 'webhook_verification.provider'],
  ['webhook secret that is no base64', 400, 168, ...routed({ webhook_verification: { provider: 'svix', secret: 'whsec_#' } }), {}, 'webhook_verification.secret'],
  ['webhook secret that is no public key', 400, 168, ...routed({ webhook_verification: { provider: 'sendgrid', secret: 'AAAA' } }), {}, 'webhook_verification.secret'],
  ['webhook secret that is no pair', 400, 168, ...routed({ webhook_verification: { provider: 'vmware', secret: 'user:password' } }), {}, 'webhook_verification.secret'],
  ['no OAuth provider', 400, 169, ...routed({ oauth: { provider: {} } })],
  ['two OAuth providers', 400, 169, ...routed({ oauth: { provider: { github: {}, google: {} } } })],
  ['client id alone', 400, 170, ...routed({ oauth: { provider: { github: { client_id: 'x' } } } })],
  ['scopes without application', 400, 171, ...routed({ oauth: { provider: { github: { scopes: ['x'] } } } })],
  ['no managed application', 400, 172, ...routed({ oauth: { provider: { amazon: {} } } })],
  ['no application of the operator', 400, 172, ...routed({ oauth: { provider: { twitch: {} } } }), {}, 'oauth.provider.twitch'],
  ['e-mail with two ats', 400, 173, ...routed({ oauth: { provider: { github: { email_addresses: ['a@evil.com@good.com'] } } } })],
  ['upper-case domain', 400, 173, ...routed({ oauth: { provider: { github: { email_domains: ['Good.com'] } } } })],
  ['cookie prefix', 400, 174, ...routed({ oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's', cookie_prefix: 'a b' } })],
  ['session of two years', 400, 175, ...routed({ oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's', inactivity_timeout: 63072000 } })],
  ['issuer without TLS', 400, 176, ...routed({ oidc: { issuer: 'http://a.test', client_id: 'c', client_secret: 's' } })],
  ['issuer with a user', 400, 176, ...routed({ oidc: { issuer: 'https://a@b.test', client_id: 'c', client_secret: 's' } })],
  ['e-mail of oidc with two ats', 400, 173, ...routed({ oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's', email_addresses: ['a@evil.com@good.com'] } }), {}, 'oidc.email_addresses[0]'],
  ['upper-case domain of oidc', 400, 173, ...routed({ oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's', email_domains: ['Good.com'] } }), {}, 'oidc.email_domains[0]'],
  ['groups of oidc that are no list', 400, 121, ...routed({ oidc: { issuer: 'https://a.test', client_id: 'c', client_secret: 's', groups: 'staff' } }), {}, 'oidc.groups'],
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

test('a_slow_client_is_cut_off', { timeout: 280000 }, async () => {
  const url = new URL(env.POSTERN_API_URL);
  const socket = net.connect(Number(url.port), url.hostname);
  let seconds = 0;
  socket.write('GET /api_keys HTTP/1.1\r\n');
  const drip = setInterval(() => { seconds++; socket.write('x'); }, 1000);
  await new Promise((resolve) => { socket.on('close', resolve); socket.on('error', resolve); });
  clearInterval(drip);
  assert.ok(seconds < 30);
});

// ---- framing, byte by byte ----

// Bytes as they are; resolves with what came back and whether the connection was closed by then.
function bytes(text, { wait = 120000, end = /$^/ } = {}) {
  const url = new URL(env.POSTERN_API_URL);
  return new Promise((resolve) => {
    const socket = net.connect(Number(url.port), url.hostname, () => socket.write(Buffer.from(text, 'latin1')));
    const parts = [];
    const done = (closed) => { clearTimeout(timer); socket.destroy(); resolve({ text: Buffer.concat(parts).toString('latin1'), closed }); };
    const timer = setTimeout(() => done(false), wait);
    socket.on('data', (part) => { parts.push(part); if (end.test(Buffer.concat(parts).toString('latin1'))) done(false); });
    socket.on('error', () => {});
    socket.on('close', () => done(true));
  });
}
const statuses = (text) => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
const keyed = `Authorization: Bearer ${env.POSTERN_API_KEY}\r\nService-Version: 2\r\n`;
const host = 'Host: api\r\n';
const hiddenName = unique('hidden');
const hiddenBody = JSON.stringify({ description: hiddenName });
const hidden = `POST /ip_policies HTTP/1.1\r\n${host}${keyed}Content-Type: application/json\r\nContent-Length: ${hiddenBody.length}\r\n\r\n${hiddenBody}`;
const get = (rest, target = '/api_keys?limit=1') => `GET ${target} HTTP/1.1\r\n${host}${keyed}${rest}`;
const post = (rest) => `POST /ip_policies HTTP/1.1\r\n${host}${keyed}Content-Type: application/json\r\n${rest}`;

// Each has a request hidden where another reader would see one.
const framings = [
  ['two lengths', 400, 220, get(`Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n`)],
  ['two lengths, the second 0', 400, 220, post(`Content-Length: ${hidden.length}\r\nContent-Length: 0\r\n\r\n`)],
  ['two equal lengths', 400, 220, get('Content-Length: 0\r\nContent-Length: 0\r\n\r\n')],
  ['a list of lengths', 400, 220, get('Content-Length: 0, 0\r\n\r\n')],
  ['a length with a sign', 400, 220, get('Content-Length: +0\r\n\r\n')],
  ['a length that is no number', 400, 220, get('Content-Length: x\r\n\r\n')],
  ['a length and chunks', 400, 220, post(`Content-Length: ${hidden.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`)],
  ['chunks and a length', 400, 220, post(`Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`)],
  ['another coding before chunked', 400, 220, post('Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n')],
  ['another coding', 400, 220, post('Transfer-Encoding: identity\r\n\r\n')],
  ['a coding by another spelling', 400, 220, post('Transfer-Encoding: xchunked\r\n\r\n')],
  ['chunked twice', 400, 220, post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')],
  ['a coding with white space before the colon', 400, 220, post('Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n')],
  ['a chunk size with a sign', 400, 220, post('Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n')],
  ['a chunk size of 20 digits', 400, 220, post('Transfer-Encoding: chunked\r\n\r\n10000000000000000000\r\n\r\n')],
  ['a chunk that is longer than it says', 400, 220, post('Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n')],
  ['a chunk line that ends with LF', 400, 220, post('Transfer-Encoding: chunked\r\n\r\n0\n\n')],
  ['two hosts', 400, 220, get('Host: other\r\n\r\n')],
  ['no host', 400, 220, `GET /api_keys HTTP/1.1\r\n${keyed}\r\n`],
  ['a host with user information', 400, 220, `GET /api_keys HTTP/1.1\r\nHost: a@b\r\n${keyed}\r\n`],
  ['two keys', 400, 220, get('Authorization: Bearer x\r\n\r\n')],
  ['NUL in a value', 400, 220, get('X-A: a\0b\r\n\r\n')],
  ['NUL that ends a length', 400, 220, get(`Content-Length: 0\0${hidden.length}\r\n\r\n`)],
  ['NUL in a name', 400, 220, get('X-\0A: a\r\n\r\n')],
  ['NUL in the target', 400, 220, get('\r\n', '/api_keys\0')],
  ['a control character in a value', 400, 220, get('X-A: a\x01b\r\n\r\n')],
  ['CR in a value', 400, 220, get('X-A: a\rContent-Length: 9\r\n\r\n')],
  ['LF in place of CR LF', 400, 220, get('X-A: a\nX-B: b\r\n\r\n')],
  ['a folded header', 400, 220, get('X-A: a\r\n Content-Length: 9\r\n\r\n')],
  ['a header without a colon', 400, 220, get('nothing\r\n\r\n')],
  ['a header without a name', 400, 220, get(': x\r\n\r\n')],
  ['a name with a space', 400, 220, get('X A: x\r\n\r\n')],
  ['a name with a slash', 400, 220, get('X/A: x\r\n\r\n')],
  ['a space before the version', 400, 220, `GET /api_keys  HTTP/1.1\r\n${host}\r\n`],
  ['a target with a fragment', 400, 220, get('\r\n', '/api_keys#x')],
  ['a URL of another scheme', 400, 220, get('\r\n', 'ftp://api/api_keys')],
  ['a URL with user information', 400, 220, get('\r\n', 'http://u@api/api_keys')],
  ['HTTP/0.9', 400, 220, 'GET /healthz\r\n'],
  ['TLS', 400, 220, '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['HTTP/2 in clear', 505, 222, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['HTTP/1.2', 505, 222, `GET /healthz HTTP/1.2\r\n${host}\r\n`],
  ['TRACE', 501, 221, `TRACE /healthz HTTP/1.1\r\n${host}${keyed}\r\n`],
  ['CONNECT', 501, 221, `CONNECT api:443 HTTP/1.1\r\n${host}\r\n`],
  ['a method that nobody has', 501, 221, `BREW /healthz HTTP/1.1\r\n${host}\r\n`],
  ['a head of 40 KiB', 431, 223, get(`X-A: ${'x'.repeat(40960)}\r\n\r\n`)],
  ['101 headers', 431, 223, get('X-A: x\r\n'.repeat(101) + '\r\n')],
  ['an expectation that nobody meets', 417, 225, get('Expect: tea\r\n\r\n')],
  ['a length of 10 GiB', 413, 117, post('Content-Length: 10737418240\r\n\r\n')],
];

for (const [what, status, code, text] of framings)
  test(`framing: ${what}`, async () => {
    const answer = await bytes(text + hidden);
    assert.deepEqual(statuses(answer.text), [status], answer.text);
    assert.ok(answer.closed, 'nothing behind it is read');
    assert.match(answer.text, /\r\nContent-Type: application\/json\r\n/);
    const body = JSON.parse(answer.text.slice(answer.text.indexOf('\r\n\r\n') + 4));
    assert.equal(body.error_code, `ERR_POSTERN_${code}`);
    assert.equal(body.status_code, status);
    assert.ok(body.msg.length > 10, body.msg);
    assert.match(body.details.operation_id, /^op_/);
  });

test('framing: no hidden request was executed', async () => {
  const { body } = await api('GET', `/ip_policies?filter=${encodeURIComponent(`obj.description == "${hiddenName}"`)}`);
  assert.deepEqual(body.ip_policies, []);
});

test('framing: requests behind one another are answered in their order', async () => {
  const one = `GET /healthz HTTP/1.1\r\n${host}\r\n`;
  const { text } = await bytes(`\r\n${one}${get('\r\n')}${one}GET /nothing HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
  assert.deepEqual(statuses(text), [200, 200, 200, 404], text);
});

test('framing: chunks in any pieces, with extensions and trailers', async () => {
  const name = unique('chunked');
  const json = JSON.stringify({ description: name });
  const chunks = [...json].map((c) => `1;x=y\r\n${c}\r\n`).join('');
  const { text, closed } = await bytes(post(`Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunks}0\r\nX-T: 1\r\n\r\n`));
  assert.deepEqual(statuses(text), [201], text);
  assert.ok(closed && text.includes(name));
});

test('framing: 100-continue is said before a body that is awaited, and not before one that is refused', async () => {
  const name = JSON.stringify({ description: unique('continue') });
  const url = new URL(env.POSTERN_API_URL);
  const socket = net.connect(Number(url.port), url.hostname);
  let got = '';
  socket.on('data', (part) => { got += part; if (got === 'HTTP/1.1 100 Continue\r\n\r\n') socket.write(name); });
  socket.write(post(`Expect: 100-continue\r\nContent-Length: ${name.length}\r\nConnection: close\r\n\r\n`));
  await new Promise((resolve) => socket.on('close', resolve));
  assert.deepEqual(statuses(got), [100, 201], got);
  const { text } = await bytes(post('Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n'));
  assert.deepEqual(statuses(text), [413], text);
});

test('absolute form is served by its path', async () => {
  const { text } = await bytes(get('Connection: close\r\n\r\n', 'http://api.example.test:1/api_keys?limit=1'));
  assert.deepEqual(statuses(text), [200], text);
  assert.match(text, /"keys":/);
  assert.deepEqual(statuses((await bytes(`GET http://api HTTP/1.1\r\n${host}${keyed}Connection: close\r\n\r\n`)).text), [200]);
});

test('HEAD is GET without the body', async () => {
  for (const path of ['/healthz', '/api_keys?limit=1', `/ip_policies/ipp_${ksuid}`, '/nothing', '/docs', '/openapi.json', '/errors/ERR_POSTERN_220']) {
    const [got, head] = [await api('GET', path), await api('HEAD', path)];
    assert.equal(head.status, got.status, path);
    assert.equal(head.raw, '');
    assert.equal(head.headers['content-type'], got.headers['content-type']);
    assert.ok(Number(head.headers['content-length']) > 0, path);
  }
  const { text } = await bytes(`HEAD /nothing HTTP/1.1\r\n${host}\r\nGET /healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
  assert.deepEqual(statuses(text), [404, 200], text);
});

test('HTTP/1.0 has one request, and several where the client asks for it', async () => {
  const { text, closed } = await bytes('GET /healthz HTTP/1.0\r\n\r\n');
  assert.deepEqual(statuses(text), [200], text);
  assert.ok(closed);
  const kept = await bytes('GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n');
  assert.deepEqual(statuses(kept.text), [200, 200], kept.text);
});

for (const [what, start] of [['head', `POST /api_keys HTTP/1.1\r\n${host}X-A: `], ['body', post('Content-Length: 1000\r\n\r\n')]])
  test(`a ${what} that trickles is answered 408 when its time is over`, { timeout: 280000 }, async () => {
    const url = new URL(env.POSTERN_API_URL);
    const socket = net.connect(Number(url.port), url.hostname, () => socket.write(start));
    let got = '';
    socket.on('data', (part) => { got += part; });
    socket.on('error', () => {});
    const drip = setInterval(() => socket.write('x'), 500);
    await new Promise((resolve) => socket.on('close', resolve));
    clearInterval(drip);
    assert.deepEqual(statuses(got), [408], got);
    assert.match(got, /ERR_POSTERN_224/);
  });

test('after_all_that_the_api_still_answers', async () => {
  assert.equal((await api('GET', `/edges/https/${front.id}`)).status, 200);
  assert.equal((await api('GET', `/backends/http_response/${backend.id}`)).status, 200);
});
