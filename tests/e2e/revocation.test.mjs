// 204 means gone: when the answer to a revocation is there, no worker of the edge admits the session, however many ask at once.
// REVOCATIONS and CLIENTS make it longer; POSTERN_EDGE_WORKERS=4 has it over four workers.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { execFileSync } from 'node:child_process';
import { api, ca, edge, elsewhere, endpoint, env, until, upstream } from '../support/postern.mjs';
import { Browser, github } from '../support/browser.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const REVOCATIONS = Number(process.env.REVOCATIONS || 40), AFTER = 200, CONNECTIONS = 16, SESSION = '__Host-postern.session', UNTIL_SIGNED_IN = 401;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8', maxBuffer: 1 << 28 }).trim();

// Sessions like the one that was signed in, as sign-in writes them: {id, user, value}.
function copies(value, count) {
  const hash = crypto.createHash('sha256').update(value).digest('hex');
  const made = Array.from({ length: count }, (_, i) => {
    const token = crypto.randomBytes(32).toString('base64url'), tail = crypto.randomBytes(27).toString('hex').slice(0, 27);
    return { id: `app_sess_${tail}`, value: token, hash: crypto.createHash('sha256').update(token).digest('hex'), user: `app_user_${tail}`, number: i };
  });
  const rows = made.map(({ id, user, hash: own }) => `('${id}', '${user}', '${own}')`).join(', ');
  sql(`BEGIN; CREATE TEMP TABLE made (id text, user_id text, hash text) ON COMMIT DROP; INSERT INTO made VALUES ${rows};
    INSERT INTO object (id, account_id, kind) SELECT user_id, account_id, 'application_user' FROM made, application_session a WHERE token_hash = '${hash}';
    INSERT INTO application_user SELECT (jsonb_populate_record(u, jsonb_build_object('id', made.user_id, 'provider_user_id', made.user_id))).*
      FROM made, application_session a JOIN application_user u ON u.id = a.application_user_id WHERE token_hash = '${hash}';
    INSERT INTO object (id, account_id, kind, parent_id) SELECT made.id, account_id, 'application_session', user_id FROM made, application_session a WHERE token_hash = '${hash}';
    INSERT INTO application_session SELECT (jsonb_populate_record(a, jsonb_build_object('id', made.id, 'application_user_id', user_id, 'token_hash', hash))).* FROM made, application_session a WHERE token_hash = '${hash}';
    INSERT INTO sign_in_session SELECT (jsonb_populate_record(s, jsonb_build_object('session_id', made.id))).* FROM made, application_session a JOIN sign_in_session s ON s.session_id = a.id WHERE token_hash = '${hash}';
    COMMIT`);
  return made;
}

const requests = async () => Object.fromEntries([...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_requests_total\{worker="(\d+)"\} (\d+)/gm)].map(([, worker, n]) => [worker, Number(n)]));

test('no request that begins after the answer reaches the upstream', { skip, timeout: 3600000 }, async () => {
  const provider = await github(edge.port - 43 + 96), late = [], seen = new Map();
  const up = await upstream((request, response) => {
    if (request.headers['x-after']) late.push(request.headers['x-after']);
    seen.set(request.headers['x-session'], (seen.get(request.headers['x-session']) ?? 0) + 1);
    response.end();
  });
  const to = await endpoint(up.address, { oauth: { provider: { github: {} } } });
  provider.who = { id: 7, login: 'ada', name: 'Ada', email: 'ada@example.test' };
  const browser = new Browser(), host = `${to.host}:${edge.port}`;
  assert.equal((await browser.go(`https://${host}/`)).status, 200);
  const sessions = copies(browser.cookies.get(host).get(SESSION), REVOCATIONS), connections = [];
  for (let i = 0; i < CONNECTIONS; i++) {
    const one = http2.connect(`https://${to.host}:${edge.port}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] }) });
    one.on('error', () => {});
    connections.push(one);
  }
  const ask = (connection, session, more) => new Promise((resolve, reject) => {
    const stream = connection.request({ ':path': '/', ':authority': host, cookie: `${SESSION}=${session.value}`, 'x-session': session.id, ...more });
    stream.on('response', (headers) => resolve(headers[':status'])).on('error', reject).resume();
  });
  const before = await requests(), statuses = {};
  for (const session of sessions) {
    // all workers have it, and it is in use while it goes
    assert.deepEqual(new Set(await Promise.all(connections.map((connection) => ask(connection, session)))), new Set([200]));
    let going = true;
    const use = Promise.all(connections.slice(0, 4).map(async (connection) => { while (going) await ask(connection, session); }));
    const gone = await api('DELETE', session.number % 2 ? `/app/sessions/${session.id}` : `/app/users/${session.user}`);
    const after = Promise.all(Array.from({ length: AFTER }, (_, i) => ask(connections[i % CONNECTIONS], session, { 'x-after': session.id })));
    assert.equal(gone.status, 204);
    const [acknowledged, live] = gone.headers['postern-edges'].split('/').map(Number);
    assert.equal(acknowledged, live);
    for (const status of await after) statuses[status] = (statuses[status] ?? 0) + 1;
    going = false;
    await use;
  }
  assert.deepEqual(late, []);
  assert.deepEqual(statuses, { [UNTIL_SIGNED_IN]: REVOCATIONS * AFTER });
  assert.ok(sessions.every(({ id }) => seen.get(id) >= CONNECTIONS), 'each was admitted before');
  const now = await requests();
  for (const worker of Object.keys(now)) assert.ok(now[worker] > before[worker], `worker ${worker} was asked`);
  for (const connection of connections) connection.destroy();
  await up.close();
  provider.close();
  await until(async () => (await api('GET', '/app/users')).status === 200, 'the API answers');
});
