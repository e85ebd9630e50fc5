// deploy/stack and the README's tour, as an operator meets them.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
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

test('a setting that would be more than a value in nginx.conf is refused at once, with its name', { skip }, () => own(async ({ folder, run, left }) => {
  for (const [name, value] of [['POSTERN_HOME', `${folder}/a b`], ['POSTERN_HOME', `${folder}/a&b`], ['POSTERN_HOME', `${folder}/a|b;c`],
    ['POSTERN_TRUSTED_PROXIES', '10.0.0.0/8; daemon on'], ['POSTERN_DENIED_UPSTREAMS', '10.0.0.0/8&'], ['POSTERN_EDGE_NAME', 'a|b'],
    ['POSTERN_PROXY_PROTOCOL_FROM', '10.0.0.1\ndaemon on'], ['POSTERN_API_RATE', 'x[$(id)]'], ['POSTERN_API_CONNECTIONS', '64\ndaemon on']]) {
    const { status, stderr } = run('up', { settings: { [name]: value } });
    assert.equal(status, 1, name);
    assert.match(stderr, new RegExp(`^error: .*${name}.* has a character that has no place there`));
  }
  for (const [name, value] of [['POSTERN_ROUTES_COPIES', '4'], ['POSTERN_GATEWAY_COPIES', '0'], ['POSTERN_EVENTS_COPIES', '01'], ['POSTERN_IDENTITY_COPIES', 'x'],
    ['POSTERN_EDGE_WORKERS', '0'], ['POSTERN_EDGE_WORKERS', 'two'], ['POSTERN_RESPONSE_HEADER_SIZE', '64k\ndaemon on'], ['POSTERN_RESPONSE_HEADER_SIZE', '3k'], ['POSTERN_DRAIN_TIMEOUT', '10 parsecs'],
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

// As it stands in the README, but for the name, which can be reserved once, and for how long is waited for the tail to listen and to
// say what it heard: the README's one and five seconds are a reader's, and none that a busy machine keeps.
const tour = (name) => fs.readFileSync(path.join(root, 'README.md'), 'utf8').match(/## A tour\n[^]*?```sh\n([^]*?)```/)[1]
  .replace(/^timeout 5 (.* tail http_request_complete) &\nsleep 1; (curl .*\/seen); wait \$!$/m, `heard=$(mktemp); $1 >"$heard" & tail=$!
for i in $(seq 100); do sleep 1; $2; ! grep -q /seen "$heard" || break; done; kill $tail; wait $tail; cat "$heard"; rm -f "$heard"`)
  .replaceAll('tour.localhost', name);

// As root: in a shell of the services' user, as the README says.
const shell = process.getuid() ? ['bash'] : ['su', '-s', '/bin/bash', 'postern'];
function paste(name, cwd, settings, more = '') {
  const environment = { ...process.env, ...settings };
  for (const [key, value] of Object.entries(environment)) if (value === undefined) delete environment[key];
  const pasted = spawnSync(shell[0], shell.slice(1), { cwd, env: environment, input: tour(name) + more.replaceAll('tour.localhost', name), encoding: 'utf8', timeout: 300000 });
  assert.equal(pasted.stderr.replace(/.*Terminated.*\n/g, '').match(/No such file|not found/), null, pasted.stderr);
  assert.match(pasted.stdout, /HTTP\/2 200/);
  assert.match(pasted.stdout, /x-tour: yes/);
  assert.match(pasted.stdout, /hello from the edge/);
  assert.match(pasted.stdout, new RegExp(`"event_type":"http_request_complete.v0".*${name}`));
  return pasted.stdout;
}

// The example of a section of the edge's README, pasted behind the tour.
const example = (section) => fs.readFileSync(path.join(root, 'services/edge/README.md'), 'utf8').match(new RegExp(`\n## ${section}\n[^]*?\`\`\`sh\n([^]*?)\`\`\``))[1];
// What is asked while the breaker is open is asked within 30 s, where a reader has two.
const breakers = () => {
  const longer = example('Circuit breakers').replace('"tripped_duration":2}', '"tripped_duration":30}').replace('for pause in 0 0 0 3;', 'for pause in 0 0 0 31;');
  assert.match(longer, /"tripped_duration":30\}[^]*for pause in 0 0 0 31;/);
  return longer;
};
test("what the edge's README shows of user_agent_filter, circuit_breaker, webhook_verification and compression works in the shell of the tour", { skip }, () => {
  const said = paste(`tour-${process.pid}-modules.localhost`, root, { POSTERN_HOME: fs.realpathSync(home) }, example('User agents') + breakers() + example('Webhooks') + example('Compression'));
  assert.deepEqual([...said.matchAll(/^webhook (\d+)$/gm)].map(([, status]) => Number(status)), [200, 403]);
  const statuses = Object.fromEntries([...said.matchAll(/^(GoodBot\/1.0|BadBot\/1.0|curl\/8|Mozilla\/5.0) (\d+)$/gm)].map(([, agent, status]) => [agent, Number(status)]));
  assert.deepEqual(Object.keys(statuses).length, 4, said);
  assert.deepEqual([statuses['BadBot/1.0'], statuses['curl/8']], [403, 403]);
  for (const agent of ['GoodBot/1.0', 'Mozilla/5.0']) assert.notEqual(statuses[agent], 403, `${agent} goes on to the backend of the tour`);
  assert.deepEqual([...said.matchAll(/"error_code":"ERR_POSTERN_(904|923)"/g)].map(([, code]) => Number(code)).slice(-4), [904, 904, 923, 904]);
  const sizes = [...said.matchAll(/^(.+): (\d+) bytes$/gm)].map(([, , size]) => Number(size));
  assert.deepEqual([sizes.length, sizes[0], sizes.slice(1).every((size) => size > 10 && size < 100)], [7, 2000, true], said);
});

test("the README's tour works when pasted: with POSTERN_HOME set", { skip }, () => {
  const state = fs.realpathSync(home); // as the services' user sees it
  paste(`tour-${process.pid}.localhost`, root, { POSTERN_HOME: state });
  paste(`tour-${process.pid}-relative.localhost`, path.dirname(state), { POSTERN_HOME: path.basename(state) });
});

test("the README's tour works when pasted: with var/ in the folder", { skip }, () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-tour-'));
  try {
    fs.chmodSync(folder, 0o755);
    fs.symlinkSync(fs.realpathSync(home), path.join(folder, 'var'));
    paste(`tour-${process.pid}-var.localhost`, folder, { POSTERN_HOME: undefined });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});
