// What an upstream does not take of a request goes with the request (services/edge/http/edge_unsent.c): else it would stay in the kernel for
// minutes, at nobody's expense, as often as a client likes. What the kernel has of a connection is read from /proc/net/tcp: Node takes a reset
// behind bytes that it has not read yet for an end, so an upstream in Node cannot tell the two apart.
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { CLOSE_WAIT, ESTABLISHED, FIN_WAIT_1, socketsOf } from '../support/kernel.mjs';
import { ca, edge, elsewhere, endpoint, through, until } from '../support/postern.mjs';

const skip = elsewhere, WAIT = 120000, ANNOUNCED = 32 << 20, MANY = 1 << 20;

// An upstream that reads nothing: {host, end} of an endpoint that leads to it, and what the kernel has of its connections; read takes what is there, of
// its first connection, and says how many bytes of a body that is, say says something there.
async function deaf(onSocket = () => {}) {
  const held = [], server = net.createServer({ pauseOnConnect: true }, (socket) => { held.push(socket.on('error', () => {})); onSocket(socket); });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address(), { host } = await endpoint(`127.0.0.1:${port}`);
  return { host, ...socketsOf(port), read: () => bodyOf(held[0]), say: (bytes) => held[0].write(bytes), end: () => { for (const socket of held) socket.destroy(); server.close(); } };
}
// How many bytes come behind a head until the end; an error where there is none.
async function bodyOf(socket) {
  const parts = [];
  for await (const part of socket) parts.push(part);
  const bytes = Buffer.concat(parts);
  return bytes.length - bytes.indexOf('\r\n\r\n') - 4;
}

const open = (host) => http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca }).on('error', () => {});
const post = (session, host, size) => session.request({ ':method': 'POST', ':path': '/', ':authority': host, 'content-length': size }).on('error', () => {});
const isStuck = (to) => to.inKernel() > MANY && to.edgeSide().some(({ unsent }) => unsent > MANY / 4);

test('what an upstream has not taken of a request that its client resets is thrown away at once', { skip, timeout: 300000 }, async () => {
  const to = await deaf(), session = open(to.host);
  try {
    const request = post(session, to.host, ANNOUNCED);
    request.write(Buffer.alloc(MANY));
    await until(() => isStuck(to), 'more of its body than the upstream has room for', WAIT);
    request.close(http2.constants.NGHTTP2_CANCEL);
    await until(() => to.edgeSide().length === 0, 'the kernel has nothing of it on the side of the edge', WAIT);
    await until(() => !to.upstreamSide().some(({ state }) => state === ESTABLISHED), 'and the upstream knows', WAIT);
  } finally { session.destroy(); to.end(); }
});

test('so it is when the client of HTTP/1.1 goes away', { skip, timeout: 300000 }, async () => {
  const to = await deaf(), socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca }).on('error', () => {});
  try {
    socket.write(`POST / HTTP/1.1\r\nHost: ${to.host}\r\nContent-Length: ${ANNOUNCED}\r\n\r\n`);
    socket.write(Buffer.alloc(MANY));
    await until(() => isStuck(to), 'more of its body than the upstream has room for', WAIT);
    socket.destroy();
    await until(() => to.edgeSide().length === 0, 'the kernel has nothing of it on the side of the edge', WAIT);
  } finally { socket.destroy(); to.end(); }
});

test('a few bytes that are unsent wait for some seconds, not for minutes', { skip, timeout: 400000 }, async () => {
  const STEP = 4096, to = await deaf(), session = open(to.host);
  try {
    const request = post(session, to.host, ANNOUNCED);
    let written = 0, stuck = false;
    while (!stuck) {
      request.write(Buffer.alloc(STEP));
      written += STEP;
      await until(() => to.inKernel() >= written, `${written} bytes in the kernel`, WAIT);
      stuck = !await until(() => to.edgeSide()[0]?.unsent === 0, 'taken', 1000).catch(() => false);
    }
    request.close(http2.constants.NGHTTP2_CANCEL);
    await until(() => to.edgeSide()[0]?.state !== ESTABLISHED, 'the edge has closed it', WAIT);
    await until(() => !to.edgeSide().some(({ state }) => state === FIN_WAIT_1), 'and the kernel has given it up', 60000);
  } finally { session.destroy(); to.end(); }
});

test('an upstream that has all of a small request gets an end, not a reset, when its client goes', { skip, timeout: 300000 }, async () => {
  const to = await deaf(), session = open(to.host);
  try {
    const request = post(session, to.host, 1000);
    request.end(Buffer.alloc(1000));
    await until(() => to.upstreamSide().some(({ unread }) => unread > 1000) && to.edgeSide().every(({ unsent }) => unsent === 0), 'its body with the upstream', WAIT);
    request.close(http2.constants.NGHTTP2_CANCEL);
    await until(() => to.upstreamSide().some(({ state }) => state === CLOSE_WAIT), 'the upstream has an end', WAIT);
    assert.ok(to.upstreamSide().some(({ unread }) => unread > 1000), 'and still all of the request');
  } finally { session.destroy(); to.end(); }
});

test('so does one whose answer was whole, and that says close', { skip, timeout: 300000 }, async () => {
  const to = await deaf((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'));
  try {
    const answer = await through(to.host, '/');
    assert.equal(answer.status, 200);
    assert.equal(String(answer.body), 'ok');
    await until(() => to.upstreamSide().some(({ state }) => state === CLOSE_WAIT), 'the upstream has an end', WAIT);
  } finally { to.end(); }
});

for (const talks of [false, true]) test(`a WebSocket whose client ends it in order loses nothing of what that has sent${talks ? ', also where its upstream goes on talking' : ''}`, { skip, timeout: 300000 }, async () => {
  const SENT = 300000, SAID = 50000, to = await deaf((socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'));
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca }).on('error', () => {});
  try {
    socket.write(`GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
    await new Promise((resolve) => socket.once('data', resolve));
    socket.write(Buffer.alloc(SENT));
    await until(() => to.inKernel() >= SENT, 'all of it is in the kernel', WAIT);
    assert.ok(to.edgeSide()[0].unsent > SENT / 4, 'more than the upstream has room for');
    socket.end();
    await until(() => to.edgeSide().every(({ state }) => state !== ESTABLISHED), 'the edge has closed it', WAIT);
    if (talks) {
      to.say(Buffer.alloc(SAID));
      await until(() => to.upstreamSide().every(({ unsent }) => unsent === 0) && to.edgeSide().every(({ unread }) => unread === 0), 'what it says is thrown away', WAIT);
    }
    assert.equal(await to.read(), SENT);
  } finally { socket.destroy(); to.end(); }
});

test('of one whose client breaks off nothing is kept for its upstream, which learns that it was broken off', { skip, timeout: 300000 }, async () => {
  const SENT = 300000, to = await deaf((socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'));
  const raw = net.connect(edge.port, edge.host).on('error', () => {}), socket = tls.connect({ socket: raw, servername: to.host, ca }).on('error', () => {});
  try {
    socket.write(`GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
    await new Promise((resolve) => socket.once('data', resolve));
    const head = to.inKernel();
    socket.write(Buffer.alloc(SENT));
    await until(() => to.inKernel() === head + SENT, 'all of it is in the kernel', WAIT);
    raw.resetAndDestroy();
    await until(() => to.edgeSide().length === 0, 'the kernel has nothing of it on the side of the edge', WAIT);
    assert.ok(!to.upstreamSide().some(({ state }) => [ESTABLISHED, CLOSE_WAIT].includes(state)), 'and what its upstream has is no end in order');
  } finally { raw.destroy(); to.end(); }
});
