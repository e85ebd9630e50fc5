// A user is deleted while he signs in many times at once: all of them take their locks in one order, so that nobody waits for who waits for
// him. PostgreSQL finds such a circle after a second and breaks it, which costs the deletion a try, and everybody's questions a worker.
import assert from 'node:assert/strict';
import test from 'node:test';
import { elsewhere, until } from '../support/postern.mjs';
import { holding, place, sql, userRoom } from '../support/user-room.mjs';

const options = { skip: elsewhere }, MANY = 20, OK = 0, NO_CODE = 234, GONE = 238;
const room = elsewhere ? {} : await userRoom(1000), { ask, prove, redeem, users } = room;
const deadlocks = () => Number(sql('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()'));
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
    all = [redeem(proofs.pop())];
    await until(() => lock.waiting() === 1, 'it waits for the row of the user');
    gone = room.mine.api('DELETE', `/app/users/${first.session.user}`);
    await until(() => lock.waiting() === 2, 'the deletion waits');
    all.push(...proofs.map(redeem));
    await until(() => lock.waiting() > 2, 'another sign-in waits');
  } finally { await lock.end(); }
  const answers = [...await Promise.all(all), await redeem(kept)];
  assert.equal((await gone).status, 204);
  assert.equal(deadlocks(), before, 'deadlocks');

  // Whoever was in before the deletion is out with it, and nobody came in behind it.
  assert.equal(answers[0].code, OK, 'it was before the deletion');
  assert.deepEqual(answers.filter(({ code }) => code !== OK && code !== NO_CODE), []);
  assert.equal(answers.at(-1).code, NO_CODE, 'proved before the deletion');
  for (const one of [first, ...answers.filter(({ code }) => code === OK)]) assert.equal((await check(one)).code, GONE);
  assert.deepEqual(await users(), []);
  assert.equal((await redeem(await prove('eve', at))).code, OK, 'the next one, which begins then, is good at once');
});
