// The module compression: encoded bodies stream, wait and break off as others do.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { Readable } from 'node:stream';
import { codings, decoders, eventOf, get, gzip, one, protocols, read } from '../support/compression.mjs';
import { elsewhere, endpoint, must, raw, tcpUpstream, until } from '../support/postern.mjs';
import { workers } from '../model/workers.mjs';

const MIB = 1 << 20;

const head = (fields = '') => `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n${fields}\r\n`;
const chunk = (part) => Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), Buffer.from(part), Buffer.from('\r\n')]);

for (const protocol of protocols)
  for (const coding of codings)
    test(`what the upstream sends can be decoded before it sends more: ${coding}, ${protocol}`, { timeout: 280000 }, async () => {
      let socket;
      const there = await tcpUpstream((one) => { socket = one; one.once('data', () => one.write(head())); });
      const stream = await endpoint(there.address, { compression: {} });
      const answer = await one[protocol](stream.host, '/', { headers: { 'accept-encoding': coding } }); // before there is a body
      assert.equal(answer.headers['content-encoding'], coding);
      const decoder = decoders[coding]();
      let text = Buffer.alloc(0), want = Buffer.alloc(0), ended = false;
      decoder.on('data', (part) => { text = Buffer.concat([text, part]); }).on('end', () => { ended = true; });
      answer.response.pipe(decoder);
      for (const piece of ['data: 1\n\n', 'd', 'data: 2\n\n', randomBytes(200000).toString('base64'), 'x', 'data: last\n\n']) {
        socket.write(chunk(piece));
        want = Buffer.concat([want, Buffer.from(piece)]);
        await until(() => text.length === want.length, `${want.length} bytes at the client`);
      }
      socket.end('0\r\n\r\n');
      await until(() => ended, 'the end');
      assert.ok(text.equals(want));
      answer.end();
      await there.close();
    });

// Parts that differ from place to place, half of them text: one that is lost, moved or doubled is noticed.
const noise = Buffer.concat([randomBytes(MIB), Buffer.from(randomBytes(MIB / 2).toString('hex'))]);
function* parts(bytes) {
  for (let at = 0, i = 0; at < bytes; i++) {
    const size = Math.min(1 + (i * 7919) % 150000, bytes - at), from = (i * 104729) % MIB;
    yield noise.subarray(from, from + size);
    at += size;
  }
}
const sumOf = (bytes) => { const hash = createHash('sha256'); for (const part of parts(bytes)) hash.update(part); return hash.digest('hex'); };

async function serve(listener) {
  const server = http.createServer({ requestTimeout: 0 }, listener);
  await new Promise((resolve) => server.listen(0, process.env.STORY_HOST || '127.0.0.1', resolve));
  return { address: `${process.env.STORY_HOST || '127.0.0.1'}:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

test('64 MiB are whole, and counted', { timeout: 300000, skip: elsewhere }, async () => {
  const SIZE = 64 * MIB, want = sumOf(SIZE);
  const there = await serve((request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain', ...(request.url.endsWith('length') ? { 'Content-Length': SIZE } : {}) });
    Readable.from(parts(SIZE), { objectMode: false, highWaterMark: MIB }).pipe(response);
  });
  const large = await endpoint(there.address, { compression: {} });
  for (const [protocol, coding, framing] of [['h1', 'gzip', 'length'], ['h2', 'gzip', 'chunks'], ['h1', 'deflate', 'chunks'], ['h2', 'deflate', 'length']]) {
    const path = `/${protocol}-${coding}-${framing}`, answer = await one[protocol](large.host, path, { headers: { 'accept-encoding': coding } });
    const got = await read(answer, false);
    assert.deepEqual([answer.headers['content-encoding'], got.whole, got.bytes, got.hash], [coding, true, SIZE, want], path);
    const event = await eventOf(large.host, path);
    assert.equal(event.http.response.body_length, got.sent);
    assert.deepEqual(event.compression, { algorithm: coding, bytes_saved: SIZE - got.sent });
  }
  there.close();
});

test('others are served while a large body is encoded', { timeout: 280000, skip: elsewhere }, async () => {
  const there = await serve((request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' });
    if (request.url === '/small') return response.end('small');
    return Readable.from(parts(64 * MIB), { objectMode: false, highWaterMark: MIB }).pipe(response);
  });
  const both = await endpoint(there.address, { compression: {} });
  const large = await Promise.all(Array.from({ length: 2 * workers().length }, () => one.h1(both.host, '/large', { headers: gzip })));
  let left = large.length, served = 0;
  for (const answer of large) answer.response.on('data', () => {}).on('end', () => { left--; });
  while (left) {
    assert.equal((await get(both, { path: '/small', headers: gzip })).body.toString(), 'small');
    if (left) served++;
  }
  assert.ok(served >= 20, `${served} others`);
  there.close();
});

const cuts = {
  'its length is not reached': (s) => { s.write(`HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${2 * MIB}\r\n\r\n`); s.end(noise.subarray(0, MIB)); },
  'its length is not reached, and the connection reset': (s) => { s.write(`HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${2 * MIB}\r\n\r\n`); s.write(noise.subarray(0, MIB), () => s.resetAndDestroy()); },
  'in the middle of a chunk': (s) => { s.write(head()); s.write(`${(2 * MIB).toString(16)}\r\n`); s.end(noise.subarray(0, MIB)); },
  'between two chunks': (s) => { s.write(head()); s.end(chunk(noise.subarray(0, MIB))); },
  'a chunk has no size': (s) => { s.write(head()); s.write(chunk(noise.subarray(0, MIB))); s.write('nonsense\r\n'); },
};
for (const [what, answer] of Object.entries(cuts))
  test(`a client notices that the upstream's answer is not whole: ${what}`, { timeout: 280000 }, async () => {
    const there = await tcpUpstream((socket) => socket.once('data', () => answer(socket)));
    const cut = await endpoint(there.address, { compression: {} });
    for (const protocol of protocols) {
      for (const coding of codings) {
        const answer = await one[protocol](cut.host, `/${protocol}-${coding}`, { headers: { 'accept-encoding': coding } });
        let framed = false;
        answer.response.on('end', () => { framed = answer.response.complete ?? true; });
        const got = await read(answer);
        assert.ok(!got.whole && !framed, `${protocol}, ${coding}: it seems whole`);
        assert.ok(got.body.equals(noise.subarray(0, got.bytes)));
        const event = await eventOf(cut.host, `/${protocol}-${coding}`);
        assert.equal(event.compression.algorithm, coding);
        assert.ok(event.http.response.body_length >= got.sent);
      }
    }
    await there.close();
  });

test('a change of the configuration while bodies stream: they go on as they began', { timeout: 280000 }, async () => {
  const sockets = [];
  const there = await tcpUpstream((socket) => socket.once('data', () => { socket.write(head()); socket.write(chunk('before\n')); sockets.push(socket); }));
  const stream = await endpoint(there.address, { compression: {} });
  const begin = async (protocol) => {
    const answer = await one[protocol](stream.host, '/', { headers: gzip }), coding = answer.headers['content-encoding'];
    const got = { coding, text: '', ended: false, end: answer.end };
    (coding ? answer.response.pipe(decoders[coding]()) : answer.response).on('data', (part) => { got.text += part; }).on('end', () => { got.ended = true; });
    return got;
  };
  const open = [await begin('h1'), await begin('h2')];
  await until(() => open.every((got) => got.text === 'before\n'), 'the first piece');
  await must('DELETE', `/edges/https/${stream.edge.id}/routes/${stream.route.id}/compression`);
  open.push(await begin('h1'));
  await must('PUT', `/edges/https/${stream.edge.id}/routes/${stream.route.id}/compression`, {});
  open.push(await begin('h2'));
  assert.deepEqual(open.map(({ coding }) => coding), ['gzip', 'gzip', undefined, 'gzip']);
  for (const socket of sockets) socket.end(Buffer.concat([chunk('after\n'), Buffer.from('0\r\n\r\n')]));
  await until(() => open.every((got) => got.ended), 'the ends');
  assert.deepEqual(open.map(({ text }) => text), Array(4).fill('before\nafter\n'));
  for (const { end } of open) end();
  await there.close();
});

test('a WebSocket is none of it', async () => {
  const there = await tcpUpstream((socket) => socket.once('data', (request) => {
    const accept = createHash('sha1').update(`${/sec-websocket-key: (\S+)/i.exec(request.toString('latin1'))[1]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Type: text/plain\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on('data', (part) => socket.write(part));
  }));
  const echo = await endpoint(there.address, { compression: {} });
  const answer = await raw(echo.host, `GET / HTTP/1.1\r\nHost: ${echo.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAccept-Encoding: gzip\r\n\r\n`, { wait: 500 });
  assert.match(answer, /^HTTP\/1.1 101/);
  assert.doesNotMatch(answer, /Content-Encoding|Vary/i);
  await there.close();
});

// ---- memory ----

const resident = () => workers().reduce((total, pid) => total + Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024, 0);
// AddressSanitizer keeps 256 MiB that a process freed: only without it (make chaos) this tells what a client costs.
const sanitizer = () => workers().filter((pid) => /libasan/.test(fs.readFileSync(`/proc/${pid}/maps`, 'utf8'))).length * 256 * MIB;

test('clients that do not take what was encoded for them cost a bounded part of memory, and go on', { timeout: 280000, skip: elsewhere }, async () => {
  const READERS = 24, BLOCK = 64 * 1024;
  let written = 0;
  const there = await serve((request, response) => {
    let left = 1024 * MIB;
    response.writeHead(200, { 'Content-Type': 'text/plain', ...(request.url === '/length' ? { 'Content-Length': left } : {}) });
    const write = () => {
      for (; left > 0; left -= BLOCK, written += BLOCK) {
        if (!response.write(noise.subarray(0, BLOCK))) { left -= BLOCK; written += BLOCK; response.once('drain', write); return; }
      }
      response.end();
    };
    write();
  });
  const slow = await endpoint(there.address, { compression: {} });
  await get(slow, { method: 'HEAD' });
  const before = resident(), open = [];
  for (let i = 0; i < READERS; i++) open.push(await one[i % 2 ? 'h2' : 'h1'](slow.host, i % 4 < 2 ? '/length' : '/chunks', { headers: { 'accept-encoding': codings[i % codings.length] } }));
  for (const { response } of open) response.on('error', () => {});
  let last = -1, same = 0;
  await until(() => { same = written === last ? same + 1 : 0; last = written; return same > 25; }, 'all wait for their clients', 120000);
  const grown = resident() - before;
  const encoders = { gzip: 264, deflate: 264, br: 1950, zstd: 660 }; // KiB, as services/edge/README.md has it
  const most = codings.reduce((sum, coding) => sum + READERS / codings.length * (encoders[coding] + 376) * 1024, 0);
  assert.ok(grown < most + 16 * MIB + sanitizer(), `${READERS} clients took ${grown} bytes of memory`);
  // and what the kernel takes for a client that does not read, which is 6 MiB of what was encoded where nobody has set it otherwise
  const received = Number(fs.readFileSync('/proc/sys/net/ipv4/tcp_rmem', 'utf8').trim().split(/\s+/)[2]);
  assert.ok(written < READERS * 64 * MIB * Math.max(1, received / (6 * MIB)), `${written} bytes of the answers are on their way`);

  for (const answer of open.slice(0, codings.length)) {
    let bytes = 0, right = true;
    answer.response.pipe(decoders[answer.headers['content-encoding']]()).on('data', (part) => {
      for (let at = 0; at < part.length && right;) {
        const from = (bytes + at) % BLOCK, size = Math.min(BLOCK - from, part.length - at);
        right = part.compare(noise, from, from + size, at, at + size) === 0;
        at += size;
      }
      bytes += part.length;
    });
    await until(() => bytes > 32 * MIB || !right, '32 MiB of what waited', 120000);
    assert.ok(right);
  }
  for (const answer of open) answer.end();
  there.close();
});
