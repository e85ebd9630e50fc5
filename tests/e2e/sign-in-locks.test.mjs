// Users and sessions are deleted while people sign in, and while their sessions are used and checked: all take their locks in one order, so
// that nobody waits for who waits for him. PostgreSQL finds such a circle after a second and breaks it, which costs one of them a try, and
// everybody's questions a worker.
import assert from 'node:assert/strict';
import test from 'node:test';
import { elsewhere, until } from '../support/postern.mjs';
import { holding, place, sql, userRoom } from '../support/user-room.mjs';

const options = { skip: elsewhere }, MANY = 20, OK = 0, NO_CODE = 234, GONE = 238, LATE = 503;
const room = elsewhere ? {} : await userRoom(1000), { ask, prove, redeem, users } = room;
const deadlocks = () => Number(sql('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()'));
// The deletion has no more time than a statement on a slow machine, and is asked for again where it has had none left.
const removed = async (target) => {
  const may = [204, 503];
  await until(async () => {
    const { status } = await room.mine.api('DELETE', target);
    assert.ok(may.includes(status), `${target}: ${status}`);
    may.push(404); // what was told too late may have been done
    return status !== 503;
  }, 'the deletion');
};
const touch = ({ hash }) => ask('session.touch', { sessions: [{ hash, last_active_ms: Date.now() + 5000 }] });
const checkAnew = ({ hash, route, session }, sealed) => ask('session.check', { hash, route, digest: session.digest, sealed });
const check = ({ hash, route, session }) => ask('session.check', { hash, route, digest: session.digest });

test('who signs in 20 times at once is deleted without a deadlock, and what was proved before leads to nothing', options, async () => {
  const at = place(), first = await redeem(await prove('eve', at)), proofs = [];
  assert.equal(first.code, OK, first.msg);
  for (let i = 0; i < MANY + 2; i++) proofs.push(await prove('eve', at));
  const kept = proofs.pop(), before = deadlocks();

  // The first of them is in the midst of it when the deletion begins, and the others come behind that.
  const lock = await holding(`SELECT FROM application_user WHERE id = '${first.session.user}' FOR UPDATE`);
  let all, gone;
  try {
    all = [];
    let over = true; // a statement waits for 5 s, and may be over before it was seen to wait
    const again = () => {
      if (!over) return;
      over = false;
      all.push(redeem(proofs.pop()));
      all.at(-1).finally(() => { over = true; });
    };
    await until(() => { again(); return lock.waiting() >= 1; }, 'it waits for the row of the user');
    gone = removed(`/app/users/${first.session.user}`);
    await until(() => { again(); return lock.waiting() >= 2; }, 'the deletion waits');
    all.push(...proofs.map(redeem));
    await until(() => lock.waiting() > 2, 'another sign-in waits');
  } finally { await lock.end(); }
  const answers = await Promise.all(all);
  await gone;
  assert.equal(deadlocks(), before, 'deadlocks');

  // Whoever was in before the deletion is out with it, and nobody comes in behind it.
  assert.deepEqual(answers.filter(({ code }) => ![OK, NO_CODE, LATE].includes(code)), []);
  assert.ok(answers.some(({ code }) => code !== LATE));
  assert.equal((await redeem(kept)).code, NO_CODE, 'proved before the deletion');
  for (const one of [first, ...answers.filter(({ code }) => code === OK)]) assert.equal((await check(one)).code, GONE);
  assert.deepEqual(await users(), []);
  assert.equal((await redeem(await prove('eve', at))).code, OK, 'the next one, which begins then, is good at once');
});

// Both wait for a row of the session, the deletion first; then they go on at once.
for (const [what, target] of [['user', ({ session }) => `/app/users/${session.user}`], ['session', ({ session }) => `/app/sessions/${session.id}`]])
  for (const [how, use, claims] of [['used', touch, 'claims'], ['checked by other rules', checkAnew, 'claims'], ['checked with its provider', checkAnew, 'NULL']])
    test(`a ${what} is deleted while the session is ${how}, without a deadlock`, options, async () => {
      const proof = await prove('eve'), one = await redeem(proof), before = deadlocks();
      assert.equal(one.code, OK, one.msg);
      sql(`UPDATE sign_in_session SET digest = 'of other rules', claims = ${claims} WHERE session_id = '${one.session.id}'`);
      const lock = await holding(`SELECT FROM application_session WHERE id = '${one.session.id}' FOR UPDATE`);
      let used, gone;
      try {
        gone = removed(target(one));
        await until(() => lock.waiting() >= 1, 'the deletion waits');
        let over = true; // a statement waits for 5 s, and may be over before it was seen to wait
        await until(() => {
          if (over) {
            over = false;
            used = use(one, proof.words.sealed);
            used.finally(() => { over = true; });
          }
          return lock.waiting() >= 2;
        }, 'the other waits');
      } finally { await lock.end(); }
      assert.ok([OK, GONE, LATE].includes((await used).code));
      await gone;
      assert.equal(deadlocks(), before, 'deadlocks');
      assert.equal((await check(one)).code, GONE);
    });

// Of a copy in which a user may have two sessions.
const aged = (...list) => sql(`UPDATE application_user SET last_active = last_active - interval '1 min' WHERE id IN (${list.map(({ session }) => `'${session.user}'`).join()})`);
// Asked for again where a statement, which waits for 5 s, was over before it was seen to wait.
async function seenWaiting(lock, count, use) {
  let used, over = true;
  await until(() => {
    if (over) {
      over = false;
      used = use();
      used.finally(() => { over = true; });
    }
    return lock.waiting() >= count;
  }, `${count} wait`);
  return () => used;
}

test('a user of the following may have two sessions', options, () => room.anew(1000, { POSTERN_USER_SESSIONS: '2' }));

for (const [how, use, claims] of [['used', touch, 'claims'], ['checked with its provider', checkAnew, 'NULL']])
  test(`a sign-in ends the user's oldest session while that is ${how}, without a deadlock`, options, async () => {
    const at = place(), proof = await prove('eve', at), oldest = await redeem(proof), newer = await redeem(await prove('eve', at)), before = deadlocks();
    assert.deepEqual([oldest.code, newer.code], [OK, OK]);
    sql(`UPDATE sign_in_session SET digest = 'of other rules', claims = ${claims} WHERE session_id = '${oldest.session.id}'`);
    aged(oldest);
    const lock = await holding(`SELECT FROM application_user WHERE id = '${oldest.session.user}' FOR UPDATE`);
    let signIn, used;
    try {
      const proofs = [];
      for (let i = 0; i < MANY; i++) proofs.push(await prove('eve', at));
      signIn = await seenWaiting(lock, 1, () => redeem(proofs.pop()));
      used = await seenWaiting(lock, 2, () => use(oldest, proof.words.sealed));
    } finally { await lock.end(); }
    assert.ok([OK, LATE].includes((await signIn()).code));
    assert.ok([OK, GONE, LATE].includes((await used()).code));
    assert.equal(deadlocks(), before, 'deadlocks');
    assert.equal((await redeem(await prove('eve', at))).code, OK);
    assert.equal((await check(oldest)).code, GONE);
  });

test('a sign-in ends the sessions that its browser had while both are used, without a deadlock', options, async () => {
  const at = place(), both = [await redeem(await prove('mallory', at)), await redeem(await prove('trent', at))].sort((a, b) => (a.session.id < b.session.id ? -1 : 1));
  assert.deepEqual(both.map(({ code }) => code), [OK, OK]);
  const before = deadlocks(), proofs = [], old = [both[1].token, both[0].token];
  for (let i = 0; i < MANY; i++) proofs.push(await prove('carol', at));
  const lock = await holding(`SELECT FROM application_session WHERE id = '${both[0].session.id}' FOR UPDATE`);
  let signIn, used;
  try {
    used = await seenWaiting(lock, 1, () => ask('session.touch', { sessions: both.map(({ hash }) => ({ hash, last_active_ms: Date.now() + 5000 })) }));
    signIn = await seenWaiting(lock, 2, () => { const proof = proofs.pop(); return redeem({ ...proof, words: { ...proof.words, old } }); });
  } finally { await lock.end(); }
  assert.ok([OK, LATE].includes((await used()).code));
  assert.equal((await signIn()).code, OK);
  assert.equal(deadlocks(), before, 'deadlocks');
  for (const one of both) assert.equal((await check(one)).code, GONE);
});

test('two sign-ins end the same sessions, whose cookies their browsers have shown in opposite orders, without a deadlock', options, async () => {
  const at = place(), both = [await redeem(await prove('mallory', at)), await redeem(await prove('trent', at))].sort((a, b) => (a.session.id < b.session.id ? -1 : 1));
  assert.deepEqual(both.map(({ code }) => code), [OK, OK]);
  const before = deadlocks(), proofs = { carol: [], dave: [] }, old = both.map(({ token }) => token);
  for (const sub of Object.keys(proofs)) for (let i = 0; i < MANY; i++) proofs[sub].push(await prove(sub, at));
  const shows = (sub, list) => () => { const proof = proofs[sub].pop(); return redeem({ ...proof, words: { ...proof.words, old: list } }); };
  const lock = await holding(`SELECT FROM application_session WHERE id = '${both[1].session.id}' FOR UPDATE`);
  let one, other;
  try {
    one = await seenWaiting(lock, 1, shows('carol', [...old].reverse()));
    other = await seenWaiting(lock, 2, shows('dave', old));
  } finally { await lock.end(); }
  assert.ok([OK, LATE].includes((await one()).code));
  assert.equal((await other()).code, OK);
  assert.equal(deadlocks(), before, 'deadlocks');
  for (const each of both) assert.equal((await check(each)).code, GONE);
});

// So two batches of the same users wait for each other in one direction only.
test('users whose sessions were used are locked in the order of their ids', options, async () => {
  const all = await room.signInAll(...Array.from({ length: 12 }, (_, i) => `used-${i}`)), ids = all.map(({ session }) => session.user).sort(), middle = ids[6];
  aged(...all);
  const lock = await holding(`SELECT FROM application_user WHERE id = '${middle}' FOR UPDATE`);
  let free, used;
  try {
    do {
      used = await seenWaiting(lock, 1, () => ask('session.touch', { sessions: all.map(({ hash }) => ({ hash, last_active_ms: Date.now() + 5000 })) }));
      free = sql(`SELECT id FROM application_user WHERE id IN (${ids.map((id) => `'${id}'`).join()}) ORDER BY id FOR UPDATE SKIP LOCKED`).split('\n');
    } while (!lock.waiting());
  } finally { await lock.end(); }
  assert.ok([OK, LATE].includes((await used()).code));
  assert.deepEqual(free, ids.slice(7));
});

// The provider has given them in place of others, so they are kept until they are written; not at the expense of whoever comes meanwhile.
test('a session whose new tokens cannot be written keeps no other one from being checked, and has them later', options, async () => {
  const proof = await prove('eve'), one = await redeem(proof), other = await room.signIn('mallory'), { provider } = room;
  assert.deepEqual([one.code, other.code], [OK, OK]);
  sql(`UPDATE sign_in_session SET digest = 'of other rules', claims = NULL WHERE session_id = '${one.session.id}'`);
  const stored = () => sql(`SELECT tokens FROM sign_in_session WHERE session_id = '${one.session.id}'`), before = stored();
  let lock, go;
  provider.asked.length = 0;
  provider.hold = new Promise((resolve) => { go = resolve; });
  try {
    const checked = checkAnew(one, proof.words.sealed);
    await until(() => provider.asked.includes('/oauth/token'), 'the provider is asked');
    lock = await holding(`SELECT FROM sign_in_session WHERE session_id = '${one.session.id}' FOR UPDATE`);
    go();
    await until(() => lock.waiting() >= 1, 'its new tokens wait');
    assert.equal((await checked).code, LATE);
    for (let i = 0; i < 3; i++) assert.equal((await check(other)).code, OK);
    assert.equal(stored(), before);
  } finally { go(); await lock?.end(); provider.hold = null; }
  assert.equal((await check(other)).code, OK);
  assert.notEqual(stored(), before, 'whoever comes next writes them');
  // and gives back the turn of the call that asked for them, which would last a minute
  await until(async () => (await check(other)).code === OK && sql(`SELECT checking_until_ms FROM sign_in_session WHERE session_id = '${one.session.id}'`) === '0', 'the turn is given back', 20000);
  assert.equal((await checkAnew(one, proof.words.sealed)).code, OK);
  assert.equal(provider.refused, 0);
});

// The turn of the call that has asked may be over by then: here somebody else has ended it.
test('nobody asks the provider of a session with the tokens before while its new ones are being written', options, async () => {
  const proof = await prove('eve'), one = await redeem(proof), { provider } = room;
  assert.equal(one.code, OK);
  sql(`UPDATE sign_in_session SET digest = 'of other rules', claims = NULL WHERE session_id = '${one.session.id}'`);
  let lock, go, checked, again, over = false; // a statement waits for 5 s, and may be over before it was seen to wait
  provider.asked.length = 0;
  provider.hold = new Promise((resolve) => { go = resolve; });
  try {
    checked = checkAnew(one, proof.words.sealed);
    checked.finally(() => { over = true; });
    await until(() => provider.asked.includes('/oauth/token'), 'the provider is asked');
    sql(`UPDATE sign_in_session SET checking_until_ms = 0 WHERE session_id = '${one.session.id}'`);
    lock = await holding(`SELECT FROM sign_in_session WHERE session_id = '${one.session.id}' FOR UPDATE`);
    again = await seenWaiting(lock, 1, () => checkAnew(one, proof.words.sealed));
    go();
    await until(() => over || lock.waiting() >= 2, 'the new tokens wait');
  } finally { go(); await lock?.end(); provider.hold = null; }
  for (const { code } of await Promise.all([checked, again()])) assert.ok([OK, LATE].includes(code), code);
  assert.equal(provider.refused, 0);
  assert.equal((await checkAnew(one, proof.words.sealed)).code, OK);
  assert.equal(provider.refused, 0);
});
