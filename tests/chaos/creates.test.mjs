// 1,000 creates by clients that try again, while gateway, route service and PostgreSQL are killed at random moments:
// every 201 exists once with one audit event, and what never got a 201 is absent or there once.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { api, env, until } from '../support/postern.mjs';

const CREATES = 1000, CLIENTS = 8;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-Atc', text], { encoding: 'utf8', maxBuffer: 1 << 26 }).trim();

test('kill -9 of the gateway, the route service and PostgreSQL at random moments', { timeout: 600000 }, async () => {
  const run = `creates-${process.pid}-${Date.now()}`;
  const made = new Map(), kills = {}, killedAt = {};
  let next = 0, retries = 0, over = false;
  const killer = (async () => {
    while (!over) {
      await sleep(200 + Math.random() * 800);
      // each again only after a create went through: on a slow machine nothing ever would, between two recoveries of a database
      const names = ['gateway', 'routes', 'postgresql'].filter((name) => made.size > (killedAt[name] ?? -1));
      if (names.length === 0) continue;
      const name = names[Math.floor(Math.random() * names.length)];
      try {
        process.kill(Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')), 'SIGKILL');
        kills[name] = (kills[name] ?? 0) + 1;
        killedAt[name] = made.size;
      } catch { /* it is down already */ }
    }
  })();
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    while (next < CREATES) {
      const key = `${run}-${next++}`;
      for (;;) {
        const answer = await api('POST', '/ip_policies', { metadata: key }, { 'Idempotency-Key': key }).catch(() => null);
        if (answer?.status === 201) { made.set(key, answer.body.id); break; }
        assert.ok(!answer || answer.status === 503, answer?.raw); // anything else would be a lie about a kill
        retries++;
        await sleep(100);
      }
      await sleep(100);
    }
  }));
  over = true;
  await killer;
  // a server process of a killed PostgreSQL answers a little longer, while nobody new gets in: ask for both
  const answers = () => { try { return sql('SELECT 1') === '1'; } catch { return false; } };
  await until(async () => answers() && (await api('GET', '/ip_policies?limit=1').catch(() => ({}))).status === 200 && answers(), 'PostgreSQL and the API answer', 120000);
  assert.equal(made.size, CREATES);
  const rows = sql(`SELECT metadata, id FROM routes.ip_policy WHERE metadata LIKE '${run}-%'`).split('\n').map((row) => row.split('|'));
  assert.equal(rows.length, CREATES, 'each once');
  for (const [key, id] of rows) assert.equal(made.get(key), id);
  const events = () => sql(`SELECT count(*), count(DISTINCT event->'object'->>'id') FROM events.log WHERE event->>'event_type' = 'ip_policy_created.v0' AND event->'object'->>'metadata' LIKE '${run}-%'`);
  await until(() => events() === `${CREATES}|${CREATES}`, 'one audit event each', 120000);
  console.log(`kills ${JSON.stringify(kills)}, ${retries} retries, ${made.size} creates, each once with one event`);
});
