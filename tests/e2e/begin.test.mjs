// A worker that takes another's place and cannot begin is not the last one in that place: the kernel goes on giving it connections.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { elsewhere, endpoint, env, home, through, until } from '../support/postern.mjs';
import { helpers, workers } from '../model/workers.mjs';

const log = `${env.POSTERN_LOG_DIR}/edge.log`;
const key = path.join(home, 'keys', 'edge@edge-1', 'self.cert_secret');

async function everybody_serves(host, count) {
  await until(() => workers().length === count && helpers().length === count, `${count} workers and their helpers`, 120000);
  await until(async () => {
    const answers = await Promise.allSettled(Array.from({ length: 20 }, () => through(host)));
    return answers.every(({ value }) => value?.status === 200);
  }, 'answers on twenty new connections, whosever they are', 60000);
}

test('a worker that cannot begin because its key is away is followed by one that can', { skip: elsewhere, timeout: 280000 }, async () => {
  const { host } = await endpoint({ body: 'here' }), count = workers().length;
  const from = fs.statSync(log).size, said = () => fs.readFileSync(log).subarray(from).toString();
  assert.ok(count > 1);
  fs.renameSync(key, `${key}.away`);
  try {
    process.kill(workers()[0], 'SIGKILL');
    await until(() => said().split('cannot begin: another one tries in its place').length > 2, 'it was tried twice', 120000);
  } finally { fs.renameSync(`${key}.away`, key); }
  await everybody_serves(host, count);
  assert.doesNotMatch(said(), /cannot be respawned/);
});

test('a worker whose helper is slow to begin is followed by one that can', { skip: elsewhere, timeout: 280000 }, async () => {
  const { host } = await endpoint({ body: 'here' }), count = workers().length, before = new Set(helpers());
  const from = fs.statSync(log).size, said = () => fs.readFileSync(log).subarray(from).toString();
  const stopped = new Set();
  process.kill(workers()[0], 'SIGKILL');
  const timer = setInterval(() => {
    if (stopped.size) return;
    for (const pid of helpers()) if (!before.has(pid)) { try { process.kill(pid, 'SIGSTOP'); stopped.add(pid); } catch { /* it is over */ } }
  }, 1);
  try {
    await until(() => stopped.size > 0, 'a helper that stands still', 120000);
    clearInterval(timer);
    // it may have begun before it stood still: then its worker makes itself another one
    await until(() => [...stopped].every((pid) => !helpers().includes(pid)), 'its worker did without it', 120000);
  } finally {
    clearInterval(timer);
    for (const pid of stopped) try { process.kill(pid, 'SIGCONT'); } catch { /* it is over */ }
  }
  await everybody_serves(host, count);
  assert.doesNotMatch(said(), /cannot be respawned/);
});
