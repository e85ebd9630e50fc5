// Connections to upstreams that were kept, and that these end before the next request is sent there: it goes over another one, and nothing of it is sent twice.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import secure from 'node:tls';
import { DATA, END_HEADERS, END_STREAM, HEADERS, PING, SETTINGS, frame, headers } from '../support/h2raw.mjs';
import { inOneTurn } from '../support/one-turn.mjs';
import { ca, edge, elsewhere, endpoint, must, storyHost, tcpUpstream, through, until } from '../support/postern.mjs';

const signed = process.env.STORY_UPSTREAM_TLS, options = { skip: elsewhere, timeout: 280000 };
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', BODY = crypto.randomBytes(3000).toString('base64');

// ---- requests that are there whole ----

async function whole(method, act) {
  const sockets = [];
  const up = await tcpUpstream((socket) => { sockets.push(socket); socket.on('data', () => socket.write(OK)); }), to = await endpoint(up.address);
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 }); // one worker
  assert.equal((await through(to.host, '/', { agent })).body, 'ok');
  await until(() => Object.values(agent.freeSockets).length === 1, 'the connection waits for its next request');
  const [[client]] = Object.values(agent.freeSockets), written = client.bytesWritten;
  let answer;
  await inOneTurn(async () => {
    answer = through(to.host, '/', { method, agent });
    answer.catch(() => {}); // it is awaited below
    await until(() => client.bytesWritten > written, 'the request is sent');
  }, () => act(sockets[0]));
  const got = await answer;
  agent.destroy();
  await up.close();
  return { ...got, connections: sockets.length };
}

test('what is found on a kept connection before the request has been sent there is no answer to it', options, async () => {
  for (const method of ['GET', 'POST']) {
    const got = await whole(method, (socket) => new Promise((resolve) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil', resolve); }));
    assert.notEqual(got.body, 'evil');
    assert.ok(got.status === 502 || got.body === 'ok', got.body); // ok: its end was seen before the request
  }
});

test('a kept connection that ends before the request has been sent there costs no request, whatever its method', options, async () => {
  for (const method of ['POST', 'FOO']) {
    const got = await whole(method, (socket) => new Promise((resolve) => { socket.end(resolve); }));
    assert.deepEqual([got.status, got.body, got.connections], [200, 'ok', 2], method);
  }
});

// ---- requests whose bodies are still coming ----

// An upstream that keeps its connections: of each its socket, and the requests that came there. The first `together` are answered when all of them are there.
async function keeping(together, tls) {
  const connections = [], held = [];
  const server = (tls ? https : http).createServer(tls || {}, async (request, response) => {
    const one = connections.find(({ socket }) => socket === request.socket), seen = { method: request.method, body: '' };
    one.requests.push(seen);
    for await (const part of request) seen.body += part;
    held.push(() => response.end('ok'));
    if (held.length < together) return;
    together = 1;
    held.splice(0).forEach((answer) => answer());
  });
  server.keepAliveTimeout = 60000;
  server.on(tls ? 'secureConnection' : 'connection', (socket) => connections.push({ socket, requests: [] }));
  await new Promise((resolve) => server.listen(0, storyHost, resolve));
  return { connections, port: server.address().port, close: () => new Promise((resolve) => { server.closeAllConnections(); server.close(resolve); }) };
}

const session = (host) => new Promise((resolve, reject) => {
  const self = http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca });
  self.on('error', reject).on('connect', () => resolve(self));
});

// How a client sends a body: {ask: one request without one, begin: the first half of one with a body, finish: the rest, and the answer}. All go to one worker.
const clients = {
  'HTTP/1.1, with its length': (host) => overHttp1(host, { 'Content-Length': BODY.length }),
  'HTTP/1.1, in chunks': (host) => overHttp1(host, { 'Transfer-Encoding': 'chunked' }),
  'HTTP/2': overHttp2,
};

async function overHttp1(host, fields) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  return {
    ask: () => through(host, '/', { agent }).then(({ body }) => body),
    begin: (method, half) => new Promise((resolve, reject) => {
      const request = https.request({ host: edge.host, port: edge.port, servername: host, ca, agent, method, headers: { Host: host, ...fields } });
      const answer = new Promise((done, fail) => {
        request.on('response', async (response) => done({ status: response.statusCode, body: Buffer.concat(await response.toArray()).toString() })).on('error', fail);
      });
      answer.catch(reject);
      request.write(half, () => resolve({ finish: (rest) => { request.end(rest); return answer; } }));
    }),
    close: () => agent.destroy(),
  };
}

async function overHttp2(host) {
  const self = await session(host);
  const begin = (method, half) => new Promise((resolve, reject) => {
    const stream = self.request({ ':method': method, ':authority': host, ':path': '/' }, { endStream: half === undefined }), got = { body: '' };
    const answer = new Promise((done, fail) => {
      stream.on('response', (head) => { got.status = head[':status']; }).on('data', (part) => { got.body += part; }).on('end', () => done(got)).on('error', fail);
    });
    answer.catch(reject);
    if (half === undefined) resolve({ finish: () => answer });
    else stream.write(half, () => resolve({ finish: (rest) => { stream.end(rest); return answer; } }));
  });
  return { ask: async () => (await (await begin('GET')).finish()).body, begin, close: () => self.close() };
}

const ends = {
  'in order': (socket) => new Promise((resolve) => { socket.end(resolve); }),
  'by a reset': async (socket) => { socket.resetAndDestroy(); },
};

async function upload({ client, method, end, together = 1, tls = false }) {
  const up = await keeping(together, tls && { key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) });
  const to = await endpoint(tls ? await must('POST', '/backends/static', { address: `localhost:${up.port}`, tls: { enabled: true } }) : `${storyHost}:${up.port}`);
  const self = await clients[client](to.host);
  assert.deepEqual(await Promise.all(Array.from({ length: together }, self.ask)), Array(together).fill('ok'));
  assert.equal(up.connections.length, together);
  let begun;
  const first = [...up.connections], read = first.map(({ socket }) => socket.bytesRead);
  await inOneTurn(async () => { begun = await self.begin(method, BODY.slice(0, 1000)); }, () => Promise.all(first.map(({ socket }) => end(socket))));
  const got = await begun.finish(BODY.slice(1000));
  assert.deepEqual(got, { status: 200, body: 'ok' });
  assert.equal(up.connections.length, together + 1, 'a new connection');
  assert.deepEqual(up.connections[together].requests, [{ method, body: BODY }], 'all of it, once');
  assert.deepEqual(first.map(({ requests }) => requests.length), Array(together).fill(1));
  assert.deepEqual(first.map(({ socket }) => socket.bytesRead), read, 'nothing was sent on those that had ended');
  self.close();
  await up.close();
}

for (const client of Object.keys(clients))
  for (const [how, end] of Object.entries(ends))
    test(`an upload goes over a new connection where the kept one has ended ${how} before: ${client}`, options, async () => {
      for (const method of ['POST', 'PUT', 'REPORT']) await upload({ client, method, end });
    });

test('an upload goes over a new connection where all that were kept have ended', options, () => upload({ client: 'HTTP/2', method: 'POST', end: ends['in order'], together: 3 }));

test('an upload goes over a new connection where the kept one, which has TLS, has ended', { ...options, skip: elsewhere || !signed }, async () => {
  for (const client of Object.keys(clients)) await upload({ client, method: 'POST', end: ends['in order'], tls: true });
});

// ---- gRPC ----

const call = (self, host) => {
  const stream = self.request({ ':method': 'POST', ':authority': host, ':path': '/a/b', 'content-type': 'application/grpc', te: 'trailers' }), got = { data: 0 };
  const answer = new Promise((resolve, reject) => {
    stream.on('response', (head) => { got.status = head[':status']; got.grpc = head['grpc-status']; }).on('data', () => {}).on('end', () => resolve(got)).on('error', reject);
  });
  answer.catch(() => {}); // it is awaited
  return { stream, answer };
};

// An upstream of gRPC: of each connection its socket and how many calls came there. tls: behind a relay, which hands on what it says, but not its end of TCP.
async function answering(tls) {
  const connections = [], relays = [];
  const serve = (socket) => {
    const self = { socket, calls: 0, relay: relays.find(({ inner }) => inner.localPort === socket.remotePort) };
    let rest = Buffer.alloc(0), begun = false;
    connections.push(self);
    socket.on('error', () => {}).write(frame(SETTINGS, 0, 0));
    socket.on('data', (part) => {
      rest = Buffer.concat([rest, part]);
      if (!begun && rest.length >= 24) { begun = true; rest = rest.subarray(24); }
      while (begun && rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
        const [type, flags, id] = [rest[3], rest[4], rest.readUInt32BE(5)];
        rest = rest.subarray(9 + rest.readUIntBE(0, 3));
        self.calls += type === HEADERS;
        if (type === DATA && flags & END_STREAM) socket.write(frame(HEADERS, END_HEADERS | END_STREAM, id, headers([[':status', '200'], ['grpc-status', '0']])));
      }
    });
  };
  if (!tls) {
    const up = await tcpUpstream(serve);
    return { connections, to: await endpoint(up.address), close: up.close };
  }
  const server = secure.createServer({ ...tls, ALPNProtocols: ['h2'] }, serve);
  await new Promise((resolve) => server.listen(0, storyHost, resolve));
  const up = await tcpUpstream((outer) => {
    const self = { outer, inner: net.connect(server.address().port, storyHost), came: 0, said: 0 };
    relays.push(self);
    outer.setNoDelay().on('error', () => {}).on('close', () => self.inner.destroy()).pipe(self.inner); // what is written is there, and waits for no acknowledgement
    self.inner.on('error', () => {}).on('data', (part) => { self.came += part.length; outer.write(part, () => { self.said += part.length; }); });
  });
  return { connections, to: await endpoint(await must('POST', '/backends/static', { address: `localhost:${up.address.split(':')[1]}`, tls: { enabled: true } })), close: async () => { await up.close(); server.close(); } };
}

async function overNew(up, ways) {
  const { connections, to } = up, self = await session(to.host), message = Buffer.from([0, 0, 0, 0, 0]), good = { data: 0, status: 200, grpc: '0' };
  for (const end of Object.values(ways)) {
    for (let i = 0; i < 100 && !(connections.at(-1)?.calls > 1); i++) { // one that has just been made is kept where the edge has answered its SETTINGS by then
      const first = call(self, to.host);
      first.stream.end(message);
      assert.deepEqual(await first.answer, good);
    }
    assert.ok(connections.at(-1).calls > 1, 'it is kept');
    const before = connections.length, last = connections.at(-1), { calls } = last;
    let next;
    await inOneTurn(async () => {
      next = call(self, to.host);
      await new Promise((resolve) => { next.stream.write(message.subarray(0, 3), resolve); });
    }, () => end(last.socket, last.relay));
    next.stream.end(message.subarray(3));
    assert.deepEqual(await next.answer, good);
    assert.deepEqual([connections.length, last.calls, connections.at(-1).calls], [before + 1, calls, 1]);
  }
  self.close();
  await up.close();
}

test('a call of gRPC goes over a new connection where the kept one has ended before', options, async () => overNew(await answering(), ends));

// The end of TLS (RFC 8446 6.1) without one of TCP, by itself and behind other frames.
const said = async (relay, act) => {
  await until(() => relay.said === relay.came, 'what was said before has come');
  const before = relay.came;
  act();
  await until(() => relay.came > before && relay.said === relay.came, 'it has come');
};
test('a call of gRPC goes over a new connection where the kept one has ended by TLS alone before', { ...options, skip: elsewhere || !signed }, async () => {
  const up = await answering({ key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) });
  await overNew(up, {
    alone: (socket, relay) => said(relay, () => socket.end()),
    'behind a PING': async (socket, relay) => {
      await said(relay, () => socket.write(frame(PING, 0, 0, Buffer.alloc(8))));
      await said(relay, () => socket.end());
    },
  });
});

// While nobody asks for it, and behind an answer.
test('a connection of gRPC that has ended by TLS alone is not used again', { ...options, skip: elsewhere || !signed }, async () => {
  const up = await answering({ key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) }), { connections, to } = up, self = await session(to.host);
  const once = async () => {
    const one = call(self, to.host);
    one.stream.end(Buffer.from([0, 0, 0, 0, 0]));
    assert.deepEqual(await one.answer, { data: 0, status: 200, grpc: '0' });
  };
  for (let i = 0; i < 10; i++) {
    await once();
    const last = connections.at(-1), { calls } = last;
    last.socket.end(); // one that has just been made may not be kept
    await until(() => last.relay.outer.destroyed, 'the edge closes it');
    assert.equal(last.calls, calls);
  }
  await once();
  assert.equal(connections.length, 11);
  self.close();
  await up.close();
});
