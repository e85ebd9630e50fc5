// The config log forgets deletions that every edge has long heard of, and an edge that has not hears of them all the same.
// The stack of `make e2e` tidies up every second (POSTERN_TIDY_SECONDS), not once a minute.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { api, elsewhere, endpoint, env, must, through, until } from '../support/postern.mjs';

const KEPT = 2048;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const deletions = () => Number(sql('SELECT count(*) FROM routes.config_entry WHERE doc IS NULL'));
const revision = () => Number(sql('SELECT revision FROM routes.config_head'));
const acknowledged = async () => {
  const { headers } = await api('POST', '/backends/http_response', { body: 'x' });
  return headers['postern-edges'];
};

// What as many creates and deletes leave, each under a revision of its own.
const delete_many = (n) => sql(`WITH head AS (UPDATE routes.config_head SET revision = revision + ${n} RETURNING revision),
  written AS (INSERT INTO routes.config_entry (kind, id, revision, doc) SELECT 'http_response_backend', 'bkdhr_' || (head.revision - ${n} + i), head.revision - ${n} + i, NULL FROM head, generate_series(1, ${n}) i)
  SELECT revision FROM head`);

// Master, workers and helpers stand still: for the writer they are gone after a second.
async function away(story) {
  const group = -pidOf('edge');
  process.kill(group, 'SIGSTOP');
  try { return await story(); } finally { process.kill(group, 'SIGCONT'); }
}

test('of all the deletions that there ever were a bounded number is kept', { skip: elsewhere }, async () => {
  const served = await endpoint({ body: 'served' });
  delete_many(20000);
  await until(() => deletions() <= KEPT + 100, 'they are forgotten', 120000);
  assert.ok(deletions() >= KEPT - 100, 'the newest are kept');
  assert.equal((await through(served.host)).body, 'served');
  const entries = Number(sql('SELECT count(*) FROM routes.config_entry WHERE doc IS NOT NULL'));
  for (let i = 0; i < 20; i++) await must('DELETE', `/backends/http_response/${(await must('POST', '/backends/http_response', { body: 'x' })).id}`);
  await until(() => deletions() <= KEPT, 'the bound holds', 120000);
  assert.equal(Number(sql('SELECT count(*) FROM routes.config_entry WHERE doc IS NOT NULL')), entries, 'nothing else is');
  assert.equal(await acknowledged(), '2/2');
});

test('an edge that was away while a deletion was forgotten hears of it', { skip: elsewhere, timeout: 280000 }, async () => {
  const gone = await endpoint({ body: 'gone' }), stays = await endpoint({ body: 'stays' });
  assert.equal((await through(gone.host)).body, 'gone');
  await away(async () => {
    await must('DELETE', `/edges/https/${gone.edge.id}/routes/${gone.route.id}`);
    delete_many(3 * KEPT);
    await until(() => sql(`SELECT count(*) FROM routes.config_entry WHERE id = '${gone.route.id}'`) === '0', 'its deletion is forgotten', 120000);
  });
  await until(async () => (await through(gone.host)).status === 404, 'the route is gone', 120000);
  assert.equal((await through(stays.host)).body, 'stays');
  await until(async () => await acknowledged() === '2/2', 'and changes are live', 120000);
});

test('it does so however little it missed', { skip: elsewhere, timeout: 280000 }, async () => {
  const gone = await endpoint({ body: 'gone' }), stays = await endpoint({ body: 'stays' });
  await away(async () => {
    await must('DELETE', `/edges/https/${gone.edge.id}/routes/${gone.route.id}`);
    sql('BEGIN; UPDATE routes.config_head SET forgotten = revision; DELETE FROM routes.config_entry WHERE doc IS NULL; COMMIT');
  });
  await until(async () => (await through(gone.host)).status === 404, 'the route is gone', 120000);
  assert.equal((await through(stays.host)).body, 'stays');
  await until(async () => await acknowledged() === '2/2', 'and changes are live', 120000);
});

test('what is deleted and made again while deletions are forgotten is there', { skip: elsewhere, timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'x' });
  let n = 0;
  const writer = (async () => {
    for (; n < 60; n++) {
      const route = await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'exact_path', match: `/${n}`, backend: { backend_id: to.backend.id } });
      assert.equal((await through(to.host, `/${n}`)).status, 200);
      await must('DELETE', `/edges/https/${to.edge.id}/routes/${route.id}`);
      await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { match: `/still-${n}` });
      assert.equal((await through(to.host, `/${n}`)).status, 404, 'live at once');
      assert.equal((await through(to.host, `/still-${n}`)).status, 200);
    }
  })();
  while (n < 60 && await Promise.race([writer.then(() => false), new Promise((resolve) => setTimeout(() => resolve(true), 300))])) delete_many(700);
  await writer;
  const before = revision();
  await until(() => deletions() <= KEPT, 'they are forgotten', 120000);
  assert.equal(revision(), before, 'which changes nothing');
});
