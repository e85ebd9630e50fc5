// A database that is put back from a backup while everything runs: what edges serve is what it says, and no change passes as live
// because edges know its number from what was lost.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { edgeKey, peer } from '../support/peer.mjs';
import { api, elsewhere, endpoint, env, must, through, until } from '../support/postern.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-restored-')), dump = path.join(folder, 'dump');
test.after(() => fs.rmSync(folder, { recursive: true }));
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
const backup = () => execFileSync('pg_dump', ['-Fc', '-n', 'routes', '-f', dump, env.DATABASE_URL]);
const restore = () => execFileSync('pg_restore', ['--clean', '--if-exists', '-1', '-n', 'routes', '-d', env.DATABASE_URL, dump]);
const group = -Number(elsewhere ? 0 : fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8'));
const change = async (backend, body) => {
  const { status, headers } = await api('PATCH', `/backends/http_response/${backend.id}`, { body });
  return `${status} ${headers['postern-edges']}`;
};
// Over new connections: whichever worker takes them.
const bodies = async (host) => new Set(await Promise.all(Array.from({ length: 12 }, async () => (await through(host)).body)));
const serves = (host, body) => until(async () => { const all = await bodies(host); return all.size === 1 && all.has(body); }, `all serve ${body}`);

test('what it does not know is served no more, without a change', { skip: elsewhere, timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'kept' });
  backup();
  assert.equal(await change(to.backend, 'lost'), '200 2/2');
  assert.deepEqual(await bodies(to.host), new Set(['lost']));
  restore();
  await serves(to.host, 'kept');
});

for (const lost of [1, 2, 5]) {
  test(`a change after ${lost} that were lost is live when it is answered`, { skip: elsewhere, timeout: 300000 }, async () => {
    const to = await endpoint({ body: 'kept' });
    backup();
    for (let i = 0; i < lost; i++) assert.equal(await change(to.backend, `lost ${i}`), '200 2/2');
    restore();
    for (let i = 0; i < lost + 1; i++) {
      const answered = await change(to.backend, `made ${i}`);
      // where it says that all have it, all have it
      if (answered === '200 2/2') assert.deepEqual(await bodies(to.host), new Set([`made ${i}`]));
    }
    await until(async () => await change(to.backend, 'made at last') === '200 2/2', 'changes are live again');
    assert.deepEqual(await bodies(to.host), new Set(['made at last']));
  });
}

test('an edge that was away meanwhile and has as many changes of its own gets everything anew', { skip: elsewhere, timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'kept' }), other = await endpoint({ body: 'o' });
  backup();
  for (let i = 0; i < 3; i++) assert.equal(await change(to.backend, `lost ${i}`), '200 2/2');
  process.kill(group, 'SIGSTOP');
  try {
    await until(async () => await change(other.backend, 'o0') === '200 0/0', 'the edge is gone');
    restore();
    for (let i = 1; i < 6; i++) await change(other.backend, `o${i}`);
  } finally { process.kill(group, 'SIGCONT'); }
  await serves(to.host, 'kept');
  await until(async () => await change(other.backend, 'o9') === '200 2/2', 'changes are live');
  assert.deepEqual(await bodies(other.host), new Set(['o9']));
  assert.deepEqual(await bodies(to.host), new Set(['kept']));
});

test('a clock that stands in the past gives no revision twice', { skip: elsewhere, timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'kept' });
  sql('UPDATE routes.config_head SET revision = revision + 3600000000; INSERT INTO routes.config_revision SELECT revision FROM routes.config_head');
  await until(async () => await change(to.backend, 'kept') === '200 2/2', 'all have it');
  backup();
  assert.equal(await change(to.backend, 'lost'), '200 2/2');
  restore();
  const answered = await change(to.backend, 'made');
  if (answered === '200 2/2') assert.deepEqual(await bodies(to.host), new Set(['made']));
  await serves(to.host, 'made');
});

test('only the newest revisions are kept', { skip: elsewhere, timeout: 300000 }, async () => {
  sql(`INSERT INTO routes.config_revision SELECT revision - i FROM routes.config_head, generate_series(1, 20000) i ON CONFLICT DO NOTHING`);
  await until(() => Number(sql('SELECT count(*) FROM routes.config_revision')) <= 4096 + 100, 'the others are forgotten');
  const { backend, host } = await endpoint({ body: 'a' });
  assert.equal(await change(backend, 'b'), '200 2/2');
  assert.deepEqual(await bodies(host), new Set(['b']));
  await must('DELETE', `/backends/http_response/${backend.id}`).catch(() => {});
});

// So that an edge which was told more by another copy sees whether that is of the same history.
test('a change of several revisions names those between', { skip: elsewhere, timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'a' }), key = edgeKey(), name = `${key.slice('edge@'.length)}/77`;
  const [log, from] = sql('SELECT log_id, revision FROM routes.config_head').split('|');
  for (let i = 0; i < 5; i++) assert.equal(await change(to.backend, `b${i}`), '200 2/2');
  const worker = peer(key, 'routes', `ipc://${env.POSTERN_RUN_DIR}/config.log`);
  try {
    worker.send('hello', log, from, name, '1');
    const said = await until(() => worker.got.find(([word]) => word.toString() === 'delta'), 'it is told');
    const [previous, revision, between] = [2, 3, 5].map((i) => said[i].toString());
    assert.equal(previous, from);
    assert.equal(between, sql(`SELECT string_agg(revision::text, ',' ORDER BY revision) FROM routes.config_revision WHERE revision > ${from} AND revision < ${revision}`));
    assert.ok(between.split(',').length >= 4, between);
    worker.send('hello', log, revision, name, '2');
    const next = await until(() => worker.got.find((each) => each[0].toString() === 'delta' && each[2].toString() === revision), 'it is told');
    assert.equal(next.length, 5, 'nothing lies between');
  } finally {
    worker.send('bye');
    await until(async () => await change(to.backend, 'end') === '200 2/2', 'it is gone');
    worker.stop();
  }
});
