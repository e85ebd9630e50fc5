// A path that dies without a word, as with a firewall that forgot the flow or an address that moved: what was connected carries
// nothing any more and is not closed, new connections work.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import { api, elsewhere, endpoint, env, listening, through, until } from '../support/postern.mjs';

const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const children = (pid) => { try { return execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' }).trim().split('\n').map(Number); } catch { return []; } };
const helpers = () => children(pidOf('edge')).flatMap(children);
const change = async () => (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'];

// In the place of a service's socket, for as long as the story lasts: open() connections carry bytes, die() ends that for those there are.
async function onPath(name, story) {
  const path = `${env.POSTERN_RUN_DIR}/${name}`, pairs = [];
  fs.renameSync(path, `${path}.real`);
  const server = net.createServer((near) => {
    const far = net.connect(`${path}.real`), pair = { near, far, dead: false };
    pairs.push(pair);
    for (const [from, to] of [[near, far], [far, near]]) {
      from.on('data', (bytes) => { if (!pair.dead) to.write(bytes); }); // who sends into a dead one is not told
      from.on('error', () => {});
      from.on('close', () => { if (!pair.dead) to.destroy(); });
    }
  });
  try {
    await new Promise((resolve) => server.listen(path, resolve));
    fs.chmodSync(path, 0o666);
    return await story({ open: () => pairs.filter((pair) => !pair.dead && !pair.near.destroyed).length, die: () => { for (const pair of pairs) pair.dead = true; } });
  } finally {
    server.close();
    for (const pair of pairs) { pair.near.destroy(); pair.far.destroy(); }
    fs.rmSync(path, { force: true });
    fs.renameSync(`${path}.real`, path);
    await until(async () => await change() === '2/2', 'all is well again', 30000);
  }
}

async function throughPath(name, story) {
  await onPath(name, async (path) => {
    for (const pid of helpers()) process.kill(pid, 'SIGKILL'); // they come back this way
    await until(() => path.open() >= 2, 'both workers are connected this way', 30000);
    await until(async () => await change() === '2/2', 'and hear of changes', 30000);
    const ends = helpers();
    await story(path);
    assert.deepEqual(helpers(), ends, 'by the same helpers');
  });
}

test('a path to the config log that died is noticed, and the edge connects again', { skip: elsewhere, timeout: 120000 }, async () => {
  const to = await endpoint({ body: 'v1' });
  await throughPath('config.log', async ({ open, die }) => {
    die();
    await until(() => open() >= 2, 'other connections', 30000);
    const patch = async () => (await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'v2' })).headers['postern-edges'];
    await until(async () => await patch() === '2/2', 'changes are in force', 30000);
    assert.equal((await through(to.host)).body, 'v2');
  });
});

test('a path to the events intake that died is noticed, and events come again', { skip: elsewhere, timeout: 120000 }, async () => {
  const to = await endpoint({ body: 'v1' });
  const subscription = await listening('http_request_complete');
  try {
    await throughPath('events.in', async ({ open, die }) => {
      die();
      await until(() => open() >= 2, 'other connections', 30000);
      const before = subscription.events.length;
      await until(async () => {
        await through(to.host);
        return subscription.events.length > before;
      }, 'events', 30000);
    });
  } finally {
    await subscription.stop();
  }
});
