// deploy/stack as an operator meets it: what it refuses, and that it leaves nothing behind.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { own } from '../support/own.mjs';
import { edge, env } from '../support/postern.mjs';

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
    const up = spawnSync(path.join(root, 'deploy/stack'), ['up'], { env: settings, encoding: 'utf8', timeout: 300000 });
    const left = fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).filter((pid) => {
      try { return fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`POSTERN_HOME=${settings.POSTERN_HOME}`) && Number(pid) !== process.pid; } catch { return false; }
    }).map((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '));
    return { status: up.status, said: up.stderr, left };
  } finally {
    spawnSync(path.join(root, 'deploy/stack'), ['wipe'], { env: settings, timeout: 300000 });
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

test('a stack that a file of stories left behind is removed before the next file, and nothing else is', { skip, timeout: 300000 }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-left-')), file = path.join(folder, 'left.test.mjs'), noted = path.join(folder, 'state');
  fs.writeFileSync(file, `import fs from 'node:fs';
import test from 'node:test';
import { own } from '${root}/tests/support/own.mjs';
test('ends in the midst of it', () => own(async ({ state, run }) => {
  const { status, stderr } = run('up');
  fs.writeFileSync('${noted}', status + state + stderr);
  process.kill(process.pid, 'SIGKILL');
}));`);
  const { NODE_TEST_CONTEXT, ...vars } = process.env;
  try {
    const run = spawn(path.join(root, 'tests/support/stories'), [file], { env: { ...vars, STORIES_CHANCES: '0' }, stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    run.stderr.setEncoding('utf8').on('data', (text) => { said += text; });
    assert.equal(await new Promise((resolve) => run.on('close', resolve)), 1, said);
    const [, state] = /^0(.*postern-own-\w+\/var)/.exec(fs.readFileSync(noted, 'utf8')) ?? assert.fail(fs.readFileSync(noted, 'utf8'));
    assert.match(said, new RegExp(`stories of ${file} left a stack of their own in ${path.dirname(state)}: it is stopped and removed`));
    assert.ok(!fs.existsSync(path.dirname(state)));
    const socket = net.connect(base + 1000, '127.0.0.1');
    assert.equal(await new Promise((resolve) => socket.on('connect', () => resolve('its gateway still listens')).on('error', ({ code }) => resolve(code))), 'ECONNREFUSED');
    assert.equal((await fetch(env.POSTERN_API_URL)).status > 0, true, 'the stack that stories share');
  } finally { fs.rmSync(folder, { recursive: true, force: true }); }
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

test('a setting that would be more than a value in nginx.conf is refused at once, with its name', { skip }, () => own(async ({ folder, run, left }) => {
  for (const [name, value] of [['POSTERN_HOME', `${folder}/a b`], ['POSTERN_HOME', `${folder}/a&b`], ['POSTERN_HOME', `${folder}/a|b;c`],
    ['POSTERN_TRUSTED_PROXIES', '10.0.0.0/8; daemon on'], ['POSTERN_DENIED_UPSTREAMS', '10.0.0.0/8&'], ['POSTERN_EDGE_NAME', 'a|b'],
    ['POSTERN_PROXY_PROTOCOL_FROM', '10.0.0.1\ndaemon on'], ['POSTERN_API_RATE', 'x[$(id)]'], ['POSTERN_API_CONNECTIONS', '64\ndaemon on']]) {
    const { status, stderr } = run('up', { settings: { [name]: value } });
    assert.equal(status, 1, name);
    assert.match(stderr, new RegExp(`^error: .*${name}.* has a character that has no place there`));
  }
  for (const [name, value] of [['POSTERN_ROUTES_COPIES', '4'], ['POSTERN_GATEWAY_COPIES', '0'], ['POSTERN_EVENTS_COPIES', '01'], ['POSTERN_IDENTITY_COPIES', 'x'],
    ['POSTERN_EDGE_WORKERS', '0'], ['POSTERN_EDGE_WORKERS', 'two'], ['POSTERN_LOG_MEGABYTES', 'x'], ['POSTERN_LOG_MEGABYTES', '16m'], ['POSTERN_LOG_MEGABYTES', '0'],
    ['POSTERN_LOG_MEGABYTES', '016'], ['POSTERN_LOG_MEGABYTES', '9999999'], ['POSTERN_LOG_OLD', 'x'], ['POSTERN_LOG_OLD', '0'], ['POSTERN_RESPONSE_HEADER_SIZE', '64k\ndaemon on'], ['POSTERN_RESPONSE_HEADER_SIZE', '3k'], ['POSTERN_DRAIN_TIMEOUT', '10 parsecs'],
    ['POSTERN_CONNECT_TIMEOUT', '0s'], ['POSTERN_UPSTREAM_KEEPALIVE', '0'], ['POSTERN_CLIENT_KEEPALIVE_REQUESTS', 'all'], ['POSTERN_COMPRESS_CREDENTIALS', 'yes'], ['POSTERN_PORT_BASE', '08400'], ['POSTERN_PORT_BASE', '65500'], ['POSTERN_PORT_BASE', '80']]) {
    const { status, stderr } = run('up', { settings: { [name]: value } });
    assert.deepEqual([status, stderr.split('\n').length], [1, 2], stderr);
    assert.match(stderr, new RegExp(`^error: ${name} must be `));
  }
  for (const name of ['POSTERN_TRUSTED_PROXIES', 'POSTERN_PROXY_PROTOCOL_FROM']) {
    const unknown = run('up', { settings: { [name]: '10.0.0.0/33' } });
    assert.equal(unknown.status, 1);
    assert.match(unknown.stderr, new RegExp(`"10\\.0\\.0\\.0/33" in ${name} \\(${name.toLowerCase()}\\) is not a CIDR.*\\n.*\\nerror: the edge does not load: nothing was started`));
  }
  const address = run('up', { settings: { POSTERN_DENIED_UPSTREAMS: '10.0.0.0/33' } });
  assert.match(address.stderr, /"10\.0\.0\.0\/33" in POSTERN_DENIED_UPSTREAMS \(postern_denied_upstreams\) is no address or network[^]*\nerror: the edge does not load/);
  assert.deepEqual(left(), []);
}));
