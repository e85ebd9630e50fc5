// Traps of ZeroMQ inside nginx, each with its test. Traps 13, 14, 19 and 25 stand in tests/e2e/edge.test.mjs, trap 8 in
// tests/unit/test_bus.c.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import https from 'node:https';
import test from 'node:test';
import { api, edge, endpoint, env, listening, must, through, unique, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const workers = () => children(pidOf('edge'));
const change = () => api('POST', '/backends/static', { address: '127.0.0.1:1' });
const edges = (answer) => answer?.headers['postern-edges'];
const all = () => `${workers().length}/${workers().length}`;

// ZMQ_FD is edge-triggered: sends and receives of one socket eat each other's wake-ups. With both directions busy
// every change must still be acknowledged by every worker, none by the passing of the 2 s that it is held.
test('trap_01_no_wake_up_is_lost_while_both_directions_are_busy', { timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'x' });
  const sub = await listening('http_request_complete'); // somebody must, or the edge sends none
  const agent = new https.Agent({ keepAlive: true, maxSockets: 16 });
  let running = true, requests = 0;
  const load = Promise.all(Array.from({ length: 16 }, async () => { while (running) { await through(to.host, '/', { agent }); requests++; } }));
  const want = all();
  for (let i = 0; i < 40; i++)
    for (const answer of await Promise.all(Array.from({ length: 16 }, change))) {
      assert.equal(answer.status, 201);
      assert.equal(edges(answer), want);
    }
  running = false;
  await load;
  agent.destroy();
  await sub.stop();
  const unacknowledged = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((r) => r.text())).matchAll(/postern_edge_events_unacknowledged_bytes\{[^}]*\} (\d+)/g)].map((m) => Number(m[1]));
  await until(async () => { const left = await unacknowledged(); return left.length >= 2 && left.every((n) => n === 0); }, `all of ${requests} events acknowledged`);
});

// A DEALER does not notice that its peer is another process: without a hello of its own it would hear nothing more.
test('trap_05_a_restarted_control_plane_is_heard_again', { timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'before' });
  for (let round = 0; round < 3; round++) {
    const before = pidOf('routes');
    process.kill(before, 'SIGKILL');
    await until(() => pidOf('routes') !== before, 'a new route service');
    await until(async () => edges(await change().catch(() => undefined)) === all(), 'every worker acknowledges again');
    const answer = await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: `after ${round}` });
    assert.equal(edges(answer), all());
    for (let i = 0; i < 10; i++) assert.equal((await through(to.host)).body, `after ${round}`);
  }
});

test('trap_06_a_worker_without_a_control_plane_serves', { timeout: 300000 }, async () => {
  const to = await endpoint({ body: unique('last') });
  const want = (await through(to.host)).body;
  const stopped = ['gateway', 'routes', 'identity', 'events'].map(pidOf);
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  try {
    for (const victim of workers()) {
      process.kill(victim, 'SIGKILL');
      await until(() => workers().length >= 2 && !workers().includes(victim), 'a new worker');
    }
    await until(() => through(to.host).then((got) => got.status === 200, () => false), 'it serves');
    for (let i = 0; i < 20; i++) assert.equal((await through(to.host)).body, want);
  } finally {
    for (const pid of stopped) process.kill(pid, 'SIGCONT');
  }
  await until(async () => edges(await change().catch(() => undefined)) === all(), 'acknowledged again');
});

test('a key that is deleted right after the identity service was killed is refused by the next request', async () => {
  const run = `lease-${process.pid}-${Date.now()}`;
  for (let i = 0; i < 5; i++) {
    const key = await must('POST', '/api_keys', { description: run });
    const ask = async () => (await api('GET', '/ip_policies?limit=1', undefined, { Authorization: `Bearer ${key.token}` })).status;
    for (let n = 0; n < 3; n++) assert.equal(await ask(), 200);
    process.kill(pidOf('identity'), 'SIGKILL'); // the gateway's lease is one of the process that is gone
    await until(async () => (await api('DELETE', `/api_keys/${key.id}`, undefined, { 'Idempotency-Key': `${run}-${i}` })).status === 204, 'the key is deleted');
    assert.equal(await ask(), 401, `round ${i}`);
  }
});
