// deploy/stack and the README's tour, as an operator meets them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { edge, env, home } from '../support/postern.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const base = edge.port - 43;
const beside = 'the story needs a system that deploy/stack started on this machine';
const skip = env.POSTERN_RUN_DIR ? false : beside;

// Another stack in a home of its own, which must not come up; what it said, and the processes of it that are left.
function second(portBase, also = {}) {
  const other = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-second-'));
  fs.chmodSync(other, 0o755);
  const settings = { ...process.env, POSTERN_HOME: path.join(other, 'var'), POSTERN_PORT_BASE: String(portBase), POSTERN_API_URL: '', ...also };
  try {
    const up = spawnSync(path.join(root, 'deploy/stack'), ['up'], { env: settings, encoding: 'utf8', timeout: 120000 });
    const left = fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).filter((pid) => {
      try { return fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`POSTERN_HOME=${settings.POSTERN_HOME}`) && Number(pid) !== process.pid; } catch { return false; }
    }).map((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '));
    return { status: up.status, said: up.stderr, left };
  } finally {
    spawnSync(path.join(root, 'deploy/stack'), ['wipe'], { env: settings, timeout: 120000 });
    fs.rmSync(other, { recursive: true, force: true });
  }
}

test('a stack whose ports another one has names each port with its process and pid, and leaves nothing running', { skip }, () => {
  const { status, said, left } = second(base);
  assert.equal(status, 1);
  for (const [offset, process] of [[0, 'postern-gateway'], [11, 'postern-gateway'], [13, 'postern-identity'], [15, 'nginx'], [43, 'nginx'], [80, 'nginx']])
    assert.match(said, new RegExp(`port ${base + offset} \\(.*\\) is taken by ${process}\\S* \\(pid \\d+\\)`));
  assert.deepEqual(left, []);
});

test('one port that a stranger has is named alone, wherever the stranger listens', { skip }, async () => {
  for (const [host, also] of [['127.0.0.1', {}], ['0.0.0.0', {}], ['::', {}], ['127.0.0.1', { POSTERN_EDGE_ADDRESS: '0.0.0.0' }]]) {
    const stranger = net.createServer();
    await new Promise((resolve) => stranger.listen(base + 1000 + 43, host, resolve));
    try {
      const { status, said, left } = second(base + 1000, also);
      assert.equal(status, 1, host);
      assert.match(said, new RegExp(`port ${base + 1043} \\(HTTPS\\) is taken by .+ \\(pid ${process.pid}\\)`));
      assert.equal(said.match(/is taken by/g).length, 1);
      assert.deepEqual(left, []);
    } finally {
      stranger.close();
    }
  }
});

test('a stack that fails after it was started leaves nothing running', { skip }, () => {
  const { status, left } = second(base + 1000, { POSTERN_API_URL: 'http://127.0.0.1:1' });
  assert.notEqual(status, 0);
  assert.deepEqual(left, []);
});

// As it stands in the README, but for the name, which can be reserved once.
const tour = (name) => fs.readFileSync(path.join(root, 'README.md'), 'utf8').match(/## A tour\n[^]*?```sh\n([^]*?)```/)[1].replaceAll('tour.localhost', name);

function paste(name, cwd, settings) {
  const environment = { ...process.env, ...settings };
  for (const [key, value] of Object.entries(environment)) if (value === undefined) delete environment[key];
  const pasted = spawnSync('bash', [], { cwd, env: environment, input: tour(name), encoding: 'utf8', timeout: 60000 });
  assert.equal(pasted.stderr.replace(/.*Terminated.*\n/g, '').match(/No such file|not found/), null, pasted.stderr);
  assert.match(pasted.stdout, /HTTP\/2 200/);
  assert.match(pasted.stdout, /x-tour: yes/);
  assert.match(pasted.stdout, /hello from the edge/);
  assert.match(pasted.stdout, new RegExp(`"event_type":"http_request_complete.v0".*${name}`));
}

test("the README's tour works when pasted: with POSTERN_HOME set", { skip }, () => {
  paste(`tour-${process.pid}.localhost`, root, { POSTERN_HOME: home });
  paste(`tour-${process.pid}-relative.localhost`, path.dirname(home), { POSTERN_HOME: path.basename(home) });
});

test("the README's tour works when pasted: with var/ in the folder", { skip }, () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-tour-'));
  try {
    fs.symlinkSync(fs.realpathSync(home), path.join(folder, 'var'));
    paste(`tour-${process.pid}-var.localhost`, folder, { POSTERN_HOME: undefined });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});
