// Who may do what in the database: a role for each service, which owns its schema and may do nothing in another's. What an installation becomes that
// had one user for all of it: database-before.test.mjs.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { another } from '../support/copies.mjs';
import { env, home, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const services = ['routes', 'identity', 'events'];
const psql = (url, sql, args = ['-v', 'ON_ERROR_STOP=1']) => spawnSync('psql', ['-XqAt', ...args, url], { input: sql, encoding: 'utf8', maxBuffer: 1 << 26 });
const sql = (text) => { const { status, stdout, stderr } = psql(env.DATABASE_URL, text); assert.equal(status, 0, stderr); return stdout.trim(); };
const urlOf = (service) => fs.readFileSync(path.join(home, 'database', `${service}.url`), 'utf8').trim();
const rows = (text) => text.split('\n').filter(Boolean);

// SQLSTATE of each of these statements, run one by one; 00000 for one that went through.
function states(url, statements) {
  const script = statements.map((one) => `${one};\n\\echo :LAST_ERROR_SQLSTATE :SQLSTATE\n`).join('');
  const { stdout } = psql(url, script, ['-v', 'ON_ERROR_STOP=0', '-o', '/dev/null']);
  const said = rows(stdout).map((line) => line.split(' ')[1]);
  assert.equal(said.length, statements.length, 'every statement has its outcome');
  return said;
}

test("each service's role is refused whatever it tries with any table of another's schema", { skip }, () => {
  const tables = rows(sql(`SELECT t.table_schema || '|' || t.table_name || '|' || min(c.column_name) FROM information_schema.tables t
    JOIN information_schema.columns c USING (table_schema, table_name) WHERE t.table_schema IN ('routes', 'identity', 'events') GROUP BY t.table_schema, t.table_name`))
    .map((line) => line.split('|'));
  assert.ok(tables.length > 40, `${tables.length} tables`);
  let tried = 0;
  for (const service of services) {
    const statements = tables.filter(([schema]) => schema !== service).flatMap(([schema, table, column]) => [
      `SELECT count(*) FROM ${schema}.${table}`,
      `INSERT INTO ${schema}.${table} DEFAULT VALUES`,
      `UPDATE ${schema}.${table} SET ${column} = ${column}`,
      `DELETE FROM ${schema}.${table}`,
      `TRUNCATE ${schema}.${table}`,
      `ALTER TABLE ${schema}.${table} ADD COLUMN intruder text`,
      `DROP TABLE ${schema}.${table} CASCADE`,
    ]);
    states(urlOf(service), statements).forEach((state, i) => assert.equal(state, '42501', `${service}: ${statements[i]}`));
    tried += statements.length;
    // and it is really this role that was refused, not the connection
    assert.deepEqual(states(urlOf(service), [`SELECT count(*) FROM ${service}.migration`]), ['00000']);
  }
  console.log(`${tried} statements refused`);
});

test('a role owns its schema and nothing else: no superuser, no schemas, no temporary tables, no other role, no other database', { skip }, () => {
  for (const service of services) {
    const others = services.filter((other) => other !== service);
    const statements = [
      'CREATE SCHEMA intruder', 'CREATE TEMP TABLE intruder (a int)', 'CREATE TABLE public.intruder (a int)', 'CREATE ROLE intruder', 'CREATE DATABASE intruder',
      ...others.flatMap((other) => [`CREATE TABLE ${other}.intruder (a int)`, `SET ROLE postern_${other}`, `ALTER ROLE postern_${other} PASSWORD 'x'`, `DROP SCHEMA ${other} CASCADE`, `GRANT USAGE ON SCHEMA ${other} TO postern_${service}`]),
      "COPY (SELECT 1) TO PROGRAM 'true'", "SELECT pg_read_file('/etc/passwd')", 'SELECT rolpassword FROM pg_authid', `ALTER ROLE postern_${service} SUPERUSER`,
    ];
    states(urlOf(service), statements).forEach((state, i) => assert.equal(state, '42501', `${service}: ${statements[i]}`));
    assert.notEqual(psql(urlOf(service).replace(/\/postern$/, '/postgres'), 'SELECT 1').status, 0, 'another database');
    assert.notEqual(psql(urlOf(service).replace(/:[0-9a-f]{48}@/, ':wrong@'), 'SELECT 1').status, 0, 'a wrong password');
    for (const other of others)
      assert.notEqual(psql(urlOf(service).replace(`postern_${service}`, `postern_${other}`), 'SELECT 1').status, 0, `the role of ${other} with the password of ${service}`);
  }
  assert.equal(sql("SELECT string_agg(DISTINCT nspname || ' ' || rolname, ', ') FROM (SELECT relnamespace AS n, relowner AS o FROM pg_class UNION SELECT pronamespace, proowner FROM pg_proc UNION SELECT oid, nspowner FROM pg_namespace) x JOIN pg_namespace ON pg_namespace.oid = n JOIN pg_roles ON pg_roles.oid = o WHERE nspname IN ('routes', 'identity', 'events')"),
    'events postern_events, identity postern_identity, routes postern_routes');
});

test('a service knows its own URL alone, and no other process knows any', { skip }, () => {
  const known = Object.fromEntries(services.map((service) => [service, urlOf(service)]));
  for (const name of ['routes', 'identity', 'events', 'gateway', 'demo']) {
    const pid = fs.readFileSync(path.join(env.POSTERN_RUN_DIR, `${name}.pid`), 'utf8').trim();
    const has = fs.readFileSync(`/proc/${pid}/environ`, 'utf8');
    for (const [service, url] of Object.entries(known)) assert.equal(has.includes(url), service === name, `${name} and the URL of ${service}`);
    assert.ok(!/(^|\0)DATABASE_URL/.test(has), name);
  }
  for (const file of fs.readdirSync(path.join(home, 'database')))
    assert.equal(fs.statSync(path.join(home, 'database', file)).mode & 0o777, 0o600, file);
});

test("the services' user is not the superuser, whom the kernel tells from it", { skip: skip || (process.getuid() !== 0 && 'one user runs all of it') }, () => {
  const asServices = spawnSync('setpriv', ['--reuid=postern', '--regid=postern', '--clear-groups', 'psql', '-XqAt', env.DATABASE_URL, '-c', 'SELECT 1'], { encoding: 'utf8' });
  assert.notEqual(asServices.status, 0);
  assert.match(asServices.stderr, /Peer authentication failed/);
});

// A service beside those that run, with another user.
function start(service, url) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-role-'));
  const settings = { ...process.env, POSTERN_DATABASE_URL: url, POSTERN_MASTER_KEY: path.join(folder, 'key'), POSTERN_RPC: `ipc://${folder}/rpc`, POSTERN_EVENTS: `ipc://${folder}/events`, POSTERN_INTAKE: `ipc://${folder}/in`, POSTERN_PUB: `ipc://${folder}/pub`, POSTERN_CONFIG_LOG: `ipc://${folder}/log`, POSTERN_CA_FILE: path.join(folder, 'ca'), POSTERN_HEALTH_PORT: '0' };
  try {
    return spawnSync(path.join(home, 'bin', `postern-${service}`), [], { env: settings, encoding: 'utf8', timeout: 120000 });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

test('a service does not start as a user who may do more than own its schema, and says what to do', { skip }, () => {
  for (const service of services) {
    const other = services.find((one) => one !== service);
    for (const [url, why] of [[env.DATABASE_URL, /may do more than own a schema/], [urlOf(other), /does not own its schema/]]) {
      const { status, stderr } = start(service, url);
      assert.equal(status, 1, `${service}: ${stderr}`);
      assert.match(stderr, new RegExp(`cannot start: the database user \\S+ of postern-${service} .*run deploy/database.sql`));
      assert.match(stderr, why);
    }
  }
});

test('what a role lets others do with itself and its schema keeps no other service from starting', { skip, timeout: 280000 }, async () => {
  const granted = ['GRANT USAGE ON SCHEMA events TO PUBLIC', 'GRANT CREATE ON SCHEMA events TO postern_routes', ...['routes', 'identity'].map((other) => `GRANT postern_events TO postern_${other}`)];
  const said = states(urlOf('events'), granted);
  assert.deepEqual(said.slice(0, 2), ['00000', '00000']); // the others PostgreSQL 16 refuses
  const port = Number(new URL(env.POSTERN_API_URL).port) + 77, folder = fs.mkdtempSync(path.join(env.POSTERN_RUN_DIR, 'role-'));
  try {
    for (const name of ['routes', 'identity']) {
      const copy = another(name, { POSTERN_RPC: `ipc://${folder}/${name}`, POSTERN_CONFIG_LOG: `ipc://${folder}/log`, POSTERN_HEALTH_PORT: String(port) });
      try {
        await until(() => fetch(`http://127.0.0.1:${port}/readyz`).then((answer) => answer.ok, () => false), `${name} starts`, 120000);
      } finally { await copy.stop(); }
    }
  } finally {
    fs.rmSync(folder, { recursive: true });
    sql('REVOKE USAGE ON SCHEMA events FROM PUBLIC; REVOKE CREATE ON SCHEMA events FROM postern_routes; REVOKE postern_events FROM postern_routes, postern_identity');
  }
  sql('GRANT postern_events TO postern_routes'); // by who may: that is not its own doing
  try {
    const { status, stderr } = start('routes', urlOf('routes'));
    assert.equal(status, 1, stderr);
    assert.match(stderr, /cannot start: the database user postern_routes of postern-routes is, or was made a member of, the role of another service: run deploy\/database.sql/);
  } finally {
    sql('REVOKE postern_events FROM postern_routes');
  }
});

test('a service does not start on a table without a column that a field is stored in, and names the field', { skip }, () => {
  sql('ALTER TABLE identity.ssh_host_certificate RENAME COLUMN metadata TO elsewhere');
  try {
    const { status, stderr } = start('identity', urlOf('identity'));
    assert.equal(status, 1, stderr);
    assert.match(stderr, /cannot start: kind ssh_host_certificate: field metadata is stored, and its table has no such column: is a migration missing\?/);
  } finally {
    sql('ALTER TABLE identity.ssh_host_certificate RENAME COLUMN elsewhere TO metadata');
  }
});

test('a role has no more than a third of the connections', { skip }, () => {
  const max = Number(sql('SHOW max_connections'));
  for (const service of services) {
    const limit = Number(sql(`SELECT rolconnlimit FROM pg_roles WHERE rolname = 'postern_${service}'`));
    assert.ok(limit >= 40 && 3 * limit < max, `${service}: ${limit} of ${max}`);
  }
});
