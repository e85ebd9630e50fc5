// 204 means gone: when the answer to a revocation is there, no worker of the edge admits the session, however many ask at once.
// make revocations has it at full size (REVOCATIONS, CLIENTS, POSTERN_EDGE_WORKERS); make mutants has it find out an edge that acknowledges
// before it applies (tests/mutants), which REVOCATION_MUTANT says.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import test from 'node:test';
import tls from 'node:tls';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { api, ca, edge, elsewhere, endpoint, env, until, upstream } from '../support/postern.mjs';
import { Browser, github } from '../support/browser.mjs';
import { children } from '../support/processes.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const REVOCATIONS = Number(process.env.REVOCATIONS || 40), CLIENTS = Number(process.env.CLIENTS || 60), AFTER = 200, WARM = 8, BUSY = 4;
const SESSION = '__Host-postern.session', UNTIL_SIGNED_IN = 401, MUTANT = Boolean(process.env.REVOCATION_MUTANT);
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAt', '-v', 'ON_ERROR_STOP=1'], { input: `SET search_path = identity; ${text}`, encoding: 'utf8', maxBuffer: 1 << 28 }).trim();

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

const eachOf = async (name) => Object.fromEntries([...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(new RegExp(`^postern_edge_${name}\\{worker="(\\d+)"\\} (\\d+)`, 'gm'))].map(([, worker, n]) => [worker, Number(n)]));

// A client of one connection, on which one thing is asked for at a time; what is asked meanwhile waits for its turn. A connection that the
// edge closed between two requests, because it has had as many as one may have, is made anew.
class Client {
  constructor(host) { this.host = host; this.turn = Promise.resolve(); }
  connect() {
    return new Promise((resolve, reject) => {
      const socket = tls.connect({ host: edge.host, port: edge.port, servername: this.host, ca }, resolve).on('error', reject);
      this.socket = socket.setNoDelay(true).on('data', (part) => this.take(part)).on('close', () => {
        if (this.socket !== socket) return;
        this.socket = null;
        this.done?.(0);
      });
      this.text = '';
    });
  }
  take(part) {
    this.text += part.toString('latin1');
    const end = this.text.indexOf('\r\n\r\n'), head = this.text.slice(0, end);
    if (end < 0) return;
    if (this.text.length < end + 4 + Number(/content-length: (\d+)/i.exec(head)[1])) return;
    if (/\nconnection: close/i.test(head)) { this.socket.destroy(); this.socket = null; }
    this.text = '';
    this.done(Number(head.split(' ')[1]));
  }
  // The status; 0: the connection broke. began is called when it is sent.
  ask(session, after = '', began = () => {}) {
    const one = async () => {
      if (!this.socket) await this.connect();
      return new Promise((resolve) => {
        this.done = (status) => { this.done = null; resolve(status); };
        this.socket.write(`GET / HTTP/1.1\r\nHost: ${this.host}:${edge.port}\r\nCookie: ${SESSION}=${session.value}\r\nX-Session: ${session.id}\r\n${after}\r\n`);
        began();
      });
    };
    return (this.turn = this.turn.then(one, one));
  }
  close() { this.socket?.destroy(); }
}

// A route where somebody has signed in, count more sessions of it, and the clients. late: sessions of which a request that began after the
// answer came to the upstream; seen: id -> how many requests it got there.
async function guarded(t, count, clientCount) {
  const provider = await github(edge.port - 43 + 96), late = [], seen = new Map();
  const up = await upstream((request, response) => {
    if (request.headers['x-after']) late.push(request.headers['x-after']);
    seen.set(request.headers['x-session'], (seen.get(request.headers['x-session']) ?? 0) + 1);
    up.seen.length = 0;
    response.writeHead(200, { 'Content-Length': 0 }).end();
  });
  t.after(() => { provider.close(); return up.close(); });
  const to = await endpoint(up.address, { oauth: { provider: { github: {} } } });
  provider.who = { id: 7, login: 'ada', name: 'Ada', email: 'ada@example.test' };
  const browser = new Browser(), host = `${to.host}:${edge.port}`;
  assert.equal((await browser.go(`https://${host}/`)).status, 200);
  const sessions = copies(browser.cookies.get(host).get(SESSION), count), clients = Array.from({ length: clientCount }, () => new Client(to.host));
  t.after(() => { for (const client of clients) client.close(); });
  for (let i = 0; i < clients.length; i += 50) await Promise.all(clients.slice(i, i + 50).map((client) => client.connect()));
  return { late, seen, sessions, clients };
}
const gone = (session) => api('DELETE', session.number % 2 ? `/app/sessions/${session.id}` : `/app/users/${session.user}`);
const askAll = (clients, session, began) => Promise.all(Array.from({ length: AFTER }, (_, i) => clients[i % clients.length].ask(session, `X-After: ${session.id}\r\n`, began)));

// Of one session after the other; each client has one, and gets another when its own was revoked. say(status) for each request that began
// after the answer, soon() where all of them had begun within 50 ms.
async function revokeEach(sessions, clients, say, soon) {
  for (let i = 0; i < clients.length && sessions[i]; i++) assert.equal(await clients[i].ask(sessions[i]), 200);
  for (const [number, session] of sessions.entries()) {
    const at = number % clients.length, first = (at + WARM) % (clients.length - BUSY);
    // whoever serves it by now has it, and it is in use while it goes
    assert.deepEqual(new Set(await Promise.all(Array.from({ length: WARM }, (_, i) => clients[(at + i) % clients.length].ask(session)))), new Set([200]));
    let going = true;
    const use = Promise.all(clients.slice(first, first + BUSY).map(async (client) => { while (going) await client.ask(session); }));
    const answer = await gone(session), since = performance.now();
    let inTime = 0;
    const after = askAll([...clients.slice(0, first), ...clients.slice(first + BUSY)], session, () => { inTime += performance.now() - since <= 50; });
    assert.equal(answer.status, 204);
    const [acknowledged, live] = answer.headers['postern-edges'].split('/').map(Number);
    assert.equal(acknowledged, live);
    for (const status of await after) say(status);
    if (inTime === AFTER) soon();
    going = false;
    await use;
  }
}

// Side by side where there are many clients: 250 of them revoke one after the other. -> {statuses: {status: how many}, soon: how many revocations}
async function revokeAll({ sessions, clients }) {
  const lanes = Math.max(1, Math.floor(clients.length / 250)), statuses = {};
  let soon = 0;
  const mine = (all, lane) => all.filter((_, i) => i % lanes === lane), say = (status) => { statuses[status] = (statuses[status] ?? 0) + 1; };
  await Promise.all(Array.from({ length: lanes }, (_, lane) => revokeEach(mine(sessions, lane), mine(clients, lane), say, () => { soon++; })));
  return { statuses, soon };
}

test('no request that begins after the answer reaches the upstream', { skip: skip || (MUTANT && 'this edge is one that breaks the promise'), timeout: 86400000 }, async (t) => {
  const all = await guarded(t, REVOCATIONS, CLIENTS), { late, seen, sessions } = all, before = await eachOf('requests_total');
  const { statuses, soon } = await revokeAll(all), now = await eachOf('requests_total');
  t.diagnostic(`${REVOCATIONS} revocations, ${CLIENTS} clients, ${Object.keys(now).length} workers: ${late.length} late requests; statuses ${JSON.stringify(statuses)}; all ${AFTER} began within 50 ms after ${soon} of them`);
  assert.deepEqual(late, []);
  assert.deepEqual(statuses, { [UNTIL_SIGNED_IN]: REVOCATIONS * AFTER });
  assert.ok(sessions.every(({ id }) => seen.get(id) >= WARM), 'each was admitted before');
  for (const worker of Object.keys(now)) assert.ok(now[worker] > before[worker], `worker ${worker} was asked`);
  await until(async () => (await api('GET', '/app/users')).status === 200, 'the API answers');
});

test('an edge that acknowledges before it applies is found out', { skip: skip || (!MUTANT && 'this edge keeps the promise'), timeout: 600000 }, async (t) => {
  const all = await guarded(t, REVOCATIONS, CLIENTS), { statuses } = await revokeAll(all);
  t.diagnostic(`${REVOCATIONS} revocations: ${all.late.length} late requests; statuses ${JSON.stringify(statuses)}`);
  assert.ok(all.late.length > 0, 'requests that came too late reached the upstream');
});

const pid = () => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8'));
const inTouch = (workers) => until(async () => { const now = Object.values(await eachOf('session_log_current')); return now.length === workers && now.every(Boolean); }, 'every worker is in touch', 120000);

// What a worker that stands still is sent waits in its sockets, and in the link to its helper, until it goes on.
for (const which of ['one worker', 'all workers'])
  test(`while ${which} of the edge stand${which === 'one worker' ? 's' : ''} still, a revocation is answered, and is no less in force when it goes on`, { skip: skip || MUTANT, timeout: 300000 }, async (t) => {
    const all = await guarded(t, 404, 24), { late, seen, clients } = all, sessions = all.sessions.slice(0, 4), spare = all.sessions.slice(4), workers = children(pid()), still = which === 'one worker' ? workers.slice(0, 1) : workers;
    for (const session of sessions) {
      await inTouch(workers.length);
      await until(async () => (await gone(spare.pop())).headers['postern-edges'] === `${workers.length}/${workers.length}`, 'every worker is waited for', 120000);
      assert.deepEqual(new Set(await Promise.all(clients.map((client) => client.ask(session)))), new Set([200]));
      for (const one of still) process.kill(one, 'SIGSTOP');
      let answer, after;
      try {
        answer = await gone(session);
        after = Promise.all(clients.map((client) => client.ask(session, `X-After: ${session.id}\r\n`)));
      } finally {
        for (const one of still) process.kill(one, 'SIGCONT');
      }
      assert.equal(answer.status, 204);
      assert.equal(Number(answer.headers['postern-edges'].split('/')[0]), workers.length - still.length, answer.headers['postern-edges']);
      assert.deepEqual(new Set(await after), new Set([UNTIL_SIGNED_IN]));
      assert.ok(seen.get(session.id) >= clients.length, 'it was admitted before');
    }
    assert.deepEqual(late, []);
  });
