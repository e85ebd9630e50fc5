// Requests that are in flight when a worker ends leave no event: they are counted, at the edge and by postern-events.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { edge, endpoint, env, listening, tcpUpstream, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

// 0: there is none now.
const pidOf = (name) => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')); } catch { return 0; } };
const workers = () => children(pidOf('edge'));
const tryWorkers = () => { try { return workers(); } catch { return []; } };
const dropped = () => Number(execFileSync('psql', [env.DATABASE_URL, '-Atc', 'SELECT coalesce(sum(dropped), 0) FROM events.producer'], { encoding: 'utf8' }));
const metrics = async () => {
  const text = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((r) => r.text()).catch(() => '');
  const sum = (name) => [...text.matchAll(new RegExp(`postern_edge_${name}\\{worker="\\d+"\\} (\\d+)`, 'g'))].reduce((all, m) => all + Number(m[1]), 0);
  return { requests: sum('requests_total'), events: sum('events_total'), lost: sum('events_lost_total'), text };
};

let held = 0, left = 0;   // left: those of the first story that are on the other worker
const open = (m) => m.requests - m.events - m.lost;
const holding = await tcpUpstream((socket) => socket.on('data', () => { held++; }));
const to = await endpoint(holding.address);
const page = await endpoint({ body: 'page' });
const sub = await listening('http_request_complete');

// So many requests that get no answer; how many of them failed.
async function inFlight(count) {
  const state = { failed: 0 };
  held = 0;
  for (let i = 0; i < count; i++) through(to.host, `/held/${i}`).catch(() => { state.failed++; });
  await until(() => held === count, 'all are at the upstream');
  return state;
}

// A batch tells of what was lost before it.
async function told(before, more) {
  await until(async () => {
    for (let i = 0; i < 8; i++) await through(page.host).catch(() => {});
    return dropped() - before === more;
  }, `${more} more are counted as dropped, ${dropped() - before} were`);
}

test('those of a killed worker', { timeout: 300000 }, async () => {
  const before = dropped(), at = await metrics();
  const requests = await inFlight(12);
  const victim = workers()[0];
  process.kill(victim, 'SIGKILL');
  await until(() => tryWorkers().length >= 2 && !tryWorkers().includes(victim), 'a new worker');
  await until(async () => (await metrics()).lost > at.lost, 'some are lost');
  await told(before, requests.failed);
  left = 12 - requests.failed;
  const now = await metrics();
  assert.equal(now.lost - at.lost, requests.failed);
  await until(async () => { const m = await metrics(); return open(m) - open(at) === left; }, 'requests are events, lost ones and those in flight');
});

test('those of an edge that is killed as a whole', { timeout: 300000 }, async () => {
  const before = dropped();
  const requests = await inFlight(5);
  const master = pidOf('edge');
  process.kill(-master, 'SIGKILL');
  await until(() => ![0, master].includes(pidOf('edge')) && tryWorkers().length >= 2, 'a new edge');
  await until(() => requests.failed === 5, 'the clients know');
  await told(before, 5 + left);
  assert.equal((await metrics()).lost, 5 + left);
});

test('those of an edge that is stopped', { timeout: 300000 }, async () => {
  const before = dropped();
  const requests = await inFlight(3);
  const master = pidOf('edge');
  process.kill(master, 'SIGTERM');
  await until(() => ![0, master].includes(pidOf('edge')) && tryWorkers().length >= 2, 'a new edge');
  await until(() => requests.failed === 3, 'the clients know');
  await told(before, 3);
});

test('cleanup', async () => {
  await sub.stop();
  await holding.close();
});
