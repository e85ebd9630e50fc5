// The edge is replaced under load by another build of its module: no request fails, no event is lost, a stream is ended at the
// bound and not before, changes are live for old and new connections alike; and a build that cannot serve replaces nothing.
//
// What counts as failed: every request that has no answer with status 200, whatever the reason, with one exception: a stream of
// HTTP/2 that the edge's GOAWAY names as not taken (RFC 9113 6.8) is sent again on another connection, as every client does.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { fileURLToPath } from 'node:url';
import { api, ca, edge, endpoint, env, home, listening, must, through, until, upstream, WebSocket } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const ended = (pid) => { try { return /\) Z /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8')); } catch { return true; } };
const BOUND_S = 8;
// Two are all there can be.
const alone = () => until(() => { try { return ended(Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid.oldbin`, 'utf8'))); } catch { return true; } }, 'the edge that was replaced before has ended', 120000);

async function info() {
  const metrics = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((r) => r.text());
  const [, build, generation, master] = metrics.match(/postern_edge_info\{build="([0-9a-f]+)",generation="(\d+)",master="(\d+)"\} 1/);
  return { build, generation: Number(generation), master: Number(master) };
}

// A build folder whose module is the present one under another build id: what the linker would have given to other source.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-build-'));
test.after(() => fs.rmSync(folder, { recursive: true, force: true }));
const built = path.join(folder, 'edge/ngx_http_postern_module.so');
fs.mkdirSync(path.dirname(built));
function build(id) {
  const module = fs.readFileSync(`${home}/bin/ngx_http_postern_module.so`);
  const old = Buffer.from(id, 'hex'), at = module.indexOf(old);
  assert.ok(at > 0, 'the build id is in the module');
  module[at + old.length - 1] ^= 0xff;
  fs.rmSync(built, { force: true });
  fs.writeFileSync(built, module);
  return module.subarray(at, at + old.length).toString('hex');
}

function replace(also = {}) {
  return new Promise((resolve) => {
    const child = spawn(path.join(root, 'deploy/stack'), ['replace-edge'], { env: { ...process.env, POSTERN_BUILD: folder, ...also } });
    let said = '';
    child.stdout.on('data', (part) => { said += part; });
    child.stderr.on('data', (part) => { said += part; });
    child.on('close', (status) => resolve({ status, said }));
  });
}

// Steady load in three kinds; the agent takes the connection that was idle longest, so none is idle for long.
const running = new Set();
test.afterEach(async () => { for (const load of running) await load.stop(); });
function load(host) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 16, scheduling: 'fifo' });
  const stats = { sent: 0, ok: 0, again: 0, failed: [] };
  const pending = new Set();
  let on = true, session;
  const connect = () => {
    const fresh = http2.connect(`https://${edge.host}:${edge.port}`, { ca, servername: host });
    fresh.on('goaway', () => { if (session === fresh) session = undefined; });
    fresh.on('close', () => { if (session === fresh) session = undefined; });
    fresh.on('error', () => { if (session === fresh) session = undefined; });
    return fresh;
  };
  const second = (target) => new Promise((resolve, reject) => {
    if (!session || session.closed || session.destroyed) session = connect();
    const stream = session.request({ ':path': target, ':authority': host });
    let status;
    stream.on('response', (headers) => { status = headers[':status']; });
    stream.on('error', (error) => reject(Object.assign(error, { refused: stream.rstCode === http2.constants.NGHTTP2_REFUSED_STREAM || error.code === 'ERR_HTTP2_GOAWAY_SESSION' })));
    stream.on('end', () => resolve({ status }));
    stream.resume();
    stream.end();
  });
  const again = async (target) => {
    for (;;) {
      try { return await second(target); } catch (error) { if (!error.refused) throw error; stats.again++; session = undefined; }
    }
  };
  const one = (kind, request) => {
    stats.sent++;
    const started = Date.now();
    const it = request.then(
      ({ status }) => { if (status === 200) stats.ok++; else stats.failed.push(`${kind} ${status}`); },
      (error) => stats.failed.push(`${kind} ${error.code ?? error.message} after ${Date.now() - started} ms`)).finally(() => pending.delete(it));
    pending.add(it);
  };
  const loop = (async () => {
    for (let i = 0; on; i++) {
      for (let k = 0; k < 4; k++) one('keep-alive', through(host, `/k${i}`, { agent }));
      one('new connection', through(host, `/n${i}`));
      for (let k = 0; k < 3; k++) one('HTTP/2', again(`/h${i}`));
      await sleep(20);
    }
  })();
  stats.stop = async () => { on = false; running.delete(stats); await loop; await Promise.all(pending); agent.destroy(); session?.close(); };
  running.add(stats);
  return stats;
}

// A WebSocket whose server echoes frames as they are.
const echo = await upstream();
echo.server.on('upgrade', (request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: '
    + WebSocketAccept(request.headers['sec-websocket-key']) + '\r\n\r\n');
  socket.on('data', (data) => { if ((data[0] & 0x0f) === 1) socket.write(unmask(data)); });
  socket.on('error', () => {});
});
const { createHash } = await import('node:crypto');
function WebSocketAccept(key) { return createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64'); }
function unmask(frame) {
  const length = frame[1] & 0x7f, mask = frame.subarray(2, 6), text = Buffer.from(frame.subarray(6, 6 + length).map((byte, i) => byte ^ mask[i % 4]));
  return Buffer.concat([Buffer.from([0x81, length]), text]);
}
async function stream(host) {
  const ws = new WebSocket(`wss://${edge.host}:${edge.port}/ws`, { ca, servername: host, headers: { Host: host } });
  await new Promise((resolve, reject) => { ws.on('open', resolve); ws.on('error', reject); });
  const heard = [];
  ws.on('message', (data) => heard.push(String(data)));
  ws.on('error', () => {});
  let count = 0;
  return { ws, closed: () => ws.readyState === WebSocket.CLOSED,
    echoes: async () => { const text = `m${count++}`; ws.send(text); await until(() => heard.includes(text), `an echo of ${text}`); } };
}

const up = await upstream((q, s) => s.end('ok'));
const to = await endpoint(up.address);
const ws_to = await endpoint(echo.address);
const subscription = await listening('');
const eventsOf = (host) => subscription.events.filter((event) => event.object.http?.request.url.host === host);

test('an edge is replaced under load without a failed request or a lost event', { timeout: 300000 }, async () => {
  for (let round = 0; round < 2; round++) {
    const old = await info(), id = build(old.build);
    const before = eventsOf(to.host).length;
    const traffic = load(to.host);
    await sleep(1000);
    const { status, said } = await replace({ POSTERN_DRAIN_TIMEOUT: `${BOUND_S}s` });
    assert.equal(status, 0, said);
    await until(() => ended(old.master), 'the old master ends', 120000);
    await sleep(1000);
    await traffic.stop();
    assert.deepEqual(traffic.failed, []);
    assert.equal(traffic.ok, traffic.sent);
    const now = await info();
    assert.equal(now.build, id, 'the new build serves');
    assert.equal(now.generation, old.generation + 1);
    assert.equal(pidOf('edge'), now.master);
    await until(() => eventsOf(to.host).length - before >= traffic.sent, `${traffic.sent} events`, 120000);
    assert.equal(new Set(eventsOf(to.host).map((event) => event.event_id)).size - before, traffic.sent, 'each once');
    console.log(`${traffic.sent} requests, ${traffic.failed.length} failed, ${traffic.again} streams sent again; as many events`);
  }
});

test('what is confirmed while an old edge drains holds on its connections and on new ones; its stream ends at the bound', { timeout: 300000 }, async () => {
  const old = await info();
  build(old.build);
  const made = await endpoint({ body: 'first' });
  const socket = await stream(ws_to.host);
  await socket.echoes();
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  assert.equal((await through(made.host, '/', { agent })).headers.connection, 'keep-alive');
  const { status, said } = await replace({ POSTERN_DRAIN_TIMEOUT: `${BOUND_S}s` });
  const replaced = Date.now();
  assert.equal(status, 0, said);

  const backend = await must('POST', '/backends/http_response', { body: 'second' });
  const answer = await api('PATCH', `/edges/https/${made.edge.id}/routes/${made.route.id}`, { backend: { backend_id: backend.id } });
  assert.equal(answer.status, 200);
  assert.match(answer.headers['postern-edges'], /^(\d+)\/\1$/);
  assert.ok(Number(answer.headers['postern-edges'].split('/')[1]) > children(pidOf('edge')).length, 'the workers of both count');
  const kept = await through(made.host, '/', { agent });
  assert.deepEqual([kept.body, kept.headers.connection], ['second', 'close'], 'the last answer on the old connection');
  const got = await Promise.all(Array.from({ length: 16 }, () => through(made.host)));
  assert.deepEqual(got.map(({ body }) => body), Array(16).fill('second'));

  while (Date.now() - replaced < BOUND_S * 1000 - 1000) { await socket.echoes(); await sleep(200); }
  assert.equal(ended(old.master), false);
  const third = await replace();
  assert.equal(third.status, 1);
  assert.match(third.said, /replaced before still serves/);
  await until(socket.closed, 'the stream is ended', 120000);
  assert.ok(Date.now() - replaced >= BOUND_S * 1000, 'not before the bound');
  await until(() => ended(old.master), 'the old master ends');
  agent.destroy();
});

// An edge that was killed leaves its number behind, and is listed until somebody waits for it: tried before and after that.
async function refusesBuilds() {
  await alone();
  const old = await info();
  const traffic = load(to.host);
  fs.rmSync(built, { force: true });
  fs.writeFileSync(built, 'no module');
  const broken = await replace();
  assert.equal(broken.status, 1);
  assert.match(broken.said, /does not load: nothing was replaced/);
  build(old.build);
  const other = await replace({ POSTERN_EDGE_WORKERS: String(children(old.master).length + 1) });
  assert.equal(other.status, 1);
  assert.match(other.said, /The old one .* goes on/);
  await traffic.stop();
  assert.deepEqual(traffic.failed, []);
  assert.deepEqual(await info(), old);
  assert.equal(pidOf('edge'), old.master);
  const { status, said } = await replace();
  assert.equal(status, 0, `the next attempt goes through: ${said}`);
  await until(() => ended(old.master), 'the old master ends', 120000);
}

// nginx starts the workers of a master again that has a successor, and reads nothing: the way back, where the old ones had been ended.
test('a reload of a master that is being replaced starts no second worker for any memory of events', { timeout: 300000 }, async () => {
  await alone();
  const old = await info(), log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  const before = eventsOf(to.host).length;
  build(old.build);
  const socket = await stream(ws_to.host);
  const traffic = load(to.host);
  process.kill(old.master, 'SIGUSR2');
  await until(() => fs.existsSync(`${env.POSTERN_RUN_DIR}/edge.pid.oldbin`), 'a successor');
  process.kill(old.master, 'SIGHUP');
  await until(() => /another process has the event memory of worker 0: this one ends/.test(fs.readFileSync(log).subarray(from).toString()), 'a worker that finds another in its place');
  await socket.echoes();
  await until(async () => { try { return (await info()).master !== old.master; } catch { return false; } }, 'the new master serves', 120000);
  socket.ws.terminate();
  await until(() => ended(old.master), 'the old master ends', 120000);
  await traffic.stop();
  assert.deepEqual(traffic.failed, []);
  await until(() => eventsOf(to.host).length - before >= traffic.sent, `${traffic.sent} events`, 120000);
  assert.equal(new Set(eventsOf(to.host).map((event) => event.event_id)).size - before, traffic.sent, 'each once');
});

test('a build that cannot serve replaces nothing, and the command says so', { timeout: 300000 }, refusesBuilds);

test('events that the old edge could not send are sent by the new one', { timeout: 300000 }, async () => {
  for (const how of ['it ends', 'it is killed']) {
    const kept = await endpoint({ body: 'k' });
    const old = await info(), events = pidOf('events');
    build(old.build);
    const socket = how === 'it is killed' ? await stream(ws_to.host) : null;
    process.kill(events, 'SIGSTOP');
    try {
      for (let i = 0; i < 100; i++) await through(kept.host, `/${i}`);
      const { status, said } = await replace({ POSTERN_DRAIN_TIMEOUT: '300s' });
      assert.equal(status, 0, said);
      for (let i = 0; i < 100; i++) await through(kept.host, `/n${i}`);
      if (socket) {
        const pids = [old.master, ...children(old.master).filter((pid) => pid !== pidOf('edge'))]; // its successor is its child, too
        for (const pid of pids) process.kill(pid, 'SIGKILL');
      }
      await until(() => ended(old.master), 'the old master ends', 120000);
    } finally {
      process.kill(events, 'SIGCONT');
    }
    await until(() => eventsOf(kept.host).length >= 200, `200 events where ${how}`, 120000);
    assert.equal(new Set(eventsOf(kept.host).map((event) => event.event_id)).size, 200, 'each once');
    assert.equal((await through(kept.host)).body, 'k');
  }
});

test('a build that cannot serve replaces nothing where an old edge was killed a moment ago, either', { timeout: 300000 }, refusesBuilds);

for (const version of ['TLSv1.2', 'TLSv1.3'])
  test(`${version}: a session that the old edge began is resumed by the new one`, { timeout: 300000 }, async () => {
    const connect = (session) => new Promise((resolve, reject) => {
      const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, session, minVersion: version, maxVersion: version });
      socket.on('secureConnect', () => socket.write(`GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close\r\n\r\n`));
      socket.on('error', reject);
      socket.resume();
      let got;
      socket.on('end', () => { got = { reused: socket.isSessionReused(), session: socket.getSession() }; });
      socket.on('close', () => resolve(got));
    });
    await alone();
    const old = await info(), id = build(old.build);
    let { session } = await connect();
    const first = session;
    let done;
    const replaced = replace().finally(() => { done = true; });
    for (let i = 0; !done || i < 20; i++) { // while both run: what one gave, the other takes
      const got = await connect(session);
      assert.equal(got.reused, true);
      session = got.session;
    }
    const { status, said } = await replaced;
    assert.equal(status, 0, said);
    await until(() => ended(old.master), 'the old master ends', 120000);
    assert.equal((await info()).build, id);
    assert.deepEqual(await Promise.all(Array.from({ length: 20 }, () => connect(first).then(({ reused }) => reused))), Array(20).fill(true));
  });

test("a number that an edge left is no edge: neither when its process ended and nobody waited for it, nor when it is a stranger's", { timeout: 300000 }, async () => {
  const file = `${env.POSTERN_RUN_DIR}/edge.pid.oldbin`;
  await alone();
  const parent = spawn('sh', ['-c', 'sleep 0 & exec sleep 300']);
  try {
    const unwaited = () => children(parent.pid).find((pid) => Number.isInteger(pid) && pid > 0 && ended(pid));
    await until(unwaited, 'a process that nobody waits for');
    for (const pid of [unwaited(), process.pid, pidOf('demo')]) {
      const old = await info(), id = build(old.build);
      fs.writeFileSync(file, `${pid}\n`);
      const { status, said } = await replace();
      assert.equal(status, 0, said);
      await until(() => ended(old.master), 'the old master ends', 120000);
      assert.equal((await info()).build, id);
    }
  } finally {
    parent.kill('SIGKILL');
  }
});

test('a master that replaced another one is started again when it is killed', { timeout: 300000 }, async () => {
  const old = await info();
  process.kill(old.master, 'SIGKILL');
  await until(async () => { try { return (await info()).master !== old.master; } catch { return false; } }, 'a new master');
  await until(async () => (await through(to.host).catch(() => ({}))).status === 200, 'traffic');
  await until(async () => (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'] === `${children(pidOf('edge')).length}/${children(pidOf('edge')).length}`, 'its workers alone are waited for');
});

test('whoever follows the masters may be killed: the next one goes on with the master that runs', { timeout: 300000 }, async () => {
  const old = await info(), follower = pidOf('edge-run');
  const traffic = load(to.host);
  process.kill(follower, 'SIGKILL');
  await until(() => pidOf('edge-run') !== follower && !ended(pidOf('edge-run')), 'another follower');
  await sleep(1000);
  await traffic.stop();
  assert.deepEqual(traffic.failed, []);
  assert.deepEqual(await info(), old);
  process.kill(old.master, 'SIGKILL');
  await until(async () => { try { return (await info()).master !== old.master; } catch { return false; } }, 'a new master');
});

const titles = (pid) => children(pid).map((child) => { try { return fs.readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0')[0]; } catch { return ''; } });
const draining = (pid) => titles(pid).includes('nginx: worker process is shutting down') && !titles(pid).includes('nginx: worker process');
const kill = (master) => { for (const pid of [master, ...children(master)]) process.kill(pid, 'SIGKILL'); };
const serves = async (not) => { try { return (await info()).master !== not && (await through(to.host)).status === 200; } catch { return false; } };

test('a new edge that dies while the old one still ends a stream is started again beside it, as often as it dies', { timeout: 300000 }, async () => {
  const old = await info();
  build(old.build);
  const socket = await stream(ws_to.host);
  const { status, said } = await replace();
  assert.equal(status, 0, said);
  await until(() => draining(old.master), 'the old edge ends what it has', 120000);
  for (let i = 0; i < 2; i++) {
    const { master } = await info();
    kill(master);
    await until(() => serves(master), 'another edge serves');
    await socket.echoes();
  }
  const now = await info();
  assert.ok(draining(old.master), 'the old one was not ended for it');
  await until(() => pidOf('edge') === now.master, 'the pid file names the one that serves');
  const early = await replace();
  assert.equal(early.status, 1, early.said);
  assert.deepEqual(await info(), now);
  socket.ws.terminate();
  await until(() => ended(old.master), 'the old master ends', 120000);
  await until(() => { try { return pidOf('edge') === now.master; } catch { return false; } }, 'the pid file still names the one that serves');
  const next = await replace();
  assert.equal(next.status, 0, next.said);
  await until(() => ended(now.master), 'it ends, too', 120000);
});

test('a seat that says a number its last master had, which is that of the present one again, is no predecessor', { timeout: 300000 }, async () => {
  const seats = `${home}/edge/edge.seats`, last = () => Number(fs.readFileSync(seats).readBigUInt64LE(32));
  const swap = async () => {
    const old = await info();
    build(old.build);
    const { status, said } = await replace();
    assert.equal(status, 0, said);
    await until(() => ended(old.master), 'the old master ends', 120000);
  };
  if (last() === 0) await swap();
  assert.equal(last(), 1);
  const file = fs.openSync(seats, 'r+'), pid = Buffer.alloc(4);
  pid.writeUInt32LE(pidOf('edge'));
  fs.writeSync(file, pid, 0, 4, 40 + 24); // the first seat's master
  fs.closeSync(file);
  await swap();
});

test('of two replacements at once one is refused, and leaves nothing of its own', { timeout: 300000 }, async () => {
  const old = await info(), id = build(old.build);
  const done = await Promise.all([replace(), replace(), replace()]);
  assert.deepEqual(done.map(({ status }) => status).sort(), [0, 1, 1], JSON.stringify(done));
  for (const { said } of done.filter(({ status }) => status)) assert.match(said, /^error: the edge is being replaced already\n$/);
  await until(() => ended(old.master), 'the old master ends', 120000);
  const now = await info();
  assert.deepEqual([now.build, now.generation], [id, old.generation + 1]);
  assert.ok(fs.readFileSync(`${home}/bin/ngx_http_postern_module.so`).includes(Buffer.from(id, 'hex')), 'a restart has the new build, too');
  assert.deepEqual(['bin', 'edge'].flatMap((folder) => fs.readdirSync(`${home}/${folder}`)).filter((name) => /\.(old|new)$/.test(name)), []);
});

test("a stranger's file in the place of event memory is neither read nor written", { timeout: 300000, skip: env.POSTERN_EVENT_MEMORY === '' || fs.readdirSync(`${home}/edge`).every((name) => !name.endsWith('.memory')) ? 'there is no shared memory here' : false }, async () => {
  const seat = Number(fs.readFileSync(`${home}/edge/edge.seats`).readBigUInt64LE(32));
  const own = fs.readlinkSync(`${home}/edge/events${['', '.1'][seat]}.memory`), other = seat ? own.slice(0, -2) : `${own}01`;
  const told = () => fs.readFileSync(`${env.POSTERN_LOG_DIR}/edge.log`, 'utf8').split(`"${other}" is no event memory of this user alone`).length - 1;
  const kept = await endpoint({ body: 'k' });
  const events = pidOf('events'), before = told();
  await until(() => !fs.existsSync(other), 'the other seat has left nothing');
  process.kill(events, 'SIGSTOP');
  let left;
  try {
    for (let i = 0; i < 50; i++) await through(kept.host, `/${i}`);
    left = fs.readFileSync(own); // with events that nobody took
    fs.writeFileSync(`${other}.made`, left);
    fs.chmodSync(`${other}.made`, 0o666);
    fs.renameSync(`${other}.made`, other);
    await until(() => told() > before, 'the edge says what lies there');
  } finally {
    process.kill(events, 'SIGCONT');
  }
  try {
    await until(() => eventsOf(kept.host).length >= 50, '50 events');
    assert.ok(fs.readFileSync(other).equals(left), 'nothing was taken from it');
    const old = await info();
    build(old.build);
    const { status, said } = await replace();
    assert.equal(status, 0, said);
    for (let i = 0; i < 50; i++) await through(kept.host, `/n${i}`);
    await until(() => eventsOf(kept.host).length >= 100, '100 events', 120000);
    assert.ok(fs.readFileSync(other).equals(left), 'nothing was written to it');
    fs.truncateSync(other, 0);
    for (let i = 0; i < 50; i++) assert.equal((await through(kept.host, `/t${i}`)).status, 200);
    await until(() => ended(old.master), 'the old master ends', 120000);
    await until(() => eventsOf(kept.host).length >= 150, '150 events', 120000);
    assert.equal(new Set(eventsOf(kept.host).map((event) => event.event_id)).size, 150, 'each once');
  } finally {
    fs.rmSync(other, { force: true });
  }
});

test("what the services' user leaves where the state is, root's replace-edge neither runs nor follows", { timeout: 300000, skip: process.getuid() === 0 ? false : 'root and the services are one user here' }, async () => {
  const state = fs.realpathSync(home), { uid, gid } = fs.statSync(state);
  assert.notEqual(uid, 0);
  const secret = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-secret-')); // root's alone
  const settings = `${state}/stack.settings`, before = fs.existsSync(settings) ? fs.readFileSync(settings) : null;
  const links = ['bin/.new', 'bin/edge.new', 'bin/ngx_http_postern_module.so.new', 'bin/ngx_http_postern_module.so.old', 'edge/nginx.conf.new', 'edge/nginx.conf.old', 'edge/api.conf.old', 'edge/api.conf.new', 'demo.conf.new'];
  try {
    fs.writeFileSync(settings, `${before ?? ''}\nid >${secret}/ran\n`);
    fs.chownSync(settings, uid, gid);
    for (const name of links) {
      fs.rmSync(`${state}/${name}`, { force: true });
      fs.symlinkSync(`${secret}/${name.replace('/', '-')}`, `${state}/${name}`);
      fs.lchownSync(`${state}/${name}`, uid, gid);
    }
    const old = await info(), id = build(old.build);
    const { status, said } = await replace();
    assert.deepEqual(fs.readdirSync(secret), [], said);
    assert.equal(status, 0, said);
    await until(() => ended(old.master), 'the old master ends', 120000);
    assert.equal((await info()).build, id);
  } finally {
    for (const name of links) fs.rmSync(`${state}/${name}`, { force: true });
    if (before) fs.writeFileSync(settings, before); else fs.rmSync(settings, { force: true });
    fs.rmSync(secret, { recursive: true });
  }
});
