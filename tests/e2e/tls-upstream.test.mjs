// What an upstream with TLS may send to keep a worker: records of a byte each, which take as long as full ones, and messages that carry nothing.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { Duplex } from 'node:stream';
import test from 'node:test';
import tls from 'node:tls';
import { DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, headers, statusOf } from '../support/h2raw.mjs';
import { inOneTurn } from '../support/one-turn.mjs';
import { WebSocket, ca, edge, elsewhere, endpoint, home, must, raw, storyHost, tcpUpstream, through, until } from '../support/postern.mjs';

const WAIT = 120000, signed = process.env.STORY_UPSTREAM_TLS, options = { skip: elsewhere || !signed, timeout: 300000 };
const RECORDS = 64; // of so few bytes that are read in one turn

// An upstream of TLS: its sockets, and what has come there.
async function secure() {
  const sockets = [], got = { text: '' };
  const server = tls.createServer({ key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) }, (socket) => {
    sockets.push(socket.setNoDelay(true));
    socket.on('error', () => {}).on('data', (part) => { got.text += part.toString('latin1'); });
  });
  await new Promise((resolve) => server.listen(0, storyHost, resolve));
  const backend = await must('POST', '/backends/static', { address: `localhost:${server.address().port}`, tls: { enabled: true } });
  return { sockets, got, backend, close: () => new Promise((resolve) => { sockets.forEach((socket) => socket.destroy()); server.close(resolve); }) };
}

// Each byte is a record.
async function inRecords(socket, bytes) {
  for (const byte of Buffer.from(bytes)) await new Promise((sent) => { socket.write(Buffer.from([byte]), sent); });
}

const HEAD = 'HTTP/1.1 200 OK\r\nConnection: close\r\n';

// The sizes of what the edge reads at a time are those of the chunks that it writes.
test('of a body in records of one byte no more than some are read in a turn, and all of it arrives', options, async () => {
  const up = await secure(), to = await endpoint(up.backend), body = crypto.randomBytes(400).toString('hex'), sizes = [];
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
  let rest = '', whole = '';
  socket.on('data', (part) => { rest += part.toString('latin1'); });
  socket.write(`GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close\r\n\r\n`);
  await until(() => up.got.text.endsWith('\r\n\r\n'), 'the request', WAIT);
  await new Promise((sent) => { up.sockets[0].write(`${HEAD}\r\n`, sent); });
  await until(() => rest.endsWith('\r\n\r\n'), 'the head', WAIT);
  await inOneTurn(() => inRecords(up.sockets[0], body));
  up.sockets[0].end();
  await until(() => rest.endsWith('\r\n0\r\n\r\n'), 'the answer', WAIT);
  for (rest = rest.slice(rest.indexOf('\r\n\r\n') + 4); ;) {
    const at = rest.indexOf('\r\n'), size = parseInt(rest.slice(0, at), 16);
    if (size === 0) break;
    sizes.push(size);
    whole += rest.slice(at + 2, at + 2 + size);
    rest = rest.slice(at + 4 + size);
  }
  assert.equal(whole, body);
  assert.ok(Math.max(...sizes) <= RECORDS, `${sizes}`);
  socket.destroy();
  await up.close();
});

// Both requests come on one connection, so one worker has them.
test('others have their turn before a head in records of one byte is whole', options, async () => {
  const up = await secure(), { host, edge: front } = await endpoint(up.backend), order = [], there = await must('POST', '/backends/http_response', { body: 'other' });
  await must('POST', `/edges/https/${front.id}/routes`, { match_type: 'exact_path', match: '/other', backend: { backend_id: there.id } });
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['h2'] });
  const request = (id, target) => frame(HEADERS, END_HEADERS | END_STREAM, id, headers([[':method', 'GET'], [':scheme', 'https'], [':authority', host], [':path', target]]));
  let rest = Buffer.alloc(0);
  socket.on('data', (part) => {
    rest = Buffer.concat([rest, part]);
    for (let size; rest.length >= 9 && rest.length >= (size = 9 + rest.readUIntBE(0, 3)); rest = rest.subarray(size))
      if (rest[3] === HEADERS) order.push([rest.readUInt32BE(5), statusOf(rest.subarray(9, size))]);
  });
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0), request(1, '/slow')]));
  await until(() => up.got.text.endsWith('\r\n\r\n'), 'the request', WAIT);
  await inOneTurn(() => inRecords(up.sockets[0], `${HEAD}X-Long: ${'x'.repeat(800)}\r\nContent-Length: 0\r\n\r\n`),
    () => new Promise((sent) => { socket.write(request(3, '/other'), sent); }));
  await until(() => order.length === 2, 'both answers', WAIT);
  assert.deepEqual(order, [[3, 200], [1, 200]]);
  socket.destroy();
  await up.close();
});

test('of a stream in records of one byte no more than some are read in a turn, and all of it arrives', options, async () => {
  const up = await secure(), to = await endpoint(up.backend, { websocket_tcp_converter: {} }), bytes = crypto.randomBytes(800), frames = [];
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { servername: to.host, ca, headers: { Host: to.host } });
  socket.on('message', (data) => frames.push(data));
  await new Promise((resolve, reject) => { socket.on('open', resolve).on('error', reject); });
  await until(() => up.sockets.length, 'the connection to the upstream', WAIT);
  await inOneTurn(() => inRecords(up.sockets[0], bytes));
  await until(() => frames.reduce((sum, { length }) => sum + length, 0) === bytes.length, 'all of it', WAIT);
  assert.deepEqual(Buffer.concat(frames), bytes);
  assert.ok(Math.max(...frames.map(({ length }) => length)) <= RECORDS, `${frames.map(({ length }) => length)}`);
  socket.close();
  await up.close();
});

// ---- connections that break ----

// A TLS upstream whose bytes go through a socket that the story has, so that it may write what is no record.
async function breakable() {
  const self = { text: '', socket: undefined, tls: undefined };
  const up = await tcpUpstream((socket) => {
    const between = new Duplex({ read() {}, write(part, _, done) { socket.write(part, () => done()); } });
    socket.setNoDelay(true).on('error', () => {}).on('data', (part) => between.push(part)).on('close', () => between.push(null));
    self.socket = socket;
    self.tls = new tls.TLSSocket(between, { isServer: true, key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) });
    self.tls.on('error', () => {}).on('data', (part) => { self.text += part.toString('latin1'); });
  });
  const backend = await must('POST', '/backends/static', { address: `localhost:${up.server.address().port}`, tls: { enabled: true } });
  return Object.assign(self, { backend, close: () => { self.socket?.destroy(); up.server.close(); } });
}

// Of 2,500 bytes of the answer the client takes 1,000. What breaks the connection comes with 500 more, so that one read has both.
for (const [how, breakIt] of [
  ['bytes that are no record', (up) => new Promise((sent) => { up.socket.write(Buffer.concat([Buffer.from([23, 3, 3, 0, 32]), Buffer.alloc(32, 'z')]), sent); })],
  ['a reset', (up) => up.socket.resetAndDestroy()],
])
  test(`behind data that the client does not take, ${how} of the upstream ends the request, and keeps nobody else`, options, async () => {
    const up = await breakable(), { host, edge: front } = await endpoint(up.backend), there = await must('POST', '/backends/http_response', { body: 'other' }), seen = [];
    await must('POST', `/edges/https/${front.id}/routes`, { match_type: 'exact_path', match: '/other', backend: { backend_id: there.id } });
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['h2'] });
    const request = (id, target) => frame(HEADERS, END_HEADERS | END_STREAM, id, headers([[':method', 'GET'], [':scheme', 'https'], [':authority', host], [':path', target]]));
    const number = (value) => { const bytes = Buffer.alloc(4); bytes.writeUInt32BE(value); return bytes; };
    let rest = Buffer.alloc(0), taken = 0;
    socket.on('error', () => {}).on('data', (part) => {
      rest = Buffer.concat([rest, part]);
      for (let size; rest.length >= 9 && rest.length >= (size = 9 + rest.readUIntBE(0, 3)); rest = rest.subarray(size)) {
        const id = rest.readUInt32BE(5);
        if (rest[3] === DATA && id === 1) taken += size - 9;
        if (rest[3] === HEADERS) seen.push([id, statusOf(rest.subarray(9, size))]);
        if (rest[3] === RST_STREAM) seen.push([id, 'reset']);
      }
    });
    const window = Buffer.concat([Buffer.from([0, 4]), number(1000)]); // SETTINGS_INITIAL_WINDOW_SIZE
    socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0, window), request(1, '/slow')]));
    await until(() => up.text.endsWith('\r\n\r\n'), 'the request', WAIT);
    up.tls.write(`HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n${'x'.repeat(2000)}`);
    await until(() => taken === 1000, 'what the client takes', WAIT);
    await inOneTurn(async () => { await new Promise((sent) => { up.tls.write('y'.repeat(500), sent); }); await breakIt(up); });
    socket.write(request(3, '/other'));
    await until(() => seen.some(([id]) => id === 3), 'the answer for the other', WAIT);
    assert.deepEqual(seen.slice(0, 2), [[1, 200], [3, 200]]);
    socket.write(frame(WINDOW_UPDATE, 0, 1, number(60000)));
    await until(() => seen.some(([id, what]) => id === 1 && what === 'reset'), 'the end of the broken answer', WAIT);
    assert.equal(taken, 2500);
    socket.destroy();
    up.close();
  });

// ---- KeyUpdates ----

// OpenSSL's own server, which sends what it is told, and for a line of "k" a KeyUpdate. Between it and the edge the records that it sends are counted.
async function server() {
  const probe = tls.createServer(), port = await new Promise((resolve) => { probe.listen(0, storyHost, () => resolve(probe.address().port)); });
  await new Promise((resolve) => { probe.close(resolve); });
  const child = spawn('openssl', ['s_server', '-accept', `${storyHost}:${port}`, '-key', `${signed}.key`, '-cert', `${signed}.pem`, '-tls1_3'], { stdio: ['pipe', 'pipe', 'pipe'] });
  process.on('exit', () => child.kill()); // whatever becomes of the story
  const self = { said: '', records: 0, over: false };
  for (const from of [child.stdout, child.stderr]) from.on('data', (part) => { self.said += part; });
  child.stdin.on('error', () => {});
  await until(() => self.said.includes('ACCEPT'), 'it listens', WAIT);
  const between = await tcpUpstream((socket) => {
    const to = net.connect(port, storyHost);
    let rest = Buffer.alloc(0);
    for (const [one, other] of [[socket, to], [to, socket]]) one.on('error', () => {}).on('data', (part) => other.write(part)).on('close', () => other.destroy());
    socket.on('close', () => { self.over = true; });
    to.on('data', (part) => {
      for (rest = Buffer.concat([rest, part]); rest.length >= 5 && rest.length >= 5 + rest.readUInt16BE(3); self.records++) rest = rest.subarray(5 + rest.readUInt16BE(3));
    });
  });
  const backend = await must('POST', '/backends/static', { address: `localhost:${between.server.address().port}`, tls: { enabled: true } });
  // What is written at once is one command. False: the connection is over.
  const tell = async (text) => {
    const before = self.records;
    child.stdin.write(text);
    await until(() => self.over || self.records > before, 'it is sent', WAIT);
    return !self.over;
  };
  const update = async (times) => { for (let i = 0; i < times && await tell('k\n'); i++); };
  return Object.assign(self, { backend, tell, update, close: async () => { child.kill(); await between.close(); } });
}

test('an upstream that sends some KeyUpdates is heard', options, async () => {
  const up = await server(), to = await endpoint(up.backend), answer = through(to.host);
  await until(() => up.said.includes('GET /'), 'the request', WAIT);
  await up.update(20);
  await up.tell('HTTP/1.1 200 OK\nContent-Length: 6\n\nserved');
  assert.deepEqual((({ status, body }) => [status, body])(await answer), [200, 'served']);
  await up.close();
});

const FLOOD = 100, head = 'HTTP/1.1 200 OK\nContent-Length: 1000\n\nbegun';
const log = () => fs.readFileSync(path.join(home, 'log/edge.log'), 'utf8').split('the upstream sent too many TLS messages').length;

test('an upstream whose KeyUpdates have no end is cut off, before its answer as well as in its midst', options, async () => {
  for (const before of ['', head]) {
    const up = await server(), to = await endpoint(up.backend), said = log(), answer = raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close\r\n\r\n`, { limit: WAIT });
    await until(() => up.said.includes('GET /'), 'the request', WAIT);
    if (before) await up.tell(before);
    await up.update(FLOOD);
    await until(() => up.over, 'it is cut off', WAIT);
    const got = await answer;
    if (before) assert.ok(got.startsWith('HTTP/1.1 200') && got.endsWith('begun'), got);
    else assert.match(got, /^HTTP\/1.1 502 [^]*ERR_POSTERN_904/);
    await until(() => log() > said, 'the log says why', WAIT);
    await up.close();
  }
});

test('a stream whose upstream sends KeyUpdates without end is ended', options, async () => {
  const up = await server(), to = await endpoint(up.backend, { websocket_tcp_converter: {} });
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { servername: to.host, ca, headers: { Host: to.host } }), ended = new Promise((resolve) => { socket.on('close', resolve); });
  const heard = [];
  socket.on('message', (data) => heard.push(data.toString()));
  await new Promise((resolve, reject) => { socket.on('open', resolve).on('error', reject); });
  await up.tell('Here I am.\n');
  await up.update(FLOOD);
  await until(() => up.over, 'it is cut off', WAIT);
  await ended;
  assert.equal(heard.join(''), 'Here I am.\n');
  await up.close();
});
