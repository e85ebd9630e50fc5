// Two clients and one object: ETags and If-Match, races on one name, one object, one delete; and the rate limit.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { api, edge, endpoint, env, home, must, unique, until } from '../support/postern.mjs';

const etagOf = async (target) => (await api('GET', target)).headers.etag;

test('every object has an ETag that changes with it', async () => {
  const made = await api('POST', '/backends/http_response', { body: 'x' });
  const target = `/backends/http_response/${made.body.id}`;
  assert.match(made.headers.etag, /^"[0-9a-f]{32}"$/);
  assert.equal(await etagOf(target), made.headers.etag, 'the same for whoever reads it');
  const changed = await api('PATCH', target, { body: 'y' }, { 'If-Match': made.headers.etag });
  assert.equal(changed.status, 200);
  assert.notEqual(changed.headers.etag, made.headers.etag);
  const stale = await api('PATCH', target, { body: 'z' }, { 'If-Match': made.headers.etag });
  assert.deepEqual([stale.status, stale.body.error_code], [412, 'ERR_POSTERN_145']);
  assert.equal((await must('GET', target)).body, 'y');
  for (const tag of ['W/' + changed.headers.etag, '"x"', 'nonsense', '', changed.headers.etag.slice(1, -1)])
    assert.equal((await api('PATCH', target, { body: 'z' }, { 'If-Match': tag })).status, 412, tag);
  for (const tag of ['"\u00e9"', `"${'x'.repeat(1100)}"`])
    assert.equal((await api('PATCH', target, { body: 'z' }, { 'If-Match': tag })).status, 400, tag.slice(0, 9));
  for (const tag of ['*', `"x", ${changed.headers.etag}`])
    assert.equal((await api('PATCH', target, { body: 'y' }, { 'If-Match': tag })).status, 200, tag);
  assert.equal((await api('DELETE', target, undefined, { 'If-Match': made.headers.etag })).status, 412);
  assert.equal((await api('DELETE', target, undefined, { 'If-Match': await etagOf(target) })).status, 204);
  const key = await api('POST', '/api_keys', {});
  assert.equal(await etagOf(`/api_keys/${key.body.id}`), key.headers.etag, 'a token that is shown once is no part of it');
  await must('DELETE', `/api_keys/${key.body.id}`);
});

test('an edge has another ETag when one of its routes changes, a module has its own', async () => {
  const to = await endpoint({ body: 'x' });
  const edge = `/edges/https/${to.edge.id}`, module = `${edge}/routes/${to.route.id}/compression`;
  const before = await etagOf(edge);
  const put = await api('PUT', module, {});
  assert.notEqual(await etagOf(edge), before);
  assert.equal(await etagOf(module), put.headers.etag);
  assert.equal((await api('PUT', module, { enabled: false }, { 'If-Match': '"x"' })).status, 412);
  assert.equal((await api('PUT', module, { enabled: false }, { 'If-Match': put.headers.etag })).status, 200);
  assert.equal((await api('DELETE', module, undefined, { 'If-Match': put.headers.etag })).status, 412);
  await must('DELETE', module);
  assert.equal((await api('PUT', module, {}, { 'If-Match': '*' })).status, 412, 'nothing is there to match');
});

const CLIENTS = 64;
const all = (make) => Promise.all(Array.from({ length: CLIENTS }, (_, i) => make(i)));

test('64 clients on one name: one wins', { timeout: 280000 }, async () => {
  for (let round = 0; round < 20; round++) {
    const domain = unique('race');
    const got = await all(() => api('POST', '/reserved_domains', { domain }));
    const won = got.filter(({ status }) => status === 201);
    assert.equal(won.length, 1);
    assert.ok(got.every(({ status }) => status === 201 || status === 409));
    const edges = await all(() => api('POST', '/edges/https', { hostports: [`${domain}:443`] }));
    assert.equal(edges.filter(({ status }) => status === 201).length, 1);
    const edge = edges.find(({ status }) => status === 201).body;
    const routes = await all(() => api('POST', `/edges/https/${edge.id}/routes`, { match: '/', match_type: 'path_prefix' }));
    assert.equal(routes.filter(({ status }) => status === 201).length, 1);
    assert.ok(routes.every(({ status }) => status === 201 || status === 409));
    assert.equal((await must('GET', `/edges/https/${edge.id}`)).routes.length, 1);
    const deletes = await all(() => api('DELETE', `/edges/https/${edge.id}`));
    assert.equal(deletes.filter(({ status }) => status === 204).length, 1);
    assert.ok(deletes.every(({ status }) => status === 204 || status === 404));
    await must('DELETE', `/reserved_domains/${won[0].body.id}`);
  }
});

// RACE_ROUNDS=10000 for the long run.
const ROUNDS = Number(process.env.RACE_ROUNDS ?? 20);
test(`64 clients make, change and delete the same thing, ${ROUNDS} rounds`, { timeout: 3600000 }, async () => {
  const audits = (id) => execFileSync('psql', [env.DATABASE_URL, '-Atc', `SELECT string_agg(event->>'event_type', ',' ORDER BY event->>'event_id') FROM events.log WHERE event->'object'->>'id' = '${id}'`]).toString().trim();
  const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS });
  const { port, hostname } = new URL(env.POSTERN_API_URL);
  const call = (method, target, body, headers = {}) => new Promise((resolve, reject) => {
    const request = http.request({ agent, host: hostname, port, method, path: target, headers: { Authorization: `Bearer ${env.POSTERN_API_KEY}`, 'Service-Version': '2', ...(body && { 'Content-Type': 'application/json' }), ...headers } }, (response) => {
      let text = '';
      response.on('data', (part) => (text += part)).on('end', () => resolve({ status: response.statusCode, body: text && JSON.parse(text), etag: response.headers.etag }));
    });
    request.on('error', reject).end(body && JSON.stringify(body));
  });
  const count = (got, status) => got.filter((one) => one.status === status).length;
  for (let round = 0; round < ROUNDS; round++) {
    const name = unique('race');
    const made = await all(() => call('POST', '/vaults', { name }));
    assert.deepEqual([count(made, 201), count(made, 409)], [1, CLIENTS - 1], `round ${round}`);
    const { body: vault, etag } = made.find(({ status }) => status === 201);
    const changed = await all((i) => call('PATCH', `/vaults/${vault.id}`, { description: `d${i}` }, { 'If-Match': etag }));
    assert.deepEqual([count(changed, 200), count(changed, 412)], [1, CLIENTS - 1], `round ${round}`);
    const gone = await all(() => call('DELETE', `/vaults/${vault.id}`));
    assert.deepEqual([count(gone, 204), count(gone, 404)], [1, CLIENTS - 1], `round ${round}`);
    if (round % 100 === 0) await until(() => audits(vault.id) === 'vault_created.v0,vault_updated.v0,vault_deleted.v0', 'one audit event each');
  }
  agent.destroy();
});

test('the limit of objects of a kind holds at its edge', async () => {
  const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text]).toString().trim();
  const where = `account_id = '${env.POSTERN_ACCOUNT}' AND kind = 'bot_user'`;
  const first = await must('POST', '/bot_users', { name: 'a' });
  const others = Number(sql(`SELECT sum(n) FROM identity.object_count WHERE ${where}`));
  assert.equal(others, Number(sql(`SELECT count(*) FROM identity.bot_user WHERE account_id = '${env.POSTERN_ACCOUNT}'`)), 'counted as they come and go');
  sql(`INSERT INTO identity.object_count VALUES ('${env.POSTERN_ACCOUNT}', 'bot_user', 99, ${1000000 - others - 1})`);
  try {
    const last = await must('POST', '/bot_users', { name: 'b' });
    const refused = await api('POST', '/bot_users', { name: 'c' });
    assert.deepEqual([refused.status, refused.body.error_code], [400, 'ERR_POSTERN_196'], refused.raw);
    await must('DELETE', `/bot_users/${last.id}`);
    await must('DELETE', `/bot_users/${(await must('POST', '/bot_users', { name: 'd' })).id}`);
  } finally {
    sql(`DELETE FROM identity.object_count WHERE ${where} AND shard = 99`);
  }
  await must('DELETE', `/bot_users/${first.id}`);
});

test('64 clients change one object: no field is lost, and with If-Match each change follows the one before', { timeout: 280000 }, async () => {
  const made = await must('POST', '/backends/http_response', { body: '0' });
  const target = `/backends/http_response/${made.id}`;
  await Promise.all([api('PATCH', target, { description: 'd' }), api('PATCH', target, { metadata: 'm' }), api('PATCH', target, { status_code: 201 })]);
  const after = await must('GET', target);
  assert.deepEqual([after.description, after.metadata, after.status_code], ['d', 'm', 201]);
  let added = 0;
  await all(async () => {
    for (;;) {
      const now = await api('GET', target);
      const answer = await api('PATCH', target, { body: String(Number(now.body.body) + 1) }, { 'If-Match': now.headers.etag });
      if (answer.status === 200) { added++; return; }
      assert.equal(answer.status, 412, answer.raw);
    }
  });
  assert.equal((await must('GET', target)).body, String(added));
  assert.equal(added, CLIENTS);
});

test('64 clients refer to an object that another deletes: it is used or gone, never both', { timeout: 280000 }, async () => {
  for (let round = 0; round < 20; round++) {
    const backend = await must('POST', '/backends/http_response', { body: 'x' });
    const [deleted, ...made] = await Promise.all([api('DELETE', `/backends/http_response/${backend.id}`),
      ...Array.from({ length: 8 }, () => api('POST', '/backends/weighted', { backends: { [backend.id]: 1 } }))]);
    const users = made.filter(({ status }) => status === 201);
    assert.ok(made.every(({ status }) => status === 201 || status === 400), JSON.stringify(made.map(({ status }) => status)));
    assert.equal((await api('GET', `/backends/http_response/${backend.id}`)).status, deleted.status === 204 ? 404 : 200);
    assert.ok(deleted.status === 204 ? users.length === 0 : deleted.status === 409 && users.length > 0, `${deleted.status}, ${users.length} users`);
  }
});

test('error codes explain themselves', async () => {
  const answer = await api('GET', '/errors/ERR_POSTERN_145', undefined, { Authorization: undefined, 'Service-Version': undefined });
  assert.deepEqual([answer.status, answer.body.status_code, answer.body.situation], [200, 412, 'precondition_failed']);
  for (const code of ['999', '1', '0', 'x', '145x', '']) assert.equal((await api('GET', `/errors/ERR_POSTERN_${code}`)).status, 404, code);
});

// A gateway of its own, with settings: get and post of a token, until stop().
async function gatewayWith(settings) {
  const port = edge.port - 43 + 170; // of the stack's own, which no other file takes
  const run = env.POSTERN_RUN_DIR;
  const program = fs.realpathSync(path.join(home, 'bin/postern-gateway')); // as its own user, who may not enter this folder
  const gateway = spawn(program, [], { stdio: 'ignore', uid: process.getuid() === 0 ? fs.statSync(run).uid : undefined, gid: process.getuid() === 0 ? fs.statSync(run).gid : undefined,
    env: { ...process.env, ...settings, POSTERN_HTTP_HOST: '127.0.0.1', POSTERN_HTTP_PORT: String(port), POSTERN_CURVE_DIR: path.join(fs.realpathSync(home), 'keys/gateway'), POSTERN_IDENTITY_RPC: `ipc://${run}/identity.rpc`, POSTERN_ROUTES_RPC: `ipc://${run}/routes.rpc`, POSTERN_EVENTS_RPC: `ipc://${run}/events.rpc`, POSTERN_API_URL: `http://127.0.0.1:${port}` } });
  const ask = (token, method, where, body) => new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, method, path: where, headers: { Authorization: `Bearer ${token}`, 'Service-Version': '2', ...(body && { 'Content-Type': 'application/json' }) } }, (response) => {
      let text = '';
      response.on('data', (part) => { text += part; });
      response.on('end', () => resolve({ status: response.statusCode, wait: Number(response.headers['retry-after']), body: text ? JSON.parse(text) : {} }));
    }).on('error', reject);
    request.end(body && JSON.stringify(body));
  });
  const ended = new Promise((resolve) => gateway.on('exit', resolve));
  process.on('exit', () => gateway.kill('SIGKILL'));
  await until(() => ask('x', 'GET', '/ip_policies?limit=1').then(() => true, () => false), 'the second gateway', 120000);
  return { get: (token) => ask(token, 'GET', '/ip_policies?limit=1'), post: (token, where, body) => ask(token, 'POST', where, body), stop: () => { gateway.kill(); return ended; } };
}

// One more of them comes every ten seconds.
const RATE = 6;

test('a key that used up its rate waits as long as Retry-After says; others do not', { timeout: 280000 }, async () => {
  const { get, stop } = await gatewayWith({ POSTERN_RATE_LIMIT: String(RATE) });
  try {
    const got = await Promise.all(Array.from({ length: RATE + 10 }, () => get(env.POSTERN_API_KEY)));
    const refused = got.filter(({ status }) => status === 429);
    assert.equal(got.filter(({ status }) => status === 200).length, RATE);
    assert.equal(refused.length, 10);
    assert.ok(refused.every(({ wait, body }) => wait >= 1 && wait <= 60 / RATE && body.error_code === 'ERR_POSTERN_505'), JSON.stringify(refused[0]));
    const other = await must('POST', '/api_keys', {});
    assert.equal((await get(other.token)).status, 200);
    await must('DELETE', `/api_keys/${other.id}`);
    await until(async () => (await get(env.POSTERN_API_KEY)).status === 200, 'it may again', 120000);
  } finally {
    await stop();
  }
});

test('a key that made many objects of a kind waits before the next; other kinds, reads and other keys do not', { timeout: 280000 }, async () => {
  const { get, post, stop } = await gatewayWith({ POSTERN_CREATE_RATE_LIMIT: String(RATE) });
  try {
    const made = await Promise.all(Array.from({ length: RATE + 10 }, () => post(env.POSTERN_API_KEY, '/ip_policies', { metadata: 'create rate' })));
    const refused = made.filter(({ status }) => status === 429);
    assert.deepEqual([made.filter(({ status }) => status === 201).length, refused.length], [RATE, 10]);
    assert.ok(refused.every(({ wait, body }) => wait >= 1 && wait <= 60 / RATE && body.error_code === 'ERR_POSTERN_506'), JSON.stringify(refused[0]));
    assert.equal((await get(env.POSTERN_API_KEY)).status, 200);
    assert.equal((await post(env.POSTERN_API_KEY, '/backends/http_response', { body: 'another kind' })).status, 201);
    const other = await must('POST', '/api_keys', {});
    assert.equal((await post(other.token, '/ip_policies', {})).status, 201);
    await until(async () => (await post(env.POSTERN_API_KEY, '/ip_policies', {})).status === 201, 'it may again', 120000);
    for (const { status, body } of made) if (status === 201) await must('DELETE', `/ip_policies/${body.id}`);
    await must('DELETE', `/api_keys/${other.id}`);
  } finally {
    await stop();
  }
});
