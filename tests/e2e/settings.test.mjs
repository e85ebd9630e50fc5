// The settings of the edge (proto/edge_settings.def): a stack of its own, with short times and few connections, does what they say. What is
// waited for is what the edge does when a time is over, and never how long that took.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { own } from '../support/own.mjs';
import { edge, elsewhere, env, tail, tcpUpstream, unique, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, BALANCER = '127.0.0.8';

// What stories of one stack need: a route to an address, requests, and their events in the order of paths.
function speaking(state) {
  const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
  const ca = fs.readFileSync(vars.POSTERN_EDGE_CA), sub = tail('http_request_complete', { POSTERN_HOME: state });
  const call = async (path, body) => {
    const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    assert.ok(got.ok, `${path}: ${got.status} ${got.ok ? '' : await got.text()}`);
    return got.json();
  };
  const route = async (address, fields = {}, modules = {}) => {
    const host = unique('settings');
    await call('/reserved_domains', { domain: host });
    const backend = await call('/backends/static', { address, ...fields }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id }, ...modules });
    return host;
  };
  const ask = (host, path = '/', { method = 'GET', body, headers = {}, agent = false } = {}) => new Promise((resolve, reject) => {
    const request = https.request({ host: edge.host, port, servername: host, ca, path, method, headers: { Host: host, ...headers }, agent }, (answer) => {
      answer.resume().on('end', () => resolve({ status: answer.statusCode, connection: answer.headers.connection })).on('error', reject);
    }).on('error', reject);
    request.end(body);
  });
  const connect = (host, lines) => {
    const socket = tls.connect({ host: edge.host, port, servername: host, ca });
    socket.on('error', () => {});
    socket.on('secureConnect', () => socket.write(lines.join('\r\n')));
    return socket;
  };
  const reused = async (host, count) => (await until(() => { const mine = sub.events.filter(({ object }) => object.conn.server_name === host); return mine.length === count && mine; }, `${count} events of ${host}`))
    .sort((a, b) => (a.object.http.request.url.path < b.object.http.request.url.path ? -1 : 1)).map(({ object }) => object.backend.connection_reused);
  const heard = async () => {
    const host = await route('127.0.0.1:1');
    await until(async () => { await ask(host); return sub.events.length > 0; }, 'the first event');
  };
  const refused = async (reason) => Number(new RegExp(`^postern_edge_proxy_protocol_refused_total\\{worker="0",reason="${reason}"\\} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${port - 28}/metrics`).then((got) => got.text()))[1]);
  return { route, ask, connect, reused, heard, refused, sub };
}

// Connections that came, each with what it has ended by.
async function counted(handler) {
  const up = await upstream(handler), sockets = [];
  up.server.on('connection', (socket) => { sockets.push(socket); socket.on('error', () => {}); });
  return Object.assign(up, { sockets });
}
const ended = (socket) => until(() => socket.destroyed || socket.readableEnded, 'the connection ends');

const KEPT = { POSTERN_EDGE_WORKERS: '1', POSTERN_UPSTREAM_KEEPALIVE: '2', POSTERN_UPSTREAM_KEEPALIVE_REQUESTS: '3', POSTERN_UPSTREAM_KEEPALIVE_TIMEOUT: '1h',
  POSTERN_CLIENT_KEEPALIVE_REQUESTS: '2', POSTERN_CLIENT_KEEPALIVE_TIMEOUT: '1h', POSTERN_EDGE_LOG_LEVEL: 'info' };
// The least that one client and one account may have, of the least memory.
const SMALL = { ...KEPT, POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_PORTION: '1', POSTERN_ACCOUNT_PORTION: '1' };
// Long enough for what has to come in time on a machine that stands still for seconds.
const SHORT = { ...KEPT, POSTERN_EDGE_LOG_LEVEL: 'warn', POSTERN_UPSTREAM_KEEPALIVE_TIMEOUT: '8s', POSTERN_CLIENT_KEEPALIVE_TIMEOUT: '8s', POSTERN_CONNECT_TIMEOUT: '8s', POSTERN_READ_TIMEOUT: '8s', POSTERN_SEND_TIMEOUT: '8s',
  POSTERN_CLIENT_HEADER_TIMEOUT: '8s', POSTERN_CLIENT_BODY_TIMEOUT: '8s', POSTERN_CLIENT_SEND_TIMEOUT: '8s', POSTERN_SESSION_TRUST: '1500ms', POSTERN_TICKET_PERIOD: '3600500ms', POSTERN_PROXY_PROTOCOL_FROM: BALANCER };

// However small the portions, what has an allowed size fits where nobody has any: the largest webhook, a large head.
async function fitsWhatIsAllowed({ route, ask }) {
  const up = await counted(), secret = 'Keep it so', body = Buffer.alloc(1 << 20, 'x'), hooks = await route(up.address, {}, { webhook_verification: { provider: 'github', secret } });
  const signature = `sha256=${crypto.createHmac('sha256', secret).update(body).digest('hex')}`;
  assert.equal((await ask(hooks, '/hook', { method: 'POST', body, headers: { 'X-Hub-Signature-256': signature, 'Content-Length': body.length } })).status, 200);
  const host = await route(up.address);
  assert.equal((await ask(host, '/head', { headers: { 'x-large': 'x'.repeat(14000) } })).status, 200); // the story's upstream takes no more
  assert.deepEqual(up.seen.map(({ url, body: got }) => [url, got.length]), [['/hook', body.length], ['/head', 0]]);
  await up.close();
}

async function keepsConnections({ route, ask, reused }) {
  const a = await counted(), b = await counted(), c = await counted();
  const to = { a: await route(a.address), b: await route(b.address), c: await route(c.address) };
  // three requests on each connection to an upstream
  for (let i = 1; i <= 7; i++) assert.equal((await ask(to.a, `/${i}`)).status, 200);
  assert.deepEqual(await reused(to.a, 7), [false, true, true, false, true, true, false]);
  assert.equal(a.sockets.length, 3);
  // of three connections two are kept: the one that was idle for longest is not
  for (const name of ['b', 'c']) assert.equal((await ask(to[name], '/1')).status, 200);
  await ended(a.sockets[2]);
  for (const name of ['c', 'b']) assert.equal((await ask(to[name], '/2')).status, 200);
  assert.equal((await ask(to.a, '/8')).status, 200);
  assert.deepEqual([await reused(to.b, 2), await reused(to.c, 2), (await reused(to.a, 8)).at(-1)], [[false, true], [false, true], false]);
  assert.deepEqual([a.sockets.length, b.sockets.length, c.sockets.length], [4, 1, 1]);
  // two requests on each connection of a client, and the second answer says so
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  const said = [];
  for (let i = 1; i <= 4; i++) said.push((await ask(to.b, '/more', { agent })).connection);
  agent.destroy();
  assert.deepEqual(said, ['keep-alive', 'close', 'keep-alive', 'close']);
  for (const up of [a, b, c]) await up.close();
}

async function endsWhatIsIdle({ route, ask, connect, reused }) {
  const up = await counted(), host = await route(up.address);
  assert.equal((await ask(host, '/1')).status, 200);
  await ended(up.sockets[0]);
  assert.equal((await ask(host, '/2')).status, 200);
  assert.deepEqual([await reused(host, 2), up.sockets.length], [[false, false], 2]);
  const client = connect(host, ['GET /3 HTTP/1.1', `Host: ${host}`, '', '']);
  let text = '';
  client.on('data', (part) => { text += part; });
  await ended(client);
  assert.match(text, /^HTTP\/1\.1 200 /);
  assert.doesNotMatch(text, /Connection: close/i);
  await up.close();
}

async function endsWhatIsLate({ route, ask, connect, sub }) {
  const silent = await tcpUpstream(() => {}), full = await tcpUpstream((socket) => socket.pause());
  const large = await counted((request, response) => { response.on('error', () => {}); response.write(Buffer.alloc(32 << 20)); });
  const hosts = { handshake: await route(silent.address, { tls: { enabled: true } }), answer: await route(silent.address), upload: await route(full.address), download: await route(large.address) };
  const eventOf = (host) => until(() => sub.events.find(({ object }) => object.conn.server_name === host), `an event of ${host}`);
  // the upstream: its handshake, its answer, what it takes of a request
  const [handshake, answer] = await Promise.all([ask(hosts.handshake), ask(hosts.answer), ask(hosts.upload, '/', { method: 'POST', body: Buffer.alloc(32 << 20) }).catch(() => {})]);
  assert.ok([502, 504].includes(handshake.status));
  assert.equal(answer.status, 504);
  assert.equal((await eventOf(hosts.upload)).object.http.response.status_code, 504);
  // the client: its handshake, the head of a request, the body, what it takes of an answer
  const slow = net.connect({ host: edge.host, port });
  const partial = connect(hosts.download, ['POST /upload HTTP/1.1', `Host: ${hosts.download}`, 'Content-Length: 100', '', 'x']);
  await Promise.all([slow, connect(hosts.answer, ['GET / HTTP/1.1', 'Host: ']), partial].map((socket) => ended(socket.resume())));
  const stalled = connect(hosts.download, ['GET /stalled HTTP/1.1', `Host: ${hosts.download}`, '', '']);
  stalled.pause();
  await until(() => large.seen.some(({ url }) => url === '/stalled'), 'the request');
  await until(() => large.sockets.every((socket) => socket.destroyed), 'its end at the upstream');
  stalled.destroy();
  for (const up of [silent, full, large]) await up.close();
}

// A header of the PROXY protocol that never ends, and one whose client then says nothing.
async function endsLateHeaders({ refused }) {
  const before = await refused('header');
  const closed = await Promise.all(['', 'PROXY TCP4 203.0.113.7', '\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c', 'PROXY TCP4 203.0.113.7 192.0.2.1 1 2\r\n'].map(async (bytes) => {
    const socket = net.connect({ host: edge.host, port: port + 1, localAddress: BALANCER });
    socket.on('error', () => {});
    socket.write(Buffer.from(bytes, 'latin1'));
    await ended(socket.resume());
    return true;
  }));
  assert.deepEqual([closed.length, await refused('header') - before], [4, 3]);
}

test('timeouts and kept connections are what the settings say', { skip, timeout: 300000 }, () => own(async ({ state, run }) => {
  const up = run('up', { settings: SMALL });
  assert.equal(up.status, 0, up.stdout + up.stderr);
  const stack = speaking(state);
  await stack.heard();
  await fitsWhatIsAllowed(stack);
  await keepsConnections(stack);
  assert.equal(await fetch(`http://127.0.0.1:${port + 1}/`).catch(({ cause }) => cause.code), 'ECONNREFUSED', 'nothing listens for load balancers that nobody named');

  assert.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 400);
  await until(() => / \[info\] .*client sent plain HTTP request to HTTPS port/.test(fs.readFileSync(`${state}/log/edge.log`, 'utf8')), 'the log has it');
  const conf = fs.readFileSync(`${state}/edge/nginx.conf`, 'utf8');
  assert.match(conf, /^error_log stderr info;$/m);
  const beyond = run('replace-edge', { settings: { ...SHORT, POSTERN_READ_TIMEOUT: '2d' } });
  assert.deepEqual([beyond.status, beyond.stderr], [1, "error: POSTERN_READ_TIMEOUT must be a time from 1s to 1d: '2d'\n"]);
  assert.equal(fs.readFileSync(`${state}/edge/nginx.conf`, 'utf8'), conf, 'nothing was replaced');

  const replaced = run('replace-edge', { settings: SHORT });
  assert.equal(replaced.status, 0, replaced.stdout + replaced.stderr);
  assert.match(fs.readFileSync(`${state}/edge/nginx.conf`, 'utf8'), /^error_log stderr warn;$/m);
  await endsWhatIsIdle(stack);
  await endsWhatIsLate(stack);
  await endsLateHeaders(stack);
  await stack.sub.stop();
}, { also: { POSTERN_PROXY_PROTOCOL_FROM: '' } }));
