// The module paths: PUT in the three forms that the official clients send, GET, DELETE; what a replaced module
// does to the rest of its owner.
import assert from 'node:assert/strict';
import test from 'node:test';
import { api, client, endpoint, listening, must, through, until, unique } from '../support/postern.mjs';

const saml = '<?xml version="1.0"?><md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example.test"><md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example.test/sso"/></md:IDPSSODescriptor></md:EntityDescriptor>';
// module -> [body, what a GET must contain]
const modules = {
  circuit_breaker: [{ error_threshold_percentage: 0.5 }, { enabled: true, tripped_duration: 10, rolling_window: 10, num_buckets: 10, volume_threshold: 20, error_threshold_percentage: 0.5 }],
  compression: [{}, { enabled: true }],
  request_headers: [{ add: { 'X-One': '1' }, remove: ['x-two'] }, { enabled: true, add: { 'x-one': '1' }, remove: ['x-two'] }],
  response_headers: [{ enabled: false, add: { 'X-One': '1' } }, { enabled: false, add: { 'x-one': '1' }, remove: [] }],
  webhook_verification: [{ provider: 'github', secret: 's3cret' }, { enabled: true, provider: 'github', secret: 's3cret' }],
  oauth: [{ provider: { github: { email_domains: ['example.test'] } } }, { enabled: true, cookie_prefix: 'postern.' }],
  oidc: [{ issuer: 'https://issuer.example.test', client_id: 'c', client_secret: 's' }, { enabled: true, issuer: 'https://issuer.example.test', client_id: 'c' }],
  saml: [{ idp_metadata: saml }, { enabled: true, allow_idp_initiated: true }],
  websocket_tcp_converter: [{}, { enabled: true }],
  user_agent_filter: [{ allow: ['^curl/'], deny: [] }, { enabled: true, allow: ['^curl/'] }],
  traffic_policy: [{ value: '{"on_http_request":[]}' }, { enabled: true, value: '{"on_http_request":[]}' }],
};
const contains = (got, want, what) => { for (const [key, value] of Object.entries(want)) assert.deepEqual(got[key], value, `${what}.${key}`); };

const forms = {
  'the module itself': (path, body) => api('PUT', path, body),
  'a wrapped module': (path, body) => { const [, edge_id, id] = /https\/([^/]+)\/routes\/([^/]+)/.exec(path); return api('PUT', path, { edge_id, id, module: body }); },
  'the module and path parameters': (path, body) => { const [, edge_id, id] = /https\/([^/]+)\/routes\/([^/]+)/.exec(path); return api('PUT', path, { edge_id, id, ...body }); },
};

const to = await endpoint({ body: 'm' });
const root = `/edges/https/${to.edge.id}/routes/${to.route.id}`;

for (const [module, [body, want]] of Object.entries(modules))
  test(`${module}: replaced, read and deleted on its own path`, async () => {
    const path = `${root}/${module}`;
    assert.equal((await api('GET', path)).status, 404, 'not set');
    assert.equal((await api('DELETE', path)).status, 204, 'deleting what is not set succeeds');
    for (const [form, put] of Object.entries(forms)) {
      const answer = await put(path, body);
      assert.equal(answer.status, 200, `${form}: ${answer.raw}`);
      contains(answer.body, want, form);
      const again = await must('GET', path);
      assert.deepEqual(again, answer.body, form);
      assert.deepEqual((await must('GET', root))[module], answer.body, 'the same in its route');
    }
    const bad = await api('PUT', path, { ...body, nonsense: 1 });
    assert.equal(bad.status, 400);
    assert.ok(Object.keys(bad.body.details).includes(`${module}.nonsense`), bad.raw);
    assert.equal((await api('DELETE', path)).status, 204);
    assert.equal((await must('GET', root))[module], null);
    assert.equal((await api('GET', path)).status, 404);
    assert.equal((await must('GET', root)).backend.backend.id, to.backend.id, 'the others stay');
  });

test('backend: replaced with a default, refused without its required field', async () => {
  const other = await must('POST', '/backends/http_response', { body: 'other' });
  const answer = await must('PUT', `${root}/backend`, { backend_id: other.id }, 200);
  assert.equal(answer.backend.id, other.id);
  assert.equal((await through(to.host)).body, 'other', 'live when it returns');
  const bad = await api('PUT', `${root}/backend`, {});
  assert.equal(bad.status, 400);
  assert.equal((await api('DELETE', `${root}/backend`)).status, 204);
  assert.equal((await through(to.host)).status, 503);
  await must('DELETE', `/backends/http_response/${other.id}`);
  await must('PUT', `${root}/backend`, { backend_id: to.backend.id }, 200);
});

test('an empty PUT without a content type is an empty module', async () => {
  const answer = await api('PUT', `${root}/compression`, undefined);
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, { enabled: true });
  await must('DELETE', `${root}/compression`);
  assert.equal((await api('PUT', `${root}/circuit_breaker`, undefined)).status, 400, 'a required field is missing');
});

test('a replaced module keeps nothing of the old one', async () => {
  await must('PUT', `${root}/request_headers`, { add: { 'x-a': '1' }, remove: ['x-b'] }, 200);
  const answer = await must('PUT', `${root}/request_headers`, { remove: ['x-c'] }, 200);
  assert.deepEqual(answer, { enabled: true, add: {}, remove: ['x-c'] });
  await must('DELETE', `${root}/request_headers`);
});

test('only one sign-in module, whichever way it comes', async () => {
  await must('PUT', `${root}/oauth`, modules.oauth[0], 200);
  const answer = await api('PUT', `${root}/oidc`, modules.oidc[0]);
  assert.equal(answer.status, 400);
  await must('DELETE', `${root}/oauth`);
});

test('unknown modules, owners and methods', async () => {
  for (const module of ['nonsense', 'hostports', 'edge_id', 'policy', ''])
    assert.equal((await api('GET', `${root}/${module}`)).status, 404, module);
  assert.equal((await api('GET', `/edges/https/${to.edge.id}/routes/${to.route.id}x/backend`)).status, 404);
  assert.equal((await api('GET', `/edges/https/edghts_${'0'.repeat(27)}/routes/${to.route.id}/backend`)).status, 404);
  for (const method of ['POST', 'PATCH']) assert.equal((await api(method, `${root}/backend`, {})).status, 405, method);
});

test('a change of a module is a change of its owner: one audit event, secrets masked', async () => {
  const sub = await listening('');
  const own = await endpoint({ body: 'audited' });
  const path = `/edges/https/${own.edge.id}/routes/${own.route.id}/webhook_verification`;
  await must('PUT', path, { provider: 'github', secret: 'canary' }, 200);
  await must('DELETE', path);
  await must('DELETE', path); // not set: nothing changes
  await must('PATCH', `/edges/https/${own.edge.id}/routes/${own.route.id}`, { description: 'last' });
  const mine = () => sub.events.filter((event) => event.event_type === 'https_edge_route_updated.v0' && event.object.id === own.route.id);
  await until(() => mine().some((event) => event.object.description === 'last'), 'the last event');
  assert.equal(mine().length, 3);
  assert.deepEqual(mine().map((event) => event.object.webhook_verification?.secret), ['***', undefined, undefined]);
  await sub.stop();
});

test('the edge\'s own modules', async () => {
  const path = `/edges/https/${to.edge.id}`;
  const answer = await must('PUT', `${path}/tls_termination`, { min_version: '1.3' }, 200);
  assert.equal(answer.min_version, '1.3');
  await assert.rejects(through(to.host, '/', { tls: { maxVersion: 'TLSv1.2' } }));
  assert.equal((await api('DELETE', `${path}/tls_termination`)).status, 204);
  assert.equal((await through(to.host, '/', { tls: { maxVersion: 'TLSv1.2' } })).status, 200);
  assert.equal((await api('GET', `${path}/mutual_tls`)).status, 404);
  assert.equal((await api('PUT', `${path}/mutual_tls`, { certificate_authority_ids: [] })).status, 400);
});

test('the official client replaces and reads modules', async () => {
  const { edgeRouteBackendModule: backendModule, edgeRouteCompressionModule: compressionModule, edgeRouteRequestHeadersModule: headersModule } = client().edgeModules;
  const at = { edgeId: to.edge.id, id: to.route.id };
  const compression = await compressionModule.replace({ ...at, module: { enabled: true } });
  assert.equal(compression.enabled, true);
  assert.equal((await compressionModule.get(at)).enabled, true);
  const backend = await backendModule.replace({ ...at, module: { backendId: to.backend.id } });
  assert.equal(backend.backend.id, to.backend.id);
  const headers = await headersModule.replace({ ...at, module: { remove: ['x-a'] } });
  assert.deepEqual(headers.remove, ['x-a']);
  // on a bodyless 204 this client rejects although the deletion happened
  await compressionModule.delete(at).catch((error) => assert.ok(error instanceof SyntaxError || /JSON/.test(String(error))));
  assert.equal((await must('GET', root)).compression, null);
});

test('a module put again with the same key is put once', async () => {
  const headers = { 'Idempotency-Key': unique('put') };
  const first = await api('PUT', `${root}/compression`, {}, headers), second = await api('PUT', `${root}/compression`, {}, headers);
  assert.equal(first.status, 200);
  assert.deepEqual(second.body, first.body);
  assert.equal(second.headers['postern-revision'], first.headers['postern-revision']);
  await must('DELETE', `${root}/compression`);
});
