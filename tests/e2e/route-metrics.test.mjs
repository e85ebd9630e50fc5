// What /metrics of the edge has of each route: requests, bytes and errors of upstreams, of all workers together, for as many routes as
// a setting says.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import https from 'node:https';
import test from 'node:test';
import { own } from '../support/own.mjs';
import { edge, elsewhere, endpoint, env, must, through, until, upstream } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const read = async (port = edge.port - 28) => {
  const rows = new Map(), text = await fetch(`http://127.0.0.1:${port}/metrics`).then((got) => got.text());
  for (const [, name, route, status, value] of text.matchAll(/^postern_edge_route_(\w+)_total\{route="([^"]+)"(?:,status="(\dxx)")?\} (\d+)$/gm)) {
    if (!rows.has(route)) rows.set(route, {});
    rows.get(route)[status ?? name] = Number(value);
  }
  return rows;
};
const of = async (route) => (await read()).get(route.id);
const pathOf = (to) => `/edges/https/${to.edge.id}/routes/${to.route.id}`;
// An event is written, and a request counted, when the client has its answer already.
const settles = (route, want) => until(async () => { try { assert.deepEqual(await of(route), want); return true; } catch { return false; } }, JSON.stringify(want)).catch(async () => assert.deepEqual(await of(route), want));

test('requests by status, bytes of bodies and errors of upstreams, all workers together', { skip: elsewhere }, async () => {
  const up = await upstream((request, response) => { response.statusCode = Number(request.url.slice(1)); response.end(response.statusCode === 204 ? undefined : 'x'.repeat(100)); });
  const to = await endpoint(up.address), other = await endpoint({ body: 'another' });
  assert.deepEqual(await of(to.route), { request_body_bytes: 0, response_body_bytes: 0, upstream_errors: 0 }, 'from the moment at which it is answered');
  for (const status of [200, 200, 204, 301, 404, 500]) await through(to.host, `/${status}`, { method: 'POST', body: 'y'.repeat(30) });
  const parallel = await Promise.all(Array.from({ length: 20 }, () => through(to.host, '/200')));
  assert.ok(parallel.every(({ status }) => status === 200));
  await settles(to.route, { '2xx': 23, '3xx': 1, '4xx': 1, '5xx': 1, request_body_bytes: 180, response_body_bytes: 2500, upstream_errors: 0 });
  await up.close();
  const page = await through(to.host, '/200');
  assert.equal(page.status, 502);
  await settles(to.route, { '2xx': 23, '3xx': 1, '4xx': 1, '5xx': 2, request_body_bytes: 180, response_body_bytes: 2500 + page.body.length, upstream_errors: 1 });
  assert.equal((await of(other.route))['2xx'], undefined);
});

test('another version of a route goes on where the last one was; one that is deleted is gone', { skip: elsewhere }, async () => {
  const to = await endpoint({ body: 'counted' });
  await through(to.host);
  await must('PATCH', pathOf(to), { description: 'another version' });
  await must('PATCH', pathOf(to), { match: '/sub' });
  await through(to.host, '/sub');
  assert.equal((await through(to.host, '/')).status, 404); // no route: not counted here
  await settles(to.route, { '2xx': 2, request_body_bytes: 0, response_body_bytes: 14, upstream_errors: 0 });
  await must('DELETE', pathOf(to));
  assert.equal(await of(to.route), undefined);
});

test('workers that are killed take nothing with them, and give nothing away', { skip: elsewhere, timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'counted' }), gone = await endpoint({ body: 'gone' });
  await through(to.host);
  await settles(to.route, { '2xx': 1, request_body_bytes: 0, response_body_bytes: 7, upstream_errors: 0 });
  const workers = () => children(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8').trim());
  const before = workers();
  for (const pid of before) process.kill(pid, 'SIGKILL');
  await until(() => workers().length >= 2 && workers().every((pid) => !before.includes(pid)), 'other workers');
  await until(() => through(to.host).then(({ status }) => status === 200, () => false), 'that serve');
  await until(async () => (await of(to.route))['2xx'] >= 2, 'it goes on');
  await must('DELETE', pathOf(gone));
  assert.equal(await of(gone.route), undefined);
});

test('as many as the setting says, the others together; a place that is given back is the next one\'s', { skip: elsewhere, timeout: 300000 }, async () => {
  await own(async ({ state, run }) => {
    const begun = run('up', { settings: { POSTERN_ROUTE_METRICS: '2' } });
    assert.equal(begun.status, 0, begun.stdout + begun.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const call = async (method, path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method, headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${method} ${path}: ${got.status}`);
      return got.status === 204 ? undefined : got.json();
    };
    const host = 'bounded.test', port = edge.port + 1000, rows = () => read(port - 28);
    await call('POST', '/reserved_domains', { domain: host });
    const backend = await call('POST', '/backends/http_response', { body: 'bounded' }), front = await call('POST', '/edges/https', { hostports: [`${host}:443`] });
    const route = (match) => call('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match, backend: { backend_id: backend.id } });
    const ask = (path) => new Promise((resolve, reject) => {
      https.get({ host: '127.0.0.1', port, path, servername: host, ca: fs.readFileSync(vars.POSTERN_EDGE_CA), headers: { Host: host }, agent: false }, (answer) => { answer.resume(); answer.on('end', () => resolve(answer.statusCode)); }).on('error', reject);
    });
    const here = (await rows()).size - 1; // of what a new system begins with
    const made = [];
    for (const match of ['/a', '/b', '/c', '/d']) made.push(await route(match));
    for (const match of ['/a', '/b', '/c', '/d']) assert.equal(await ask(match), 200);
    const counted = await until(async () => { const all = await rows(); return (all.get('other')['2xx'] ?? 0) === 2 + here && all; }, 'those without a place are counted together');
    assert.equal(counted.size, 3);
    const first = made.filter(({ id }) => counted.has(id));
    assert.equal(first.length, 2 - here);
    if (first.length) await call('DELETE', `/edges/https/${front.id}/routes/${first[0].id}`);
    const late = await route('/e');
    assert.equal((await rows()).has(late.id), first.length > 0);
  });
});
