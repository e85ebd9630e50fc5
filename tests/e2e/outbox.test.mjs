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
  await until(isEmpty, 'both services', 120000);
});
test.after(() => skip || own.tearDown());

test('an acknowledgement that comes late removes no event that was committed after its batch was sent', { skip, timeout: 280000 }, async () => {
  own.emit(1); // the topic is there
  await until(isEmpty, 'nothing on its way', 120000);
  const [late, slow, slower] = [own.session(), own.session(), own.session()];
  try {
    await late.say(`BEGIN; INSERT INTO identity.outbox (event) VALUES (${event('ev_late')});`); // takes its number, commits behind the next one
    await slow.say('BEGIN; SELECT 1 FROM events.topic FOR UPDATE;'); // the event service stands still with the batch
    own.emit(1);
    await until(() => own.waiting() === 1, 'the event service has the batch', 120000);
    slower.start('BEGIN; SELECT 1 FROM events.topic FOR UPDATE;'); // and with the next one
    await until(() => own.waiting() === 2, 'the next lock waits behind it', 120000);
    await late.say('COMMIT;');
    const sent = await own.metric('batches_total');
    await until(async () => await own.metric('batches_total') >= sent + 2, 'it was sent again', 120000);
    await slow.say('ROLLBACK;');
    await until(() => own.outbox() < 2, 'the acknowledgement', 8000).catch(() => {}); // who gets the lock next is up to PostgreSQL
    service.kill('SIGKILL');
    slower.start('ROLLBACK;');
  } finally { for (const one of [late, slow, slower]) one.end(); }
  await service.stop();
  service = own.begin(own.events());
  await until(isEmpty, 'the rest', 120000);
  assert.ok(isLogged('ev_late'));
});

const refused = () => Number(own.sql('SELECT count(*) FROM identity.outbox_refused'));
const metric = async () => Number(/^postern_identity_audit_events_refused (\d+)/m.exec(await fetch(`http://127.0.0.1:${own.other}/metrics`).then((got) => got.text()).catch(() => ''))?.[1] ?? -1);

test('an audit event that cannot be stored is kept aside, and what is behind it goes on', { skip, timeout: 280000 }, async () => {
  await until(isEmpty, 'nothing on its way', 120000);
  own.sql("ALTER TABLE events.log ADD CONSTRAINT story CHECK (event_id <> 'ev_bad')");
  const long = 'x'.repeat(9000);
  own.sql(`INSERT INTO identity.outbox (event) VALUES (${event('ev_before')}), (${event('ev_bad')}), (${event('ev_between')}), (${event(long)}), ('{"event_type": 1}'), ('[]'), (${event('ev_after')}); NOTIFY identity_outbox`);
  await until(isEmpty, 'the outbox is empty', 120000);
  for (const id of ['ev_before', 'ev_between', 'ev_after']) assert.ok(isLogged(id), id);
  assert.equal(refused(), 4, 'none of the others is lost');
  await until(async () => await metric() === 4, 'they are counted');
  assert.equal(await own.ready(), 200);
  own.sql("ALTER TABLE events.log DROP CONSTRAINT story; INSERT INTO identity.outbox (event) SELECT event FROM identity.outbox_refused; DELETE FROM identity.outbox_refused; NOTIFY identity_outbox");
  await until(() => isEmpty() && isLogged('ev_bad'), 'what was put back and can be stored now', 120000);
  await until(() => refused() === 3, 'the rest is refused again', 120000);
});

test('while nothing can be stored nothing is refused, and the event service is not ready', { skip, timeout: 280000 }, async () => {
  own.sql('DELETE FROM identity.outbox_refused');
  own.sql('ALTER TABLE events.log RENAME TO elsewhere');
  own.sql(`INSERT INTO identity.outbox (event) VALUES (${event('ev_patient')}); NOTIFY identity_outbox`);
  await until(async () => await own.ready() === 503, 'it says so', 120000);
  own.sql('ALTER TABLE events.elsewhere RENAME TO log');
  await until(() => isEmpty() && isLogged('ev_patient'), 'it is stored', 120000);
  await until(async () => await own.ready() === 200, 'it is ready again', 120000);
  assert.equal(refused(), 0);
});

test('no event of the running system was refused', { skip }, () => {
  for (const service of ['routes', 'identity', 'events'])
    assert.equal(own.sql(`SELECT coalesce(string_agg(event->>'event_type', ' '), '') FROM ${service}.outbox_refused`, env.DATABASE_URL), '', service);
});
