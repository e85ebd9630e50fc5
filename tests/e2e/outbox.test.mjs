// Audit events on their way from a service's outbox to the log: each is stored once, whatever is slow, late or refused.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ownEvents } from '../support/events.mjs';
import { env, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const own = ownEvents(`outbox${process.pid}`);
const isEmpty = () => { try { return own.outbox() === 0; } catch { return false; } };
const isLogged = (id) => own.sql(`SELECT count(*) FROM events.log WHERE event_id = '${id}'`) === '1';
const event = (id, more = '') => `jsonb_build_object('event_id', '${id}', 'event_type', 'vault_created.v0', 'event_timestamp', '2026-01-01T00:00:00Z', 'account_id', 'ac_1', 'principal', null, 'object', '{}'::jsonb) ${more}`;
let service;

test.before(async () => {
  if (skip) return;
  own.setUp();
  service = own.begin(own.events());
  own.begin(own.identity('a'));
  await until(isEmpty, 'both services', 60000);
});
test.after(() => skip || own.tearDown());

test('an acknowledgement that comes late removes no event that was committed after its batch was sent', { skip, timeout: 120000 }, async () => {
  own.emit(1); // the topic is there
  await until(isEmpty, 'nothing on its way', 30000);
  const [late, slow, slower] = [own.session(), own.session(), own.session()];
  try {
    await late.say(`BEGIN; INSERT INTO identity.outbox (event) VALUES (${event('ev_late')});`); // takes its number, commits behind the next one
    await slow.say('BEGIN; SELECT 1 FROM events.topic FOR UPDATE;'); // the event service stands still with the batch
    own.emit(1);
    await until(() => own.waiting() === 1, 'the event service has the batch', 30000);
    slower.start('BEGIN; SELECT 1 FROM events.topic FOR UPDATE;'); // and with the next one
    await until(() => own.waiting() === 2, 'the next lock waits behind it', 30000);
    await late.say('COMMIT;');
    const sent = await own.metric('batches_total');
    await until(async () => await own.metric('batches_total') >= sent + 2, 'it was sent again', 30000);
    await slow.say('ROLLBACK;');
    await until(() => own.outbox() < 2, 'the acknowledgement', 8000).catch(() => {}); // who gets the lock next is up to PostgreSQL
    service.kill('SIGKILL');
    slower.start('ROLLBACK;');
  } finally { for (const one of [late, slow, slower]) one.end(); }
  await service.stop();
  service = own.begin(own.events());
  await until(isEmpty, 'the rest', 30000);
  assert.ok(isLogged('ev_late'));
});
