// deploy/stack as root, in folders where the services' user may make what it likes.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import { own } from '../support/own.mjs';
import { edge, env, home, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const rootAlone = skip || (process.getuid() ? 'only root has something to lose' : false);
const port = edge.port - 43 + 1000; // of own's stack
const runFolder = (state) => fs.readFileSync(`${state}/postern.env`, 'utf8').match(/^POSTERN_RUN_DIR=(.*)$/m)[1];

// What the services' user can make in their folders, without a right of its own.
const fifo = (file) => { fs.rmSync(file, { force: true }); execFileSync('mkfifo', ['-m', '666', file]); };

test('pipes, links and forged numbers where the services may write keep no down waiting, and it ends what runs', { skip: rootAlone, timeout: 400000 }, () => own(async ({ folder, state, run, left }) => {
  const up = run('up');
  assert.equal(up.status, 0, up.stderr);
  const sockets = runFolder(state);
  for (const name of ['gateway.pid', 'demo.pid', 'postgresql.pid']) fifo(`${sockets}/${name}`);
  fifo(`${sockets}/stack.pid`);
  const down = run('down');
  assert.deepEqual([down.status, down.signal], [0, null], down.stderr);
  assert.deepEqual(left(), []);

  fifo(`${sockets}/stack.lock`);
  fifo(`${sockets}/stack.pid`);
  const nothing = [1, `error: nothing runs here (${state})\n`];
  const piped = run('down');
  assert.deepEqual([piped.status, piped.stderr], nothing);

  // somebody else's process that looks like the one that keeps a stack, and one of the services' user that keeps another
  fifo(`${folder}/stack`);
  const { uid, gid } = fs.statSync(state);
  const others = [spawn('cat', [`${folder}/stack`], { stdio: 'ignore' }), spawn('setpriv', [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', 'cat', `${folder}/stack`], { stdio: 'ignore' })];
  try {
    for (const other of others) {
      await until(() => fs.readFileSync(`/proc/${other.pid}/cmdline`, 'utf8') === `cat\0${folder}/stack\0`, 'it runs');
      fs.rmSync(`${sockets}/stack.pid`, { force: true });
      fs.writeFileSync(`${sockets}/stack.pid`, `${other.pid}\n`);
      const forged = run('down');
      assert.deepEqual([forged.status, forged.stderr], nothing);
      assert.equal(other.exitCode ?? other.signalCode, null, 'nothing was done to it');
    }
  } finally {
    for (const other of others) other.kill('SIGKILL');
  }

  for (const name of ['stack.lock', 'stack.pid', 'stop', 'database-is-set-up', 'replace.lock']) fifo(`${sockets}/${name}`);
  fifo(`${state}/log/pipe.log`);
  const again = run('up');
  assert.equal(again.status, 0, again.stderr);
  for (const name of ['gateway.pid', 'stack.pid', 'replace.lock']) fifo(`${sockets}/${name}`);
  const replaced = run('replace-edge');
  assert.deepEqual([replaced.status, replaced.signal], [0, null], replaced.stderr);
  const wiped = run('wipe');
  assert.deepEqual([wiped.status, wiped.signal, wiped.stderr], [0, null, '']);
  assert.deepEqual(left(), []);
}));

test('a database server that was killed and that nobody has waited for yet does not keep the next one from starting', { skip: rootAlone, timeout: 300000 }, () => own(async ({ state, run }) => {
  assert.equal(run('up').status, 0);
  assert.equal(run('down').status, 0);
  const { uid, gid } = fs.statSync(state);
  const parent = spawn('setpriv', [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', 'perl', '-e', '$| = 1; my $pid = fork // die; exit unless $pid; print "$pid\n"; sleep 4'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const pid = await new Promise((resolve) => parent.stdout.once('data', (text) => resolve(String(text).trim())));
  await until(() => /\) Z /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8')), 'it has ended');
  fs.writeFileSync(`${state}/postgresql/postmaster.pid`, `${pid}\n`);
  fs.chownSync(`${state}/postgresql/postmaster.pid`, uid, gid);
  const { status, stderr } = run('up');
  assert.equal(status, 0, stderr);
}));

const esc = '\x1b]0;owned\x07\x1b[31m';
const shown = (text) => assert.doesNotMatch(text, /[^\n\x20-\x7e]/, JSON.stringify(text));

test('a program that has a port names itself in one line, without telling the terminal anything', { skip }, () => own(async ({ folder, run }) => {
  const program = `${folder}/x${esc}nothing is taken\n  port 1`;
  fs.copyFileSync('/usr/bin/perl', program);
  const stranger = spawn(program, ['-MSocket', '-e', `socket(S, PF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in(${port}, INADDR_LOOPBACK)) or die; listen(S, 5); $| = 1; print "listens\\n"; sleep 300`], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await new Promise((resolve, reject) => { stranger.stdout.on('data', resolve); stranger.on('close', () => reject(new Error('it ended'))); });
    const { status, stderr } = run('up');
    assert.equal(status, 1);
    shown(stderr);
    const lines = stderr.split('\n').filter((line) => /^ *port/.test(line));
    assert.deepEqual(lines, [`  port ${port} (API) is taken by x?]0;owned??[31mnothing is taken?  port 1 (pid ${stranger.pid})`]);
  } finally {
    stranger.kill('SIGKILL');
  }
}));

test('lines of logs that up shows when nothing gets ready tell the terminal nothing, and a pipe among the logs holds nothing up', { skip, timeout: 300000 }, async () => {
  const { uid, gid } = fs.statSync(fs.realpathSync(home));
  const made = (state) => {
    fs.mkdirSync(`${state}/log`, { recursive: true });
    fs.writeFileSync(`${state}/log/zzz.log`, `2026-01-01T00:00:00.000Z error routes ${esc}\r\u009b31m\n`);
    fifo(`${state}/log/pipe.log`);
    for (const at of ['', '/log', '/log/zzz.log', '/log/pipe.log']) fs.chownSync(state + at, uid, gid);
  };
  const nowhere = Object.fromEntries(['ROUTES', 'IDENTITY', 'EVENTS'].map((name) => [`DATABASE_URL_${name}`, 'postgresql://nobody@127.0.0.1:1/nothing']));
  await own(async ({ state, run, left }) => {
    // it is told to end as soon as it runs: then nothing gets ready, and up need not wait for a minute
    const sockets = `${process.getuid() ? process.env.XDG_RUNTIME_DIR || '/tmp' : '/run'}/postern-${crypto.createHash('sha256').update(state).digest('hex').slice(0, 12)}`;
    const ender = spawn('sh', ['-c', `while sleep 0.1; do [ ! -e ${sockets}/stack.pid ] || { touch ${sockets}/told && chown ${uid}:${gid} ${sockets}/told && mv ${sockets}/told ${sockets}/stop; }; done`], { stdio: 'ignore' });
    const { status, signal, stderr } = run('up', { settings: nowhere });
    ender.kill('SIGKILL');
    assert.deepEqual([status, signal], [1, null], stderr);
    assert.match(stderr, /error routes \?\]0;owned/);
    assert.ok(stderr.endsWith(`error: not ready after a minute: the logs are in ${state}/log\n`), stderr);
    shown(stderr);
    assert.deepEqual(left(), []);
  }, { made });
});

// In front of the real one; who it is started by, with what, and what of the secrets is in its environment.
function spied(folder, name, also = `exec /usr/bin/${name} "$@"`) {
  fs.mkdirSync(`${folder}/path`, { recursive: true });
  fs.writeFileSync(`${folder}/path/${name}`, `#!/bin/sh\nprintf '%s\\n' "${name} $(id -un) PGPASSWORD=\${PGPASSWORD-} $*" | tr '\\n' ' ' >>${folder}/seen\necho >>${folder}/seen\n${also}\n`, { mode: 0o755 });
  fs.appendFileSync(`${folder}/seen`, '');
  fs.chmodSync(`${folder}/seen`, 0o666);
  return () => fs.readFileSync(`${folder}/seen`, 'utf8').split('\n').filter((line) => line.startsWith(name));
}

test('neither the API key nor the password of DATABASE_URL is an argument of a program', { skip, timeout: 300000 }, () => own(async ({ folder, state, run }) => {
  const settings = { PATH: `${folder}/path:${process.env.PATH}` };
  const curls = spied(folder, 'curl');
  assert.equal(run('up', { settings }).status, 0);
  const key = fs.readFileSync(`${state}/postern.env`, 'utf8').match(/^POSTERN_API_KEY=(.+)$/m)[1];
  assert.ok(curls().length >= 4);
  assert.deepEqual(curls().filter((line) => line.includes(key) || line.includes('Bearer')), []);
  assert.equal(run('down').status, 0);

  const psqls = spied(folder, 'psql', 'exit 2');
  for (const url of ['postgresql://owner:s3%40cret%5C@127.0.0.1:1/own', 'postgres://owner@127.0.0.1:1/own?password=s3%40cret%5C&connect_timeout=2']) {
    const { status, stderr } = run('up', { settings: { ...settings, DATABASE_URL: url } });
    assert.equal(status, 1);
    assert.match(stderr, /DATABASE_URL does not lead to a database/);
  }
  assert.equal(psqls().length, 2);
  for (const line of psqls()) assert.match(line, /^psql \S+ PGPASSWORD=s3@cret\\ -X [^]*postgres(ql)?:\/\/owner@127\.0\.0\.1:1\/own/);
  assert.deepEqual(psqls().filter((line) => line.slice(line.indexOf('-X')).includes('s3')), []);
}));

test('who speaks to the database as its superuser is neither root nor the services\' user, and root reads no link of theirs', { skip: rootAlone, timeout: 300000 }, () => own(async ({ folder, state, run }) => {
  const psqls = spied(folder, 'psql'), curls = spied(folder, 'curl');
  const settings = { PATH: `${folder}/path:${process.env.PATH}`, PGPASSWORD: 'of-root-alone' };
  const up = run('up', { settings });
  assert.equal(up.status, 0, up.stderr);
  const callers = (lines) => [...new Set(lines.map((line) => line.split(' ').slice(0, 3).join(' ')))];
  assert.deepEqual(callers(psqls()), ['psql postern-operator PGPASSWORD=']);
  assert.deepEqual(callers(curls()).map((line) => line.split(' ')[1]), ['postern']);
  assert.equal(run('down').status, 0);

  const env = fs.readFileSync(`${state}/postern.env`, 'utf8'), secret = `secret-${process.pid}`;
  fs.writeFileSync(`${folder}/secret`, env.replace(/^POSTERN_DEMO_HOST=.*$/m, `POSTERN_DEMO_HOST=${secret}`), { mode: 0o600 });
  fs.rmSync(`${state}/postern.env`);
  fs.symlinkSync(`${folder}/secret`, `${state}/postern.env`);
  const { stdout, stderr } = run('up', { settings }); // what was in the link is lost to it: it may come up or not
  assert.ok(!stdout.includes(secret) && !stderr.includes(secret));
  assert.ok(!fs.readFileSync(`${state}/postern.env`, 'utf8').includes(secret) || fs.lstatSync(`${state}/postern.env`).isSymbolicLink());
}));
