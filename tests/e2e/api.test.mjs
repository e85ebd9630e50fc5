// The configuration API as its official client uses it, and its errors.
import fs from 'node:fs';
import assert from 'node:assert/strict';
import test from 'node:test';
import { api, client, elsewhere, env, healthUrls, must, through, unique, upstream } from '../support/postern.mjs';

const fails = async (call, code) => {
  let error;
  try { await call(); } catch (thrown) { error = thrown; }
  assert.ok(error, 'the call must fail');
  assert.equal(error.errorCode, `ERR_POSTERN_${code}`);
  assert.equal(typeof error.details.get('operationId'), 'string');
  return error;
};
// The client rejects a 204 with a SyntaxError although the deletion happened.
const gone = (promise) => promise.catch((error) => assert.ok(error instanceof SyntaxError, JSON.stringify(error)));

test('official_client_creates_serves_updates_and_deletes', async () => {
  const ngrok = client();
  const host = unique('client');
  const up = await upstream();

  const domain = await ngrok.reservedDomains.create({ domain: host, description: 'd', metadata: 'm' });
  assert.equal(domain.domain, host);
  assert.equal(domain.certificate, null);
  const backend = await ngrok.backends.staticBackends.create({ address: up.address, tls: { enabled: false } });
  assert.match(backend.id, /^bkdsc_[0-9A-Za-z]{27}$/);
  const edge = await ngrok.edges.edgesHttps.create({ hostports: [`${host}:443`], description: 'edge' });
  assert.deepEqual(edge.routes, []);
  const route = await ngrok.edges.edgesHttpsRoutes.create({
    edgeId: edge.id, matchType: 'path_prefix', match: '/', description: 'r', metadata: 'x',
    backend: { backendId: backend.id },
  });
  assert.equal(route.backend.backend.id, backend.id);
  assert.equal(route.policy, null);
  assert.match(route.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assert.equal(JSON.parse((await through(host, '/a')).body).url, '/a');

  const updated = await ngrok.edges.edgesHttpsRoutes.update({
    edgeId: edge.id, id: route.id, match: '/only', matchType: 'exact_path',
    responseHeaders: { add: { told: 'yes' }, remove: [] },
  });
  assert.equal(updated.match, '/only');
  assert.equal(updated.description, 'r');
  assert.equal((await through(host, '/a')).status, 404);
  assert.equal((await through(host, '/only')).headers.told, 'yes');

  await gone(ngrok.edges.edgesHttpsRoutes.delete({ edgeId: edge.id, id: route.id }));
  assert.equal((await through(host, '/only')).status, 404);
  await fails(() => ngrok.edges.edgesHttpsRoutes.get({ edgeId: edge.id, id: route.id }), 140);
  await gone(ngrok.edges.edgesHttps.delete(edge.id));
  await gone(ngrok.backends.staticBackends.delete(backend.id));
  await gone(ngrok.reservedDomains.delete(domain.id));
  await up.close();
});

test('official_client_follows_pages', async () => {
  const ngrok = client();
  const made = [];
  for (let i = 0; i < 7; i++)
    made.push((await must('POST', '/backends/static', { address: `127.0.0.1:${3100 + i}`, description: 'paging' })).id);
  const seen = (await ngrok.backends.staticBackends.list(undefined, '3')).map((item) => item.id);
  const sorted = [...seen].sort().reverse();
  assert.deepEqual(seen, sorted, 'newest first');
  assert.equal(new Set(seen).size, seen.length, 'no repeats');
  for (const id of made) assert.ok(seen.includes(id));
  const page = await must('GET', '/backends/static?limit=3');
  assert.equal(page.backends.length, 3);
  const next = new URL(page.next_page_uri);
  assert.equal(`${next.protocol}//${next.host}`, env.POSTERN_API_URL);
  const second = await must('GET', next.pathname + next.search);
  assert.ok(second.backends[0].id < page.backends[2].id);
});

test('a_route_without_modules_is_returned_with_every_module_null', async () => {
  const edge = await must('POST', '/edges/https', {});
  assert.deepEqual(edge.hostports, []);
  const route = await must('POST', `/edges/https/${edge.id}/routes`,
    { match_type: 'path_prefix', match: '/x', description: 'd', metadata: 'm', id: 'ignored', edge_id: edge.id });
  assert.deepEqual(Object.keys(route).sort(), ['backend', 'circuit_breaker', 'compression', 'created_at',
    'description', 'edge_id', 'id', 'ip_restriction', 'match', 'match_type', 'metadata', 'oauth', 'oidc', 'policy',
    'request_headers', 'response_headers', 'saml', 'traffic_policy', 'uri', 'user_agent_filter', 'webhook_verification',
    'websocket_tcp_converter']);
  for (const [key, value] of Object.entries(route))
    if (!['id', 'edge_id', 'created_at', 'uri', 'match', 'match_type', 'description', 'metadata'].includes(key))
      assert.equal(value, null, key);
  assert.equal(route.uri, `${env.POSTERN_API_URL}/edges/https/${edge.id}/routes/${route.id}`);
});

const modules = {
  circuit_breaker: [{ error_threshold_percentage: 0.5 },
    { enabled: true, tripped_duration: 10, rolling_window: 10, num_buckets: 10, volume_threshold: 20, error_threshold_percentage: 0.5 }],
  compression: [{}, { enabled: true }],
  request_headers: [{ add: { 'X-One': 'a' } }, { enabled: true, add: { 'x-one': 'a' }, remove: [] }],
  response_headers: [{ enabled: false, remove: ['Server'] }, { enabled: false, add: {}, remove: ['Server'] }],
  webhook_verification: [{ provider: 'TWILIO', secret: 's3cret' }, { enabled: true, provider: 'TWILIO', secret: 's3cret' }],
  websocket_tcp_converter: [{}, { enabled: true }],
  user_agent_filter: [{ deny: ['(?i)bot'] }, { enabled: true, allow: [], deny: ['(?i)bot'] }],
  traffic_policy: [{ value: 'on_http_request:\n  - actions: []\n' }, { enabled: true, value: 'on_http_request:\n  - actions: []\n' }],
  oidc: [{ issuer: 'https://id.example.test', client_id: 'c', client_secret: 's' },
    { enabled: true, options_passthrough: false, cookie_prefix: '', inactivity_timeout: 0, maximum_duration: 0, service_tokens: false,
      issuer: 'https://id.example.test', client_id: 'c', client_secret: 's', scopes: [],
      email_addresses: [], email_domains: [], groups: [], groups_claim: 'groups', provider_logout: true, bearer_tokens: false, bearer_audiences: [] }],
};

for (const [name, [given, want]] of Object.entries(modules))
  test(`module_${name}_is_stored_and_returned_with_its_defaults`, async () => {
    const edge = await must('POST', '/edges/https', {});
    const route = await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', [name]: given });
    assert.deepEqual(route[name], want);
    const kept = await must('PATCH', `/edges/https/${edge.id}/routes/${route.id}`,
      { match: '', match_type: '', description: '', metadata: '', [name]: null });
    assert.deepEqual(kept[name], want, 'null is absent');
    const again = await must('GET', `/edges/https/${edge.id}`);
    assert.deepEqual(again.routes[0][name], want);
  });

test('what nobody could sign in with is not stored', async () => {
  const edge = await must('POST', '/edges/https', {}), at = `/edges/https/${edge.id}/routes`;
  const oidc = { issuer: 'https://id.example.test', client_id: 'c', client_secret: 's' }, provider = { github: { email_domains: ['example.test'] } };
  const refused = async (code, field, said, method, target, body) => {
    const answer = await api(method, target, body);
    assert.deepEqual([answer.status, answer.body.error_code], [400, `ERR_POSTERN_${code}`], answer.raw);
    assert.match(answer.raw, new RegExp(`${field}.*${said}`));
  };
  for (const scopes of [['openid email'], ['email', 'a b'], ['a"b'], ['a\\b'], ['\u00e9'], ['a\tb'], ['']]) await refused(121, 'oidc.scopes', 'scope|empty', 'POST', at, { match_type: 'path_prefix', match: '/', oidc: { ...oidc, scopes } });
  for (const module of [{ oidc }, { oauth: { provider } }]) await refused(121, 'match_type', 'path_prefix', 'POST', at, { match_type: 'exact_path', match: '/', ...module });
  const exact = await must('POST', at, { match_type: 'exact_path', match: '/x' }), prefix = await must('POST', at, { match_type: 'path_prefix', match: '/y', oidc: { ...oidc, scopes: ['email', 'urn:a/b?c#d'] } });
  await refused(121, 'match_type', 'oidc', 'PUT', `${at}/${exact.id}/oidc`, oidc);
  await refused(121, 'match_type', 'oidc', 'PATCH', `${at}/${prefix.id}`, { match_type: 'exact_path' });
  await must('PUT', `${at}/${exact.id}/oidc`, { ...oidc, enabled: false });
});

test('module_oauth_fills_one_provider_and_nulls_the_others', async () => {
  const edge = await must('POST', '/edges/https', {});
  const route = await must('POST', `/edges/https/${edge.id}/routes`,
    { match_type: 'path_prefix', match: '/', oauth: { provider: { github: { teams: ['org/team'], email_domains: ['example.test'] } } } });
  assert.deepEqual(route.oauth, {
    enabled: true, options_passthrough: false, cookie_prefix: 'postern.', inactivity_timeout: 0, maximum_duration: 0, service_tokens: false, auth_check_interval: 0,
    provider: { github: { client_id: null, client_secret: null, scopes: [], email_addresses: [], email_domains: ['example.test'], teams: ['org/team'], organizations: [] },
      facebook: null, microsoft: null, google: null, linkedin: null, gitlab: null, twitch: null, amazon: null },
  });
});

test('module_saml_has_its_service_provider_half', async () => {
  const edge = await must('POST', '/edges/https', {});
  const xml = '<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example.test"/>';
  const path = `/edges/https/${edge.id}/routes`;
  const route = await must('POST', path, { match_type: 'path_prefix', match: '/', saml: { idp_metadata: xml } });
  assert.equal(route.saml.entity_id, route.saml.metadata_url);
  assert.ok(route.saml.assertion_consumer_service_url.endsWith(`/saml/${route.id}/acs`));
  assert.match(route.saml.request_signing_certificate_pem, /^-----BEGIN CERTIFICATE-----/);
  assert.match(route.saml.encryption_certificate_pem, /^-----BEGIN CERTIFICATE-----/);
  assert.notEqual(route.saml.encryption_certificate_pem, route.saml.request_signing_certificate_pem);
  assert.ok(!('request_signing_key_pem' in route.saml) && !('encryption_key_pem' in route.saml), 'the keys never leave');
  const changed = await must('PATCH', `${path}/${route.id}`, { saml: { idp_metadata: xml, force_authn: true } });
  assert.equal(changed.saml.request_signing_certificate_pem, route.saml.request_signing_certificate_pem, 'kept over updates');
  assert.equal(changed.saml.encryption_certificate_pem, route.saml.encryption_certificate_pem, 'kept over updates');
  assert.equal(changed.saml.force_authn, true);
});

test('a_key_is_shown_once_works_and_dies_with_its_deletion', async () => {
  const key = await must('POST', '/api_keys', { description: 'story', metadata: '' });
  assert.match(key.token, /^[0-9A-Za-z]{27}_[0-9A-Za-z]{21}$/);
  assert.equal((await must('GET', `/api_keys/${key.id}`)).token, null);
  const as = { Authorization: `Bearer ${key.token}` };
  assert.equal((await api('GET', '/api_keys', undefined, as)).status, 200);
  await must('DELETE', `/api_keys/${key.id}`);
  assert.equal((await api('GET', '/api_keys', undefined, as)).status, 401);
});

test('an_uploaded_certificate_is_parsed_and_served', async () => {
  const { execFileSync } = await import('node:child_process');
  const fs = await import('node:fs');
  const os = await import('node:os');
  const dir = fs.mkdtempSync(`${os.tmpdir()}/postern-cert-`);
  const host = unique('cert');
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '30', '-subj', '/CN=story/O=Postern',
    '-addext', `subjectAltName=DNS:${host},IP:10.0.0.1`, '-keyout', `${dir}/key.pem`, '-out', `${dir}/cert.pem`], { stdio: 'ignore' });
  const pem = fs.readFileSync(`${dir}/cert.pem`, 'utf8');
  const certificate = await must('POST', '/tls_certificates', { certificate_pem: pem, private_key_pem: fs.readFileSync(`${dir}/key.pem`, 'utf8') });
  assert.equal(certificate.subject_common_name, 'story');
  assert.equal(certificate.subject_organization, 'Postern');
  assert.deepEqual(certificate.subject_alternative_names, { dns_names: [host], ips: ['10.0.0.1'] });
  assert.equal(certificate.private_key_type, 'rsa');
  assert.ok(!('private_key_pem' in certificate));
  const domain = await must('POST', '/reserved_domains', { domain: host, certificate_id: certificate.id });
  assert.equal(domain.certificate.id, certificate.id);
  const edge = await must('POST', '/edges/https', { hostports: [`${host}:443`] });
  const backend = await must('POST', '/backends/http_response', { body: 'mine' });
  await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  const answer = await through(host, '/', { tls: { ca: pem } });
  assert.equal(answer.body, 'mine');
  const refused = await api('DELETE', `/tls_certificates/${certificate.id}`);
  assert.equal(refused.status, 409);
  assert.equal(refused.body.error_code, 'ERR_POSTERN_142');
  // detached, the local authority's certificate takes its place; a second time there is nothing left to do
  for (const part of ['certificate', 'certificate', 'certificate_management_policy']) await must('DELETE', `/reserved_domains/${domain.id}/${part}`);
  assert.equal((await must('GET', `/reserved_domains/${domain.id}`)).certificate, null);
  assert.equal((await through(host)).body, 'mine');
  assert.equal((await api('GET', `/reserved_domains/${domain.id}/certificate`)).status, 405);
  assert.equal((await api('DELETE', `/reserved_domains/${domain.id}/description`)).status, 404);
  await must('DELETE', `/tls_certificates/${certificate.id}`);
});

test('a_certificate_whose_key_would_be_slow_is_refused', async () => {
  const { execFileSync } = await import('node:child_process');
  const { createPrivateKey } = await import('node:crypto');
  const fs = await import('node:fs');
  const os = await import('node:os');
  const dir = fs.mkdtempSync(`${os.tmpdir()}/postern-cert-`);
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '30', '-subj', '/CN=story', '-keyout', `${dir}/key.pem`, '-out', `${dir}/cert.pem`], { stdio: 'ignore' });
  const certificate_pem = fs.readFileSync(`${dir}/cert.pem`, 'utf8'), key = createPrivateKey(fs.readFileSync(`${dir}/key.pem`)).export({ format: 'jwk' });
  fs.rmSync(dir, { recursive: true });
  for (const [number, rule] of [['dp', /exponent1/], ['dq', /exponent2/], ['qi', /coefficient/]]) {
    const wrong = Buffer.from(key[number], 'base64url');
    wrong[wrong.length - 1] ^= 2;
    const private_key_pem = createPrivateKey({ format: 'jwk', key: { ...key, [number]: wrong.toString('base64url') } }).export({ type: 'pkcs8', format: 'pem' });
    const answer = await api('POST', '/tls_certificates', { certificate_pem, private_key_pem });
    assert.equal(answer.status, 400, answer.raw);
    assert.equal(answer.body.error_code, 'ERR_POSTERN_184');
    assert.match(answer.body.details.private_key_pem, rule);
  }
});

test('a_retried_create_makes_one_object', async () => {
  const headers = { 'Idempotency-Key': `story-${process.pid}-${Date.now()}` };
  const body = { address: '127.0.0.1:9', description: 'once' };
  const answers = await Promise.all(Array.from({ length: 8 }, () => api('POST', '/backends/static', body, headers)));
  assert.ok(answers.every((answer) => answer.status === 201));
  assert.equal(new Set(answers.map((answer) => answer.body.id)).size, 1);
});

test('what_is_referred_to_cannot_be_deleted', async () => {
  const host = unique('used');
  const domain = await must('POST', '/reserved_domains', { domain: host });
  const edge = await must('POST', '/edges/https', { hostports: [`${host}:443`] });
  const backend = await must('POST', '/backends/http_response', { body: 'x' });
  await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  assert.equal((await api('DELETE', `/reserved_domains/${domain.id}`)).body.error_code, 'ERR_POSTERN_142');
  assert.equal((await api('DELETE', `/backends/http_response/${backend.id}`)).body.error_code, 'ERR_POSTERN_142');
  await must('DELETE', `/edges/https/${edge.id}`);
  await must('DELETE', `/reserved_domains/${domain.id}`);
  await must('DELETE', `/backends/http_response/${backend.id}`);
});

test('openapi_describes_every_operation', async () => {
  const { body } = await api('GET', '/openapi.json', undefined, { Authorization: undefined });
  assert.equal(body.openapi, '3.1.0');
  assert.ok(body.paths['/edges/https/{edge_id}/routes'].post);
  assert.ok(body.components.schemas.https_edge_route.properties.traffic_policy);
});

test('cors_echoes_origin_and_headers', async () => {
  const answer = await api('OPTIONS', '/edges/https', undefined,
    { Origin: 'https://ui.example.test', 'Access-Control-Request-Headers': 'authorization,service-version', Authorization: undefined });
  assert.equal(answer.status, 204);
  assert.equal(answer.headers['access-control-allow-origin'], 'https://ui.example.test');
  assert.equal(answer.headers['access-control-allow-headers'], 'authorization,service-version');
  assert.ok(Number(answer.headers['access-control-max-age']) <= 600);
});

test('metrics_of_all_accounts_are_on_the_health_port_and_not_on_the_api_port', { skip: elsewhere }, async () => {
  const nowhere = async (method, path, headers) => { const { status, raw } = await api(method, path, undefined, headers); return `${status} ${raw.replace(/op_\w+/, '').replace(path, '')}`; };
  for (const headers of [{}, { Authorization: undefined }]) assert.equal(await nowhere('GET', '/metrics', headers), await nowhere('GET', '/nothing', headers));
  assert.match(await nowhere('GET', '/metrics', {}), /^404 /);
  assert.match(await (await fetch(`http://${healthUrls()[0]}/metrics`)).text(), /postern_gateway_requests_total \d+/);
});

test('every_operation_of_the_official_client_has_an_answer_of_its_own', async () => {
  const text = fs.readFileSync(new URL('./node_modules/@ngrok/ngrok-api/lib/services.js', import.meta.url), 'utf8');
  const operations = new Set([...text.matchAll(/\.url\(`([^`]+)`\)[\s\S]{0,80}?\.(get|post|patch|put|delete)\(/g)]
    .map(([, path, method]) => `${method.toUpperCase()} ${path.replace(/\$\{[^}]*type\}/, 'vault_created.v0').replace(/\$\{[^}]+\}/g, `x_${'0'.repeat(27)}`)}`));
  assert.ok(operations.size > 200, `${operations.size} operations`);
  const unknown = [];
  for (const operation of operations) {
    const [method, path] = operation.split(' ');
    const answer = await api(method, path, method === 'GET' || method === 'DELETE' ? undefined : {});
    assert.ok(answer.status < 500, `${operation}: ${answer.raw}`);
    if ((answer.status === 404 || answer.status === 405) && !answer.body.error_code) unknown.push(`${operation} ${answer.status}`);
  }
  assert.deepEqual(unknown, []);
});
