// What upstreams have not taken of WebSockets that their client has ended stands in sockets until they do (services/edge/http/edge_unsent_left.c):
// that costs the client, and beyond its portion it is thrown away. A stack of its own, with little memory, in which upstreams have an hour.
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { ESTABLISHED, FIN_WAIT_1, socketsOf } from '../support/kernel.mjs';
import { metric, ownHost, port } from '../support/own-host.mjs';
import { edge, elsewhere, env, storyHost, until } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const MEMORY = 16 << 20, MOST = 0.39 * MEMORY, LITTLE = 256 << 10, SENT = 300000, SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n';
const charged = () => metric('request_memory_bytes{worker="0"}');

// A WebSocket, once there is one.
async function open({ host, ca }) {
  const socket = tls.connect({ host: edge.host, port, servername: host, ca, localAddress: '127.0.0.41' }).on('error', () => {});
  socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
  const said = await new Promise((resolve, reject) => { socket.once('data', resolve).once('close', () => reject(new Error('closed'))); });
  assert.match(String(said), /^HTTP\/1\.1 101 /);
  return socket;
}

test('what upstreams have not taken of WebSockets that ended costs the client, and is thrown away beyond its portion', { skip, timeout: 290000 }, async () => {
  const unread = [], sockets = [], WAIT = 100000; // of what upstreams get nothing is read until somebody says so
  const silent = net.createServer({ pauseOnConnect: true }, (socket) => { unread.push(socket.on('error', () => {})); socket.write(SWITCH); });
  await new Promise((resolve) => silent.listen(0, storyHost, resolve));
  const upstream = silent.address().port, kernel = socketsOf(upstream);
  const there = await ownHost('left', { POSTERN_REQUEST_MEMORY: '16m', POSTERN_SEND_TIMEOUT: '1h' }, { '/': `${storyHost}:${upstream}` });
  const sum = (rows, what) => rows.reduce((all, one) => all + one[what], 0), unsent = () => sum(kernel.edgeSide(), 'unsent');
  const left = () => kernel.edgeSide().filter(({ state }) => state === FIN_WAIT_1);
  try {
    let head = 0;
    while (unsent() < 1.5 * MOST) {
      assert.ok(sockets.length < 150, `${unsent()} bytes of ${sockets.length} WebSockets are in sockets`);
      sockets.push(await open(there));
      head ||= await until(() => sum(kernel.upstreamSide(), 'unread') || unread[0]?.bytesRead, 'its head', WAIT); // of the first one, whose upstream has nothing else yet; as below
      sockets.at(-1).write(Buffer.alloc(SENT));
      // of a few Node has read the head by itself, though it was told to wait
      await until(() => kernel.inKernel() >= sockets.length * SENT, 'all of it is in the kernel', WAIT);
    }
    for (const socket of sockets) socket.end();
    await until(() => kernel.edgeSide().every(({ state }) => state !== ESTABLISHED) && unsent() <= MOST, 'the edge has closed each, and no more is left', WAIT);
    const kept = left().length;
    assert.ok(kept > 0 && kept < sockets.length, `${kept} of ${sockets.length} are left, ${unsent()} bytes, of which ${await charged()} are charged`);
    assert.ok(await charged() + sockets.length >= unsent(), 'which are charged, but for their ends');
    let whole = 0;
    for (const socket of unread) {
      let bytes = 0;
      socket.on('data', (part) => { bytes += part.length; }).on('end', () => { whole += [SENT, head + SENT].includes(bytes); }).resume(); // as above
    }
    await until(() => whole >= kept, 'what is left arrives', WAIT);
    await until(async () => left().length === 0 && await charged() < LITTLE, 'and costs nothing any more', WAIT);
    sockets.push(await open(there));
  } finally {
    for (const socket of [...sockets, ...unread]) socket.destroy();
    silent.close();
    await there.end();
  }
});
