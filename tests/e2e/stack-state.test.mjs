// deploy/stack as an operator meets it: one stack in its folder, and whose what is there is.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { own } from '../support/own.mjs';
import { edge, env, home, until } from '../support/postern.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const base = edge.port - 43;
const beside = 'the story needs a system that deploy/stack started on this machine';
const skip = env.POSTERN_RUN_DIR ? false : beside;

const runFolder = (state) => fs.readFileSync(`${state}/postern.env`, 'utf8').match(/^POSTERN_RUN_DIR=(.*)$/m)[1];

test('a stack is one however its folder is spelled, and ends whole when what keeps it was killed', { skip, timeout: 300000 }, () => own(async ({ folder, state, run, left }) => {
  fs.symlinkSync(folder, path.join(folder, 'link'));
  const copies = { POSTERN_ROUTES_COPIES: '2', POSTERN_EVENTS_COPIES: '3' }; // settings that whoever says down later does not have
  const up = run('up', { settings: copies });
  assert.equal(up.status, 0, up.stderr);
  for (const spelling of [`${state}/`, path.join(folder, 'link/var'), `${folder}//./var`]) {
    const again = run('up', { settings: { POSTERN_HOME: spelling, POSTERN_PORT_BASE: String(base + 1200) } });
    assert.deepEqual([again.status, again.stderr], [1, 'error: already running: make down stops it\n'], spelling);
  }
  process.kill(Number(fs.readFileSync(`${runFolder(state)}/stack.pid`, 'utf8')), 'SIGKILL');
  const beside = run('up');
  assert.deepEqual([beside.status, beside.stderr], [1, 'error: already running: make down stops it\n']);
  assert.ok(left().length > 5, 'the services run on');
  const down = run('down', { settings: { POSTERN_HOME: 'link/var/' }, cwd: folder });
  assert.equal(down.status, 0, down.stderr);
  assert.deepEqual(left().map((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')), []);
  for (const [log, word] of [['postgresql', /database system is shut down/], ['routes', / stopping\b/], ['routes-2', / stopping\b/], ['events-3', / stopping\b/]]) {
    assert.match(fs.readFileSync(`${state}/log/${log}.log`, 'utf8'), word, `${log} was asked to end, not killed`);
  }
  fs.rmSync(`${state}/postern.env`); // as after a database was put back: nobody knows its key
  const known = run('up');
  assert.deepEqual([known.status, known.stderr], [0, ''], 'what the first start made for the tour is there already');
  assert.match(fs.readFileSync(`${state}/postern.env`, 'utf8'), /^POSTERN_DEMO_HOST=demo\.localhost$/m);
  assert.equal(run('down').status, 0);
  const twice = run('down');
  assert.deepEqual([twice.status, twice.stderr], [1, `error: nothing runs here (${state})\n`]);
}));

test('down, wipe and replace-edge make no folder, and wipe takes only a stack away', { skip }, () => own(async ({ state, run }) => {
  for (const [command, status, said] of [['down', 1, /nothing runs here/], ['replace-edge', 1, /nothing runs here/], ['wipe', 0, /^$/]]) {
    const done = run(command);
    assert.equal(done.status, status, command);
    assert.match(done.stderr, said);
    assert.equal(fs.existsSync(state), false, command);
  }
  const { uid, gid } = fs.statSync(fs.realpathSync(home));
  fs.mkdirSync(state);
  fs.writeFileSync(`${state}/thesis`, 'all of it');
  fs.chownSync(state, uid, gid);
  const wiped = run('wipe');
  assert.equal(wiped.status, 1);
  assert.match(wiped.stderr, /is not the state of a stack: nothing was removed/);
  assert.ok(fs.existsSync(`${state}/thesis`));
}));

const rootAlone = skip || (process.getuid() ? 'only root can give files away' : false);
test('what is in the state keeps its owner, and a state of another user is refused', { skip: rootAlone, timeout: 300000 }, async () => {
  const { uid, gid } = fs.statSync(fs.realpathSync(home));
  const made = (owner) => (state) => {
    fs.writeFileSync(`${path.dirname(state)}/secret`, 'of root alone', { mode: 0o600 });
    fs.mkdirSync(state);
    fs.linkSync(`${path.dirname(state)}/secret`, `${state}/link`); // as a service could, where the kernel does not protect hard links
    fs.chownSync(state, owner, gid);
  };
  await own(async ({ folder, run }) => {
    const up = run('up');
    assert.equal(up.status, 0, up.stderr);
    assert.equal(fs.statSync(`${folder}/secret`).uid, 0);
  }, { made: made(uid) });
  await own(async ({ state, run }) => {
    const { status, stderr } = run('up');
    assert.equal(status, 1);
    assert.match(stderr, new RegExp(`^error: ${state} belongs to root, and the services run as postern`));
  }, { made: made(0) });
});

test('an edge whose disk is full at its first start says so, and starts when there is room', { skip: rootAlone, timeout: 300000 }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-full-')), full = `${folder}/full`, conf = `${folder}/nginx.conf`, pid = `${full}/nginx.pid`;
  const { uid, gid } = fs.statSync(fs.realpathSync(home)), state = fs.realpathSync(home);
  let text = fs.readFileSync(`${state}/edge/nginx.conf`, 'utf8').replace(/^pid .*/m, `pid ${pid};`).replace(/postern_state_dir .*/, `postern_state_dir ${full};`)
    .replace(/postern_event_memory .*/, '').replace(/include .*api\.conf;/, '');
  for (const port of [15, 43, 80]) text = text.replaceAll(`:${base + port} `, `:${base + 1000 + port} `).replaceAll(`:${base + port};`, `:${base + 1000 + port};`);
  fs.chmodSync(folder, 0o755);
  fs.mkdirSync(full);
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=64k,mode=700,uid=${uid},gid=${gid}`, 'tmpfs', full]);
  let second;
  try {
    fs.writeFileSync(conf, text);
    assert.throws(() => fs.writeFileSync(`${full}/fill`, Buffer.alloc(1 << 20)), /ENOSPC/);
    const preload = { ...process.env, LD_PRELOAD: process.env.POSTERN_EDGE_PRELOAD ?? '', ASAN_OPTIONS: 'detect_leaks=0' };
    const args = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', 'env', `LD_PRELOAD=${preload.LD_PRELOAD}`, '/usr/sbin/nginx', '-e', 'stderr', '-p', `${state}/edge`, '-c', conf];
    const first = spawnSync('setpriv', args, { env: { ...preload, LD_PRELOAD: '' }, encoding: 'utf8', timeout: 300000 });
    assert.deepEqual([first.status, first.signal], [1, null], first.stderr);
    assert.match(first.stderr, /\[emerg\].*cannot make ".*edge\.seats" of \d+ bytes \(28: No space left on device\)/);
    fs.rmSync(`${full}/fill`);
    second = spawn('setpriv', args, { env: { ...preload, LD_PRELOAD: '' }, stdio: 'ignore' });
    await until(() => fs.existsSync(pid) && fs.readFileSync(pid, 'utf8'), 'it starts', 120000);
    process.kill(Number(fs.readFileSync(pid, 'utf8')), 'SIGTERM');
    await until(() => second.exitCode !== null || second.signalCode, 'it ends');
  } finally {
    second?.kill('SIGKILL');
    execFileSync('umount', ['-l', full]);
    fs.rmSync(folder, { recursive: true });
  }
});

test('what runs as the services\' user has nothing of root\'s terminal, and down runs no file of that user', { skip: rootAlone, timeout: 300000 }, () => own(async ({ folder, state, run }) => {
  const up = run('up');
  assert.equal(up.status, 0, up.stderr);
  assert.equal(run('down').status, 0);
  const { uid, gid } = fs.statSync(state), sockets = runFolder(state), seen = `${sockets}/seen`, ran = `${sockets}/ran`;
  fs.writeFileSync(`${state}/bin/stack`, `#!/bin/sh\nid -un >${ran}\n`, { mode: 0o755 });
  fs.mkdirSync(`${folder}/path`);
  // `touch` is what down runs as that user first of all; perl-base is on every Debian. 0x5412 is TIOCSTI.
  fs.writeFileSync(`${folder}/path/touch`, `#!/bin/sh
[ "$(id -un)" = postern ] || exec /usr/bin/touch "$@"
{ id -un
  for i in 0 1 2; do [ ! -t "$i" ] || echo "$i is a terminal"; done
  (: </dev/tty) 2>/dev/null && echo "it has a terminal"
  perl -e 'for my $file (*STDIN, *STDOUT, *STDERR) { my $key = " "; print "it can type\\n" if ioctl($file, 0x5412, $key) }'
} >>${seen}
exec /usr/bin/touch "$@"
`, { mode: 0o755 });
  const holder = spawn('setpriv', [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', 'flock', `${sockets}/stack.lock`, 'sleep', '300'], { stdio: 'ignore' });
  try {
    await until(() => spawnSync('flock', ['-n', `${sockets}/stack.lock`, 'true']).status === 1, 'something of the stack lives');
    const down = spawnSync('script', ['-qec', `${root}/deploy/stack down; echo ended with $?`, '/dev/null'], {
      env: { ...process.env, POSTERN_HOME: state, POSTERN_PORT_BASE: String(base + 1000), PATH: `${folder}/path:${process.env.PATH}` }, encoding: 'utf8', timeout: 300000 });
    assert.match(down.stdout, /ended with 0/);
    assert.equal(fs.readFileSync(seen, 'utf8'), 'postern\n');
    assert.equal(fs.existsSync(ran), false, 'it ran what lay there');
  } finally {
    holder.kill('SIGKILL');
  }
}));

test('of two that start one stack at once, one does and the other says so', { skip, timeout: 300000 }, () => own(async ({ state, run }) => {
  const first = spawn(path.join(root, 'deploy/stack'), ['up'], { env: { ...process.env, POSTERN_HOME: state, POSTERN_PORT_BASE: String(base + 1000) }, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  first.stderr.on('data', (data) => { said += data; });
  const ended = new Promise((resolve) => first.on('close', resolve));
  await until(() => fs.existsSync(`${state}/bin/postern-gateway`), 'the first one is under way'); // and makes its database yet
  const again = run('up');
  assert.deepEqual([again.status, again.stderr], [1, 'error: this stack is being started or removed already\n']);
  assert.equal(await ended, 0, said);
  assert.ok(['demo', 'edge', 'edge-run', 'gateway', 'routes', 'identity', 'events', 'stack'].every((name) => fs.existsSync(`${runFolder(state)}/${name}.pid`)));
  assert.equal(run('up').stderr, 'error: already running: make down stops it\n');
  assert.equal(run('down').status, 0);
}));

test('two folders in /var/lib whose names end alike are two stacks', { skip: rootAlone }, () => {
  const sockets = (name) => spawnSync('bash', ['-x', path.join(root, 'deploy/stack'), 'down'], { env: { ...process.env, POSTERN_HOME: `/var/lib/${name}` }, encoding: 'utf8' })
    .stderr.match(/^\++ run=(.*)$/m)[1];
  assert.notEqual(sockets('postern-eu-west-prod'), sockets('postern-us-west-prod'));
  assert.notEqual(sockets('postern-a/bcdefghijk'), '/run/postern-a/bcdefghijk');
  assert.equal(sockets('postern-0123456789ab'), '/run/postern-0123456789ab');
});
