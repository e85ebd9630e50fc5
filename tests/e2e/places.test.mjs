// With an edge's key one reads the configuration, and nothing more: not the places of others at the config log, nor its time.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { api, elsewhere, endpoint, env, home, through, until } from '../support/postern.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-places-')), program = path.join(folder, 'hellos');
// as the services' user sees it: a checkout's folder may be closed to it
const state = elsewhere ? home : fs.realpathSync(home);
const keys = `${state}/keys`, other = 'edge@places-other';
const owner = elsewhere ? null : fs.statSync(keys);
const asOwner = (...command) => execFileSync(command[0], command.slice(1), owner.uid === process.getuid() ? {} : { uid: owner.uid, gid: owner.gid });
const forget = () => { for (const at of [`${keys}/${other}`, ...fs.readdirSync(keys).map((name) => `${keys}/${name}/peers/${other}.cert`)]) fs.rmSync(at, { recursive: true, force: true }); };
const options = { skip: elsewhere, timeout: 120000 };
const parents = (of) => execFileSync('pgrep', ['-P', of.join(',')], { encoding: 'utf8' }).trim().split('\n').map(Number);
const helpers = () => parents(parents([Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8'))]));
const log = () => fs.readFileSync(`${env.POSTERN_LOG_DIR}/routes.log`, 'utf8');

test.before(() => {
  if (elsewhere) return;
  execFileSync('cc', ['-O1', fileURLToPath(new URL('../support/hellos.c', import.meta.url)), '-o', program, '-lczmq', '-lzmq']);
  asOwner(`${state}/bin/postern`, 'curve-keys', keys, 'routes', 'events', other);
});
test.after(() => { fs.rmSync(folder, { recursive: true }); if (!elsewhere) forget(); });

// story(): while so many workers of the other edge's key are there
async function beside(count, how, story) {
  const crowd = spawn(program, [`${keys}/${other}/self.cert_secret`, `${keys}/routes/self.cert`, `ipc://${env.POSTERN_RUN_DIR}/config.log`, 'places-other', String(count), how], { stdio: ['pipe', 'inherit', 'inherit'] });
  const ended = new Promise((resolve) => crowd.on('exit', resolve));
  try { return await story(); } finally { crowd.stdin.end(); await ended; }
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
    await until(async () => (await change(to, `a${n++}`)).live > 100, 'they are there', 60000);
    for (const pid of helpers()) process.kill(pid, 'SIGKILL'); // the edge that serves has to come back to a place
    const served = async () => {
      const body = `b${n++}`, answer = await change(to, body);
      assert.equal(answer.status, 200);
      assert.ok(answer.acked < answer.live, 'who has no place does not have it');
      return (await bodies(to.host)).size === 1 && (await bodies(to.host)).has(body);
    };
    await until(served, 'it has', 60000);
    assert.match(log(), /a worker of edge@places-other finds no place at the config log/);
  });
  await until(async () => { const { acked, live } = await change(to, 'end'); return acked === 2 && live === 2; }, 'they are gone', 60000);
});

test('hellos without end of one edge do not keep another from what is new', options, async () => {
  const to = await endpoint({ body: 'v0' });
  await beside(200, 'flood', async () => {
    let n = 0;
    await until(async () => (await change(to, `a${n++}`)).live > 100, 'they are there', 60000);
    for (let i = 0; i < 10; i++) {
      const body = `b${n++}`;
      assert.equal((await change(to, body)).status, 200);
      assert.deepEqual(await bodies(to.host), new Set([body]), 'within the time that an answer waits');
    }
  });
  await until(async () => { const { acked, live } = await change(to, 'end'); return acked === 2 && live === 2; }, 'they are gone', 60000);
  assert.deepEqual(await bodies(to.host), new Set(['end']));
});
