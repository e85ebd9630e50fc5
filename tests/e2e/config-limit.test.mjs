// Bytes of configuration that an account may have at the edges: counted as they come and go, and bounded however many ask at once.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { elsewhere, env } from '../support/postern.mjs';

const LIMIT = 1073741824;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
const counted = (one) => Number(sql(`SELECT coalesce(sum(n), 0) FROM routes.config_bytes WHERE account_id = '${one.id}'`));
const there = (one) => Number(sql(`SELECT coalesce(sum(length(doc)), 0) FROM routes.config_entry WHERE account_id = '${one.id}'`));
const leave = (one, bytes) => sql(`INSERT INTO routes.config_bytes VALUES ('${one.id}', ${LIMIT - bytes}) ON CONFLICT (account_id) DO UPDATE SET n = EXCLUDED.n`);
const body = 'x'.repeat(60000);

test('what edges get of an account is counted, and counted no more when it is gone', { skip: elsewhere }, async () => {
  const one = account();
  assert.equal(counted(one), 0);
  const backend = await one.must('POST', '/backends/http_response', { body });
  const edge = await one.must('POST', '/edges/https', {});
  await one.must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  assert.ok(counted(one) > 60000);
  assert.equal(counted(one), there(one));
  await one.must('PATCH', `/backends/http_response/${backend.id}`, { body: 'small' });
  assert.ok(counted(one) < 10000);
  assert.equal(counted(one), there(one));
  await one.must('DELETE', `/edges/https/${edge.id}`);
  await one.must('DELETE', `/backends/http_response/${backend.id}`);
  assert.equal(counted(one), 0);
});

test('a change beyond the limit is refused with its figure and does nothing, one that makes less is taken', { skip: elsewhere }, async () => {
  const one = account(), other = account();
  const backend = await one.must('POST', '/backends/http_response', { body: 'y'.repeat(1000) });
  leave(one, 5000);
  for (const [method, path] of [['POST', '/backends/http_response'], ['PATCH', `/backends/http_response/${backend.id}`]]) {
    const answer = await one.api(method, path, { body });
    assert.equal(answer.status, 400, answer.raw);
    assert.equal(answer.body.error_code, 'ERR_POSTERN_196');
    assert.match(answer.body.msg, /limit is 1073741824 bytes of configuration/);
  }
  assert.equal((await one.must('GET', '/backends/http_response')).backends.length, 1);
  assert.equal((await one.must('GET', `/backends/http_response/${backend.id}`)).body, 'y'.repeat(1000));
  assert.equal(counted(one), LIMIT - 5000);
  leave(one, -1); // as when an operator has lowered it
  await one.must('PATCH', `/backends/http_response/${backend.id}`, { body: 'y' });
  assert.ok(counted(one) < LIMIT);
  await other.must('POST', '/backends/http_response', { body });
});

test('of many that ask at once as many are served as there is room for', { skip: elsewhere, timeout: 280000 }, async () => {
  const one = account();
  await one.must('POST', '/backends/http_response', { body });
  const size = counted(one);
  leave(one, 3 * size + size / 2 | 0);
  const statuses = (await Promise.all(Array.from({ length: 16 }, () => one.api('POST', '/backends/http_response', { body })))).map(({ status }) => status);
  assert.deepEqual(statuses.sort(), [...Array(3).fill(201), ...Array(13).fill(400)]);
  assert.equal((await one.must('GET', '/backends/http_response')).backends.length, 4);
});
