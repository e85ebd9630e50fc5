// No client, and no account, takes a worker's memory away from others: with requests that wait for a client that takes nothing of them, with heads
// that do not come to their end, with forms of sign-ins (services/edge/http/portion.h). A stack with little of it.
import assert from 'node:assert/strict';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { ALONE, HEADS, NEWEST, WAIT, ask, begun, charged, fieldsOf, literal, metric, onFrames, port, publish, servesOthers, session, skip, stack, window } from '../support/clients.mjs';
import { CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame, statusOf } from '../support/h2raw.mjs';
import { EMAIL, provider, signer } from '../support/saml.mjs';
import { edge, tail, until, upstream } from '../support/postern.mjs';

const MEMORY = 16 << 20, OF_ACCOUNT = 0.61 * ALONE; // of all, what one client has of one account's at most
const MANY = 'x'.repeat(20) + '\n';

// '/held' waits for its end, '/events' is a stream of events.
const ready = stack({ POSTERN_WORKER_CONNECTIONS: '512', POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_SEND_TIMEOUT: '8s', POSTERN_CLIENT_TAKE_MIN: '1k', POSTERN_CLIENT_HEADER_TIMEOUT: '5m' }, async ({ call }) => {
  const held = [], events = [];
  const backend = await upstream((request, response) => {
    if (request.url === '/held') held.push(response);
    else if (request.url === '/events') { events.push(response); response.writeHead(200, { 'Content-Type': 'text/event-stream' }); response.write('data: 1\n\n'); }
    else response.end(MANY);
  });
  const { host, id, backend: { id: to } } = await publish(call, backend.address), fixed = await call('/backends/http_response', { body: MANY.repeat(40), status_code: 200 });
  await call(`/edges/https/${id}/routes`, { match_type: 'exact_path', match: '/fixed', backend: { backend_id: fixed.id } });
  const { saml } = await call(`/edges/https/${id}/routes`, { match_type: 'path_prefix', match: '/people', backend: { backend_id: to }, saml: { idp_metadata: provider([signer()]).metadata, nameid_format: EMAIL } });
  return { host, held, events, acs: new URL(saml.assertion_consumer_service_url), end: () => backend.close() };
});

// A connection of HTTP/2 that takes no byte of a body: answers of its requests by status, which `got` has.
async function greedy(got, localAddress) {
  const { host } = await ready, { socket } = await begun(ready, window(0), { localAddress, http2: true });
  let next = 1;
  onFrames(socket, (type, stream, payload, flags) => {
    if (type === SETTINGS && !(flags & 1) && payload.length) socket.write(frame(SETTINGS, 1, 0));
    if (type === HEADERS) { const code = statusOf(payload); got[code] = (got[code] ?? 0) + 1; }
    if (type === RST_STREAM && stream) got.reset++;
  });
  // 3,900 bytes once, and a byte for each time after it
  const ordinary = fieldsOf(host, '/fixed');
  const head = () => Buffer.concat([ordinary, next === 1 ? literal('x-a', 'a'.repeat(3900), 0x40) : Buffer.alloc(0), Buffer.alloc(15, NEWEST)]);
  return { socket, request(small) { socket.write(frame(HEADERS, END_HEADERS | END_STREAM, next, small ? ordinary : head())); next += 2; } };
}

test('who takes no answer has its portion of the memory for requests, and then none; who takes a byte now and then is cut off', { skip, timeout: 400000 }, async () => {
  const { events } = await ready, SESSIONS = 3, STREAMS = 100, got = { reset: 0 }, sessions = [], heard = [];
  const { host, ca } = await ready;
  const listener = https.get({ host: edge.host, port, servername: host, ca, path: '/events', headers: { Host: host }, agent: false }, (answer) => answer.on('data', (part) => heard.push(String(part))));
  await until(() => heard.length === 1, 'an event of a stream', WAIT);
  let ticks;
  try {
    for (let i = 0; i < SESSIONS; i++) sessions.push(await greedy(got, '127.0.0.21'));
    for (const session of sessions) for (let k = 0; k < STREAMS; k++) session.request(); // at once: 8 s later the first of them are cut off
    let size = 0;
    ticks = setInterval(() => { size++; for (const { socket } of sessions) socket.write(window(size)); }, 500);
    await until(() => Object.values(got).reduce((sum, n) => sum + n) >= SESSIONS * STREAMS, 'each is answered', WAIT);
    const memory = await charged(), crowded = await metric('requests_crowded_total{worker="0"}');
    assert.ok(memory < MEMORY * ALONE + 200000, `${memory} bytes are taken`);
    assert.ok(got[200] > 20 && got[200] <= MEMORY * ALONE / 130000 + 1, `${JSON.stringify(got)}`);
    assert.ok(crowded >= SESSIONS * STREAMS / 2, `${crowded} were refused`);
    await servesOthers(ready);
    // a byte each half a second is not enough
    await until(async () => await charged() < 200000, 'they are cut off', WAIT);
    assert.ok(await metric('clients_slow_total{worker="0"}') > 0, 'for what they took');
    assert.ok(sessions.some(({ socket }) => !socket.destroyed), 'their connections are not what ended them');
    assert.equal(heard.length, 1);
    events[0].write('data: 2\n\n');
    await until(() => heard.length === 2, 'and a stream that had nothing to send goes on', WAIT);
  } finally {
    clearInterval(ticks);
    listener.destroy();
    for (const { socket } of sessions) socket.destroy();
  }
  await until(async () => (await ask(ready, { localAddress: '127.0.0.21' })).status === 200, 'its next one, afterwards', WAIT);
});

test('clients that take all that they can get of an account leave something to its next client', { skip, timeout: 300000 }, async () => {
  const SESSIONS = 2, STREAMS = 60, sessions = [];
  try {
    for (const localAddress of ['127.0.0.51', '127.0.0.52', '127.0.0.53']) {
      const got = { reset: 0 }, mine = [];
      for (let i = 0; i < SESSIONS; i++) mine.push(await greedy(got, localAddress));
      sessions.push(...mine);
      for (const small of [false, true]) {
        for (const session of mine) for (let k = 0; k < STREAMS; k++) session.request(small);
        const before = got[503] ?? 0;
        await until(() => (got[503] ?? 0) + got.reset > before || mine.every(({ socket }) => socket.destroyed), 'it has its portion', WAIT);
      }
    }
    await servesOthers(ready);
  } finally { for (const { socket } of sessions) socket.destroy(); }
  await until(async () => await charged() === 0, 'all of it comes back', WAIT);
});

// ---- bodies ----

test('bodies count in the portion of who sends them, as much as the edge has for them', { skip, timeout: 300000 }, async () => {
  const { host, held } = await ready, COUNT = 100, localAddress = '127.0.0.30', EACH = (20 << 10) + (64 << 10), most = MEMORY * OF_ACCOUNT / EACH, refused = new Set();
  await until(async () => await charged() === 0, 'nothing is under way', WAIT);
  const post = Buffer.concat([Buffer.from([0x83, 0x87]), literal(':path', '/held'), literal(':authority', host)]), streams = Array.from({ length: COUNT }, (_, i) => 1 + 2 * i), last = 2 * COUNT + 1;
  // their lengths nobody has said, and nothing of them comes; the edge looks at a connection's requests in their order
  const { socket, answers, gone } = await begun(ready, Buffer.concat(streams.map((stream) => frame(HEADERS, END_HEADERS, stream, post))), { localAddress, http2: true });
  onFrames(socket, (type, stream, payload) => { if (stream && (type === RST_STREAM || (type === HEADERS && statusOf(payload) === 503))) refused.add(stream); });
  socket.write(frame(HEADERS, END_HEADERS | END_STREAM, last, fieldsOf(host, '/fixed')));
  try {
    await until(() => answers[last] || refused.has(last) || gone(), 'the last one is answered', WAIT);
    refused.delete(last);
    const open = COUNT - refused.size, memory = await charged();
    assert.ok(!gone() && open > most / 2 && open <= most + 1, `${open} of ${COUNT} are let in`);
    assert.ok(memory >= open * EACH && memory < MEMORY * ALONE, `${memory} bytes are taken by ${open}`);
    await servesOthers(ready);
    for (const stream of streams) if (!refused.has(stream)) socket.write(frame(DATA, END_STREAM, stream));
    await until(async () => held.length === open && await charged() < open * EACH / 3, 'what has ended is charged what came of it', WAIT);
  } finally {
    socket.destroy();
    held.splice(0);
  }
  await until(async () => await charged() === 0, 'all of it comes back', WAIT);
  assert.equal((await ask(ready, { localAddress })).status, 200, 'its next one, afterwards');
});

// ---- heads that do not come to their end ----

for (const [version, head] of Object.entries(HEADS)) {
  const http2 = version === 'HTTP/2', FIELDS = 900, most = MEMORY * ALONE, COUNT = Math.ceil(most / head.bytes(FIELDS)) + 20; // so many as need all that one has, and some
  test(`${version}: heads that are not whole yet count in their client's portion of the memory, as much as there is of them`, { skip, timeout: 400000 }, async () => {
    const { host, state } = await ready, localAddress = http2 ? '127.0.0.25' : '127.0.0.26', all = [], traffic = tail('http_request_complete', { POSTERN_HOME: state });
    await until(async () => { await ask(ready); return traffic.events.length; }, 'somebody listens', WAIT);
    await until(async () => await charged() === 0, 'nothing is under way', WAIT);
    const before = await metric('requests_crowded_total{worker="0"}'), gone = (one) => one.answer() || one.gone();
    try {
      for (let i = 0; i < COUNT; i++) all.push(await begun(ready, head.start(host, FIELDS), { localAddress, http2 }));
      await until(() => all.filter(gone).length >= COUNT - most / head.bytes(FIELDS), 'those beyond the portion are refused', WAIT);
      const told = all.filter(gone).length, refused = await metric('requests_crowded_total{worker="0"}') - before, memory = await charged();
      assert.ok(memory > most / 2 && memory < most, `${memory} bytes are taken`);
      assert.ok(refused >= told, `${refused} were refused, ${told} know`);
      assert.ok(all.some(({ answer }) => answer() === 503) && all.every(({ answer }) => [0, 503].includes(answer())), 'and told so');
      if (!http2) assert.match(all.find(({ answer }) => answer() === 503).text(), /\r\nPostern-Error-Code: ERR_POSTERN_928\r\n/i);
      await until(() => traffic.events.some(({ object: { http: { response } } }) => response.status_code === 503 && response.error_code === 'ERR_POSTERN_928'), 'their events say so', WAIT);
      await servesOthers(ready);
      const [first, other] = all.filter((one) => !gone(one));
      other.socket.destroy();
      await until(async () => await charged() < memory, 'there is room', WAIT);
      first.socket.write(head.end);
      await until(() => first.answer() === 200, 'what comes to its end is served', WAIT);
      const slow = await begun(ready, head.start(host, 1), { localAddress, http2 });
      all.push(slow);
      const small = [];
      for (let i = 0; i < 12; i++) small.push(await begun(ready, head.start(host, 1), { localAddress, http2 }));
      all.push(...small);
      await until(() => small.some(gone), 'not even for a small one any more', WAIT);
      assert.ok(!gone(slow), 'it has come in before');
      slow.socket.write(http2 ? frame(CONTINUATION, 0, 1, Buffer.alloc(FIELDS, NEWEST)) : 'a:\r\n'.repeat(FIELDS));
      await until(() => gone(slow), 'it is refused when it grows', WAIT);
    } finally {
      for (const { socket } of all) socket.destroy();
      await traffic.stop();
    }
    await until(async () => await charged() === 0, 'all of it comes back', WAIT);
    assert.equal((await ask(ready, { localAddress })).status, 200, 'its next one, afterwards');
  });

  test(`${version}: a request has at most 1,000 fields, whole or not`, { skip, timeout: 300000 }, async () => {
    const { host } = await ready;
    for (const [count, ending, want] of [[900, head.end, 200], [1010, head.end, 431], [1010, '', 431]]) {
      const one = await begun(ready, head.start(host, count), { localAddress: '127.0.0.27', http2 });
      one.socket.write(ending);
      await until(() => one.answer() !== 0, `an answer to ${count}`, WAIT);
      assert.equal(one.answer(), want, `${count} fields ${ending.length ? '' : 'and no end'}`);
      one.socket.destroy();
    }
    await until(async () => await charged() === 0, 'all of it comes back', WAIT);
  });
}

test('HTTP/2: of heads that are refused, and go on without end, a client has few, and nobody else loses a connection by them', { skip, timeout: 300000 }, async () => {
  const { host, held } = await ready, localAddress = '127.0.0.28', KEPT = Math.floor(64 * ALONE), COUNT = 80, all = [], open = frame(HEADERS, END_HEADERS | END_STREAM, 3, fieldsOf(host, '/fixed'));
  const start = frame(HEADERS, END_STREAM, 1, Buffer.concat([fieldsOf(host, '/fixed'), literal('A', 'b'), literal('a', 'x'.repeat(2000), 0x40), Buffer.alloc(10, NEWEST)])); // nginx refuses capitals
  let other;
  try {
    for (let i = 0; i < COUNT; i++) all.push(await begun(ready, start, { localAddress, http2: true }));
    await until(() => all.filter((one) => one.gone()).length >= COUNT - KEPT, 'those beyond its portion end', WAIT);
    await servesOthers(ready);
    // a head with too many fields in three frames, while another request of that connection is under way
    other = await begun(ready, frame(HEADERS, END_HEADERS | END_STREAM, 1, fieldsOf(host, '/held')), { localAddress: '127.0.0.29', http2: true });
    await until(() => held.length === 1, 'it is under way', WAIT);
    other.socket.write(frame(HEADERS, END_STREAM, 3, Buffer.concat([fieldsOf(host, '/fixed'), literal('a', 'x', 0x40), Buffer.alloc(1010, NEWEST)])));
    await until(() => other.answers[3] === 431 || other.gone(), 'the head is refused', WAIT);
    other.socket.write(frame(CONTINUATION, 0, 3, Buffer.alloc(100, NEWEST)));
    other.socket.write(frame(CONTINUATION, END_HEADERS, 3, literal('b', 'c')));
    other.socket.write(frame(HEADERS, END_HEADERS | END_STREAM, 5, fieldsOf(host, '/fixed')));
    await until(() => other.answers[5] === 200 || other.gone(), 'and the next request served', WAIT);
    held.splice(0)[0].end('x');
    await until(() => other.answers[1] === 200 || other.gone(), 'as is the one that was under way', WAIT);
    assert.deepEqual([other.answers, other.gone()], [{ 1: 200, 3: 431, 5: 200 }, false]);
    const first = all.find((one) => !one.gone());
    first.socket.write(frame(CONTINUATION, END_HEADERS, 1, literal('b', 'c')));
    first.socket.write(open);
    await until(() => first.answer() === 200, 'what comes to its end goes on with the next request', WAIT);
  } finally {
    for (const { socket } of all) socket.destroy();
    other?.socket.destroy();
    for (const response of held.splice(0)) response.end('x');
  }
  await until(async () => (await ask(ready, { localAddress })).status === 200, 'its next one, afterwards', WAIT);
});

// Forms of that many bytes at the sign-in host, on one connection of HTTP/2, of which the last bytes never come: {statuses, bodies, end()}.
async function forms(count, bytes, localAddress) {
  const { ca, acs } = await ready, statuses = {}, bodies = [];
  const opened = session({ host: acs.hostname, ca }, localAddress);
  for (let i = 0; i < count; i++) {
    const stream = opened.request({ ':method': 'POST', ':path': acs.pathname, ':authority': acs.host, accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded', 'content-length': bytes });
    let answered = false;
    stream.on('error', () => {}).on('close', () => { if (!answered) statuses.none = (statuses.none ?? 0) + 1; }).on('response', (head) => { answered = true; statuses[head[':status']] = (statuses[head[':status']] ?? 0) + 1; });
    stream.setEncoding('utf8').on('data', (text) => bodies.push(text));
    stream.write('SAMLResponse='.padEnd(bytes - 5, 'A'));
  }
  return { statuses, bodies, end: () => opened.destroy() };
}

test('forms of sign-ins are of the portion of who sends them, have half a minute to come, and others sign in meanwhile', { skip, timeout: 400000 }, async () => {
  const COUNT = 25, BYTES = 131000, { host, ca, acs } = await ready, held = await forms(COUNT, BYTES, '127.0.0.24');
  const post = (body) => new Promise((resolve, reject) => {
    https.request({ host: edge.host, port, servername: acs.hostname, ca, path: acs.pathname, method: 'POST', localAddress: '127.0.0.25', headers: { Host: acs.host, 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': body.length }, agent: false }, (answer) => answer.resume().on('end', () => resolve(answer.statusCode))).on('error', reject).end(body);
  });
  try {
    // four times its bytes are counted for a form: as it comes, and for what is made of it
    const most = Math.floor(MEMORY * ALONE / (4 * BYTES));
    const refused = () => (held.statuses[503] ?? 0) + (held.statuses.none ?? 0); // none: not even the request itself has room
    await until(() => refused() >= COUNT - most, 'the others are refused', WAIT);
    assert.ok(held.bodies.join('').includes('ERR_POSTERN_928'), 'by a page that says so');
    assert.ok(await charged() < MEMORY * ALONE + 200000);
    assert.equal(await post('SAMLResponse=x'), 400, 'what another client posts is read');
    await servesOthers(ready);
    await until(() => held.statuses[408] > 0 && held.statuses[408] + refused() === COUNT, 'those that were read are too late', WAIT);
    assert.ok(held.bodies.join('').includes('ERR_POSTERN_956'));
    await until(async () => await charged() < 200000, 'nothing of them is left', WAIT);
  } finally { held.end(); }
  // over HTTP/1.1 too, byte by byte
  const socket = tls.connect({ host: edge.host, port, servername: acs.hostname, ca, localAddress: '127.0.0.24' }), heard = [];
  socket.on('error', () => {}).setEncoding('utf8').on('data', (text) => heard.push(text));
  socket.write(`POST ${acs.pathname} HTTP/1.1\r\nHost: ${acs.host}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nSAMLResponse=`);
  const drip = setInterval(() => socket.write('A'), 1000);
  try {
    await until(() => heard.join('').includes('ERR_POSTERN_956'), 'an answer', WAIT);
    assert.match(heard.join(''), /^HTTP\/1.1 408 /);
    await until(() => socket.destroyed || socket.readableEnded, 'the end of the connection', WAIT);
  } finally { clearInterval(drip); socket.destroy(); }
  assert.equal((await ask(ready)).status, 200, host);
});
