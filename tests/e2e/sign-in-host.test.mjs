// The host where people sign in: every edge serves it, for all accounts, with a certificate of its own; nothing of an account is there.
// And what edges get of the modules that sign people in: what an older version published in clear is published anew.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { own } from '../support/own.mjs';
import { edge, elsewhere, endpoint, env, must, raw, through, unique, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR && !elsewhere ? false : 'the story knows the settings of a system on this machine';
const HOST = 'idp.localhost';
const sql = (text, { DATABASE_URL } = env) => execFileSync('psql', [DATABASE_URL, '-qAt'], { input: `SET search_path = routes; ${text}`, encoding: 'utf8' }).trim();
const plain = (host, target, method = 'GET') => new Promise((resolve, reject) => {
  http.request({ host: edge.plainHost, port: edge.plainPort, method, path: target, headers: { Host: host }, agent: false }, (answer) => { answer.resume(); resolve({ status: answer.statusCode, location: answer.headers.location }); }).on('error', reject).end();
});

test('it has a certificate of the local authority, and nothing of an account', { skip }, async () => {
  for (const target of ['/', '/hello', '/auth/done?code=x', '/healthz', '/metrics']) {
    const answer = await through(HOST, target);
    assert.equal(answer.status, 404, target);
    assert.match(answer.body, /ERR_POSTERN_9\d\d/, 'a page of the edge');
  }
  for (const spelled of [`${HOST}:${edge.port}`, HOST.toUpperCase(), `${HOST}.`]) assert.equal((await through(HOST, '/hello', { headers: { Host: spelled } })).status, 404, spelled);
});

test('host and server name of the handshake agree, either way', { skip }, async () => {
  const app = unique('app');
  await endpoint({ body: 'an account' }, { host: app });
  assert.equal((await through(app)).status, 200);
  assert.equal((await through(HOST, '/', { servername: app })).status, 421);
  assert.equal((await through(app, '/', { servername: HOST })).status, 421);
  assert.equal((await through(`x.${HOST}`, '/', { servername: HOST })).status, 404, 'a name below it is nobody\'s');
});

test('what is malformed is refused there as everywhere', { skip }, async () => {
  assert.match(await raw(HOST, `GET /%zz HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 400 /);
  assert.match(await raw(HOST, `GET /../.. HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 400 /);
  assert.match(await raw(HOST, `GET / HTTP/1.1\r\nHost: ${HOST}\r\nHost: other\r\nConnection: close\r\n\r\n`), /^HTTP\/1\.1 400 /);
});

test('the HTTP port leads to it', { skip }, async () => {
  assert.deepEqual(await plain(HOST, '/login?t=1'), { status: 301, location: `https://${HOST}:${edge.port}/login?t=1` });
  assert.equal((await plain(HOST, '/acs', 'POST')).status, 308);
  assert.equal((await plain(`x.${HOST}`, '/')).status, 404);
});

const signIn = { issuer: 'https://op.example.test', client_id: 'the-client', client_secret: 'the-secret' };
const noted = (id, vars) => sql(`SELECT coalesce(sign_in_published, '-') FROM https_edge_route WHERE id = '${id}'`, vars);

// A stack of its own, in which a service that runs looks for such routes once a day: only a start can have published it.
test('a route that an older version wrote is published anew at the next start, and no other', { skip, timeout: 300000 }, () => own(async ({ state, run }) => {
  const up = run('up');
  assert.equal(up.status, 0, up.stdout + up.stderr);
  const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => line.split(/=(.*)/s)));
  const make = async (target, body) => {
    const answer = await fetch(`${vars.POSTERN_API_URL}${target}`, { method: 'POST', body: JSON.stringify(body), headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' } });
    assert.equal(answer.status, 201, target);
    return answer.json();
  };
  const host = unique('older');
  await make('/reserved_domains', { domain: host });
  const { id } = await make('/edges/https', { hostports: [`${host}:443`] }), routes = [];
  for (const match of ['/a', '/b', '/c']) routes.push(await make(`/edges/https/${id}/routes`, { match_type: 'path_prefix', match, ...(match === '/c' ? {} : { oidc: signIn }) }));
  const [older, same, other] = routes.map((route) => route.id), [was, stays] = [noted(older, vars), noted(same, vars)];
  assert.match(was, /^3-[0-9a-f]{8} [0-9a-f]{64}$/);
  assert.equal(noted(other, vars), '-');
  const entry = (route) => sql(`SELECT revision FROM config_entry WHERE id = '${route}'`, vars), before = [older, same, other].map(entry);
  sql(`UPDATE https_edge_route SET oidc = jsonb_set(oidc, '{maximum_duration}', '60') WHERE id = '${older}'`, vars); // it leaves the column
  const pid = fs.readFileSync(`${vars.POSTERN_RUN_DIR}/routes.pid`, 'utf8');
  process.kill(Number(pid), 'SIGTERM');
  await until(() => noted(older, vars) !== was, 'it is published', 120000);
  const after = [older, same, other].map(entry);
  assert.notEqual(after[0], before[0]);
  assert.deepEqual(after.slice(1), before.slice(1));
  assert.equal(noted(same, vars), stays);
}, { also: { POSTERN_RENEW_SECONDS: '86400' } }));

test('a change of a module is published under another note, of a secret too', { skip }, async () => {
  const { route, edge: front } = await endpoint({ body: 'x' }, { oidc: signIn });
  const first = noted(route.id);
  assert.match(first, /^3-/);
  await must('PUT', `/edges/https/${front.id}/routes/${route.id}/oidc`, { ...signIn, client_secret: 'another' });
  assert.notEqual(noted(route.id), first);
});

test('the secrets of applications are in the environment of identity alone', { skip }, async () => {
  const having = fs.readdirSync(env.POSTERN_RUN_DIR).filter((name) => name.endsWith('.pid') && name !== 'stack.pid').map((name) => name.slice(0, -4))
    .map((name) => ({ name, environment: fs.readFileSync(`/proc/${fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8').trim()}/environ`, 'utf8') }));
  assert.deepEqual(having.filter(({ environment }) => /POSTERN_OAUTH_\w+_CLIENT_SECRET=/.test(environment)).map(({ name }) => name.replace(/-\d+$/, '')), ['identity']);
});
