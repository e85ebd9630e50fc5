// What a subscriber gets of traffic and what it misses: made = received + told as missed, whoever stands still, stops or is killed. Of audit events: missed-log.test.mjs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import https from 'node:https';
import test from 'node:test';
import { api, endpoint, env, listening, through, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
// Events that the lines of a tail's standard error tell as missed.
const told = (said) => said.reduce((sum, line) => sum + Number(/^warning: missed (\d+) events of /.exec(line)?.[1] ?? 0), 0);

const mine = (subscription, host) => subscription.events.filter((event) => event.object.http?.request.url.host === host);

// Requests one after another on a few connections, until it is told to stop; how many were answered.
function traffic(host) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 8 });
  const state = { made: 0, on: true };
  const one = async () => { while (state.on) { await through(host, `/${state.made}`, { agent }); state.made++; } };
  const all = Array.from({ length: 8 }, one);
  state.stop = async () => { state.on = false; await Promise.all(all); agent.destroy(); return state.made; };
  return state;
}

test('a subscriber that stands still for two seconds gets everything', { skip, timeout: 280000 }, async () => {
  const { host } = await endpoint({ body: 'x' });
  const subscription = await listening('http_request_complete');
  subscription.child.kill('SIGSTOP');
  const load = traffic(host), began = Date.now();
  await until(() => load.made > 3000 && Date.now() - began > 2000, 'enough requests', 120000);
  const made = await load.stop();
  subscription.child.kill('SIGCONT');
  await until(() => mine(subscription, host).length >= made, `all ${made} events, not ${mine(subscription, host).length}`, 120000);
  await sleep(2500); // a gap is told after two
  assert.equal(new Set(mine(subscription, host).map((event) => event.event_id)).size, made);
  assert.deepEqual(subscription.said, []);
  await subscription.stop();
});

test('a restart of postern-events costs a subscriber no event', { skip, timeout: 280000 }, async () => {
  const { host } = await endpoint({ body: 'x' });
  const subscription = await listening('http_request_complete');
  const load = traffic(host);
  for (let round = 0; round < 4; round++) {
    const seen = load.made, pid = pidOf('events');
    await until(() => load.made > seen + 500, 'traffic', 120000);
    process.kill(pid, 'SIGTERM');
    await until(() => { try { return pidOf('events') !== pid; } catch { return false; } }, 'another postern-events', 120000);
  }
  await sleep(1000);
  const made = await load.stop();
  await until(() => mine(subscription, host).length >= made, `all ${made} events, not ${mine(subscription, host).length}`, 120000);
  await sleep(2500);
  assert.equal(new Set(mine(subscription, host).map((event) => event.event_id)).size, made);
  assert.equal(mine(subscription, host).length, made, 'and none twice');
  assert.deepEqual(subscription.said, []);
  await subscription.stop();
  console.log(`restarts: ${made} made, ${made} received`);
});

test('restarts of PostgreSQL cost a subscriber no event', { skip, timeout: 280000 }, async () => {
  const { host } = await endpoint({ body: 'x' });
  const subscription = await listening('http_request_complete');
  const load = traffic(host);
  for (let round = 0; round < 3; round++) {
    const seen = load.made, pid = pidOf('postgresql');
    process.kill(pid, 'SIGKILL');
    await until(() => load.made > seen + 500 && pidOf('postgresql') !== pid, 'traffic, and another postgresql', 120000);
    await until(async () => (await api('GET', '/api_keys?limit=1').catch(() => ({}))).status === 200, 'the API answers again', 120000);
  }
  const made = await load.stop();
  await until(() => mine(subscription, host).length >= made, `all ${made} events, not ${mine(subscription, host).length}`, 120000);
  await sleep(2500);
  assert.equal(new Set(mine(subscription, host).map((event) => event.event_id)).size, made);
  assert.equal(mine(subscription, host).length, made, 'and none twice');
  assert.deepEqual(subscription.said, []);
  await subscription.stop();
  console.log(`postgresql: ${made} made, ${made} received`);
});

test('what kill -9 of postern-events costs a subscriber is told to the last event', { skip, timeout: 280000 }, async () => {
  const { host } = await endpoint({ body: 'x' });
  const subscription = await listening('http_request_complete');
  const load = traffic(host);
  for (let round = 0; round < 4; round++) {
    const seen = load.made, pid = pidOf('events');
    await until(() => load.made > seen + 500, 'traffic', 120000);
    process.kill(pid, 'SIGKILL');
    await until(() => { try { return pidOf('events') !== pid; } catch { return false; } }, 'another postern-events', 120000);
  }
  await sleep(1000);
  const made = await load.stop();
  const events = () => new Set(mine(subscription, host).map((event) => event.event_id)).size;
  await until(() => events() + told(subscription.said) >= made, `${made} events, not ${events()} and ${told(subscription.said)} told as missed`, 120000);
  await sleep(2500);
  assert.equal(events() + told(subscription.said), made, subscription.said.join('\n'));
  assert.equal(mine(subscription, host).length, events(), 'and none twice');
  await subscription.stop();
  console.log(`kills: ${made} made, ${events()} received, ${told(subscription.said)} told as missed`);
});
