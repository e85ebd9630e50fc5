// kill -9 of each process in turn, under traffic and API changes: nothing that was confirmed is lost, nothing is
// done twice, traffic goes on, and everything comes back by itself.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import test from 'node:test';
import { api, edge, endpoint, env, home, listening, must, through, unique, until, upstream } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-Atc', text], { encoding: 'utf8' }).trim();
const workers = () => children(pidOf('edge'));
const helpers = () => children(workers());
// pids lists workers or helpers: as many as before, and none that was killed.
const replaced = (pids, count, killed, what) =>
  until(() => { try { const now = pids(); return now.length >= count && !now.some((pid) => killed.includes(pid)); } catch { return false; } }, what);
const healthy = async () => (await api('GET', '/api_keys?limit=1').catch(() => ({}))).status === 200;
const RATE = 1000; // requests a second

// Load ends with its story, also when that failed: later ones count requests.
const running = new Set();
test.afterEach(async () => { for (const load of running) await load.stop(); });

// Steady traffic on keep-alive connections; a request that fails is a failure of the story.
function traffic(host) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 32 });
  const stats = { sent: 0, ok: 0, failed: [], stop: null };
  let on = true;
  const pending = new Set();
  const loop = (async () => {
    while (on) {
      for (let i = 0; i < RATE / 50; i++) {
        const path = `/t/${stats.sent++}`;
        const one = through(host, path, { agent }).then(
          (got) => { if (got.status === 200) stats.ok++; else stats.failed.push(`${path} ${got.status}`); },
          (error) => stats.failed.push(`${path} ${error.code ?? error.message}`)).finally(() => pending.delete(one));
        pending.add(one);
      }
      await sleep(20);
    }
  })();
  stats.stop = async () => { on = false; running.delete(stats); await loop; await Promise.all(pending); agent.destroy(); };
  running.add(stats);
  return stats;
}

// Creates under idempotency keys, sent again until they are answered for good.
function changes() {
  const made = new Map(); // key -> id
  let on = true, n = 0;
  const loop = (async () => {
    while (on) {
      const key = `chaos-${process.pid}-${Date.now()}-${n++}`;
      for (;;) {
        const answer = await api('POST', '/backends/static', { address: '127.0.0.1:1', metadata: key }, { 'Idempotency-Key': key }).catch(() => null);
        if (answer?.status === 201) { made.set(key, answer.body.id); break; }
        assert.ok(!answer || answer.status === 503, answer?.raw);
        await sleep(50);
      }
    }
  })();
  const stats = { made, stop: async () => { on = false; running.delete(stats); await loop; } };
  running.add(stats);
  return stats;
}

const metric = async (name) => {
  const metrics = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((r) => r.text());
  return [...metrics.matchAll(new RegExp(`postern_edge_${name}\\{worker="\\d+"\\} (\\d+)`, 'g'))].reduce((sum, m) => sum + Number(m[1]), 0);
};
const packed = () => metric('events_total'), inFlight = () => metric('events_lost_total');
const received = () => Number(sql('SELECT coalesce(sum(events), 0) FROM events.producer'));
await sleep(1000);
const before = received() - await packed(); // what earlier runs of the edge left in the table

const up = await upstream((q, s) => s.end('ok'));
const to = await endpoint(up.address);
const subscription = await listening('');

for (const name of ['gateway', 'routes', 'identity', 'events', 'postgresql'])
  test(`kill -9 of ${name} fails no request and loses no change`, { timeout: 300000 }, async () => {
    const load = traffic(to.host), api_load = changes();
    await sleep(700);
    process.kill(pidOf(name), 'SIGKILL');
    await sleep(1500);
    await until(healthy, 'the API answers again', 120000);
    await sleep(500);
    await api_load.stop();
    await load.stop();
    assert.deepEqual(load.failed, [], 'requests failed');
    assert.ok(api_load.made.size > 0);
    const rows = sql(`SELECT metadata, string_agg(id, ',') FROM routes.static_backend WHERE metadata IN (${[...api_load.made.keys()].map((key) => `'${key}'`).join(',')}) GROUP BY 1`);
    const there = new Map(rows.split('\n').map((row) => row.split('|')));
    for (const [key, id] of api_load.made) assert.equal(there.get(key), id, 'made once');
    const keys = [...api_load.made.values()];
    await until(() => Number(sql(`SELECT count(*) FROM events.log WHERE event->'object'->>'id' IN (${keys.map((id) => `'${id}'`).join(',')})`)) === keys.length, 'one audit event each');
    console.log(`${name}: ${load.ok} requests ok, ${load.failed.length} failed, ${api_load.made.size} creates kept`);
  });

test('kill -9 of a worker fails only what was on it, and the next worker is up to date', { timeout: 300000 }, async () => {
  const load = traffic(to.host);
  await sleep(700);
  const victim = workers()[0];
  process.kill(victim, 'SIGKILL');
  await replaced(workers, 2, [victim], 'a new worker');
  const host = unique('after');
  const after = await endpoint({ body: 'new' }, { host });
  for (let i = 0; i < 40; i++) assert.equal((await through(after.host)).body, 'new');
  await sleep(500);
  await load.stop();
  const other = load.failed.filter((line) => !/ECONNRESET|socket hang up|EPIPE/.test(line));
  assert.deepEqual(other, []);
  assert.ok(load.failed.length <= 32, `${load.failed.length} connections were on the killed worker`);
  console.log(`worker: ${load.ok} requests ok, ${load.failed.length} were in flight on it`);
});

test('kill -9 of the helpers of all workers fails no request, and changes are live again', { timeout: 300000 }, async () => {
  const load = traffic(to.host);
  for (let round = 0; round < 5; round++) {
    await sleep(300);
    const victims = helpers();
    assert.equal(victims.length, workers().length);
    for (const victim of victims) process.kill(victim, 'SIGKILL');
    const all = `${workers().length}/${workers().length}`;
    await replaced(helpers, victims.length, victims, 'new helpers');
    const answered = async () => (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'];
    await until(async () => await answered() === all, 'changes are acknowledged by every worker again');
    const after = await endpoint({ body: `new ${round}` });
    for (let i = 0; i < 20; i++) assert.equal((await through(after.host)).body, `new ${round}`);
  }
  const near = await endpoint(up.address.replace('127.0.0.1', 'localhost'));
  assert.equal((await through(near.host)).body, 'ok', 'names are resolved again');
  await load.stop();
  assert.deepEqual(load.failed, []);
  console.log(`helpers: ${load.ok} requests ok, 0 failed, over 5 times all of them`);
});

// The worker goes on with what it has while it is without a helper, so nothing is live that it was not told of.
test('a change that is confirmed right after a helper was killed is served by its worker too', { timeout: 300000 }, async () => {
  const made = await endpoint({ body: 'first' });
  const path = `/edges/https/${made.edge.id}/routes/${made.route.id}`;
  for (let round = 0; round < 10; round++) {
    const backend = await must('POST', '/backends/http_response', { body: `round ${round}` });
    const all = helpers(), victim = all[round % all.length];
    process.kill(victim, 'SIGKILL');
    const answer = await api('PATCH', path, { backend: { backend_id: backend.id } });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['postern-edges'], `${all.length}/${all.length}`);
    const got = await Promise.all(Array.from({ length: 16 }, () => through(made.host)));
    assert.deepEqual(got.map(({ body }) => body), Array(16).fill(`round ${round}`));
    await replaced(helpers, all.length, [victim], 'a new helper');
  }
});

test('every request has its event, over all of these kills', { timeout: 300000 }, async () => {
  const host = unique('count');
  const counted = await endpoint({ body: 'c' }, { host });
  for (let i = 0; i < 300; i++) await through(counted.host, `/${i}`);
  const mine = () => subscription.events.filter((event) => event.object.http?.request.url.host === host);
  await until(() => mine().length === 300, '300 events');
  await sleep(500);
  assert.equal(new Set(mine().map((event) => event.event_id)).size, 300);
  const [lost, dropped] = sql('SELECT coalesce(sum(lost),0), coalesce(sum(dropped),0) FROM events.producer').split('|').map(Number);
  assert.equal(lost, 0);
  assert.equal(dropped, await inFlight(), 'but those of requests that were in flight on a killed worker');
  const made = await packed();
  await until(() => received() - before === made, `the ${made} events that the edge made are the ones that were received`);
  console.log(`events: ${made} made, ${received() - before} received, 0 lost, ${dropped} in flight on killed workers`);
});

// Batches lie in memory that postern-events reads; what is not acknowledged yet outlives the whole edge.
test('events that were made but not taken survive kill -9 of the whole edge', { timeout: 300000 }, async () => {
  const host = unique('kept');
  const kept = await endpoint({ body: 'k' }, { host });
  const mine = () => subscription.events.filter((event) => event.object.http?.request.url.host === host);
  const master = pidOf('edge'), events = pidOf('events');
  process.kill(events, 'SIGSTOP');
  try {
    for (let i = 0; i < 100; i++) await through(kept.host, `/${i}`);
    await sleep(200);
    process.kill(-master, 'SIGKILL');
    await until(() => { try { return pidOf('edge') !== master && workers().length >= 2; } catch { return false; } }, 'a new edge');
  } finally {
    process.kill(events, 'SIGCONT');
  }
  await until(() => mine().length === 100, '100 events');
  await sleep(300);
  assert.equal(new Set(mine().map((event) => event.event_id)).size, 100);
  await until(async () => (await through(kept.host)).status === 200, 'it serves');
});

test('an edge whose memory cannot be read sends its events', { timeout: 300000, skip: fs.existsSync(`${home}/edge/events.memory`) ? false : 'there is no shared memory here' }, async () => {
  const host = unique('sent');
  const sent = await endpoint({ body: 's' }, { host });
  const mine = () => subscription.events.filter((event) => event.object.http?.request.url.host === host).length;
  const memory = fs.realpathSync(`${home}/edge/events.memory`);
  await through(sent.host);
  await until(() => mine() === 1, 'the event of one that is read');
  fs.chmodSync(memory, 0);
  try {
    for (let i = 0; i < 50; i++) await through(sent.host);
    await until(() => mine() === 51, 'the events of those that are sent');
  } finally {
    fs.chmodSync(memory, 0o600);
  }
});

// What is gone is counted and the sequence goes on; a producer must not be told to resend for ever.
test('a database restored from an older backup and a torn spool hold no later event up', { timeout: 300000 }, async () => {
  const host = unique('gap');
  const to_count = await endpoint({ body: 'g' }, { host });
  const mine = () => subscription.events.filter((event) => event.object.http?.request.url.host === host).length;
  const drive = async (n) => { const want = mine() + n; for (let i = 0; i < n; i++) await through(to_count.host); await until(() => mine() >= want, `${n} more events`); };
  await drive(100);
  const lostBefore = Number(sql('SELECT coalesce(sum(lost), 0) FROM events.producer'));
  const live = sql("SELECT count(*) FROM events.producer WHERE at > now() - interval '5 s' AND last_seq > 20");
  assert.ok(Number(live) > 0);
  sql("UPDATE events.producer SET last_seq = last_seq - 7 WHERE at > now() - interval '5 s' AND last_seq > 20");
  await drive(100);
  await until(() => Number(sql('SELECT coalesce(sum(lost), 0) FROM events.producer')) === lostBefore + 7 * Number(live), 'what is missing is counted')
    .catch((error) => { throw new Error(`${error.message}: ${sql('SELECT name, last_seq, events, lost, at FROM events.producer')}`); });

  const victim = workers()[0];
  fs.writeFileSync(`${home}/edge/events.0.spool`, Buffer.alloc(100, 0xff), { mode: 0o600 });
  fs.writeFileSync(`${home}/edge/events.1.spool`, Buffer.alloc(4096), { mode: 0o600 });
  const uid = fs.statSync(`${home}/edge`).uid;
  for (const i of [0, 1]) if (process.getuid() === 0) fs.chownSync(`${home}/edge/events.${i}.spool`, uid, uid);
  process.kill(victim, 'SIGKILL');
  await replaced(workers, 2, [victim], 'a new worker');
  await drive(200);
  await subscription.stop();
});

// A cold start of the edge with every service down: stopped, not killed, or the supervisor would start them again.
async function alone(host, check) {
  const pids = ['gateway', 'routes', 'identity', 'events', 'postgresql'].map(pidOf);
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  try {
    const before = pidOf('edge');
    process.kill(before, 'SIGKILL');
    await until(() => pidOf('edge') !== before, 'a new edge');
    await until(() => through(host).then((got) => got.status === 200, () => false), 'the edge serves alone');
    await check();
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
  await until(healthy, 'the API answers again');
}

test('with every service down a restarted edge serves its last configuration', { timeout: 300000 }, async () => {
  const host = unique('alone');
  const { backend } = await endpoint({ body: 'alone' }, { host });
  const shared = await endpoint(await must('POST', '/backends/weighted', { backends: { [backend.id]: 1 } }));
  await alone(host, async () => {
    assert.equal((await through(host)).body, 'alone');
    assert.equal((await through(to.host)).status, 200);
    assert.equal((await through(shared.host)).body, 'alone', 'backends of every kind');
  });
  const after = await endpoint({ body: 'again' });
  assert.equal((await through(after.host)).body, 'again');
  await must('GET', '/edges/https?limit=1');
});

// The state file is written by a helper, which may be killed in the middle of a record.
test('what is acknowledged is on disk, also behind a torn record and a change that is missing', { timeout: 300000 }, async () => {
  const file = `${home}/edge/config.state`;
  const killHelpers = async () => {
    const victims = helpers();
    for (const victim of victims) process.kill(victim, 'SIGKILL');
    await replaced(helpers, victims.length, victims, 'new helpers');
    await until(async () => /^(\d+)\/\1$/.test((await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges']), 'changes are acknowledged');
  };
  const named = async (body) => (await endpoint({ body })).host;
  const hosts = [await named('before')];

  await killHelpers();
  hosts.push(await named('after a kill'));

  // half of a record: a length and a few bytes of what it promises
  fs.appendFileSync(file, Buffer.concat([Buffer.from([0, 0, 4, 0]), Buffer.alloc(99, 1)]));
  await killHelpers();
  hosts.push(await named('behind a torn record'));
  await alone(hosts[0], async () => {
    for (const host of hosts) assert.equal((await through(host)).status, 200, host);
  });

  // the last change is cut off, as by a file system that lost it: all of it is asked for, and written again
  let at = 0, last = 0;
  const bytes = fs.readFileSync(file);
  while (at < bytes.length) { last = at; at += 4 + bytes.readUInt32BE(at); }
  assert.equal(at, bytes.length, 'whole records');
  fs.truncateSync(file, last);
  const inode = fs.statSync(file).ino;
  await killHelpers();
  hosts.push(await named('behind a gap'));
  await until(() => fs.statSync(file).ino !== inode, 'a whole new file');
  hosts.push(await named('in the new file'));
  await alone(hosts[0], async () => {
    for (const host of hosts) assert.equal((await through(host)).status, 200, host);
  });
});

// File systems give the inode of a file that was replaced to a later one; a worker must not read on in the middle of that.
test('a state file that has the inode of the one that the edge began with is read from its beginning', { timeout: 300000 }, async () => {
  const file = `${home}/edge/config.state`, first = `${file}.first`;
  const master = pidOf('edge');
  process.kill(master, 'SIGKILL'); // the next master reads the file as it is now
  await until(() => { try { return pidOf('edge') !== master && workers().length >= 2; } catch { return false; } }, 'a new edge');
  fs.linkSync(file, first);
  const inode = fs.statSync(file).ino;
  let at = 0, last = 0;
  const bytes = fs.readFileSync(file);
  while (at < bytes.length) { last = at; at += 4 + bytes.readUInt32BE(at); }
  fs.truncateSync(file, last); // so all of it is asked for
  const before = helpers();
  for (const victim of before) process.kill(victim, 'SIGKILL');
  await replaced(helpers, before.length, before, 'new helpers');
  const { host } = await endpoint({ body: 'later' });
  await until(() => fs.statSync(file).ino !== inode, 'a new file');
  const pids = ['gateway', 'routes', 'identity', 'events', 'postgresql'].map(pidOf);
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  try {
    fs.writeFileSync(first, fs.readFileSync(file));
    fs.renameSync(first, file);
    assert.equal(fs.statSync(file).ino, inode);
    const all = workers();
    for (const victim of all) process.kill(victim, 'SIGKILL');
    await replaced(workers, all.length, all, 'new workers');
    await until(() => through(host).then((got) => got.body === 'later', () => false), 'the later configuration is served');
    for (let i = 0; i < 10; i++) assert.equal((await through(host)).body, 'later');
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
  await until(healthy, 'the API answers again');
});

// A worker's first words to the config log and its reading of the state file must not cross: with a state of many
// chunks, and a master that has nothing to hand on, the one takes long enough to meet the other.
test('workers that are killed again and again come back with all of a large configuration', { timeout: 300000 }, async () => {
  for (let i = 0; i < 250; i++)
    await Promise.all(Array.from({ length: 8 }, (_, k) => must('POST', '/backends/http_response', { body: `${i}.${k}` })));
  const master = pidOf('edge');
  fs.rmSync(`${home}/edge/config.state`);
  process.kill(master, 'SIGKILL');
  await until(() => { try { return pidOf('edge') !== master && workers().length >= 2; } catch { return false; } }, 'a new edge');
  await until(() => fs.existsSync(`${home}/edge/config.state`), 'a new state file');
  for (let round = 0; round < 20; round++) {
    const all = workers(), victim = all[round % all.length];
    process.kill(victim, 'SIGKILL');
    await replaced(workers, all.length, [victim], 'a new worker');
    const answered = async () => (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'];
    await until(async () => await answered() === `${all.length}/${all.length}`, `every worker acknowledges changes, round ${round}`);
    const after = await endpoint({ body: `round ${round}` });
    for (let i = 0; i < 20; i++) assert.equal((await through(after.host)).body, `round ${round}`);
    assert.equal((await through(to.host)).status, 200);
  }
});

test('cleanup', async () => up.close());
