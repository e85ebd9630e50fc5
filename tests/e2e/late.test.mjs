// A request says how long somebody waits for its answer. What could not be begun, or not be done, by then is not done at all: something
// else may have been done instead, and answered.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { another, settingsOf } from '../support/copies.mjs';
import { session } from '../support/events.mjs';
import { path } from '../support/path.mjs';
import { caller } from '../support/peer.mjs';
import { api, elsewhere, env, must, until } from '../support/postern.mjs';

const run = env.POSTERN_RUN_DIR, MAINTENANCE = 503, LEFT = 1000;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-Atqc', text], { encoding: 'utf8' }).trim();
const body = async (id) => (await must('GET', `/backends/http_response/${id}`)).body;
const request = (id, document) => [`http_response_backend.${document ? 'update' : 'get'}`, { id, document, query: {}, path: `/backends/http_response/${id}`, base: env.POSTERN_API_URL }];

// For how long, in seconds, has one of the service's statements been waiting for the story's lock? -1: none is. What the services do of
// their own accord waits for each other at times.
const waits = () => Number(sql(`SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), -1) FROM pg_stat_activity WHERE application_name = 'routes' AND wait_event_type = 'Lock'
  AND EXISTS (SELECT FROM pg_stat_activity holder WHERE holder.pid = ANY (pg_blocking_pids(pg_stat_activity.pid)) AND holder.application_name = 'psql')`));

test('a change waits for a lock no longer than somebody waits for its answer', { skip: elsewhere, timeout: 280000 }, async () => {
  const { id } = await must('POST', '/backends/http_response', { body: 'before' }), lock = session(env.DATABASE_URL);
  const gateway = caller('gateway', 'routes', `ipc://${run}/routes.rpc`);
  try {
    await lock.say(`BEGIN; SELECT FROM routes.http_response_backend WHERE id = '${id}' FOR UPDATE;`);
    const [verb, asked] = request(id, { body: 'late' });
    const late = gateway.ask(verb, asked, { account: env.POSTERN_ACCOUNT, left: LEFT });
    await until(() => waits() >= 0 || gateway.answer(late), 'it waits', 120000);
    await until(() => gateway.answer(late) || waits() > 4, 'it waits no more', 120000); // a statement may take 5 s
    await lock.say('ROLLBACK;');
    await until(() => gateway.answer(late), 'an answer', 120000);
    assert.equal(gateway.answer(late).code, MAINTENANCE);
    assert.equal(await body(id), 'before');
    const again = gateway.ask(verb, asked, { account: env.POSTERN_ACCOUNT });
    await until(() => gateway.answer(again), 'the next one', 120000);
    assert.deepEqual([gateway.answer(again).code, await body(id)], [0, 'late']);
  } finally {
    lock.end();
    gateway.stop();
  }
});

// story({between, ask, answer, requests}): with a copy of the service that has one worker, and reaches PostgreSQL over a path of the story's.
async function throughPath(story) {
  const url = settingsOf('routes').vars.POSTERN_DATABASE_URL, [, host, rest] = url.match(/@([^/?]*)(.*)$/), place = decodeURIComponent(host).match(/^(.*?)(?::(\d+))?$/);
  const socket = `${run}/late-${process.pid}.rpc`, health = Number(new URL(env.POSTERN_API_URL).port) + 78;
  const between = await path(0, place[1].startsWith('/') ? `${place[1]}/.s.PGSQL.${place[2] ?? 5432}` : { host: place[1], port: Number(place[2] ?? 5432) });
  const copy = another('routes', {
    POSTERN_RPC: `ipc://${socket}`, POSTERN_CONFIG_LOG: `ipc://${socket}.log`, POSTERN_WORKERS: '1', POSTERN_HEALTH_PORT: String(health),
    POSTERN_DATABASE_URL: url.replace(/@[^/?]*.*$/, `@127.0.0.1:${between.port}${rest}`),
  });
  const requests = async () => Number(/^postern_routes_requests_total (\d+)/m.exec(await fetch(`http://127.0.0.1:${health}/metrics`).then((got) => got.text()).catch(() => ''))?.[1] ?? -1);
  const { id } = await must('POST', '/backends/http_response', { body: 'before' });
  let gateway;
  try {
    await until(async () => await requests() >= 0, 'the copy', 120000);
    gateway = caller('gateway', 'routes', `ipc://${socket}`);
    const ask = (document = null, left = 60000) => gateway.ask(...request(id, document), { account: env.POSTERN_ACCOUNT, left });
    const answer = async (to) => { await until(() => gateway.answer(to), 'an answer', 120000); return gateway.answer(to).code; };
    assert.equal(await answer(ask()), 0);
    await story({ between, id, ask, answer, requests });
  } finally {
    gateway?.stop();
    await copy.stop();
    between.close();
    for (const file of [socket, `${socket}.log`]) fs.rmSync(file, { force: true });
    await until(async () => (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'] === '2/2', 'all is well again', 120000);
  }
}

test('a change whose time is over when PostgreSQL can be reached again is not done', { skip: elsewhere, timeout: 280000 }, () => throughPath(async ({ between, id, ask, answer, requests }) => {
  const before = await requests();
  between.hold();
  between.cut();
  ask({ body: 'late' }, LEFT);
  const next = ask(); // there is one worker
  await until(async () => await requests() === before + 2, 'both are there', 120000);
  await new Promise((resolve) => setTimeout(resolve, LEFT + 100));
  between.release();
  assert.equal(await answer(next), 0);
  assert.equal(await body(id), 'before');
}));

// It takes a session for one whose process stands still, ends it within its transaction, and says so in the answer to the next statement.
test('a change whose session PostgreSQL ended within its transaction is done in another one', { skip: elsewhere, timeout: 280000 }, () => throughPath(async ({ between, id, ask, answer }) => {
  const lock = session(env.DATABASE_URL);
  try {
    assert.equal(await answer(ask({ body: 'first' })), 0); // all its statements are prepared
    await lock.say(`BEGIN; SELECT FROM routes.http_response_backend WHERE id = '${id}' FOR UPDATE;`);
    const change = ask({ body: 'done' });
    await until(() => waits() >= 0, 'it waits for the lock', 120000);
    between.deafen(1); // the update arrives, and not the commit
    await lock.say('ROLLBACK;');
    assert.equal(await answer(change), 0);
    assert.equal(await body(id), 'done');
  } finally { lock.end(); }
}));
