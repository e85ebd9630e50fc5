// What is started again leaves nothing behind: the edge GROWTH_RESTARTS times, stopped and killed in turn, and services between. Then files, shared
// memory, open files and producers are what they were, and every event is counted once.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { api, elsewhere, endpoint, env, home, listening, must, through, until } from '../support/postern.mjs';

const RESTARTS = Number(process.env.GROWTH_RESTARTS || 8), LIMIT = 60000 + 10000 * RESTARTS, OLD = 40; // days; the service's bound is 30
const skip = elsewhere || (process.env.POSTERN_IDEMPOTENCY_SECONDS ? false : 'make growth has a stack with the settings for it');
const SERVICES = ['gateway', 'routes', 'identity', 'events'];
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtF,', '-c', text], { encoding: 'utf8' }).trim();
const pidOf = (name) => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')); } catch { return 0; } }; // none while it starts
const answers = () => api('GET', '/api_keys?limit=1').then(({ status }) => status === 200, () => false);

async function again(name, signal) {
  const pid = pidOf(name);
  process.kill(name === 'edge' && signal === 'SIGKILL' ? -pid : pid, signal);
  await until(() => ![0, pid].includes(pidOf(name)), `another ${name}`, LIMIT);
}

// Files of the edge and sockets, as the paths that they have, and where the edge's lead to.
const inside = (dir) => fs.readdirSync(dir, { withFileTypes: true }).flatMap((one) => (one.isDirectory() ? inside(path.join(dir, one.name)) : [path.join(dir, one.name)]));
const files = () => [...inside(`${home}/edge`), ...inside(env.POSTERN_RUN_DIR)].sort();
// The key of the state file names the memory of its edge: nothing but a second seat's is called longer.
function memory() {
  const link = `${home}/edge/events.memory`;
  if (!fs.existsSync(link)) return [];
  const file = fs.realpathSync(link), dir = path.dirname(file);
  return fs.readdirSync(dir).filter((name) => name.startsWith(path.basename(file))).map((name) => `${name} ${fs.statSync(path.join(dir, name)).size}`).sort();
}
const open = () => Object.fromEntries([...SERVICES, 'edge'].map((name) => [name, fs.readdirSync(`/proc/${pidOf(name)}/fd`).length]));
const producers = () => Number(sql('SELECT count(*) FROM events.producer'));
const sums = () => sql('SELECT sum(events), sum(lost) FROM events.producer');
const connections = () => Number(sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"));

// Changes of objects that are gone again.
async function change(objects) {
  let left = objects;
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (left-- > 0) await must('DELETE', `/backends/http_response/${(await must('POST', '/backends/http_response', { body: 'restarts' })).id}`);
  }));
}
const stateFile = () => fs.statSync(`${home}/edge/config.state`).size;

test('what is started again leaves nothing behind', { skip }, async () => {
  const traffic = await listening('http_request_complete.v0'), { host } = await endpoint({ body: 'restarts' });
  const mine = () => traffic.events.filter((event) => event.object.http?.request.url.host === host).length;
  let sent = 0;
  const serves = async () => {
    await until(() => through(host, '/').then(({ body }) => { sent += 1; return body === 'restarts'; }, () => false), 'the edge serves', LIMIT);
    await until(() => mine() >= sent, 'the event of it', LIMIT);
  };
  // How the edge was started for the first time is not how it is started again.
  for (const signal of ['SIGTERM', 'SIGKILL']) { await again('edge', signal); await serves(); }
  for (const name of SERVICES) { await again(name, 'SIGTERM'); await until(answers, 'the API answers', LIMIT); }
  await change(80); // as many at once as later
  await serves();
  const before = { files: files(), memory: memory(), open: open(), producers: producers(), connections: connections() };

  for (let i = 0; i < RESTARTS; i++) {
    await again('edge', i % 2 ? 'SIGKILL' : 'SIGTERM');
    await serves();
    if (i % 2) { await again(SERVICES[(i >> 1) % SERVICES.length], 'SIGTERM'); await until(answers, 'the API answers', LIMIT); }
  }
  await serves();
  // What was written to the state file before the edge was started again counts, too: it is written anew when nothing is new for 20 s.
  const small = stateFile();
  await change(400);
  await again('edge', 'SIGTERM');
  await serves();
  const grown = producers();
  assert.ok(grown > before.producers, 'an edge that was stopped is another producer when it is started'); // one that was killed goes on as the same

  const counted = sums();
  sql(`UPDATE events.producer SET at = at - interval '${OLD} days', since = since - interval '${OLD} days'`);
  await until(() => producers() <= before.producers, `of producers the last start of each worker is left, not ${producers()} of ${grown}`, LIMIT);
  assert.equal(sums(), counted, 'and what the others sent is counted');
  await serves();
  assert.equal(sql('SELECT sum(lost) FROM events.producer'), counted.split(',')[1], 'the last starts go on');

  const same = async (what, get, want) => {
    await until(() => JSON.stringify(get()) === JSON.stringify(want), what, LIMIT).catch((error) => { throw new Error(`${error.message}: ${JSON.stringify(want)} before, ${JSON.stringify(get())} now`); });
  };
  await same('files are as before', files, before.files);
  await same('shared memory is as before', memory, before.memory);
  await until(() => stateFile() <= small + 64 * 1024, 'the state file is as before', LIMIT).catch((error) => { throw new Error(`${error.message}: ${small} bytes before, ${stateFile()} now`); });
  const most = (name) => before.open[name] + 8; // connections that were used a moment ago
  await until(() => { const now = open(); return Object.keys(now).every((name) => now[name] <= most(name)); }, 'open files are as before', LIMIT)
    .catch((error) => { throw new Error(`${error.message}: ${JSON.stringify(before.open)} before, ${JSON.stringify(open())} now`); });
  await until(() => connections() <= before.connections + 4, 'connections of the database are as before', LIMIT)
    .catch((error) => { throw new Error(`${error.message}: ${before.connections} before, ${connections()} now`); });
  await traffic.stop();
  console.log(`growth: ${RESTARTS} restarts of the edge; producers ${before.producers}, ${grown}, ${producers()}; ${sent} requests, ${mine()} events; ${before.files.length} files, ${before.memory.length} in shared memory, as before`);
});
