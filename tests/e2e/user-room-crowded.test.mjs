// An account that has more users or sessions than it may have, or as many, while many sign in at once: beside user-room.test.mjs, by the verbs
// that edges call, in accounts of the story's own, at copies of postern-identity of its own.
import assert from 'node:assert/strict';
import test from 'node:test';
import { elsewhere, until } from '../support/postern.mjs';
import { holding, idle, ksuid, metric, place, sql, userRoom } from '../support/user-room.mjs';

const options = { skip: elsewhere }, OK = 0, LIMIT_EXCEEDED = 196, MAINTENANCE = 503;
const room = elsewhere ? {} : await userRoom(4), { alive, anew, prove, redeem, signInAll, start, stop, users } = room;
// So many users with so many sessions each, who signed in so many days ago and used them last so many minutes ago.
function seed(users, sessions, days, minutes) {
  const name = ksuid().slice(-20);
  sql(`CREATE TEMP TABLE u AS SELECT 'app_user_' || '${name}' || lpad(n::text, 7, '0') AS id, now() - interval '${days} days' AS at FROM generate_series(1, ${users}) n;
       INSERT INTO object (id, account_id, kind) SELECT id, '${room.mine.id}', 'application_user' FROM u;
       INSERT INTO application_user (id, account_id, created_at, identity_provider, provider_user_id, username, email, name, last_active, last_login, provider_url)
         SELECT id, '${room.mine.id}', at, '{"name": "oidc", "url": "https://issuer.test"}', id, '', '', '', at, at, 'https://issuer.test' FROM u;
       CREATE TEMP TABLE s AS SELECT 'app_sess_' || substr(u.id, 10, 20) || lpad(row_number() OVER ()::text, 7, '0') AS id, u.id AS user_id, now() - interval '${minutes} min' AS at FROM u, generate_series(1, ${sessions});
       INSERT INTO object (id, account_id, kind, parent_id) SELECT id, '${room.mine.id}', 'application_session', user_id FROM s;
       INSERT INTO application_session (id, account_id, created_at, public_url, browser_session, application_user_id, last_active, expires_at, token_hash)
         SELECT id, '${room.mine.id}', at, 'https://app.example.test', '{}', user_id, at, now() + interval '1 day', encode(sha256(id::bytea), 'hex') FROM s;
       INSERT INTO sign_in_session (session_id, module, digest, groups, email_verified, tokens, created_ms, expires_ms, inactivity_ms, last_active_ms, checked_ms, due_ms)
         SELECT id, 'oauth', '', '[]', false, '', 0, 1000 * extract(epoch FROM now() + interval '1 day')::bigint, 0, 0, 0, 0 FROM s`);
}
const counted = (table) => Number(sql(`SELECT count(*) FROM ${table} WHERE account_id = '${room.mine.id}'`));

test('a sign-in ends as many sessions as it takes, so that one too many, which came at once, keeps nobody out', options, async () => {
  await anew(8);
  const all = await signInAll('a', 'a', 'a', 'b', 'b', 'b', 'c', 'd');
  all.forEach((one, i) => idle(60 - i, one));
  await stop();
  start(6);
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
    const { application_sessions: sessions } = await room.mine.must('GET', '/app/sessions?limit=100');
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

test('one that is over its limits comes down to them while nobody signs in, and nobody loses a session in use that is his only one', options, async () => {
  const limit = 10 + Number(sql("SELECT coalesce(max(n), 0) FROM (SELECT sum(n) AS n FROM object_count WHERE kind IN ('application_user', 'application_session') GROUP BY account_id, kind) one")); // no account of another story is over it
  const left = (table, id) => Number(sql(`SELECT count(*) FROM ${table} WHERE account_id = '${id}'`));
  await anew(limit);
  const { id: inUse } = room.mine;
  seed(limit + 70, 1, 3, 0); // more than the next account has: it is looked at first
  await anew(limit);
  const [keeper] = await signInAll('keeper');
  idle(5000, keeper);
  seed(limit + 30, 0, 3, 0);
  seed(1, limit + 39, 3, 40);
  await stop();
  start(limit, { POSTERN_SIGN_IN_TIDY_SECONDS: '1' });
  await until(() => counted('application_user') <= limit && counted('application_session') <= limit, 'it has as many as it may have', 120000);
  assert.deepEqual([counted('application_user'), counted('application_session'), await alive([keeper])], [limit, limit, [true]]);
  assert.deepEqual([left('application_user', inUse), left('application_session', inUse)], [limit + 70, limit + 70]);
  await until(async () => await metric('users_deleted_for_room') === 32 && await metric('sessions_ended_for_room') === 40, 'all are counted', 120000);
  assert.deepEqual([await metric('users_refused'), await metric('sessions_refused')], [0, 0]);
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
    sql(`INSERT INTO object_count VALUES ('${room.mine.id}', 'application_session', 99, 1)`); // there is none
    const locked = await holding(`SELECT pg_advisory_xact_lock(hashtextextended('${room.mine.id}', 22))`);
    await one.end();
    await until(() => over || locked.blocks(), 'it waits', 120000);
    sql(`DELETE FROM object_count WHERE account_id = '${room.mine.id}' AND shard = 99`);
    await locked.end();
    answer = await redeemed;
  }
  assert.equal(answer.code, OK, answer.msg);
  assert.deepEqual([await alive([...all, answer]), await metric('sessions_ended_for_room')], [[true, true, true, true], 0]);
});
