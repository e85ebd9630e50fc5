// What clients send arrives whole however it is cut, and who leaves is let go at once: the edge reads a socket again only
// after an event.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import { Duplex } from 'node:stream';
import test from 'node:test';
import tls from 'node:tls';
import { createRequire } from 'node:module';
import { WebSocket, ca, edge, endpoint, upstream } from '../support/postern.mjs';

// What a TLS record, nginx's buffers and OpenSSL's hold, and their neighbours.
const sizes = [1, 2, 5, 1023, 4096, 16383, 16384, 16385, 16413, 32768, 50000, 65536, 131072];
const pieces = (total, seed) => {
  const body = crypto.createHash('shake256', { outputLength: total }).update(seed).digest(), out = [];
  for (let at = 0, i = seed.length; at < total; i = (i * 7 + 3) % 997) out.push(body.subarray(at, at += sizes[i % sizes.length]));
  return { body, out };
};
const digest = (body) => crypto.createHash('sha256').update(body).digest('hex');

test('bodies_arrive_whole_however_they_are_cut', { timeout: 300_000 }, async () => {
  const up = await upstream((q, s, body) => s.end(digest(body)));
  const to = await endpoint(up.address);
  const socket = { host: edge.host, port: edge.port, servername: to.host, ca };
  const http1 = (parts) => new Promise((resolve, reject) => {
    const request = https.request({ ...socket, method: 'POST', headers: { Host: to.host }, agent: false }, async (response) => {
      resolve(Buffer.concat(await response.toArray()).toString());
    });
    request.on('error', reject);
    (async () => {
      for (const part of parts) await new Promise((next) => request.write(part, next));
      request.end();
    })();
  });
  const session = http2.connect(`https://${to.host}`, { createConnection: () => tls.connect({ ...socket, ALPNProtocols: ['h2'] }) });
  const second = (parts) => new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':authority': to.host });
    const got = [];
    stream.on('data', (part) => got.push(part)).on('end', () => resolve(Buffer.concat(got).toString())).on('error', reject);
    for (const part of parts) stream.write(part);
    stream.end();
  });
  await Promise.all(Array.from({ length: 16 }, async (_, i) => {
    const { body, out } = pieces(1_500_000 + i, 'x'.repeat(i + 1));
    assert.equal(await (i % 2 ? http1 : second)(out), digest(body), `body ${i}`);
  }));
  session.close();
  await up.close();
});

test('a_body_in_records_of_one_byte_arrives_whole', { timeout: 300_000 }, async () => {
  const COUNT = 20_000, up = await upstream((q, s, body) => s.end(digest(body))), to = await endpoint(up.address), body = crypto.randomBytes(COUNT);
  for (const ALPNProtocols of [['http/1.1'], ['h2']]) {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols }).setNoDelay(true), plain = ALPNProtocols[0] !== 'h2';
    await new Promise((resolve) => socket.once('secureConnect', resolve));
    const session = plain ? null : http2.connect(`https://${to.host}`, { createConnection: () => socket });
    const request = plain ? https.request({ method: 'POST', headers: { Host: to.host, 'Content-Length': COUNT }, createConnection: () => socket }) : session.request({ ':method': 'POST', ':authority': to.host });
    const answer = new Promise((resolve, reject) => {
      request.on('error', reject);
      const read = (from) => from.toArray().then((all) => resolve(Buffer.concat(all).toString()), reject);
      if (plain) request.on('response', read);
      else read(request);
    });
    answer.catch(() => {}); // it is awaited below
    for (const byte of body) await new Promise((sent) => { request.write(Buffer.from([byte]), sent); }); // what is written at once is one record
    request.end();
    assert.equal(await answer, digest(body), ALPNProtocols[0]);
    session?.close();
    socket.destroy();
  }
  await up.close();
});

test('messages_of_every_size_pass_both_ways_through_a_websocket', { timeout: 300_000 }, async () => {
  const { WebSocketServer } = createRequire(new URL('package.json', import.meta.url))('ws');
  const up = await upstream();
  new WebSocketServer({ server: up.server }).on('connection', (socket) => socket.on('message', (data) => socket.send(data)));
  const to = await endpoint(up.address);
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { servername: to.host, ca, headers: { Host: to.host } });
  await new Promise((resolve, reject) => { socket.on('open', resolve); socket.on('error', reject); });
  const { out } = pieces(3_000_000, 'websocket');
  const got = new Promise((resolve) => { const all = []; socket.on('message', (data) => { all.push(digest(data)); if (all.length === out.length) resolve(all); }); });
  for (const part of out) socket.send(part);
  assert.deepEqual(await got, out.map(digest));
  socket.close();
  up.server.closeAllConnections();
  await up.close();
});

// TLS over a stream of the story's own, so that the end of TCP comes when the story says.
async function connect(servername) {
  const tcp = net.connect({ host: edge.host, port: edge.port, allowHalfOpen: true });
  const between = new Duplex({ read() {}, write: (part, _, next) => { tcp.write(part); next(); }, final: (next) => next() });
  tcp.on('data', (part) => between.push(part)).on('error', () => {});
  const secure = tls.connect({ socket: between, servername, ca });
  secure.on('error', () => {});
  await new Promise((resolve) => secure.on('secureConnect', resolve));
  return { tcp, secure };
}

// A keep-alive connection lasts 75 s; each of these ends it sooner, whether the edge has read the request before or not. The time runs from when the client
// leaves: how long a slow machine takes to connect fifty of them is another matter.
const SOONER = 40_000;
const leaving = {
  request_and_both_ends_in_one_flight: ({ secure, tcp }, request) => { tcp.cork(); secure.end(request, () => tcp.end()); },
  request_and_the_end_of_tcp_in_one_flight: ({ secure, tcp }, request) => { tcp.cork(); secure.write(request, () => tcp.end()); },
  the_end_of_tls_then_of_tcp: ({ secure, tcp }, request) => secure.write(request, () => secure.end(() => tcp.end())),
  the_end_of_tcp_while_idle: ({ secure, tcp }, request) => { secure.write(request); secure.once('data', () => tcp.end()); },
  the_end_of_tls_while_idle: ({ secure }, request) => { secure.write(request); secure.once('data', () => secure.end()); },
};
for (const [how, leave] of Object.entries(leaving))
  test(`who_leaves_is_let_go: ${how}`, { timeout: 300_000 }, async () => {
    const to = await endpoint({ body: 'here' });
    await Promise.all(Array.from({ length: 50 }, async () => {
      const one = await connect(to.host);
      let text = '';
      one.secure.on('data', (part) => { text += part; });
      const ended = new Promise((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`not let go within ${SOONER} ms`)), SOONER);
        for (const how of ['end', 'close']) one.tcp.on(how, () => { clearTimeout(late); resolve(); });
      });
      leave(one, `GET / HTTP/1.1\r\nHost: ${to.host}\r\n\r\n`);
      await ended;
      one.tcp.destroy();
      assert.match(text, /^HTTP\/1.1 200 [^]*here$/);
    }));
  });

test('pipelined_requests_in_pieces_are_answered_in_order', { timeout: 300_000 }, async () => {
  const up = await upstream((q, s) => s.end(q.url));
  const to = await endpoint(up.address);
  const all = Buffer.from(Array.from({ length: 100 }, (_, i) => `GET /${i}-end HTTP/1.1\r\nHost: ${to.host}\r\nX-Pad: ${'p'.repeat(i * 9)}\r\n\r\n`).join(''));
  for (const step of [1, 7, 500, 1024, all.length]) {
    const secure = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
    let text = '';
    secure.on('data', (part) => { text += part; });
    await new Promise((resolve, reject) => { secure.on('secureConnect', resolve); secure.on('error', reject); });
    for (let at = 0; at < all.length; at += step) secure.write(all.subarray(at, at + step));
    while (!text.includes('/99-end')) await new Promise((next) => secure.once('data', next));
    assert.deepEqual([...text.matchAll(/\/(\d+)-end/g)].map((m) => Number(m[1])), Array.from({ length: 100 }, (_, i) => i), `in pieces of ${step}`);
    secure.destroy();
  }
  await up.close();
});

// A head and the body behind it come in one record of TLS, and end around where a buffer of the edge does.
test('a_small_body_behind_its_head_arrives_whole_at_every_length', { timeout: 300_000 }, async () => {
  const up = await upstream((q, s, body) => s.end(`${body.length}:${digest(body)};`));
  const to = await endpoint(up.address);
  const secure = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
  let text = '';
  secure.on('data', (part) => { text += part; });
  await new Promise((resolve, reject) => { secure.on('secureConnect', resolve); secure.on('error', reject); });
  const lengths = [1, 2, ...[1024, 2048, 4096, 16384].flatMap((around) => Array.from({ length: 9 }, (_, i) => around - 4 + i))];
  for (const total of lengths) {
    const head = (length) => `POST / HTTP/1.1\r\nHost: ${to.host}\r\nContent-Length: ${length}\r\n\r\n`;
    const { body } = pieces(Math.max(1, total - head(total).length), `${total}`);
    text = '';
    secure.write(Buffer.concat([Buffer.from(head(body.length)), body]));
    while (!/:[0-9a-f]{64};$/.test(text)) await new Promise((next) => secure.once('data', next));
    assert.ok(text.endsWith(`${body.length}:${digest(body)};`), `a head and a body of ${total} bytes`);
  }
  secure.destroy();
  await up.close();
});

test('a_record_that_is_not_valid_ends_its_connection_and_no_other', { timeout: 300_000 }, async () => {
  const to = await endpoint({ body: 'here' });
  const request = `GET / HTTP/1.1\r\nHost: ${to.host}\r\n\r\n`, upload = `POST / HTTP/1.1\r\nHost: ${to.host}\r\nContent-Length: 100\r\n\r\nx`;
  const record = Buffer.concat([Buffer.from([23, 3, 3, 0, 64]), crypto.randomBytes(64)]);
  const broken = {
    behind_an_answer: ({ secure, tcp }) => { secure.write(request); secure.once('data', () => tcp.write(record)); },
    behind_a_request: ({ secure, tcp }) => { tcp.cork(); secure.write(request, () => { tcp.write(record); tcp.uncork(); }); },
    in_a_body: ({ secure, tcp }) => { tcp.cork(); secure.write(upload, () => { tcp.write(record); tcp.uncork(); }); },
    before_a_request: ({ tcp }) => tcp.write(record),
  };
  const other = await connect(to.host);
  let text = '';
  other.secure.on('data', (part) => { text += part; });
  for (const breaks of Object.values(broken)) {
    const one = await connect(to.host), ended = new Promise((resolve) => { one.tcp.on('end', resolve).on('close', resolve); });
    one.secure.on('data', () => {});
    breaks(one);
    await ended;
    one.tcp.destroy();
    text = '';
    other.secure.write(request);
    while (!text.endsWith('here')) await new Promise((next) => other.secure.once('data', next));
    assert.match(text, /^HTTP\/1.1 200 /);
  }
  other.tcp.destroy();
});
