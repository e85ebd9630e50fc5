// An account that has more users or sessions than it may have, or as many, while many sign in at once: beside user-room.test.mjs, by the verbs
// that edges call, in accounts of the story's own, at copies of postern-identity of its own.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import http from 'node:http';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { another } from '../support/copies.mjs';
import { gitlab } from '../support/gitlab.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { edge as traffic, elsewhere, env, until } from '../support/postern.mjs';
import { seal } from '../support/sealed.mjs';

const options = { skip: elsewhere }, OK = 0, LIMIT_EXCEEDED = 196, MAINTENANCE = 503, PORT = traffic.port - 43 + 152;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
let count = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');
const socket = `ipc://${env.POSTERN_RUN_DIR}/crowded-room-${process.pid}.rpc`;
let provider, copy, bus, mine;
const start = (limit, changed = {}) => another('identity', { POSTERN_RPC: socket, POSTERN_HEALTH_PORT: String(PORT), POSTERN_OAUTH_GITLAB_URL: provider.url, POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: provider.ca, POSTERN_OUT_CONNECT: '', POSTERN_OBJECT_LIMIT: String(limit), ...changed });
if (!elsewhere) {
  provider = await gitlab();
  mine = account();
  copy = start(4);
  bus = caller(edgeKey(), 'identity', socket);
  test.after(async () => { bus.stop(); await copy.stop(); provider.stop(); });
}
async function ask(verb, body) {
  const id = bus.ask(verb, body);
  await until(() => bus.answer(id), `an answer to ${verb}`, 120000);
  return bus.answer(id);
}
const metric = (name) => new Promise((resolve) => {
  http.get({ host: '127.0.0.1', port: PORT, path: '/metrics', agent: false }, (answer) => {
    let text = '';
    answer.setEncoding('utf8').on('data', (more) => { text += more; }).on('end', () => resolve(Number(new RegExp(`^postern_identity_${name}_total (\\d+)`, 'm').exec(text)?.[1] ?? -1)));
  }).on('error', () => resolve(-1));
});
// Signs in up to the code; redeem() makes the session of it.
const place = () => ({ host: `app-${ksuid()}.example.test`, route: `edghtsrt_${ksuid()}`, edge: `edghts_${ksuid()}` });
async function prove(sub, { host, route, edge } = place()) {
  provider.users[sub] ??= { nickname: sub, name: sub, email: `${sub}@example.test`, email_verified: true };
  const sealed = seal({ route, account: mine.id, edge, module: 'oauth', config: { enabled: true, cookie_prefix: 'postern.', provider: { gitlab: { client_id: 'a client', client_secret: 'a secret', scopes: [], email_addresses: [], email_domains: [] } } } });
  const begin = await ask('sign_in.begin', { sealed, host, target: '/' });
  const login = await ask('sign_in.login', { sealed, ticket: new URL(begin.body.location).searchParams.get('t').split('.')[1] });
  const params = provider.code(sub, login.body.location);
  const back = await ask('sign_in.callback', { sealed, state: params.state[0], params, cookie: login.body.cookie, ip: '192.0.2.9', user_agent: 'x' });
  assert.equal(back.code, OK, back.msg);
  return { route, words: { sealed, code: new URL(back.body.location).searchParams.get('code'), nonce: begin.body.nonce, host, ip: '192.0.2.9', user_agent: 'x' } };
}
async function redeem({ route, words }) {
  const { code, body, msg } = await ask('sign_in.redeem', words);
  return { code, msg, route, token: body?.token, session: body?.session, hash: body && crypto.createHash('sha256').update(body.token).digest('hex') };
}
const signIn = async (sub) => redeem(await prove(sub));
const users = async () => (await mine.must('GET', '/app/users?limit=100')).application_users.map(({ provider_user_id: id }) => id).sort();
const alive = (list) => Promise.all(list.map(async ({ hash, route, session }) => (await ask('session.check', { hash, route, digest: session.digest })).code === OK));
// Sessions that were used last so many minutes ago.
const idle = (minutes, ...list) => sql(`UPDATE application_session SET last_active = now() - interval '${minutes} min' WHERE id IN (${list.map(({ session }) => `'${session.id}'`).join()})`);
async function anew(limit, changed = {}) {
  await copy.stop();
  mine = account(); // a limit of its own
  copy = start(limit, changed);
  await until(async () => await metric('sessions_ended_for_room') === 0, 'it is there', 120000);
}
async function signInAll(...subs) {
  const all = [];
  for (const sub of subs) {
    all.push(await signIn(sub));
    assert.equal(all.at(-1).code, OK, all.at(-1).msg);
  }
  return all;
}
// So many users with so many sessions each, who signed in so many days ago and used them last so many minutes ago.
function seed(users, sessions, days, minutes) {
  const name = ksuid().slice(-20);
  sql(`CREATE TEMP TABLE u AS SELECT 'app_user_' || '${name}' || lpad(n::text, 7, '0') AS id, now() - interval '${days} days' AS at FROM generate_series(1, ${users}) n;
       INSERT INTO object (id, account_id, kind) SELECT id, '${mine.id}', 'application_user' FROM u;
       INSERT INTO application_user (id, account_id, created_at, identity_provider, provider_user_id, username, email, name, last_active, last_login, provider_url)
         SELECT id, '${mine.id}', at, '{"name": "oidc", "url": "https://issuer.test"}', id, '', '', '', at, at, 'https://issuer.test' FROM u;
       CREATE TEMP TABLE s AS SELECT 'app_sess_' || substr(u.id, 10, 20) || lpad(row_number() OVER ()::text, 7, '0') AS id, u.id AS user_id, now() - interval '${minutes} min' AS at FROM u, generate_series(1, ${sessions});
       INSERT INTO object (id, account_id, kind, parent_id) SELECT id, '${mine.id}', 'application_session', user_id FROM s;
       INSERT INTO application_session (id, account_id, created_at, public_url, browser_session, application_user_id, last_active, expires_at, token_hash)
         SELECT id, '${mine.id}', at, 'https://app.example.test', '{}', user_id, at, now() + interval '1 day', encode(sha256(id::bytea), 'hex') FROM s;
       INSERT INTO sign_in_session (session_id, module, digest, groups, email_verified, tokens, created_ms, expires_ms, inactivity_ms, last_active_ms, checked_ms, due_ms)
         SELECT id, 'oauth', '', '[]', false, '', 0, 1000 * extract(epoch FROM now() + interval '1 day')::bigint, 0, 0, 0, 0 FROM s`);
}
const counted = (table) => Number(sql(`SELECT count(*) FROM ${table} WHERE account_id = '${mine.id}'`));
// A transaction of somebody else, which has done what the text says and has its locks until the end. Does somebody wait for it?
async function holding(text) {
  const child = spawn('psql', [env.DATABASE_URL, '-qAt'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (more) => { out += more; });
  child.stdin.write(`SET search_path = identity; BEGIN; ${text}; SELECT 'pid=' || pg_backend_pid();\n`);
  const pid = await until(() => /pid=(\d+)/.exec(out)?.[1], 'the transaction has its locks', 120000);
  return {
    blocks: () => sql(`SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND ${pid} = ANY (pg_blocking_pids(pid))`) === 't',
    end: () => new Promise((resolve) => { child.on('close', resolve); child.stdin.end('COMMIT;\n'); }),
  };
}

test('a sign-in ends as many sessions as it takes, so that one too many, which came at once, keeps nobody out', options, async () => {
  await anew(8);
  const all = await signInAll('a', 'a', 'a', 'b', 'b', 'b', 'c', 'd');
  all.forEach((one, i) => idle(60 - i, one));
  await copy.stop();
  copy = start(6);
  await signInAll('c');
  assert.deepEqual(await alive(all), [false, false, true, false, true, true, true, true], 'those of who had most, in turns');
});

test('sign-ins that come at once at the limit all get in while somebody has several sessions, and nobody loses his last one', options, async () => {
  await anew(12, { POSTERN_WORKERS: '16' }); // half of them are for edges
  const subs = ['a', 'b', 'c', 'd'], many = subs.flatMap((sub) => [sub, sub, sub]);
  await signInAll(...many);
  for (let round = 0; round < 3; round++) {
    const proofs = await Promise.all(many.map((sub) => prove(sub)));
    sql("UPDATE sign_in_code SET expires_at = now() + interval '10 min'"); // however slow the machine is
    const answers = await Promise.all(proofs.map(redeem));
    assert.deepEqual(answers.filter(({ code }) => code !== OK), []);
    const { application_sessions: sessions } = await mine.must('GET', '/app/sessions?limit=100');
    assert.equal(new Set(sessions.map(({ application_user: user }) => user.id)).size, subs.length);
    assert.equal(sessions.length, 12);
  }
  assert.equal(await metric('sessions_refused'), 0);
});

test('far over its limit of users an account loses 32 of them with each sign-in that is refused, which takes nothing else, until they get in', options, async () => {
  await anew(10);
  const here = place(), keeper = await redeem(await prove('keeper', here));
  assert.equal(keeper.code, OK, keeper.msg);
  seed(49, 0, 3, 0);
  const proof = await prove('new', here);
  proof.words.old = keeper.token;
  assert.deepEqual([(await redeem(proof)).code, counted('application_user')], [LIMIT_EXCEEDED, 18]);
  assert.deepEqual([await metric('users_deleted_for_room'), await metric('users_refused'), await alive([keeper])], [32, 1, [true]]);
  sql("UPDATE sign_in_code SET expires_at = now() + interval '10 min'"); // however slow the machine is
  const again = await redeem(proof);
  assert.equal(again.code, OK, again.msg);
  assert.deepEqual([counted('application_user'), await metric('users_deleted_for_room'), await metric('users_refused')], [10, 41, 1]);
  assert.deepEqual(await alive([keeper, again]), [false, true], 'whose place it took in that browser');
});

test('so does one that is far over its limit of sessions, and nobody whose only one it is loses it', options, async () => {
  await anew(10);
  const [keeper] = await signInAll('keeper'), proof = await prove('new');
  sql("UPDATE sign_in_code SET expires_at = now() + interval '10 min'"); // however slow the machine is
  idle(5000, keeper);
  seed(1, 49, 3, 40);
  assert.deepEqual([(await redeem(proof)).code, counted('application_session')], [LIMIT_EXCEEDED, 18]);
  assert.deepEqual([await metric('sessions_ended_for_room'), await metric('sessions_refused')], [32, 1]);
  sql("UPDATE sign_in_code SET expires_at = now() + interval '10 min'");
  const again = await redeem(proof);
  assert.equal(again.code, OK, again.msg);
  assert.deepEqual([counted('application_session'), await metric('sessions_ended_for_room'), await metric('sessions_refused')], [10, 41, 1]);
  assert.deepEqual(await alive([keeper, again]), [true, true]);
  assert.equal(await metric('users_deleted_for_room'), 0);
});

test('nobody who has a session makes room while somebody has none, however many have signed in longer ago', options, async () => {
  await anew(1100);
  seed(1000, 1, 10, 40);
  seed(100, 0, 1, 0);
  await signInAll('new');
  assert.deepEqual([counted('application_session'), counted('application_user')], [1001, 1100]);
  assert.deepEqual([await metric('users_deleted_for_room'), await metric('sessions_ended_for_room')], [1, 0]);
});

test('a session that somebody uses at this moment does not make room, and nobody waits for it', options, async () => {
  await anew(2);
  const all = await signInAll('one', 'two'), proof = await prove('new');
  sql("UPDATE sign_in_code SET expires_at = now() + interval '10 min'"); // however slow the machine is
  idle(50, all[0]);
  idle(40, all[1]);
  const used = await holding(`SELECT 1 FROM sign_in_session WHERE session_id = '${all[0].session.id}' FOR UPDATE`); // as session.touch
  try {
    const { code, msg } = await redeem(proof);
    assert.equal(code, OK, msg);
  } finally { await used.end(); }
  assert.deepEqual([await alive(all), await users()], [[true, false], ['new', 'one']]);
});

test('who had to wait for the room takes a place that is free by then, and nobody makes one', options, async () => {
  await anew(4);
  const all = await signInAll('one', 'two', 'three'), proof = await prove('one');
  idle(50, ...all);
  let answer = { code: MAINTENANCE };
  for (let i = 0; answer.code === MAINTENANCE && i < 10; i++) { // a statement waits for 5 s at most: on a slow machine that is not enough for the other steps
    sql("UPDATE sign_in_code SET expires_at = now() + interval '10 min'");
    const one = await holding(`SELECT 1 FROM application_user WHERE id = '${all[0].session.user}' FOR UPDATE`), redeemed = redeem(proof);
    let over = false;
    redeemed.then(() => { over = true; });
    await until(() => over || one.blocks(), 'it has found that there is room', 120000);
    sql(`INSERT INTO object_count VALUES ('${mine.id}', 'application_session', 99, 1)`); // there is none
    const room = await holding(`SELECT pg_advisory_xact_lock(hashtextextended('${mine.id}', 22))`);
    await one.end();
    await until(() => over || room.blocks(), 'it waits', 120000);
    sql(`DELETE FROM object_count WHERE account_id = '${mine.id}' AND shard = 99`);
    await room.end();
    answer = await redeemed;
  }
  assert.equal(answer.code, OK, answer.msg);
  assert.deepEqual([await alive([...all, answer]), await metric('sessions_ended_for_room')], [[true, true, true, true], 0]);
});
