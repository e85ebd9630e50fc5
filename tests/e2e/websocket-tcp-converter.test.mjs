// websocket_tcp_converter: a route that takes WebSockets, and whose backend gets the bytes of their messages by TCP.
import assert from 'node:assert/strict';
import { fork, spawn } from 'node:child_process';
import { createHash, randomBytes, randomInt } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { ca, edge, elsewhere, endpoint, listening, must, through, until, WebSocket } from '../support/postern.mjs';
import { workers } from '../model/workers.mjs';
import { own } from '../support/own.mjs';

const MIB = 1 << 20, MODULE = { websocket_tcp_converter: {} };
const SIZE = Number(process.env.CONVERTER_MIB || 16) * MIB; // each way; 1024 of them are a matter of minutes without sanitizers
const sub = await listening('http_request_complete');
const eventOf = (host) => until(() => sub.events.find(({ object }) => object.http.request.url.host === host)?.object, `the event of ${host}`);
const sum = () => createHash('sha256');
const noise = randomBytes(2 * MIB);
const part = (i, max) => noise.subarray((i * 104729) % MIB, (i * 104729) % MIB + 1 + (i * 7919) % max);

// An upstream whose connections are {socket, got (bytes), ended, error, closed}; each does.
async function tcp(each = () => {}, { allowHalfOpen = false, pause = false } = {}) {
  const open = [];
  const server = net.createServer({ allowHalfOpen, pauseOnConnect: pause }, (socket) => {
    const one = { socket, got: Buffer.alloc(0), ended: false, closed: false };
    open.push(one);
    socket.on('error', (error) => { one.error = error.code; });
    socket.on('close', () => { one.closed = true; });
    if (!pause) {
      socket.on('data', (bytes) => { if (!one.deaf) one.got = Buffer.concat([one.got, bytes]); });
      socket.on('end', () => { one.ended = true; });
    }
    each(one);
  });
  const host = process.env.STORY_HOST || '127.0.0.1';
  await new Promise((resolve) => server.listen(0, host, resolve));
  return {
    open, server, address: `${host}:${server.address().port}`, first: () => until(() => open[0], 'a connection at the upstream'),
    close: () => new Promise((resolve) => { for (const { socket } of open) socket.destroy(); server.close(resolve); }),
  };
}
const echo = ({ socket }) => socket.on('data', (bytes) => socket.write(bytes));

// The ws client: {socket, got, code, reason, open}.
function connect(host, { port = edge.port, ...options } = {}) {
  const socket = new WebSocket(`wss://${edge.host}:${port}/`, { ca, servername: host, headers: { Host: host }, ...options });
  const one = { socket, got: [], pongs: [], texts: 0 };
  one.bytes = () => Buffer.concat(one.got);
  socket.on('message', (bytes, binary) => { if (binary) one.got.push(bytes); else one.texts++; });
  socket.on('pong', (bytes) => one.pongs.push(bytes.toString()));
  socket.on('error', (error) => { one.error = error; });
  socket.on('close', (code, reason) => { one.code = code; one.reason = reason.toString(); });
  one.opened = new Promise((resolve, reject) => { socket.on('open', () => resolve(one)); socket.on('error', reject); });
  return one;
}
const opened = (host, options) => connect(host, options).opened;
const ended = (one) => until(() => one.code, 'its end');

// A client that speaks in bytes: {socket, got, ended}, once 101 came.
const HANDSHAKE = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' };
const head = (host, fields = HANDSHAKE) => `GET / HTTP/1.1\r\nHost: ${host}\r\n${Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
async function raw(host, behind = Buffer.alloc(0)) {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca });
  const one = { socket, got: Buffer.alloc(0), ended: false };
  socket.on('data', (bytes) => { one.got = Buffer.concat([one.got, bytes]); });
  socket.on('close', () => { one.ended = true; });
  socket.on('error', (error) => { one.error = error.code; });
  socket.on('secureConnect', () => socket.write(Buffer.concat([Buffer.from(head(host)), behind])));
  const end = await until(() => { const at = one.got.indexOf('\r\n\r\n'); return at > 0 && at + 4; }, 'the head of the answer');
  one.head = one.got.subarray(0, end).toString('latin1');
  one.got = one.got.subarray(end);
  return one;
}
const KEY = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);
const masked = (payload) => Buffer.from(payload).map((byte, i) => byte ^ KEY[i % 4]);
function frame(first, payload = '', length = undefined) {
  const bytes = Buffer.from(payload), n = length ?? bytes.length;
  const size = n < 126 ? Buffer.from([0x80 | n]) : n < 65536 ? Buffer.from([0xfe, n >> 8, n & 255]) : Buffer.alloc(9);
  if (n >= 65536) { size[0] = 0xff; size.writeBigUInt64BE(BigInt(n), 1); }
  return Buffer.concat([Buffer.from([first]), size, KEY, masked(bytes)]);
}
const closeOf = (code, reason = '') => frame(0x88, Buffer.concat([Buffer.from([code >> 8, code & 255]), Buffer.from(reason)]));
// The code of the close frame at the end of what came; 0: it has none.
function codeOf(got) {
  for (let at = 0; at + 2 <= got.length;) {
    const short = got[at + 1], long = short === 126, length = long ? got.readUInt16BE(at + 2) : short;
    assert.ok(short < 127 && got[at] >> 4 === 8, 'a whole frame without a mask, below 64 KiB');
    const from = at + (long ? 4 : 2);
    if (got[at] === 0x88) return length ? got.readUInt16BE(from) : 0;
    at = from + length;
  }
  return undefined;
}

test('bytes go both ways, and the event says how many', async () => {
  const up = await tcp(echo), to = await endpoint(up.address, MODULE);
  const one = await opened(to.host);
  assert.equal(one.socket.protocol, '');
  assert.equal(one.socket.extensions, '');
  one.socket.send(Buffer.from('hello'));
  await until(() => one.bytes().toString() === 'hello', 'the echo');
  one.socket.close(1000);
  await ended(one);
  assert.equal(one.code, 1000);
  await until(() => up.open[0].ended, 'FIN');
  assert.equal(up.open[0].got.toString(), 'hello');
  const event = await eventOf(to.host);
  assert.deepEqual([event.http.response.status_code, event.http.request.body_length, event.http.response.body_length, event.backend.connection_reused], [101, 5, 5, false]);
  assert.ok(event.http.response.headers['Sec-Websocket-Accept'] ?? event.http.response.headers['sec-websocket-accept'], JSON.stringify(event.http.response.headers));
  await up.close();
});

// [what, fields of the handshake beside or instead of HANDSHAKE, status, code]
const without = (name) => Object.fromEntries(Object.entries(HANDSHAKE).filter(([key]) => key !== name));
for (const [what, bytes, status, code] of [
  ['a handshake', (host) => head(host), 101],
  ['Connection as a list', (host) => head(host, { ...HANDSHAKE, Connection: 'keep-alive, uPGRADE' }), 101],
  ['upper case', (host) => head(host, { ...HANDSHAKE, Upgrade: 'WebSocket' }), 101],
  ['an empty body', (host) => head(host, { ...HANDSHAKE, 'Content-Length': '0' }), 101],
  ['extensions and subprotocols, which are left', (host) => head(host, { ...HANDSHAKE, 'Sec-WebSocket-Extensions': 'permessage-deflate', 'Sec-WebSocket-Protocol': 'a, b' }), 101],
  ['a plain request', (host) => head(host, {}), 400, 940],
  ['no Upgrade', (host) => head(host, without('Upgrade')), 400, 940],
  ['another Upgrade', (host) => head(host, { ...HANDSHAKE, Upgrade: 'h2c' }), 400, 940],
  ['no Connection', (host) => head(host, without('Connection')), 400, 940],
  ['another Connection', (host) => head(host, { ...HANDSHAKE, Connection: 'keep-alive' }), 400, 940],
  ['no key', (host) => head(host, without('Sec-WebSocket-Key')), 400, 940],
  ['a short key', (host) => head(host, { ...HANDSHAKE, 'Sec-WebSocket-Key': 'SGVsbG8sIHdvcmxkIQ==' }), 400, 940],
  ['two keys', (host) => head(host).replace('\r\n\r\n', '\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'), 400, 940],
  ['no version', (host) => head(host, without('Sec-WebSocket-Version')), 400, 940],
  ['two versions', (host) => head(host).replace('\r\n\r\n', '\r\nSec-WebSocket-Version: 8\r\n\r\n'), 400, 940],
  ['version 8', (host) => head(host, { ...HANDSHAKE, 'Sec-WebSocket-Version': '8' }), 426, 941],
  ['version 013', (host) => head(host, { ...HANDSHAKE, 'Sec-WebSocket-Version': '013' }), 426, 941],
  ['POST', (host) => head(host).replace('GET', 'POST').replace('\r\n\r\n', '\r\nContent-Length: 0\r\n\r\n'), 400, 940],
  ['HTTP/1.0', (host) => head(host).replace('HTTP/1.1', 'HTTP/1.0'), 400, 940],
  ['a body', (host) => `${head(host, { ...HANDSHAKE, 'Content-Length': '1' })}x`, 400, 940],
  ['a chunked body', (host) => `${head(host, { ...HANDSHAKE, 'Transfer-Encoding': 'chunked' })}0\r\n\r\n`, 400, 940],
])
  test(`${what}: ${status}`, async () => {
    const up = await tcp(), to = await endpoint(up.address, MODULE);
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
    let got = '';
    socket.on('data', (text) => { got += text.toString('latin1'); });
    socket.on('error', () => {});
    socket.on('secureConnect', () => socket.write(bytes(to.host)));
    await until(() => got.includes('\r\n\r\n') && (status === 101 || got.includes('ERR_POSTERN_')), 'the answer');
    assert.equal(got.split(' ')[1], String(status), got);
    if (status === 101) {
      assert.match(got, /\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\n/);
      assert.match(got, /\r\nUpgrade: websocket\r\n/i);
      assert.match(got, /\r\nConnection: upgrade\r\n/i);
      assert.doesNotMatch(got, /Sec-WebSocket-(Extensions|Protocol)|Content-Length|Transfer-Encoding/i);
      await until(() => up.open.length === 1, 'its connection at the upstream');
    } else {
      assert.match(got, new RegExp(`"ERR_POSTERN_${code}"`));
      assert.equal(/\r\nSec-WebSocket-Version: 13\r\n/.test(got), status === 426);
      const event = await eventOf(to.host);
      assert.deepEqual([event.denied, event.http.response.status_code], [{ module: 'websocket_tcp_converter', route_id: to.route.id }, status]);
      assert.equal(up.open.length, 0, 'the upstream hears nothing');
    }
    socket.destroy();
    await up.close();
  });

test('HTTP/2, other modules and backends without an address are denied', async () => {
  const up = await tcp();
  const fixed = await endpoint({ body: 'no' }, MODULE);
  assert.match((await raw(fixed.host)).head, /^HTTP\/1.1 503 /);
  assert.equal((await eventOf(fixed.host)).denied.module, 'websocket_tcp_converter');
  const denied = await endpoint(up.address, { ...MODULE, user_agent_filter: { allow: [], deny: ['.'] } });
  assert.match((await raw(denied.host)).head, /^HTTP\/1.1 403 /);
  const off = await endpoint(up.address, { websocket_tcp_converter: { enabled: false } });
  up.server.on('connection', (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'));
  assert.equal((await through(off.host)).status, 200);
  await up.close();
});

test('a fixed answer is denied as a member of failover, too: as the first one, and behind one that cannot be dialled', async () => {
  const gone = await tcp();
  await gone.close();
  const dead = (await must('POST', '/backends/static', { address: gone.address })).id, fixed = (await must('POST', '/backends/http_response', { body: 'no' })).id;
  for (const backends of [[fixed, dead], [dead, fixed]]) {
    const to = await endpoint(await must('POST', '/backends/failover', { backends }), MODULE);
    const one = await raw(to.host);
    assert.match(one.head, /^HTTP\/1.1 503 /);
    await until(() => one.got.toString().includes('"ERR_POSTERN_942"'), 'its page');
    assert.deepEqual((await eventOf(to.host)).denied, { module: 'websocket_tcp_converter', route_id: to.route.id });
    one.socket.destroy();
  }
});

test('a circuit breaker counts a 101 as an answer, so that one that opened closes again', async () => {
  const up = await tcp(), gone = await tcp();
  await gone.close();
  const rules = { tripped_duration: 10, rolling_window: 86400, num_buckets: 1, volume_threshold: 1, error_threshold_percentage: 0.5 };
  const to = await endpoint(up.address, { ...MODULE, circuit_breaker: rules });
  const leadTo = (address) => must('PATCH', `/backends/static/${to.backend.id}`, { address });
  const status = async () => Number(/^HTTP\/1.1 (\d+)/.exec((await raw(to.host)).head)[1]);
  for (let i = 0; i < 3; i++) assert.equal(await status(), 101);
  await leadTo(gone.address);
  assert.equal(await status(), 502); // one of four
  await leadTo(up.address);
  assert.equal(await status(), 101);
  await leadTo(gone.address);
  for (let i = 0; i < 3; i++) assert.equal(await status(), 502); // four of eight
  assert.equal(await status(), 503);
  await leadTo(up.address);
  await until(async () => (await status()) === 101, 'a trial'); // and it closes
  assert.equal(await status(), 101);
  await up.close();
});

test('an upstream that refuses, has no address, or is one of Postern\'s own: 502, before any 101', async () => {
  const gone = await tcp();
  await gone.close();
  for (const address of [gone.address, 'nobody.invalid:1', ...(elsewhere ? [] : [`localhost:${edge.port}`])]) {
    const to = await endpoint(address, MODULE);
    const one = await raw(to.host);
    assert.match(one.head, /^HTTP\/1.1 502 /);
    assert.equal((await eventOf(to.host)).http.response.status_code, 502);
    one.socket.destroy();
  }
});

test('an upstream that speaks first is heard at once', async () => {
  const banner = noise.subarray(0, 20000);
  const up = await tcp(({ socket }) => socket.write(banner)), to = await endpoint(up.address, MODULE);
  for (let i = 0; i < 20; i++) {
    const one = await opened(to.host);
    await until(() => one.bytes().length === banner.length, 'the banner');
    assert.ok(one.bytes().equals(banner));
    one.socket.close();
    await ended(one);
  }
  await up.close();
});

test('an upstream with TLS gets the bytes over a connection that was verified', { skip: elsewhere || !process.env.STORY_UPSTREAM_TLS }, async () => {
  const at = process.env.STORY_UPSTREAM_TLS;
  const seen = [];
  const server = tls.createServer({ key: fs.readFileSync(`${at}.key`), cert: fs.readFileSync(`${at}.pem`), allowHalfOpen: true }, (socket) => {
    const one = { bytes: 0, ended: false };
    seen.push(one);
    socket.on('error', () => {});
    socket.on('data', (bytes) => { one.bytes += bytes.length; socket.write(bytes); });
    socket.on('end', () => { one.ended = true; socket.end('bye'); });
  });
  server.on('tlsClientError', () => {});
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const backend = async (host) => must('POST', '/backends/static', { address: `${host}:${server.address().port}`, tls: { enabled: true } });
  const to = await endpoint(await backend('localhost'), MODULE);
  const one = await opened(to.host);
  for (let i = 0; i < 40; i++) one.socket.send(part(i, 100000));
  const sent = Array.from({ length: 40 }, (_, i) => part(i, 100000).length).reduce((a, b) => a + b);
  await until(() => one.bytes().length === sent, 'all of it back');
  one.socket.close(1000);
  await ended(one);
  assert.deepEqual([one.code, seen[0].bytes, seen[0].ended, one.bytes().subarray(-3).toString()], [1000, sent, true, 'bye']);
  const wrong = await endpoint(await backend('127.0.0.1'), MODULE);
  const denied = await raw(wrong.host);
  assert.match(denied.head, /^HTTP\/1.1 502 /, 'a certificate of another name');
  assert.equal(seen.slice(1).reduce((n, { bytes }) => n + bytes, 0), 0);
  denied.socket.destroy();
  server.close();
});

// ---- failover ----

const at = async (address, more) => (await must('POST', '/backends/static', { address, ...more })).id;
const failover = async (...backends) => endpoint(await must('POST', '/backends/failover', { backends }), MODULE);
// An upstream that says its name, and then what it hears.
const naming = (name) => tcp((one) => { one.socket.write(`${name} `); echo(one); });
const says = (one) => until(() => one.bytes().toString(), 'who it is');
async function asked(host, member) {
  const one = await opened(host);
  assert.equal(await says(one), `${member} `);
  one.socket.send(Buffer.from('x'));
  await until(() => one.bytes().toString() === `${member} x`, 'the echo');
  return one;
}

test('a failover backend: a stream goes to the first member that can be reached, and ends with that one alone', { skip: elsewhere, timeout: 300000 }, async () => {
  const gone = await tcp(), first = await naming('first'), second = await naming('second'), silent = await tcp();
  await gone.close();
  const dead = await at(gone.address), noTls = await at(silent.address, { tls: { enabled: true } }), one = await at(first.address), two = await at(second.address);
  const to = await failover(dead, one, two), streams = [];
  for (let i = 0; i < 8; i++) streams.push(await asked(to.host, 'first'));
  const past = await failover(dead, two), other = await asked(past.host, 'second');
  // the first one is killed: its streams end, and who comes is the second one's
  first.server.close();
  for (const { socket } of first.open) socket.resetAndDestroy();
  for (const each of streams) { await ended(each); assert.equal(each.code, 1011); }
  const later = [];
  for (let i = 0; i < 8; i++) later.push(await asked(to.host, 'second'));
  other.socket.send(Buffer.from('y'));
  await until(() => other.bytes().toString() === 'second xy', 'a stream of another member goes on');
  // and it is back: those that are open stay where they are
  await new Promise((resolve) => first.server.listen(Number(first.address.split(':')[1]), '127.0.0.1', resolve));
  await until(async () => { const each = await opened(to.host), who = await says(each); each.socket.terminate(); return who === 'first '; }, 'the first one again', 120000);
  for (const each of later) { each.socket.send(Buffer.from('y')); await until(() => each.bytes().toString() === 'second xy', 'it stays'); }
  // the members change: what leads nowhere any more ends with 1012
  await must('PATCH', `/backends/failover/${to.backend.id}`, { backends: [dead, one] });
  for (const each of later) { await ended(each); assert.equal(each.code, 1012); }
  assert.equal(other.code, undefined);
  other.socket.close();
  const none = await raw((await failover(dead)).host);
  assert.match(none.head, /^HTTP\/1.1 502 /);
  none.socket.destroy();
  const fixed = await must('POST', '/backends/http_response', { body: 'sorry', status_code: 200 }), sorry = await failover(dead, fixed.id);
  for (let i = 0; i < 2; i++) {
    const denied = await raw(sorry.host);
    assert.match(denied.head, /^HTTP\/1.1 503 /, 'a fixed answer is none to a WebSocket, also where it is known that the others are down');
    denied.socket.destroy();
  }
  const shares = await must('POST', '/backends/weighted', { backends: { [one]: 1 } }), byShare = await asked((await failover(dead, noTls, shares.id)).host, 'first');
  await must('PATCH', `/backends/weighted/${shares.id}`, { backends: { [two]: 1 } });
  await ended(byShare);
  assert.equal(byShare.code, 1012);
  for (const each of [first, second, silent]) await each.close();
});

test('a handshake that is denied takes no trial of a member that was down', { skip: elsewhere, timeout: 300000 }, async () => {
  const trials = async () => Number(/_trials_total\{module="backend"\} (\d+)/.exec(await (await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`)).text())[1]);
  const first = await naming('first'), second = await naming('second'), to = await failover(await at(first.address), await at(second.address));
  first.server.close();
  const one = await opened(to.host);
  assert.equal(await says(one), 'second ');
  one.socket.terminate();
  await new Promise((resolve) => first.server.listen(Number(first.address.split(':')[1]), '127.0.0.1', resolve));
  const before = await trials(), sockets = [];
  const denied = () => new Promise((resolve, reject) => {   // its body never comes, and its connection stays
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
    sockets.push(socket.on('error', reject).on('data', resolve).on('secureConnect', () => socket.write(head(to.host, { ...HANDSHAKE, 'Content-Length': '9' }))));
  });
  for (const end = Date.now() + 2000; Date.now() < end;) await denied();   // its back-off ends behind the first second
  assert.equal(await trials(), before);
  await asked(to.host, 'first').then(({ socket }) => socket.terminate());
  assert.equal(await trials(), before + 1);
  for (const socket of sockets) socket.destroy();
  for (const each of [first, second]) await each.close();
});

test('a change while a connection is made is judged before 101', { skip: elsewhere || !process.env.STORY_UPSTREAM_TLS, timeout: 300000 }, async () => {
  const where = process.env.STORY_UPSTREAM_TLS;
  const server = tls.createServer({ key: fs.readFileSync(`${where}.key`), cert: fs.readFileSync(`${where}.pem`) }, (socket) => socket.on('error', () => {}).write('hello'));
  server.on('tlsClientError', () => {});
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  // a relay whose connections wait
  const relay = await tcp(({ socket }) => {}, { pause: true });
  const go = ({ socket }) => { const behind = net.connect(server.address().port, '127.0.0.1'); behind.on('error', () => {}); socket.pipe(behind).pipe(socket); };
  for (const kind of ['static', 'failover'])
    for (const [what, change, want] of [
      ['another address', (id) => must('PATCH', `/backends/static/${id}`, { address: 'localhost:9' }), /^HTTP\/1.1 503 /],
      ['another backend', async (id, to) => must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { backend: { backend_id: await at('127.0.0.1:9') } }), /^HTTP\/1.1 503 /],
      ['nothing', async () => {}, /^HTTP\/1.1 101 /],
    ]) {
      const id = await at(`localhost:${relay.address.split(':')[1]}`, { tls: { enabled: true } });
      const to = await (kind === 'failover' ? failover(id) : endpoint({ id }, MODULE));
      relay.open.length = 0;
      const asks = raw(to.host), held = await relay.first();
      await change(id, to);
      go(held);
      const one = await asks;
      assert.match(one.head, want, `${kind}: ${what}`);
      if (/503/.test(one.head)) await until(() => one.got.includes('ERR_POSTERN_925'), 'the page');
      one.socket.destroy();
    }
  await relay.close();
  server.close();
});

test('random fragments and pings in between: every byte, in order', { timeout: 300000 }, async () => {
  const up = await tcp(({ socket }) => {
    socket.on('data', (bytes) => { for (let at = 0; at < bytes.length;) { const n = randomInt(1, 9000); socket.write(bytes.subarray(at, at + n)); at += n; } });
  });
  const to = await endpoint(up.address, MODULE), one = await opened(to.host);
  const want = sum();
  let bytes = 0;
  for (let i = 0; i < 300; i++) {
    const piece = part(i, i % 50 === 0 ? 150000 : 3000);
    want.update(piece);
    bytes += piece.length;
    one.socket.send(piece, { fin: i % 3 === 2 });
    if (i % 7 === 0) one.socket.ping(`ping ${i}`);
    if (i % 11 === 0) one.socket.pong();
    if (i % 13 === 0) await new Promise(setImmediate);
  }
  one.socket.ping('last');
  await until(() => one.bytes().length === bytes && one.pongs.includes('last'), 'all of it back');
  assert.equal(sum().update(one.bytes()).digest('hex'), want.digest('hex'));
  assert.equal(one.texts, 0);
  one.socket.terminate();
  await up.close();
});

test('frames that come with the handshake are carried', async () => {
  const up = await tcp(echo), to = await endpoint(up.address, MODULE);
  const one = await raw(to.host, Buffer.concat([frame(0x02, 'ab'), frame(0x80, 'c')]));
  await until(() => one.got.length === 5, 'the echo');
  assert.deepEqual([...one.got], [0x82, 3, ...Buffer.from('abc')]);
  one.socket.destroy();
  await up.close();
});

// ---- ends ----

test('the upstream\'s end: all its bytes, then close 1000; what the client still says arrives', async () => {
  const up = await tcp(({ socket }) => socket.end(noise.subarray(0, 300000)), { allowHalfOpen: true }), to = await endpoint(up.address, MODULE);
  const one = await opened(to.host);
  await ended(one);
  assert.deepEqual([one.code, one.bytes().length], [1000, 300000]);
  await until(() => up.open[0].ended, 'FIN for the answered close');
  const slow = await raw(to.host);
  await until(() => codeOf(slow.got) === 1000, 'close 1000');
  slow.socket.write(Buffer.concat([frame(0x82, 'late'), closeOf(1000)]));
  await until(() => up.open[1].ended && slow.ended, 'both ends');
  assert.equal(up.open[1].got.toString(), 'late');
  await up.close();
});

test('the client\'s close: FIN behind all its bytes, and what the upstream answers still comes', async () => {
  const up = await tcp(({ socket }) => socket.on('end', () => socket.end('answer')), { allowHalfOpen: true }), to = await endpoint(up.address, MODULE);
  const one = await raw(to.host);
  one.socket.write(Buffer.concat([frame(0x82, 'question'), closeOf(4321, 'done')]));
  await until(() => one.ended, 'the end');
  assert.equal(up.open[0].got.toString(), 'question');
  assert.deepEqual([...one.got], [0x82, 6, ...Buffer.from('answer'), 0x88, 2, 4321 >> 8, 4321 & 255]);
  const empty = await raw(to.host);
  empty.socket.write(frame(0x88));
  await until(() => empty.ended, 'the end');
  assert.deepEqual([...empty.got.subarray(-2)], [0x88, 0]);
  await up.close();
});

test('an upstream that never ends has five seconds after the client\'s close', { timeout: 300000 }, async () => {
  const up = await tcp(({ socket }) => { const timer = setInterval(() => socket.write('x'), 50); socket.on('close', () => clearInterval(timer)); }, { allowHalfOpen: true });
  const to = await endpoint(up.address, MODULE), one = await raw(to.host);
  one.socket.write(closeOf(1000));
  await until(() => one.ended && up.open[0].closed, 'the end', 20000);
  assert.equal(codeOf(one.got), 1000);
  await up.close();
});

test('a client that does not answer a close has five seconds', { timeout: 300000 }, async () => {
  const up = await tcp(({ socket }) => socket.end('bye'), { allowHalfOpen: true }), to = await endpoint(up.address, MODULE);
  const one = await raw(to.host);
  await until(() => one.ended && up.open[0].closed, 'the end', 20000);
  assert.equal(up.open[0].error, 'ECONNRESET', 'it never said close');
  await up.close();
});

test('an upstream that resets: close 1011', async () => {
  const up = await tcp(({ socket }) => socket.once('data', () => socket.resetAndDestroy())), to = await endpoint(up.address, MODULE);
  const one = await opened(to.host);
  one.socket.send(Buffer.from('x'));
  await ended(one);
  assert.equal(one.code, 1011);
  await up.close();
});

for (const [what, leave] of [['goes', (one) => one.socket.destroy()], ['ends TLS', (one) => one.socket.end()]])
  test(`a client that ${what} without a close frame: the upstream gets what came, and a reset`, async () => {
    const up = await tcp(), to = await endpoint(up.address, MODULE), one = await raw(to.host);
    one.socket.write(frame(0x82, 'half'));
    await until(() => up.open[0]?.got.toString() === 'half', 'what came');
    leave(one);
    await until(() => up.open[0].closed, 'the end');
    assert.equal(up.open[0].error, 'ECONNRESET');
    assert.equal((await eventOf(to.host)).http.request.body_length, 4);
    await up.close();
  });

// ---- clients that break the rules: [what, bytes, code] ----
for (const [what, bytes, code] of [
  ['a frame without a mask', Buffer.from([0x82, 1, 0x61]), 1002],
  ['RSV1', frame(0xc2, 'x'), 1002],
  ['RSV2', frame(0xa2, 'x'), 1002],
  ['RSV3', frame(0x92, 'x'), 1002],
  ['an unknown opcode', frame(0x83, 'x'), 1002],
  ['an unknown control opcode', frame(0x8b, 'x'), 1002],
  ['a ping in fragments', frame(0x09, 'x'), 1002],
  ['a ping of 126 bytes', frame(0x89, 'x'.repeat(126)), 1002],
  ['a continuation of nothing', frame(0x80, 'x'), 1002],
  ['a message within a message', Buffer.concat([frame(0x02), frame(0x82, 'x')]), 1002],
  ['a length in too many bytes', Buffer.concat([Buffer.from([0x82, 0xfe, 0, 1]), KEY, masked('x')]), 1002],
  ['a length in far too many bytes', Buffer.concat([Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0, 0, 1]), KEY, masked('x')]), 1002],
  ['a length of 2^63', Buffer.concat([Buffer.from([0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]), KEY]), 1002],
  ['half a close code', frame(0x88, 'x'), 1002],
  ['a close code that nobody may send', closeOf(1005), 1002],
  ['an unknown close code', closeOf(2999), 1002],
  ['a close reason that is no UTF-8', frame(0x88, Buffer.from([3, 232, 0xc3])), 1007],
  ['a text', frame(0x81, 'text'), 1003],
  ['bytes that are no frames', Buffer.from('GET / HTTP/1.1\r\n\r\n'), 1002],
])
  test(`${what}: close ${code}, and the upstream is reset`, async () => {
    const up = await tcp(), to = await endpoint(up.address, MODULE), one = await raw(to.host);
    one.socket.write(bytes);
    await until(() => codeOf(one.got) === code, `close ${code}`);
    await until(() => one.ended && up.open[0].closed, 'the end');
    assert.equal(up.open[0].error, 'ECONNRESET');
    await up.close();
  });

test('a flood of pings is answered, in no more memory than one', { timeout: 300000 }, async () => {
  const up = await tcp(echo), to = await endpoint(up.address, MODULE), one = await raw(to.host);
  const pings = Buffer.concat(Array.from({ length: 2000 }, (_, i) => frame(0x89, String(i))));
  for (let i = 0; i < 20; i++) one.socket.write(pings);
  one.socket.write(frame(0x82, 'end'));
  await until(() => one.got.includes('end'), 'the echo behind them');
  assert.ok(one.got.includes('1999'));
  one.socket.destroy();
  await up.close();
});

// ---- changes ----

const patch = (to, fields) => must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, fields);
for (const [what, change] of Object.entries({
  'its route is deleted': (to) => must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}`),
  'its edge is deleted': (to) => must('DELETE', `/edges/https/${to.edge.id}`),
  'the module is taken away': (to) => must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}/websocket_tcp_converter`),
  'the module is off': (to) => patch(to, { websocket_tcp_converter: { enabled: false } }),
  'its backend has another address': (to) => must('PATCH', `/backends/static/${to.backend.id}`, { address: '127.0.0.1:9' }),
  'the route has another backend': async (to) => patch(to, { backend: { backend_id: (await must('POST', '/backends/static', { address: '127.0.0.1:9' })).id } }),
  'another module denies': (to) => patch(to, { user_agent_filter: { deny: ['.'] } }),
  'an IP policy denies': async (to) => patch(to, { ip_restriction: { ip_policy_ids: [(await must('POST', '/ip_policies', {})).id] } }),
}))
  test(`${what}: close 1012, the upstream is reset, and the event comes`, async () => {
    const up = await tcp(echo), to = await endpoint(up.address, MODULE), one = await opened(to.host, { headers: { Host: to.host, 'User-Agent': 'ws' } });
    one.socket.send(Buffer.from('x'));
    await until(() => one.bytes().length === 1, 'the echo');
    await change(to);
    await ended(one);
    assert.equal(one.code, 1012);
    await until(() => up.open[0].closed, 'the upstream\'s end');
    assert.equal(up.open[0].error, 'ECONNRESET');
    const event = await eventOf(to.host);
    assert.deepEqual([event.http.response.status_code, event.http.request.body_length, event.http.response.body_length], [101, 1, 1]);
    await up.close();
  });

test('what leaves a WebSocket what it is leaves it open', async () => {
  const up = await tcp(echo), to = await endpoint(up.address, MODULE), one = await opened(to.host);
  await patch(to, { description: 'x', response_headers: { add: { 'x-a': 'b' } } });
  await must('PATCH', `/backends/static/${to.backend.id}`, { description: 'x' });
  await patch(to, { websocket_tcp_converter: { enabled: true } });
  one.socket.send(Buffer.from('still'));
  await until(() => one.bytes().toString() === 'still', 'the echo');
  assert.equal((await raw(to.host)).head.includes('\r\nx-a: b\r\n'), true);
  one.socket.terminate();
  await up.close();
});

test('a request that HTTP carries ends when the module is put on', async () => {
  const up = await tcp(({ socket }) => socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n')));
  const to = await endpoint(up.address);
  const got = through(to.host).then(() => 'whole', () => 'cut');
  await until(() => up.open[0]?.got.length, 'it is there');
  await patch(to, MODULE);
  assert.equal(await got, 'cut');
  await up.close();
});

// ---- much ----

test(`${SIZE / MIB} MiB each way at once are whole, and counted`, { timeout: 600000 }, async () => {
  let got = 0;
  const there = sum(), back = sum(), want = sum();
  const pump = async (bytes, write, wait) => {
    for (let at = 0, i = 0; at < bytes; i++) {
      const piece = part(i, 300000).subarray(0, bytes - at);
      if (!write(piece)) await wait();
      at += piece.length;
    }
  };
  const up = await tcp((one) => {
    one.deaf = true;
    one.socket.on('data', (bytes) => { there.update(bytes); got += bytes.length; });
    pump(SIZE, (piece) => one.socket.write(piece), () => new Promise((resolve) => one.socket.once('drain', resolve)));
  });
  const to = await endpoint(up.address, MODULE), one = connect(to.host);
  let came = 0;
  one.socket.removeAllListeners('message');
  one.socket.on('message', (bytes) => { back.update(bytes); came += bytes.length; });
  await one.opened;
  await pump(SIZE, (piece) => { want.update(piece); one.socket.send(piece, { fin: false }); return one.socket.bufferedAmount < MIB; },
    () => until(() => one.socket.bufferedAmount < MIB / 2, 'the socket takes it', 120000));
  one.socket.send(Buffer.alloc(0), { fin: true });
  await until(() => got === SIZE && came === SIZE, 'all of it', 500000);
  const digest = want.digest('hex');
  assert.deepEqual([there.digest('hex'), back.digest('hex')], [digest, digest]);
  one.socket.close();
  await ended(one);
  const event = await eventOf(to.host);
  assert.deepEqual([event.http.request.body_length, event.http.response.body_length], [SIZE, SIZE]);
  await up.close();
});

const resident = () => workers().reduce((sum, pid) => sum + Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]), 0) * 1024;
const release = !process.env.ASAN_OPTIONS; // memory of a sanitizer's own says nothing
const STALLED = 40;
const MANY = Number(process.env.CONVERTER_CONNECTIONS || 400); // 10000 of them without sanitizers, with as many open files and worker_connections

// When nothing moves any more.
async function still(count) {
  let last = -1;
  await until(async () => {
    const now = await count();
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return now === last || (last = now, false);
  }, 'nothing moves', 240000);
}

test('many connections keep little while they are idle, and not much more when their readers stall', { timeout: 900000, skip: elsewhere }, async () => {
  const up = fork(new URL('../support/gush.mjs', import.meta.url)), said = () => new Promise((resolve) => up.once('message', resolve));
  const ask = (mib = 0) => { up.send(mib); return said(); };
  const to = await endpoint(await said(), MODULE);
  await (await opened(to.host)).socket.terminate();
  const before = resident(), clients = [];
  while (clients.length < MANY) clients.push(...await Promise.all(Array.from({ length: Math.min(100, MANY - clients.length) }, () => raw(to.host))));
  await until(async () => (await ask()).open >= MANY, 'all of them');
  const idle = resident();
  if (release) assert.ok(idle - before <= MANY * 64 * 1024, `${(idle - before) / MANY / 1024} KiB each, TLS and nginx included`);
  for (const { socket } of clients) socket.pause();
  await ask(8);
  await still(async () => (await ask()).taken);
  const stalled = resident();
  if (release) assert.ok(stalled - idle <= MANY * 128 * 1024, `${(stalled - idle) / MANY / 1024} KiB more each`);
  if (process.env.CONVERTER_CONNECTIONS) console.log(`${MANY} connections: ${((idle - before) / MANY / 1024).toFixed(1)} KiB each while idle, ${((stalled - idle) / MANY / 1024).toFixed(1)} KiB more while their readers stall`);
  for (const { socket } of clients) socket.destroy();
  up.disconnect();
});

test('clients that do not read keep little, and get all when they do', { timeout: 300000, skip: elsewhere }, async () => {
  const written = [];
  const up = await tcp((one) => {
    written.push(one);
    const more = () => { while ((one.sent ?? 0) < 16 * MIB) { const piece = noise.subarray(0, MIB); one.sent = (one.sent ?? 0) + piece.length; if (!one.socket.write(piece)) break; } };
    one.socket.on('drain', more);
    more();
  });
  const to = await endpoint(up.address, MODULE);
  await (await opened(to.host)).socket.terminate();
  const before = resident(), clients = [];
  for (let i = 0; i < STALLED; i++) { const one = await raw(to.host); one.socket.pause(); clients.push(one); }
  let last = -1;
  await until(async () => {
    const now = written.reduce((n, one) => n + one.socket.bytesWritten, 0);
    await new Promise((resolve) => setTimeout(resolve, 300));
    return now === last || (last = now, false);
  }, 'nothing moves', 120000);
  if (release) assert.ok(resident() - before < STALLED * 320 * 1024, `${(resident() - before) / STALLED / 1024} KiB each, TLS and nginx included`);
  const one = clients.at(-1);
  let bytes = one.got.length;
  one.socket.removeAllListeners('data');
  one.socket.on('data', (got) => { bytes += got.length; });
  one.socket.resume();
  await until(() => bytes > 16 * MIB, 'the rest', 120000);
  for (const { socket } of clients) socket.destroy();
  await up.close();
});

test('upstreams that do not read keep little, and their clients wait', { timeout: 300000, skip: elsewhere }, async () => {
  const up = await tcp(undefined, { pause: true }), to = await endpoint(up.address, MODULE);
  const before = resident(), clients = [], message = frame(0x82, noise.subarray(0, 60000));
  for (let i = 0; i < STALLED; i++) {
    const one = await raw(to.host);
    let sent = 0;
    const more = () => { while (sent < 16 * MIB) { sent += message.length; if (!one.socket.write(message)) break; } };
    one.socket.on('drain', more);
    more();
    clients.push(one);
  }
  let last = -1;
  await until(async () => {
    const now = clients.reduce((n, { socket }) => n + socket.bytesWritten, 0);
    await new Promise((resolve) => setTimeout(resolve, 300));
    return now === last || (last = now, false);
  }, 'nothing moves', 120000);
  assert.ok(clients.every(({ socket }) => socket.writableLength > 0), 'all wait');
  if (release) assert.ok(resident() - before < STALLED * 320 * 1024, `${(resident() - before) / STALLED / 1024} KiB each, TLS and nginx included`);
  let bytes = 0;
  up.open.at(-1).socket.on('data', (got) => { bytes += got.length; });
  up.open.at(-1).socket.resume();
  await until(() => bytes >= 16 * MIB, 'the rest', 120000);
  for (const { socket } of clients) socket.destroy();
  await up.close();
});

test('what stands in a socket at the end comes to who is slow, whatever it says meanwhile', { timeout: 300000 }, async () => {
  const all = noise.subarray(0, 2 * MIB), slow = 8000;
  // to a client: the upstream ends, and the client reads later
  const ending = await tcp(({ socket }) => socket.end(all)), down = await endpoint(ending.address, MODULE);
  const reader = await raw(down.host);
  reader.socket.pause();
  // to an upstream: the client closes, and the upstream reads later
  const late = await tcp(undefined, { pause: true }), upward = await endpoint(late.address, MODULE);
  const writer = await raw(upward.host);
  for (let at = 0; at < all.length; at += 60000) writer.socket.write(frame(0x82, all.subarray(at, at + 60000)));
  writer.socket.write(closeOf(1000));
  await new Promise((resolve) => setTimeout(resolve, slow));
  reader.socket.write(frame(0x89, 'there?'));
  const { socket } = await late.first(), got = [];
  socket.write('a prompt');
  await new Promise((resolve) => setTimeout(resolve, 500));
  socket.on('data', (bytes) => got.push(bytes)).on('error', (error) => got.push(error)).resume();
  reader.socket.resume();
  await until(() => reader.ended, 'the end at the client', 120000);
  assert.equal(codeOf(reader.got), 1000);
  assert.ok(reader.got.length > all.length);
  await until(() => socket.readableEnded || socket.errored, 'the end at the upstream');
  assert.ok(Buffer.concat(got).equals(all));
  for (const one of [reader, writer]) one.socket.destroy();
  await Promise.all([ending.close(), late.close()]);
});

// ---- time ----

test('an idle connection ends with 1001, pings keep it, and an edge that is replaced ends it with 1012', { skip: elsewhere, timeout: 300000 }, async () => {
  await own(async ({ state, run }) => {
    const settings = { POSTERN_READ_TIMEOUT: '12s', POSTERN_DRAIN_TIMEOUT: '1s' }; // longer than the pings may fail to come from a machine that stands still
    const begun = run('up', { settings });
    assert.equal(begun.status, 0, begun.stdout + begun.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    const host = 'idle.test', up = await tcp(echo);
    await call('/reserved_domains', { domain: host });
    const backend = await call('/backends/static', { address: up.address }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id }, ...MODULE });
    const theirs = { ca: fs.readFileSync(vars.POSTERN_EDGE_CA), port: edge.port + 1000 };
    const idle = await opened(host, theirs), kept = await opened(host, theirs);
    const timer = setInterval(() => kept.socket.ping(), 200);
    await ended(idle);
    assert.deepEqual([idle.code, idle.reason, up.open.filter(({ error }) => error === 'ECONNRESET').length], [1001, 'idle', 1]);
    assert.equal(kept.code, undefined, 'pings count');
    assert.ok(kept.pongs.length > 0);
    const replaced = spawn(new URL('../../deploy/stack', import.meta.url).pathname, ['replace-edge'], { env: { ...process.env, POSTERN_HOME: state, POSTERN_PORT_BASE: String(edge.port - 43 + 1000), ...settings }, stdio: 'ignore' });
    const status = new Promise((resolve) => replaced.on('exit', resolve)); // the pings go on meanwhile
    assert.equal(await status, 0);
    await until(() => kept.code, 'the end of its drain time', 120000);
    assert.equal(kept.code, 1012);
    clearInterval(timer);
    await until(() => up.open.every(({ closed }) => closed), 'both ends at the upstream');
    await up.close();
  });
});
