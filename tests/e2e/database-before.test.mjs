// What an installation becomes that had one user for all of its database, before each service had a role of its own (database.test.mjs).
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { edge, env, until } from '../support/postern.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const services = ['routes', 'identity', 'events'];
const psql = (url, sql) => spawnSync('psql', ['-XqAt', '-v', 'ON_ERROR_STOP=1', url], { input: sql, encoding: 'utf8', maxBuffer: 1 << 26 });

const bin = () => fs.readdirSync('/usr/lib/postgresql').sort((a, b) => a - b).map((version) => `/usr/lib/postgresql/${version}/bin`).at(-1);
const user = process.getuid() === 0 ? 'postern' : os.userInfo().username;
const asUser = process.getuid() === 0 ? ['setpriv', '--reuid=postern', '--regid=postern', '--clear-groups'] : ['env'];
const before = fs.readFileSync(path.join(root, 'tests/support/one-owner.sql'), 'utf8');
const kept = (name) => before.match(new RegExp(`^-- ${name}[=:] ?(\\S+)`, 'm'))[1];

// A cluster as the commit before made it, with the database in it; still running.
async function oldCluster(data, sockets) {
  execFileSync(asUser[0], [...asUser.slice(1), `${bin()}/initdb`, '-D', data, '-U', user, '-A', 'trust', '-E', 'UTF8', '--locale=C'], { stdio: 'pipe' });
  const server = spawn(asUser[0], [...asUser.slice(1), `${bin()}/postgres`, '-D', data, '-k', sockets, '-c', 'listen_addresses=', '-c', 'port=5432'], { stdio: 'ignore' });
  const at = `postgresql://${user}@${sockets.replaceAll('/', '%2F')}:5432`;
  await until(() => psql(`${at}/postgres`, 'SELECT 1').status === 0, 'the old server answers', 120000);
  assert.equal(psql(`${at}/postgres`, 'CREATE DATABASE postern').status, 0);
  const loaded = psql(`${at}/postern`, before);
  assert.equal(loaded.status, 0, loaded.stderr);
  return { url: `${at}/postern`, stop: () => new Promise((resolve) => { server.on('close', resolve); server.kill('SIGINT'); }) };
}

// What it had beside the database: the key that seals, and what the operator was told.
function oldHome(folder) {
  const state = path.join(folder, 'var');
  fs.mkdirSync(state);
  fs.writeFileSync(path.join(state, 'master.key'), Buffer.from(kept('master key'), 'hex'), { mode: 0o600 });
  fs.writeFileSync(path.join(state, 'postern.env'), ['POSTERN_API_KEY', 'POSTERN_ACCOUNT', 'POSTERN_DEMO_HOST'].map((name) => `${name}=${kept(name)}\n`).join(''), { mode: 0o600 });
  execFileSync('chown', ['-R', user, folder]);
  return state;
}

async function withFolder(use) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-before-'));
  fs.chmodSync(folder, 0o755);
  const state = oldHome(folder), port = edge.port - 43 + 1000;
  const settings = { ...process.env, POSTERN_HOME: state, POSTERN_PORT_BASE: String(port), POSTERN_API_URL: '' };
  const stack = (command, also = {}) => new Promise((resolve) => {
    const out = path.join(folder, 'said'), file = fs.openSync(out, 'w');
    spawn(path.join(root, 'deploy/stack'), [command], { env: { ...settings, ...also }, stdio: ['ignore', file, file] })
      .on('exit', (status) => { fs.closeSync(file); resolve({ status, said: fs.readFileSync(out, 'utf8') }); });
  });
  try {
    await use({ folder, state, stack, port });
  } finally {
    await stack('wipe');
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

// What was there is there, can be opened and changed, and the services are who they should be.
async function works(port, url) {
  const call = async (method, target, body) => {
    const answer = await fetch(`http://127.0.0.1:${port}${target}`, { method, body: body && JSON.stringify(body), headers: { Authorization: `Bearer ${kept('POSTERN_API_KEY')}`, 'Service-Version': '2', ...(body ? { 'Content-Type': 'application/json' } : {}) } });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${target}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : {};
  };
  const domain = (await call('GET', '/reserved_domains')).reserved_domains.find((one) => one.domain === 'old.example.test');
  assert.ok(domain, 'what was there is there');
  await call('PATCH', `/reserved_domains/${domain.id}`, { description: 'changed after' });
  const bot = (await call('GET', '/bot_users')).bot_users.find((one) => one.name === 'made before');
  await call('DELETE', `/bot_users/${bot.id}`);
  await call('PATCH', `/event_destinations/${(await call('GET', '/event_destinations')).event_destinations[0].id}`, { description: 'sealed before, opened after' });
  await call('POST', '/reserved_domains', { domain: 'new.example.test' });
  await until(() => psql(url, "SELECT count(*) FROM events.log WHERE event->'object'->>'domain' = 'new.example.test'").stdout.trim() === '1', 'its audit event is stored', 120000);
  const owners = psql(url, "SELECT DISTINCT schemaname || ' ' || tableowner FROM pg_tables WHERE schemaname IN ('routes', 'identity', 'events') ORDER BY 1").stdout;
  assert.equal(owners, 'events postern_events\nidentity postern_identity\nroutes postern_routes\n');
  assert.equal(psql(url, "SELECT string_agg(DISTINCT usename, ',' ORDER BY usename) FROM pg_stat_activity WHERE application_name IN ('routes', 'identity', 'events')").stdout.trim(), 'postern_events,postern_identity,postern_routes');
}

test('an installation that one user owned all of comes up with a role for each service, and works', { skip }, () => withFolder(async ({ folder, state, stack, port }) => {
  const old = await oldCluster(path.join(state, 'postgresql'), folder);
  await old.stop();
  for (const time of ['the first time', 'and again']) {
    const { status, said } = await stack('up');
    assert.equal(status, 0, `${time}: ${said}`);
    const url = fs.readFileSync(path.join(state, 'postern.env'), 'utf8').match(/^DATABASE_URL=(.*)$/m)[1];
    if (time === 'the first time') await works(port, url);
    assert.equal((await stack('down')).status, 0);
  }
}));

test("on an operator's own server the stack makes the roles where it may, and says what to do where it may not", { skip }, () => withFolder(async ({ folder, state, stack, port }) => {
  const old = await oldCluster(path.join(folder, 'theirs'), folder);
  try {
    const plain = psql(old.url, "CREATE ROLE plain LOGIN; GRANT ALL ON DATABASE postern TO plain; CREATE ROLE dba SUPERUSER LOGIN PASSWORD 'of-the-operator'");
    assert.equal(plain.status, 0, plain.stderr);
    const refused = await stack('up', { DATABASE_URL: old.url.replace(`${user}@`, 'plain@') });
    assert.notEqual(refused.status, 0);
    assert.match(refused.said, /have a superuser run deploy\/database\.sql, and set DATABASE_URL_ROUTES, DATABASE_URL_IDENTITY and DATABASE_URL_EVENTS/);
    const { status, said } = await stack('up', { DATABASE_URL: old.url.replace(`${user}@`, 'dba:of-the-operator@') });
    assert.equal(status, 0, said);
    await works(port, old.url);
    const left = spawnSync('grep', ['-rl', 'of-the-operator', state, '--exclude-dir=bin'], { encoding: 'utf8' });
    assert.equal(left.stdout, '', "the superuser's password is nowhere where a service could read it");
    const given = Object.fromEntries(services.map((service) => [`DATABASE_URL_${service.toUpperCase()}`, fs.readFileSync(path.join(state, 'database', `${service}.url`), 'utf8').trim()]));
    assert.equal((await stack('down')).status, 0);
    const one = await stack('up', { DATABASE_URL_ROUTES: given.DATABASE_URL_ROUTES });
    assert.match(one.said, /belong together: set all three/);
    const three = await stack('up', given); // made by hand, as deploy/database.sql says
    assert.equal(three.status, 0, three.said);
  } finally {
    await stack('down');
    await old.stop();
  }
}));
