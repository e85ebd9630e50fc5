// What an upstream answers is judged like what a client asks: it must be HTTP, it cannot steer the edge, and what goes before
// or behind an answer is not part of it.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame, headers } from '../support/h2raw.mjs';
import { ca, edge, endpoint, env, raw, tcpUpstream, through, until, upstream } from '../support/postern.mjs';

// An upstream that answers each request with the next of these, as they are; the last one again and again. No bodies are read.
async function scripted(...answers) {
  const seen = [];
  const up = await tcpUpstream((socket) => {
    let rest = '';
    socket.on('data', (part) => {
      rest += part.toString('latin1');
      for (let end; (end = rest.indexOf('\r\n\r\n')) >= 0; rest = rest.slice(end + 4)) {
        seen.push(rest.slice(0, end));
        const answer = answers[Math.min(seen.length, answers.length) - 1];
        if (typeof answer === 'function') answer(socket);
        else socket.write(Buffer.from(answer, 'latin1'));
      }
    });
  });
  return { ...up, seen };
}

const get = (host, path = '/', version = '1.1') => `GET ${path} HTTP/${version}\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const HINTS = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Secret: hint\r\nX-Accel-Redirect: /hint\r\nContent-Length: 7\r\n\r\n';

async function overHttp2(host, path = '/') {
  const session = http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca, maxHeaderListPairs: 2000 });
  const request = session.request({ ':path': path, ':authority': host });
  const answer = { interim: [], body: '' };
  await new Promise((resolve, reject) => {
    session.on('error', reject);
    request.on('headers', (headers) => answer.interim.push(headers));
    request.on('response', (headers) => { answer.headers = headers; answer.status = headers[':status']; });
    request.on('data', (part) => { answer.body += part; });
    request.on('end', resolve);
    request.on('error', reject);
    request.end();
  });
  session.close();
  return answer;
}

// nginx writes these two itself, where nobody else has.
test('response_headers replaces server and date, and takes them away', async () => {
  const up = await scripted(OK.replace('\r\n\r\n', '\r\nServer: upstream\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n'));
  const lines = async (to, name) => (await raw(to.host, get(to.host))).split('\r\n\r\n')[0].split('\r\n').filter((line) => line.toLowerCase().startsWith(`${name}:`)).map((line) => line.slice(name.length + 2));
  const asIs = await endpoint(up.address);
  assert.deepEqual([(await lines(asIs, 'server')).length, (await lines(asIs, 'date')).length], [1, 1]);
  const replaced = await endpoint(up.address, { response_headers: { add: { Server: 'mine', Date: 'Fri, 02 Jan 1970 00:00:00 GMT' } } });
  assert.deepEqual([await lines(replaced, 'server'), await lines(replaced, 'date')], [['mine'], ['Fri, 02 Jan 1970 00:00:00 GMT']]);
  assert.deepEqual([(await overHttp2(replaced.host)).headers.server, (await overHttp2(replaced.host)).headers.date], ['mine', 'Fri, 02 Jan 1970 00:00:00 GMT']);
  const both = await endpoint(up.address, { response_headers: { remove: ['server', 'date'], add: { Server: 'mine' } } });
  assert.deepEqual([await lines(both, 'server'), await lines(both, 'date')], [['mine'], []]);
  const removed = await endpoint(up.address, { response_headers: { remove: ['Server', 'Date'] } });
  assert.deepEqual([await lines(removed, 'server'), await lines(removed, 'date')], [[], []]);
});

test('early hints go to the client and the answer behind them is the answer', { timeout: 280000 }, async () => {
  const up = await scripted(HINTS + HINTS.replace('a.css', 'b.css') + OK.replace('\r\n\r\n', '\r\nX-Secret: answer\r\n\r\n'));
  const to = await endpoint(up.address, { response_headers: { remove: ['x-secret'], add: { 'x-added': 'yes' } } });
  const text = await raw(to.host, get(to.host));

  const heads = text.split('\r\n\r\n');
  assert.match(heads[0], /^HTTP\/1\.1 103 ?\r\nLink: <\/a\.css>; rel=preload$/);
  assert.match(heads[1], /^HTTP\/1\.1 103 ?\r\nLink: <\/b\.css>; rel=preload$/);
  assert.match(heads[2], /^HTTP\/1\.1 200 OK\r\n/);
  assert.match(heads[2], /\r\nx-added: yes/i);
  assert.equal(heads[3], 'ok');
  assert.doesNotMatch(text, /secret|accel/i);

  const second = await overHttp2(to.host);
  assert.equal(second.status, 200);
  assert.equal(second.body, 'ok');
  assert.deepEqual(second.interim.map((one) => [one[':status'], one.link]), [[103, '</a.css>; rel=preload'], [103, '</b.css>; rel=preload']]);
  assert.deepEqual(Object.keys(second.interim[0]).filter((name) => !name.startsWith(':')), ['link']);
  assert.equal(second.headers['x-secret'], undefined);
  assert.equal(second.headers['x-added'], 'yes');
  await up.close();
});

test('early hints come before the answer is there', { timeout: 280000 }, async () => {
  let finish;
  const up = await scripted((socket) => { socket.write(HINTS); finish = () => socket.write(OK); });
  const to = await endpoint(up.address);
  const session = http2.connect(`https://${to.host}`, { host: edge.host, port: edge.port, servername: to.host, ca });
  const request = session.request({ ':path': '/', ':authority': to.host });
  await new Promise((resolve) => request.on('headers', resolve));
  finish();
  const status = await new Promise((resolve) => request.on('response', (headers) => resolve(headers[':status'])));
  assert.equal(status, 200);
  request.resume();
  await new Promise((resolve) => request.on('end', resolve));
  session.close();
  await up.close();
});

// The streams whose answers have ended, as they are read.
function answeredOn(socket) {
  const ended = new Set();
  let rest = Buffer.alloc(0);
  socket.on('data', (part) => {
    rest = Buffer.concat([rest, part]);
    for (let size; rest.length >= 9 && rest.length >= (size = 9 + rest.readUIntBE(0, 3)); rest = rest.subarray(size))
      if (rest[3] <= HEADERS && rest[4] & END_STREAM) ended.add(rest.readUInt32BE(5));
  });
  return ended;
}

test('hints to a client that reads nothing, resets its streams and reads again, or goes', { timeout: 280000 }, async () => {
  const hint = `HTTP/1.1 103 x\r\nLink: </${'x'.repeat(7900)}>\r\n\r\n`, sockets = [];
  const up = await scripted((socket) => { sockets.push(socket); socket.write(hint.repeat(7)); });
  const to = await endpoint(up.address);
  const request = (id) => frame(HEADERS, END_HEADERS | END_STREAM, id, headers([[':method', 'GET'], [':scheme', 'https'], [':authority', to.host], [':path', `/${id}`]]));
  const ids = Array.from({ length: 100 }, (_, i) => 2 * i + 1);

  for (const then of ['reads', 'goes']) {
    let ended = 0;
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] });
    await new Promise((resolve) => socket.once('secureConnect', resolve));
    socket.on('error', () => {});
    socket.pause();
    sockets.length = 0;
    socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0), ...ids.map(request)]));
    await until(() => sockets.length === ids.length, 'all are at the upstream');
    socket.write(Buffer.concat(ids.slice(0, 50).map((id) => frame(RST_STREAM, 0, id, Buffer.from([0, 0, 0, 8])))));
    for (const one of sockets) one.on('close', () => { ended++; });
    await until(() => ended >= 50, 'the streams that were reset are gone');
    if (then === 'reads') {
      for (const one of sockets) one.write(OK);
      const answered = answeredOn(socket); // a hint that would have to wait may be left out, an answer not
      socket.resume();
      await until(() => ids.slice(50).every((id) => answered.has(id)), 'the answers of those that were not reset');
    }
    socket.destroy();
    await until(() => ended >= ids.length || then === 'reads', 'the others are gone, too');
  }
  await up.close();
});

test('answers that come while a hint waits for its client are whole', { timeout: 280000 }, async () => {
  const hint = `HTTP/1.1 103 x\r\nLink: </${'x'.repeat(7900)}>\r\n\r\n`, sockets = [];
  const up = await scripted((socket) => { sockets.push(socket); socket.write(hint.repeat(7)); });
  const to = await endpoint(up.address);
  const ids = Array.from({ length: 100 }, (_, i) => 2 * i + 1);
  let closed = false;

  const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] });
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  socket.on('error', () => {});
  socket.on('close', () => { closed = true; });
  socket.pause();
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0),
    ...ids.map((id) => frame(HEADERS, END_HEADERS | END_STREAM, id, headers([[':method', 'GET'], [':scheme', 'https'], [':authority', to.host], [':path', `/${id}`]])))]));
  await until(() => sockets.length === ids.length, 'all are at the upstream');
  for (const one of sockets) one.write(OK);
  await new Promise((resolve) => setTimeout(resolve, 1000)); // for the edge to take them, which nothing tells: sooner, less is tried
  const ended = answeredOn(socket);
  socket.resume();
  await until(() => ended.size === ids.length || closed, 'the ends of all answers');
  assert.equal(ended.size, ids.length);
  socket.destroy();
  await up.close();
});

test('what is of the connection to the upstream ends there', { timeout: 280000 }, async () => {
  const up = await scripted(`HTTP/1.1 200 OK\r\nX-Before: 1\r\nConnection: Upgrade, X-Hop ,x-other\r\nUpgrade: h2,h2c\r\nx-hop: a\r\nX-Hopper: 2\r\nKeep-Alive: timeout=5\r\n` +
    `Proxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X-T\r\nConnection: X-More, Content-Length\r\nX-OTHER: b\r\nX-More: c\r\nSet-Cookie: 3\r\nContent-Length: 2\r\n\r\nok`);
  const to = await endpoint(up.address);
  const names = (headers) => headers.filter((name) => !/^(date|server|content-length|connection|postern-request-id)$|^:/.test(name)).sort();
  const kept = ['set-cookie', 'x-before', 'x-hopper'];

  const second = await overHttp2(to.host);
  assert.equal(second.status, 200);
  assert.equal(second.body, 'ok');
  assert.deepEqual(names(Object.keys(second.headers)), kept);
  for (const version of ['1.0', '1.1']) {
    const [head, body] = (await raw(to.host, get(to.host, '/', version))).split('\r\n\r\n');
    assert.equal(body, 'ok');
    assert.deepEqual(names(head.split('\r\n').slice(1).map((line) => line.split(':')[0].toLowerCase())), kept);
  }
  await up.close();

  const many = await scripted(OK.replace('\r\n\r\n', `\r\nConnection: ${'x,'.repeat(33)}\r\n\r\n`));
  assert.equal((await through((await endpoint(many.address)).host)).status, 502);
  await many.close();
});

test('an answer of 1xx goes no further where the protocol or the hop has none', { timeout: 280000 }, async () => {
  const up = await scripted(`${HINTS}HTTP/1.1 100 Continue\r\n\r\n${OK}`, `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 104 x\r\nConnection: x-a\r\nX-A: b\r\n\r\n${OK}`);
  const to = await endpoint(up.address);

  const old = await raw(to.host, get(to.host, '/', '1.0'));
  assert.match(old, /^HTTP\/1\.1 200 OK\r\n/);
  assert.doesNotMatch(old, /HTTP\/1\.1 1/);
  assert.match(old, /\r\n\r\nok$/);
  const text = await raw(to.host, get(to.host));
  assert.match(text, /^HTTP\/1\.1 200 OK\r\n/);
  assert.match(text, /\r\n\r\nok$/);
  await up.close();
});

test('answers of 1xx without end keep no worker busy', { timeout: 280000 }, async () => {
  const up = await scripted((socket) => {
    const flood = () => { while (!socket.destroyed && socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(500))); };
    socket.on('drain', flood);
    flood();
  });
  const to = await endpoint(up.address);
  assert.match(await raw(to.host, get(to.host), { wait: 10000 }), /HTTP\/1\.1 502 /);
  assert.equal((await overHttp2(to.host)).status, 502);
  await up.close();
});

test('101 is for who asked for it', { timeout: 280000 }, async () => {
  const up = await scripted((socket) => socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nraw bytes')); // then the client's connection ends by itself
  const to = await endpoint(up.address);
  assert.equal((await through(to.host)).status, 502);
  assert.equal((await through(to.host, '/', { headers: { Connection: 'Upgrade', Upgrade: 'h2c' } })).status, 502);
  // Upgrade that Connection does not name, of HTTP/1.0, or with another method asks for nothing (RFC 9110 7.8)
  for (const asked of ['GET / HTTP/1.1\r\nUpgrade: websocket', 'GET / HTTP/1.1\r\nConnection: keep-alive\r\nUpgrade: websocket',
    'GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket', 'POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0']) {
    assert.match(await raw(to.host, `${asked}\r\nHost: ${to.host}\r\n\r\n`), /^HTTP\/1\.1 502 /, asked);
    assert.doesNotMatch(up.seen.at(-1), /upgrade/i, asked);
  }
  const text = await raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n`);
  assert.match(text, /^HTTP\/1\.1 101 [^]*\r\n\r\nraw bytes$/);
  await up.close();
});

test('101 is to what was asked for, and nothing else', { timeout: 280000 }, async () => {
  for (const upgrade of ['', 'Upgrade: h2c\r\n', 'Upgrade: websocket, h2c\r\n', 'Upgrade: h2c\r\nUpgrade: websocket\r\n', 'Upgrade: websocket\r\nUpgrade: websocket\r\n']) {
    const up = await scripted(`HTTP/1.1 101 x\r\nConnection: upgrade\r\n${upgrade}\r\nraw bytes`);
    const to = await endpoint(up.address);
    const text = await raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    assert.match(text, /^HTTP\/1\.1 502 /, upgrade);
    assert.doesNotMatch(text, /raw bytes/);
    await up.close();
  }
});

test('an answer without a body says nothing of one, and what comes behind it is nobody\'s', { timeout: 280000 }, async () => {
  const evil = 'HTTP/1.1 200 OK\r\nX-Whose: of nobody\r\nContent-Length: 4\r\n\r\nevil';
  for (const fields of ['Content-Length: 42\r\n', 'Content-Length: 0\r\n', 'Transfer-Encoding: chunked\r\n', '']) {
    const up = await scripted(`HTTP/1.1 204 x\r\nX-A: b\r\n${fields}\r\n`);
    const to = await endpoint(up.address);
    const text = await raw(to.host, get(to.host));
    assert.match(text, /^HTTP\/1\.1 204 x\r\n[^]*\r\n\r\n$/);
    assert.match(text, /\r\nX-A: b\r\n/);
    assert.doesNotMatch(text, /content-length|transfer-encoding/i, fields);
    const second = await overHttp2(to.host);
    assert.deepEqual([second.status, second.headers['content-length'], second.body], [204, undefined, '']);
    await up.close();
  }
  // of a length that was said the bytes may come when the next request is on its way
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  for (const fields of ['Content-Length: 60\r\n', 'Transfer-Encoding: chunked\r\n']) {
    let first;
    const up = await scripted((socket) => { first = socket; socket.write(`HTTP/1.1 204 x\r\n${fields}\r\n`); },
      (socket) => (socket === first ? socket.write(evil) : socket.write(OK)));
    const to = await endpoint(up.address);
    assert.equal((await through(to.host, '/', { agent })).status, 204);
    assert.equal((await through(to.host, '/', { agent })).body, 'ok');
    await up.close();
  }
  agent.destroy();
});

test('what an upstream says in X-Accel headers has no effect and goes no further', { timeout: 280000 }, async () => {
  const accel = { 'X-Accel-Redirect': '/other', 'X-Accel-Expires': '60', 'X-Accel-Limit-Rate': '1', 'X-Accel-Buffering': 'yes', 'X-Accel-Charset': 'x-evil', 'Content-Type': 'text/plain' };
  const up = await upstream((request, response) => { response.writeHead(200, accel); response.end('a'.repeat(5000)); });
  const to = await endpoint(up.address);
  const answer = await through(to.host, '/first', { headers: { Cookie: 'a=b' } });

  assert.equal(answer.status, 200);
  assert.equal(answer.body.length, 5000);
  assert.equal(answer.headers['content-type'], 'text/plain');
  assert.deepEqual(Object.keys(answer.headers).filter((name) => /accel/.test(name)), []);
  assert.deepEqual(up.seen.map((one) => one.url), ['/first'], 'asked once');
  await up.close();
});

test('a Location that names what the edge calls its upstreams is nobody else\'s', { timeout: 280000 }, async () => {
  const up = await upstream((request, response) => { response.writeHead(302, { Location: 'http://postern/x' }); response.end(); });
  const to = await endpoint(up.address);
  assert.equal((await through(to.host)).headers.location, 'http://postern/x');
  await up.close();
});

test('a response header may be 64 KB', { timeout: 280000 }, async () => {
  const cookies = (bytes) => Array.from({ length: Math.ceil(bytes / 200) }, (_, i) => `c${String(i).padStart(4, '0')}=${'v'.repeat(200 - 20)}`);
  let bytes = 0;
  const up = await upstream((request, response) => { response.writeHead(200, { 'Set-Cookie': cookies(bytes) }); response.end('x'.repeat(20000)); });
  const to = await endpoint(up.address);

  for (bytes of [3000, 4096, 8000, 30000, 60000]) {
    const answer = await through(to.host, '/', { tls: { maxHeaderSize: 1 << 20 } });
    assert.equal(answer.status, 200, `${bytes} bytes`);
    assert.deepEqual(answer.headers['set-cookie'], cookies(bytes));
    assert.equal(answer.body.length, 20000);
    const second = await overHttp2(to.host);
    assert.deepEqual(second.headers['set-cookie'], cookies(bytes));
    assert.equal(second.body.length, 20000);
  }
  bytes = 70000;
  assert.equal((await through(to.host)).status, 502);
  bytes = 100;
  assert.equal((await through(to.host)).status, 200);
  await up.close();
});

test('a head may come byte by byte', { timeout: 280000 }, async () => {
  const up = await scripted(async (socket) => {
    socket.setNoDelay(true);
    for (const byte of `${HINTS}HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(300)}\r\nContent-Length: 2\r\n\r\nok`) {
      socket.write(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  const to = await endpoint(up.address);
  const answer = await through(to.host);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers['x-long'].length, 300);
  assert.equal(answer.body, 'ok');
  await up.close();
});

const broken = {
  'status 000': 'HTTP/1.1 000 x\r\nContent-Length: 2\r\n\r\nok',
  'status 001': 'HTTP/1.1 001 x\r\nContent-Length: 2\r\n\r\nok',
  'status 099': 'HTTP/1.1 099 x\r\nContent-Length: 2\r\n\r\nok',
  'status 600': 'HTTP/1.1 600 x\r\nContent-Length: 2\r\n\r\nok',
  'status 999': 'HTTP/1.1 999 x\r\nContent-Length: 2\r\n\r\nok',
  'a status of four digits': 'HTTP/1.1 2000 x\r\nContent-Length: 2\r\n\r\nok',
  'a status with spaces in it': 'HTTP/1.1 2 0 0 x\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/2.0': 'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'no status line': 'hello\r\n',
  'two different lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!',
  'the same length twice': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok',
  'a length with a list': 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok',
  'a length that is negative': 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok',
  'a length of 20 digits': 'HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\nok',
  'a length and chunks': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'chunks and a length': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'gzip before chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'gzip in a field of its own': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'a name that begins like chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunkedx\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'a name with a space': 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok',
  'a name that is no token': 'HTTP/1.1 200 OK\r\nA(b): c\r\nContent-Length: 2\r\n\r\nok',
  'a line without a colon': 'HTTP/1.1 200 OK\r\nabc\r\nContent-Length: 2\r\n\r\nok',
  'a folded field': 'HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok',
  'NUL in a field': 'HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 2\r\n\r\nok',
  'a control character in a field': 'HTTP/1.1 200 OK\r\nX-A: b\x01c\r\nContent-Length: 2\r\n\r\nok',
  'DEL in a field': 'HTTP/1.1 200 OK\r\nSet-Cookie: a=\x7f\r\nContent-Length: 2\r\n\r\nok',
  'a vertical tab around a value': 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\x0b\r\nContent-Length: 2\r\n\r\nok',
  'a control character in the reason': 'HTTP/1.1 200 O\x1bK\r\nContent-Length: 2\r\n\r\nok',
  'a control character in early hints': 'HTTP/1.1 103 x\r\nLink: \x02\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'CR in a field': 'HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 2\r\n\r\nok',
};
for (const [what, bytes] of Object.entries(broken))
  test(`an answer that is no HTTP is 502: ${what}`, { timeout: 280000 }, async () => {
    const up = await scripted(bytes, OK);
    const to = await endpoint(up.address);
    const answer = await through(to.host);
    assert.equal(answer.status, 502);
    assert.equal(JSON.parse(answer.body).error_code, 'ERR_POSTERN_904');
    assert.equal((await through(to.host)).body, 'ok', 'and the next is its own');
    await up.close();
  });

const fine = {
  'without a reason': ['HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok', 'ok'],
  'of HTTP/1.0': ['HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', 'ok'],
  'with line feeds alone': ['HTTP/1.1 200 OK\nContent-Length: 2\n\nok', 'ok'],
  'with a tab and bytes of other alphabets in a field': ['HTTP/1.1 200 OK\r\nX-A: b\tc \xe9\xff\r\nContent-Length: 2\r\n\r\nok', 'ok'],
  'with Chunked in capitals': ['HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n', 'ok'],
};
for (const [what, [bytes, body]] of Object.entries(fine))
  test(`an answer is let through: ${what}`, { timeout: 280000 }, async () => {
    const up = await scripted(bytes);
    const to = await endpoint(up.address);
    const answer = await through(to.host);
    assert.equal(answer.status, 200);
    assert.equal(answer.body, body);
    await up.close();
  });

test('a kept connection that ends within a head is no answer, and the one after it is judged, too', { timeout: 280000 }, async () => {
  for (const part of ['', 'HTTP/1.1 200 OK\r\nX-Cut: ', `HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(9000)}`, `${HINTS}HTTP/1.1 2`]) {
    const up = await scripted(OK, (socket) => socket.end(part), HINTS + OK, (socket) => socket.end(part), 'HTTP/1.1 999 x\r\n\r\n');
    const to = await endpoint(up.address);
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 }), answers = [];   // one worker
    for (let i = 0; i < 3; i++) answers.push(await through(to.host, '/', { agent }));
    assert.deepEqual(answers.map((one) => one.status), [200, 200, 502]);
    assert.deepEqual(answers.slice(0, 2).map((one) => one.body), ['ok', 'ok']);
    assert.equal(up.seen.length, 5, 'asked again on a new connection, twice');
    agent.destroy();
    assert.ok(!answers.some((one) => one.headers['x-cut'] !== undefined || one.headers['x-long'] !== undefined));
    await up.close();
  }
});

test('what ends with a kept connection is asked again where its method may be, and no method that nobody knows', { timeout: 280000 }, async () => {
  for (const [method, again] of [['GET', true], ['PUT', true], ['DELETE', true], ['PROPFIND', true], ['POST', false], ['PATCH', false], ['LOCK', false], ['FOO', false], ['QUERY', false]]) {
    const up = await scripted(OK, (socket) => socket.end(), OK), to = await endpoint(up.address);
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 }); // one worker
    assert.equal((await through(to.host, '/', { agent })).status, 200);
    assert.equal((await through(to.host, '/', { method, agent })).status, again ? 200 : 502, method);
    assert.equal(up.seen.length, again ? 3 : 2, method);
    agent.destroy();
    await up.close();
  }
});

test('bytes behind an answer without a body are no answer to the next request', { timeout: 280000 }, async () => {
  const evil = 'HTTP/1.1 200 OK\r\nX-Whose: of nobody\r\nContent-Length: 4\r\n\r\nevil';
  for (const [method, head] of [['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n'], ['GET', 'HTTP/1.1 204 x\r\n\r\n'], ['GET', 'HTTP/1.1 304 x\r\n\r\n'], ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n']]) {
    // the first bytes of what does not belong to it come with the head, so the rest of them must not be waited for
    const up = await scripted((socket) => { socket.write(head + evil.slice(0, 5)); setTimeout(() => socket.write(evil.slice(5)), 50).unref(); }, OK);
    const to = await endpoint(up.address);
    await through(to.host, '/', { method });
    const connections = new Promise((resolve) => up.server.getConnections((error, n) => resolve(n)));
    assert.equal((await through(to.host)).body, 'ok', `${method} ${head}`);
    assert.ok(await connections <= 1);
    await up.close();
  }
});

// An upstream that does not know HEAD sends the body, too, by a second call: a moment later, when the connection would be the next visitor's.
test('a connection on which a body may come behind an answer that has none is not used again', { timeout: 280000 }, async () => {
  const heads = [
    ['HEAD', '200 OK\r\nContent-Length: 90', false], ['HEAD', '404 x\r\nContent-Length: 1', false], ['HEAD', '200 OK\r\nTransfer-Encoding: chunked', false], ['GET', '304 x\r\nContent-Length: 90', false],
    ['GET', '304 x\r\nTransfer-Encoding: chunked', false], ['GET', '204 x\r\nContent-Length: 1', false],
    ['HEAD', '200 OK', true], ['HEAD', '200 OK\r\nContent-Length: 0', true], ['GET', '304 x', true], ['GET', '204 x', true], ['GET', '200 OK\r\nContent-Length: 0', true],
  ];
  for (const [method, head, again] of heads) {
    const seen = [], up = await tcpUpstream((socket) => socket.on('data', () => { seen.push(socket); socket.write(seen.length === 1 ? `HTTP/1.1 ${head}\r\n\r\n` : OK); })), to = await endpoint(up.address);
    const text = await raw(to.host, `${method} / HTTP/1.1\r\nHost: ${to.host}\r\n\r\nGET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close\r\n\r\n`); // one worker
    assert.match(text, /\r\n\r\nok$/);
    assert.equal(seen.length, 2);
    assert.equal(seen[0] === seen[1], again, `${method}: ${head}`);
    await up.close();
  }
});

// Who does not read a body takes it for the next request: somebody's choice of what the next client is answered.
test('a connection that may hold an unread body is not used again', { timeout: 280000 }, async () => {
  const sockets = [], up = await upstream((request, response) => { sockets.push(request.socket); response.statusCode = Number(request.url.slice(1)); response.end(); }), to = await endpoint(up.address);
  const read = [['POST', 200], ['POST', 201], ['PUT', 204], ['PATCH', 200], ['PROPFIND', 207], ['LOCK', 200]];
  const unread = [['GET', 200], ['DELETE', 200], ['OPTIONS', 200], ['PURGE', 200], ['SEARCH', 200], ['POST', 301], ['POST', 405], ['PUT', 404], ['PATCH', 500], ['PROPFIND', 404]];
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });   // one worker
  for (const [method, status] of [...read, ...unread]) {
    for (const headers of [{ 'Content-Length': 4 }, { 'Transfer-Encoding': 'chunked' }]) {
      assert.equal((await through(to.host, `/${status}`, { agent, method, headers, body: 'body' })).status, status);
      assert.equal((await through(to.host, '/200', { agent })).status, 200);
      const [one, next] = sockets.splice(0);
      assert.equal(one === next, read.some((each) => each[0] === method && each[1] === status), `${method} ${status} ${Object.keys(headers)}`);
    }
  }
  agent.destroy();
  await up.close();
});

test('after all that the edge still serves', { timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'alive' });
  assert.equal((await through(to.host)).body, 'alive');
});

// curl 7.88, which Debian 12 has, loses an answer over HTTP/2 where the end of the stream that it is still writing to comes in the same read.
test('curl has the answer to a POST that nobody reads', { timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'answered' }), denied = await endpoint({ body: 'x' }, { user_agent_filter: { allow: [], deny: ['curl'] } });
  for (const { host, status } of [{ ...to, status: 200 }, { ...denied, status: 403 }]) {
    const codes = await Promise.all(Array.from({ length: 40 }, () => new Promise((resolve) => {
      execFile('curl', ['-s', '--http2', '--cacert', env.POSTERN_EDGE_CA, '--connect-to', `::${edge.host}:${edge.port}`, '-o', '/dev/null', '-w', '%{http_version} %{http_code}', '-d', 'a=b', `https://${host}:${edge.port}/`], (error, stdout) => resolve(stdout));
    })));
    assert.deepEqual([...new Set(codes)], [`2 ${status}`]);
  }
});
