// What a subscriber gets of audit events and what it misses, on services of the story's own, with a database of their own: made = received + told as
// missed, and what is missed is in the log (missed.test.mjs: of traffic).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { another } from '../support/copies.mjs';
import { edge, env, tail, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
// Events that the lines of a tail's standard error tell as missed.
const told = (said) => said.reduce((sum, line) => sum + Number(/^warning: missed (\d+) events of /.exec(line)?.[1] ?? 0), 0);

const mark = `missed${process.pid}`, run = env.POSTERN_RUN_DIR;
const HEALTH = edge.port + 30;
const socket = (name) => `ipc://${run}/${mark}.${name}`;
const own = env.DATABASE_URL?.replace(/\/[^/?]*(\?.*)?$/, `/${mark}$1`);
const sql = (text, url = own) => execFileSync('psql', [url, '-Atqc', text], { encoding: 'utf8' }).trim();
const outbox = () => Number(sql('SELECT count(*) FROM identity.outbox'));
const logged = () => Number(sql('SELECT count(*) FROM events.log'));
const metric = async (name) => Number(new RegExp(`^postern_events_${name} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${HEALTH}/metrics`).then((got) => got.text()).catch(() => ''))?.[1] ?? -1);
const password = 'of-the-stories-alone';
const as = (service) => own?.replace(/\/\/[^@]*@/, `//${mark}_${service}:${password}@`);
const vars = { POSTERN_EVENTS: socket('in'), POSTERN_INTAKE: socket('in'), POSTERN_EVENTS_RPC: socket('rpc') };
const events = (more = {}) => another('events', { ...vars, POSTERN_DATABASE_URL: as('events'), POSTERN_RPC: socket('rpc'), POSTERN_PUB: socket('pub'), POSTERN_HEALTH_PORT: String(HEALTH), ...more });
const identity = (name) => another('identity', { ...vars, POSTERN_DATABASE_URL: as('identity'), POSTERN_RPC: socket(name) });
const watch = () => tail('', { POSTERN_EVENTS_URL: socket('pub'), POSTERN_EVENTS_RPC: socket('rpc') });
const running = [];
const begin = (one) => { running.push(one); return one; };
let made = 0;
// Events of 2 KB each, as a service leaves them with its changes.
const emit = (count) => {
  sql(`INSERT INTO identity.outbox (event) SELECT jsonb_build_object('event_id', 'ev_' || lpad((${made} + i)::text, 27, '0'), 'event_type', 'vault_created.v0',
    'event_timestamp', '2026-01-01T00:00:00Z', 'account_id', 'ac_1', 'principal', null, 'object', jsonb_build_object('id', repeat('x', 2000))) FROM generate_series(1, ${count}) i; NOTIFY identity_outbox`);
  made += count;
};
const distinct = (subscription) => new Set(subscription.events.map((event) => event.event_id)).size;

test.before(async () => {
  if (skip) return;
  sql(`CREATE DATABASE ${mark}`, env.DATABASE_URL);
  execFileSync('psql', ['-Xf', fileURLToPath(new URL('../../deploy/database.sql', import.meta.url)), own],
    { env: { ...process.env, POSTERN_ROUTES_PASSWORD: password, POSTERN_IDENTITY_PASSWORD: password, POSTERN_EVENTS_PASSWORD: password }, stdio: 'pipe' });
});
test.after(async () => {
  if (skip) return;
  for (const one of running.reverse()) await one.stop();
  sql(`DROP DATABASE IF EXISTS ${mark} WITH (FORCE)`, env.DATABASE_URL);
  for (const service of ['routes', 'identity', 'events']) sql(`DROP ROLE IF EXISTS ${mark}_${service}`, env.DATABASE_URL);
  for (const name of fs.readdirSync(run)) if (name.startsWith(`${mark}.`)) fs.rmSync(`${run}/${name}`, { force: true });
});

let service;

test('two copies of a service publish each of their events once, also when one stands still', { skip, timeout: 280000 }, async () => {
  service = begin(events());
  const copies = [begin(identity('a')), begin(identity('b'))];
  const subscription = begin(watch());
  await until(() => { try { return outbox() === 0; } catch { return false; } }, 'both services', 120000);
  await until(async () => { emit(1); await sleep(500); return subscription.events.length > 0; }, 'the subscriber hears', 120000);
  await until(() => outbox() === 0, 'nothing on its way');
  const numbers = () => subscription.events.map(({ event_id: id }) => Number(id.slice(3)));
  await until(() => distinct(subscription) === made - Math.min(...numbers()) + 1, 'all from the first that it heard', 120000);
  subscription.events.length = 0;
  const before = made;
  await until(() => Number(sql(`SELECT count(*) FROM pg_stat_activity WHERE datname = '${mark}' AND application_name = 'identity'`)) >= 2, 'both copies', 120000);
  for (let round = 0; round < 40; round++) { emit(37); await sleep(20); }
  await until(() => distinct(subscription) === made - before, 'all events', 120000);
  for (const copy of copies) { // one of them has its turn
    copy.kill('SIGSTOP');
    emit(200);
    await until(() => distinct(subscription) === made - before, 'those of while one copy stands still', 120000);
    copy.kill('SIGCONT');
    emit(200);
  }
  await until(() => outbox() === 0 && distinct(subscription) === made - before, 'all events', 120000);
  assert.equal(subscription.events.length, made - before, 'each once');
  assert.deepEqual(subscription.said, []);
  await subscription.stop();
  console.log(`two copies: ${made - before} made, ${subscription.events.length} received`);
});

test('events beyond a subscriber\'s mark are told and fetched from the log', { skip, timeout: 280000 }, async () => {
  await service.stop();
  service = begin(events({ POSTERN_SUBSCRIBER_MARK: '50' }));
  await until(async () => await metric('requests_total') >= 0, 'the service', 120000);
  const asked = await metric('requests_total'), slow = begin(watch()), quick = begin(watch());
  await until(async () => await metric('subscriptions') === 2, 'both subscribers', 120000);
  await until(async () => await metric('requests_total') >= asked + 4, 'each has asked from where the numbers count, and again', 120000);
  const before = made, most = 50;
  // no more at a time than the quick one may have in front of it, however slow the machine is
  const portions = async (count) => { for (let i = 0; i < count; i++) { emit(most); await until(() => quick.events.length === made - before, 'the other one has them all', 120000); } };
  for (;;) { // one that stands still for too long is no subscriber any more
    slow.child.kill('SIGSTOP');
    await portions(10);
    if (await metric('subscribers_passed_over_total') >= 1) break;
    slow.child.kill('SIGCONT');
    await until(async () => await metric('subscriptions') === 2, 'both subscribers again', 120000);
  }
  await portions(50);
  await until(() => outbox() === 0, 'all are published', 120000);
  assert.ok(await metric('subscribers_passed_over_total') >= 1);
  slow.child.kill('SIGCONT');
  await until(() => distinct(slow) === made - before, 'the slow one too', 120000);
  const missed = told(slow.said);
  assert.ok(missed > 100, slow.said.join('\n'));
  assert.equal(slow.events.length, made - before, 'and none twice');
  assert.match(slow.said.at(-1), /^warning: missed \d+ events of vault_created\.v0, numbers \d+ to \d+; the log has \d+ of them, which follow$/);
  assert.deepEqual(quick.said, []);
  await until(async () => await metric('missed_total') === missed, 'the service counts what was told');
  console.log(`mark: ${made - before} made, ${made - before - missed} received, ${missed} told as missed and fetched`);
  await slow.stop();
  await quick.stop();
});

test('a subscriber that does not come back after a restart is waited for and given up, and what waited for it is counted', { skip, timeout: 280000 }, async () => {
  const noted = () => sql('SELECT coalesce(sum(n), 0) FROM events.listener');
  // connections that have ended are looked for once a second
  await until(async () => await metric('subscriptions') === 0 && noted() === '0', 'those before are gone', 120000);
  const gone = begin(watch()), there = begin(watch());
  await until(async () => await metric('subscriptions') === 2, 'both subscribers', 120000);
  await until(() => noted() === '2', 'both are noted');
  service.kill('SIGKILL');
  await gone.stop();
  const before = made, stored = logged();
  emit(20);
  service = begin(events({ POSTERN_SUBSCRIBER_RETURN: '20' }));
  await until(async () => await metric('subscriptions') === 1, 'the other one is back', 120000);
  assert.equal(logged(), stored, 'nothing is stored that a subscriber could still miss');
  await until(() => there.events.length === made - before, 'its events', 120000);
  assert.equal(await metric('subscribers_gone_total'), 1);
  assert.equal(await metric('given_up_total'), 20);
  await until(() => noted() === '1', 'it is forgotten');
  assert.deepEqual(there.said, []);
  await there.stop();
});

test('the log keeps what its settings say', { skip, timeout: 280000 }, async () => {
  await service.stop();
  service = begin(events({ POSTERN_EVENT_LOG_EVENTS: '100', POSTERN_EVENT_LOG_TRIM_SECONDS: '1' }));
  await until(() => outbox() === 0, 'the others');
  for (let i = 0; i < 5; i++) { emit(64); await until(() => outbox() === 0, 'they are stored'); }
  const all = logged();
  await until(() => logged() >= 100 && logged() <= 164, `of ${all} about a hundred are left`, 120000);
  assert.equal(sql("SELECT count(*) FROM events.log WHERE event_id > 'ev_' || lpad('" + (made - 100) + "', 27, '0')"), '100', 'the newest ones');
  await service.stop();
  sql("UPDATE events.log SET at = now() - interval '3 days' WHERE event_id <= 'ev_' || lpad('" + (made - 10) + "', 27, '0')");
  service = begin(events({ POSTERN_EVENT_LOG_DAYS: '2', POSTERN_EVENT_LOG_TRIM_SECONDS: '1' }));
  await until(() => logged() === 10, 'ten are young enough', 120000);
  assert.ok(await metric('log_deleted_total') >= 90);
});

test('what an edge worker sent before it was started again is counted with the others of long ago', { skip, timeout: 280000 }, async () => {
  const ago = (days) => `now() - interval '${days} days'`;
  const rows = () => sql("SELECT string_agg(name, ' ' ORDER BY name) FROM events.producer WHERE name LIKE 'old/%' OR name LIKE 'idle/%'");
  await service.stop();
  const start = (i, at, since) => `('old/0/6a0000${String(i).padStart(2, '0')}00000000', ${i}, ${i}, 1, 2, ${ago(at)}, ${ago(since)})`;
  sql(`INSERT INTO events.producer (name, last_seq, events, lost, dropped, at, since) VALUES ${Array.from({ length: 40 }, (_, i) => start(i, 40, 41)).join()},
    ${start(40, 40, 29)}, ${start(41, 1, 29)}, ('idle/0/6a00000000000000', 5000, 5000, 0, 0, ${ago(400)}, ${ago(500)})`);
  const sums = () => sql('SELECT sum(events), sum(lost), sum(dropped) FROM events.producer');
  const before = sums();
  service = begin(events({ POSTERN_EVENT_LOG_TRIM_SECONDS: '1' }));
  await until(() => rows() === 'idle/0/6a00000000000000 old/0/6a00003900000000 old/0/6a00004000000000 old/0/6a00004100000000', `the last start of 30 days ago and what came later: ${rows()}`, 120000);
  assert.equal(sums(), before, 'nothing is lost of what was counted');
  assert.equal(sql("SELECT events, lost, dropped FROM events.producer WHERE name = ''"), `${(38 * 39) / 2}|39|78`);
});
