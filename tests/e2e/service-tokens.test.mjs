// Machines at routes where people sign in: a service token is let in where the module and its scope say so, never goes upstream, and is
// over everywhere when its deletion, a narrower scope or an end is answered.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { caller, edgeKey } from '../support/peer.mjs';
import { api, ca, edge, elsewhere, endpoint, env, everyWorker, home, listening, must, raw, through, until, upstream } from '../support/postern.mjs';
import { ask as browse, Browser, github } from '../support/browser.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', WORKERS = 2;
const provider = skip ? null : await github(edge.port - 43 + 96);
const sub = skip ? null : await listening('http_request_complete');
let bus;
test.after(() => { provider?.close(); bus?.stop(); });

const module = (more = { service_tokens: true }) => ({ provider: { github: { email_domains: ['example.test'] } }, ...more });
async function guarded(more) {
  const up = await upstream((request, response) => response.end(JSON.stringify(request.headers)));
  return { up, to: await endpoint(up.address, { oauth: module(more) }) };
}
const make = (fields) => must('POST', '/app/service_tokens', { name: 'ci', ...fields });
const soon = () => new Date(Math.ceil(Date.now() / 1000) * 1000 + 20000).toISOString().replace('.000', ''); // later than any request that says it arrives
const passed = (end) => until(() => Date.now() > Date.parse(end) + 1000, 'the end', 120000);
const bearer = (token, headers = {}) => ({ headers: { Authorization: `Bearer ${token}`, ...headers } });
const statuses = async (to, token, n = 40) => [...new Set((await Promise.all(Array.from({ length: n }, () => through(to.host, '/', bearer(token))))).map(({ status }) => status))];
const refused = async (code, field, method, target, body) => {
  const answer = await api(method, target, body);
  assert.equal(answer.body.error_code, `ERR_POSTERN_${code}`, answer.raw);
  assert.match(answer.raw, new RegExp(field));
};
async function ask(verb, body) {
  bus ??= caller(edgeKey(), 'identity', `ipc://${env.POSTERN_RUN_DIR}/identity.rpc`);
  const id = bus.ask(verb, body);
  return until(() => bus.answer(id), `an answer to ${verb}`);
}

test('a token is made, shown once, listed, changed and deleted', { skip }, async () => {
  const { to, up } = await guarded();
  const made = await make({ route_ids: [to.route.id], description: 'd', metadata: 'm' });
  assert.match(made.id, /^svctok_[0-9A-Za-z]{27}$/);
  assert.match(made.token, /^postern_[0-9A-Za-z]{27}_[0-9A-Za-z]{21}$/);
  assert.deepEqual([made.name, made.route_ids, made.edge_ids, made.expires_at, made.uri], ['ci', [to.route.id], [], null, `${env.POSTERN_API_URL}/app/service_tokens/${made.id}`]);
  assert.equal((await must('GET', `/app/service_tokens/${made.id}`)).token, null);
  const listed = (await must('GET', '/app/service_tokens?limit=100')).service_tokens;
  assert.deepEqual(listed.find(({ id }) => id === made.id)?.token, null);
  assert.equal((await must('PATCH', `/app/service_tokens/${made.id}`, { name: 'cd' })).name, 'cd');
  await refused(122, 'route_ids', 'POST', '/app/service_tokens', { name: 'x' });
  await refused(122, 'route_ids', 'PATCH', `/app/service_tokens/${made.id}`, { route_ids: [] });
  await refused(122, 'name', 'POST', '/app/service_tokens', { route_ids: [to.route.id] });
  for (const past of ['2020-01-01T00:00:00Z', new Date(Date.now() - 1000).toISOString()]) {
    await refused(202, 'expires_at: must be in the future', 'POST', '/app/service_tokens', { name: 'x', route_ids: [to.route.id], expires_at: past });
    await refused(202, 'expires_at: must be in the future', 'PATCH', `/app/service_tokens/${made.id}`, { expires_at: past });
  }
  assert.equal((await must('GET', `/app/service_tokens/${made.id}`)).expires_at, null);
  await refused(121, 'route_ids', 'POST', '/app/service_tokens', { name: 'x', route_ids: ['nonsense'] });
  await refused(121, 'edge_ids', 'POST', '/app/service_tokens', { name: 'x', edge_ids: [to.route.id] });
  await must('DELETE', `/app/service_tokens/${made.id}`);
  assert.equal((await api('GET', `/app/service_tokens/${made.id}`)).status, 404);
  await up.close();
});

test('a machine is let in by its token, the upstream learns its name, and never the token', { skip }, async () => {
  const { to, up } = await guarded();
  const { id, token } = await make({ route_ids: [to.route.id], name: 'J\u00fcrgen\u2019s bot' });
  for (let n = 0; n < 20; n++) {
    const answer = await through(to.host, '/', bearer(token, { 'Ngrok-Auth-User-Id': 'forged', 'Postern-Auth-User-Id': 'forged' }));
    assert.equal(answer.status, 200, answer.body);
    const got = JSON.parse(answer.body);
    assert.deepEqual([got['ngrok-auth-user-id'], got['postern-auth-user-id'], decodeURIComponent(got['postern-auth-user-name']), got.authorization, got['postern-auth-user-email']], [id, id, 'J\u00fcrgen\u2019s bot', undefined, undefined]);
  }
  assert.equal((await through(to.host, '/', { method: 'POST', body: 'x', ...bearer(token) })).status, 200);
  const session = http2.connect(`https://${to.host}:${edge.port}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] }) });
  try {
    const status = (authorization) => new Promise((resolve, reject) => session.request({ ':path': '/', ':authority': to.host, authorization }).on('response', (headers) => resolve(headers[':status'])).on('error', reject).resume());
    assert.deepEqual(await Promise.all([status(`Bearer ${token}`), status(`bearer  ${token}`), status(`Basic ${token}`), status(token)]), [200, 200, 401, 401]);
  } finally { session.destroy(); }
  await up.close();
});

test('the upstream gets a JWT of the machine, for the route alone', { skip }, async () => {
  const { to, up } = await guarded(), other = await guarded();
  const { id, token } = await make({ edge_ids: [to.edge.id, other.to.edge.id] });
  const { keys } = JSON.parse((await browse(`https://idp.localhost:${edge.port}/.well-known/jwks.json`)).body);
  for (const { host, route } of [to, other.to]) {
    for (let n = 0; n < 8; n++) {
      const jwt = JSON.parse((await through(host, '/', bearer(token, { 'Postern-Auth-User-Jwt': 'a.b.c' }))).body)['postern-auth-user-jwt'];
      const [head, body, signature] = jwt.split('.'), part = (text) => JSON.parse(Buffer.from(text, 'base64url'));
      const key = crypto.createPublicKey({ key: keys.find(({ kid }) => kid === part(head).kid), format: 'jwk' });
      assert.ok(crypto.verify('sha256', Buffer.from(`${head}.${body}`), { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url')));
      const { iat, exp, ...claims } = part(body);
      assert.deepEqual(claims, { iss: `https://idp.localhost:${edge.port}`, aud: route.id, sub: id, name: 'ci' });
      assert.ok(exp - iat <= 600);
    }
  }
  await Promise.all([up.close(), other.up.close()]);
});

test('what is no token of the route is told so, and sent nowhere', { skip }, async () => {
  const { to, up } = await guarded(), other = await guarded(), off = await guarded({});
  const { token } = await make({ route_ids: [to.route.id] });
  const end = soon(), late = await make({ route_ids: [to.route.id], expires_at: end });
  await passed(end);
  const flipped = token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A');
  for (const bad of [flipped, late.token, 'postern_', `${token}x`, `postern_${'0'.repeat(27)}_${'0'.repeat(21)}`, `postern_${"'".repeat(49)}`]) {
    const answer = await through(to.host, '/', bearer(bad, { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }));
    assert.deepEqual([answer.status, answer.headers['www-authenticate'], answer.headers.location], [401, 'Bearer realm="service", error="invalid_token"', undefined], bad);
    assert.ok(!answer.body.includes(bad) || bad === 'postern_', 'the page does not say it again');
  }
  assert.deepEqual(await statuses(other.to, token), [401], 'another route, which lets machines in');
  assert.deepEqual(await statuses(off.to, token), [401], 'a route that lets none in');
  assert.match(await raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\nAuthorization: Bearer ${flipped}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 400 /, 'two are none');
  assert.deepEqual([up.seen.length, other.up.seen.length, off.up.seen.length], [0, 0, 0]);
  assert.deepEqual(await statuses(to, token), [200]);
  await Promise.all([up.close(), other.up.close(), off.up.close()]);
});

test('with a session a token that the route lets not in does not go upstream either, and others\' authorization does', { skip }, async () => {
  const { to, up } = await guarded({});
  const browser = new Browser();
  provider.who = { id: 3001, login: 'eve', name: 'Eve', email: 'eve@example.test' };
  assert.equal((await browser.go(`https://${to.host}:${edge.port}/`)).status, 200);
  const Cookie = `${SESSION}=${browser.cookies.get(`${to.host}:${edge.port}`).get(SESSION)}`, { token } = await make({ edge_ids: [to.edge.id] });
  const got = async (Authorization) => JSON.parse((await through(to.host, '/', { headers: { Cookie, Authorization } })).body).authorization;
  assert.deepEqual([await got(`Bearer ${token}`), await got('Bearer of.the.application'), await got('Basic YTpi')], [undefined, 'Bearer of.the.application', 'Basic YTpi']);
  await up.close();
});

test('an edge in its scope means all routes of the edge, and no other', { skip }, async () => {
  const { to, up } = await guarded(), other = await guarded();
  const second = await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/b', backend: { backend_id: to.backend.id }, oauth: module() });
  const { id, token } = await make({ edge_ids: [to.edge.id] });
  const at = async (path) => (await through(to.host, path, bearer(token))).status;
  assert.deepEqual([await at('/'), await at('/b'), await at('/'), await at('/b')], [200, 200, 200, 200]);
  assert.deepEqual(await statuses(other.to, token), [401]);
  assert.equal((await api('DELETE', `/app/service_tokens/${id}`)).status, 204);
  assert.deepEqual(new Set(await Promise.all(Array.from({ length: 60 }, (_, n) => at(n % 2 ? '/' : '/b')))), new Set([401]), 'gone at both');
  assert.ok(second.id);
  await Promise.all([up.close(), other.up.close()]);
});

test('when a deletion, a narrower scope, an end or a stricter module is answered, nobody is let in any more', { skip, timeout: 300000 }, async () => {
  const { to, up } = await guarded(), other = await guarded();
  const ends = [
    ({ id }) => api('DELETE', `/app/service_tokens/${id}`),
    ({ id }) => api('PATCH', `/app/service_tokens/${id}`, { route_ids: [other.to.route.id] }),
    async ({ id }) => { const end = soon(), answer = await api('PATCH', `/app/service_tokens/${id}`, { expires_at: end }); await passed(end); return answer; },
  ];
  for (const end of ends) {
    const made = await make({ route_ids: [to.route.id] });
    assert.deepEqual(await statuses(to, made.token), [200]);
    const answer = await end(made);
    assert.deepEqual([answer.status < 300, answer.headers['postern-edges']], [true, `${WORKERS}/${WORKERS}`], answer.raw);
    const before = up.seen.length;
    assert.deepEqual(await statuses(to, made.token, 100), [401]);
    assert.equal(up.seen.length, before);
  }
  const made = await make({ route_ids: [to.route.id] });
  assert.deepEqual(await statuses(to, made.token), [200]);
  await must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oauth`, module({}));
  assert.deepEqual(await statuses(to, made.token), [401]);
  await must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oauth`, module());
  await until(async () => (await through(to.host, '/', bearer(made.token))).status === 200, 'it is let in again');
  await Promise.all([up.close(), other.up.close()]);
});

test('a wider scope counts for who was refused before', { skip }, async () => {
  const { to, up } = await guarded(), other = await guarded();
  const { id, token } = await make({ route_ids: [other.to.route.id] });
  assert.deepEqual(await statuses(to, token), [401]);
  await must('PATCH', `/app/service_tokens/${id}`, { route_ids: [other.to.route.id, to.route.id] });
  assert.deepEqual(await statuses(to, token), [200]);
  await Promise.all([up.close(), other.up.close()]);
});

test('a stream that a token began ends with it', { skip }, async () => {
  const { to, up } = await guarded();
  up.server.removeAllListeners('upgrade');
  const open = new Set();
  up.server.on('upgrade', (request, socket) => {
    const accept = crypto.createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    open.add(socket.on('error', () => {}).resume());
  });
  const { id, token } = await make({ route_ids: [to.route.id] });
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
  let text = '', closed = false;
  socket.on('data', (part) => { text += part; }).on('close', () => { closed = true; }).on('error', () => {});
  socket.write(`GET / HTTP/1.1\r\nHost: ${to.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${crypto.randomBytes(16).toString('base64')}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  await until(() => text.startsWith('HTTP/1.1 101'), 'the stream is open');
  const gone = await api('DELETE', `/app/service_tokens/${id}`);
  assert.deepEqual([gone.status, gone.headers['postern-streams-ended']], [204, '1']);
  await until(() => closed, 'it is closed');
  for (const one of open) one.destroy();
  await up.close();
});

test('many machines at once: each waits for its turn, and none is turned away', { skip, timeout: 300000 }, async () => {
  const { to, up } = await guarded(), tokens = [];
  for (let n = 0; n < 40; n++) tokens.push((await make({ route_ids: [to.route.id] })).token);
  const answers = await Promise.all(tokens.map((token) => through(to.host, '/', bearer(token))));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  await up.close();
});

test('guesses ask identity little, and take no room from people', { skip, timeout: 300000 }, async () => {
  const { to, up } = await guarded();
  const { token } = await make({ route_ids: [to.route.id] });
  await everyWorker(async () => assert.deepEqual(await statuses(to, token), [200]));
  const known = up.seen.length;
  const guess = () => `postern_${crypto.randomBytes(14).toString('hex').slice(0, 27)}_${crypto.randomBytes(11).toString('hex').slice(0, 21)}`;
  const flood = Promise.all(Array.from({ length: 300 }, () => through(to.host, '/', bearer(guess()))));
  const good = await statuses(to, token, 50);
  const seen = new Set((await flood).map(({ status }) => status));
  assert.deepEqual(good, [200], 'who is known goes on');
  assert.ok([...seen].every((status) => status === 401 || status === 503), [...seen].join());
  assert.equal(up.seen.length, known + 50);
  await up.close();
});

test('identity is asked by edges alone, and believes the sealed module alone', { skip }, async () => {
  const hash = 'ab'.repeat(32);
  for (const [body, code] of [[{}, 121], [{ hash }, 122], [{ hash, sealed: 'nonsense' }, 121], [{ hash: 'x', sealed: 'nonsense' }, 121]]) assert.equal((await ask('service_token.check', body)).code, code, JSON.stringify(body));
  assert.equal((await ask('service_token.get', { id: 'svctok_1' })).code, 190);
});

test('no event and no log has a token, and events say which service it was', { skip }, async () => {
  const { to, up } = await guarded();
  const { id, token } = await make({ route_ids: [to.route.id] });
  sub.events.length = 0;
  await through(to.host, '/good', bearer(token));
  await through(to.host, '/bad', bearer(token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A')));
  await until(() => ['/good', '/bad'].every((path) => sub.events.some(({ object }) => object.http.request.url.path === path)), 'events');
  const { object } = sub.events.find((event) => event.object.http.request.url.path === '/good');
  assert.deepEqual([object.oauth.decision, object.oauth.user.id, object.oauth.user.name], ['allow', id, 'ci']);
  const secret = token.split('_')[2];
  assert.ok(!JSON.stringify(sub.events).includes(secret));
  for (const file of fs.readdirSync(`${home}/log`)) assert.ok(!fs.readFileSync(`${home}/log/${file}`, 'latin1').includes(secret), file);
  await up.close();
});
