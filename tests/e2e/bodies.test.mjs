// Bodies of any size: whole in either direction, at once where they come a byte at a time, in memory that has a bound where the
// client does not take them, broken off where the upstream breaks off, and an answer that comes before its request was read.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { Readable } from 'node:stream';
import { ca, edge, elsewhere, endpoint, listening, tcpUpstream, through, until } from '../support/postern.mjs';
import { workers } from '../model/workers.mjs';

const MIB = 1 << 20;
const sub = await listening('http_request_complete');
const eventOf = (host, path) => until(() => sub.events.find((event) => event.object.http.request.url.host === host && event.object.http.request.url.path === path)?.object.http, `the event of ${host}${path}`);

// Bytes that differ from place to place: a part that is lost, moved or doubled is noticed.
const noise = randomBytes(2 * MIB);
function* parts(bytes) {
  for (let at = 0, i = 0; at < bytes; i++) {
    const size = Math.min(1 + (i * 7919) % 150000, bytes - at), from = (i * 104729) % MIB;
    yield noise.subarray(from, from + size);
    at += size;
  }
}
const source = (bytes) => Readable.from(parts(bytes), { objectMode: false, highWaterMark: MIB });
const sum = () => createHash('sha256');
const sumOf = (bytes) => { const hash = sum(); for (const part of parts(bytes)) hash.update(part); return hash.digest('hex'); };

// A request over either protocol: {response (a stream), status, headers, request, end()}. body: a stream.
const one = {
  h1: (host, path, { method = 'GET', headers = {}, body } = {}) => new Promise((resolve, reject) => {
    const request = https.request({ host: edge.host, port: edge.port, servername: host, ca, path, method, agent: false, headers: { Host: host, ...headers } });
    request.on('error', reject); // also later: the answer says it, too
    request.on('response', (response) => resolve({ response, request, status: response.statusCode, headers: response.headers, end: () => request.destroy() }));
    if (body) body.pipe(request); else request.end();
  }),
  h2: (host, path, { method = 'GET', headers = {}, body } = {}) => new Promise((resolve, reject) => {
    const session = http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca });
    const request = session.request({ ':path': path, ':method': method, ...headers }, { endStream: !body });
    session.on('error', reject);
    request.on('error', reject);
    request.on('close', () => session.close());
    request.on('response', (got) => resolve({ response: request, request, status: got[':status'], headers: got, end: () => session.destroy() }));
    body?.pipe(request);
  }),
};

// What comes of an answer: {bytes, hash, whole}
function read(answer) {
  return new Promise((resolve) => {
    const hash = sum();
    let bytes = 0, ended = false;
    const done = () => { answer.end(); resolve({ bytes, whole: ended, hash: ended ? hash.copy().digest('hex') : undefined }); };
    answer.response.on('data', (part) => { hash.update(part); bytes += part.length; });
    answer.response.on('end', () => { ended = answer.response.complete ?? true; done(); }); // a stream that still sends may never close
    answer.response.on('error', () => {});
    answer.response.on('close', done);
  });
}

// The hash of an answer's first bytes; the client goes on sending meanwhile.
function first(answer, length) {
  return new Promise((resolve, reject) => {
    const got = [];
    let bytes = 0;
    answer.response.on('data', (part) => {
      got.push(part);
      bytes += part.length;
      if (bytes >= length) { resolve(sum().update(Buffer.concat(got)).digest('hex')); answer.end(); }
    });
    answer.response.on('error', reject);
    answer.response.on('close', () => reject(new Error(`only ${bytes} bytes came`)));
  });
}

async function serve(listener) {
  const server = http.createServer({ requestTimeout: 0 }, listener);
  await new Promise((resolve) => server.listen(0, process.env.STORY_HOST || '127.0.0.1', resolve));
  return { address: `${process.env.STORY_HOST || '127.0.0.1'}:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

const framings = {
  length: { head: (bytes) => `HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`, part: (part) => part, end: '' },
  chunks: {
    head: () => 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n',
    part: (part) => Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]), end: '0\r\n\r\n',
  },
  'its end': { head: () => 'HTTP/1.1 200 OK\r\n\r\n', part: (part) => part, end: '' },
};

for (const protocol of ['h1', 'h2']) {
  for (const [framing, { head, part, end }] of Object.entries(framings)) {
    test(`a byte of an answer arrives before the upstream has another: ${framing}, ${protocol}`, { timeout: 280000 }, async () => {
      // also behind a burst for which the worker has lent a large buffer
      const pieces = [Buffer.from('a'), Buffer.from('b'), noise.subarray(0, 300000), Buffer.from('c'), noise.subarray(0, 5000), Buffer.from('d')];
      const total = pieces.reduce((n, piece) => n + piece.length, 0);
      let socket;
      const up = await tcpUpstream((one) => { socket = one; one.once('data', () => one.write(head(total))); });
      const to = await endpoint(up.address);
      const got = await one[protocol](to.host, '/');
      let bytes = 0, want = 0, ended = false;
      got.response.on('data', (piece) => { bytes += piece.length; }).on('end', () => { ended = true; });
      for (const piece of pieces) {
        socket.write(part(piece));
        want += piece.length;
        await until(() => bytes === want, `${want} bytes at the client`);
      }
      socket.end(end);
      await until(() => ended, 'the end');
      got.end();
      await up.close();
    });
  }
}

test('what follows a 101 is whole in both directions at once: single bytes, bursts, and more than a client takes', { timeout: 280000 }, async () => {
  const SIZE = 24 * MIB, bursts = [Buffer.from('a'), Buffer.from('b'), noise.subarray(0, 300000), Buffer.from('c'), noise.subarray(0, 5000), Buffer.from('d')];
  let received = 0;
  const up = await tcpUpstream((socket) => socket.once('data', () => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    socket.on('data', (part) => { received += part.length; });
    socket.pipe(socket);
  }));
  const to = await endpoint(up.address);
  const client = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
  client.write(`GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`);
  let head = '';
  await new Promise((resolve, reject) => {
    client.on('error', reject);
    client.on('data', function onHead(part) { head += part; if (head.endsWith('\r\n\r\n')) { client.off('data', onHead); resolve(); } });
  });
  assert.match(head, /^HTTP\/1.1 101 /);
  let bytes = 0, want = 0, hash = sum(), wanted = sum();
  client.on('data', (part) => { bytes += part.length; hash.update(part); });
  for (let round = 0; round < 2; round++) {
    for (const burst of bursts) {
      client.write(burst);
      wanted.update(burst);
      want += burst.length;
      await until(() => bytes === want, `${want} bytes at the client`);
    }
  }
  assert.equal(hash.digest('hex'), wanted.digest('hex'));
  bytes = received = 0;
  hash = sum();
  client.pause();
  source(SIZE).on('data', (part) => client.write(part));
  await until(() => received >= MIB, 'the upstream has more than is sent back', 120000);
  client.resume();
  await until(() => bytes === SIZE, 'all of it', 120000);
  assert.equal(hash.digest('hex'), sumOf(SIZE));
  client.destroy();
  await up.close();
});

test('64 MiB are whole in either direction, and counted', { timeout: 280000, skip: elsewhere }, async () => {
  const SIZE = 64 * MIB, want = sumOf(SIZE);
  const up = await serve((request, response) => {
    const hash = sum();
    request.on('data', (part) => hash.update(part));
    request.on('end', () => {
      const headers = { 'X-Received': hash.digest('hex') };
      if (request.url.endsWith('length')) headers['Content-Length'] = SIZE;
      response.writeHead(200, headers);
      source(SIZE).pipe(response);
    });
  });
  const to = await endpoint(up.address);
  for (const protocol of ['h1', 'h2']) {
    for (const framing of ['length', 'chunks']) {
      const path = `/${protocol}-${framing}`;
      const headers = framing === 'length' ? { 'content-length': SIZE } : {};
      const answer = await one[protocol](to.host, path, { method: 'POST', headers, body: source(SIZE) });
      const got = await read(answer);
      assert.equal(answer.headers['x-received'], want, path);
      assert.deepEqual(got, { bytes: SIZE, whole: true, hash: want }, path);
      const event = await eventOf(to.host, path);
      assert.equal(event.request.body_length, SIZE);
      assert.equal(event.response.body_length, SIZE);
    }
  }
  up.close();
});

test('a part of a large body, and an answer without the body that it tells of', { timeout: 280000 }, async () => {
  const up = await serve((request, response) => {
    if (request.url === '/304') return response.writeHead(304, { ETag: '"1"' }).end();
    if (request.method === 'HEAD') return response.writeHead(200, { 'Content-Length': 64 * MIB }).end();
    response.writeHead(206, { 'Content-Range': `bytes 1000-300999/${MIB}`, 'Content-Length': 300000 });
    return response.end(noise.subarray(1000, 301000));
  });
  const to = await endpoint(up.address);
  for (const protocol of ['h1', 'h2']) {
    const range = await one[protocol](to.host, '/', { headers: { range: 'bytes=1000-300999' } });
    assert.equal(range.status, 206);
    assert.equal(range.headers['content-range'], `bytes 1000-300999/${MIB}`);
    assert.equal((await read(range)).hash, sum().update(noise.subarray(1000, 301000)).digest('hex'));
    const head = await one[protocol](to.host, '/', { method: 'HEAD' });
    assert.equal(Number(head.headers['content-length']), 64 * MIB);
    assert.equal((await read(head)).bytes, 0);
    const unchanged = await one[protocol](to.host, '/304');
    assert.equal(unchanged.status, 304);
    assert.equal((await read(unchanged)).bytes, 0);
  }
  up.close();
});

// The resident memory of all workers, in bytes.
const resident = () => workers().reduce((total, pid) => total + Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024, 0);
// AddressSanitizer keeps 256 MiB that a process freed. Only without it (make chaos) the memory of workers tells what a client costs.
const sanitizer = () => workers().filter((pid) => /libasan/.test(fs.readFileSync(`/proc/${pid}/maps`, 'utf8'))).length * 256 * MIB;
// nginx takes its files' names away as soon as it has opened them: they are found by who has them open.
const temporary = () => workers().flatMap((pid) => fs.readdirSync(`/proc/${pid}/fd`).map((fd) => { try { return fs.readlinkSync(`/proc/${pid}/fd/${fd}`); } catch { return ''; } }))
  .filter((file) => /\/edge\/(proxy|body)\//.test(file));

test('clients that do not take 1 GiB each cost a bounded part of memory and nothing on disk', { timeout: 280000, skip: elsewhere }, async () => {
  const READERS = 24, BLOCK = 64 * 1024;
  let written = 0;
  const up = await serve((request, response) => {
    let left = 1024 * MIB;
    if (request.url === '/length') response.writeHead(200, { 'Content-Length': left });
    const write = () => {
      for (; left > 0; left -= BLOCK, written += BLOCK) {
        if (!response.write(noise.subarray(0, BLOCK))) { left -= BLOCK; written += BLOCK; response.once('drain', write); return; }
      }
      response.end();
    };
    write();
  });
  const to = await endpoint(up.address);
  await through(to.host, '/', { method: 'HEAD' }).catch(() => {});
  const before = resident(), open = [];
  for (let i = 0; i < READERS; i++) {
    const answer = await one[i % 2 ? 'h2' : 'h1'](to.host, i % 4 < 2 ? '/length' : '/chunks'); // and nobody reads it
    answer.request.removeAllListeners('error').on('error', () => {});
    open.push(answer);
  }
  let last = -1, same = 0; // it has come to a stand where nothing more goes in
  await until(() => { same = written === last ? same + 1 : 0; last = written; return same > 25; }, 'all wait for their clients', 120000);
  const grown = resident() - before;
  assert.ok(grown < READERS * 256 * 1024 + 16 * MIB + sanitizer(), `${READERS} clients took ${grown} bytes of memory`);
  assert.deepEqual(temporary(), []);
  assert.ok(written < READERS * 64 * MIB, `${written} bytes of the answers are on their way`); // in sockets

  // one of each protocol goes on reading, and has all of it up to there
  for (const answer of [open[0], open[1]]) {
    let bytes = 0, right = true;
    answer.response.on('data', (part) => {
      for (let at = 0; at < part.length && right;) {
        const from = (bytes + at) % BLOCK, size = Math.min(BLOCK - from, part.length - at);
        right = part.compare(noise, from, from + size, at, at + size) === 0;
        at += size;
      }
      bytes += part.length;
    });
    await until(() => bytes > 96 * MIB || !right, '96 MiB of what waited', 120000);
    assert.ok(right);
  }
  for (const answer of open) answer.end();
  up.close();
});

// Chunks of the sizes, in turn, in which bytes of `noise` go out.
function chunks(total, sizes) {
  const out = [];
  for (let at = 0, i = 0; at < total; i++) {
    const size = Math.min(sizes[i % sizes.length], total - at);
    out.push(framings.chunks.part(noise.subarray(at, at + size)));
    at += size;
  }
  return Buffer.concat(out);
}

const mixtures = [[1], [2, 1], [1, 1023], [1024, 1025, 1], [5000, 1, 1, 1], [17, 4096, 3, 65536, 1, 1], [150000, 1, 999]];

test('an answer is whole in whatever chunks it comes, however many of them are read at once', { timeout: 280000 }, async () => {
  const TOTAL = 400000, want = sum().update(noise.subarray(0, TOTAL)).digest('hex');
  let body;
  const up = await tcpUpstream((socket) => socket.once('data', () => { socket.write(framings.chunks.head()); socket.write(body); socket.end(framings.chunks.end); }));
  const to = await endpoint(up.address);
  for (const sizes of mixtures) {
    body = chunks(TOTAL, sizes);
    for (const protocol of ['h1', 'h2']) {
      const got = await read(await one[protocol](to.host, '/'));
      assert.deepEqual(got, { bytes: TOTAL, whole: true, hash: want }, `${protocol}, chunks of ${sizes}`);
    }
  }
  await up.close();
});

test('bytes that come one at a time while the client takes nothing all reach it when it goes on', { timeout: 280000 }, async () => {
  const FIRST = 70000, TOTAL = FIRST + 2000, want = sum().update(noise.subarray(0, TOTAL)).digest('hex'); // beyond the window of a stream that is not read
  for (const framing of ['chunks', 'length']) {
    const { head, part, end } = framings[framing];
    let sent = 0;
    const up = await tcpUpstream((socket) => socket.setNoDelay(true).once('data', () => {
      socket.write(head(TOTAL));
      socket.write(part(noise.subarray(0, FIRST)));
      sent = FIRST;
      const next = () => { socket.write(part(noise.subarray(sent, ++sent))); if (sent < TOTAL) setImmediate(next); else socket.end(end); };
      next();
    }));
    const to = await endpoint(up.address), answer = await one.h2(to.host, '/');
    await until(() => sent === TOTAL, 'the upstream has sent all');
    assert.deepEqual(await read(answer), { bytes: TOTAL, whole: true, hash: want }, framing);
    await up.close();
  }
});

test('clients that do not take an answer in chunks of a byte cost no more than those of any other', { timeout: 280000, skip: elsewhere }, async () => {
  const READERS = 60, TOTAL = 2 * MIB, body = chunks(TOTAL, [1]), want = sum().update(noise).digest('hex');
  let written = 0;
  const up = await tcpUpstream((socket) => socket.once('data', () => {
    socket.write(framings.chunks.head());
    let at = 0;
    const write = () => {
      for (let more = true; more && at < body.length; at += 65536) { more = socket.write(body.subarray(at, at + 65536)); written += 65536; }
      if (at < body.length) socket.once('drain', write); else socket.end(framings.chunks.end);
    };
    write();
  }));
  const to = await endpoint(up.address);
  await through(to.host, '/', { method: 'HEAD' }).catch(() => {});
  const before = resident(), open = [];
  for (let i = 0; i < READERS; i++) {
    const answer = await one[i % 2 ? 'h2' : 'h1'](to.host, '/'); // and nobody reads it
    answer.request.removeAllListeners('error').on('error', () => {});
    open.push(answer);
  }
  let last = -1, same = 0;
  await until(() => { same = written === last ? same + 1 : 0; last = written; return same > 25; }, 'all wait for their clients', 120000);
  const grown = resident() - before;
  assert.ok(grown < READERS * 256 * 1024 + 16 * MIB + sanitizer(), `${READERS} clients took ${grown} bytes of memory`);
  for (const answer of open.slice(0, 2)) assert.deepEqual(await read(answer), { bytes: TOTAL, whole: true, hash: want }); // what waited comes, and the rest
  for (const answer of open) answer.end();
  await up.close();
});

const cuts = {
  'its length is not reached': [(s) => { s.write(framings.length.head(2 * MIB)); s.end(noise.subarray(0, MIB)); }],
  'its length is not reached, and the connection reset': [(s) => { s.write(framings.length.head(2 * MIB)); s.write(noise.subarray(0, MIB), () => s.resetAndDestroy()); }],
  'in the middle of a chunk': [(s) => { s.write(framings.chunks.head()); s.write(`${(2 * MIB).toString(16)}\r\n`); s.end(noise.subarray(0, MIB)); }],
  'between two chunks': [(s) => { s.write(framings.chunks.head()); s.end(framings.chunks.part(noise.subarray(0, MIB))); }],
  'a chunk has no size': [(s) => { s.write(framings.chunks.head()); s.write(framings.chunks.part(noise.subarray(0, MIB))); s.write('nonsense\r\n'); }],
};

for (const [what, [answer]] of Object.entries(cuts)) {
  test(`a client notices that the upstream's answer is not whole: ${what}`, { timeout: 280000 }, async () => {
    const up = await tcpUpstream((socket) => socket.once('data', () => answer(socket)));
    const to = await endpoint(up.address);
    for (const protocol of ['h1', 'h2']) {
      const got = await read(await one[protocol](to.host, '/'));
      assert.ok(!got.whole && got.bytes <= MIB, `${protocol}: ${JSON.stringify(got)}`);
    }
    await up.close();
  });
}

// An upstream that says 413 to the first bytes that it sees. Not all of the page fits into what a socket of the edge takes.
const page = noise.subarray(0, 60000);
const refusal = (connection) => Buffer.concat([Buffer.from(`HTTP/1.1 413 Too Large\r\nContent-Length: ${page.length}\r\n${connection}\r\n`), page]);
// What the other side's kernel has not acknowledged: a reset throws it away.
function unsent({ localPort, remotePort }) {
  const [here, there] = [localPort, remotePort].map((port) => `:${port.toString(16).toUpperCase().padStart(4, '0')}`);
  const rows = ['tcp', 'tcp6'].flatMap((name) => fs.readFileSync(`/proc/net/${name}`, 'latin1').split('\n')).map((line) => line.trim().split(/\s+/));
  return parseInt(rows.find((words) => words[1]?.endsWith(here) && words[2]?.endsWith(there))?.[4] ?? '0', 16); // tx_queue:rx_queue
}
const refusals = {
  'resets the connection': (socket) => socket.once('data', () => {
    socket.pause();
    socket.write(refusal('Connection: close\r\n'), () => void until(() => unsent(socket) === 0, 'the edge has all of it', 120000).then(() => socket.destroy()));
  }),
  'closes its side': (socket) => socket.once('data', () => { socket.pause(); socket.end(refusal('Connection: close\r\n')); }),
  'reads on': (socket) => { socket.once('data', () => socket.end(refusal('Connection: close\r\n'))); socket.resume(); },
  'keeps the connection and reads nothing': (socket) => socket.once('data', () => { socket.pause(); socket.write(refusal('')); }),
};

for (const [what, upstream] of Object.entries(refusals)) {
  test(`an answer that comes during the upload is whole, where the upstream ${what}`, { timeout: 280000 }, async () => {
    const up = await tcpUpstream(upstream);
    const to = await endpoint(up.address);
    const want = sum().update(page).digest('hex');
    for (let round = 0; round < 3; round++) {
      for (const protocol of ['h1', 'h2']) {
        for (const headers of [{ 'content-length': 64 * MIB }, {}]) {
          const body = source(64 * MIB);
          const answer = await one[protocol](to.host, '/', { method: 'POST', headers, body });
          assert.equal(answer.status, 413);
          if (protocol === 'h1' && what !== 'keeps the connection and reads nothing') assert.equal(answer.headers.connection, 'close');
          assert.equal(await first(answer, page.length), want, protocol);
          body.destroy();
        }
      }
    }
    await up.close();
  });
}

test('a client that reads only when it has sent all gets the answer that came before', { timeout: 280000 }, async () => {
  const up = await tcpUpstream(refusals['resets the connection']);
  const to = await endpoint(up.address);
  const got = await new Promise((resolve, reject) => {
    const request = https.request({ host: edge.host, port: edge.port, servername: to.host, ca, path: '/', method: 'POST', agent: false, headers: { Host: to.host, 'Content-Length': 32 * MIB } });
    request.on('error', reject);
    request.on('socket', (socket) => socket.on('secureConnect', () => {
      socket.pause();
      const all = parts(32 * MIB);
      const next = () => { const { value, done } = all.next(); if (done) request.end(() => socket.resume()); else request.write(value, next); };
      next();
    }));
    request.on('response', (response) => read({ response, end: () => request.destroy() }).then((body) => resolve({ status: response.statusCode, ...body })));
  });
  assert.deepEqual(got, { status: 413, bytes: page.length, whole: true, hash: sum().update(page).digest('hex') });
  await up.close();
});

test('an upstream that resets an upload without an answer is 502', { timeout: 280000 }, async () => {
  const up = await tcpUpstream((socket) => socket.once('data', () => socket.resetAndDestroy()));
  const to = await endpoint(up.address);
  for (const protocol of ['h1', 'h2']) {
    const body = source(16 * MIB);
    const answer = await one[protocol](to.host, '/', { method: 'POST', body });
    assert.equal(answer.status, 502);
    answer.end();
    body.destroy();
  }
  await up.close();
});

test('cleanup', () => sub.stop());
