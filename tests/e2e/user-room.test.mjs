// An account that has as many users as it may have: who has no session makes room for somebody new, who has one never does. By the verbs that
// edges call, in an account of the story's own, at copies of postern-identity of its own.
import assert from 'node:assert/strict';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { elsewhere, listening, until } from '../support/postern.mjs';
import { idle, ksuid, metric, sql, userRoom } from '../support/user-room.mjs';

const options = { skip: elsewhere }, OK = 0, SIGN_IN_CODE = 234, LIMIT = 4;
const room = elsewhere ? {} : await userRoom(LIMIT), { alive, anew, ask, prove, redeem, signIn, signInAll, start, stop, users } = room;
const end = ({ hash, route }) => ask('session.end', { hash, route });
const ago = (sub, days) => sql(`UPDATE application_user SET last_login = now() - interval '${days} days', last_active = now() - interval '${days} days' WHERE account_id = '${room.mine.id}' AND provider_user_id = '${sub}'`);

test('at the limit the user without a session who signed in longest ago makes room, and nobody who has one', options, async () => {
  const events = await listening(), signed = {};
  for (const sub of ['one', 'two', 'three', 'four']) {
    signed[sub] = await signIn(sub);
    assert.equal(signed[sub].code, OK, signed[sub].msg);
  }
  const { code } = await signIn('five');
  assert.notEqual(code, OK, 'all of them have sessions');
  assert.deepEqual(await users(), ['four', 'one', 'three', 'two']);
  assert.equal(await metric('users_refused'), 1);
  ago('one', 300); // has a session, and is older than all
  for (const [sub, days] of [['three', 2], ['two', 1]]) { assert.equal((await end(signed[sub])).code, OK); ago(sub, days); }
  assert.equal((await signIn('five')).code, OK);
  assert.deepEqual(await users(), ['five', 'four', 'one', 'two']);
  assert.equal(await metric('users_deleted_for_room'), 1);
  const gone = await until(() => events.events.find((one) => one.event_type === 'application_user_deleted.v0' && one.object?.id === signed.three.session.user), 'the event of who made room', 120000);
  assert.deepEqual(gone.principal, { id: signed.three.session.user, subject: signed.three.session.user, source: 'IDLE', credential: null });
  assert.equal((await ask('session.check', { hash: signed.one.hash, route: signed.one.route, digest: signed.one.session.digest })).code, OK);
  await events.stop();
});

// An account of more users than the story's, of whom none can be deleted; free() lets them go.
function stuck() {
  const { id: account_id } = account(), users = Array.from({ length: 6 }, () => `app_user_${ksuid()}`);
  for (const id of users)
    sql(`INSERT INTO object (id, account_id, kind) VALUES ('${id}', '${account_id}', 'application_user');
         INSERT INTO application_user (id, account_id, created_at, identity_provider, provider_user_id, username, email, name, last_active, last_login, provider_url)
           VALUES ('${id}', '${account_id}', '2020-01-01T00:00:00Z', '{"name": "oidc", "url": "https://issuer.test"}', '${id}', '', '', '', '2020-01-01T00:00:00Z', '2020-01-01T00:00:00Z', 'https://issuer.test')`);
  sql(`CREATE FUNCTION stuck_${process.pid}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stuck'; END $$;
       CREATE TRIGGER stuck_${process.pid} BEFORE DELETE ON application_user FOR EACH ROW WHEN (OLD.account_id = '${account_id}') EXECUTE FUNCTION stuck_${process.pid}()`);
  return { free: () => sql(`DROP TRIGGER stuck_${process.pid} ON application_user; DROP FUNCTION stuck_${process.pid}(); DELETE FROM object WHERE account_id = '${account_id}' AND kind = 'application_user'`) };
}

test('near the limit users who have been idle for the time of the setting are deleted, and others are not', options, async () => {
  await stop();
  assert.deepEqual(await users(), ['five', 'four', 'one', 'two']);
  ago('two', 91); // has no session
  ago('four', 400);
  start(1000000, { POSTERN_SIGN_IN_TIDY_SECONDS: '1' });
  await until(async () => await metric('users_idle_deleted') >= 0, 'it is there', 120000);
  await stop();
  assert.deepEqual(await users(), ['five', 'four', 'one', 'two'], 'far from the limit nobody is');
  const other = stuck();
  try {
    start(LIMIT, { POSTERN_SIGN_IN_TIDY_SECONDS: '1', POSTERN_USER_IDLE_SECONDS: String(90 * 86400) });
    await until(async () => (await users()).length === 3, 'somebody is deleted, though none of another account can be', 120000);
    assert.deepEqual(await users(), ['five', 'four', 'one']);
    await until(async () => await metric('users_idle_deleted') >= 1, 'it is counted', 120000);
  } finally { other.free(); }
});

test('who made room has not been revoked: a sign-in that began before is good; one of somebody whom the API deleted is not', options, async () => {
  await stop();
  start(3);
  assert.deepEqual(await users(), ['five', 'four', 'one']);
  const back = await prove('four');
  for (const { id } of (await room.mine.must('GET', '/app/sessions?limit=100')).application_sessions) await room.mine.must('DELETE', `/app/sessions/${id}`);
  ago('four', 500);
  assert.equal((await signIn('six')).code, OK);
  assert.deepEqual(await users(), ['five', 'one', 'six'], 'four made room');
  const again = await redeem(back);
  assert.equal(again.code, OK, again.msg);
  assert.deepEqual(await users(), ['five', 'four', 'six']);
  const revoked = await prove('four');
  await room.mine.must('DELETE', `/app/users/${again.session.user}`);
  assert.equal((await redeem(revoked)).code, SIGN_IN_CODE);
  assert.deepEqual(await users(), ['five', 'six']);
});

test('at the limit of sessions whoever has most of them loses the one that was idle for longest, and nobody else one', options, async () => {
  const events = await listening(), ended = await metric('sessions_ended_for_room');
  assert.equal(ended, 0);
  await anew(LIMIT);
  const greedy = [await signIn('greedy'), await signIn('greedy'), await signIn('greedy')], honest = await signIn('honest');
  for (const one of [...greedy, honest]) assert.equal(one.code, OK, one.msg);
  sql(`UPDATE application_session SET last_active = now() - interval '3 days' WHERE id = '${honest.session.id}'`); // idle for longer than all
  sql(`UPDATE application_session SET last_active = now() - interval '2 days' WHERE id = '${greedy[1].session.id}'`);
  const next = await signIn('honest');
  assert.equal(next.code, OK, next.msg);
  const check = async ({ hash, route, session }) => (await ask('session.check', { hash, route, digest: session.digest })).code;
  assert.deepEqual(await Promise.all([...greedy, honest, next].map(async (one) => await check(one) === OK)), [true, false, true, true, true]);
  const gone = await until(() => events.events.find((one) => one.event_type === 'application_session_deleted.v0' && one.object?.id === greedy[1].session.id), 'the event of what made room', 120000);
  assert.deepEqual(gone.principal, { id: greedy[1].session.user, subject: greedy[1].session.user, source: 'IDLE', credential: null });
  assert.equal(await metric('sessions_ended_for_room'), 1);
  await events.stop();
});

test('where everybody has one session a sign-in beyond the limit is refused, and nobody loses his', options, async () => {
  await anew(3);
  const signed = [];
  for (const sub of ['first', 'second', 'third']) signed.push(await signIn(sub));
  for (const one of signed) assert.equal(one.code, OK, one.msg);
  assert.notEqual((await signIn('first')).code, OK);
  assert.equal(await metric('sessions_refused'), 1);
  for (const { hash, route, session } of signed) assert.equal((await ask('session.check', { hash, route, digest: session.digest })).code, OK);
});

test('of those who have equally many sessions it is the one that was idle for longest that goes, however long somebody has been a user', options, async () => {
  await anew(6);
  const all = await signInAll('first', 'first', 'second', 'second', 'third', 'third');
  idle(5, all[0], all[2], all[3]);
  idle(20, all[5]);
  idle(10, all[1], all[4]);
  await signInAll('fourth');
  assert.deepEqual(await alive(all), [true, true, true, true, true, false]);
  await signInAll('fifth');
  assert.deepEqual(await alive(all), [true, false, true, true, true, false], 'third has one left, which was idle for as long');
});

for (const [what, set] of [['a provider', "identity_provider = '{\"name\": \"saml\", \"url\": \"https://flood.test\"}', provider_url = 'https://flood.test'"], ['one form of names', "name_form = 'ab12 - -'"]])
  test(`where everybody has one session, who is vouched for by another than ${what} that has most of them gets in, and nobody loses one in use to his own`, options, async () => {
    await anew(4);
    const [one, ...flood] = await signInAll('one', 'f1', 'f2', 'f3'), events = await listening();
    sql(`UPDATE application_user SET ${set} WHERE account_id = '${room.mine.id}' AND provider_user_id IN ('f1', 'f2', 'f3')`);
    idle(10, one);
    idle(3, flood[1]);
    const [two] = await signInAll('two'); // the account has as many users as it may have, too
    assert.deepEqual([await users(), await alive([one, two, ...flood])], [['f1', 'f3', 'one', 'two'], [true, true, true, false, true]]);
    assert.deepEqual([await metric('users_deleted_for_room'), await metric('sessions_ended_for_room')], [1, 1]);
    const gone = (id) => until(() => events.events.find((event) => /_deleted\.v0$/.test(event.event_type) && event.object?.id === id), `the event of ${id}`, 120000);
    for (const id of [flood[1].session.user, flood[1].session.id]) assert.equal((await gone(id)).principal.source, 'IDLE');
    assert.notEqual((await signIn('three')).code, OK, 'half of them is not most of them');
    assert.notEqual((await signIn('one')).code, OK);
    assert.deepEqual(await alive([one, two, flood[0], flood[2]]), [true, true, true, true], 'and nobody has lost one');
    idle(31, flood[0]);
    const [three] = await signInAll('three');
    assert.deepEqual([await users(), await alive([one, two, three, flood[2]])], [['f3', 'one', 'three', 'two'], [true, true, true, true]]);
    assert.notEqual((await signIn('one')).code, OK, 'all of the others are in use');
    idle(31, two);
    const [again] = await signInAll('one');
    assert.deepEqual([await users(), await alive([one, again, three, flood[2], two])], [['f3', 'one', 'three', 'two'], [true, true, true, true, false]], 'only the session goes where there is room for the user');
    await events.stop();
  });

test('what the newcomer\'s own provider has idle goes before what is in use of the one that has most', options, async () => {
  await anew(5);
  const all = await signInAll('one', 'two', 'f1', 'f2', 'f3');
  sql(`UPDATE application_user SET identity_provider = '{"name": "saml", "url": "https://flood.test"}', provider_url = 'https://flood.test' WHERE account_id = '${room.mine.id}' AND provider_user_id LIKE 'f_'`);
  idle(40, all[0]);
  idle(50, all[1]);
  idle(20, ...all.slice(2));
  await signInAll('three');
  assert.deepEqual([await users(), await alive(all)], [['f1', 'f2', 'f3', 'one', 'three'], [true, false, true, true, true]]);
});
