// What one peer asks of a service, with its key of the bus, keeps no other waiting: its requests have a share of the room, and turns.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ownEvents } from '../support/events.mjs';
import { caller } from '../support/peer.mjs';
import { env, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const own = ownEvents(`turns${process.pid}`);
const OVER_SHARE = 504, TOO_LARGE = 117, TYPE = 'vault_created.v0';
const missed = { type: TYPE, first: 1, last: 2 ** 53, after: 0, missed: 0 };
const asks = (key) => own.begin(caller(key, 'events', own.socket('rpc')));

test.before(async () => {
  if (skip) return;
  own.setUp();
  own.begin(own.events());
  await until(() => { try { return own.logged() === 0; } catch { return false; } }, 'the service', 120000);
});
test.after(() => skip || own.tearDown());

// What a call of the API asks for, and what its answer says.
async function calls(gateway) {
  const id = gateway.ask('event_subscription.list', { query: {}, path: '/event_subscriptions', base: 'http://127.0.0.1' }, { account: 'ac_nobody' });
  await until(() => gateway.answer(id), 'an answer to the gateway', 120000);
  return gateway.answer(id).code;
}

test('a subscriber that asks without end is refused what is beyond its share, and nobody waits for it', { skip, timeout: 300000 }, async () => {
  const MANY = 1000, subscriber = asks('subscriber'), gateway = asks('gateway'), lock = own.session();
  const requests = await own.metric('requests_total');
  assert.equal(await calls(gateway), 0);
  let ids;
  try {
    await lock.say('BEGIN; LOCK TABLE events.log IN ACCESS EXCLUSIVE MODE;'); // each of them keeps a worker for seconds
    ids = Array.from({ length: MANY }, () => subscriber.ask('event.missed', missed));
    await until(async () => await own.metric('requests_total') >= requests + 1 + MANY, 'all of it is read', 120000);
    for (let i = 0; i < 20; i++) assert.equal(await calls(gateway), 0, 'the gateway, meanwhile');
    await until(() => own.waiting() >= 1, 'some of its requests are worked on still');
    await lock.say('ROLLBACK;');
  } finally { lock.end(); }
  await until(() => ids.every((id) => subscriber.answer(id)), 'each is answered', 120000);
  const refused = ids.filter((id) => subscriber.answer(id).code === OVER_SHARE).length;
  assert.ok(refused >= MANY / 2 && refused < MANY, `${refused} of ${MANY} were refused`);
  assert.equal(await own.metric('requests_over_share_total'), refused);
  const last = subscriber.ask('event.missed', missed);
  await until(() => subscriber.answer(last), 'its next one');
  assert.equal(subscriber.answer(last).code, 0, 'which has room again');
});

test('who has no document to send is refused one', { skip, timeout: 300000 }, async () => {
  for (const key of ['subscriber', 'cli']) {
    const one = asks(key), id = one.ask('event.heads', { prefix: '', more: 'x'.repeat(20000) }), small = one.ask('event.heads', { prefix: '', more: 'x'.repeat(2000) });
    await until(() => one.answer(id) && one.answer(small), `answers to ${key}`);
    assert.deepEqual([one.answer(id).code, one.answer(small).code], [TOO_LARGE, 0], key);
  }
});

test('a message of more frames than a request has is none', { skip, timeout: 300000 }, async () => {
  for (const key of ['subscriber', 'cli', 'gateway']) {
    const one = asks(key), [verb, body] = key === 'gateway' ? ['event_subscription.list', { query: {} }] : ['event.heads', { prefix: '' }];
    const [many, few] = [1000, 2].map((count) => one.ask(verb, body, { account: 'ac_nobody', also: Array(count).fill('') }));
    await until(() => one.answer(many) && one.answer(few), `answers to ${key}`);
    assert.deepEqual([one.answer(many).code, one.answer(few).code], [TOO_LARGE, 0], key);
  }
});

test('what was missed is counted up to a bound', { skip, timeout: 300000 }, async () => {
  const BOUND = 10000, one = asks('subscriber');
  own.sql(`INSERT INTO events.log (event_id, event_type, account_id, event, number) SELECT 'ev_' || i, '${TYPE}', 'ac_1', '{}', i FROM generate_series(1, ${BOUND + 1}) i`);
  const range = async (last) => {
    const id = one.ask('event.missed', { ...missed, last });
    await until(() => one.answer(id), 'an answer');
    const { kept, beyond, events, more } = one.answer(id).body;
    return [kept, beyond, events.length, more];
  };
  assert.deepEqual(await range(10), [10, false, 10, false]);
  assert.deepEqual(await range(BOUND), [BOUND, false, 64, true]);
  assert.deepEqual(await range(2 ** 53), [BOUND, true, 64, true]);
});
