// circuit_breaker: a route whose upstream fails is not asked for a while, by no worker, and then by one request at a time.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { api, ca, edge, elsewhere, endpoint, listening, must, tcpUpstream, through, until, upstream, WebSocket } from '../support/postern.mjs';
import { workers } from '../model/workers.mjs';

const OPEN = 'ERR_POSTERN_923', LONG = 86400;
const rules = (more = {}) => ({ tripped_duration: LONG, rolling_window: LONG, num_buckets: 10, volume_threshold: 4, error_threshold_percentage: 0.5, ...more });
const sub = await listening('http_request_complete');
const decisions = (host) => sub.events.filter(({ object }) => object.http.request.url.host === host).map(({ object }) => object.circuit_breaker.decision);
const counter = async (name) => Number(new RegExp(`^postern_edge_module_${name}_total\\{module="circuit_breaker"\\} (\\d+)`, 'm')
  .exec(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text()))[1]);
const code = (got) => /ERR_POSTERN_\d+/.exec(got.body)?.[0];
const put = (to, module, document) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/${module}`, document);

// An upstream that answers with up.status, and counts connections and requests; up.hold: it keeps answers until up.answer().
async function answering() {
  const held = [];
  const up = await upstream((request, response) => {
    const answer = () => { response.statusCode = up.status; response.end('answer'); };
    if (up.hold) held.push(answer); else answer();
  });
  up.server.on('connection', () => { up.connections++; });
  return Object.assign(up, { status: 200, hold: false, connections: 0, held, answer: () => { for (const one of held.splice(0)) one(); } });
}
const serve = async (up, to, status, n) => {
  up.status = status;
  for (let i = 0; i < n; i++) assert.equal((await through(to.host)).status, status);
};
const opened = async (more) => {
  const up = await answering(), to = await endpoint(up.address, { circuit_breaker: rules(more) });
  await serve(up, to, 500, 4);
  if (!more) assert.equal(code(await through(to.host)), OPEN);
  return { up, to };
};

test('an open breaker: no byte goes upstream, and page, event and metrics say why', async () => {
  const before = elsewhere || [await counter('opened'), await counter('denied')];
  const { up, to } = await opened();
  const connections = up.connections, seen = up.seen.length;
  for (let i = 0; i < 10; i++) {
    const got = await through(to.host, '/', { method: 'POST', body: 'x', headers: { Accept: i % 2 ? 'text/html' : '*/*' } });
    assert.deepEqual([got.status, code(got)], [503, OPEN]);
  }
  assert.deepEqual([up.connections, up.seen.length], [connections, seen]);
  await until(() => decisions(to.host).length === 15, 'events');
  assert.deepEqual(decisions(to.host).sort(), [...Array(4).fill('allow'), ...Array(11).fill('block')]);
  const { object } = sub.events.find((event) => event.object.http.request.url.host === to.host && event.object.circuit_breaker.decision === 'block');
  assert.deepEqual(object.denied, { module: 'circuit_breaker', route_id: to.route.id });
  if (!elsewhere) assert.deepEqual([await counter('opened'), await counter('denied')], [before[0] + 1, before[1] + 11]);
  await up.close();
});

// [what it says, rules, [status, how often]..., does it open]
for (const [what, more, answers, opens] of [
  ['half of the answers, as asked for', {}, [[200, 2], [500, 2]], true],
  ['less than half of them', {}, [[200, 3], [500, 2]], false],
  ['fewer than the volume', {}, [[500, 3]], false],
  ['a volume that an answer without an error makes full', {}, [[500, 3], [200, 1]], true],
  ['all answers, where all are asked for', { error_threshold_percentage: 1 }, [[503, 4]], true],
  ['all answers but one', { error_threshold_percentage: 1 }, [[200, 1], [503, 9]], false],
  ['no error, where none is allowed', { error_threshold_percentage: 0 }, [[200, 9]], false],
  ['one error, where none is allowed', { error_threshold_percentage: 0 }, [[200, 9], [599, 1]], true],
  ['one error without a volume', { volume_threshold: 0 }, [[500, 1]], true],
  ['errors of clients', {}, [[404, 5], [499, 5]], false],
])
  test(`${opens ? 'opens' : 'stays closed'}: ${what}`, async () => {
    const up = await answering(), to = await endpoint(up.address, { circuit_breaker: rules(more) });
    for (const [status, n] of answers) await serve(up, to, status, n);
    up.status = 200;
    assert.equal((await through(to.host)).status, opens ? 503 : 200);
    await up.close();
  });

test('an upstream that cannot be reached counts, one that nobody asked does not', async () => {
  const gone = await upstream();
  await gone.close();
  const to = await endpoint(gone.address, { circuit_breaker: rules(), user_agent_filter: { deny: ['bot'] } });
  for (let i = 0; i < 3; i++) {
    assert.equal(code(await through(to.host, '/', { headers: { 'User-Agent': 'curl' } })), 'ERR_POSTERN_904');
    for (let k = 0; k < 3; k++) assert.equal(code(await through(to.host, '/', { headers: { 'User-Agent': 'bot' } })), 'ERR_POSTERN_922');
  }
  assert.equal(code(await through(to.host, '/', { headers: { 'User-Agent': 'curl' } })), 'ERR_POSTERN_904');
  assert.equal(code(await through(to.host, '/', { headers: { 'User-Agent': 'curl' } })), OPEN);
});

test('a method that the upstream does not know is no failure of it, whoever asks for it and how often', async () => {
  const up = await answering(), to = await endpoint(up.address, { circuit_breaker: rules() });
  up.status = 501;
  for (const method of ['PURGE', 'POST', 'PUT', 'SEARCH', 'PURGE', 'DELETE']) assert.equal((await through(to.host, '/', { method })).status, 501);
  await serve(up, to, 200, 4);
  await serve(up, to, 501, 4);   // GET is known to each server
  assert.equal(code(await through(to.host)), OPEN);
  await up.close();
});

test('a name without an address counts, and so does an answer of the edge in place of an upstream', async () => {
  const nowhere = await endpoint('nobody.invalid:80', { circuit_breaker: rules() });
  for (let i = 0; i < 4; i++) assert.equal(code(await through(nowhere.host)), 'ERR_POSTERN_904');
  assert.equal(code(await through(nowhere.host)), OPEN);
  const fixed = await endpoint({ body: 'no', status_code: 503 }, { circuit_breaker: rules() });
  for (let i = 0; i < 4; i++) assert.equal((await through(fixed.host)).body, 'no');
  assert.equal(code(await through(fixed.host)), OPEN);
});

// How a request fares that is sent again until it is not blocked.
const pass = (to) => until(async () => { const got = await through(to.host); return code(got) === OPEN ? undefined : got; }, 'a trial');

test('one trial after tripped_duration: a failure leaves it open, an answer closes it', async () => {
  const { up, to } = await opened({ tripped_duration: 1 });
  assert.equal((await pass(to)).status, 500);
  assert.equal(up.seen.length, 5);
  up.status = 200;
  assert.equal((await pass(to)).status, 200);
  assert.equal(up.seen.length, 6);
  await serve(up, to, 500, 3); // what was before is forgotten: three are no volume
  await serve(up, to, 200, 1);
  await until(() => decisions(to.host).filter((one) => one === 'allow_while_open').length === 2, 'events of both trials');
  await up.close();
});

test('many requests at the end of tripped_duration: one of them goes upstream', async () => {
  const { up, to } = await opened({ tripped_duration: 20 }); // a trial that takes as long is followed by another
  up.status = 200;
  up.hold = true;
  const agent = new https.Agent({ keepAlive: true, maxSockets: 8, servername: to.host });
  let blocked = 0;
  const waits = [];
  await until(async () => {
    for (let i = 0; i < 8; i++) waits.push(through(to.host, '/', { agent }).then((got) => { if (code(got) === OPEN) blocked++; return got.status; }));
    await until(() => blocked + up.held.length >= waits.length, 'each is blocked or upstream');
    return up.held.length > 0;
  }, 'a trial');
  for (let i = 0; i < 8; i++) assert.equal(code(await through(to.host)), OPEN);
  assert.equal(up.held.length, 1);
  up.answer();
  up.hold = false;
  const got = await Promise.all(waits);
  assert.equal(got.filter((status) => status === 200).length, 1);
  assert.equal((await through(to.host)).status, 200);
  agent.destroy();
  await up.close();
});

test('a trial whose client leaves is followed by another at once', async () => {
  const { up, to } = await opened({ tripped_duration: 2 });
  up.hold = true;
  const leave = () => new Promise((resolve) => {
    const request = https.request({ host: edge.host, port: edge.port, servername: to.host, ca, agent: false, headers: { Host: to.host } }, (got) => { got.resume(); got.on('end', () => resolve(false)); });
    request.on('error', () => resolve(true));
    request.end();
    const timer = setInterval(() => { if (up.held.length) { clearInterval(timer); request.destroy(); } }, 5);
    request.on('close', () => clearInterval(timer));
  });
  assert.ok(await until(leave, 'a trial that is left'));
  up.held.length = 0;
  up.hold = false;
  up.status = 200;
  assert.equal((await pass(to)).status, 200);
  await up.close();
});

// A request of which the edge gets the head and one of its ten bytes; more(): the rest. What the client read until the end.
const half = (host) => {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca });
  let got = '';
  socket.on('data', (data) => { got += data; });
  socket.on('error', () => {});
  socket.on('secureConnect', () => socket.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 10\r\nConnection: close\r\n\r\nx`));
  return { status: () => Number(got.slice(9, 12)) || 0, more: () => socket.write('123456789'), close: () => socket.destroy() };
};
// An upstream that answers whole requests with up.status, and closes without a word, or with up.late, what it has half of when up.giveUp() is called.
async function impatient() {
  const halves = new Set();
  const up = await tcpUpstream((socket) => {
    let got = '';
    socket.on('error', () => {});
    socket.on('data', (data) => {
      got += data.toString('latin1');
      const at = got.indexOf('\r\n\r\n');
      if (at < 0) return;
      const whole = got.length >= at + 4 + Number(/content-length: (\d+)/i.exec(got)?.[1] ?? 0);
      if (!whole) { halves.add(socket); return; }
      halves.delete(socket);
      got = '';
      socket.write(`HTTP/1.1 ${up.status} Said\r\nContent-Length: 2\r\n\r\nok`);
    });
  });
  return Object.assign(up, { status: 200, late: '', halves, giveUp: () => { for (const socket of halves) { halves.delete(socket); socket.end(up.late); } } });
}

for (const [what, late, status] of [['closes', '', 502], ['says 500', 'HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n', 500]])
  test(`slow uploads open no breaker: an upstream that ${what} for want of a body did not fail`, async () => {
    const up = await impatient(), to = await endpoint(up.address, { circuit_breaker: rules() });
    up.late = late;
    const slow = Array.from({ length: 6 }, () => half(to.host));
    await until(() => up.halves.size === 6, 'six halves upstream');
    up.giveUp();
    await until(() => slow.every((one) => one.status() === status), 'each has its answer');
    assert.equal((await through(to.host)).status, 200);
    await serve(up, to, 500, 3);
    assert.equal(code(await through(to.host)), OPEN, 'three of four that were whole');
    for (const one of slow) one.close();
    await up.close();
  });

test('a trial that a later module denies is over with the head of its page, whenever its client takes the rest', async () => {
  const up = await answering(), to = await endpoint(up.address, { circuit_breaker: rules({ tripped_duration: 10 }), webhook_verification: { provider: 'github', secret: 's' } });
  const sign = { 'content-length': 2, 'x-hub-signature-256': `sha256=${crypto.createHmac('sha256', 's').update('{}').digest('hex')}` };
  const webhook = () => through(to.host, '/', { method: 'POST', body: '{}', headers: sign });
  up.status = 500;
  for (let i = 0; i < 4; i++) assert.equal((await webhook()).status, 500);
  assert.equal(code(await webhook()), OPEN);
  up.status = 200;
  const session = http2.connect(`https://${edge.host}:${edge.port}`, { ca, servername: to.host, settings: { initialWindowSize: 1 } });
  session.on('error', () => {});
  let denied = 0;
  const under = new Set();
  const asking = setInterval(() => {
    const stream = session.request({ ':authority': to.host, ':path': '/' });
    under.add(stream);
    stream.on('error', () => {}).on('close', () => under.delete(stream)).on('response', (head) => {
      under.delete(stream);
      if (head[':status'] === 403) denied++; else stream.close(http2.constants.NGHTTP2_CANCEL);
    });
  }, 400); // few of them: a client may not reset many
  await until(() => denied, 'the trial, which is denied', 120000);
  clearInterval(asking);
  await until(() => under.size === 0, 'none is under way, which might be the trial', 120000);
  assert.equal((await webhook()).status, 200);
  session.destroy();
  await up.close();
});

test('a slow upload is a trial that keeps nobody out, and decides where it is whole', async () => {
  const up = await impatient(), to = await endpoint(up.address, { circuit_breaker: rules({ tripped_duration: 10 }) });
  const open = async () => { await serve(up, to, 500, 4); assert.equal(code(await through(to.host)), OPEN); up.status = 200; };
  const trial = () => until(async () => {
    const one = half(to.host);
    await until(() => one.status() || up.halves.size, 'it is denied or upstream');
    if (up.halves.size) return one;
    one.close();
    return undefined;
  }, 'a trial');
  await open();
  const slow = await trial();
  assert.equal((await through(to.host)).status, 200, 'one that is whole is the trial, and closes it');
  slow.close();
  up.halves.clear();
  await open();
  const other = await trial();
  other.more();
  await until(() => other.status() === 200, 'its answer');
  assert.equal((await through(to.host)).status, 200);
  other.close();
  await up.close();
});

test('other rules begin closed, the old ones are remembered, and what else changes on the route does not count', async () => {
  const { up, to } = await opened();
  up.status = 200;
  await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { description: 'x', response_headers: { add: { 'x-a': 'b' } } });
  assert.equal(code(await through(to.host)), OPEN);
  await put(to, 'circuit_breaker', rules({ volume_threshold: 5 }));
  assert.equal((await through(to.host)).status, 200);
  await put(to, 'circuit_breaker', rules());
  assert.equal(code(await through(to.host)), OPEN);
  await put(to, 'circuit_breaker', rules({ enabled: false }));
  assert.equal((await through(to.host)).status, 200);
  await must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}/circuit_breaker`);
  assert.equal((await through(to.host)).status, 200);
  await up.close();
});

test('a change is in force when it is answered, under traffic', async () => {
  const { up, to } = await opened();
  let stop = false, asked = 0;
  up.status = 200;
  const traffic = Promise.all(Array.from({ length: 4 }, async () => { while (!stop) { await through(to.host); asked++; } }));
  for (let i = 0; i < 6; i++) {
    await put(to, 'circuit_breaker', rules({ enabled: i % 2 === 1 }));
    assert.equal((await through(to.host)).status, i % 2 ? 503 : 200);
  }
  await until(() => asked > 20, 'traffic');
  stop = true;
  await traffic;
  await up.close();
});

test('routes have breakers of their own, also on one backend', async () => {
  const { up, to } = await opened();
  const other = await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/other', backend: { backend_id: to.backend.id }, circuit_breaker: rules() });
  up.status = 200;
  assert.equal((await through(to.host, '/other')).status, 200);
  assert.equal(code(await through(to.host)), OPEN);
  assert.ok(other.id);
  await up.close();
});

test('an upgraded stream counts by its 101, and stays when the breaker opens', async () => {
  let upgrades = true;
  const up = await tcpUpstream((socket) => socket.once('data', (head) => {
    if (!upgrades) { socket.end('HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n'); return; }
    const key = head.toString('latin1').match(/sec-websocket-key: (\S+)/i)[1];
    const accept = crypto.createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  }));
  const to = await endpoint(up.address, { circuit_breaker: rules({ volume_threshold: 2 }) });
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { ca, servername: to.host, headers: { Host: to.host } });
  socket.on('error', () => {});
  await until(() => socket.readyState === WebSocket.OPEN, 'it is open');
  upgrades = false;
  assert.equal((await through(to.host)).status, 500);
  assert.equal(code(await through(to.host)), OPEN, 'one of two failed');
  await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { description: 'judged again' });
  assert.equal(socket.readyState, WebSocket.OPEN);
  socket.terminate();
  await up.close();
});

test('workers that are killed, one in the middle of a trial, leave it open, and the next trial comes', { skip: elsewhere }, async () => {
  const { up, to } = await opened({ tripped_duration: 2 });
  const dead = new Set(), kill = async () => {
    for (const pid of workers()) { dead.add(pid); process.kill(pid, 'SIGKILL'); }
    await until(() => workers().length && workers().every((pid) => !dead.has(pid)), 'other workers', 120000);
    await until(() => through(to.host).then(() => true, () => false), 'that serve', 120000);
  };
  up.hold = true;
  const asked = [];
  await until(async () => { asked.push(through(to.host).catch(() => {})); await Promise.race([asked.at(-1), until(() => up.held.length, 'it is upstream')]); return up.held.length; }, 'a trial that waits');
  up.held.length = 0; // that trial gets no answer; one that comes while others are awaited does
  up.hold = false;
  up.status = 200;
  await kill();
  assert.equal((await pass(to)).status, 200);
  await Promise.all(asked);
  await up.close();
});

test('what cannot be a breaker is refused, and what was stored before is in force', async () => {
  const { up, to } = await opened();
  for (const wrong of [{ error_threshold_percentage: -0.1 }, { error_threshold_percentage: 1.1 }, { num_buckets: 129 }, { rolling_window: 86401 }, { tripped_duration: 86401 }, { volume_threshold: -1 }]) {
    const got = await api('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/circuit_breaker`, rules(wrong));
    assert.deepEqual([got.status, got.body.error_code], [400, 'ERR_POSTERN_161'], JSON.stringify(wrong));
  }
  assert.equal(code(await through(to.host)), OPEN);
  await up.close();
});
