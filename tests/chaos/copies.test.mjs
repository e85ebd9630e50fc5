// Two copies of every service, in a stack of the story's own. Each is killed and each stands still in turn, under changes through
// both gateways, each requested at once: 0 stale, and nothing fails but what was in flight at a gateway that was hit.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const base = Number(process.env.POSTERN_PORT_BASE || 8400) + 300;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-copies-'));
fs.chmodSync(folder, 0o755);
Object.assign(process.env, {
  POSTERN_HOME: path.join(folder, 'var'), POSTERN_PORT_BASE: String(base), POSTERN_API_URL: '',
  POSTERN_GATEWAY_COPIES: '2', POSTERN_ROUTES_COPIES: '2', POSTERN_IDENTITY_COPIES: '2', POSTERN_EVENTS_COPIES: '2',
});
const stack = (command) => spawnSync(path.join(root, 'deploy/stack'), [command], { encoding: 'utf8', timeout: 300000 });
const up = stack('up');
test.after(() => {
  const logs = path.join(process.env.POSTERN_HOME, 'log');
  for (const name of process.env.COPIES_KEEP ? fs.readdirSync(logs) : []) fs.copyFileSync(path.join(logs, name), path.join(process.env.COPIES_KEEP, name));
  stack('wipe');
  fs.rmSync(folder, { recursive: true, force: true });
});
assert.equal(up.status, 0, up.stderr);
const { endpoint, env, through, until } = await import('../support/postern.mjs');

const CLIENTS = 8, CHANGES = 32; // of a round
const PORTS = [base, base + 2];
const HEALTH = { gateway: 11, routes: 12, identity: 13, events: 14 };
const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const nameOf = (service, copy) => (copy ? `${service}-2` : service);
const agents = PORTS.map(() => new http.Agent({ keepAlive: true, maxSockets: CLIENTS }));

// {status, headers, raw}, or null: the connection broke, or no answer within 5 s. A new connection after each of these.
function ask(gateway, method, target, body, key) {
  return new Promise((resolve) => {
    const text = JSON.stringify(body);
    const request = http.request({
      host: '127.0.0.1', port: PORTS[gateway], method, path: target, agent: agents[gateway], timeout: 5000,
      headers: { Authorization: `Bearer ${env.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text), 'Idempotency-Key': key },
    }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', () => resolve(null));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, raw: Buffer.concat(parts).toString() }));
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(null));
    request.end(text);
  });
}

const metrics = (port) => fetch(`http://127.0.0.1:${port}/metrics`).then((got) => got.text(), () => '');
const sum = (text, name) => [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'gm'))].reduce((all, row) => all + Number(row[1]), 0);
// Both gateways use all copies, and the copies of routes hear each other and both workers.
const whole = () => until(async () => {
  const gateways = await Promise.all([11, 21].map((at) => metrics(base + at)));
  const routes = await Promise.all([12, 22].map((at) => metrics(base + at)));
  return gateways.every((text) => sum(text, 'postern_gateway_copies_answering') === 6 && sum(text, 'postern_gateway_leases_held') === 4)
    && routes.every((text) => sum(text, 'postern_routes_other_copies') === 1 && sum(text, 'postern_routes_edge_workers_live') === 2);
}, 'all copies are there', 30000);

await whole();
const routes = await Promise.all(Array.from({ length: CLIENTS }, () => endpoint({ body: 'first' })));
const hit = new Set(); // gateways, in this round
const total = { changes: 0, stale: 0, late: 0, again: 0 };

// The change is sent again, to the other gateway, only where it was in flight at the victim.
async function change(made, body, victim, gateway) {
  const key = `copies-${process.pid}-${body.replace(' ', '-')}`;
  for (const [method, target, document] of [
    ['POST', '/backends/http_response', { body }],
    ['PATCH', `/edges/https/${made.edge.id}/routes/${made.route.id}`, null],
  ]) {
    let answer, at = hit.has(gateway) ? 1 - gateway : gateway;
    for (;;) {
      answer = await ask(at, method, target, document ?? { backend: { backend_id: made.next } }, `${method}-${key}`);
      if (answer) break;
      assert.equal(victim, nameOf('gateway', at), `a request through gateway ${at} failed while ${victim} was hit`);
      total.again++;
      hit.add(at); // what comes later in this round need not wait for it
      at = 1 - at;
    }
    assert.ok(answer.status === 200 || answer.status === 201, `${method} while ${victim} was hit: ${answer.status} ${answer.raw}`);
    if (document) made.next = JSON.parse(answer.raw).id;
    else made.answer = answer;
  }
  const [acked, live] = made.answer.headers['postern-edges'].split('/').map(Number);
  const got = await Promise.all(Array.from({ length: 3 }, () => through(made.host)));
  total.changes++;
  if (acked < live) total.late++; // it says so itself
  else if (got.some((each) => each.body !== body)) total.stale++;
  assert.ok(live > 0, `${victim}: a change was answered with ${acked}/${live} workers`);
}

async function changes(round, victim) {
  let n = 0;
  hit.clear();
  await Promise.all(routes.map(async (made, client) => {
    while (n < CHANGES) await change(made, `${round} ${n++}`, victim, (client + n) % 2);
  }));
}

let round = 0;
for (const service of ['routes', 'identity', 'events', 'gateway']) for (const copy of [0, 1]) for (const signal of ['SIGKILL', 'SIGSTOP']) {
  const victim = nameOf(service, copy);
  test(`${victim} is hit by ${signal}`, { timeout: 300000 }, async () => {
    const pid = pidOf(victim), before = { ...total };
    const running = changes(++round, victim);
    process.kill(pid, signal);
    try {
      await running;
      if (signal === 'SIGSTOP' && service === 'routes') { // and when it has stood still for longer than anybody waits for it
        const text = await metrics(base + HEALTH[service] + (copy ? 0 : 10));
        assert.equal(sum(text, 'postern_routes_edge_workers_live'), 2);
      }
    } finally {
      if (signal === 'SIGSTOP') process.kill(pid, 'SIGCONT');
    }
    await until(() => signal === 'SIGSTOP' || pidOf(victim) !== pid, 'it is started again');
    await whole();
    assert.equal(total.stale - before.stale, 0, `of ${total.changes - before.changes} changes`);
  });
}

test('so many changes, none of them stale', () => {
  console.log(`copies: ${total.changes} changes, ${total.stale} stale, ${total.late} not acknowledged within the bound, ${total.again} sent again from a gateway that was hit`);
  assert.equal(total.stale, 0);
  for (const agent of agents) agent.destroy();
});
