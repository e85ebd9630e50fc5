// What was made and deleted leaves nothing behind: GROWTH_OBJECTS objects of many kinds, made by several clients through the API and deleted
// again, and then rows, files and memory are what they were. `make growth` has it on a stack of its own, which forgets requests after
// a minute, keeps GROWTH_EVENTS audit events and tidies up every second: a day's worth of these is no growth without end.
//
// A row or a byte that belongs to what is gone is found by its number: 3,000 objects times a row is 3,000 rows.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { edge, elsewhere, env, home, must, through, unique, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const OBJECTS = Number(process.env.GROWTH_OBJECTS || 3000), CLIENTS = Number(process.env.GROWTH_CLIENTS || 8);
const EVENTS = Number(process.env.POSTERN_EVENT_LOG_EVENTS), DELETIONS = 2048, REVISIONS = 4096, MB = 1 << 20;
const LIMIT = 120000 + OBJECTS * 10; // to wait for something, in ms
const skip = elsewhere || (process.env.POSTERN_IDEMPOTENCY_SECONDS ? false : 'make growth has a stack with the settings for it');
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtF,', '-c', text], { encoding: 'utf8' }).trim();
const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const stateFile = () => fs.statSync(`${home}/edge/config.state`).size;

// ---- a client that keeps its connections ----

const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS });
test.after(() => agent.destroy());
const url = new URL(env.POSTERN_API_URL);
const once = (method, path, body, key) => new Promise((resolve, reject) => {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const request = http.request({
    host: url.hostname, port: url.port, method, path, agent,
    headers: { Authorization: `Bearer ${env.POSTERN_API_KEY}`, 'Service-Version': '2', 'Idempotency-Key': key, ...(text === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }) },
  }, (response) => {
    const parts = [];
    response.on('data', (part) => parts.push(part));
    response.on('end', () => {
      const raw = Buffer.concat(parts).toString();
      if (response.statusCode !== (method === 'POST' ? 201 : 204)) return reject(new Error(`${method} ${path}: ${response.statusCode} ${raw}`));
      resolve(raw ? JSON.parse(raw) : undefined);
    });
  });
  request.on('error', reject);
  request.end(text);
});
// A connection that was idle may be closed just as it is used again: the same request under the same key is the same one.
let calls = 0;
async function call(method, path, body) {
  const key = `growth-${process.pid}-${calls++}`;
  for (let tries = 0; ; tries++)
    try { return await once(method, path, body, key); } catch (error) { if (error.code !== 'ECONNRESET' || tries === 3) throw error; }
}

// ---- objects ----

// Everything that one tenant's front needs, and what stands beside it; every twentieth is asked for something.
async function makeOne(n, made) {
  const host = unique('growth');
  const post = async (path, body, at = path) => {
    const object = await call('POST', path, body);
    made.push(`${at}/${object.id}`);
    return object;
  };
  await post('/reserved_domains', { domain: host });
  const front = await post('/edges/https', { hostports: [`${host}:443`] });
  const plain = await post('/backends/http_response', { body: `growth ${n}` });
  const tls = await post('/backends/static', { address: `${host}:8443`, tls: { enabled: true } });
  await post('/backends/weighted', { backends: { [plain.id]: 1, [tls.id]: 0 } });
  await post(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: plain.id }, request_headers: { add: { 'x-growth': `${n}` } } });
  await post(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/tls', backend: { backend_id: tls.id } });
  const policy = await post('/ip_policies', { description: 'growth' });
  await post('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' });
  const bot = await post('/bot_users', { name: host });
  await post('/api_keys', { owner_id: bot.id });
  await post('/credentials', {});
  const vault = await post('/vaults', { name: host });
  await post('/vault_secrets', { vault_id: vault.id, name: 'one', value: 'x' });
  const destination = await post('/event_destinations', { format: 'json', target: { datadog: { api_key: 'k', ddsite: 'datadoghq.com' } } });
  await post('/event_subscriptions', { destination_ids: [destination.id], sources: [{ type: 'api_key_created.v0' }] });
  if (n % 20 === 0) assert.equal((await through(host)).body, `growth ${n}`);
}

async function clients(work) {
  await Promise.all(Array.from({ length: CLIENTS }, work));
}

// Makes at least that many, then deletes them, the youngest of each first. Returns {made, create_s, delete_s, peak, entries}.
async function round(objects) {
  const all = [], there = entries();
  let n = 0, count = 0;
  const start = Date.now();
  await clients(async () => {
    while (count < objects) {
      const made = [];
      all.push(made);
      await makeOne(n++, made);
      count += made.length;
    }
  });
  const full = Date.now(), peak = await measure();
  await clients(async () => {
    for (let made; (made = all.pop());) while (made.length) await call('DELETE', made.pop());
  });
  return { made: count, create_s: (full - start) / 1000, delete_s: (Date.now() - full) / 1000, peak, entries: there };
}

// ---- what there is ----

const tables = () => sql("SELECT schemaname || '.' || relname FROM pg_stat_user_tables WHERE schemaname IN ('routes', 'identity', 'events') ORDER BY 1").split('\n');
function rows() {
  return new Map(sql(tables().map((name) => `SELECT '${name}', count(*) FROM ${name}`).join(' UNION ALL ')).split('\n').map((line) => line.split(',')).map(([name, n]) => [name, Number(n)]));
}

const bytes = () => Number(sql("SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables WHERE schemaname IN ('routes', 'identity', 'events')"));

// Private memory, in kB: what several processes share is not the growth of each.
const memory = (pid) => Number(fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').match(/^Private_Dirty:\s+(\d+)/m)[1]);
async function processes() {
  const out = {};
  for (const name of ['gateway', 'routes', 'identity', 'events']) out[name] = memory(pidOf(name));
  const master = pidOf('edge');
  children(master).filter((pid) => /worker process/.test(fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8'))).sort((a, b) => a - b).forEach((pid, i) => {
    out[`worker ${i}`] = memory(pid);
    children(pid).forEach((helper) => { out[`helper ${i}`] = memory(helper); });
  });
  return out;
}

async function measure() {
  return { rows: rows(), tables: bytes(), state: stateFile(), memory: await processes() };
}

const outbox = () => Number(sql("SELECT (SELECT count(*) FROM routes.outbox) + (SELECT count(*) FROM identity.outbox) + (SELECT count(*) FROM events.outbox)"));
const requests = () => Number(sql('SELECT (SELECT count(*) FROM routes.request) + (SELECT count(*) FROM identity.request) + (SELECT count(*) FROM events.request)'));
const deletions = () => Number(sql('SELECT count(*) FROM routes.config_entry WHERE doc IS NULL'));
const entries = () => Number(sql('SELECT count(*) FROM routes.config_entry WHERE doc IS NOT NULL'));
const total = ({ rows }) => [...rows.values()].reduce((sum, n) => sum + n, 0);
const logged = () => Number(sql('SELECT count(*) FROM events.log'));

// Until there is nothing more that is to go. VACUUM is what autovacuum does in its time; a second one gives back what the first found.
async function settle() {
  await until(() => outbox() === 0, 'all events are sent', LIMIT);
  await until(() => requests() === 0, 'requests are forgotten', LIMIT);
  await until(() => deletions() <= DELETIONS, 'deletions are forgotten', LIMIT);
  await until(() => logged() <= EVENTS + 256, 'the log is about as long as it may be', LIMIT); // what was stored at once stays or goes at once
  vacuum(); vacuum();
}
function vacuum(how = '') {
  execFileSync('psql', [env.DATABASE_URL, '-q'], { input: tables().map((name) => `VACUUM ${how} ${name};\n`).join('') });
}

// It is written anew when nothing was new for 20 s, at most once a minute, and when what was written behind a quarter of what it began with and 64 KB
// is deletions and the like: on a machine that was slow enough that happened half-way, and a little more is needed.
async function stateFileShrinks(before) {
  for (let turn = 0; ; turn++) {
    try { await until(() => stateFile() <= before + 64 * 1024 + before / 4, 'the state file is as before', 100000); return; } catch (error) {
      if (turn === 8) throw new Error(`${error.message}: ${before} bytes before, ${stateFile()} now`);
    }
    await round(200);
  }
}

test('what was made and deleted leaves nothing behind', { skip }, async () => {
  await round(500); // what is prepared, looked up and reserved once
  await settle();
  vacuum('FULL');
  const before = await measure();
  const all = await round(OBJECTS);
  await settle();
  const after = await measure();

  // What belongs to what is there, or is kept for a bounded time or up to a bound, and nothing else.
  const bounded = { 'routes.config_entry': DELETIONS, 'routes.config_revision': REVISIONS, 'events.log': 256 };
  for (const [name, n] of after.rows) assert.ok(n <= before.rows.get(name) + (bounded[name] ?? 64), `${name}: ${before.rows.get(name)} rows, ${n} after ${all.made} objects`);
  assert.equal(entries(), all.entries, 'entries of the config log that are no deletions');

  // The files of tables are cut behind the last row that is left; those of indexes keep their room for what comes.
  const again = await round(OBJECTS / 5);
  await settle();
  const reused = await measure();
  assert.ok(reused.tables <= after.tables + MB + after.tables / 10, `the same room serves again: ${after.tables} bytes, ${reused.tables} after ${again.made} more`);
  vacuum('FULL');
  const packed = bytes();
  assert.ok(packed <= before.tables + MB, `without that room: ${before.tables} bytes before, ${packed} now`);

  // Each object costs services nothing and a worker about a kilobyte while it is there; allocators keep some of what was free.
  const most = (name) => before.memory[name] + 4096 + all.made / 10;
  let now;
  await until(async () => { now = await processes(); return Object.keys(before.memory).every((name) => now[name] <= most(name)); }, 'memory is as before', LIMIT)
    .catch((error) => { throw new Error(`${error.message}: ${JSON.stringify(before.memory)} kB before, ${JSON.stringify(now)} now`); });
  await stateFileShrinks(before.state);
  const kb = (n) => Math.round(n / 1024), sum = (of) => Object.values(of).reduce((total, one) => total + one, 0);
  console.log(`growth: ${all.made} objects made in ${all.create_s.toFixed(0)} s, deleted in ${all.delete_s.toFixed(0)} s by ${CLIENTS} clients; before, full, after: `
    + `rows ${total(before)}, ${total(all.peak)}, ${total(after)}; database kB ${kb(before.tables)}, ${kb(all.peak.tables)}, ${kb(after.tables)} (packed ${kb(packed)}); `
    + `state file kB ${kb(before.state)}, ${kb(all.peak.state)}, ${kb(stateFile())}; memory kB ${sum(before.memory)}, ${sum(all.peak.memory)}, ${sum(now)} (${Object.entries(now).map(([name, n]) => `${name} ${before.memory[name]}, ${all.peak.memory[name]}, ${n}`).join('; ')})`);
});
