// GET /openapi.json, as those read it who write no client of their own: a validator, and a client that is generated from it and
// knows nothing else.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createRequire } from 'node:module';
import { api, env, unique } from '../support/postern.mjs';

const require = createRequire(import.meta.url);
const { OpenAPIClientAxios } = require('openapi-client-axios');
const Ajv = require('ajv/dist/2020.js').default;
const { Validator } = await import('@seriousme/openapi-schema-validator');

const { body: description } = await api('GET', '/openapi.json', undefined, { Authorization: undefined, 'Service-Version': undefined });
const operations = Object.entries(description.paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) => ({ path, method, ...operation })));
const at = (value) => (value.$ref ? value.$ref.slice(2).split('/').reduce((one, name) => one[name], description) : value);

// Answers against the schemas that the description gives for them.
const ajv = new Ajv({ strict: false, validateFormats: false });
ajv.addSchema(description, 'api');
const escaped = (text) => text.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D');
function matches({ path, method, responses }, { status, data }) {
  const key = String(status) in responses ? String(status) : 'default';
  const response = at(responses[key]);
  if (!response.content) { assert.ok(!data, `${method} ${path} ${status}: ${JSON.stringify(data)}`); return; }
  const where = responses[key].$ref ?? `#/paths/${escaped(path)}/${method}/responses/${key}`;
  const check = ajv.compile({ $ref: `api${where}/content/application~1json/schema` });
  assert.ok(check(data), `${method} ${path} ${status}: ${JSON.stringify(check.errors)} ${JSON.stringify(data).slice(0, 500)}`);
}

// What a generated client sends of itself: parameters that are required and have a default.
const given = (operation) => Object.fromEntries(operation.parameters.map(at).filter(({ required, schema }) => required && schema.default !== undefined).map(({ name, schema }) => [name, schema.default]));

async function generated() {
  const maker = new OpenAPIClientAxios({ definition: description, axiosConfigDefaults: { headers: { Authorization: `Bearer ${env.POSTERN_API_KEY}` }, validateStatus: () => true } });
  const client = await maker.init();
  return async (id, parameters = {}, body = undefined) => {
    const operation = operations.find(({ operationId }) => operationId === id);
    const answer = await client[id]({ ...given(operation), ...parameters }, body, body === undefined ? {} : { headers: { 'Content-Type': 'application/json' } });
    matches(operation, answer);
    return answer;
  };
}

test('it is a valid description', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(description));
  assert.ok(valid, JSON.stringify(errors)?.slice(0, 2000));
  assert.equal(new Set(operations.map(({ operationId }) => operationId)).size, operations.length, 'operation ids are unique');
});

test('every operation names the version header, all its path parameters, and what an error looks like', () => {
  assert.ok(operations.length > 200, `${operations.length} operations`);
  for (const { path, method, parameters, responses } of operations) {
    const told = `${method} ${path}`, all = (parameters ?? []).map(at);
    const version = all.find((one) => one.in === 'header');
    assert.deepEqual([version?.name, version?.required, version?.schema.enum], ['Service-Version', true, ['2']], told);
    assert.deepEqual(all.filter((one) => one.in === 'path').map(({ name }) => name), [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name), told);
    assert.equal(at(responses.default ?? {}).content?.['application/json'].schema.$ref, '#/components/schemas/error', told);
    assert.ok(Object.keys(responses).some((status) => status.startsWith('2')), told);
  }
});

test('a client that is generated from it can call everything', async () => {
  const call = await generated();
  let lists = 0, errors = 0;
  for (const operation of operations) {
    const parameters = Object.fromEntries(operation.parameters.map(at).filter((one) => one.in === 'path').map(({ name }) => [name, 'nothing']));
    const answer = await call(operation.operationId, parameters, operation.requestBody && operation.method !== 'post' ? {} : undefined);
    if (answer.status === 200) { lists++; continue; }
    errors++;
    assert.ok(![101, 102, 110, 111].some((code) => answer.data.error_code === `ERR_POSTERN_${code}`) && answer.data.error_code, `${operation.operationId}: ${JSON.stringify(answer.data)}`);
  }
  assert.ok(lists >= 33 && errors >= 170, `${lists} lists, ${errors} errors`);
});

test('and it makes, reads, changes and deletes what it made', async () => {
  const call = await generated(), domain = unique('generated');
  const done = async (status, ...args) => { const answer = await call(...args); assert.equal(answer.status, status, JSON.stringify(answer.data)); return answer.data; };
  const reserved = await done(201, 'reserved_domain_create', {}, { domain });
  const edge = await done(201, 'https_edge_create', {}, { hostports: [`${domain}:443`] });
  const backend = await done(201, 'http_response_backend_create', {}, { body: 'hello' });
  const route = await done(201, 'https_edge_route_create', { edge_id: edge.id }, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  await done(200, 'https_edge_route_compression_replace', { edge_id: edge.id, id: route.id }, {});
  assert.equal((await done(200, 'https_edge_route_update', { edge_id: edge.id, id: route.id }, { description: 'd' })).description, 'd');
  assert.deepEqual((await done(200, 'https_edge_get', { id: edge.id })).routes.map(({ id }) => id), [route.id]);
  assert.equal((await done(200, 'endpoint_list', { url: `https://${domain}` })).endpoints.length, 1);
  await done(204, 'https_edge_route_compression_delete', { edge_id: edge.id, id: route.id });

  const subscription = await done(201, 'event_subscription_create', {}, { sources: [{ type: 'vault_created.v0' }] });
  await done(201, 'event_subscription_sources_create', { id: subscription.id }, { type: 'tcp_connection_closed.v0' });
  await done(200, 'event_subscription_sources_list', { id: subscription.id });
  await done(204, 'event_subscription_sources_delete', { id: subscription.id, type: 'vault_created.v0' });
  const vault = await done(201, 'vault_create', {}, { name: domain });
  const secret = await done(201, 'secret_create', {}, { name: 'a', value: 'v', vault_id: vault.id });
  assert.equal((await done(200, 'secret_list_by_vault_id', { vault_id: vault.id })).secrets.length, 1);
  await done(204, 'reserved_domain_certificate_delete', { id: reserved.id });
  assert.ok((await done(200, 'self_get')).api_key.id);

  await done(204, 'secret_delete', { id: secret.id });
  await done(204, 'vault_delete', { id: vault.id });
  await done(204, 'event_subscription_delete', { id: subscription.id });
  await done(204, 'https_edge_delete', { id: edge.id });
  await done(204, 'http_response_backend_delete', { id: backend.id });
  await done(204, 'reserved_domain_delete', { id: reserved.id });
});
