// An edge far away: what it missed takes longer to arrive than the config log is silent when all is well.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { path } from '../support/path.mjs';
import { api, elsewhere, endpoint, env, must, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const RATE = 500000, ENTRIES = 300;
const file = `${env.POSTERN_RUN_DIR}/config.log`;
const helpers = () => children(Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8'))).flatMap(children);
const change = async () => (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'];

// An edge that was cut off while `meanwhile` happened, and comes back over a link of so many bytes a second.
async function cutOff(rate, meanwhile, story) {
  let link;
  fs.renameSync(file, `${file}.real`);
  try {
    for (const pid of helpers()) process.kill(pid, 'SIGKILL'); // those that come in their place find nobody
    await until(async () => await change() === '0/0', 'nobody waits for the edge');
    await meanwhile();
    link = await path(file, `${file}.real`, rate);
    fs.chmodSync(file, 0o666);
    await story(link);
  } finally {
    link?.close();
    fs.rmSync(file, { force: true });
    fs.renameSync(`${file}.real`, file);
    await until(async () => await change() === '2/2', 'all is well again');
  }
}

async function fill(count) {
  let n = 0;
  const one = async () => { while (n++ < count) await must('POST', '/backends/http_response', { body: 'x'.repeat(4000) }); };
  await Promise.all(Array.from({ length: 8 }, one));
}

test('a large change is in force at the end of a slow link', { skip: elsewhere, timeout: 300000 }, async (t) => {
  const to = await endpoint({ body: 'v1' });
  await until(async () => await change() === '2/2', 'changes are in force');
  await cutOff(RATE, async () => {
    await fill(ENTRIES);
    await must('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'v2' });
  }, async ({ carried }) => {
    await until(async () => await change() === '2/2', 'both workers have all of it', 120000);
    t.diagnostic(`${carried()} bytes for two workers, of which ${2 * ENTRIES * 4000} are bodies`);
    const got = await Promise.all(Array.from({ length: 20 }, () => through(to.host)));
    assert.deepEqual(new Set(got.map(({ body }) => body)), new Set(['v2']));
  });
});
