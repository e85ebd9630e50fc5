// No client, and no account, takes a worker's connections, its large buffers for reads or its encoders away from others, and whatever
// anybody was charged comes back (services/edge/http/portion.h, share.h). A stack with few connections and little memory.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { ALONE, PREFACE, WAIT, allFree, ask, connections, literal, metric, plain, port, publish, servesOthers, session, skip, stack, window } from '../support/clients.mjs';
import { CONTINUATION, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame } from '../support/h2raw.mjs';
import { edge, until, upstream } from '../support/postern.mjs';

const CONNECTIONS = 512, MEMORY = 16 << 20, BALANCER = '127.0.0.8', OF_ACCOUNT = 0.61 * ALONE; // of all, what one client has of one account's at most
const MANY = 'x'.repeat(20) + '\n', BULK = 2 << 20;

// An endpoint with compression. '/held' waits for its end, '/large' and '/bulks' never end.
const ready = stack({ POSTERN_WORKER_CONNECTIONS: String(CONNECTIONS), POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_SEND_TIMEOUT: '30s', POSTERN_CLIENT_TAKE_MIN: '1k', POSTERN_CLIENT_HEADER_TIMEOUT: '5m' }, async ({ call }) => {
  const held = [], noise = crypto.randomBytes(45000).toString('base64'), bulk = crypto.randomBytes(BULK);
  const endless = (response, piece) => { // one behind the other
    response.writeHead(200, { 'Content-Type': 'text/plain' }).on('error', () => {});
    const more = () => { while (response.write(piece)); };
    response.on('drain', more);
    more();
  };
  const backend = await upstream((request, response) => {
    if (request.url === '/held') held.push(response);
    else if (request.url === '/large') endless(response, MANY.repeat(3000));
    else if (request.url === '/bulks') endless(response, bulk);
    else response.writeHead(200, { 'Content-Type': 'text/plain' }).end({ '/bulk': bulk, '/noise': noise }[request.url] ?? MANY.repeat(50));
  });
  return { host: (await publish(call, backend.address, { compression: {} })).host, held, end: () => backend.close() };
});

for (const [what, bytes, to] of [['of a handshake', '\x16', port], ['of a head', 'G', plain]])
  test(`one byte ${what} on each connection: a client has its portion of them, and others are served`, { skip, timeout: 300000 }, async () => {
    const before = await metric('connections_refused_total{worker="0",reason="client"}');
    const held = await connections(CONNECTIONS, Buffer.from(bytes, 'latin1'), { localAddress: '127.0.0.22', to });
    try {
      await until(() => held.open() <= CONNECTIONS * ALONE, 'the others are closed', WAIT);
      assert.ok(held.open() >= CONNECTIONS * 0.3, `${held.open()} are open`);
      await servesOthers(ready);
      await assert.rejects(ask(ready, { localAddress: '127.0.0.22' }), 'its next one');
      assert.ok(await metric('connections_refused_total{worker="0",reason="client"}') > before, 'which is counted');
    } finally { held.end(); }
    await allFree(ready, CONNECTIONS);
  });

test('a client whose connections are idle has the next one in the place of one of them', { skip, timeout: 300000 }, async () => {
  const before = await metric('connections_refused_total{worker="0",reason="client"}');
  const idle = await connections(CONNECTIONS, '', { localAddress: '127.0.0.23' });
  try {
    await until(() => idle.open() <= CONNECTIONS * ALONE, 'as many as it may have', WAIT);
    for (let i = 0; i < 10; i++) assert.equal((await ask(ready, { localAddress: '127.0.0.23' })).status, 200);
    assert.equal(await metric('connections_refused_total{worker="0",reason="client"}'), before);
  } finally { idle.end(); }
  await allFree(ready, CONNECTIONS);
});

test('behind a load balancer a client is who it names, and the load balancer itself may have all', { skip, timeout: 300000 }, async () => {
  const of = (client) => Buffer.from(`PROXY TCP4 ${client} 192.0.2.1 50000 443\r\n\x16`, 'latin1'), where = { localAddress: BALANCER, to: port + 1 };
  const held = await connections(CONNECTIONS, of('203.0.113.7'), where);
  let other, itself;
  try {
    await until(() => held.open() <= CONNECTIONS * ALONE, 'one of its clients', WAIT);
    other = await connections(10, of('203.0.113.8'), where);
    await servesOthers(ready);
    assert.equal(other.open(), 10, 'another of its clients');
    held.end();
    other.end();
    await allFree(ready, CONNECTIONS);
    itself = await connections(CONNECTIONS / 2, Buffer.from('PROXY UNKNOWN\r\n\x16', 'latin1'), where);
    await servesOthers(ready);
    assert.equal(itself.open(), CONNECTIONS / 2);
  } finally { for (const some of [held, other, itself]) some?.end(); }
  await allFree(ready, CONNECTIONS);
});

test('many clients leave something to the next one, and connections to upstreams that are idle are given up for them', { skip, timeout: 300000 }, async () => {
  const { held } = await ready, KEPT = 60, before = await metric('upstreams_given_up_total{worker="0"}'), some = [];
  const answers = Array.from({ length: KEPT }, (_, i) => ask(ready, { path: '/held', localAddress: `127.0.0.${30 + i}` }));
  await until(() => held.length === KEPT, 'as many requests at a time', WAIT);
  for (const response of held.splice(0)) response.end('x');
  for (const answer of answers) assert.equal((await answer).status, 200);
  try {
    for (let i = 0; i < 40; i++) some.push(await connections(i < 6 ? 60 : 30, '\x16', { localAddress: `127.1.${1 + i}.1` })); // networks, of which each has what is left for it
    await until(async () => await metric('upstreams_given_up_total{worker="0"}') > before, 'they are given up', WAIT);
    await servesOthers(ready);
  } finally { for (const one of some) one.end(); }
  await allFree(ready, CONNECTIONS);
});

// ---- buffers for reads ----

test('who takes no answer has its portion of the large buffers for reads, and others have theirs', { skip, timeout: 300000 }, async () => {
  const there = await ready, { host } = there, STREAMS = 60, LENT = MEMORY / 4, LARGE = 64 << 10, lent = () => metric('read_memory_bytes{worker="0"}');
  const greedy = session(there, '127.0.0.28'), other = session(there, '127.0.0.29'), request = (of) => of.request({ ':path': '/large', ':authority': host }).on('error', () => {});
  await until(async () => await lent() === 0, 'nothing is lent', WAIT);
  try {
    let answered = 0;
    for (let i = 0; i < STREAMS; i++) request(greedy).on('response', () => { answered++; });
    await until(() => answered === STREAMS, 'each is answered', WAIT);
    await until(async () => await lent() > LENT * OF_ACCOUNT * 0.8, 'much is lent', WAIT);
    const before = await lent();
    assert.ok(before <= LENT * OF_ACCOUNT, `${before} of ${LENT} are lent to one client`);
    request(other);
    await until(async () => await lent() === before + LARGE, 'another client has one', WAIT);
    await servesOthers(ready);
  } finally { greedy.destroy(); other.destroy(); }
  await until(async () => await lent() === 0, 'all of it comes back', WAIT);
});

// ---- encoders ----

test('who takes no encoded answer has its portion of the encoders, and then answers that are not encoded', { skip, timeout: 300000 }, async () => {
  const there = await ready, { host } = there, STREAMS = 50, got = { br: 0, plain: 0 }, greedy = session(there, '127.0.0.24');
  try {
    for (let i = 0; i < STREAMS; i++)
      greedy.request({ ':path': '/large', ':authority': host, 'accept-encoding': 'br' }).on('error', () => {}).on('response', (fields) => { got[fields['content-encoding'] ?? 'plain']++; });
    await until(() => got.br + got.plain === STREAMS, 'each is answered', WAIT);
    assert.ok(got.br > 106 * OF_ACCOUNT * 0.8 && got.br <= 106 * OF_ACCOUNT, `${got.br} are encoded, of 106 for which there is memory`);
    assert.equal(await metric('module_over_share_total{module="compression"}'), got.plain);
    assert.equal((await ask(ready, { headers: { 'Accept-Encoding': 'br' } })).headers['content-encoding'], 'br', 'of another client');
  } finally { greedy.destroy(); }
  await until(async () => (await ask(ready, { localAddress: '127.0.0.24', headers: { 'Accept-Encoding': 'br' } })).headers['content-encoding'] === 'br', 'its next one, afterwards', WAIT);
});

test('what an encoder has made counts until the client has it, though the encoder is gone', { skip, timeout: 300000 }, async () => {
  const there = await ready, { host } = there, STREAMS = 20, taken = () => metric('encoder_memory_bytes{worker="0"}'), greedy = session(there, '127.0.0.30', { initialWindowSize: 0 });
  await until(async () => await taken() === 0, 'no encoder is at work', WAIT);
  try {
    let answered = 0;
    for (let i = 0; i < STREAMS; i++) greedy.request({ ':path': '/noise', ':authority': host, 'accept-encoding': 'br' }).on('error', () => {}).on('response', (fields) => { answered += fields['content-encoding'] === 'br'; });
    await until(() => answered === STREAMS, 'each is answered', WAIT);
    await until(async () => await taken() <= STREAMS * (64 << 10), 'their encoders are gone', WAIT);
    assert.ok(await taken() >= STREAMS * (45 << 10), `${await taken()} bytes count`);
  } finally { greedy.destroy(); }
  await until(async () => await taken() === 0, 'all of it comes back', WAIT);
});

test('a client that asks for many encoded bodies has no more turns of the encoders than one that asks for one', { skip, timeout: 300000 }, async () => {
  const there = await ready, { host, ca } = there, STREAMS = 60, headers = { 'accept-encoding': 'gzip' }, greedy = session(there, '127.0.0.26');
  let answered = 0, others = 0;
  try {
    for (let i = 0; i < STREAMS; i++)
      greedy.request({ ':path': '/bulks', ':authority': host, ...headers }).on('error', () => {}).on('response', (fields) => { answered += fields['content-encoding'] === 'gzip'; }).on('data', (part) => { others += part.length; });
    await until(() => answered === STREAMS && others > STREAMS << 16, 'all of them come', WAIT);
    let own = 0, before;
    await new Promise((resolve, reject) => {
      https.get({ host: edge.host, port, servername: host, ca, path: '/bulk', localAddress: '127.0.0.27', headers: { Host: host, ...headers }, agent: false }, (answer) => {
        before = others;
        assert.equal(answer.headers['content-encoding'], 'gzip');
        answer.on('data', (part) => { own += part.length; }).on('end', resolve).on('error', reject);
      }).on('error', reject);
    });
    assert.ok(own >= BULK, `${own} bytes`); // bytes of noise: encoded they are as many
    assert.ok(others - before < BULK * STREAMS / 4, `${others - before} bytes of the others' meanwhile`);
    console.log(`turns: ${own} bytes of one, ${others - before} of ${STREAMS} others meanwhile`);
  } finally { greedy.destroy(); }
  await until(async () => await metric('encoder_memory_bytes{worker="0"}') === 0, 'all of it comes back', WAIT);
});

// ---- whatever is charged comes back ----

// Requests that are given up at each point of their way, ABORTS of them: 2,000, or as many as STORY_ABORTS says.
test('requests that are given up leave nothing behind of what they were charged', { skip, timeout: 24 * 3600000 }, async () => {
  const { host, ca, held } = await ready, ABORTS = Number(process.env.STORY_ABORTS || 2000), STREAMS = 16, AT_ONCE = 12, localAddress = '127.0.0.40';
  const taken = async () => { let sum = 0; for (const what of ['request', 'read', 'encoder']) sum += await metric(`${what}_memory_bytes{worker="0"}`); return sum; };
  const fields = (path, ...more) => Buffer.concat([Buffer.from([0x83, 0x87]), literal(':path', path), literal(':authority', host), ...more]);
  const DATA = 0, small = Buffer.alloc(100);
  const HTTP2 = [ // frames of a stream
    (id) => [frame(HEADERS, END_HEADERS, id, fields('/held')), frame(RST_STREAM, 0, id, Buffer.from([0, 0, 0, 8]))],
    (id) => [frame(HEADERS, END_HEADERS | END_STREAM, id, fields('/held'))],
    (id) => [frame(HEADERS, END_HEADERS | END_STREAM, id, fields('/large', literal('accept-encoding', 'br')))],
    (id) => [frame(HEADERS, END_HEADERS | END_STREAM, id, fields('/large')), frame(RST_STREAM, 0, id, Buffer.from([0, 0, 0, 8]))],
    (id) => [frame(HEADERS, END_HEADERS, id, fields('/held', literal('content-length', '200'))), frame(DATA, 0, id, small), frame(RST_STREAM, 0, id, Buffer.from([0, 0, 0, 8]))],
    (id) => [frame(HEADERS, END_HEADERS, id, fields('/held', literal('content-length', '50'))), frame(DATA, END_STREAM, id, small)],
    (id) => [frame(HEADERS, 0, id, fields('/held', Buffer.alloc(1500, 0x90))), frame(CONTINUATION, END_HEADERS, id, literal('a', 'b'))],
    (id) => [frame(HEADERS, 0, id, fields('/held', literal('A', 'b'))), frame(CONTINUATION, END_HEADERS, id, literal('a', 'b'))],
    (id) => [frame(HEADERS, 0, id, fields('/held')), frame(CONTINUATION, 0, id, Buffer.alloc(500, 0x90))], // and no end: what follows is an error of the connection
  ];
  const HTTP1 = ['GET /he', 'GET /held HTTP/1.1\r\n', `GET /held HTTP/1.1\r\nHost: ${host}\r\n${'a:\r\n'.repeat(800)}`, `GET /held HTTP/1.1\r\nHost: ${host}\r\n${'a:\r\n'.repeat(1200)}`,
    `GET /held HTTP/1.1\r\nHost: ${host}\r\n\r\n`, `GET /large HTTP/1.1\r\nHost: ${host}\r\n\r\n`, `POST /held HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 50\r\n\r\nx`, `POST /held HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n`,
    `GET /held HTTP/1.1\r\nHost: ${host}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`, `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\nGET /large HTTP/1.1\r\nHost: ${host}\r\n\r\nGE`, `GET / HTTP/1.1\r\nHost: ${host}\r\nX: ${'x'.repeat(20000)}\r\n\r\n`];
  let made = 0, turn = 0;
  const one = () => new Promise((resolve) => {
    const n = turn++, two = n % 2, socket = tls.connect({ host: edge.host, port, servername: host, ca, localAddress, ALPNProtocols: [two ? 'h2' : 'http/1.1'] });
    const end = () => { socket.destroy(); resolve(); };
    socket.on('error', end).on('close', end).on('secureConnect', () => {
      const all = two ? Array.from({ length: STREAMS }, (_, i) => HTTP2[(n + i * (1 + n % 5)) % (i === STREAMS - 1 ? HTTP2.length : HTTP2.length - 1)](2 * i + 1)).flat() : [HTTP1[(n >> 1) % HTTP1.length]];
      made += two ? STREAMS : 1;
      socket.write(two ? Buffer.concat([PREFACE, window(n % 3 * 5000), ...all]) : all[0]);
      setTimeout(end, n % 7 * 5); // some before the edge has read it, some when it has answered
    });
    if (two) socket.pause();
  });
  await until(async () => await taken() === 0, 'nothing is under way', WAIT);
  await Promise.all(Array.from({ length: AT_ONCE }, async () => { while (made < ABORTS) await one(); }));
  await until(async () => await taken() === 0, 'all that they were charged comes back', WAIT);
  held.length = 0;
  await allFree(ready, CONNECTIONS);
  assert.equal((await ask(ready, { localAddress })).status, 200, 'the next one of this client');
  console.log(`aborts: ${made} requests`);
});
