// Requests that wait in the middle of their route's modules, on an edge with modules that only tests have (tests/edge-module): whatever
// ends such a wait, each request is answered or aborted once, cleaned up once, and leaves one event.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame, headers } from '../support/h2raw.mjs';
import { ca, edge, endpoint, env, listening, must, through, unique, until, upstream } from '../support/postern.mjs';

const ME = 'webhook_verification', FIRST = 'user_agent_filter';
const up = await upstream();
const sub = await listening('http_request_complete');
test.after(() => up.close());
const waiting = (more = {}) => endpoint(up.address, { [FIRST]: {}, [ME]: { provider: 'github', secret: 'fine' }, request_headers: { add: { 'X-Late': 'once' } }, ...more });
const eventsOf = (host) => sub.events.filter(({ object }) => object.http.request.url.host === host).map(({ object }) => object);
const oneEvent = async (host) => {
  await until(() => eventsOf(host).length > 0, 'its event');
  assert.equal(eventsOf(host).length, 1);
  return eventsOf(host)[0];
};

// Counters of a module, all workers together.
async function counts(module) {
  const text = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text());
  return Object.fromEntries([...text.matchAll(new RegExp(`^postern_edge_module_(\\w+)_total\\{module="${module}"\\} (\\d+)`, 'gm'))].map(([, name, value]) => [name, Number(value)]));
}
// How many open streams changes have ended, as the edge and as the writer of the config log count it.
const page = (port) => fetch(`http://127.0.0.1:${port}/metrics`).then((got) => got.text());
const ended = async () => ({
  edge: [...(await page(edge.port - 28)).matchAll(/^postern_edge_streams_ended_total\{worker="\d+"\} (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0),
  writer: Number(/^postern_routes_streams_ended_total (\d+)/m.exec(await page(edge.port - 31))?.[1] ?? -1),
});
// Which of them grew since, and by how much.
const since = async (before) => Object.fromEntries(Object.entries(await counts(ME)).map(([name, value]) => [name, value - before[name]]).filter(([, more]) => more));
const settles = (before, want) => until(async () => {
  const got = await since(before);
  return Object.entries(want).every(([name, value]) => (got[name] ?? 0) === value);
}, `counters: ${JSON.stringify(want)}`).catch(async (error) => { error.message += ` but ${JSON.stringify(await since(before))}`; throw error; });
const pages = (answer) => answer.body.match(/ERR_POSTERN_\d+/)?.[0];
const connect = (host) => new Promise((resolve, reject) => {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca }, () => resolve(socket));
  socket.once('error', reject);
});
const get = (host, target, ...lines) => [`GET ${target} HTTP/1.1`, `Host: ${host}`, ...lines, '', ''].join('\r\n');
const session = (host) => new Promise((resolve, reject) => {
  const one = http2.connect(`https://${host}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['h2'] }) });
  one.on('connect', () => resolve(one)).on('error', reject);
});
const ask = (one, host, target) => new Promise((resolve) => {
  const stream = one.request({ ':path': target, ':authority': host });
  let status = 0;
  stream.on('response', (fields) => { status = fields[':status']; }).on('data', () => {}).on('error', () => {}).on('close', () => resolve(status));
});

test('a request goes on at the module that waited: those before it do not run again, those behind it run once', async () => {
  const to = await waiting(), before = await counts(ME), first = await counts(FIRST);
  up.seen.length = 0;
  const got = await through(to.host, '/timer/50');
  assert.equal(got.status, 200);
  assert.equal(up.seen.length, 1);
  assert.equal(up.seen[0].headers['x-late'], 'once');
  assert.ok(Number(got.headers['x-seen']) > 0, 'what its shared memory has');
  await settles(before, { requests: 1, runs: 2, suspended: 1, resumed: 1, aborted: 0, aborts: 0, cleaned: 1 });
  assert.ok((await since(before)).bodies > 0, 'the body came by');
  const after = await counts(FIRST);
  assert.deepEqual(['runs', 'requests', 'suspended', 'resumed', 'cleaned'].map((name) => after[name] - first[name]), [2, 1, 1, 1, 1]);
  assert.deepEqual((await oneEvent(to.host)).denied, { module: '', route_id: '' });
});

test('shared memory of a module is that of all workers', async () => {
  const to = await waiting(), seen = [];
  for (let i = 0; i < 24; i++) seen.push(Number((await through(to.host, '/')).headers['x-seen']));
  assert.deepEqual(seen, seen.map((_, i) => seen[0] + i));
});

test('denied by it: page, status, event and log say so, and the upstream hears nothing', async () => {
  const to = await waiting(), before = await counts(ME);
  up.seen.length = 0;
  const got = await through(to.host, '/deny');
  assert.deepEqual([got.status, JSON.parse(got.body).status_code, pages(got)], [418, 418, 'ERR_POSTERN_908']);
  assert.equal(up.seen.length, 0);
  const event = await oneEvent(to.host);
  assert.deepEqual(event.denied, { module: ME, route_id: to.route.id });
  assert.equal(event.webhook_verification.decision, 'block');
  assert.equal(event.http.response.status_code, 418);
  await settles(before, { denied: 1, suspended: 0, cleaned: 1 });
});

test('a document that it cannot read denies: route and module are in the log and in the event', async () => {
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  const to = await waiting({ [ME]: { provider: 'github', secret: 'broken' } });
  const got = await through(to.host, '/timer/1');
  assert.deepEqual([got.status, pages(got)], [503, 'ERR_POSTERN_920']);
  assert.deepEqual((await oneEvent(to.host)).denied, { module: ME, route_id: to.route.id });
  assert.match(fs.readFileSync(log, 'utf8').slice(from), new RegExp(`module ${ME} of route ${to.route.id} cannot be enforced`));
  await must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}`); // others count refused entries
});

for (const [what, byte, status] of [['lets it pass', 'a', 200], ['denies it', 'd', 418], ['is an end without a word', '', 418]])
  test(`an answer from a socket ${what}`, async () => {
    const server = net.createServer((socket) => { socket.on('error', () => {}); setTimeout(() => socket.end(byte), 20); });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const to = await waiting(), before = await counts(ME);
    assert.equal((await through(to.host, `/answer/${server.address().port}`)).status, status);
    await settles(before, { suspended: 1, resumed: 1, cleaned: 1, aborts: 0 });
    await oneEvent(to.host);
    server.close();
  });

for (const [what, bodyLength, chunked, pauses, status] of [
  ['that is there', 1000, false, false, 200], ['that comes late', 1000, false, true, 200], ['in chunks, late', 1000, true, true, 200],
  ['that is longer than it says it takes', 1001, false, false, 418], ['that turns out to be longer', 5000, true, true, 418], ['that is none', 0, false, false, 200],
])
  test(`a body ${what}: ${status}`, async () => {
    const to = await waiting(), before = await counts(ME), body = 'x'.repeat(bodyLength);
    up.seen.length = 0;
    const got = await new Promise((resolve, reject) => {
      const request = https.request({ host: edge.host, port: edge.port, servername: to.host, ca, path: '/body', method: 'POST', agent: false,
        headers: { Host: to.host, ...(chunked ? { 'Transfer-Encoding': 'chunked' } : { 'Content-Length': bodyLength }) } }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      }).on('error', reject);
      request.flushHeaders();
      if (!pauses) return request.end(body);
      request.write(body.slice(0, 400));
      setTimeout(() => request.end(body.slice(400)), 100);
    });
    assert.equal(got, status);
    assert.equal(up.seen.length, status === 200 ? 1 : 0);
    if (status === 200) assert.equal(up.seen[0].body.length, bodyLength);
    await settles(before, { requests: 1, cleaned: 1, aborts: 0, denied: status === 200 ? 0 : 1 });
    await oneEvent(to.host);
  });

test('one that waits for too long is denied, and aborted once', async () => {
  const to = await waiting(), before = await counts(ME);
  const got = await through(to.host, '/brief');
  assert.deepEqual([got.status, pages(got)], [503, 'ERR_POSTERN_908']);
  await settles(before, { suspended: 1, resumed: 0, aborted: 1, aborts: 1, expired: 1, denied: 1, cleaned: 1 });
  assert.deepEqual((await oneEvent(to.host)).denied, { module: ME, route_id: to.route.id });
});

test('what is left of a body that was too long is not the next request', async () => {
  const to = await waiting(), before = await counts(ME), socket = await connect(to.host);
  let text = '';
  socket.on('data', (part) => { text += part.toString('latin1'); }).on('error', () => {});
  const closed = new Promise((resolve) => socket.on('close', resolve));
  socket.write(`POST /body HTTP/1.1\r\nHost: ${to.host}\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n${'x'.repeat(1100)}`);
  await until(() => text.includes('418'), 'it is denied');
  socket.write(get(to.host, '/smuggled'));
  await closed;
  assert.equal([...text.matchAll(/HTTP\/1\.1 \d+/g)].length, 1);
  await settles(before, { requests: 1, cleaned: 1, denied: 1 });
  await oneEvent(to.host);
});

// A request of HTTP/1.1 whose body comes in pieces: what has been answered, and whether the connection has ended.
async function pieces(host, target, first, ...lines) {
  const got = { text: '', closed: false }, socket = got.socket = await connect(host);
  socket.on('data', (part) => { got.text += part.toString('latin1'); }).on('error', () => {}).on('close', () => { got.closed = true; });
  socket.write(`POST ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('\r\n')}\r\n\r\n${first}`);
  got.statuses = () => [...got.text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
  return got;
}

test('a body that turns out to be none while the request waits for it: its module hears so before the page goes', async () => {
  const to = await waiting(), before = await counts(ME), got = await pieces(to.host, '/read', '5\r\nhello\r\n', 'Transfer-Encoding: chunked');
  await settles(before, { suspended: 1 });
  got.socket.write('zz\r\n');
  await until(() => got.text.includes('ERR_POSTERN'), 'a page');
  assert.deepEqual(got.statuses(), [400]);
  const after = await since(before);
  assert.deepEqual([after.aborted, after.aborts, after.expired, after.resumed], [1, 1, undefined, undefined]);
  got.socket.destroy();
  await settles(before, { cleaned: 1, aborted: 1, aborts: 1, expired: 0 });
  await oneEvent(to.host);
});

// A POST of HTTP/2 by a client that takes nothing of the answer's body until it says so.
async function unread(host, target, length) {
  const got = { statuses: 0, pages: 0, resets: 0 }, HEADERS_TYPE = 1, RST_STREAM = 3, WINDOW_UPDATE = 8;
  const socket = got.socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['h2'] }).on('error', () => {});
  const window = Buffer.alloc(6), room = Buffer.alloc(4); // SETTINGS_INITIAL_WINDOW_SIZE 0
  window.writeUInt16BE(4, 0);
  room.writeUInt32BE(65535, 0);
  let rest = Buffer.alloc(0);
  socket.on('data', (part) => {
    for (rest = Buffer.concat([rest, part]); rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3); rest = rest.subarray(9 + rest.readUIntBE(0, 3))) {
      got.statuses += rest[3] === HEADERS_TYPE;
      got.pages += rest[3] === DATA && (rest[4] & END_STREAM) > 0;
      got.resets += rest[3] === RST_STREAM && rest.readUInt32BE(9) > 0;
    }
  });
  got.send = (text) => socket.write(frame(DATA, 0, 1, Buffer.from(text)));
  got.take = () => socket.write(frame(WINDOW_UPDATE, 0, 1, room));
  await new Promise((resolve) => socket.on('secureConnect', resolve));
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0, window),
    frame(HEADERS, END_HEADERS, 1, headers([[':method', 'POST'], [':scheme', 'https'], [':authority', host], [':path', target], ['content-length', String(length)]]))]));
  return got;
}

test('HTTP/2: the same, and the client takes nothing of the page', async () => {
  const to = await waiting(), before = await counts(ME), got = await unread(to.host, '/read', 3);
  await settles(before, { suspended: 1 });
  got.send('far too much');
  await settles(before, { suspended: 1, aborted: 1, aborts: 1, expired: 0, resumed: 0 });
  got.take();
  await until(() => got.pages === 1, 'the page, when the client takes it');
  got.socket.destroy();
  await settles(before, { cleaned: 1, aborted: 1, aborts: 1, expired: 0 });
  await oneEvent(to.host);
});

test('HTTP/2: what comes of a body behind its page, when the wait for it was over, is thrown away, also too much of it', async () => {
  const to = await waiting(), before = await counts(ME), got = await unread(to.host, '/read', 100);
  got.send('abc');
  await settles(before, { suspended: 1, expired: 1 });
  got.send('x'.repeat(500));
  got.take();
  await until(() => got.pages + got.resets > 0, 'an end');
  assert.deepEqual([got.statuses, got.pages, got.resets], [1, 1, 0]);
  got.socket.destroy();
  await settles(before, { cleaned: 1, expired: 1 });
  await oneEvent(to.host);
});

test('woken by something else while its body is read, a request asks for it again and gets all of it', async () => {
  const to = await waiting(), before = await counts(ME);
  up.seen.length = 0;
  const got = await pieces(to.host, '/both/50', 'x'.repeat(400), 'Content-Length: 1000');
  await settles(before, { suspended: 2, resumed: 1 });
  got.socket.write('x'.repeat(600));
  await until(() => got.statuses().length === 1, 'an answer');
  assert.deepEqual(got.statuses(), [200]);
  assert.equal(up.seen[0].body.length, 1000);
  got.socket.write(get(to.host, '/timer/1'));
  await until(() => got.statuses().length === 2, 'the connection has its next request');
  assert.deepEqual(got.statuses(), [200, 200]);
  await settles(before, { requests: 2, suspended: 3, resumed: 3, aborted: 0, cleaned: 2 });
  got.socket.destroy();
});

test('HTTP/2: the same', async () => {
  const to = await waiting(), before = await counts(ME), one = await session(to.host);
  up.seen.length = 0;
  const stream = one.request({ ':method': 'POST', ':path': '/both/50', ':authority': to.host });
  let status = 0;
  stream.on('response', (fields) => { status = fields[':status']; }).on('data', () => {});
  stream.write('x'.repeat(400));
  await settles(before, { suspended: 2, resumed: 1 });
  stream.end('x'.repeat(600));
  await new Promise((resolve) => stream.on('close', resolve));
  assert.equal(status, 200);
  assert.equal(up.seen[0].body.length, 1000);
  await settles(before, { suspended: 2, resumed: 2, aborted: 0, cleaned: 1 });
  one.destroy();
});

test('a body that is there before what else the module waits for', async () => {
  const to = await waiting(), before = await counts(ME);
  up.seen.length = 0;
  assert.equal((await through(to.host, '/both/100', { method: 'POST', body: 'x'.repeat(1000) })).status, 200);
  assert.equal(up.seen[0].body.length, 1000);
  await settles(before, { aborted: 0, cleaned: 1 });
});

test('a module that goes on without the body that it asked for breaks its contract: no part of it reaches the upstream, and no request follows', async () => {
  const to = await waiting(), before = await counts(ME);
  up.seen.length = 0;
  const got = await pieces(to.host, '/careless/50', 'x'.repeat(400), 'Content-Length: 1000');
  await until(() => got.statuses().length === 1, 'an answer');
  got.socket.write(`${'x'.repeat(600)}${get(to.host, '/smuggled')}`);
  await until(() => got.closed, 'the end of the connection');
  assert.deepEqual(got.statuses(), [500]);
  assert.equal(up.seen.length, 0);
  await settles(before, { requests: 1, suspended: 1, resumed: 1, cleaned: 1 });
  await oneEvent(to.host);
});

test('a module that says that it waits and does not breaks its contract, also where none has waited before: 500', async () => {
  const to = await waiting({ [FIRST]: undefined }), before = await counts(ME);
  assert.equal((await through(to.host, '/hang')).status, 500);
  await settles(before, { requests: 1, suspended: 0, cleaned: 1 });
  await oneEvent(to.host);
});

for (const [what, target, leave] of [
  ['closes its connection', '/never', (socket) => socket.end()],
  ['resets its connection', '/never', (socket) => socket.resetAndDestroy()],
  ['closes while a timer runs', '/timer/60000', (socket) => socket.destroy()],
])
  test(`a client that ${what} is noticed while its request waits`, async () => {
    const to = await waiting(), before = await counts(ME);
    const raw = net.connect({ host: edge.host, port: edge.port });
    const socket = tls.connect({ socket: raw, servername: to.host, ca }).on('error', () => {});
    await new Promise((resolve) => socket.on('secureConnect', resolve));
    socket.write(get(to.host, target));
    await settles(before, { suspended: 1 });
    leave(target === '/never' && what.startsWith('resets') ? raw : socket);
    await settles(before, { suspended: 1, resumed: 0, aborted: 1, aborts: 1, cleaned: 1, denied: 0 });
    assert.equal((await oneEvent(to.host)).http.response.status_code, 499);
  });

test('a client that was gone when the wait began is noticed, too', async () => {
  const to = await waiting(), before = await counts(ME);
  const raw = net.connect({ host: edge.host, port: edge.port, allowHalfOpen: true }); // its side ends, and no reset overtakes the request
  const socket = tls.connect({ socket: raw, servername: to.host, ca }).on('error', () => {});
  await new Promise((resolve) => socket.on('secureConnect', resolve));
  socket.resume();
  socket.write(get(to.host, '/never'), () => raw.end());
  await settles(before, { suspended: 1, aborted: 1, aborts: 1, cleaned: 1 });
  await oneEvent(to.host);
});

test('a client that leaves in the middle of its body', async () => {
  const to = await waiting(), before = await counts(ME);
  const socket = await connect(to.host);
  socket.write(`POST /body HTTP/1.1\r\nHost: ${to.host}\r\nContent-Length: 900\r\n\r\nhalf of it`);
  await settles(before, { suspended: 1 });
  socket.destroy();
  await settles(before, { suspended: 1, resumed: 0, aborted: 1, aborts: 1, cleaned: 1 });
  await oneEvent(to.host);
});

test('HTTP/2: a stream that is reset, beside others that go on', async () => {
  const to = await waiting(), before = await counts(ME), one = await session(to.host);
  const gone = one.request({ ':path': '/never', ':authority': to.host }).on('error', () => {});
  const others = Array.from({ length: 5 }, () => ask(one, to.host, '/timer/300'));
  await settles(before, { suspended: 6 });
  gone.close(http2.constants.NGHTTP2_CANCEL);
  assert.deepEqual(await Promise.all(others), [200, 200, 200, 200, 200]);
  await settles(before, { suspended: 6, resumed: 5, aborted: 1, aborts: 1, cleaned: 6 });
  await until(() => eventsOf(to.host).length === 6, 'an event of each');
  one.destroy();
});

test('a change that takes the route away ends what waits for it, with a page', async () => {
  const to = await waiting(), before = await counts(ME);
  const asked = [through(to.host, '/never'), through(to.host, '/timer/60000')];
  await settles(before, { suspended: 2 });
  await must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}`);
  for (const got of await Promise.all(asked)) assert.equal(pages(got), 'ERR_POSTERN_902');
  await settles(before, { suspended: 2, resumed: 0, aborted: 2, aborts: 2, cleaned: 2 });
  await until(() => eventsOf(to.host).length === 2, 'an event of each');
});

test('a request that wakes under a configuration that no longer allows it does not reach the upstream', async () => {
  const to = await waiting();
  up.seen.length = 0;
  const server = net.createServer((socket) => { socket.on('error', () => {}); server.told = socket; });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const asked = through(to.host, `/answer/${server.address().port}`);
  await until(() => server.told, 'it waits');
  await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { request_headers: { add: { 'X-Ip': '${conn.client_ip}' } } });
  server.told.end('a'); // as a rule before the walk over open requests comes by
  assert.equal(pages(await asked), 'ERR_POSTERN_908');
  assert.equal(up.seen.length, 0);
  await oneEvent(to.host);
  server.close();
});

test('requests behind one that waits, on the same connection', async () => {
  const to = await waiting(), before = await counts(ME), socket = await connect(to.host);
  let text = '';
  socket.on('data', (part) => { text += part.toString('latin1'); });
  socket.write(get(to.host, '/timer/100') + get(to.host, '/brief') + get(to.host, '/deny') + get(to.host, '/timer/1', 'Connection: close'));
  await new Promise((resolve) => socket.on('close', resolve));
  assert.deepEqual([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status)), [200, 503, 418, 200]);
  await settles(before, { suspended: 3, resumed: 2, aborted: 1, cleaned: 4 });
  await until(() => eventsOf(to.host).length === 4, 'an event of each');
});

test('10,000 requests wait at once: some are answered, some reset, some lose their connection, some their route', { timeout: 300000 }, async () => {
  const PER = 125, KINDS = ['answered', 'reset', 'closed', 'route'];
  const round = async (sessions) => {
    const stays = await waiting(), goes = await waiting(), before = await counts(ME), all = sessions * PER;
    const open = await Promise.all(Array.from({ length: sessions }, async (_, i) => {
      const kind = KINDS[i % KINDS.length], host = (kind === 'route' ? goes : stays).host, one = await session(host);
      one.on('error', () => {});
      const streams = Array.from({ length: PER }, () => one.request({ ':path': kind === 'answered' ? '/gate' : '/never', ':authority': host }).on('error', () => {}).on('data', () => {}));
      const ends = streams.map((stream) => new Promise((resolve) => stream.on('close', resolve)));
      const statuses = streams.map(() => 0);
      streams.forEach((stream, k) => stream.on('response', (fields) => { statuses[k] = fields[':status']; }));
      return { kind, one, streams, ends, statuses };
    }));
    await settles(before, { suspended: all, resumed: 0, aborted: 0 });
    const of = (kind) => open.filter((each) => each.kind === kind);
    for (const { streams } of of('reset')) for (const stream of streams) stream.close(http2.constants.NGHTTP2_CANCEL);
    for (const { one } of of('closed')) one.destroy();
    const were = await ended();
    await must('DELETE', `/edges/https/${goes.edge.id}/routes/${goes.route.id}`);
    await until(async () => { const now = await ended(); return now.edge - were.edge === all / 4 && now.writer - were.writer === all / 4; }, 'those are counted, here and where the change was made');
    const opener = await through(stays.host, '/open');
    assert.equal(opener.status, 200);
    await Promise.all(open.flatMap(({ ends }) => ends));
    assert.ok(of('answered').every(({ statuses }) => statuses.every((status) => status === 200)), 'those that nobody took away are answered');
    assert.ok(of('route').every(({ statuses }) => statuses.every((status) => status === 404)), 'those whose route is gone get its page');
    await settles(before, { requests: all + 1, suspended: all, resumed: all / 4, aborted: 3 * all / 4, aborts: 3 * all / 4, cleaned: all + 1 });
    await until(() => eventsOf(stays.host).length + eventsOf(goes.host).length === all + 1, 'an event of each');
    for (const { one } of open) one.destroy();
  };
  await round(80);
});
