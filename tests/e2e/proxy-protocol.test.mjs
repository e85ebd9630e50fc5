// The PROXY protocol: at the ports for it a load balancer says whose connection each one is, and nobody else may. The stack of these
// stories takes 127.0.0.3 and 127.0.0.8/30 for load balancers (POSTERN_PROXY_PROTOCOL_FROM in the Makefile), and 127.0.0.2 and 127.0.0.3
// for proxies whose headers are believed: a story is one by connecting from there.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { account } from '../support/account.mjs';
import { WebSocket, api, ca, edge, elsewhere, endpoint, env, listening, must, unique, until, upstream } from '../support/postern.mjs';

const skip = elsewhere; // who connects is an address of this machine
const PORT = edge.port + 1, PLAIN = edge.plainPort + 1, BALANCER = '127.0.0.8', BOTH = '127.0.0.3', STRANGER = '127.0.0.20';
const up = await upstream();
let connections = 0;
up.server.on('connection', () => connections++);
const sub = await listening('http_request_complete');
test.after(() => up.close());

const eventsOf = (host) => sub.events.filter(({ object }) => object.conn.server_name === host).map(({ object }) => object);
const metric = async (reason) => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text()))
  .matchAll(new RegExp(`^postern_edge_proxy_protocol_refused_total\\{worker="\\d+",reason="${reason}"\\} (\\d+)`, 'gm'))].reduce((sum, [, n]) => sum + Number(n), 0);
const codeOf = ({ body }) => /ERR_POSTERN_\d+/.exec(body)?.[0];

// ---- headers ----

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n');
const line = (client, family = net.isIPv6(client) ? 6 : 4) => Buffer.from(`PROXY TCP${family} ${client} ${family === 6 ? '::1' : '192.0.2.1'} 50000 443\r\n`);
const v4 = (client) => Buffer.from([...client.split('.').map(Number), 192, 0, 2, 1, 0xc3, 0x50, 1, 0xbb]);
const v6 = (words) => Buffer.concat([Buffer.from(words, 'hex'), Buffer.alloc(16), Buffer.from([0xc3, 0x50, 1, 0xbb])]);
const binary = (addresses, { family = addresses.length === 36 ? 0x21 : 0x11, command = 0x21, tlvs = Buffer.alloc(0), length = addresses.length + tlvs.length } = {}) =>
  Buffer.concat([SIGNATURE, Buffer.from([command, family, length >> 8, length & 255]), addresses, tlvs]);
const tlv = (type, value) => Buffer.concat([Buffer.from([type, value.length >> 8, value.length & 255]), value]);
const NOBODY = { 'a health check of its own (LOCAL)': binary(Buffer.alloc(0), { command: 0x20, family: 0 }), 'LOCAL, with an address': binary(v4('203.0.113.1'), { command: 0x20 }),
  UNKNOWN: Buffer.from('PROXY UNKNOWN\r\n'), 'UNKNOWN, with an address': Buffer.from('PROXY UNKNOWN 203.0.113.1 192.0.2.1 1 2\r\n'),
  'no family': binary(v4('203.0.113.1'), { family: 0 }), 'a socket of a path': binary(Buffer.alloc(216, '/run/x'), { family: 0x31 }) };

// ---- connections ----

// TCP to the port for load balancers, from an address of this machine, with these bytes first.
async function begun(bytes, { from = BALANCER, port = PORT } = {}) {
  const socket = net.connect({ host: edge.host, port, localAddress: from });
  await new Promise((resolve, reject) => socket.on('connect', resolve).on('error', reject));
  socket.on('error', () => {});
  if (bytes.length) socket.write(bytes);
  return socket;
}
async function overTls(host, bytes, { ALPNProtocols, ...where } = {}) {
  const socket = await begun(bytes, where), secure = tls.connect({ socket, servername: host, ca, ALPNProtocols });
  secure.on('error', () => {}); // who asks over it hears of it
  return secure;
}
// A request behind a header: {status, headers, body}.
async function ask(host, header, { target = '/', headers = {}, ...where } = {}) {
  const socket = await overTls(host, header, where);
  return new Promise((resolve, reject) => {
    https.request({ createConnection: () => socket, path: target, headers: { Host: host, Connection: 'close', ...headers } }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part)).on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts).toString() }));
    }).on('error', reject).end();
  });
}
// All that comes of a connection that has sent these bytes, until the edge closes it.
async function answerTo(bytes, where) {
  const socket = await begun(bytes, where), parts = [];
  socket.on('data', (part) => parts.push(part));
  await new Promise((resolve) => socket.on('close', resolve));
  return Buffer.concat(parts).toString('latin1');
}

const policyOf = async (...rules) => {
  const policy = await must('POST', '/ip_policies', {});
  for (const [action, cidr] of rules) await must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action, cidr });
  return policy;
};
const restricted = async (...rules) => endpoint(up.address, { ip_restriction: { ip_policy_ids: [(await policyOf(...rules)).id] } });

// ---- whose connection it is ----

for (const [what, header, client] of [
  ['IPv4', line('203.0.113.7'), '203.0.113.7'],
  ['IPv6', line('2001:db8::7'), '2001:db8::7'],
  ['IPv4 in IPv6', line('::ffff:203.0.113.7'), '203.0.113.7'],
  ['binary IPv4', binary(v4('203.0.113.7')), '203.0.113.7'],
  ['binary IPv6', binary(v6('20010db8000000000000000000000007')), '2001:db8::7'],
  ['binary IPv4 in IPv6', binary(v6('00000000000000000000ffffcb007107')), '203.0.113.7'],
  ['binary with TLVs', binary(v4('203.0.113.7'), { tlvs: Buffer.concat([tlv(4, Buffer.alloc(0)), tlv(0xea, Buffer.from('vpce-08d2bf15fac5001c9'))]) }), '203.0.113.7'],
  ['binary of 4,096 bytes', binary(v4('203.0.113.7'), { tlvs: tlv(0xe0, Buffer.alloc(4096 - 16 - 12 - 3, 'x')) }), '203.0.113.7'],
])
  test(`the connection is of whom the header names: ${what}`, { skip }, async () => {
    const network = client.includes(':') ? '2001:db8::/64' : '203.0.113.0/24';
    const open = await endpoint(up.address), may = await restricted(['allow', network]), mayNot = await restricted(['allow', '0.0.0.0/0'], ['allow', '::/0'], ['deny', network]);
    up.seen.length = 0;
    assert.equal((await ask(open.host, header, { headers: { 'X-Forwarded-For': '198.51.100.1' } })).status, 200);
    assert.equal(up.seen[0].headers['x-forwarded-for'], client);
    assert.equal((await ask(may.host, header)).status, 200);
    up.seen.length = 0;
    const before = connections, denied = await ask(mayNot.host, header);
    assert.deepEqual([denied.status, codeOf(denied), up.seen.length, connections - before], [403, 'ERR_POSTERN_930', 0, 0]);
    for (const [to, decision] of [[open, 'invalid'], [may, 'allow'], [mayNot, 'block']]) {
      const [event] = await until(() => { const all = eventsOf(to.host); return all.length && all; }, 'its event');
      assert.deepEqual([event.conn.client_ip, event.ip_policy.decision, event.conn.server_ip, event.conn.server_port], [client, decision, edge.host, PORT]);
    }
  });

for (const [what, header] of Object.entries(NOBODY))
  test(`the load balancer's own address counts where the header names nobody: ${what}`, { skip }, async () => {
    const may = await restricted(['allow', `${BALANCER}/32`]), mayNot = await restricted(['allow', '203.0.113.0/24']);
    assert.deepEqual([(await ask(may.host, header)).status, (await ask(mayNot.host, header)).status], [200, 403]);
    const [event] = await until(() => { const all = eventsOf(may.host); return all.length && all; }, 'its event');
    assert.equal(event.conn.client_ip, BALANCER);
  });

test('who is allowed is the client, not its load balancer, and not one load balancer for another', { skip }, async () => {
  const to = await restricted(['allow', `${BALANCER}/32`], ['allow', '203.0.113.7/32']);
  assert.equal((await ask(to.host, line('203.0.113.8'))).status, 403);
  assert.equal((await ask(to.host, line('203.0.113.7'), { from: '127.0.0.11' })).status, 200);
  assert.equal((await ask(to.host, NOBODY.UNKNOWN, { from: '127.0.0.11' })).status, 403);
});

test('all requests of a connection are of the same client: HTTP/1.1, HTTP/2, a WebSocket', { skip }, async () => {
  const to = await restricted(['allow', '203.0.113.7/32']);
  const one = await overTls(to.host, line('203.0.113.7'));
  let text = '';
  one.on('data', (part) => { text += part.toString('latin1'); });
  for (let i = 1; i <= 3; i++) {
    one.write(`GET /${i} HTTP/1.1\r\nHost: ${to.host}\r\n\r\n`);
    await until(() => text.split('HTTP/1.1 200').length > i, 'an answer');
  }
  one.destroy();
  const tunnel = await overTls(to.host, binary(v4('203.0.113.7')), { ALPNProtocols: ['h2'] });
  const session = http2.connect(`https://${to.host}`, { createConnection: () => tunnel });
  const statuses = await Promise.all([4, 5, 6].map((i) => new Promise((resolve, reject) => {
    const stream = session.request({ ':path': `/${i}`, ':authority': to.host });
    stream.on('response', (fields) => resolve(fields[':status'])).on('error', reject).resume();
  })));
  session.close();
  assert.deepEqual(statuses, [200, 200, 200]);
  const server = new WebSocket.Server({ server: up.server });
  const over = await overTls(to.host, line('203.0.113.7'));
  const ws = new WebSocket(`wss://${to.host}/`, { createConnection: () => over });
  await new Promise((resolve, reject) => ws.on('open', resolve).on('error', reject));
  ws.close();
  const events = await until(() => { const all = eventsOf(to.host); return all.length === 7 && all; }, 'seven events');
  assert.deepEqual(events.map(({ conn }) => conn.client_ip), Array(7).fill('203.0.113.7'));
  server.close();
});

test('an account\'s restriction judges the client, with TLS and at the port of plain HTTP', { skip }, async () => {
  const self = account(), host = unique('proxied');
  await self.must('POST', '/reserved_domains', { domain: host });
  const front = await self.must('POST', '/edges/https', { hostports: [`${host}:443`] });
  const backend = await self.must('POST', '/backends/static', { address: up.address });
  await self.must('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  const policy = await self.must('POST', '/ip_policies', {});
  await self.must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '203.0.113.0/24' });
  await self.must('POST', '/ip_restrictions', { type: 'endpoints', enforced: true, ip_policy_ids: [policy.id] });
  const plain = async (header) => /^HTTP\/1\.1 (\d+)/.exec(await answerTo(Buffer.concat([header, Buffer.from(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)]), { port: PLAIN }))?.[1];
  assert.deepEqual([(await ask(host, line('203.0.113.7'))).status, (await ask(host, line('198.51.100.7'))).status], [200, 403]);
  assert.deepEqual([await plain(line('203.0.113.7')), await plain(binary(v4('198.51.100.7')))], ['301', '403']);
});

test('the API at its own name is served there, too', { skip: skip || (env.POSTERN_API_TLS_URL ? false : 'the API has no name') }, async () => {
  const { hostname } = new URL(env.POSTERN_API_TLS_URL);
  const got = await ask(hostname, line('203.0.113.7'), { target: '/ip_policies?limit=1', headers: { Authorization: `Bearer ${env.POSTERN_API_KEY}`, 'Service-Version': '2' } });
  assert.equal(got.status, 200, got.body);
});

test('what is wrong with a request is said of the client that the header names', { skip }, async () => {
  const host = (await endpoint(up.address)).host, socket = await overTls(host, binary(v4('203.0.113.77')));
  socket.write('GET /nobody HTTP/1.1\r\n\r\n'); // no Host
  await new Promise((resolve) => socket.on('close', resolve).resume());
  const event = await until(() => sub.events.find(({ object }) => object.conn.client_ip === '203.0.113.77'), 'its event');
  assert.equal(event.object.http.response.status_code, 400);
});

test('what curl sends is a header', { skip }, async () => {
  const to = await restricted(['allow', `${BALANCER}/32`]), said = [];
  const child = spawn('curl', ['-s', '-o', '/dev/null', '-w', '%{http_code}', '--haproxy-protocol', '--interface', BALANCER, '--cacert', env.POSTERN_EDGE_CA, '--connect-to', `${to.host}:443:${edge.host}:${PORT}`, `https://${to.host}/`]);
  child.stdout.on('data', (part) => said.push(part));
  await new Promise((resolve) => child.on('close', resolve));
  assert.equal(Buffer.concat(said).toString(), '200');
});

test('no backend leads to the ports for load balancers, where the edge itself could be one', { skip }, async () => {
  for (const port of [PORT, PLAIN]) {
    const { status, body } = await api('POST', '/backends/static', { address: `127.0.0.1:${port}` });
    assert.deepEqual([status, body.error_code], [400, 'ERR_POSTERN_218']);
  }
});

// ---- trusted proxies ----

test('POSTERN_TRUSTED_PROXIES is asked of the client, never of its load balancer', { skip }, async () => {
  const headers = { 'X-Forwarded-For': '198.51.100.1', 'X-Forwarded-Proto': 'http', 'X-Real-IP': '198.51.100.1' };
  const seen = async (header, from) => {
    const to = await endpoint(up.address);
    up.seen.length = 0;
    assert.equal((await ask(to.host, header, { from, headers })).status, 200);
    const [event] = await until(() => { const all = eventsOf(to.host); return all.length && all; }, 'its event');
    const got = up.seen[0].headers;
    return [got['x-forwarded-for'], got['x-forwarded-proto'], got['x-real-ip'], event.conn.client_ip];
  };
  // a proxy that is trusted for its headers, behind a load balancer
  assert.deepEqual(await seen(line('127.0.0.2'), BALANCER), ['198.51.100.1, 127.0.0.2', 'http, https', '198.51.100.1', '198.51.100.1']);
  // a stranger behind one that is trusted for its headers, too
  assert.deepEqual(await seen(line('203.0.113.7'), BOTH), ['203.0.113.7', 'https', undefined, '203.0.113.7']);
  assert.deepEqual(await seen(binary(v4('203.0.113.7')), BOTH), ['203.0.113.7', 'https', undefined, '203.0.113.7']);
  // the same, speaking for itself
  assert.deepEqual(await seen(NOBODY.UNKNOWN, BOTH), ['198.51.100.1, 127.0.0.3', 'http, https', '198.51.100.1', '198.51.100.1']);
});

// ---- who may not ----

test('who is not named as a load balancer is closed before a byte is read, whatever is sent, and counted', { skip }, async () => {
  const to = await restricted(['allow', '203.0.113.0/24']);
  const before = await metric('address');
  for (const [port, bytes] of [[PORT, line('203.0.113.7')], [PORT, binary(v4('203.0.113.7'))], [PORT, Buffer.alloc(0)], [PORT, Buffer.from('PROXY')],
    [PLAIN, Buffer.concat([line('203.0.113.7'), Buffer.from(`GET / HTTP/1.1\r\nHost: ${to.host}\r\n\r\n`)])]])
    for (const from of [STRANGER, '127.0.0.2', '127.0.0.1', '127.0.0.12', '127.0.0.7']) assert.equal(await answerTo(bytes, { from, port }), '', `${from} to ${port}`);
  assert.equal(await metric('address') - before, 25);
  await assert.rejects(ask(to.host, line('203.0.113.7'), { from: STRANGER }));
  assert.deepEqual(eventsOf(to.host), []);
  if (env.POSTERN_LOG_DIR) {
    const lines = fs.readFileSync(path.join(env.POSTERN_LOG_DIR, 'edge.log'), 'utf8').split('\n').filter((text) => text.includes('its address is not in postern_proxy_protocol_from'));
    assert.ok(lines.length > 0);
    const last = {};
    for (const text of lines) { // one a minute of each worker, however long the edge has run
      const [, day, time, worker] = /^(\S+) (\S+) \[warn\] (\d+)#/.exec(text), at = Date.parse(`${day.replaceAll('/', '-')}T${time}Z`);
      assert.ok(!(at - last[worker] < 60000), lines.join('\n'));
      last[worker] = at;
    }
    assert.match(lines[0], /postern: a connection of 127\.0\.0\.\d+ to a listener of the PROXY protocol is closed/);
  }
});

test('at the usual ports a header is a broken handshake or a malformed request, also of a load balancer', { skip }, async () => {
  const to = await restricted(['allow', '203.0.113.0/24']);
  for (const header of [line('203.0.113.7'), binary(v4('203.0.113.7'))])
    for (const from of [BALANCER, BOTH, STRANGER]) {
      await assert.rejects(ask(to.host, header, { from, port: edge.port }), 'no handshake');
      const request = Buffer.from(`GET / HTTP/1.1\r\nHost: ${to.host}\r\n\r\n`);
      for (const port of [edge.port, edge.plainPort]) assert.match(await answerTo(Buffer.concat([header, request]), { from, port }), /^(HTTP\/1\.1 400 |$)/);
    }
  assert.deepEqual(eventsOf(to.host), []);
});

// ---- what is broken ----

const hello = Buffer.from('16030100050100000100', 'hex');
for (const [what, bytes] of [
  ['a handshake without one', hello],
  ['a request without one', Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n')],
  ['lower case', Buffer.from('proxy TCP4 203.0.113.7 192.0.2.1 1 2\r\n')],
  ['octal', Buffer.from('PROXY TCP4 0203.0.113.7 192.0.2.1 1 2\r\n')],
  ['a port of 65536', Buffer.from('PROXY TCP4 203.0.113.7 192.0.2.1 65536 2\r\n')],
  ['UDP', Buffer.from('PROXY UDP4 203.0.113.7 192.0.2.1 1 2\r\n')],
  ['an end without CR', Buffer.from('PROXY TCP4 203.0.113.7 192.0.2.1 1 2\n\r\n')],
  ['a line without end', Buffer.from(`PROXY UNKNOWN ${'x'.repeat(200)}`)],
  ['binary of version 1', binary(v4('203.0.113.7'), { command: 0x11 })],
  ['binary of an unknown command', binary(v4('203.0.113.7'), { command: 0x22 })],
  ['binary UDP', binary(v4('203.0.113.7'), { family: 0x12 })],
  ['binary, shorter than its addresses', binary(v4('203.0.113.7'), { length: 11 })],
  ['binary IPv6 that has only IPv4', binary(v4('203.0.113.7'), { family: 0x21 })],
  ['a TLV beyond the header', binary(v4('203.0.113.7'), { tlvs: Buffer.from([4, 0, 9, 1]) })],
  ['65,535 bytes', Buffer.concat([SIGNATURE, Buffer.from([0x21, 0x11, 255, 255]), Buffer.alloc(65535)])],
])
  test(`closed without an answer: ${what}`, { skip }, async () => {
    const before = await metric('header');
    assert.equal(await answerTo(bytes), '');
    assert.equal(await metric('header') - before, 1);
  });

test('a second header is a broken handshake, of the client that the first one names', { skip }, async () => {
  const to = await restricted(['allow', '203.0.113.0/24']), seen = sub.events.length;
  await assert.rejects(ask(to.host, Buffer.concat([line('198.51.100.7'), line('203.0.113.7')])));
  await assert.rejects(ask(to.host, Buffer.concat([binary(v4('198.51.100.7')), binary(v4('203.0.113.7'))])));
  assert.match(await answerTo(Buffer.concat([line('198.51.100.7'), line('203.0.113.7'), Buffer.from('\r\n\r\n')])), /^(HTTP\/1\.1 400 |$)/);
  assert.deepEqual(sub.events.slice(seen).filter(({ object }) => object.conn.client_ip === '203.0.113.7'), []);
});

// ---- how it comes ----

for (const [what, header] of [['a line', line('203.0.113.7')], ['binary', binary(v4('203.0.113.7'), { tlvs: tlv(4, Buffer.alloc(20)) })]])
  test(`a header that comes byte by byte, and together with the handshake, is the same: ${what}`, { skip }, async () => {
    const to = await restricted(['allow', '203.0.113.7/32']);
    const socket = await begun(Buffer.alloc(0));
    socket.setNoDelay(true);
    for (const byte of header) {
      socket.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    const secure = tls.connect({ socket, servername: to.host, ca });
    const got = await new Promise((resolve, reject) => https.request({ createConnection: () => secure, path: '/', headers: { Host: to.host, Connection: 'close' } }, (answer) => { answer.resume(); resolve(answer.statusCode); }).on('error', reject).end());
    assert.equal(got, 200);
    // both in one segment
    const joined = await begun(Buffer.alloc(0));
    joined.cork();
    joined.write(header);
    const together = tls.connect({ socket: joined, servername: to.host, ca });
    process.nextTick(() => joined.uncork());
    await new Promise((resolve, reject) => together.on('secureConnect', resolve).on('error', reject));
    together.destroy();
  });

test('who connects and says nothing is not counted; who ends within a header is', { skip }, async () => {
  const before = await metric('header');
  for (const bytes of [Buffer.alloc(0), Buffer.from('PROXY TCP4 203'), SIGNATURE]) {
    const socket = await begun(bytes);
    socket.end();
    socket.resume();
    await new Promise((resolve) => socket.on('close', resolve));
  }
  assert.equal(await metric('header') - before, 2);
});
