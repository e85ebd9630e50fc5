// gRPC: calls of a client go over HTTP/2 to a server, as one expects of every call, and as the edge promises for every request.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import { CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, headers } from '../support/h2raw.mjs';
import { ask, calling, follow, framing, grpc, serving } from '../support/grpc.mjs';
import { own } from '../support/own.mjs';
import { ca, edge, elsewhere, endpoint, env, listening, must, storyHost, tcpUpstream, through, until, upstream } from '../support/postern.mjs';

const { status: code } = grpc;
const sub = await listening('http_request_complete');
const eventsOf = (host) => sub.events.map(({ object }) => object).filter((object) => object.http.request.url.host === host);
const signed = process.env.STORY_UPSTREAM_TLS;
const localhost = signed && { key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) };
const secure = (port) => must('POST', '/backends/static', { address: `localhost:${port}`, tls: { enabled: true } });
const putModule = (to, module, document) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/${module}`, document);

// One request over HTTP/2 with whatever head: {status, headers, trailers, body, reset}. heard(what has come of the body) each time.
function request(host, head = {}, body = Buffer.from([0, 0, 0, 0, 0]), heard = () => {}) {
  return new Promise((resolve, reject) => {
    const session = http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca, maxHeaderListPairs: 3000 });
    const got = { body: '' };
    session.on('error', reject);
    const stream = session.request({ ':method': 'POST', ':authority': host, ':path': '/story.Story/Unary', 'content-type': 'application/grpc', te: 'trailers', ...head });
    stream.on('response', (answer) => { got.status = answer[':status']; got.headers = answer; });
    stream.on('trailers', (trailers) => { got.trailers = trailers; });
    stream.on('data', (part) => { got.body += part; heard(got.body); });
    stream.on('error', () => {});
    stream.on('close', () => { got.reset = stream.rstCode; session.close(); resolve(got); });
    stream.end(body);
  });
}

// ---- what a call is ----

for (const over of ['h2c', 'TLS'])
  test(`all four kinds of calls, over ${over} to the server`, { skip: over === 'TLS' && (elsewhere || !localhost) }, async () => {
    const server = await serving({}, over === 'TLS' ? localhost : undefined);
    const to = await endpoint(over === 'TLS' ? await secure(server.port) : server.address), client = calling(to.host);

    assert.deepEqual((await ask(client, { text: 'hello' })).message.text, 'hello');
    const upload = new Promise((resolve, reject) => {
      const call = client.upload((error, answer) => (error ? reject(error) : resolve(answer.number)));
      for (let i = 0; i < 100; i++) call.write({ data: Buffer.alloc(1000) });
      call.end();
    });
    assert.equal(await upload, 100000);
    const feed = follow(client.feed({ number: 100, data: Buffer.alloc(1000, 'x') }));
    await until(() => feed.status, 'the feed ends');
    assert.deepEqual([feed.status.code, feed.messages.length, feed.messages[99].number], [code.OK, 100, 99]);

    const talk = follow(client.talk()); // each message is answered before the next is sent: nothing waits in between
    for (let i = 0; i < 20; i++) {
      talk.call.write({ number: i });
      await until(() => talk.messages.length === i + 1, `answer ${i}`);
    }
    talk.call.end();
    await until(() => talk.status, 'the talk ends');
    assert.equal(talk.status.code, code.OK);
    client.close();
    server.close();
  });

test('a silent server is heard of when its head comes, and a client may listen only', async () => {
  const server = await serving({ talk: (call) => { call.sendMetadata(new grpc.Metadata()); call.on('data', () => {}); call.on('end', () => call.end()); } });
  const to = await endpoint(server.address), client = calling(to.host);
  const talk = follow(client.talk());
  await until(() => talk.head, 'the head comes alone');
  assert.equal(talk.messages.length, 0);
  talk.call.end();
  await until(() => talk.status, 'the end');
  client.close();
  server.close();
});

test('metadata goes both ways, status and trailers come back', async () => {
  const server = await serving({
    unary: (call, done) => {
      const head = new grpc.Metadata(), trailers = new grpc.Metadata();
      head.set('x-head', 'head');
      head.set('x-head-bin', Buffer.from([0, 255, 10]));
      trailers.set('x-trailer', 'trailer');
      trailers.set('x-trailer-bin', Buffer.from([1, 2, 3]));
      call.sendMetadata(head);
      if (call.request.number) done({ code: call.request.number, details: 'why not: äöü %', metadata: trailers });
      else done(null, call.request, trailers);
    },
  });
  const to = await endpoint(server.address), client = calling(to.host), metadata = new grpc.Metadata();
  metadata.set('x-mine', 'mine');
  metadata.set('x-mine-bin', Buffer.from([9, 0, 13]));

  const got = await ask(client, { text: 'a' }, { metadata });
  assert.equal(got.message.text, 'a');
  assert.deepEqual([got.head.get('x-head'), got.head.get('x-head-bin')], [['head'], [Buffer.from([0, 255, 10])]]);
  assert.deepEqual([got.status.metadata.get('x-trailer'), got.status.metadata.get('x-trailer-bin')], [['trailer'], [Buffer.from([1, 2, 3])]]);
  const [call] = server.calls;
  assert.deepEqual([call.metadata['x-mine'], call.metadata['x-mine-bin']], ['mine', Buffer.from([9, 0, 13])]);
  for (const number of [code.INVALID_ARGUMENT, code.UNAUTHENTICATED, code.DATA_LOSS]) {
    const refused = await ask(client, { number });
    assert.deepEqual([refused.error.code, refused.error.details, refused.error.metadata.get('x-trailer')], [number, 'why not: äöü %', ['trailer']]);
  }
  client.close();
  server.close();
});

test('a method that is not there: an answer of trailers only', async () => {
  const server = await serving(), to = await endpoint(server.address);
  const got = await request(to.host, { ':path': '/story.Story/Nothing' });
  assert.deepEqual([got.status, got.headers['grpc-status'], got.body, got.reset], [200, String(code.UNIMPLEMENTED), '', 0]);
  server.close();
});

test('messages of 20 MB, both ways', { timeout: 280000 }, async () => {
  const server = await serving(), to = await endpoint(server.address), client = calling(to.host);
  const data = Buffer.alloc(20 << 20, 'x');
  assert.ok((await ask(client, { data })).message.data.equals(data));
  client.close();
  server.close();
});

test('a deadline is known to the server, and ends the call there, too', async () => {
  const server = await serving({ unary: () => {} }), to = await endpoint(server.address), client = calling(to.host);
  for (let ms = 1000; !server.calls.length; ms *= 2) { // whoever is slow does not get there in a second
    const got = await ask(client, {}, { deadline: Date.now() + ms });
    assert.equal(got.error.code, code.DEADLINE_EXCEEDED);
  }
  const [one] = server.calls;
  const left = one.call.getDeadline() - Date.now();
  assert.ok(left < 1000, `${left}`);
  await until(() => one.cancelled, 'the server has heard of it');
  client.close();
  server.close();
});

test('a client that cancels is heard of at the server: before the head, in a stream, and by going away', async () => {
  const server = await serving({ unary: () => {} }), to = await endpoint(server.address), client = calling(to.host);
  const unary = client.unary({}, () => {});
  const talk = follow(client.talk());
  talk.call.write({ text: 'first' });
  await until(() => talk.messages.length === 1 && server.calls.length === 2, 'both are served');
  unary.cancel();
  talk.call.cancel();
  await until(() => server.calls.every((one) => one.cancelled), 'both are cancelled');
  const other = calling(to.host), gone = follow(other.talk());
  gone.call.write({ text: 'first' });
  await until(() => gone.messages.length === 1, 'served');
  other.close();
  gone.call.cancel();
  await until(() => server.calls[2].cancelled, 'cancelled');
  client.close();
  server.close();
});

test('a server that is killed in the middle of a stream', async () => {
  const server = await serving(), to = await endpoint(server.address), client = calling(to.host);
  const talk = follow(client.talk());
  talk.call.write({ text: 'first' });
  await until(() => talk.messages.length === 1, 'served');
  server.close();
  await until(() => talk.status, 'the client hears of it');
  assert.notEqual(talk.status.code, code.OK);
  assert.equal((await ask(client, {})).error.code, code.UNAVAILABLE);
  client.close();
});

test('many calls at once, on one connection and on several', { timeout: 280000 }, async () => {
  const server = await serving(), to = await endpoint(server.address), clients = Array.from({ length: 4 }, () => calling(to.host));
  const all = await Promise.all(Array.from({ length: 800 }, (_, i) => ask(clients[i % clients.length], { number: i, data: Buffer.alloc(i) })));
  for (const [i, got] of all.entries()) {
    assert.equal(got.error, null, `${i}: ${got.error?.details}`);
    assert.deepEqual([got.message.number, got.message.data.length], [i, i]);
  }
  const talks = Array.from({ length: 100 }, (_, i) => follow(clients[i % clients.length].talk()));
  for (let i = 0; i < 5; i++) for (const talk of talks) talk.call.write({ number: i });
  for (const talk of talks) talk.call.end();
  await until(() => talks.every((talk) => talk.status), 'all end');
  for (const talk of talks) assert.deepEqual([talk.status.code, talk.messages.map((one) => one.number)], [code.OK, [0, 1, 2, 3, 4]]);
  for (const client of clients) client.close();
  server.close();
});

// ---- what the edge promises ----

test('which requests are of gRPC', async () => {
  const up = await framing((stream, send) => send(frame(HEADERS, END_HEADERS | END_STREAM, stream, headers([[':status', '200'], ['grpc-status', '0']]))));
  const plain = await upstream((asked, response) => response.end('over HTTP/1.1'));
  const two = await endpoint(up.address), one = await endpoint(plain.address);
  for (const [type, is, method = 'POST'] of [['application/grpc', true], ['application/grpc+proto', true], ['application/grpc;charset=x', true], ['APPLICATION/gRPC', true],
    ['application/grpc-web', false], ['application/grpc-web+proto', false], ['application/grpcx', false], ['application/grp', false], ['application/json', false], ['application/grpc', false, 'PUT']]) {
    const head = { 'content-type': type, ':method': method };
    assert.equal((await request((is ? two : one).host, head)).status, 200, type);
    assert.equal((await request((is ? one : two).host, head)).status, 502, type);
  }
  assert.equal((await through(one.host, '/', { method: 'POST', body: 'x', headers: { 'Content-Type': 'application/grpc' } })).status, 200, 'HTTP/1.1 stays HTTP/1.1');
  await up.close();
  await plain.close();
});

test('what the server gets: the host as :authority, the edge\'s own headers, te, and none of what a client may not say', async () => {
  const server = await serving(), to = await endpoint(server.address, { request_headers: { remove: ['x-remove'], add: { 'x-add': 'added' } } });
  const got = await request(to.host, { te: 'trailers', 'x-forwarded-for': '1.2.3.4', 'postern-request-id': 'mine', 'x-remove': 'x', 'grpc-timeout': '10S', 'x-stays': 'stays', trailer: 'x' });
  assert.deepEqual([got.status, got.trailers?.['grpc-status'] ?? got.headers['grpc-status']], [200, '0']);
  const [{ host, metadata }] = server.calls;
  assert.equal(host, to.host);
  if (!elsewhere) assert.equal(metadata['x-forwarded-for'], '127.0.0.1');
  assert.deepEqual([metadata['x-forwarded-host'], metadata['x-forwarded-proto']], [to.host, 'https']);
  assert.deepEqual([metadata['x-add'], metadata['x-remove'], metadata['x-stays'], metadata.trailer], ['added', undefined, 'stays', undefined]);
  assert.equal(metadata['postern-request-id'], got.headers['postern-request-id']);
  assert.match(metadata.traceparent, /^00-/);
  assert.equal(metadata.host, undefined);
  server.close();
});

test('te: trailers reaches the server, and nothing else of te', async () => {
  const seen = [];
  const up = http2.createServer((asked, response) => {
    seen.push(asked.headers);
    response.writeHead(200, { 'content-type': 'application/grpc', 'grpc-status': '0' });
    response.end();
  });
  await new Promise((resolve) => up.listen(0, storyHost, resolve));
  const to = await endpoint(`${storyHost}:${up.address().port}`);
  for (const path of ['/', '/a?b=c', `/${'long/'.repeat(2000)}`]) assert.equal((await request(to.host, { ':path': path })).status, 200, path);
  await request(to.host, { 'x-large': 'l'.repeat(15000), 'x-larger': 'm'.repeat(15000) });
  for (const one of seen) assert.deepEqual([one[':authority'], one.te, one.host], [to.host, 'trailers', undefined]);
  assert.equal(seen.length, 4);
  assert.equal(seen[3]['x-larger'].length, 15000);
  up.close();
});

test('a request that is denied reaches no server: status as for any request', async () => {
  let connections = 0;
  const up = await tcpUpstream(() => { connections++; });
  const denied = await endpoint(up.address, { user_agent_filter: { deny: ['grpc'] } }), client = calling(denied.host);
  const got = await ask(client, {});
  assert.equal(got.error.code, code.PERMISSION_DENIED);
  assert.match(got.error.details, /403/);
  const policy = await must('POST', '/ip_policies', {});
  const restricted = await endpoint(up.address, { ip_restriction: { ip_policy_ids: [policy.id] } });
  assert.deepEqual([(await request(restricted.host)).status, connections], [403, 0]);
  assert.equal(connections, 0);
  await until(() => eventsOf(denied.host).length === 1, 'the event');
  assert.equal(eventsOf(denied.host)[0].denied.module, 'user_agent_filter');
  client.close();
  await up.close();
});

test('a server whose certificate is for another name gets no request', { skip: elsewhere || !localhost }, async () => {
  const server = await serving({}, localhost);
  const wrong = await endpoint(await must('POST', '/backends/static', { address: `127.0.0.1:${server.port}`, tls: { enabled: true } }));
  const right = await endpoint(await secure(server.port)), client = calling(right.host);
  assert.equal((await ask(client, {})).error, null);
  const got = await request(wrong.host);
  assert.equal(got.status, 502);
  assert.equal(server.calls.length, 1);
  client.close();
  server.close();
});

test('a server that speaks HTTP/1.1 only, one that is not there, and one without TLS', async () => {
  const plain = await upstream(), gone = await upstream();
  await gone.close();
  for (const backend of [plain.address, gone.address, ...(localhost && !elsewhere ? [await secure(plain.port)] : [])]) {
    const to = await endpoint(backend), client = calling(to.host);
    const { error } = await ask(client, {});
    assert.equal(error.code, code.UNAVAILABLE, error.details);
    client.close();
  }
  assert.equal(plain.seen.length, 0);
  await plain.close();
});

test('who calls gRPC where there is HTTP/1.1 opens no circuit breaker, and takes no member away', async () => {
  const plain = await upstream((_, response) => response.end('usual')), to = await endpoint(plain.address, { circuit_breaker: { error_threshold_percentage: 0.5, volume_threshold: 5 } });
  for (let i = 0; i < 10; i++) assert.equal((await request(to.host)).status, 502);
  assert.equal((await through(to.host)).status, 200);
  await plain.close();
  if (elsewhere || !localhost) return;
  const main = https.createServer({ ...localhost, ALPNProtocols: ['http/1.1'] }, (_, response) => response.end('main'));
  await new Promise((resolve) => main.listen(0, '127.0.0.1', resolve));
  const sorry = await must('POST', '/backends/http_response', { body: 'sorry', status_code: 503 });
  const failing = await endpoint(await must('POST', '/backends/failover', { backends: [(await secure(main.address().port)).id, sorry.id] }), { circuit_breaker: { error_threshold_percentage: 0.5, volume_threshold: 5 } });
  for (let i = 0; i < 10; i++) {
    await request(failing.host);
    assert.equal((await through(failing.host)).body, 'main');
  }
  const straight = await endpoint(await secure(main.address().port), { circuit_breaker: { error_threshold_percentage: 0.5, volume_threshold: 5 } });
  for (let i = 0; i < 10; i++) await request(straight.host);
  assert.equal((await through(straight.host)).body, 'main');
  main.close();
});

test('HTTP/1.1 and HTTP/2 to one address share no connection', async () => {
  const first = [];
  const up = await tcpUpstream((socket) => {
    socket.once('data', (part) => {
      const text = part.toString('latin1');
      first.push(text.slice(0, 3));
      if (text.startsWith('PRI')) socket.write(Buffer.concat([frame(SETTINGS, 0, 0), frame(HEADERS, END_HEADERS | END_STREAM, 1, headers([[':status', '200'], ['grpc-status', '0']]))]));
      else socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')).emit('data', part);
    });
  });
  const to = await endpoint(up.address);
  for (let i = 0; i < 8; i++) {
    assert.equal((await through(to.host)).body, 'ok');
    assert.equal((await request(to.host)).status, 200);
  }
  assert.ok(first.every((text) => text === 'GET' || text === 'PRI'), first.join());
  await up.close();
});

test('events: status, the bytes of messages, and whether the connection was there', async () => {
  const server = await serving(), to = await endpoint(server.address, { compression: {} }), client = calling(to.host, { 'grpc.default_compression_algorithm': 0 });
  for (let i = 0; i < 12; i++) assert.equal((await ask(client, { text: 'x'.repeat(1000) })).message.text.length, 1000);
  await until(() => eventsOf(to.host).length === 12, 'events');
  for (const { http } of eventsOf(to.host)) {
    assert.deepEqual([http.response.status_code, http.request.method], [200, 'post']);
    assert.deepEqual([http.request.body_length, http.response.body_length], [1008, 1008]); // 1000, 3 before them, 5 of gRPC
  }
  assert.ok(eventsOf(to.host).some(({ backend }) => backend.connection_reused), 'connections are kept');
  client.close();
  server.close();
});

test('response_headers: of the head and of the trailers', async () => {
  const server = await serving({ unary: (call, done) => {
    const head = new grpc.Metadata(), trailers = new grpc.Metadata();
    for (const one of [head, trailers]) for (const name of ['x-secret', 'x-kept', 'x-accel-redirect', 'postern-request-id']) one.set(name, 'told');
    call.sendMetadata(head);
    done(null, call.request, trailers);
  } });
  const to = await endpoint(server.address, { response_headers: { remove: ['x-secret'], add: { 'x-added': 'yes' } } }), client = calling(to.host);
  const { head, status } = await ask(client, {});
  assert.deepEqual([head.get('x-secret'), head.get('x-accel-redirect'), head.get('x-kept'), head.get('x-added')], [[], [], ['told'], ['yes']]);
  assert.match(head.get('postern-request-id')[0], /^req_[0-9a-f]{32}$/);
  assert.deepEqual(Object.keys(status.metadata.getMap()), ['x-kept']);
  client.close();
  server.close();
});

test('a circuit breaker counts gRPC by its HTTP status', async () => {
  const up = await framing((stream, send) => send(frame(HEADERS, END_HEADERS | END_STREAM, stream, headers([[':status', '500']]))));
  const to = await endpoint(up.address, { circuit_breaker: { tripped_duration: 86400, rolling_window: 86400, num_buckets: 10, volume_threshold: 2, error_threshold_percentage: 1 } });
  for (let i = 0; i < 2; i++) assert.equal((await request(to.host)).status, 500);
  assert.deepEqual([(await request(to.host)).status, up.seen.requests], [503, 2]);
  await up.close();
});

test('a change under an open stream: another backend leaves it where it is, a route that goes ends it', async () => {
  const server = await serving(), other = await serving(), to = await endpoint(server.address), client = calling(to.host);
  const talk = follow(client.talk());
  talk.call.write({ number: 1 });
  await until(() => talk.messages.length === 1, 'served');
  await must('PATCH', `/backends/static/${to.backend.id}`, { address: other.address });
  talk.call.write({ number: 2 });
  await until(() => talk.messages.length === 2, 'still served');
  assert.equal((await ask(client, {})).error, null);
  assert.deepEqual([server.calls.length, other.calls.length], [1, 1], 'a new call goes to the new address');
  await must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}`);
  await until(() => talk.status && server.calls[0].cancelled, 'ended, on both sides');
  assert.notEqual(talk.status.code, code.OK);
  client.close();
  server.close();
  other.close();
});

test('a module that is put on under an open stream ends it', async () => {
  const server = await serving(), to = await endpoint(server.address), client = calling(to.host);
  const talk = follow(client.talk());
  talk.call.write({ number: 1 });
  await until(() => talk.messages.length === 1, 'served');
  const policy = await must('POST', '/ip_policies', {});
  await putModule(to, 'ip_restriction', { ip_policy_ids: [policy.id] });
  await until(() => talk.status && server.calls[0].cancelled, 'ended, on both sides');
  client.close();
  server.close();
});

test('a body that a module has read first goes upstream whole', async () => {
  const server = await serving(), to = await endpoint(server.address, { webhook_verification: { provider: 'gitlab', secret: 'Keep it so' } });
  const body = Buffer.concat([Buffer.from([0, 0, 0, 0, 3]), Buffer.from([0x0a, 1, 0x78])]);
  assert.equal((await request(to.host, {}, body)).status, 403);
  assert.equal(server.calls.length, 0);
  const got = await request(to.host, { 'x-gitlab-token': 'Keep it so' }, body);
  assert.deepEqual([got.status, Buffer.from(got.body).equals(body)], [200, true]);
  server.close();
});

test('an upload that the server does not take waits at the client', { timeout: 280000 }, async () => {
  const WINDOW = 65535, up = await framing(() => {}); // which never widens it
  const to = await endpoint(up.address);
  const session = http2.connect(`https://${to.host}`, { host: edge.host, port: edge.port, servername: to.host, ca });
  const stream = session.request({ ':method': 'POST', ':authority': to.host, ':path': '/', 'content-type': 'application/grpc', te: 'trailers' });
  stream.on('error', () => {});
  stream.write(Buffer.alloc(50 << 20));
  await until(() => up.seen.data === WINDOW, 'the window is full');
  let before = -1;
  await until(async () => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    const now = session.socket.bytesWritten, same = now === before;
    before = now;
    return same;
  }, 'the client waits');
  assert.ok(before < 1 << 20, `${before} bytes have left the client`);
  assert.equal(up.seen.data, WINDOW);
  stream.close(http2.constants.NGHTTP2_CANCEL);
  session.close();
  await up.close();
});

test('silence: a stream goes on while either side sends, and ends when neither does', { skip: elsewhere, timeout: 280000 }, async () => {
  const TIMES = 25, PAUSE = 1000; // together more than the timeout, of which each is little
  const server = await serving({ talk: (call) => call.once('data', ({ text }) => {
    let n = 0;
    if (text !== 'late') call.sendMetadata(new grpc.Metadata());
    call.on('data', () => { if (++n === TIMES) { call.write({ number: n }); call.end(); } });
    if (text !== 'listen') return;
    const more = setInterval(() => { if (++n < TIMES) call.write({ number: n }); else { clearInterval(more); call.end(); } }, PAUSE);
  }) });
  await own(async ({ state, run }) => {
    const begun = run('up', { settings: { POSTERN_READ_TIMEOUT: '20s' } });
    assert.equal(begun.status, 0, begun.stdout + begun.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').map((line) => line.split(/=(.*)/s)));
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    const host = 'silence.test';
    await call('/reserved_domains', { domain: host });
    const backend = await call('/backends/static', { address: server.address }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
    const client = calling(host, {}, { port: edge.port + 1000, ca: fs.readFileSync(vars.POSTERN_EDGE_CA) });

    const talks = ['listen', 'send', 'late', 'nothing'].map((text) => {
      const talk = follow(client.talk());
      talk.call.write({ text });
      return talk;
    });
    for (let i = 0; i < TIMES; i++) {
      for (const talk of talks.slice(1, 3)) talk.call.write({ number: i });
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    await until(() => talks.every((talk) => talk.status), 'all have ended', 120000);
    assert.deepEqual(talks.map(({ status }) => status.code === code.OK), [true, true, true, false]);
    assert.deepEqual(talks.map(({ messages }) => messages.length), [TIMES - 1, 1, 1, 0]);
    client.close();
  });
  server.close();
});

// ---- what an upstream may not do ----

const head = (more = [], status = '200') => headers([[':status', status], ...more]);
const resets = (of) => Buffer.from([0, 0, 0, of]);
const raw = (block) => frame(HEADERS, END_HEADERS, 1, block);
const wide = (n) => headers(Array.from({ length: n }, (_, i) => [`x-${i}`, 'v'.repeat(1000)]));
const goaway = (last, error) => { const bytes = Buffer.alloc(8); bytes.writeUInt32BE(last, 0); bytes.writeUInt32BE(error, 4); return frame(GOAWAY, 0, 0, bytes); };

// Instead of a head: 502, and the log says why.
for (const [what, frames] of Object.entries({
  'no HTTP/2': () => [Buffer.from('SSH-2.0-OpenSSH_9.2p1\r\n')],
  'nothing but zeros': () => [Buffer.alloc(100000)],
  'random bytes': () => [Buffer.from(Array.from({ length: 65536 }, (_, i) => (i * 7919 + (i >> 3)) & 255))],
  'a frame that is too large': () => [frame(HEADERS, END_HEADERS, 1, Buffer.alloc(16385))],
  'DATA before the head': () => [frame(DATA, 0, 1, Buffer.from('x'))],
  'CONTINUATION before the head': () => [frame(CONTINUATION, END_HEADERS, 1, head())],
  'a frame between the parts of a head': () => [frame(HEADERS, 0, 1, head()), frame(PING, 0, 0, Buffer.alloc(8))],
  'a stream that nobody opened': () => [frame(HEADERS, END_HEADERS, 7, head())],
  'PUSH_PROMISE': () => [frame(5, END_HEADERS, 1, Buffer.concat([Buffer.from([0, 0, 0, 2]), head()]))],
  'no status': () => [raw(headers([['x', 'y']]))],
  'two statuses': () => [raw(headers([[':status', '200'], [':status', '200']]))],
  'a status behind a field': () => [raw(headers([['x', 'y'], [':status', '200']]))],
  'a pseudo-header field that is unknown': () => [raw(head([[':path', '/']]))],
  'a status of two digits': () => [raw(head([], '20'))],
  'the status 600': () => [raw(head([], '600'))],
  'the status 103': () => [raw(head([], '103'))],
  'a name with a space': () => [raw(head([['x y', '1']]))],
  'a name in capitals': () => [raw(head([['X-Y', '1']]))],
  'a value with a line end': () => [raw(head([['x', 'a\r\nb']]))],
  'a value with a control character': () => [raw(head([['x', 'a\x01b']]))],
  'a field of the connection': () => [raw(head([['connection', 'x']]))],
  'Transfer-Encoding': () => [raw(head([['transfer-encoding', 'chunked']]))],
  'two lengths': () => [raw(head([['content-length', '1'], ['content-length', '1']]))],
  'a length that is none': () => [raw(head([['content-length', '1x']]))],
  'more than 1,000 fields': () => [raw(head(Array.from({ length: 1100 }, () => ['a', ''])))],
  'an index that is not there': () => [raw(Buffer.from([0x88, 0xff, 0xff, 0xff, 0xff]))],
  'a head that is cut off': () => [raw(Buffer.concat([head(), Buffer.from([0, 5, 120])]))],
  'padding that is longer than its frame': () => [frame(HEADERS, END_HEADERS | PADDED, 1, Buffer.from([200, 0x88]))],
  'a head that is too large': () => [frame(HEADERS, 0, 1, head()), ...Array.from({ length: 100 }, () => frame(CONTINUATION, 0, 1, wide(1)))],
  'CONTINUATION without end': () => [frame(HEADERS, 0, 1, head()), ...Array.from({ length: 50000 }, () => frame(CONTINUATION, 0, 1))],
  'SETTINGS without end': () => Array.from({ length: 150000 }, () => frame(SETTINGS, 0, 0)),
  'acknowledgements without end': () => Array.from({ length: 150000 }, () => frame(SETTINGS, 1, 0)),
  'PING without end': () => Array.from({ length: 80000 }, () => frame(PING, 0, 0, Buffer.alloc(8))),
  'WINDOW_UPDATE without end': () => Array.from({ length: 100000 }, () => frame(WINDOW_UPDATE, 0, 1, Buffer.from([0, 0, 0, 0]))),
  'frames of an unknown type without end': () => Array.from({ length: 200 }, () => frame(0xfa, 0, 0, Buffer.alloc(16000))),
  'a window that is too large': () => [frame(WINDOW_UPDATE, 0, 1, Buffer.from([127, 255, 255, 255]))],
  'SETTINGS of five bytes': () => [frame(SETTINGS, 0, 0, Buffer.alloc(5))],
  'a reset': () => [frame(RST_STREAM, 0, 1, resets(8))],
  'a reset of three bytes': () => [frame(RST_STREAM, 0, 1, Buffer.alloc(3))],
  'GOAWAY, and this request was not taken': () => [goaway(0, 0)],
  'the end of the connection': () => [],
}))
  test(`in place of a head: ${what}`, async () => {
    const up = await framing((stream, send, socket) => { send(Buffer.concat(frames())); socket.end(); });
    const to = await endpoint(up.address);
    assert.equal((await request(to.host)).status, 502);
    await until(() => eventsOf(to.host).length === 1, 'the event');
    assert.equal(eventsOf(to.host)[0].http.response.status_code, 502);
    await up.close();
  });

// Behind a good head: the stream is reset, with what it has.
const message = Buffer.from([0, 0, 0, 0, 1, 120]);
const INTERNAL = 2;
for (const [what, reset, frames] of [
  ['random bytes', INTERNAL, () => [Buffer.from(Array.from({ length: 65536 }, (_, i) => (i * 7919 + (i >> 3)) & 255))]],
  ['a frame that is too large', INTERNAL, () => [frame(DATA, 0, 1, Buffer.alloc(16385))]],
  ['DATA of another stream', INTERNAL, () => [frame(DATA, 0, 3, Buffer.from('x'))]],
  ['padding that is longer than its frame', INTERNAL, () => [frame(DATA, PADDED, 1, Buffer.from([200, 1]))]],
  ['trailers without end', INTERNAL, () => [frame(HEADERS, END_STREAM, 1, headers([['grpc-status', '0']])), ...Array.from({ length: 200 }, () => frame(CONTINUATION, 0, 1, wide(1)))]],
  ['empty CONTINUATION without end', INTERNAL, () => [frame(HEADERS, END_STREAM, 1, headers([['grpc-status', '0']])), ...Array.from({ length: 50000 }, () => frame(CONTINUATION, 0, 1))]],
  ['more than 1,000 trailers', INTERNAL, () => [frame(HEADERS, END_HEADERS | END_STREAM, 1, headers(Array.from({ length: 1100 }, () => ['a', ''])))]],
  ['a pseudo-header field as a trailer', INTERNAL, () => [frame(HEADERS, END_HEADERS | END_STREAM, 1, headers([[':status', '200']]))]],
  ['a trailer of the connection', INTERNAL, () => [frame(HEADERS, END_HEADERS | END_STREAM, 1, headers([['connection', 'x']]))]],
  ['a trailer with a control character', INTERNAL, () => [frame(HEADERS, END_HEADERS | END_STREAM, 1, headers([['x', 'a\x01']]))]],
  ['trailers that end nothing', INTERNAL, () => [frame(HEADERS, END_HEADERS, 1, headers([['grpc-status', '0']]))]],
  ['empty DATA without end', INTERNAL, () => Array.from({ length: 150000 }, () => frame(DATA, 0, 1))],
  ['padding without end', INTERNAL, () => Array.from({ length: 6000 }, () => frame(DATA, PADDED, 1, Buffer.concat([Buffer.from([255]), Buffer.alloc(255)])))],
  ['PING without end', INTERNAL, () => Array.from({ length: 80000 }, () => frame(PING, 0, 0, Buffer.alloc(8)))],
  ['SETTINGS without end', INTERNAL, () => Array.from({ length: 150000 }, () => frame(SETTINGS, 0, 0))],
  ['the end of the connection', INTERNAL, () => []],
  ['a reset for a reason of the connection', INTERNAL, () => [frame(RST_STREAM, 0, 1, resets(1))]],
  ['a reset that cancels', 8, () => [frame(RST_STREAM, 0, 1, resets(8))]],
  ['a reset that asks for calm', 11, () => [frame(RST_STREAM, 0, 1, resets(11))]],
  ['GOAWAY, and this request was not taken', INTERNAL, () => [goaway(0, 0)]],
])
  test(`behind a head: ${what}`, async () => {
    let more;
    const up = await framing((stream, send, socket) => {
      more = () => { send(Buffer.concat(frames())); socket.end(); };
      send(raw(head([['content-type', 'application/grpc']])), frame(DATA, 0, 1, message));
    });
    const to = await endpoint(up.address);
    const got = await request(to.host, {}, undefined, (body) => { if (body.length === message.length) more(); }); // once the client has what was good
    assert.deepEqual([got.status, got.body, got.reset], [200, message.toString(), reset]);
    await until(() => eventsOf(to.host).length === 1, 'the event');
    await up.close();
  });

test('a field that is no valid one writes neither a line of its own into the log nor to a terminal', { skip: elsewhere }, async () => {
  const mark = `forged-${crypto.randomUUID()}`, log = `${env.POSTERN_LOG_DIR}/edge.log`;
  const up = await framing((stream, send, socket) => { send(raw(head([['x-a', `x\n${mark}\x1b[2J`]]))); socket.end(); }), to = await endpoint(up.address);
  assert.equal((await request(to.host)).status, 502);
  const line = await until(() => fs.readFileSync(log, 'latin1').split('\n').find((one) => one.includes(mark)), 'nginx says what was wrong');
  assert.ok(line.includes(`x\\x0a${mark}\\x1b[2J`), line);
  await up.close();
});

test('what an upstream may do: GOAWAY behind the request, heads in pieces, padding, frames of unknown types', async () => {
  const large = wide(50); // more than one buffer
  const answer = () => Buffer.concat([
    frame(0xfa, 0xff, 0, Buffer.alloc(100)), goaway(1, 0), frame(HEADERS, PADDED, 1, Buffer.concat([Buffer.from([3]), head([['content-type', 'application/grpc']]), Buffer.alloc(3)])),
    ...Array.from({ length: Math.ceil(large.length / 9999) }, (_, i) => frame(CONTINUATION, (i + 1) * 9999 >= large.length ? END_HEADERS : 0, 1, large.subarray(i * 9999, (i + 1) * 9999))),
    frame(PING, 0, 0, Buffer.alloc(8)), frame(DATA, PADDED, 1, Buffer.concat([Buffer.from([4]), message, Buffer.alloc(4)])),
    frame(HEADERS, END_STREAM, 1, headers([['grpc-status', '0']])), frame(CONTINUATION, END_HEADERS, 1, headers([['x-last', 'yes']]))]);
  for (const piece of [1 << 20, 4095, 100]) {
    const up = await framing((stream, send, socket) => {
      const all = answer();
      let at = 0;
      const more = () => { if (at < all.length) { send(all.subarray(at, at += piece)); setImmediate(more); } };
      socket.setNoDelay(true);
      more();
    });
    const to = await endpoint(up.address);
    const got = await request(to.host);
    assert.deepEqual([got.status, got.body, got.headers['x-49']?.length, got.trailers?.['x-last']], [200, message.toString(), 1000, 'yes'], `in pieces of ${piece}`);
    assert.equal((await request(to.host)).status, 200);
    assert.equal(up.seen.connections, 2, 'after GOAWAY on another connection');
    await up.close();
  }
});

test('PINGs that are answered one after the other do not go on for ever, however many answers the edge sends', { timeout: 280000 }, async () => {
  const EACH = 1000, ROUNDS = 200;
  let rounds = 0;
  const up = await framing((stream, send, socket) => {
    const pings = Buffer.concat(Array.from({ length: EACH }, () => frame(PING, 0, 0, Buffer.alloc(8))));
    let answered = 0;
    const more = () => { if (rounds++ < ROUNDS) send(pings); else send(frame(DATA, 0, 1, message), frame(HEADERS, END_HEADERS | END_STREAM, 1, headers([['grpc-status', '0']]))); };
    socket.on('data', (part) => { answered += part.length; while (answered >= EACH * 17) { answered -= EACH * 17; more(); } });
    send(raw(head([['content-type', 'application/grpc']])), frame(DATA, 0, 1, message));
    setTimeout(more, 50);
  });
  const got = await request((await endpoint(up.address)).host);
  assert.deepEqual([got.status, got.reset], [200, INTERNAL], `${rounds} rounds`);
  await up.close();
});

test('padding in pieces: wherever an answer is cut in two, it arrives', { timeout: 280000 }, async () => {
  const parts = [raw(head([['content-type', 'application/grpc']])), frame(DATA, PADDED, 1, Buffer.concat([Buffer.from([5]), message, Buffer.alloc(5)])), frame(DATA, PADDED, 1, Buffer.from([0])),
    frame(DATA, PADDED, 1, Buffer.concat([Buffer.from([3]), Buffer.alloc(3)])), frame(HEADERS, END_HEADERS | END_STREAM, 1, headers([['grpc-status', '0']]))];
  for (const parting of [parts, [...parts.slice(0, 3), frame(DATA, PADDED | END_STREAM, 1, Buffer.concat([Buffer.from([3]), message, Buffer.alloc(3)]))]]) {
    const all = Buffer.concat(parting);
    let cut = 0;
    const up = await framing((stream, send, socket) => {
      socket.setNoDelay(true);
      const mine = Buffer.from(all);
      for (let at = 0; at < mine.length; at += 9 + mine.readUIntBE(at, 3)) mine.writeUInt32BE(stream, at + 5);
      send(mine.subarray(0, cut));
      setTimeout(() => send(mine.subarray(cut)), 15);
    });
    const to = await endpoint(up.address), failed = [];
    for (cut = 1; cut < all.length; cut++) {
      const got = await request(to.host);
      if (got.status !== 200 || got.reset || !got.body.startsWith(message.toString())) failed.push([cut, got.status, got.reset]);
    }
    assert.deepEqual(failed, []);
    await up.close();
  }
});

test('messages are whole in whatever frames they come, however many of them are read at once', { timeout: 280000 }, async () => {
  const TOTAL = 300000, body = crypto.randomBytes(TOTAL).toString('hex').slice(0, TOTAL);
  let sizes;
  const up = await framing((stream, send) => {
    const out = [frame(HEADERS, END_HEADERS, stream, head([['content-type', 'application/grpc']]))];
    for (let at = 0, i = 0; at < TOTAL; i++) {
      const size = Math.min(sizes[i % sizes.length], TOTAL - at), part = Buffer.from(body.slice(at, at + size));
      out.push(i % 5 ? frame(DATA, 0, stream, part) : frame(DATA, PADDED, stream, Buffer.concat([Buffer.from([2]), part, Buffer.alloc(2)])));
      at += size;
    }
    out.push(frame(HEADERS, END_HEADERS | END_STREAM, stream, headers([['grpc-status', '0'], ['last', 'x'.repeat(3000)]])));
    send(Buffer.concat(out));
  });
  const to = await endpoint(up.address);
  for (sizes of [[2], [9, 2039], [2048, 3, 1024], [16381], [16381, 2, 2, 1025], [700, 1]]) {
    const got = await request(to.host);
    assert.deepEqual([got.status, got.trailers?.['grpc-status'], got.trailers?.last?.length, got.body.length, got.body === body], [200, '0', 3000, TOTAL, true], `frames of ${sizes}`);
  }
  await up.close();
});

// Good answers with bytes that are changed, taken out and put in: each request ends, in whatever way, and the next is served.
test('answers that nobody would send', { timeout: 280000 }, async () => {
  let seed = 1;
  const random = (n) => { seed = (Math.imul(seed, 1103515245) + 12345) >>> 0; return (seed >>> 8) % n; };
  const good = Buffer.concat([frame(SETTINGS, 0, 0, Buffer.from([0, 3, 0, 0, 0, 9])), frame(SETTINGS, 1, 0), frame(HEADERS, END_HEADERS, 1, head([['content-type', 'application/grpc'], ['x', 'y']])),
    frame(WINDOW_UPDATE, 0, 1, Buffer.from([0, 0, 1, 0])), frame(PING, 0, 0, Buffer.alloc(8)), frame(DATA, PADDED, 1, Buffer.concat([Buffer.from([4]), message, Buffer.alloc(4)])), frame(DATA, 0, 1, message),
    frame(HEADERS, 0, 1, headers([['grpc-status', '0']])), frame(CONTINUATION, END_HEADERS, 1, headers([['a', 'b']])), goaway(1, 0)]);
  const changed = () => {
    let bytes = Buffer.from(good);
    for (let i = random(4); i >= 0; i--) {
      const at = random(bytes.length), part = bytes.subarray(random(bytes.length), random(bytes.length));
      if (random(2)) bytes[at] = random(2) ? random(256) : bytes[at] ^ (1 << random(8));
      else bytes = Buffer.concat([bytes.subarray(0, at), part, bytes.subarray(at + random(20))]);
    }
    return bytes;
  };
  const up = await framing((stream, send, socket) => { send(changed()); setTimeout(() => socket.destroy(), 20); }, { settings: false });
  const to = await endpoint(up.address), statuses = {};
  for (let i = 0; i < 40; i++)
    for (const { status } of await Promise.all(Array.from({ length: 10 }, () => request(to.host)))) statuses[status] = (statuses[status] ?? 0) + 1;
  assert.ok(statuses[200] > 10 && statuses[502] > 10, JSON.stringify(statuses));
  assert.equal(Object.values(statuses).reduce((sum, n) => sum + n), 400, JSON.stringify(statuses));
  await up.close();
});

test('an upstream that ends the call while the client still sends', { timeout: 280000 }, async () => {
  for (const close of [false, true]) {
    const up = await framing((stream, send, socket) => {
      send(frame(HEADERS, END_HEADERS | END_STREAM, stream, head([['content-type', 'application/grpc'], ['grpc-status', '8']])));
      if (close) setTimeout(() => socket.destroy(), 20);
    });
    const to = await endpoint(up.address), client = calling(to.host);
    let ended;
    const call = client.upload((error) => { ended = error; });
    call.on('error', () => {});
    const more = setInterval(() => call.write({ data: Buffer.alloc(30000) }), 5);
    await until(() => ended, 'ended');
    clearInterval(more);
    assert.equal(ended.code, code.RESOURCE_EXHAUSTED);
    client.close();
    await up.close();
  }
});

test('cleanup', () => sub.stop());
