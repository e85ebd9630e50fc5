// What deploy/ says of itself: its table of settings, the packages of its images, and what the build makes of the lists of files.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { env, home } from '../support/postern.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
const skip = env.POSTERN_RUN_DIR ? false : 'the story needs the programs that deploy/stack started';
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-deploy-'));
test.after(() => fs.rmSync(folder, { recursive: true, force: true }));

test('deploy/stack says what each of its commands does', () => {
  const { status, stdout } = spawnSync(path.join(root, 'deploy/stack'), ['--help'], { encoding: 'utf8' }), no = spawnSync(path.join(root, 'deploy/stack'), ['start'], { encoding: 'utf8' });
  assert.equal(status, 0);
  const [, commands] = /usage: deploy\/stack ([\w|-]+)/.exec(no.stderr);
  assert.equal(no.status, 1);
  assert.ok(commands.split('|').length > 4);
  for (const name of commands.split('|')) assert.match(stdout, new RegExp(`^  ${name} +\\w`, 'm'));
});

// ---- settings ----

// What deploy/stack passes to no program, or makes itself.
const INTERNAL = ['POSTERN_BUILD', 'POSTERN_EDGE_PRELOAD', 'POSTERN_RPC'];

// [names, defaults as the table has them]: a row may have several, with commas between; `_LAST` stands for the name before with that end.
function rows() {
  const table = read('deploy/README.md').split('## Settings\n')[1].trim().split('\n\n')[0];
  return [...table.matchAll(/^\| (`.*?) \| (.*?) \| .*$/gm)].map(([, names, defaults]) => {
    const list = [...names.matchAll(/`(\w+)`/g)].map(([, name]) => name);
    return [list.map((name, i) => (name.startsWith('_') ? list[i - 1].replace(/_[A-Z]+$/, '') + name : name)), defaults];
  });
}

// name -> default, of all programs.
function settingsOfPrograms() {
  const found = new Map();
  for (const file of fs.readdirSync(path.join(home, 'bin')).filter((name) => /^postern-\w+$/.test(name)))
    for (const [, name, value, empty] of execFileSync(path.join(home, 'bin', file), ['--help'], { encoding: 'utf8' }).matchAll(/^ +(POSTERN_\w+); (?:default (.*?)|(empty by default)|required)(?:; -?\d+ to -?\d+)?$/gm)) found.set(name, empty ? '' : value);
  return found;
}

// The settings of the edge have a table of their own (services/edge/README.md), which `make lint` compares with these rows.
const ofEdge = [...read('proto/edge_settings.def').matchAll(/^EDGE_SETTING\((\w+), +(\w+), +"([^"]*)", +"([^"]*)", +"([^"]*)"/gm)].map(([, name, kind, value, least, most]) => ({ name, kind, value, least, most }));
const bounded = ofEdge.filter(({ kind }) => kind !== 'TEXT');

test('every setting of the table is one, with the default that the table says', { skip }, () => {
  const stack = read('deploy/stack') + read('deploy/api-conf'), programs = settingsOfPrograms();
  assert.ok(rows().length + ofEdge.length > 40 && programs.size > 25);
  for (const [names, defaults] of rows()) {
    const values = defaults.split(', ').map((value) => value.replaceAll('`', ''));
    for (const [i, name] of names.entries()) {
      const [, ofStack] = stack.match(new RegExp(`\\$\\{${name}:?-([^}]*)\\}`)) ?? [];
      const isRead = ofStack !== undefined || programs.has(name) || stack.includes(`{${name}:+`) || /^(DATABASE_URL(_\w+)?|POSTERN_OWN_SOCKETS)$/.test(name);
      assert.ok(isRead, `${name}: neither deploy/ nor a program reads it`);
      const value = ofStack?.includes('$') ? undefined : ofStack ?? programs.get(name);
      if (value === undefined || values.length !== names.length) continue;
      if (/^[\w.-]+$/.test(values[i])) assert.equal(value, values[i] === 'none' ? '' : values[i], name);
    }
  }
});

test('every setting of the edge reaches nginx.conf, in containers too, and by its own name', () => {
  const conf = read('deploy/nginx.conf.in'), stack = read('deploy/stack'), container = read('deploy/container'), compose = read('docker-compose.yml');
  assert.ok(ofEdge.length > 20 && bounded.length > 15);
  for (const { name } of bounded) {
    assert.ok(conf.includes(`@${name}@`), name);
    assert.ok(compose.includes(`POSTERN_${name}: `), name);
  }
  for (const { name, kind, value } of ofEdge)
    if (kind === 'TEXT') {
      assert.match(stack, new RegExp(`POSTERN_${name}\\b`), name);
      if (['EDGE_ADDRESS', 'EDGE_NAME', 'EDGE_WORKERS'].includes(name)) assert.ok(stack.includes(`\${POSTERN_${name}:-${value}}`), name);
    }
  for (const name of ['PROXY_PROTOCOL_FROM', 'TRUSTED_PROXIES', 'EDGE_WORKERS']) for (const text of [container, compose]) assert.match(text, new RegExp(`POSTERN_${name}\\b`), name);
});

test('every setting that a page names is one that something reads, and the command line tells those that it reads', { skip }, () => {
  const pages = ['README.md', 'CONTRIBUTING.md', ...['common', 'deploy', 'proto', 'services', 'tests', ...fs.readdirSync(path.join(root, 'services')).map((name) => `services/${name}`)].map((folder) => `${folder}/README.md`)].filter((page) => fs.existsSync(path.join(root, page)));
  assert.ok(pages.length > 10);
  const of = (text) => text.match(/\bPOSTERN_[A-Z][A-Z0-9_]*[A-Z0-9]\b/g) ?? [];
  const help = execFileSync(path.join(home, 'bin/postern'), ['--help'], { encoding: 'utf8' });
  const known = new Set([...settingsOfPrograms().keys(), ...of(help), ...ofEdge.map(({ name }) => `POSTERN_${name}`), ...of(['stack', 'container', 'api-conf'].map((name) => read(`deploy/${name}`)).join('\n') + read('docker-compose.yml')),
    ...read('proto/services.def').match(/^SERVICE\((\w+)/gm).map((row) => `POSTERN_${row.slice(8)}_COPIES`), ...of(read('Makefile'))]);
  const examples = /^POSTERN_(NAME|OAUTH_NAME_(URL|CLIENT_ID|CLIENT_SECRET))$/; // a name of the reader's own, and of any provider
  for (const page of pages) assert.deepEqual(of(read(page)).filter((name) => !known.has(name) && !examples.test(name)), [], page);
  const cli = fs.readdirSync(path.join(root, 'services/cli')).filter((name) => name.endsWith('.c')).map((name) => read(`services/cli/${name}`)).join('\n');
  for (const [, name] of cli.matchAll(/(?:getenv|need_env)\("(POSTERN_\w+)"\)/g)) assert.match(help, new RegExp(`^ +${name} `, 'm'));
});

const settle = (settings) => { const { status, stdout, stderr } = spawnSync(path.join(root, 'deploy/edge-settings'), { encoding: 'utf8', env: { PATH: process.env.PATH, ...settings } }); return { status, stdout, stderr }; };
const NOUNS = { TIME: 'a time', SIZE: 'a size', NUMBER: 'a number' };
const OUTSIDE = { TIME: ['99ms', '8d', '1w', '1 s', '1h30m', '-1s', '1.5s', 's'], SIZE: ['1', '1g', '64kb'], NUMBER: ['-1', '1000001', '1e3', '0x10', '1k'], SWITCH: ['yes', 'ON', '1', 'on;'], WORD: ['debug', 'WARN', 'warn notice', 'war', ' '] };
const ruleOf = ({ kind, least, most }) => (kind === 'SWITCH' ? 'on or off' : kind === 'WORD' ? `one of ${least.split(' ').join(', ')}` : `${NOUNS[kind]} from ${least} to ${most}`);

test('a setting of the edge may be its least and its most, and without it is its default', () => {
  const values = (settings) => Object.fromEntries([...settle(settings).stdout.matchAll(/^s\|@(\w+)@\|(.*)\|g$/gm)].map(([, name, value]) => [name, value]));
  assert.deepEqual(values({}), Object.fromEntries(bounded.map(({ name, value }) => [name, value])));
  for (const end of ['least', 'most']) {
    const wanted = Object.fromEntries(bounded.map((row) => [row.name, row.kind === 'SWITCH' ? 'off' : row.kind === 'WORD' ? row.least.split(' ').at(end === 'least' ? 0 : -1) : row[end]]));
    assert.deepEqual(values(Object.fromEntries(Object.entries(wanted).map(([name, value]) => [`POSTERN_${name}`, value]))), wanted);
  }
  assert.equal(values({ POSTERN_CONNECT_TIMEOUT: '' }).CONNECT_TIMEOUT, '5s', 'empty is not set');
  assert.equal(values({ POSTERN_READ_TIMEOUT: '90' }).READ_TIMEOUT, '90', 'seconds');
});

for (const row of bounded) {
  const { name, kind, least, most } = row;
  test(`POSTERN_${name} out of range is refused, with its name and its rule`, () => {
    const outside = OUTSIDE[kind].filter((value) => kind !== 'SIZE' || !['0', '1'].includes(least) || value !== '1'); // one byte is within
    if (kind === 'SIZE') outside.push(most.replace(/^\d+/, (n) => Number(n) + 1));
    for (const value of [...outside, '64k\ndaemon on', '$(id)', '1|g;e id']) {
      const { status, stderr } = settle({ [`POSTERN_${name}`]: value });
      assert.equal(status, 1, value);
      assert.ok(stderr.startsWith(`error: POSTERN_${name} must be ${ruleOf(row)}: `), stderr);
      assert.equal(stderr.trim().split('\n').length, 1, stderr);
    }
  });
}

test('every setting that deploy/ takes stands in the page, or in that of the edge', () => {
  const stack = read('deploy/stack') + read('deploy/api-conf'), page = read('deploy/README.md') + read('services/edge/README.md');
  const taken = new Set([...stack.matchAll(/\$\{(POSTERN_\w+):?[-+]/g)].map(([, name]) => name));
  for (const [, list] of stack.matchAll(/for name in ((?:[A-Z_]+ |\\\n *)+[A-Z_]+); do/g)) for (const name of list.match(/[A-Z_]+/g)) taken.add(`POSTERN_${name}`);
  for (const { name } of ofEdge) taken.add(`POSTERN_${name}`);
  assert.ok(taken.size > 40, [...taken].join(' '));
  assert.deepEqual([...taken].filter((name) => !INTERNAL.includes(name) && !page.includes(`\`${name}\``)), []);
});

// ---- images ----

const packagesOf = (...files) => { const { status, stdout, stderr } = spawnSync(path.join(root, 'deploy/runtime-packages'), files, { encoding: 'utf8' }); return { status, stderr, names: stdout.trim().split('\n') }; };

test('an image has the packages of all that its programs load, also of what is linked for the first time', { skip }, () => {
  const programs = fs.readdirSync(path.join(home, 'bin')).filter((name) => /^postern(-\w+)?$|\.so$/.test(name)).map((name) => path.join(home, 'bin', name));
  const now = packagesOf(...programs);
  assert.equal(now.status, 0, now.stderr);
  for (const name of ['libczmq4', 'libjansson4', 'libsodium23']) assert.ok(now.names.includes(name), now.names.join(' '));
  fs.writeFileSync(`${folder}/out.c`, 'int main(void) { return 0; }\n');
  execFileSync('gcc', [`${folder}/out.c`, '-Wl,--no-as-needed', '-lcurl', '-o', `${folder}/out`]);
  const out = packagesOf(`${folder}/out`);
  assert.ok(out.names.some((name) => /^libcurl4/.test(name)), out.names.join(' '));
  assert.match(read('deploy/Dockerfile'), /deploy\/runtime-packages build\/bin\/\* build\/edge\/\S+ >build\/runtime-packages\n[^]*apt-get install [^\n]*\$\(cat \/tmp\/runtime-packages\)/);
});

test('a second build of the edge in a folder waits for the first, says so, and touches nothing meanwhile', () => {
  const out = fs.mkdtempSync(path.join(folder, 'edge-'));
  const { status, stderr } = spawnSync('flock', [path.join(out, 'lock'), path.join(root, 'deploy/build-edge'), out], { env: { ...process.env, BUILD_EDGE_WAIT: '1' }, encoding: 'utf8' });
  assert.equal(status, 1, stderr);
  assert.match(stderr, /another build of the edge in .* is under way: waiting until it has ended\nerror: the other build of the edge in .* does not end: fuser /);
  assert.deepEqual(fs.readdirSync(out), ['lock']);
});

test('a library that no package has is an error of the build', () => {
  fs.writeFileSync(`${folder}/own.c`, 'int own(void) { return 0; }\n');
  fs.writeFileSync(`${folder}/main.c`, 'int own(void); int main(void) { return own(); }\n');
  execFileSync('gcc', ['-shared', '-fPIC', `${folder}/own.c`, '-o', `${folder}/libown.so`]);
  execFileSync('gcc', [`${folder}/main.c`, `-L${folder}`, `-Wl,-rpath,${folder}`, '-lown', '-o', `${folder}/main`]);
  const { status, stderr } = packagesOf(`${folder}/main`);
  assert.equal(status, 1);
  assert.match(stderr, /needs libown\.so, which no package here has/);
});

// ---- lists of files ----

// The script in a tree with nothing but these files; and where another locale than the build's puts lower case first.
function built(script, files, ...args) {
  const tree = fs.mkdtempSync(`${folder}/tree-`);
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(`${tree}/${name}`), { recursive: true });
    fs.writeFileSync(`${tree}/${name}`, text);
  }
  const { status, stdout, stderr } = spawnSync('bash', [path.join(root, 'deploy', script), ...args], { cwd: tree, encoding: 'utf8', env: { ...process.env, LC_ALL: 'C.UTF-8' } });
  return { status, stdout, stderr };
}

const of = (order, ...names) => ({ 'services/toy/migrations/order': order, ...Object.fromEntries(names.map((name) => [`services/toy/migrations/${name}.sql`, ''])) });

test('migrations are applied in the order of the list, then by name', () => {
  const { status, stdout, stderr } = built('embed-migrations', of('2 toy/b\n', 'a', 'b', 'c'), 'toy');
  assert.equal(status, 0, stderr);
  assert.deepEqual([...stdout.matchAll(/\{"(\S+)", (\d+)/g)].map(([, name, number]) => `${name} ${number}`), ['toy/b 2', 'toy/a 0', 'toy/c 0']);
});

for (const [what, order] of [['name', '1 toy/a\n2 toy/a\n'], ['number', '1 toy/a\n1 toy/b\n'], ['name without a number', '- toy/a\n- toy/a\n']])
  test(`a list of migrations that has a ${what} twice is an error of the build`, () => {
    const { status, stderr } = built('embed-migrations', of(order, 'a', 'b'), 'toy');
    assert.equal(status, 1);
    assert.match(stderr, /^order: twice: \S+ toy\/\w$/m);
  });

test('a list of kinds that has one twice, or one that there is not, is an error of the build', () => {
  const files = { 'proto/kinds/a.def': '', 'proto/kinds/b.def': '' };
  assert.match(built('list-kinds', { ...files, 'proto/kinds/order': 'b # first\n' }).stdout, /b\.def"\nKIND_END\n.*a\.def"\nKIND_END\n$/);
  for (const [order, said] of [['a\nb\na\n', /a stands there twice/], ['c\n', /there is no proto\/kinds\/c\.def/]]) {
    const { status, stdout, stderr } = built('list-kinds', { ...files, 'proto/kinds/order': order });
    assert.equal(status, 1);
    assert.equal(stdout, '');
    assert.match(stderr, said);
  }
});

test('an applied migration has the bytes that it was applied with', () => {
  const sums = read('tests/house/migrations').split('\n').filter((line) => line && !line.startsWith('#'));
  assert.ok(sums.length > 20);
  const { status, stdout, stderr } = spawnSync('sha256sum', ['-c', '--quiet', '-'], { cwd: root, input: `${sums.join('\n')}\n`, encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}${stderr}A migration is never edited after it has landed: databases that have it refuse another one.`);
  assert.match(read('.gitattributes'), /^\*\.sql .*\beol=lf$/m);
});
