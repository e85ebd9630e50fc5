// Disks that are full, and a file that somebody takes away. What would not survive a restart is not confirmed.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { api, edge, elsewhere, endpoint, env, home, must, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const dir = `${home}/edge`, state = `${dir}/config.state`;
const pidOf = (name) => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')); } catch { return 0; } };
const run = (...command) => execFileSync(command[0], command.slice(1), { encoding: 'utf8', stdio: 'pipe' });
const status = (what) => fetch(`http://127.0.0.1:${edge.port - 28}/${what}`).then((answer) => answer.text()).catch(() => '');
const behind = async () => Number((await status('metrics')).match(/^postern_edge_state_behind\{worker="0"\} (\d)/m)?.[1]);
const edgesOf = (answer) => answer.headers['postern-edges'];
const change = async () => edgesOf(await api('POST', '/backends/http_response', { body: 'x' }));
const says = async (host) => { try { return (await through(host)).body; } catch { return undefined; } };

// Begins with a nonce, which comes once.
const head = () => { try { return fs.readFileSync(state).subarray(0, 28).toString('hex'); } catch { return undefined; } };

// A new master with new workers, by the supervisor.
async function restart(signal) {
  const before = pidOf('edge');
  if (signal === 'SIGKILL') process.kill(-before, signal); else process.kill(before, signal);
  await until(() => ![0, before].includes(pidOf('edge')) && children(pidOf('edge')).length >= 2, 'a new edge', 120000);
  await until(async () => (await status('readyz')).startsWith('ready'), 'it is ready', 120000);
}

async function withoutConfigLog(story) {
  process.kill(pidOf('routes'), 'SIGSTOP');
  try { return await story(); } finally { process.kill(pidOf('routes'), 'SIGCONT'); }
}

// Why no small file system can be put in the place of the directory.
function unable() {
  if (elsewhere) return elsewhere;
  const at = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-mount-'));
  try {
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', at]).status !== 0) return 'this user cannot mount a file system';
    run('umount', at);
    return false;
  } finally {
    fs.rmdirSync(at);
  }
}

// fsfreeze, as for a snapshot of the machine. Only what opens a file as if to make it waits here: see slow_resolver.c.
test('a file system that is frozen for some seconds stops no worker and no helper', { skip: process.env.POSTERN_SLOW_RESOLVER && !elsewhere ? false : 'nothing freezes opening files here', timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'x' });
  const restarts = async () => [...(await status('metrics')).matchAll(/^postern_edge_helper_restarts_total\{worker="\d+"\} (\d+)/gm)].map((row) => row[1]).join();
  await until(async () => await change() === '2/2', 'all is well', 120000);
  const before = await restarts(), end = Date.now() + 4000;
  fs.writeFileSync(`${dir}/frozen`, '');
  const lost = setTimeout(() => fs.rmSync(`${dir}/frozen`, { force: true }), 120000); // of those that wait for the thaw
  try {
    for (let round = 0; round < 3 || Date.now() < end; round++) {
      const got = await Promise.all(Array.from({ length: 16 }, () => through(to.host)));
      assert.ok(got.every(({ body }) => body === 'x'));
      assert.ok(fs.existsSync(`${dir}/frozen`), 'no request waited for the thaw');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.equal(await change(), '2/2', 'the helpers bring what is new');
    assert.equal(await restarts(), before, 'and none was replaced');
    assert.ok(fs.existsSync(`${dir}/frozen`), 'before the thaw');
  } finally {
    clearTimeout(lost);
    fs.rmSync(`${dir}/frozen`, { force: true });
  }
});

// Each leaves nothing there that a restart could go on from, or something that what follows does not belong behind.
const harms = {
  removed: () => fs.rmSync(state),
  'put in its place by another': () => { fs.copyFileSync(state, `${state}.old`); run('chown', '--reference', state, `${state}.old`); fs.renameSync(`${state}.old`, state); },
  emptied: () => fs.truncateSync(state, 0),
  'cut within its last record': () => fs.truncateSync(state, fs.statSync(state).size - 50),
  'written behind its last record': () => fs.appendFileSync(state, 'no record'),
  'written where it is, as long as it was': () => {
    const size = fs.statSync(state).size, file = fs.openSync(state, 'r+');
    try { fs.writeSync(file, Buffer.alloc(50), 0, 50, size - 50); } finally { fs.closeSync(file); }
  },
};

test('a state file that somebody else changed is written again', { skip: elsewhere, timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'before' });
  await until(async () => await change() === '2/2', 'all is well');
  for (const [how, take] of Object.entries(harms)) {
    const was = head();
    take();
    await until(() => ![undefined, '', was].includes(head()), `a new file, without any change, after it was ${how}`);
    await until(async () => await behind() === 0, 'and it holds what is in force');
    const body = `after ${head()}`;
    await until(async () => edgesOf(await api('PATCH', `/backends/http_response/${to.backend.id}`, { body })) === '2/2', 'changes are confirmed');
    await withoutConfigLog(async () => {
      await restart('SIGKILL');
      assert.equal(await says(to.host), body, `from disk, after it was ${how}`);
      assert.match(await status('metrics'), /^postern_edge_revision\{worker="0"\} [1-9]/m);
    });
    await until(async () => await change() === '2/2', 'all is well again', 120000);
  }
});

// The directory of the state file on a full disk, for as long as the story lasts; room() makes it one with room.
async function onFullDisk(story) {
  const kilobytes = Number(run('du', '-sk', dir).split('\t')[0]);
  const small = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-small-'));
  run('mount', '-t', 'tmpfs', '-o', `size=${2 * kilobytes + 8192}k`, 'tmpfs', small);
  run('cp', '-a', `${dir}/.`, small);
  run('mount', '--bind', small, dir);
  try {
    await restart('SIGTERM');
    await until(async () => await change() === '2/2', 'the edge follows', 120000);
    assert.notEqual(spawnSync('dd', ['if=/dev/zero', `of=${dir}/ballast`, 'bs=4k'], { stdio: 'ignore' }).status, 0, 'the disk is full');
    await story(() => fs.rmSync(`${dir}/ballast`));
  } finally {
    run('umount', '-l', dir);
    run('umount', '-l', small);
    fs.rmdirSync(small);
    await restart('SIGTERM');
  }
  await until(async () => await change() === '2/2', 'all is well again', 120000);
}

test('a change that does not fit on the disk is not confirmed until it does', { skip: unable(), timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'before' });
  const log = `${env.POSTERN_LOG_DIR}/edge.log`;
  await onFullDisk(async (room) => {
    const from = fs.statSync(log).size;
    const body = 'x'.repeat(65536);
    const answer = await api('PATCH', `/backends/http_response/${to.backend.id}`, { body });
    assert.equal(`${answer.status} ${edgesOf(answer)}`, '200 1/2', 'in force, and not confirmed by the worker that keeps the file');
    assert.equal(await says(to.host), body);
    assert.equal(await change(), '1/2', 'nor is the one behind it');
    assert.equal(await behind(), 1);
    assert.match(await status('readyz'), /^ready\n[^]*the state file does not hold what is in force/);
    const health = spawnSync(`${home}/bin/postern`, ['health'], { env: { ...process.env, POSTERN_HOME: home }, encoding: 'utf8' });
    assert.match(health.stdout + health.stderr, /the state file does not hold what is in force/);
    const told = () => fs.readFileSync(log).subarray(from).toString();
    assert.match(told(), /cannot write the state file[^\n]*\(28: No space left on device\)/);
    await withoutConfigLog(async () => {
      await restart('SIGKILL');
      assert.equal(await says(to.host), 'before', 'what was on disk, whole');
    });
    await until(async () => await says(to.host) === body, 'the config log says the rest', 120000);
    await until(async () => await change() === '1/2', 'which is still not on disk', 120000);

    room();
    await until(async () => await behind() === 0, 'there is room, and it is written', 120000);
    await until(async () => await change() === '2/2', 'changes are confirmed');
    assert.match(told(), /the state file is written again/);
    assert.ok(!fs.existsSync(`${state}.new`));
    await withoutConfigLog(async () => {
      await restart('SIGKILL');
      assert.equal(await says(to.host), body, 'now it survives');
    });
  });
});

test('a full disk keeps no key of session tickets in use', { skip: unable(), timeout: 280000 }, async () => {
  const keys = `${dir}/ticket.keys`, read = () => fs.readFileSync(keys).toString('hex');
  await onFullDisk(async () => {
    const before = read(), long_ago = Date.now() / 1000 - 13 * 3600;
    fs.utimesSync(keys, long_ago, long_ago);
    await until(() => read().length === before.length && read() !== before, 'the keys are changed');
  });
});

// A hello is not an acknowledgement. What makes an edge say one while a change waits for its disk:
const hellos = {
  'its helper was replaced': async () => { for (const pid of children(pidOf('edge')).flatMap(children)) process.kill(pid, 'SIGKILL'); },
  'the config log was silent': async () => {
    process.kill(pidOf('routes'), 'SIGSTOP');
    try { await new Promise((resolve) => setTimeout(resolve, 1300)); } finally { process.kill(pidOf('routes'), 'SIGCONT'); }
  },
};

test('a change that does not fit on the disk is not confirmed by a hello either', { skip: unable(), timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'before' });
  await onFullDisk(async () => {
    let n = 0;
    const patch = async () => { const answer = await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: String.fromCharCode(97 + n++ % 26).repeat(65536) }); return `${answer.status} ${edgesOf(answer)}`; };
    assert.equal(await patch(), '200 1/2');
    for (const [why, hello] of Object.entries(hellos)) {
      let said, tries = 0;
      do { // a worker that says nothing for a second, as one whose helper is that long in coming, is given up, and is none of the two
        assert.ok(tries++ < 5, `${why}: ${said}`);
        const waiting = patch();
        await new Promise((resolve) => setTimeout(resolve, 150)); // it is in force, and waits
        await hello();
        said = await waiting;
        assert.match(said, /^200 ([01]\/2|[01]\/1|0\/0)$/, why);
      } while (said !== '200 1/2');
      await until(async () => await patch() === '200 1/2', `after that, too: ${why}`, 120000);
    }
  });
});

// A table on a file system of its own, 2 MB large, for as long as the story lasts.
async function onSmallDisk(schema, table, story) {
  const name = `small_${table}_${process.pid}`, at = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-table-'));
  const sql = (text) => run('psql', env.DATABASE_URL, '-v', 'ON_ERROR_STOP=1', '-qAtc', text).trim();
  const data = sql('SHOW data_directory');
  run('mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', at);
  try {
    run('chown', '--reference', data, at);
    fs.chmodSync(at, 0o700);
    sql(`CREATE TABLESPACE ${name} LOCATION '${at}'`);
    sql(`ALTER TABLE ${schema}.${table} SET TABLESPACE ${name}`);
    await story(() => sql(`ALTER TABLE ${schema}.${table} SET TABLESPACE pg_default`));
  } finally {
    sql(`ALTER TABLE ${schema}.${table} SET TABLESPACE pg_default`);
    sql(`DROP TABLESPACE IF EXISTS ${name}`);
    run('umount', '-l', at);
    fs.rmdirSync(at);
  }
}

test('a change for which the database has no room is 503, and the service says that it is not ready', { skip: unable(), timeout: 280000 }, async () => {
  const ready = () => fetch(`http://127.0.0.1:${edge.port - 31}/readyz`).then(async (answer) => `${answer.status} ${await answer.text()}`);
  const log = `${env.POSTERN_LOG_DIR}/routes.log`;
  await until(async () => (await ready()) === '200 ready\n', 'all is well', 120000);
  await onSmallDisk('routes', 'http_response_backend', async (moveBack) => {
    const from = fs.statSync(log).size;
    let answer, body, n = 0;
    const headers = () => ({ 'Idempotency-Key': `full-${process.pid}-${n}` });
    do {
      n++;
      body = crypto.randomBytes(30000).toString('hex'); // does not compress
      answer = await api('POST', '/backends/http_response', { body }, headers());
    } while (answer.status === 201 && n < 200);
    assert.equal(`${answer.status} ${answer.body.error_code}`, '503 ERR_POSTERN_503', answer.raw);
    // whatever else finds room and is committed, as what is too old being deleted, says the opposite
    await until(async () => { await api('POST', '/backends/http_response', { body }, headers()); return /^503 PostgreSQL has no room/.test(await ready()); }, 'the service is not ready');
    assert.match(fs.readFileSync(log).subarray(from).toString(), /SQLSTATE 53100/);
    assert.equal((await api('GET', '/backends/http_response?limit=1')).status, 200, 'what is there can be read');
    moveBack();
    const again = await api('POST', '/backends/http_response', { body }, headers());
    assert.equal(again.status, 201, again.raw);
    assert.equal(await ready(), '200 ready\n');
  });
});

// A standby that nobody promoted yet, a provider that means "full", an operator before a switch-over: all say so to new sessions.
test('a change for which the database is read-only is 503, and the services say that they are not ready', { skip: elsewhere, timeout: 280000 }, async () => {
  const sql = (text) => run('psql', env.DATABASE_URL, '-v', 'ON_ERROR_STOP=1', '-qAtc', text).trim();
  const ports = { routes: edge.port - 31, identity: edge.port - 30, events: edge.port - 29 };
  const ready = (port) => fetch(`http://127.0.0.1:${port}/readyz`).then(async (answer) => `${answer.status} ${await answer.text()}`);
  const database = sql('SELECT current_database()'), log = `${env.POSTERN_LOG_DIR}/routes.log`, from = fs.statSync(log).size;
  const changes = () => Promise.all(Array.from({ length: 8 }, (_, i) => (i % 2 ? api('POST', '/backends/http_response', { body: 'x' }) : api('POST', '/bot_users', { name: 'x' }))));
  const to = await endpoint({ body: 'before' });
  sql(`ALTER DATABASE "${database}" SET default_transaction_read_only = on`);
  try {
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()");
    for (const [name, port] of Object.entries(ports))
      await until(async () => /^503 PostgreSQL is read-only/.test(await ready(port)), `${name} is not ready`, 120000);
    for (let i = 0; i < 3; i++)
      for (const answer of await changes())
        assert.equal(`${answer.status} ${answer.body.error_code} ${answer.headers['retry-after']}`, '503 ERR_POSTERN_503 1', answer.raw);
    assert.equal((await api('GET', `/backends/http_response/${to.backend.id}`)).status, 200, 'what is there can be read');
    assert.equal((await through(to.host)).body, 'before');
    await until(() => /SQLSTATE 25006/.test(fs.readFileSync(log).subarray(from).toString()), 'the log says why');
  } finally {
    execFileSync('psql', [env.DATABASE_URL, '-Xqc', `ALTER DATABASE "${database}" RESET default_transaction_read_only`], { env: { ...process.env, PGOPTIONS: '-c default_transaction_read_only=off' } });
  }
  // No session is ended, and those that there are say read-only as long as they last.
  await until(async () => (await changes()).every((answer) => answer.status === 201), 'changes again', 120000);
  for (const [name, port] of Object.entries(ports)) await until(async () => await ready(port) === '200 ready\n', `${name} is ready`, 120000);
  await until(async () => edgesOf(await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'after' })) === '2/2', 'and they reach the edge', 120000);
  assert.equal((await through(to.host)).body, 'after');
});
