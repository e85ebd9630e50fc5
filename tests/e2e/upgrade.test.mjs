// A database of the version before migrations had names (tests/upgrade): today's services take it over, whatever happens to them while
// they do, and all that was in it is served, changed and deleted.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import zlib from 'node:zlib';
import { fileURLToPath } from 'node:url';
import { edge, env, home, until } from '../support/postern.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const before = JSON.parse(zlib.gunzipSync(fs.readFileSync(path.join(root, 'tests/upgrade/before.json.gz'))));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-upgrade-')), state = path.join(folder, 'var'), port = edge.port - 43 + 1000;
const user = process.getuid() === 0 ? 'postern' : os.userInfo().username;
const asUser = process.getuid() === 0 ? ['setpriv', '--reuid=postern', '--regid=postern', '--clear-groups'] : ['env'];
const bin = () => fs.readdirSync('/usr/lib/postgresql').sort((a, b) => a - b).map((version) => `/usr/lib/postgresql/${version}/bin`).at(-1);

const url = (role) => `postgresql://${role}@${folder.replaceAll('/', '%2F')}:5432/postern`;
const psql = (at, text) => { const { status, stdout, stderr } = spawnSync('psql', ['-XqAt', '-v', 'ON_ERROR_STOP=1', at], { input: text, encoding: 'utf8' }); assert.equal(status, 0, stderr); return stdout.trim(); };
const sql = (text) => psql(url(user), text);
const order = fs.readFileSync(path.join(root, 'services/routes/migrations/order'), 'utf8').split('\n').filter((line) => /^\d/.test(line)).map((line) => line.split(/\s+/));

async function server() {
  const child = spawn(asUser[0], [...asUser.slice(1), `${bin()}/postgres`, '-D', `${state}/postgresql`, '-k', folder, '-c', 'listen_addresses=', '-c', 'port=5432', '-c', 'fsync=off'], { stdio: 'ignore' });
  await until(() => spawnSync('psql', ['-XqAtc', 'SELECT 1', url(user)]).status === 0, 'the old server answers');
  return () => new Promise((resolve) => { child.on('close', resolve); child.kill('SIGINT'); });
}

// postern-routes on that database. said(): its log; ended: its status.
let copies = 0;
function routes() {
  const own = path.join(folder, `copy-${copies++}`);
  fs.mkdirSync(own);
  fs.copyFileSync(`${state}/master.key`, `${own}/key`);
  const file = fs.openSync(`${own}/said`, 'w');
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', path.join(home, 'bin/postern-routes')], {
    env: { ...process.env, POSTERN_DATABASE_URL: url('postern_routes'), POSTERN_MASTER_KEY: `${own}/key`, POSTERN_RPC: `ipc://${own}/rpc`, POSTERN_EVENTS: `ipc://${own}/events`, POSTERN_CONFIG_LOG: `ipc://${own}/log`, POSTERN_CA_FILE: `${own}/ca`, POSTERN_HEALTH_PORT: '0', POSTERN_CURVE_DIR: path.join(home, 'keys/routes') },
    stdio: ['ignore', file, file],
  });
  const ended = new Promise((resolve) => child.on('exit', (status, signal) => resolve(status ?? signal)));
  return { child, ended, said: () => fs.readFileSync(`${own}/said`, 'utf8'), stop: (signal = 'SIGTERM') => { child.kill(signal); return ended; } };
}

// As the version before left it: no migration has a name, and those that never had a number have not been.
const unname = (more = '') => sql(`DROP TRIGGER own_config ON routes.config_entry; DROP TRIGGER count_config ON routes.config_entry; DROP FUNCTION routes.own_config, routes.count_config; DROP TABLE routes.config_bytes;
  ALTER TABLE routes.config_entry DROP COLUMN account_id; ALTER TABLE routes.ip_policy DROP COLUMN published; ALTER TABLE routes.ip_policy_rule DROP COLUMN published; ALTER TABLE routes.ip_restriction DROP COLUMN published; ALTER TABLE routes.failover_backend DROP COLUMN published; DROP INDEX routes.https_edge_route_sign_in; ALTER TABLE routes.https_edge_route DROP COLUMN sign_in_published;
  DELETE FROM routes.migration WHERE number IS NULL; ${more}; ALTER TABLE routes.migration DROP COLUMN name, DROP COLUMN checksum, ADD CONSTRAINT migration_pkey PRIMARY KEY (number)`);

// Its log says that it serves.
const serves = (copy) => until(() => { assert.equal(copy.child.exitCode, null, copy.said()); return / ready /.test(copy.said()); }, 'it starts', 120000);
const numbers = () => sql('SELECT count(*) FROM routes.migration');
const named = () => sql("SELECT count(*) FROM pg_attribute WHERE attrelid = 'routes.migration'::regclass AND attname = 'name'") === '1';
const listed = () => sql("SELECT number || ' ' || name FROM routes.migration WHERE number IS NOT NULL ORDER BY number").split('\n').map((line) => line.split(' '));

// What a copy of the version before does when it starts: it looks for its numbers, and applies what it does not find.
function startOfBefore() {
  psql(url('postern_routes'), 'SET search_path = routes; CREATE TABLE IF NOT EXISTS migration (number int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())');
  for (const [number] of order) assert.equal(psql(url('postern_routes'), `SET search_path = routes; SELECT 1 FROM migration WHERE number = ${number}`), '1', `number ${number}`);
}

test.before(() => {
  if (skip) return;
  fs.chmodSync(folder, 0o755);
  execFileSync(path.join(root, 'tests/upgrade/restore'), [state], { stdio: 'pipe' });
  execFileSync('chown', [user, folder]);
});
test.after(() => { if (!skip) { stack('wipe'); fs.rmSync(folder, { recursive: true, force: true }); } });

test('migrations get their names at once or not at all: a copy that is killed in the middle leaves the numbers, and two that start together give the names once', { skip, timeout: 300000 }, async () => {
  const stop = await server();
  try {
    assert.equal(named(), false);
    sql('ALTER ROLE postern_routes LOGIN');
    // the eighth row cannot be given its name as long as somebody holds a lock
    sql(`CREATE FUNCTION routes.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.number = 8 THEN PERFORM pg_advisory_lock_shared(42); END IF; RETURN NEW; END $$;
      CREATE TRIGGER wait BEFORE UPDATE ON routes.migration FOR EACH ROW EXECUTE FUNCTION routes.wait()`);
    const holder = spawn('psql', ['-XqAt', url(user)], { stdio: ['pipe', 'pipe', 'ignore'] });
    holder.stdin.write('SELECT pg_advisory_lock(42);\n');
    await new Promise((resolve) => { holder.stdout.once('data', resolve); });
    const killed = routes();
    await until(() => sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted") === '1', 'a copy is in the middle');
    assert.equal(await killed.stop('SIGKILL'), 'SIGKILL');
    holder.stdin.end();
    await until(() => sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'postern_routes'") === '0', 'its session ends');
    assert.equal(named(), false, 'nothing of it is left');
    assert.equal(numbers(), String(order.length));
    sql('DROP TRIGGER wait ON routes.migration; DROP FUNCTION routes.wait()');

    const both = [routes(), routes()];
    await Promise.all(both.map(serves));
    assert.deepEqual(listed(), order);
    await Promise.all(both.map((copy) => copy.stop()));
    startOfBefore();
  } finally { await stop(); }
});

test('a migration of a newer version stays, and is said; one whose file was changed keeps the service from starting', { skip, timeout: 300000 }, async () => {
  const stop = await server();
  try {
    sql("INSERT INTO routes.migration (name, checksum) VALUES ('routes/9999_newer', 'x')");
    const older = routes();
    await serves(older);
    await older.stop();
    assert.match(older.said(), /warn .*routes has had the migration 'routes\/9999_newer', which this version does not know/);
    sql("DELETE FROM routes.migration WHERE name = 'routes/9999_newer'; UPDATE routes.migration SET checksum = 'x' WHERE name = 'routes/0002_kinds'");
    const other = routes();
    assert.equal(await other.ended, 1);
    assert.match(other.said(), /cannot start: migration 'routes\/0002_kinds' is not what the schema routes was made with: its file was changed/);
    sql("UPDATE routes.migration SET checksum = NULL WHERE name = 'routes/0002_kinds'"); // an operator who knows better
    const third = routes();
    await serves(third);
    await third.stop();
    unname("UPDATE routes.migration SET number = 99 WHERE name = 'routes/0002_kinds'");
    const strange = routes();
    assert.equal(await strange.ended, 1);
    assert.match(strange.said(), /cannot start: migration 99 of the schema routes is none of Postern's/);
    sql('UPDATE routes.migration SET number = 4 WHERE number = 99; ALTER TABLE routes.migration DROP CONSTRAINT migration_number_key');
  } finally { await stop(); }
});

test('a backup that is being made delays the start of a service, and does not end it', { skip, timeout: 300000 }, async () => {
  const stop = await server();
  try {
    assert.equal(named(), false);
    const backup = spawn('psql', ['-XqAt', url(user)], { stdio: ['pipe', 'pipe', 'ignore'] }); // pg_dump's lock
    backup.stdin.write("BEGIN; LOCK TABLE routes.migration IN ACCESS SHARE MODE; SELECT 'locked';\n");
    await new Promise((resolve) => { backup.stdout.once('data', resolve); });
    const copy = routes();
    await until(() => { assert.equal(copy.child.exitCode, null, copy.said()); return /warn .*PostgreSQL is busy with a backup or a migration, trying again: .*SQLSTATE 55P03/.test(copy.said()); }, 'it says what it waits for');
    assert.equal(named(), false, 'nothing is half done');
    backup.stdin.end();
    await serves(copy);
    assert.deepEqual(listed(), order);
    await copy.stop();
    unname(); // for the story below
    sql('ALTER TABLE routes.migration DROP CONSTRAINT migration_number_key');
  } finally { await stop(); }
});

function stack(command) {
  const { status, stdout, stderr } = spawnSync(path.join(root, 'deploy/stack'), [command], { env: { ...process.env, POSTERN_HOME: state, POSTERN_PORT_BASE: String(port), POSTERN_API_URL: '' }, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  return { status, said: stdout + stderr };
}

async function call(method, target, body) {
  const answer = await fetch(`http://127.0.0.1:${port}${target}`, { method, body: body && JSON.stringify(body), headers: { Authorization: `Bearer ${before.key}`, 'Service-Version': '2', ...(body ? { 'Content-Type': 'application/json' } : {}) } });
  return { status: answer.status, text: await answer.text() };
}

const get = () => new Promise((resolve, reject) => https.get({ host: '127.0.0.1', port: port + 43, servername: before.host, rejectUnauthorized: false, agent: false, headers: { Host: before.host } }, (answer) => {
  let text = '';
  answer.on('data', (part) => { text += part; }).on('end', () => resolve(`${answer.statusCode} ${text}`));
}).on('error', reject));

const schema = (at) => execFileSync('pg_dump', ['--schema-only', '-d', at], { encoding: 'utf8', maxBuffer: 1 << 26 }).split('\n').filter((line) => !/^(--|\\(un)?restrict |$)/.test(line)).join('\n');
const migrations = (at) => ['events', 'identity', 'routes'].map((service) => psql(at, `SELECT name, number, checksum FROM ${service}.migration ORDER BY name`));
const ofStack = () => fs.readFileSync(path.join(state, 'postern.env'), 'utf8').match(/^DATABASE_URL=(.*)$/m)[1];

test("every row of before is served as it was, the edge serves its route, and the database has a new one's schema", { skip, timeout: 300000 }, async () => {
  const { status, said } = stack('up');
  assert.equal(status, 0, said);
  assert.equal(schema(ofStack()), schema(env.DATABASE_URL));
  assert.deepEqual(migrations(ofStack()), migrations(env.DATABASE_URL));
  assert.ok(Object.keys(before.shown).length > 40, `${Object.keys(before.shown).length} paths`);
  for (const [target, text] of Object.entries(before.shown)) {
    const [, status, body] = text.match(/^(?:(\d+) (?:"[0-9a-f]+"|\S*) )?(.*)$/s); // an ETag depends on the system's address
    const answer = await call('GET', target);
    if (target.startsWith('/app/sessions')) { // the one of before is over by now
      assert.ok(answer.status === 404 || answer.text.startsWith('{"application_sessions":[],'), `${target}: ${answer.text}`);
      continue;
    }
    assert.equal(String(answer.status), status ?? '200', `${target}: ${answer.text}`);
    // a field that came since
    const shown = answer.text.replaceAll(`http://127.0.0.1:${port}`, '{api}').replace(target.startsWith('/app/users') ? ',"endpoints":[]' : /$^/, '')
      .replaceAll(',"service_tokens":false', '') // of what signs in
      .replaceAll(',"email_addresses":[],"email_domains":[],"groups":[],"groups_claim":"groups","provider_logout":true,"bearer_tokens":false,"bearer_audiences":[]}', '}') // of oidc
      .replaceAll(',"encryption_certificate_pem":null,"key_rotation":null,"other_request_signing_certificate_pem":null,"other_encryption_certificate_pem":null}', '}'); // of saml
    if (answer.status === 200) assert.equal(shown, body, target);
  }
  assert.equal(await get(), '200 made before');
  // which told edges nothing of IP policies
  const count = (table, where = '') => Number(psql(ofStack(), `SELECT count(*) FROM routes.${table} ${where}`));
  assert.ok(count('ip_policy') > 0 && count('ip_policy_rule') > 0);
  assert.equal(count('config_entry', "WHERE kind IN ('ip_policy', 'ip_policy_rule') AND doc IS NOT NULL"), count('ip_policy') + count('ip_policy_rule'));
  // and told them sign-in modules in clear
  const signIn = "WHERE 'true' IN (oauth->'enabled', oidc->'enabled', saml->'enabled')";
  assert.equal(count('https_edge_route', `${signIn} AND sign_in_published LIKE '3-%'`), count('https_edge_route', signIn));
});

test('and is changed and deleted', { skip, timeout: 300000 }, async () => {
  const changed = await call('PATCH', `/backends/http_response/${before.backend}`, { body: 'changed after' });
  assert.equal(changed.status, 200, changed.text);
  assert.equal(await get(), '200 changed after');
  const { paths } = JSON.parse((await call('GET', '/openapi.json')).text);
  const objects = Object.keys(before.shown).map((target) => [target, Object.entries(paths).find(([pattern]) => pattern.endsWith('/{id}') && new RegExp(`^${pattern.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(target))?.[1]]).filter(([, item]) => item);
  const kinds = new Set();
  for (const [target, item] of objects.filter(([, one]) => one.patch)) {
    const property = ['metadata', 'description'].find((name) => item.patch.requestBody.content['application/json'].schema.properties[name]);
    if (!property) continue;
    const answer = await call('PATCH', target, { [property]: 'changed after' });
    assert.equal(answer.status, 200, `${target}: ${answer.text}`);
    assert.equal(JSON.parse(answer.text)[property], 'changed after');
    kinds.add(item.patch.tags[0]);
  }
  assert.ok(kinds.size > 25, `${kinds.size} kinds are changed`);
  // what others refer to goes when they are gone; its own key last
  let left = objects.filter(([, one]) => one.delete).map(([target]) => target), said = '';
  const self = JSON.parse((await call('GET', '/self')).text).api_key.id;
  left = left.filter((target) => !target.endsWith(self));
  while (left.length) {
    const stay = [];
    for (const target of left) {
      const answer = await call('DELETE', target);
      if (answer.status !== 204 && answer.status !== 404) { stay.push(target); said = `${target}: ${answer.text}`; }
    }
    assert.ok(stay.length < left.length, said);
    left = stay;
  }
  assert.equal(stack('down').status, 0);
});
