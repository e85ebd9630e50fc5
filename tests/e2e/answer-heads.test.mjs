// What the head of an upstream's answer takes of a worker until its request ends is charged to who asked (services/edge/http/edge_answer_memory.h):
// else who takes no answers would have heads of 64 KB in as many requests as there is room for. An ordinary head costs nothing.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { ALONE, WAIT, ask, begun, charged, fieldsOf, literal, metric, onFrames, publish, servesOthers, skip, stack, window } from '../support/clients.mjs';
import { framing } from '../support/grpc.mjs';
import { DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame, headers, statusOf } from '../support/h2raw.mjs';
import { tcpUpstream, until } from '../support/postern.mjs';

const MEMORY = 16 << 20, REQUEST = 20 << 10, FIELD = 96; // two entries of nginx's
const fields = (count, bytes, name = 'x') => Array.from({ length: count }, (_, i) => [`${name}${i}`, 'v'.repeat(Math.max(1, Math.floor(bytes / count) - `${name}${i}: \r\n`.length))]);
const text = (pairs) => pairs.map((pair) => `${pair.join(': ')}\r\n`).join('');
const answer = (pairs, { line = 'HTTP/1.1 200 OK', length = 'Content-Length: 1000000\r\n', end = '\r\nx' } = {}) => `${line}\r\n${length}${text(pairs)}${end}`;
const hints = `HTTP/1.1 103 Early Hints\r\n${text(fields(10, 7000))}\r\n`;

// Answers that stay: their heads, and what these are charged beside the request, at least and at most; from HTTP/2 on.
const KINDS = {
  'an ordinary head': { send: answer(fields(50, 4000)), most: 0 },
  'a small one in a thousand fields': { send: answer(fields(990, 4000, '')), least: 990 * FIELD, most: 140000 },
  'one of 60 KB': { send: answer(fields(900, 60000)), least: 2 * 60000 + 900 * FIELD, most: 4.2 * 60000 },
  'one of 60 KB in one field': { send: answer(fields(1, 60000)), least: 2 * 60000, most: 3.1 * 60000 },
  'one with a reason phrase of 60 KB': { send: answer([], { line: `HTTP/1.1 200 ${'r'.repeat(60000)}` }), least: 4 * 60000, most: 4.3 * 60000 },
  'one that is not whole': { send: answer(fields(50, 40000), { end: '' }), least: 65536, most: 65536, silent: true },
  'one with much of its body': { send: answer(fields(50, 20000), { end: `\r\n${'x'.repeat(12000)}` }), least: 40000 + 32768, most: 110000 },
  'interim ones, of which a buffer stays': { send: `${hints.repeat(5)}${answer(fields(50, 4000))}`, most: 24 << 10 },
  'one of HTTP/1.0': { send: answer(fields(900, 60000), { line: 'HTTP/1.0 200 OK' }), least: 2 * 60000 + 900 * FIELD, most: 4.2 * 60000 },
  'one with chunks': { send: answer(fields(900, 60000), { length: 'Transfer-Encoding: chunked\r\n', end: '\r\n1\r\nx\r\n' }), least: 2 * 60000 + 900 * FIELD, most: 4.2 * 60000 },
  'of a WebSocket': { send: answer(fields(900, 60000), { line: 'HTTP/1.1 101 Switching Protocols', length: 'Upgrade: websocket\r\nConnection: Upgrade\r\n', end: '\r\n' }), upgrade: true, least: 2 * 60000 + 900 * FIELD, most: 4.2 * 60000 },
};
const GRPC = {
  'an ordinary head of gRPC': { head: fields(50, 3000), most: 0 },
  'a large one': { head: fields(50, 50000), least: 2 * 50000, most: 3.2 * 50000 },
  'one in a thousand fields': { head: fields(990, 9000, ''), least: 990 * FIELD, most: 140000 },
  'large trailers': { head: fields(1, 100), trailers: fields(50, 50000), least: 2 * 50000, most: 3.7 * 50000 },
};

// A sanitizer keeps what is freed: little here, where a worker's memory is looked at.
const SANITIZER = process.env.ASAN_OPTIONS ? { ASAN_OPTIONS: `${process.env.ASAN_OPTIONS}:quarantine_size_mb=1:thread_local_quarantine_size_kb=64` } : {};

// Each connection of the upstream gets `sent`, or what each(socket) does; open: those that are there.
const ready = stack({ POSTERN_WORKER_CONNECTIONS: '1024', POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_SEND_TIMEOUT: '5m', POSTERN_READ_TIMEOUT: '5m', ...SANITIZER }, async ({ call }) => {
  const there = { sent: undefined, each: undefined, called: undefined, open: new Set() };
  const backend = await tcpUpstream((socket) => {
    there.open.add(socket);
    socket.on('error', () => {}).on('close', () => there.open.delete(socket)).on('data', () => there.each?.(socket) ?? socket.write(there.sent ?? 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'));
  });
  const calls = await framing((stream, send) => there.called(stream, send));
  const first = await publish(call, backend.address), second = await publish(call, calls.address);
  return { host: first.host, there, grpc: second.host, end: async () => { await backend.close(); await calls.close(); } };
});
const freed = () => until(async () => await charged() === 0, 'all of it comes back', WAIT);

for (const [what, { send, upgrade, silent, least = 0, most }] of Object.entries(KINDS))
  test(`${what}, as it is charged`, { skip, timeout: 300000 }, async () => {
    const { host, there } = await ready, more = upgrade ? 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n' : '';
    await freed();
    there.sent = send;
    let one;
    try {
      for (const http2 of upgrade ? [false] : [false, true]) {
        one = await begun(ready, http2 ? frame(HEADERS, END_HEADERS | END_STREAM, 1, fieldsOf(host, '/')) : `GET / HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`, { http2 });
        await until(async () => (silent ? await charged() > REQUEST + least : http2 ? one.answer() === 200 : / (200 |101 [^]*\r\n)/.test(one.text())), 'its head is there', WAIT);
        const took = await charged() - REQUEST;
        assert.ok(took >= least && took <= most + 2000, `${took} bytes over ${http2 ? 'HTTP/2' : 'HTTP/1.1'}`); // the request's own head
        one.socket.destroy();
        await freed();
      }
    } finally {
      there.sent = undefined;
      one?.socket.destroy();
    }
  });

for (const [what, { head, trailers, least = 0, most }] of Object.entries(GRPC))
  test(`${what}, as it is charged`, { skip, timeout: 300000 }, async () => {
    const { grpc, there } = await ready, message = Buffer.concat([Buffer.from([0, 0, 0, 0x03, 0xe8]), Buffer.alloc(1000)]);
    const blocks = (stream, pairs, flags) => { // of 16 KB at most
      const bytes = headers(pairs), out = [];
      for (let at = 0; at < bytes.length; at += 16384) out.push(frame(at ? 9 : HEADERS, (at ? 0 : flags) | (at + 16384 >= bytes.length ? END_HEADERS : 0), stream, bytes.subarray(at, at + 16384)));
      return Buffer.concat(out);
    };
    there.called = (stream, send) => send(Buffer.concat([blocks(stream, [[':status', '200'], ['content-type', 'application/grpc'], ...head], 0), frame(DATA, 0, stream, message), trailers ? blocks(stream, [['grpc-status', '0'], ...trailers], END_STREAM) : Buffer.alloc(0)]));
    await freed();
    const post = Buffer.concat([Buffer.from([0x83, 0x87]), literal(':path', '/a/b'), literal(':authority', grpc), literal('content-type', 'application/grpc'), literal('te', 'trailers')]);
    const one = await begun({ ...await ready, host: grpc }, Buffer.concat([window(0), frame(HEADERS, END_HEADERS, 1, post), frame(DATA, END_STREAM, 1, Buffer.alloc(5))]), { http2: true });
    try {
      await until(async () => one.answer() === 200 && await charged() > REQUEST + least, 'its head is there', WAIT);
      const took = await charged() - REQUEST;
      assert.ok(took <= most + 6000, `${took} bytes`); // and the request's own head
    } finally { one.socket.destroy(); }
    await freed();
  });

test('who takes no answers has its portion of their heads, and others are served', { skip, timeout: 400000 }, async () => {
  const { host, there } = await ready, SESSIONS = 3, STREAMS = 50, localAddress = '127.0.0.71', EACH = REQUEST + 2 * 60000 + 900 * FIELD, got = { reset: 0 }, sockets = [];
  await freed();
  const before = await metric('requests_crowded_total{worker="0"}');
  there.sent = KINDS['one of 60 KB'].send;
  try {
    for (let i = 0; i < SESSIONS; i++) {
      const { socket } = await begun(ready, window(0), { localAddress, http2: true });
      sockets.push(socket);
      onFrames(socket, (type, stream, payload, flags) => {
        if (type === SETTINGS && !(flags & 1) && payload.length) socket.write(frame(SETTINGS, 1, 0));
        if (type === HEADERS) { const code = statusOf(payload); got[code] = (got[code] ?? 0) + 1; }
        if (type === RST_STREAM && stream) got.reset++;
      });
      for (let k = 0; k < STREAMS; k++) socket.write(frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * k, fieldsOf(host, '/')));
    }
    await until(() => Object.values(got).reduce((sum, n) => sum + n) >= SESSIONS * STREAMS, 'each is answered', WAIT);
    const memory = await charged(), crowded = await metric('requests_crowded_total{worker="0"}') - before;
    assert.ok(memory < MEMORY * ALONE, `${memory} bytes are taken`);
    assert.ok(got[200] > 5 && got[200] <= MEMORY * ALONE / EACH + 1, JSON.stringify(got));
    assert.ok(got[503] > 0 && crowded >= SESSIONS * STREAMS / 2, `${JSON.stringify(got)}, ${crowded} were refused`);
    there.sent = undefined;
    await servesOthers(ready);
  } finally {
    there.sent = undefined;
    for (const socket of sockets) socket.destroy();
  }
  await freed();
  assert.equal((await ask(ready, { localAddress })).status, 200, 'its next one, afterwards');
});

// A kept connection that ends in the middle of a head: the request goes over another one, and its memory is that of one head.
test('a head that was begun anew is charged once', { skip, timeout: 300000 }, async () => {
  const { host, there } = await ready, half = answer(fields(50, 40000), { end: '' });
  await freed();
  for (const socket of there.open) socket.destroy();
  for (let i = 0; i < 3; i++) assert.equal((await ask(ready)).status, 200, 'a connection is kept');
  const kept = new Set(there.open);
  for (const socket of kept) socket.removeAllListeners('data').on('data', () => socket.end(half));
  there.sent = KINDS['one that is not whole'].send;
  try {
    const one = await begun(ready, frame(HEADERS, END_HEADERS | END_STREAM, 1, fieldsOf(host, '/')), { http2: true });
    await until(() => [...kept].every((socket) => socket.destroyed) && there.open.size, 'it went over another one', WAIT);
    await until(async () => await charged() >= REQUEST + 65536, 'what came of its head is charged', WAIT);
    assert.ok(await charged() < REQUEST + 65536 + 2000, `${await charged()} bytes`);
    one.socket.destroy();
  } finally { there.sent = undefined; }
  await freed();
});

// ---- answers of 1xx ----

const read = (file) => { try { return fs.readFileSync(file, 'utf8'); } catch { return ''; } };
const resident = (pid) => Number(/^VmRSS:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))[1]) * 1024;
const worker = async () => {
  const { state } = await ready, edge = read(`${/^POSTERN_RUN_DIR=(.*)$/m.exec(read(`${state}/postern.env`))[1]}/edge.pid`).trim();
  return read(`/proc/${edge}/task/${edge}/children`).trim().split(' ').find((pid) => /^nginx: worker process/.test(read(`/proc/${pid}/cmdline`)));
};
// So many bytes as an upstream may send before its answer; of each size up to that of one that is passed on, so that each is the largest until then.
const INTERIMS = [...[500, 1000, 2000, 4000, 8000], ...Array(48).fill(900)].map((bytes) => fields(10, bytes));

// What a worker that had none before has grown by for each of these requests, which are all under way: [bytes, answers of 1xx that the first has].
async function grown(http2, interims) {
  const { host, there } = await ready, CONNECTIONS = http2 ? 3 : 120, STREAMS = http2 ? 50 : 1, ones = [], before = await worker();
  process.kill(before, 'SIGKILL');
  await until(async () => ![undefined, before].includes(await worker()) && (await ask(ready)).status === 200, 'another worker', WAIT);
  await freed();
  let answered = 0;
  there.each = async (socket) => {
    for (const pairs of interims) await new Promise((resolve) => { socket.write(`HTTP/1.1 103 Early Hints\r\n${text(pairs)}\r\n`, resolve); });
    socket.write(answer(fields(5, 400)));
    answered++;
  };
  try {
    const pid = await worker(), start = resident(pid);
    for (let i = 0; i < CONNECTIONS; i++) {
      const heads = Array.from({ length: STREAMS }, (_, k) => frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * k, fieldsOf(host, '/')));
      ones.push(await begun(ready, http2 ? Buffer.concat(heads) : `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`, { localAddress: `127.0.0.${80 + (i % 10)}`, http2 }));
    }
    const whole = (one) => (http2 ? Object.values(one.answers).filter((code) => code === 200).length === STREAMS : one.text().includes(' 200 OK\r\n'));
    await until(() => answered === CONNECTIONS * STREAMS && ones.every(whole), 'each is answered', WAIT);
    assert.ok(await charged() < 1.1 * REQUEST * CONNECTIONS * STREAMS, 'none of them is charged for its answers');
    return [(resident(pid) - start) / (CONNECTIONS * STREAMS), ones[0].text().split(' 103 ').length - 1];
  } finally {
    there.each = undefined;
    for (const { socket } of ones) socket.destroy();
    await freed();
  }
}

// Of HTTP/1.1 a buffer as large as two of the largest, and those before it; of HTTP/2 one frame for all of a connection.
for (const [http2, most] of [[false, 40 << 10], [true, 8 << 10]])
  test(`many answers of 1xx leave little, however large they are: HTTP/${http2 ? 2 : 1.1}`, { skip, timeout: 400000 }, async () => {
    const [without] = await grown(http2, []), [bytes, passed] = await grown(http2, INTERIMS);
    assert.ok(http2 || passed > 5, `${passed} were passed on`);
    assert.ok(bytes - without < most, `${bytes - without} bytes for each request, beside ${without}`);
  });

test('answers of 1xx of gRPC are refused, and nothing of them stays', { skip, timeout: 300000 }, async () => {
  const { grpc, there } = await ready, CALLS = 400, got = {};
  const post = Buffer.concat([Buffer.from([0x83, 0x87]), literal(':path', '/a/b'), literal(':authority', grpc), literal('content-type', 'application/grpc'), literal('te', 'trailers')]);
  there.called = (stream, send) => send(...INTERIMS.map((pairs) => frame(HEADERS, END_HEADERS, stream, headers([[':status', '103'], ...pairs]))));
  await freed();
  const pid = await worker(), start = resident(pid);
  for (let i = 0; i < CALLS; i += 100) {
    const calls = Array.from({ length: 100 }, (_, k) => frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * k, post));
    const one = await begun({ ...await ready, host: grpc }, Buffer.concat(calls), { http2: true });
    await until(() => Object.keys(one.answers).length === 100, 'each is answered', WAIT);
    for (const code of Object.values(one.answers)) got[code] = (got[code] ?? 0) + 1;
    one.socket.destroy();
  }
  await freed();
  assert.deepEqual(got, { 502: CALLS });
  assert.ok(resident(pid) - start < 8 << 20, `${resident(pid) - start} bytes`);
});
