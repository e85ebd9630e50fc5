// With an edge's key one reads the configuration, and nothing more: not the places of others at the config log, nor its time or memory.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { api, elsewhere, endpoint, env, home, must, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-places-')), program = path.join(folder, 'hellos');
// as the services' user sees it: a checkout's folder may be closed to it
const state = elsewhere ? home : fs.realpathSync(home);
const keys = `${state}/keys`, other = 'edge@places-other';
const owner = elsewhere ? null : fs.statSync(keys);
const asOwner = (...command) => execFileSync(command[0], command.slice(1), owner.uid === process.getuid() ? {} : { uid: owner.uid, gid: owner.gid });
const forget = () => { for (const at of [`${keys}/${other}`, ...fs.readdirSync(keys).map((name) => `${keys}/${name}/peers/${other}.cert`)]) fs.rmSync(at, { recursive: true, force: true }); };
const options = { skip: elsewhere, timeout: 300000 };
const helpers = () => children(children([Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8'))]));
const log = () => fs.readFileSync(`${env.POSTERN_LOG_DIR}/routes.log`, 'utf8');

test.before(() => {
  if (elsewhere) return;
  execFileSync('cc', ['-O1', fileURLToPath(new URL('../support/hellos.c', import.meta.url)), '-o', program, '-lczmq', '-lzmq']);
  asOwner(`${state}/bin/postern`, 'curve-keys', keys, 'routes', 'events', other);
});
test.after(() => { fs.rmSync(folder, { recursive: true }); if (!elsewhere) forget(); });

// story(said): while so many workers of the other edge's key are there; said() is what they print
async function beside(count, how, story) {
  const crowd = spawn(program, [`${keys}/${other}/self.cert_secret`, `${keys}/routes/self.cert`, `ipc://${env.POSTERN_RUN_DIR}/config.log`, 'places-other', String(count), how], { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  crowd.stdout.setEncoding('utf8').on('data', (part) => { text += part; });
  const ended = new Promise((resolve) => crowd.on('exit', resolve));
  try { return await story(() => text.split('\n').slice(0, -1)); } finally { crowd.stdin.end(); await ended; }
}

const change = async (to, body) => {
  const { status, headers } = await api('PATCH', `/backends/http_response/${to.backend.id}`, { body });
  const [, acked, live] = /^(\d+)\/(\d+)$/.exec(headers['postern-edges'] ?? '') ?? [];
  return { status, acked: Number(acked), live: Number(live) };
};
// Over new connections: whichever worker takes them.
const bodies = async (host) => new Set(await Promise.all(Array.from({ length: 12 }, async () => (await through(host)).body)));

test("workers without end of one edge take no place that is another's", options, async () => {
  const to = await endpoint({ body: 'v0' });
  await beside(1200, 'once', async () => {
    let n = 0;
    await until(async () => (await change(to, `a${n++}`)).live > 100, 'they are there', 120000);
    for (const pid of helpers()) process.kill(pid, 'SIGKILL'); // the edge that serves has to come back to a place
    const served = async () => {
      const body = `b${n++}`, answer = await change(to, body);
      assert.equal(answer.status, 200);
      assert.ok(answer.acked < answer.live, 'who has no place does not have it');
      return (await bodies(to.host)).size === 1 && (await bodies(to.host)).has(body);
    };
    await until(served, 'it has', 120000);
    assert.match(log(), /a worker of edge@places-other finds no place at the config log/);
  });
  await until(async () => { const { acked, live } = await change(to, 'end'); return acked === 2 && live === 2; }, 'they are gone', 120000);
});

test('hellos without end of one edge do not keep another from what is new', options, async () => {
  const to = await endpoint({ body: 'v0' });
  await beside(200, 'flood', async () => {
    let n = 0;
    await until(async () => (await change(to, `a${n++}`)).live > 100, 'they are there', 120000);
    for (let i = 0; i < 10; i++) {
      const body = `b${n++}`;
      assert.equal((await change(to, body)).status, 200);
      assert.deepEqual(await bodies(to.host), new Set([body]), 'within the time that an answer waits');
    }
  });
  await until(async () => { const { acked, live } = await change(to, 'end'); return acked === 2 && live === 2; }, 'they are gone', 120000);
  assert.deepEqual(await bodies(to.host), new Set(['end']));
});

const MB = 1 << 20;
const memory = () => Number(/^VmRSS:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${fs.readFileSync(`${env.POSTERN_RUN_DIR}/routes.pid`, 'utf8').trim()}/status`, 'utf8'))[1]) * 1024;
// story(): while the configuration has so many entries of 64 KB more.
async function among(count, story) {
  const entries = await Promise.all(Array.from({ length: count }, (_, i) => must('POST', '/backends/http_response', { body: `${i} `.padEnd(65536, 'x') })));
  try { return await story(); } finally { for (const { id } of entries) await must('DELETE', `/backends/http_response/${id}`); }
}

// 16 MiB of one key are on their way, and a message more; the sanitizer keeps some of what is freed besides. Without a bound such a
// connection has all of the configuration in the memory each time it says hello: 400 MB of four in the same time.
test('workers that say hello and read nothing cost the config log a bounded memory', options, () => among(64, async () => {
  const to = await endpoint({ body: 'v0' }), before = memory();
  let peak = 0;
  await beside(4, 'deaf', async (said) => {
    let n = 0;
    await until(async () => (await change(to, `a${n++}`)).live > 5, 'they are there', 120000);
    for (const from = said().length; said().length < from + 150;) {
      const body = `b${n++}`;
      assert.equal((await change(to, body)).status, 200);
      assert.deepEqual(await bodies(to.host), new Set([body]), 'within the time that an answer waits');
      peak = Math.max(peak, memory() - before);
      assert.ok(peak < 200 * MB, `${Math.round(peak / MB)} MB more than before`);
    }
  });
  await until(async () => { const { acked, live } = await change(to, 'end'); return acked === 2 && live === 2; }, 'they are gone', 120000);
  console.log(`workers that read nothing: ${Math.round(peak / MB)} MB`);
}));

test('a worker that reads slowly is told everything at last, and once', options, () => among(64, async () => {
  const to = await endpoint({ body: 'v0' });
  await beside(1, 'slow', async (said) => {
    const lines = (word) => said().map((line) => line.split(' ')).filter((line) => line[1] === word);
    await until(() => lines('snapshot').length > 0, 'it is told', 120000);
    for (let i = 0; i < 5; i++) assert.equal((await change(to, `v${i + 1}`)).status, 200);
    await until(() => lines('end').length > 0, 'it was told everything', 120000);
    const bytes = [...lines('snapshot'), ...lines('more')].reduce((sum, line) => sum + Number(line[3]), 0);
    assert.ok(bytes > 64 * 65536, `${bytes} bytes`);
    assert.equal(lines('snapshot').length, 1);
    assert.equal((await change(to, 'last')).status, 200);
    const head = execFileSync('psql', [env.DATABASE_URL, '-Atc', 'SELECT revision FROM routes.config_head'], { encoding: 'utf8' }).trim();
    await until(() => lines('delta').at(-1)?.[2] === head, 'and what changed meanwhile', 120000);
  });
}));
