// user_agent_filter: who may come in by the User-Agent header, and that nobody else reaches the upstream.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { api, edge, elsewhere, endpoint, listening, must, raw, tcpUpstream, through, until, upstream, WebSocket, ca } from '../support/postern.mjs';

const CODE = 'ERR_POSTERN_922';
const up = await upstream();
const connections = { count: 0 };
up.server.on('connection', () => { connections.count++; });
const sub = await listening('http_request_complete');
test.after(() => up.close());
const metrics = () => fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text());
const denials = async () => Number(/^postern_edge_module_denied_total\{module="user_agent_filter"\} (\d+)/m.exec(await metrics())[1]);
const put = (to, rules) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/user_agent_filter`, rules);
const ask = (to, agent, more = {}) => through(to.host, '/', { ...more, headers: { ...(agent === undefined ? {} : { 'User-Agent': agent }), ...more.headers } });

// [what it says, rules, header (undefined: none), does it pass]
const to = await endpoint(up.address, { user_agent_filter: {} });
for (const [what, rules, agent, passes] of [
  ['without rules whoever says what it is passes', {}, 'curl/8', true],
  ['without rules a request without the header is denied', {}, undefined, false],
  ['without rules an empty header is denied', {}, '', false],
  ['what deny matches is denied', { deny: ['(?i)bot'] }, 'GoogleBot/2.1', false],
  ['what deny does not match passes', { deny: ['(?i)bot'] }, 'Mozilla/5.0', true],
  ['an expression is found anywhere', { deny: ['bot'] }, 'a robot here', false],
  ['an expression may be bound to the ends', { deny: ['^bot$'] }, 'a robot here', true],
  ['allow stands over deny', { allow: ['^Good'], deny: ['bot'] }, 'Goodbot', true],
  ['what neither matches passes', { allow: ['^Good'], deny: ['bot'] }, 'curl/8', true],
  ['allow alone keeps nobody out', { allow: ['^Good'] }, 'curl/8', true],
  ['allow, and deny for all others', { allow: ['^Good'], deny: ['.*'] }, 'curl/8', false],
  ['the last of several counts', { deny: ['a', 'b', 'curl'] }, 'curl/8', false],
  ['no header, and allow matches the empty text', { allow: ['^$'] }, undefined, true],
  ['no header, allow matches the empty text and deny everything', { allow: ['^$'], deny: ['.*'] }, undefined, true],
  ['no header, and allow does not match the empty text', { allow: ['.+'] }, undefined, false],
  ['an empty header is as none', { allow: ['^$'] }, '', true],
  ['2,048 bytes are judged', { deny: ['x$'] }, 'a'.repeat(2048), true],
  ['2,049 bytes are denied', { allow: ['.*'] }, 'a'.repeat(2049), false],
  ['a byte that is no UTF-8 hides nothing', { deny: ['^x.y$'] }, 'x\xffy', false],
  ['an expression that would take others exponential time', { deny: ['(a*)*b$'] }, 'a'.repeat(2000), true],
])
  test(what, async () => {
    await put(to, rules);
    up.seen.length = 0;
    const before = connections.count, got = await ask(to, agent);
    assert.equal(got.status, passes ? 200 : 403);
    if (passes) {
      assert.equal(up.seen[0].headers['user-agent'], agent);
    } else {
      assert.equal(JSON.parse(got.body).error_code, CODE);
      assert.deepEqual([up.seen.length, connections.count], [0, before]);
    }
  });

test('of several headers the first counts', async () => {
  await put(to, { deny: ['bot'] });
  const get = (...agents) => raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\n${agents.map((agent) => `User-Agent: ${agent}\r\n`).join('')}Connection: close\r\n\r\n`);
  assert.match(await get('curl', 'bot'), /^HTTP\/1.1 200/);
  assert.match(await get('bot', 'curl'), /^HTTP\/1.1 403/);
  assert.match(await get('', 'curl'), /^HTTP\/1.1 403/);
});

test('a denied request: page, event and metrics say which module it was', { skip: elsewhere }, async () => {
  const one = await endpoint(up.address, { user_agent_filter: { deny: ['bot'] } }), before = await denials();
  up.seen.length = 0;
  const page = await ask(one, 'bot', { headers: { Accept: 'text/html' }, method: 'POST', body: 'x'.repeat(100_000) });
  assert.equal(page.status, 403);
  assert.match(page.body, new RegExp(`<code>${CODE}</code>`));
  assert.equal(up.seen.length, 0);
  assert.equal(await denials(), before + 1);
  const { object } = await until(() => sub.events.find((event) => event.object.conn.server_name === one.host), 'its event');
  assert.deepEqual(object.denied, { module: 'user_agent_filter', route_id: one.route.id });
  assert.equal(object.http.response.status_code, 403);
  assert.equal(object.http.request.user_agent, 'bot');
});

test('one that passed leaves an event that says nothing of denials', async () => {
  const one = await endpoint(up.address, { user_agent_filter: { deny: ['bot'] } });
  assert.equal((await ask(one, 'curl')).status, 200);
  const { object } = await until(() => sub.events.find((event) => event.object.conn.server_name === one.host), 'its event');
  assert.deepEqual(object.denied, { module: '', route_id: '' });
});

const many = (pattern) => Array.from({ length: 50 }, (_, i) => pattern + i);
for (const [what, rules, field] of [
  ['no expression', { deny: ['ok', '('] }, 'user_agent_filter.deny[1]'],
  ['no expression of RE2', { allow: ['(?=a)'] }, 'user_agent_filter.allow[0]'],
  ['51 expressions', { deny: [...many('x'), 'y'] }, 'user_agent_filter.deny'],
  ['expressions that each fit, and together do not', { deny: many('(a|b)*a(a|b){40}') }, 'user_agent_filter.deny'],
  ['one that takes too much memory', { allow: ['((a{1,30}){1,30}){1,3}'] }, 'user_agent_filter.allow[0]'],
  ['more text than 64 KiB', { deny: [`[${'a'.repeat(70_000)}]`] }, 'user_agent_filter.deny'],
])
  test(`refused when it is stored: ${what}`, async () => {
    await put(to, { deny: ['bot'] });
    const got = await api('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/user_agent_filter`, rules);
    assert.deepEqual([got.status, got.body.error_code], [400, 'ERR_POSTERN_166'], got.raw);
    assert.ok(JSON.stringify(got.body.details).includes(field), got.raw);
    assert.equal((await ask(to, 'bot')).status, 403, 'what was stored before is in force');
  });

test('what RE2 says of an expression stands behind its field and the rule', async () => {
  const got = await api('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/user_agent_filter`, { deny: ['ok', 'b(c'] });
  assert.equal(got.body.msg, "user_agent_filter.deny[1]: is no expression that RE2 takes: 'missing ): b(c'", got.raw);
  assert.equal(got.body.details['user_agent_filter.deny[1]'], "is no expression that RE2 takes: 'missing ): b(c'");
});

test('fifty expressions of a usual list are taken', async () => {
  await put(to, { deny: Array.from({ length: 50 }, (_, i) => `(?i)\\bSomeCrawler${i}[/ ][0-9.]+`) });
  assert.equal((await ask(to, 'a somecrawler49/1.0')).status, 403);
  assert.equal((await ask(to, 'a somecrawler50/1.0')).status, 200);
});

// Each byte of such a header leads to a state that the automaton of these expressions does not have yet.
const growing = Array.from({ length: 40 }, (_, i) => `[ab]*a[ab]{12}c${i}`);
const grows = (length) => Array.from(crypto.randomBytes(length), (byte) => 'ab'[byte & 1]).join('');

test('a header that is too long for a large list is denied, and 256 bytes are judged by any', async () => {
  await put(to, { deny: growing });
  assert.equal((await ask(to, grows(256))).status, 200);
  assert.equal((await ask(to, `${grows(240)}a${'b'.repeat(12)}c1`)).status, 403);
  assert.equal((await ask(to, grows(2048))).status, 403);
  await put(to, { deny: growing.slice(0, 1) });
  assert.equal((await ask(to, grows(2048))).status, 200);
});

test('searches that take long wait for each other, and nobody else for them', { skip: elsewhere }, async () => {
  const one = await endpoint(up.address, { user_agent_filter: { deny: growing } }), other = await endpoint(up.address, { user_agent_filter: { deny: ['bot'] } });
  const waited = async () => Number(/^postern_edge_module_suspended_total\{module="user_agent_filter"\} (\d+)/m.exec(await metrics())[1]);
  const before = await waited();
  const session = http2.connect(`https://${one.host}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: one.host, ca, ALPNProtocols: ['h2'] }) });
  const get = (agent) => new Promise((resolve, reject) => {
    const stream = session.request({ ':path': '/', ':authority': one.host, 'user-agent': agent });
    stream.on('response', (head) => resolve(head[':status'])).on('error', reject).resume();
  });
  const agents = Array.from({ length: 100 }, (_, i) => (i % 10 ? grows(400) : `${grows(380)}a${'b'.repeat(12)}c1`));
  const [answers, quick] = await Promise.all([Promise.all(agents.map(get)), ask(other, 'curl/8')]);
  assert.deepEqual(answers, agents.map((_, i) => (i % 10 ? 200 : 403)), 'each is judged');
  assert.equal(quick.status, 200);
  assert.ok(await waited() > before, 'one turn of the event loop was not for all of them');
  const gone = session.request({ ':path': '/', ':authority': one.host, 'user-agent': grows(400) });
  gone.on('error', () => {});
  await Promise.all([...Array.from({ length: 40 }, () => get(grows(400)).catch(() => 0)), new Promise((resolve) => { gone.on('close', resolve); setImmediate(() => gone.close(http2.constants.NGHTTP2_CANCEL)); })]);
  session.destroy();
  assert.equal((await ask(one, 'curl/8')).status, 200, 'who went away while they waited is in nobody\'s way');
});

test('a module that is off lets all pass', async () => {
  await put(to, { enabled: false, deny: ['.*'] });
  assert.equal((await ask(to)).status, 200);
});

test('a change is in force when it is answered, under traffic', async () => {
  const one = await endpoint(up.address, { user_agent_filter: { deny: ['bot'] } });
  let stop = false, asked = 0;
  const traffic = Promise.all(Array.from({ length: 4 }, async () => {
    while (!stop) { const { status } = await ask(one, 'curl/8'); assert.ok([200, 403].includes(status), `${status}`); asked++; }
  }));
  for (let i = 0; i < 10; i++) {
    await put(one, { deny: [i % 2 ? 'bot' : 'curl'] });
    assert.equal((await ask(one, 'curl/8')).status, i % 2 ? 200 : 403);
  }
  await until(() => asked > 20, 'traffic');
  stop = true;
  await traffic;
});

test('an open WebSocket ends when its agent is denied, and no other does', async () => {
  const echo = await tcpUpstream((socket) => socket.once('data', (head) => {
    const key = head.toString('latin1').match(/sec-websocket-key: (\S+)/i)[1];
    const accept = crypto.createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  }));
  const one = await endpoint(echo.address, { user_agent_filter: { deny: ['bot'] } });
  const open = async (agent) => {
    const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { ca, servername: one.host, headers: { Host: one.host, 'User-Agent': agent } });
    socket.on('error', () => {});
    await until(() => socket.readyState === WebSocket.OPEN, 'it is open');
    return socket;
  };
  const [old, fine] = [await open('Old/1'), await open('New/2')];
  await put(one, { deny: ['^Old/'] });
  await until(() => old.readyState === WebSocket.CLOSED, 'the end');
  assert.equal(fine.readyState, WebSocket.OPEN);
  fine.terminate();
  await echo.close();
});
