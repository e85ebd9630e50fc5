// No client, and no account, takes a worker of the edge away from others: neither its memory, with requests that wait for a client that takes
// nothing of them, nor its connections, nor its encoders (services/edge/http/portion.h). A stack of its own with little of each.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { CONTINUATION, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame, statusOf } from '../support/h2raw.mjs';
import { own } from '../support/own.mjs';
import { EMAIL, provider, signer } from '../support/saml.mjs';
import { edge, elsewhere, env, tail, unique, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, plain = edge.plainPort + 1000, status = port - 28, CONNECTIONS = 512, MEMORY = 16 << 20, BALANCER = '127.0.0.8';
const ALONE = 0.39, OF_ACCOUNT = 0.61 * ALONE, WAIT = 120000; // of all, what one client has at most, and what of one account's; milliseconds for what comes soon on a machine with nothing else to do
const MANY = 'x'.repeat(20) + '\n', BULK = 4 << 20;

async function metric(name) {
  const text = await fetch(`http://127.0.0.1:${status}/metrics`).then((got) => got.text());
  const [, number] = new RegExp(`^postern_edge_${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(text) ?? assert.fail(`${name} is not there`);
  return Number(number);
}

// The stack: {host, ask} of an endpoint with compression. '/held' waits for release(), '/events' is a stream of events, '/large' and '/bulks' never end.
let there, stack;
const ready = new Promise((resolve, reject) => { there = { resolve, reject }; });
let finish;
const finished = new Promise((resolve) => { finish = resolve; });

test.before(async () => {
  if (skip) return;
  stack = own(async ({ state, run }) => {
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_WORKER_CONNECTIONS: String(CONNECTIONS), POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_SEND_TIMEOUT: '8s', POSTERN_CLIENT_TAKE_MIN: '1k', POSTERN_CLIENT_HEADER_TIMEOUT: '5m' } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const held = [], events = [];
    const noise = crypto.randomBytes(45000).toString('base64'), bulk = crypto.randomBytes(BULK);
    const backend = await upstream((request, response) => {
      if (request.url === '/held') held.push(response);
      else if (request.url === '/events') { events.push(response); response.writeHead(200, { 'Content-Type': 'text/event-stream' }); response.write('data: 1\n\n'); }
      else if (request.url === '/large') {
        response.writeHead(200, { 'Content-Type': 'text/plain' }).on('error', () => {});
        const more = () => { while (response.write(MANY.repeat(3000))); };
        response.on('drain', more);
        more();
      } else if (request.url === '/bulk') response.writeHead(200, { 'Content-Type': 'text/plain' }).end(bulk);
      else if (request.url === '/bulks') { // one behind the other, without end
        response.writeHead(200, { 'Content-Type': 'text/plain' }).on('error', () => {});
        const more = () => { while (response.write(bulk)); };
        response.on('drain', more);
        more();
      } else response.writeHead(200, { 'Content-Type': 'text/plain' }).end(request.url === '/noise' ? noise : MANY.repeat(50));
    });
    const host = unique('portions');
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const { id } = await call('/backends/static', { address: backend.address }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    const fixed = await call('/backends/http_response', { body: MANY.repeat(40), status_code: 200 });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: id }, compression: {} });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'exact_path', match: '/fixed', backend: { backend_id: fixed.id } });
    const { saml } = await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/people', backend: { backend_id: id }, saml: { idp_metadata: provider([signer()]).metadata, nameid_format: EMAIL } });
    const ca = fs.readFileSync(vars.POSTERN_EDGE_CA);
    there.resolve({ host, ca, state, backend, held, events, acs: new URL(saml.assertion_consumer_service_url) });
    await finished;
    backend.server.closeAllConnections();
    backend.server.close();
  });
  stack.catch(there.reject);
  await ready;
});
test.after(async () => { finish(); await stack; });

// One request, on a connection of its own: {status, headers}. From another address than who has its portion, unless it says so.
async function ask({ path = '/', localAddress = '127.0.0.20', headers = {} } = {}) {
  const { host, ca } = await ready;
  return new Promise((resolve, reject) => {
    https.get({ host: edge.host, port, servername: host, ca, path, localAddress, headers: { Host: host, ...headers }, agent: false }, (answer) => answer.resume().on('end', () => resolve({ status: answer.statusCode, headers: answer.headers })).on('error', reject)).on('error', reject);
  });
}
async function servesOthers(times = 10) {
  for (let i = 0; i < times; i++) assert.equal((await ask()).status, 200, 'another client');
  assert.equal((await fetch(`http://127.0.0.1:${status}/healthz`)).status, 200, 'the status port');
}

// ---- memory ----

const literal = (name, value, how = 0) => { // a field with a new name, and how it stands in the table: RFC 7541 6.2
  const bytes = Buffer.from(value), rest = bytes.length - 127;
  const length = rest < 0 ? [bytes.length] : rest < 128 ? [127, rest] : [127, (rest % 128) | 128, rest >> 7];
  return Buffer.concat([Buffer.from([how, name.length]), Buffer.from(name), Buffer.from(length), bytes]);
};
const window = (size) => { const setting = Buffer.alloc(6); setting.writeUInt16BE(4, 0); setting.writeUInt32BE(size, 2); return frame(SETTINGS, 0, 0, setting); };

// A connection of HTTP/2 that takes no byte of a body: answers of its requests by stream, which `got` has.
async function greedy(got, localAddress) {
  const { host, ca } = await ready, socket = tls.connect({ host: edge.host, port, servername: host, ca, localAddress, ALPNProtocols: ['h2'] });
  let rest = Buffer.alloc(0), next = 1;
  await new Promise((resolve, reject) => socket.on('secureConnect', resolve).on('error', reject));
  socket.on('error', () => {});
  socket.on('data', (part) => {
    rest = Buffer.concat([rest, part]);
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const len = rest.readUIntBE(0, 3), type = rest[3], stream = rest.readUInt32BE(5), payload = rest.subarray(9, 9 + len);
      rest = rest.subarray(9 + len);
      if (type === SETTINGS && !(rest[4] & 1) && len) socket.write(frame(SETTINGS, 1, 0));
      if (type === HEADERS) { const code = statusOf(payload); got[code] = (got[code] ?? 0) + 1; }
      if (type === RST_STREAM && stream) got.reset++;
    }
  });
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), window(0)]));
  // 3,900 bytes once, and a byte for each time after it
  const ordinary = Buffer.concat([Buffer.from([0x82, 0x87]), literal(':path', '/fixed'), literal(':authority', host)]);
  const head = () => Buffer.concat([ordinary, next === 1 ? literal('x-a', 'a'.repeat(3900), 0x40) : Buffer.alloc(0), Buffer.alloc(15, 0x80 | 62)]);
  return { socket, request(small) { socket.write(frame(HEADERS, END_HEADERS | END_STREAM, next, small ? ordinary : head())); next += 2; } };
}

test('who takes no answer has its portion of the memory for requests, and then none; who takes a byte now and then is cut off', { skip, timeout: 400000 }, async () => {
  const { events } = await ready, SESSIONS = 8, STREAMS = 100, got = { reset: 0 }, sessions = [], heard = [];
  const { host, ca } = await ready;
  const listener = https.get({ host: edge.host, port, servername: host, ca, path: '/events', headers: { Host: host }, agent: false }, (answer) => answer.on('data', (part) => heard.push(String(part))));
  await until(() => heard.length === 1, 'an event of a stream', WAIT);
  let ticks;
  try {
    for (let i = 0; i < SESSIONS; i++) {
      const session = await greedy(got, '127.0.0.21');
      sessions.push(session);
      for (let k = 0; k < STREAMS; k++) session.request();
    }
    let size = 0;
    ticks = setInterval(() => { size++; for (const { socket } of sessions) socket.write(window(size)); }, 500);
    await until(() => Object.values(got).reduce((sum, n) => sum + n) >= SESSIONS * STREAMS, 'each is answered', WAIT);
    const memory = await metric('request_memory_bytes{worker="0"}'), crowded = await metric('requests_crowded_total{worker="0"}');
    assert.ok(memory < MEMORY * ALONE + 200000, `${memory} bytes are taken`);
    assert.ok(got[200] > 20 && got[200] <= MEMORY * ALONE / 130000 + 1, `${JSON.stringify(got)}`);
    assert.ok(crowded >= SESSIONS * STREAMS / 2, `${crowded} were refused`);
    await servesOthers();
    // a byte each half a second is not enough
    await until(async () => await metric('request_memory_bytes{worker="0"}') < 200000, 'they are cut off', WAIT);
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
  await until(async () => (await ask({ localAddress: '127.0.0.21' })).status === 200, 'its next one, afterwards', WAIT);
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
    await servesOthers();
  } finally { for (const { socket } of sessions) socket.destroy(); }
  await until(async () => await metric('request_memory_bytes{worker="0"}') === 0, 'all of it comes back', WAIT);
});

// ---- heads that do not come to their end ----

// A connection with the beginning of one request: {socket, answer(), text()}; answer() is the status that came, 0: none; text(): of HTTP/1.1, all that came.
async function begun(bytes, { localAddress, http2: two }) {
  const { host, ca } = await ready, socket = tls.connect({ host: edge.host, port, servername: host, ca, localAddress, ALPNProtocols: [two ? 'h2' : 'http/1.1'] });
  let rest = Buffer.alloc(0), status = 0;
  await new Promise((resolve, reject) => socket.on('secureConnect', resolve).on('error', reject));
  socket.on('error', () => {}).on('data', (part) => {
    rest = Buffer.concat([rest, part]);
    if (!two) { status ||= Number(/^HTTP\/1\.1 (\d+)/.exec(rest.toString('latin1'))?.[1] ?? 0); return; }
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const len = rest.readUIntBE(0, 3);
      if (rest[3] === HEADERS) status = statusOf(rest.subarray(9, 9 + len));
      rest = rest.subarray(9 + len);
    }
  });
  socket.write(two ? Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), window(65535), bytes]) : bytes);
  return { socket, answer: () => status, text: () => rest.toString('latin1') };
}
// A head of so many small fields, without its end; and its end.
const HEADS = {
  'HTTP/2': {
    start: (host, count) => frame(HEADERS, END_STREAM, 1, Buffer.concat([Buffer.from([0x82, 0x87]), literal(':path', '/fixed'), literal(':authority', host), literal('a', '', 0x40), Buffer.alloc(count, 0x80 | 62)])),
    end: frame(CONTINUATION, END_HEADERS, 1, Buffer.concat([literal('b', 'c')])), bytes: (count) => 20480 + count * 48,
  },
  'HTTP/1.1': {
    start: (host, count) => `GET /fixed HTTP/1.1\r\nHost: ${host}\r\n${'a:\r\n'.repeat(count)}`,
    end: '\r\n', bytes: (count) => 20480 + 16384 + count * 48,
  },
};

for (const [version, head] of Object.entries(HEADS)) {
  const http2 = version === 'HTTP/2', COUNT = 170, FIELDS = 900;
  test(`${version}: heads that are not whole yet count in their client's portion of the memory, as much as there is of them`, { skip, timeout: 400000 }, async () => {
    const { host, state } = await ready, localAddress = http2 ? '127.0.0.25' : '127.0.0.26', all = [], traffic = tail('http_request_complete', { POSTERN_HOME: state });
    await until(async () => { await ask(); return traffic.events.length; }, 'somebody listens', WAIT);
    await until(async () => await metric('request_memory_bytes{worker="0"}') === 0, 'nothing is under way', WAIT);
    const before = await metric('requests_crowded_total{worker="0"}'), most = MEMORY * ALONE, gone = ({ socket, answer }) => answer() || socket.destroyed || socket.readyState !== 'open';
    try {
      for (let i = 0; i < COUNT; i++) all.push(await begun(head.start(host, FIELDS), { localAddress, http2 }));
      await until(() => all.filter(gone).length >= COUNT - most / head.bytes(FIELDS), 'those beyond the portion are refused', WAIT);
      const told = all.filter(gone).length, refused = await metric('requests_crowded_total{worker="0"}') - before, memory = await metric('request_memory_bytes{worker="0"}');
      assert.ok(memory > most / 2 && memory < most, `${memory} bytes are taken`);
      assert.ok(refused >= told, `${refused} were refused, ${told} know`);
      assert.ok(all.some(({ answer }) => answer() === 503) && all.every(({ answer }) => [0, 503].includes(answer())), 'and told so');
      if (!http2) assert.match(all.find(({ answer }) => answer() === 503).text(), /\r\nPostern-Error-Code: ERR_POSTERN_928\r\n/i);
      await until(() => traffic.events.some(({ object: { http: { response } } }) => response.status_code === 503 && response.error_code === 'ERR_POSTERN_928'), 'their events say so', WAIT);
      await servesOthers();
      const [first, other] = all.filter((one) => !gone(one));
      other.socket.destroy();
      await until(async () => await metric('request_memory_bytes{worker="0"}') < memory, 'there is room', WAIT);
      first.socket.write(head.end);
      await until(() => first.answer() === 200, 'what comes to its end is served', WAIT);
      const slow = await begun(head.start(host, 1), { localAddress, http2 });
      all.push(slow);
      const small = [];
      for (let i = 0; i < 12; i++) small.push(await begun(head.start(host, 1), { localAddress, http2 }));
      all.push(...small);
      await until(() => small.some(gone), 'not even for a small one any more', WAIT);
      assert.ok(!gone(slow), 'it has come in before');
      slow.socket.write(http2 ? frame(CONTINUATION, 0, 1, Buffer.alloc(FIELDS, 0x80 | 62)) : 'a:\r\n'.repeat(FIELDS));
      await until(() => gone(slow), 'it is refused when it grows', WAIT);
    } finally {
      for (const { socket } of all) socket.destroy();
      await traffic.stop();
    }
    await until(async () => await metric('request_memory_bytes{worker="0"}') === 0, 'all of it comes back', WAIT);
    assert.equal((await ask({ localAddress })).status, 200, 'its next one, afterwards');
  });

  test(`${version}: a request has at most 1,000 fields, whole or not`, { skip, timeout: 300000 }, async () => {
    const { host } = await ready;
    for (const [count, ending, want] of [[900, head.end, 200], [1010, head.end, 431], [1010, '', 431]]) {
      const one = await begun(head.start(host, count), { localAddress: '127.0.0.27', http2 });
      one.socket.write(ending);
      await until(() => one.answer() !== 0, `an answer to ${count}`, WAIT);
      assert.equal(one.answer(), want, `${count} fields ${ending.length ? '' : 'and no end'}`);
      one.socket.destroy();
    }
    await until(async () => await metric('request_memory_bytes{worker="0"}') === 0, 'all of it comes back', WAIT);
  });
}

test('HTTP/2: of heads that nginx refuses, and that go on without end, a few are kept, and other connections end', { skip, timeout: 300000 }, async () => {
  const { host } = await ready, localAddress = '127.0.0.28', COUNT = 100, KEPT = 64, all = [];
  const start = frame(HEADERS, END_STREAM, 1, Buffer.concat([Buffer.from([0x82, 0x87]), literal(':path', '/fixed'), literal(':authority', host), literal('A', 'b'), literal('a', 'x'.repeat(2000), 0x40), Buffer.alloc(10, 0x80 | 62)]));
  const ended = ({ socket }) => socket.destroyed || socket.readyState !== 'open';
  try {
    for (let i = 0; i < COUNT; i++) all.push(await begun(start, { localAddress, http2: true }));
    await until(() => all.filter(ended).length >= COUNT - KEPT, 'those beyond the few end', WAIT);
    await servesOthers();
    const first = all.find((one) => !ended(one));
    first.socket.write(frame(CONTINUATION, END_HEADERS, 1, literal('b', 'c')));
    first.socket.write(frame(HEADERS, END_HEADERS | END_STREAM, 3, Buffer.concat([Buffer.from([0x82, 0x87]), literal(':path', '/fixed'), literal(':authority', host)])));
    await until(() => first.answer() === 200, 'what comes to its end goes on with the next request', WAIT);
  } finally { for (const { socket } of all) socket.destroy(); }
  await until(async () => (await ask({ localAddress })).status === 200, 'its next one, afterwards', WAIT);
});

// ---- buffers for reads ----

test('who takes no answer has its portion of the large buffers for reads, and others have theirs', { skip, timeout: 300000 }, async () => {
  const { host, ca } = await ready, STREAMS = 60, LENT = MEMORY / 4, LARGE = 64 << 10, lent = () => metric('read_memory_bytes{worker="0"}');
  const open = (localAddress) => http2.connect(`https://${host}:${port}`, { createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress, ALPNProtocols: ['h2'] }) }).on('error', () => {});
  const greedy = open('127.0.0.28'), other = open('127.0.0.29'), request = (session) => session.request({ ':path': '/large', ':authority': host }).on('error', () => {});
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
    await servesOthers();
  } finally { greedy.destroy(); other.destroy(); }
  await until(async () => await lent() === 0, 'all of it comes back', WAIT);
});

// Forms of that many bytes at the sign-in host, on one connection of HTTP/2, of which the last bytes never come: {statuses, bodies, end()}.
async function forms(count, bytes, localAddress) {
  const { ca, acs } = await ready, statuses = {}, bodies = [];
  const session = http2.connect(acs.origin, { createConnection: () => tls.connect({ host: edge.host, port, servername: acs.hostname, ca, localAddress, ALPNProtocols: ['h2'] }) });
  session.on('error', () => {});
  for (let i = 0; i < count; i++) {
    const stream = session.request({ ':method': 'POST', ':path': acs.pathname, accept: 'text/html', 'content-type': 'application/x-www-form-urlencoded', 'content-length': bytes });
    let answered = false;
    stream.on('error', () => {}).on('close', () => { if (!answered) statuses.none = (statuses.none ?? 0) + 1; }).on('response', (head) => { answered = true; statuses[head[':status']] = (statuses[head[':status']] ?? 0) + 1; });
    stream.setEncoding('utf8').on('data', (text) => bodies.push(text));
    stream.write('SAMLResponse='.padEnd(bytes - 5, 'A'));
  }
  return { statuses, bodies, end: () => session.destroy() };
}

test('forms of sign-ins are of the portion of who sends them, have half a minute to come, and others sign in meanwhile', { skip, timeout: 400000 }, async () => {
  const COUNT = 50, BYTES = 131000, { host, ca, acs } = await ready, held = await forms(COUNT, BYTES, '127.0.0.24');
  const post = (body) => new Promise((resolve, reject) => {
    https.request({ host: edge.host, port, servername: acs.hostname, ca, path: acs.pathname, method: 'POST', localAddress: '127.0.0.25', headers: { Host: acs.host, 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': body.length }, agent: false }, (answer) => answer.resume().on('end', () => resolve(answer.statusCode))).on('error', reject).end(body);
  });
  try {
    // four times its bytes are counted for a form: as it comes, and for what is made of it
    const most = Math.floor(MEMORY * ALONE / (4 * BYTES));
    const refused = () => (held.statuses[503] ?? 0) + (held.statuses.none ?? 0); // none: not even the request itself has room
    await until(() => refused() >= COUNT - most, 'the others are refused', WAIT);
    assert.ok(held.bodies.join('').includes('ERR_POSTERN_928'), 'by a page that says so');
    assert.ok(await metric('request_memory_bytes{worker="0"}') < MEMORY * ALONE + 200000);
    assert.equal(await post('SAMLResponse=x'), 400, 'what another client posts is read');
    await servesOthers();
    await until(() => held.statuses[408] > 0 && held.statuses[408] + refused() === COUNT, 'those that were read are too late', WAIT);
    assert.ok(held.bodies.join('').includes('ERR_POSTERN_956'));
    await until(async () => await metric('request_memory_bytes{worker="0"}') < 200000, 'nothing of them is left', WAIT);
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
  assert.equal((await ask()).status, 200, host);
});

// ---- connections ----

// Connections from an address with these bytes first: {all, open()}.
async function connections(count, bytes, { localAddress, to = port }) {
  const all = [], settled = [];
  for (let i = 0; i < count; i++) {
    const socket = net.connect({ host: edge.host, port: to, localAddress });
    all.push(socket);
    settled.push(new Promise((resolve) => socket.on('connect', resolve).on('close', resolve)));
    socket.on('error', () => {}).resume().on('connect', () => socket.write(bytes));
  }
  await Promise.all(settled);
  return { all, open: () => all.filter((socket) => !socket.destroyed && socket.readyState === 'open').length, end: () => all.forEach((socket) => socket.destroy()) };
}
const allFree = () => until(async () => (await ask()).status === 200 && await free() > CONNECTIONS * 0.8, 'what was held is free again', WAIT);
const free = async () => CONNECTIONS - await metric('connections{worker="0"}');

for (const [what, bytes, to] of [['of a handshake', '\x16', port], ['of a head', 'G', plain]])
  test(`one byte ${what} on each connection: a client has its portion of them, and others are served`, { skip, timeout: 300000 }, async () => {
    const before = await metric('connections_refused_total{worker="0",reason="client"}');
    const held = await connections(CONNECTIONS, Buffer.from(bytes, 'latin1'), { localAddress: '127.0.0.22', to });
    try {
      await until(() => held.open() <= CONNECTIONS * ALONE, 'the others are closed', WAIT);
      assert.ok(held.open() >= CONNECTIONS * 0.3, `${held.open()} are open`);
      await servesOthers();
      await assert.rejects(ask({ localAddress: '127.0.0.22' }), 'its next one');
      assert.ok(await metric('connections_refused_total{worker="0",reason="client"}') > before, 'which is counted');
    } finally { held.end(); }
    await allFree();
  });

test('a client whose connections are idle has the next one in the place of one of them', { skip, timeout: 300000 }, async () => {
  const before = await metric('connections_refused_total{worker="0",reason="client"}');
  const idle = await connections(CONNECTIONS, '', { localAddress: '127.0.0.23' });
  try {
    await until(() => idle.open() <= CONNECTIONS * ALONE, 'as many as it may have', WAIT);
    for (let i = 0; i < 10; i++) assert.equal((await ask({ localAddress: '127.0.0.23' })).status, 200);
    assert.equal(await metric('connections_refused_total{worker="0",reason="client"}'), before);
  } finally { idle.end(); }
  await allFree();
});

test('behind a load balancer a client is who it names, and the load balancer itself may have all', { skip, timeout: 300000 }, async () => {
  const of = (client) => Buffer.from(`PROXY TCP4 ${client} 192.0.2.1 50000 443\r\n\x16`, 'latin1'), where = { localAddress: BALANCER, to: port + 1 };
  const held = await connections(CONNECTIONS, of('203.0.113.7'), where);
  let other, itself;
  try {
    await until(() => held.open() <= CONNECTIONS * ALONE, 'one of its clients', WAIT);
    other = await connections(10, of('203.0.113.8'), where);
    await servesOthers();
    assert.equal(other.open(), 10, 'another of its clients');
    held.end();
    other.end();
    await allFree();
    itself = await connections(CONNECTIONS / 2, Buffer.from('PROXY UNKNOWN\r\n\x16', 'latin1'), where);
    await servesOthers();
    assert.equal(itself.open(), CONNECTIONS / 2);
  } finally { for (const some of [held, other, itself]) some?.end(); }
  await allFree();
});

test('many clients leave something to the next one, and connections to upstreams that are idle are given up for them', { skip, timeout: 300000 }, async () => {
  const { held } = await ready, KEPT = 60, before = await metric('upstreams_given_up_total{worker="0"}'), some = [];
  const answers = Array.from({ length: KEPT }, (_, i) => ask({ path: '/held', localAddress: `127.0.0.${30 + i}` }));
  await until(() => held.length === KEPT, 'as many requests at a time', WAIT);
  for (const response of held.splice(0)) response.end('x');
  for (const answer of answers) assert.equal((await answer).status, 200);
  try {
    for (let i = 0; i < 60; i++) some.push(await connections(60, '\x16', { localAddress: `127.1.${1 + i}.1` }));
    await until(async () => await metric('upstreams_given_up_total{worker="0"}') > before, 'they are given up', WAIT);
    await servesOthers();
  } finally { for (const one of some) one.end(); }
  await allFree();
});

// ---- encoders ----

test('who takes no encoded answer has its portion of the encoders, and then answers that are not encoded', { skip, timeout: 300000 }, async () => {
  const { host, ca } = await ready, STREAMS = 110, got = { br: 0, plain: 0 };
  const session = http2.connect(`https://${host}:${port}`, { createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress: '127.0.0.24', ALPNProtocols: ['h2'] }) });
  session.on('error', () => {});
  try {
    for (let i = 0; i < STREAMS; i++)
      session.request({ ':path': '/large', ':authority': host, 'accept-encoding': 'br' }).on('error', () => {}).on('response', (fields) => { got[fields['content-encoding'] ?? 'plain']++; });
    await until(() => got.br + got.plain === STREAMS, 'each is answered', WAIT);
    assert.ok(got.br > 106 * OF_ACCOUNT * 0.8 && got.br <= 106 * OF_ACCOUNT, `${got.br} are encoded, of 106 for which there is memory`);
    assert.equal(await metric('module_over_share_total{module="compression"}'), got.plain);
    assert.equal((await ask({ headers: { 'Accept-Encoding': 'br' } })).headers['content-encoding'], 'br', 'of another client');
  } finally { session.destroy(); }
  await until(async () => (await ask({ localAddress: '127.0.0.24', headers: { 'Accept-Encoding': 'br' } })).headers['content-encoding'] === 'br', 'its next one, afterwards', WAIT);
});

test('what an encoder has made counts until the client has it, though the encoder is gone', { skip, timeout: 300000 }, async () => {
  const { host, ca } = await ready, STREAMS = 20, taken = () => metric('encoder_memory_bytes{worker="0"}');
  const session = http2.connect(`https://${host}:${port}`, { settings: { initialWindowSize: 0 }, createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress: '127.0.0.30', ALPNProtocols: ['h2'] }) });
  session.on('error', () => {});
  await until(async () => await taken() === 0, 'no encoder is at work', WAIT);
  try {
    let answered = 0;
    for (let i = 0; i < STREAMS; i++) session.request({ ':path': '/noise', ':authority': host, 'accept-encoding': 'br' }).on('error', () => {}).on('response', (fields) => { answered += fields['content-encoding'] === 'br'; });
    await until(() => answered === STREAMS, 'each is answered', WAIT);
    await until(async () => await taken() <= STREAMS * (64 << 10), 'their encoders are gone', WAIT);
    assert.ok(await taken() >= STREAMS * (45 << 10), `${await taken()} bytes count`);
  } finally { session.destroy(); }
  await until(async () => await taken() === 0, 'all of it comes back', WAIT);
});

test('a client that asks for many encoded bodies has no more turns of the encoders than one that asks for one', { skip, timeout: 300000 }, async () => {
  const { host, ca } = await ready, STREAMS = 60, headers = { 'accept-encoding': 'gzip' };
  let answered = 0, others = 0;
  const session = http2.connect(`https://${host}:${port}`, { createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress: '127.0.0.26', ALPNProtocols: ['h2'] }) });
  session.on('error', () => {});
  try {
    for (let i = 0; i < STREAMS; i++)
      session.request({ ':path': '/bulks', ':authority': host, ...headers }).on('error', () => {}).on('response', (fields) => { answered += fields['content-encoding'] === 'gzip'; }).on('data', (part) => { others += part.length; });
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
  } finally { session.destroy(); }
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
      socket.write(two ? Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), window(n % 3 * 5000), ...all]) : all[0]);
      setTimeout(end, n % 7 * 5); // some before the edge has read it, some when it has answered
    });
    if (two) socket.pause();
  });
  await until(async () => await taken() === 0, 'nothing is under way', WAIT);
  await Promise.all(Array.from({ length: AT_ONCE }, async () => { while (made < ABORTS) await one(); }));
  await until(async () => await taken() === 0, 'all that they were charged comes back', WAIT);
  held.length = 0;
  await allFree();
  assert.equal((await ask({ localAddress })).status, 200, 'the next one of this client');
  console.log(`aborts: ${made} requests`);
});
