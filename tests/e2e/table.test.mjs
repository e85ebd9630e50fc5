// What an edge serves is a function of the entries that there are, not of the order in which they came, and an entry touches
// only what is its own.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { api, edge, elsewhere, endpoint, env, home, must, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-v', 'ON_ERROR_STOP=1', '-qAtc', text], { encoding: 'utf8', stdio: 'pipe' }).trim();
const master = () => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8'));
const workers = () => children(master());
const helpers = () => children(workers());
// Every worker: each connection is somebody's.
const bodies = async (host, path) => [...new Set((await Promise.all(Array.from({ length: 24 }, () => through(host, path)))).map(({ status, body }) => `${status} ${body.match(/ERR_POSTERN_\d+/) ?? body}`))].sort();
const says = (got, status, body) => { assert.equal(got.length, 1, `one answer from all workers: ${got}`); assert.ok(got[0].startsWith(`${status} ${body}`), got[0]); };
const answer = (body) => must('POST', '/backends/http_response', { body });

test('a host alone and the host with a slash are one match, in every spelling', async () => {
  const { host, edge: front, backend } = await endpoint({ body: 'x' }, { match: '/elsewhere' });
  const routes = `/edges/https/${front.id}/routes`;
  const route = (match, match_type = 'exact_path') => ({ match_type, match, backend: { backend_id: backend.id } });
  const first = await must('POST', routes, route(host));
  for (const match of [host, `${host}/`, host.toUpperCase(), `${host.toUpperCase()}/`, `${host}//`, `${host}/./`, `${host}/%2e`, `${host}/a/..`, `${host}/a/%2E%2e/`]) {
    const got = await api('POST', routes, route(match));
    assert.equal(`${got.status} ${got.body.error_code}`, '409 ERR_POSTERN_157', `${match}: ${got.raw}`);
  }
  for (const match of [`${host}/..`, `${host}/%2e%2e/`, `${host}//../`]) { // no request has such a path: nginx refuses it
    const got = await api('POST', routes, route(match));
    assert.equal(`${got.status} ${got.body.error_code}`, '400 ERR_POSTERN_155', `${match}: ${got.raw}`);
    assert.match(got.body.msg, /\.\. above the root/);
  }
  const other = await must('POST', routes, route(`${host}/other`));
  const moved = await api('PATCH', `${routes}/${other.id}`, { match: `${host}/` });
  assert.equal(`${moved.status} ${moved.body.error_code}`, '409 ERR_POSTERN_157', moved.raw);
  await must('POST', routes, route(`${host}/`, 'path_prefix')); // another match: everything below it
  await must('PATCH', `${routes}/${first.id}`, { description: 'the same place' });
  await must('DELETE', `${routes}/${first.id}`);
  await must('PATCH', `${routes}/${other.id}`, { match: host.toUpperCase() });
});

test('of two that ask for one match at once, one gets it', async () => {
  const { host, edge: front, backend } = await endpoint({ body: 'x' }, { match: '/elsewhere' });
  for (let round = 0; round < 5; round++) {
    const got = await Promise.all([host, `${host}/`, `${host}/b/..`].map((match) =>
      api('POST', `/edges/https/${front.id}/routes`, { match_type: 'exact_path', match, backend: { backend_id: backend.id } })));
    assert.deepEqual(got.map(({ status }) => status).sort(), [201, 409, 409], got.map(({ raw }) => raw).join());
    await must('DELETE', `/edges/https/${front.id}/routes/${got.find(({ status }) => status === 201).body.id}`);
  }
});

test('rows that shared a match before an upgrade are still there after it', { skip: elsewhere }, () => {
  const schema = `upgrade_${process.pid}`;
  const script = fs.readFileSync(new URL('../../services/routes/migrations/0006_matches.sql', import.meta.url), 'utf8');
  try {
    sql(`CREATE SCHEMA ${schema}; SET search_path = ${schema};
      CREATE TABLE https_edge_route (id text PRIMARY KEY COLLATE "C", edge_id text, match text, match_type text, description text);
      INSERT INTO https_edge_route VALUES ('r1', 'e', 'h.test', 'exact_path', ''), ('r2', 'e', 'h.test/', 'exact_path', ''), ('r3', 'f', 'h.test/', 'exact_path', '');
      ${script};
      UPDATE https_edge_route SET description = 'new', match = match WHERE id IN ('r1', 'r2');`);
    const places = () => sql(`SELECT id, place FROM ${schema}.https_edge_route ORDER BY id`);
    assert.equal(places(), 'r1|exact_path h.test/\nr2|\nr3|exact_path h.test/');
    assert.throws(() => sql(`SET search_path = ${schema}; INSERT INTO https_edge_route VALUES ('r4', 'e', 'h.test', 'exact_path', '')`), /https_edge_route_place/);
  } finally {
    sql(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  }
});

// As they are where an older version let them in.
async function sharing(routes, one, match) {
  const second = await api('POST', routes, { ...one, match });
  if (second.status === 201) return second.body;
  const { id } = await must('POST', routes, { ...one, match: '/for-now' });
  sql(`ALTER TABLE routes.https_edge_route DISABLE TRIGGER place_https_edge_route;
    UPDATE routes.https_edge_route SET match = '${match}', place = NULL WHERE id = '${id}';
    ALTER TABLE routes.https_edge_route ENABLE TRIGGER place_https_edge_route`);
  return must('PATCH', `${routes}/${id}`, { description: 'published' });
}

test('of two routes that share a match each serves when the other is deleted', { skip: elsewhere }, async () => {
  const { host, edge: front } = await endpoint({ body: 'x' }, { match: '/elsewhere' });
  const routes = `/edges/https/${front.id}/routes`, before = workers();
  const route = async (body) => ({ match_type: 'exact_path', match: host, backend: { backend_id: (await answer(body)).id } });
  for (const goes of [0, 1]) {
    const pair = [await must('POST', routes, await route('first'))];
    pair.push(await sharing(routes, await route('second'), `${host}/`));
    says(await bodies(host, '/'), 200, 'first');
    await must('DELETE', `${routes}/${pair[goes].id}`);
    says(await bodies(host, '/'), 200, goes ? 'first' : 'second');
    await must('DELETE', `${routes}/${pair[1 - goes].id}`);
    says(await bodies(host, '/'), 404, 'ERR_POSTERN_902');
  }
  assert.deepEqual(workers(), before, 'no worker died of it');
});

test('a route that moved away while a worker was not told leaves its place to the one that is there now', { skip: elsewhere }, async () => {
  const { host, edge: front } = await endpoint({ body: 'public' });
  const routes = `/edges/https/${front.id}/routes`;
  const route = async (body, match) => ({ match_type: 'path_prefix', match, backend: { backend_id: (await answer(body)).id } });
  const a = await must('POST', routes, await route('old admin', '/admin')), b = await route('admin', '/admin');
  const silent = helpers();
  for (const pid of silent) process.kill(pid, 'SIGSTOP');
  try {
    await new Promise((resolve) => setTimeout(resolve, 300));
    await Promise.all([
      must('PATCH', `${routes}/${a.id}`, { match: '/admin-old' })
        .then(() => must('POST', routes, b))
        .then(() => must('PATCH', `${routes}/${a.id}`, { description: 'touched' })),
      new Promise((resolve) => setTimeout(resolve, 3000)),
    ]);
  } finally {
    for (const pid of silent) try { process.kill(pid, 'SIGCONT'); } catch { /* it was replaced */ }
  }
  await until(upToDate, 'all workers are up to date');
  says(await bodies(host, '/admin'), 200, 'admin');
  says(await bodies(host, '/admin-old'), 200, 'old admin');
  says(await bodies(host, '/'), 200, 'public');
});

const metric = async (name) => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(new RegExp(`^postern_edge_${name}\\{worker="\\d+"\\} (\\d+)`, 'gm'))].reduce((sum, got) => sum + Number(got[1]), 0);
const health = () => { const got = spawnSync(`${home}/bin/postern`, ['health'], { env: { ...process.env, POSTERN_HOME: home }, encoding: 'utf8' }); return got.stdout + got.stderr; };
const upToDate = async () => { const all = workers().length; return all > 0 && (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'] === `${all}/${all}`; };

test('a helper that hangs is noticed by its worker, told to the operator, and replaced', { skip: elsewhere }, async () => {
  const { host, edge: front, route } = await endpoint({ body: 'before' });
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  const all = helpers(), restarts = await metric('helper_restarts_total');
  process.kill(all[0], 'SIGSTOP');
  try {
    await until(() => { const now = helpers(); return now.length === all.length && !now.includes(all[0]); }, 'another helper has taken its place');
  } catch (error) {
    process.kill(all[0], 'SIGCONT');
    throw error;
  }
  assert.ok(!fs.existsSync(`/proc/${all[0]}`) || /^State:\s+Z/m.test(fs.readFileSync(`/proc/${all[0]}/status`, 'utf8')), 'the one that hung is gone for good');
  assert.equal(await metric('helper_restarts_total'), restarts + 1);
  assert.match(fs.readFileSync(log, 'utf8').slice(from), new RegExp(`helper process ${all[0]} does not answer`));
  assert.match(health(), /worker \d+ (has no helper that answers|lost its helper \d+ seconds ago)/);
  await until(upToDate, 'changes reach every worker again');
  await must('PATCH', `/edges/https/${front.id}/routes/${route.id}`, { backend: { backend_id: (await answer('after')).id } });
  says(await bodies(host, '/'), 200, 'after');
  await until(async () => await metric('helper_absent') === 0, 'all have a helper');
  assert.doesNotMatch(health(), /has no helper/);
});

test('a worker that was stopped itself does not take its helper for dead', { skip: elsewhere }, async () => {
  const all = helpers(), [worker] = workers();
  await until(upToDate, 'all is well');
  const restarts = await metric('helper_restarts_total');
  process.kill(worker, 'SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 4000));
  process.kill(worker, 'SIGCONT');
  await until(upToDate, 'all is well again');
  assert.deepEqual(helpers(), all);
  assert.equal(await metric('helper_restarts_total'), restarts);
});

test('an entry in whose application workers die is set aside: its host answers 503, everything else goes on, and so does the master', { skip: process.env.POSTERN_SLOW_RESOLVER && !elsewhere ? false : 'no address kills the edge here' }, async () => {
  const good = await endpoint({ body: 'good' }), bad = await endpoint({ body: 'not yet' });
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  const { body: deadly } = await api('POST', '/backends/static', { address: '198.18.66.66:80' });
  const alive = () => until(async () => (await bodies(good.host, '/').catch(() => [])).join() === '200 good', 'everything else is served');
  try {
    await alive();
    await until(upToDate, 'every worker is up to date');
    const calm = workers();
    await must('PATCH', `/edges/https/${bad.edge.id}/routes/${bad.route.id}`, { backend: { backend_id: deadly.id } });
    says(await bodies(bad.host, '/'), 503, 'ERR_POSTERN_903');
    says(await bodies((await endpoint({ body: 'later' })).host, '/'), 200, 'later');
    assert.deepEqual(workers(), calm, 'nobody dies of it any more');
    const told = fs.readFileSync(log, 'utf8').slice(from);
    assert.match(told, new RegExp(`static_backend ${deadly.id} is set aside`));
    assert.ok(told.match(/exited on signal 9/g).length <= 4, 'two deaths, or one more of each worker that was on its way');
    assert.equal(await metric('entries_refused'), calm.length);
    assert.match(health(), /worker 0 cannot apply 1 entries/);

    // the next master finds it in its file
    const before = master();
    process.kill(before, 'SIGKILL');
    await until(() => { try { return master() !== before && workers().length === calm.length; } catch { return false; } }, 'a new edge');
    const second = master();
    await alive();
    says(await bodies(bad.host, '/'), 503, 'ERR_POSTERN_903');
    await until(upToDate, 'every worker is up to date');
    assert.equal(master(), second, 'which did not die of it');
  } finally {
    await must('PATCH', `/edges/https/${bad.edge.id}/routes/${bad.route.id}`, { backend: { backend_id: bad.backend.id } });
    await must('DELETE', `/backends/static/${deadly.id}`);
  }
  await until(upToDate, 'every worker is up to date');
  says(await bodies(bad.host, '/'), 200, 'not yet');
  assert.equal(await metric('entries_refused'), 0);
});
