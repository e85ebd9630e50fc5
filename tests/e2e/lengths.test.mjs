// Events say what went over the wire: lengths of bodies, whole or broken off, and headers as they were sent.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, frame, headers } from '../support/h2raw.mjs';
import { ca, edge, elsewhere, endpoint, listening, must, raw, tcpUpstream, through, until, upstream } from '../support/postern.mjs';

const sub = await listening('http_request_complete');
const eventOf = (host, path) => until(() => sub.events.find((event) => event.object.http.request.url.host === host && event.object.http.request.url.path === path)?.object.http, `the event of ${host}${path}`);

// A connection whose bytes the story reads itself.
async function connect(host, protocols) {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: protocols });
  await new Promise((resolve, reject) => { socket.once('secureConnect', resolve); socket.once('error', reject); });
  socket.on('error', () => {});
  return socket;
}

function overHttp2(host, pseudo, body) {
  const session = http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca });
  const request = session.request({ ':authority': host, ...pseudo }, { endStream: body === undefined });
  return new Promise((resolve, reject) => {
    let length = 0, got;
    session.on('error', reject);
    request.on('error', reject);
    request.on('response', (head) => { got = head; });
    request.on('data', (part) => { length += part.length; });
    request.on('end', () => { session.close(); resolve({ status: got[':status'], headers: got, length }); });
    if (body !== undefined) {
      for (let at = 0; at < body.length; at += 10000) request.write(body.subarray(at, at + 10000));
      request.end();
    }
  });
}

const up = await upstream((request, response) => {
  if (request.url === '/204') return response.writeHead(204).end();
  if (request.url === '/length') return response.writeHead(200, { 'Content-Length': 100000 }).end('x'.repeat(100000));
  response.writeHead(200, { 'X-One': '1' });
  for (let i = 0; i < 10; i++) response.write('x'.repeat(10000));
  response.end();
});
const to = await endpoint(up.address);

test('a body in chunks has the length of what is in the chunks, over either protocol', { skip: elsewhere, timeout: 280000 }, async () => {
  assert.equal((await overHttp2(to.host, { ':path': '/chunks2' })).length, 100000);
  assert.equal((await eventOf(to.host, '/chunks2')).response.body_length, 100000);
  assert.equal((await through(to.host, '/chunks1')).body.length, 100000);
  assert.equal((await eventOf(to.host, '/chunks1')).response.body_length, 100000);
});

test('a body with a length, none, and the one that HEAD did not ask for', { skip: elsewhere, timeout: 280000 }, async () => {
  await overHttp2(to.host, { ':path': '/length' });
  assert.equal((await eventOf(to.host, '/length')).response.body_length, 100000);
  await through(to.host, '/204');
  assert.equal((await eventOf(to.host, '/204')).response.body_length, 0);
  for (const path of ['/head1', '/head2']) {
    if (path === '/head1') await through(to.host, path, { method: 'HEAD' });
    else await overHttp2(to.host, { ':path': path, ':method': 'HEAD' });
    assert.equal((await eventOf(to.host, path)).response.body_length, 0);
  }
});

test('an upload in chunks, over either protocol', { skip: elsewhere, timeout: 280000 }, async () => {
  const body = Buffer.alloc(123456, 'y');
  await through(to.host, '/up1', { method: 'POST', body, headers: { 'Transfer-Encoding': 'chunked' } });
  assert.equal((await eventOf(to.host, '/up1')).request.body_length, body.length);
  await overHttp2(to.host, { ':path': '/up2', ':method': 'POST' }, body);
  assert.equal((await eventOf(to.host, '/up2')).request.body_length, body.length);
  assert.equal(up.seen.find((one) => one.url === '/up2').body.length, body.length);
});

test('an upload that the edge answers itself', { skip: elsewhere, timeout: 280000 }, async () => {
  const page = await endpoint({ body: 'no' });
  await through(page.host, '/thrown1', { method: 'POST', body: 'z'.repeat(30000) });
  assert.equal((await eventOf(page.host, '/thrown1')).request.body_length, 30000);
});

test('a download that the client breaks off is as long as what was sent', { skip: elsewhere, timeout: 280000 }, async () => {
  const large = await upstream((request, response) => {
    response.writeHead(200, { 'Content-Length': 30000000 });
    const more = () => { while (!response.destroyed && response.write(Buffer.alloc(65536))); };
    response.on('drain', more);
    more();
  });
  const there = await endpoint(large.address);

  // HTTP/2: never more than the window of 65,535 bytes that the client opens
  const h2 = await connect(there.host, ['h2']);
  let got = Buffer.alloc(0), data = 0;
  h2.on('data', (part) => {
    got = Buffer.concat([got, part]);
    while (got.length >= 9 && got.length >= 9 + got.readUIntBE(0, 3)) {
      if (got[3] === DATA) data += got.readUIntBE(0, 3);
      got = got.subarray(9 + got.readUIntBE(0, 3));
    }
  });
  h2.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0),
    frame(HEADERS, END_HEADERS | 1, 1, headers([[':method', 'GET'], [':scheme', 'https'], [':authority', there.host], [':path', '/two']]))]));
  await until(() => data === 65535, 'the window is full');
  h2.destroy();
  assert.equal((await eventOf(there.host, '/two')).response.body_length, 65535);

  const h1 = await connect(there.host, ['http/1.1']);
  let seen = 0;
  h1.on('data', (part) => { seen += part.length; if (seen > 300000) h1.pause(); });
  h1.write(`GET /one HTTP/1.1\r\nHost: ${there.host}\r\n\r\n`);
  await until(() => seen > 300000, 'some of it came');
  h1.destroy();
  const { body_length: length } = (await eventOf(there.host, '/one')).response;
  assert.ok(length > 290000 && length < 30000000, String(length));
  await large.close();
});

test('a download that the upstream breaks off', { skip: elsewhere, timeout: 280000 }, async () => {
  const dying = await tcpUpstream((socket) => socket.on('data', (part) => {
    const chunked = part.includes('/chunks');
    socket.end(chunked ? 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n' + 'x'.repeat(500)
      : 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n' + 'x'.repeat(500));
  }));
  const there = await endpoint(dying.address);
  for (const path of ['/length', '/chunks']) {
    await through(there.host, `${path}1`).catch(() => {});
    assert.equal((await eventOf(there.host, `${path}1`)).response.body_length, 500, `${path}1`);
    await overHttp2(there.host, { ':path': `${path}2` }).catch(() => {});
    assert.equal((await eventOf(there.host, `${path}2`)).response.body_length, 500, `${path}2`);
  }
  await dying.close();
});

test('an upload that breaks off is as long as what came', { skip: elsewhere, timeout: 280000 }, async () => {
  const waiting = await tcpUpstream((socket) => socket.on('data', () => {}));
  const there = await endpoint(waiting.address);
  let arrived = 0;
  waiting.server.on('connection', (socket) => socket.on('data', (part) => { arrived += part.length; }));

  const h1 = await connect(there.host, ['http/1.1']);
  h1.write(`POST /one HTTP/1.1\r\nHost: ${there.host}\r\nContent-Length: 6000000000\r\n\r\n${'y'.repeat(20000)}`);
  await until(() => arrived >= 20000, 'what came went on');
  h1.destroy();
  assert.equal((await eventOf(there.host, '/one')).request.body_length, 20000);

  arrived = 0;
  const h2 = await connect(there.host, ['h2']);
  h2.on('data', () => {});
  h2.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0),
    frame(HEADERS, END_HEADERS, 1, headers([[':method', 'POST'], [':scheme', 'https'], [':authority', there.host], [':path', '/two'], ['content-length', '6000000000']])),
    frame(DATA, 0, 1, Buffer.alloc(10000)), frame(DATA, 0, 1, Buffer.alloc(10000))]));
  await until(() => arrived >= 20000, 'what came went on');
  h2.destroy();
  assert.equal((await eventOf(there.host, '/two')).request.body_length, 20000);
  await waiting.close();
});

// Frames of one write, and what becomes of the connection then.
async function uploads(host, path, frames, then) {
  const h2 = await connect(host, ['h2']);
  h2.on('data', () => {});
  h2.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0),
    frame(HEADERS, END_HEADERS, 1, headers([[':method', 'POST'], [':scheme', 'https'], [':authority', host], [':path', path]])), ...frames]));
  const event = then === 'goes' ? (h2.end(), await eventOf(host, path)) : await eventOf(host, path);
  h2.destroy();
  return event;
}
const cancel = frame(RST_STREAM, 0, 1, Buffer.from([0, 0, 0, 8])), goaway = frame(GOAWAY, 0, 0, Buffer.alloc(8));
for (const [what, frames, then] of [['reset', [cancel]], ['goaway', [goaway], 'goes'], ['lost', [], 'goes']])
  test(`an upload over HTTP/2 that breaks off before anybody took what came: ${what}`, { skip: elsewhere, timeout: 280000 }, async () => {
    const waiting = await tcpUpstream((socket) => socket.on('data', () => {}));
    const there = await endpoint(waiting.address);
    assert.equal((await uploads(there.host, `/${what}`, [frame(DATA, 0, 1, Buffer.alloc(3000)), ...frames], then)).request.body_length, 3000);
    assert.equal((await uploads(there.host, `/${what}2`, [frame(DATA, 0, 1, Buffer.alloc(12000)), frame(DATA, 0, 1, Buffer.alloc(5)), ...frames], then)).request.body_length, 12005);
    await waiting.close();
  });

test('an upload over HTTP/2 that the edge answers itself', { skip: elsewhere, timeout: 280000 }, async () => {
  const page = await endpoint({ body: 'no' }, { match: '/page' });
  for (const path of ['/page', '/nowhere']) {
    const event = await uploads(page.host, path, [frame(DATA, 0, 1, Buffer.alloc(1500)), frame(DATA, END_STREAM, 1, Buffer.alloc(500))]);
    assert.equal(event.response.status_code, path === '/page' ? 200 : 404);
    assert.equal(event.request.body_length, 2000, path);
    const broken = await uploads(page.host, `${path}/reset`, [frame(DATA, 0, 1, Buffer.alloc(1500)), cancel]);
    assert.equal(broken.request.body_length, 1500, path);
  }
});

test('an upload in chunks that the edge answers itself, and the next request of the connection', { skip: elsewhere, timeout: 280000 }, async () => {
  const page = await endpoint({ body: 'no' }, { match: '/page' });
  const post = (path, body) => `POST ${path} HTTP/1.1\r\nHost: ${page.host}\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
  const chunks = `3e8;a=b\r\n${'x'.repeat(1000)}\r\n1\r\ny\r\n0\r\nX-Trailer: t\r\n\r\n`;
  const text = await raw(page.host, post('/page/one', chunks) + post('/nowhere', chunks) + `GET /page/two HTTP/1.1\r\nHost: ${page.host}\r\nConnection: close\r\n\r\n`);
  assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200']);
  for (const path of ['/page/one', '/nowhere']) assert.equal((await eventOf(page.host, path)).request.body_length, 1001, path);
  assert.equal((await eventOf(page.host, '/page/two')).request.body_length, 0);

  // in pieces that come after the answer, with a chunk's end between them; the last chunk never comes
  for (const path of ['/page/slow', '/nowhere/slow']) {
    const socket = await connect(page.host, ['http/1.1']);
    let got = '';
    socket.on('data', (part) => { got += part; });
    socket.write(post(path, `400\r\n${'x'.repeat(24)}`));
    await until(() => got.includes('\r\n\r\n'), 'the answer');
    socket.write(`${'x'.repeat(1000)}\r\n1`);
    socket.write(`0\r\n${'y'.repeat(10)}`);
    socket.end();
    assert.equal((await eventOf(page.host, path)).request.body_length, 1024 + 10, path);
  }
  // another request of a connection whose body came behind its answer
  const socket = await connect(page.host, ['http/1.1']);
  let got = '';
  socket.on('data', (part) => { got += part; });
  socket.write(post('/page/late', '5\r\nab'));
  await until(() => got.includes('\r\n\r\n'), 'the answer');
  socket.write(`cde\r\n0\r\n\r\n${post('/page/after', chunks)}`);
  assert.equal((await eventOf(page.host, '/page/late')).request.body_length, 5);
  assert.equal((await eventOf(page.host, '/page/after')).request.body_length, 1001);
  socket.destroy();
});

test('what went over a WebSocket is counted behind the 101', { skip: elsewhere, timeout: 280000 }, async () => {
  const ws = await tcpUpstream((socket) => socket.once('data', () => socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n12345')));
  const there = await endpoint(ws.address);
  const text = await raw(there.host, `GET /ws HTTP/1.1\r\nHost: ${there.host}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`);
  assert.match(text, /\r\n\r\n12345$/);
  const { response } = await eventOf(there.host, '/ws');
  assert.equal(response.body_length, 5);
  assert.deepEqual(response.headers.Connection, ['upgrade']);
  await ws.close();
});

test('bytes of early hints are not those of the body', { skip: elsewhere, timeout: 280000 }, async () => {
  const hints = await tcpUpstream((socket) => socket.on('data', () => socket.write('HTTP/1.1 103 x\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour')));
  const there = await endpoint(hints.address);
  await through(there.host, '/one');
  assert.equal((await eventOf(there.host, '/one')).response.body_length, 4);
  await overHttp2(there.host, { ':path': '/two' });
  assert.equal((await eventOf(there.host, '/two')).response.body_length, 4);
  await hints.close();
});

// {name: [values in lower case]} with names like X-One, as events have them.
const asInEvent = (pairs) => {
  const all = {};
  for (const [name, value] of pairs)
    (all[name.toLowerCase().replace(/(^|-)[a-z]/g, (c) => c.toUpperCase())] ??= []).push(String(value).toLowerCase());
  return all;
};

test('the headers of an answer are those that the client got', { skip: elsewhere, timeout: 280000 }, async () => {
  const page = await endpoint({ body: 'page', headers: { 'x-of-the-page': 'Yes' } });
  for (const [host, path, own] of [[to.host, '/chunked', ''], [to.host, '/length', ''], [to.host, '/204', ''], [page.host, '/page', ''], [page.host, '/close', 'Connection: close\r\n']]) {
    const path1 = `${path}?1`;
    const text = await raw(host, `GET ${path1} HTTP/1.1\r\nHost: ${host}\r\n${own}\r\n`, { wait: 700 });
    const lines = text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n').slice(1).map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]);
    const event = await until(() => sub.events.find((one) => one.object.http.request.url.raw === `https://${host}${path1}`)?.object.http, 'its event');
    assert.deepEqual(event.response.headers, asInEvent(lines), path);
  }
  const second = await overHttp2(page.host, { ':path': '/h2' });
  assert.deepEqual((await eventOf(page.host, '/h2')).response.headers,
    asInEvent(Object.entries(second.headers).filter(([name]) => !name.startsWith(':'))));
});

test('headers that an event has no room for are counted in it', { skip: elsewhere, timeout: 280000 }, async () => {
  const many = await upstream((request, response) => { for (let i = 0; i < 150; i++) response.setHeader(`X-N-${i}`, 'v'); response.end(); });
  const there = await endpoint(many.address);
  const wide = await upstream((request, response) => { for (let i = 0; i < 10; i++) response.setHeader(`X-N-${i}`, 'v'.repeat(5000)); response.end(); });
  const other = await endpoint(wide.address);
  const count = (all) => Object.values(all).reduce((sum, values) => sum + values.length, 0);

  const answer = await through(there.host, '/many', { headers: Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`X-Q-${i}`, 'v'])) });
  const { request, response } = await eventOf(there.host, '/many');
  assert.equal(count(response.headers), 100);
  assert.equal(response.headers_left_out, answer.rawHeaders.length / 2 - 100);
  assert.equal(count(request.headers), 100);
  assert.equal(request.headers_left_out, 122 - 100);

  const got = await through(other.host, '/wide', { tls: { maxHeaderSize: 1 << 20 } });
  const event = await eventOf(other.host, '/wide');
  assert.equal(event.response.headers_left_out, got.rawHeaders.length / 2 - count(event.response.headers));
  assert.ok(event.response.headers_left_out > 0);
  assert.equal(event.request.headers_left_out, 0);
  await many.close();
  await wide.close();
});

test('a 100 that went before the answer is none of its body', { skip: elsewhere, timeout: 280000 }, async () => {
  const fixed = await endpoint({ body: '12345' });
  for (const [host, path, length] of [[fixed.host, '/fixed', 5], [to.host, '/length', 100000], [to.host, '/chunks100', 100000]]) {
    const got = await raw(host, `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n`);
    assert.match(got, /^HTTP\/1\.1 (100 Continue\r\n\r\nHTTP\/1\.1 )?200 /);
    const event = await until(() => sub.events.find((one) => one.object.http.request.url.path === path && one.object.http.request.method === 'post' && one.object.http.request.url.host === host)?.object.http, `the event of ${path}`);
    assert.equal(event.response.body_length, length, path);
    assert.equal(event.request.body_length, 3, path);
  }
});

test('cleanup', async () => {
  await sub.stop();
  await up.close();
});

// A certificate for localhost that the edge accepts of upstreams.
const signed = process.env.STORY_UPSTREAM_TLS;
const localhost = signed && { key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) };

// What stands behind the end of an answer is nobody's answer: also where the end and the buffer that it was read into fall together,
// and the rest of its TLS record is still to be decrypted.
for (const secure of [false, true])
  test(`bytes behind an answer are not the next one's, over ${secure ? 'TLS' : 'TCP'}`, { skip: elsewhere || (secure && !localhost), timeout: 280000 }, async () => {
    const BUFFER = 4095, LARGE = 65536, extra = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL');
    const filled = (total, head) => { // head and body have so many bytes
      for (let size = total; ; size--) {
        const text = head.replace('%', size);
        if (text.length + size === total) return Buffer.from(text + 'a'.repeat(size));
      }
    };
    const bare = (total, status, more = '') => { // a head alone of so many bytes
      const text = `HTTP/1.1 ${status}\r\n${more}X-Fill: `;
      return Buffer.from(`${text}${'a'.repeat(total - text.length - 4)}\r\n\r\n`);
    };
    const chunked = (total) => {
      const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', size = total - head.length - 12;
      return Buffer.from(`${head}${size.toString(16).padStart(3, '0')}\r\n${'a'.repeat(size)}\r\n0\r\n\r\n`);
    };
    const length = 'HTTP/1.1 200 OK\r\nContent-Length: %\r\n\r\n';
    const answers = {
      [`/length-${BUFFER - 1}`]: filled(BUFFER - 1, length), [`/length-${BUFFER}`]: filled(BUFFER, length), [`/length-${BUFFER + 1}`]: filled(BUFFER + 1, length),
      [`/length-${2 * BUFFER}`]: filled(2 * BUFFER, length), [`/length-${BUFFER + LARGE}`]: filled(BUFFER + LARGE, length),
      [`/length-${2 * LARGE}`]: filled(2 * LARGE, length), '/chunked': chunked(BUFFER), '/short': filled(100, length),
      '/none': bare(BUFFER, '200 OK', 'Content-Length: 0\r\n'), '/204': bare(BUFFER, '204 No Content'), '/304': bare(BUFFER, '304 Not Modified'), '/head': bare(BUFFER, '200 OK', 'Content-Length: 44\r\n'),
    };
    let connections = 0, behind = true;
    const serveOne = (socket) => {
      connections++;
      let text = '';
      socket.on('error', () => {}).on('data', (part) => {
        text += part.toString('latin1');
        for (let end; (end = text.indexOf('\r\n\r\n')) >= 0; text = text.slice(end + 4)) {
          const path = text.split(' ')[1];
          if (answers[path]) socket.write(behind ? Buffer.concat([answers[path], extra]) : answers[path]);
          else socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`);
        }
      });
    };
    const server = secure ? tls.createServer(localhost, serveOne) : net.createServer(serveOne);
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const to = await endpoint(await must('POST', '/backends/static', { address: `localhost:${server.address().port}`, tls: { enabled: secure } }));
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 }); // one connection: one worker
    let n = 0;
    for (const path of Object.keys(answers)) {
      for (let round = 0; round < 4; round++) {
        await through(to.host, path, { agent, method: path === '/head' ? 'HEAD' : 'GET' });
        for (let i = 0; i < 2; i++) {
          const own = `/own/${n++}`, got = await through(to.host, own, { agent });
          assert.deepEqual([got.status, got.body], [200, own], `behind ${path}`);
        }
      }
    }
    // without anything behind them all of these leave their connection for the next one
    behind = false;
    await through(to.host, '/own', { agent });
    const before = connections;
    for (const path of Object.keys(answers)) await through(to.host, path, { agent, method: path === '/head' ? 'HEAD' : 'GET' });
    assert.equal(connections, before);
    agent.destroy();
    server.close();
  });
