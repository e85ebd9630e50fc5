// What one producer may cost: the intake with the key of an edge that says what it likes; and what an edge makes of what the intake says.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { ownEvents } from '../support/events.mjs';
import { edgeKey, pack, peer, service } from '../support/peer.mjs';
import { edge, endpoint, env, through, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const own = ownEvents(`intake${process.pid}`);
const isEmpty = () => { try { return own.outbox() === 0; } catch { return false; } };
const record = (kind, body) => { const head = Buffer.alloc(5); head[0] = kind; head.writeUInt32BE(body.length, 1); return Buffer.concat([head, body]); };
const LAYOUT = record(0, Buffer.from('http_request_complete.v0\nbackend.connection_reused BOOL '));
const value = (text) => record(255, Buffer.concat([Buffer.from([0]), pack('ev_1'), Buffer.from([1]), pack(1), Buffer.from([2]), pack(text)]));
let count = 0;

test.before(async () => {
  if (skip) return;
  own.setUp();
  own.begin(own.events());
  own.begin(own.identity('a'));
  await until(isEmpty, 'both services', 120000);
});
test.after(() => skip || own.tearDown());

// An edge of the key's name; batch(numbers, body) sends one of its own producer, acked(seq) when that is answered.
function producer(...connection) {
  const name = `${edgeKey().slice('edge@'.length)}/story${count++}`;
  const one = own.begin(peer(edgeKey(), 'events', own.socket('in'), ...connection));
  one.name = name;
  one.batch = (numbers, body = Buffer.alloc(0)) => one.send('batch', pack({ producer: name, family: 'traffic', dropped: 0, count: 0, oldest: true, ...numbers }), body);
  one.acked = (seq) => one.got.some((frames) => String(frames[0]) === 'ack' && String(frames[1]) === String(seq) && String(frames[2]) === name);
  return one;
}

// A peer names its connection as it likes (ZMQ_ROUTING_ID).
for (const name of ['$TERM', 'again', 'noted', 'listeners'])
  test(`a producer whose connection is called ${name} stops nobody's events`, { skip, timeout: 280000 }, async () => {
    const one = producer(name), other = producer();
    for (let seq = 1; seq <= 20; seq++) {
      one.batch({ seq });
      await until(() => one.acked(seq), `batch ${seq}`, 120000);
    }
    other.batch({ seq: 1 });
    await until(() => other.acked(1), 'what another sends', 120000);
  });

test('numbers that a producer makes up stop nobody\'s events', { skip, timeout: 280000 }, async () => {
  const liar = producer();
  for (const dropped of [2n ** 62n, 2n ** 63n - 1n]) for (const seq of [1, 2]) liar.batch({ seq, dropped });
  const most = 2n ** 53n;
  for (let i = 3n; i > 0n; i--) liar.batch({ seq: most - i, dropped: most - i });
  await until(() => liar.acked(most - 1n), 'what is within bounds', 120000);
  own.sql(`UPDATE events.producer SET events = 9223372036854775807, dropped = 9223372036854775807, lost = 9223372036854775807 WHERE name = '${liar.name}'`);
  liar.batch({ seq: most, dropped: 1, count: 1 }, Buffer.concat([LAYOUT, value('ac_1')]));
  await until(() => liar.acked(most), 'sums that are full', 120000);
  assert.equal(own.sql(`SELECT events || ' ' || dropped FROM events.producer WHERE name = '${liar.name}'`), `${most} ${most}`);
  own.emit(1);
  await until(isEmpty, 'the event of somebody else', 120000);
  liar.stop();
});

test('a producer that sends more than there is room for is read on, and keeps nobody else out', { skip, timeout: 280000 }, async () => {
  const MANY = 60, flood = producer(), lock = own.session();
  const body = Buffer.concat([LAYOUT, value('x'.repeat(1 << 20))]);
  const before = await own.metric('batches_total');
  try {
    await lock.say('BEGIN; LOCK TABLE events.producer IN ACCESS EXCLUSIVE MODE;'); // nothing can be stored
    for (let i = 1; i <= MANY; i++) flood.batch({ seq: i, count: 1 }, body);
    await until(async () => await own.metric('batches_total') >= before + MANY, 'all of it is read', 120000);
    assert.ok(await own.metric('pending_bytes') < 40 << 20, 'and most of it thrown away');
    assert.ok(await own.metric('batches_put_off_total') >= 1);
    own.emit(1);
    await lock.say('ROLLBACK;');
  } finally { lock.end(); }
  await until(isEmpty, 'the event of a service', 120000);
  await until(() => flood.got.some((frames) => String(frames[0]) === 'resend'), 'it is told to send again', 120000);
  flood.batch({ seq: MANY, count: 1 }, Buffer.concat([LAYOUT, value('ac_1')]));
  await until(() => flood.acked(MANY), 'what it sends then', 120000);
  flood.stop();
});

test("what an edge's key sends under the name of an audit event, or nearly, reaches no subscriber", { skip, timeout: 280000 }, async () => {
  const liar = producer(), watcher = own.begin(own.watch());
  const event = (topic, envelope) => { const body = pack(envelope), out = record(topic.length, body); return Buffer.concat([out.subarray(0, 5), Buffer.from(topic), body]); };
  const envelope = (type, more = {}) => ({ event_id: 'ev_forged', event_type: type, event_timestamp: '2026-01-01T00:00:00Z', account_id: 'ac_1', principal: null, object: {}, ...more });
  const http = 'http_request_complete.v0';
  await until(async () => await own.metric('subscriptions') >= 1, 'the watcher', 120000);
  const refused = await own.metric('batches_refused_total');
  const forged = [
    ...['api_key_created.v1', 'api_key_created', 'api_key_created.v0.', 'domain_created.v00'].map((type) => event(type, envelope(type))),
    event(http, envelope('api_key_created.v1')), event(http, envelope(http, { principal: { id: 'usr_admin' } })), event(http, envelope(http, { sequence: 7 })),
    Buffer.concat([record(0, Buffer.from('api_key_created.v1\nid STR ')), value('ac_1')]),
  ];
  forged.forEach((body, i) => liar.batch({ seq: i + 1, count: 1 }, body));
  await until(() => forged.every((_, i) => liar.acked(i + 1)), 'it need not send them again', 120000);
  liar.batch({ seq: forged.length + 1, count: 1 }, event(http, envelope(http, { event_id: 'ev_true' })));
  await until(() => watcher.events.some((one) => one.event_id === 'ev_true'), 'a traffic event', 120000);
  assert.deepEqual(watcher.events.filter((one) => one.event_id === 'ev_forged' || one.event_type !== http), []);
  assert.equal(await own.metric('batches_refused_total'), refused + forged.length);
  await watcher.stop();
  liar.stop();
});

test('a header that cannot be read is refused at once, and answered where its sender may speak for who it names', { skip, timeout: 280000 }, async () => {
  const one = producer(), lock = own.session(), refused = await own.metric('batches_refused_total');
  const heard = (word) => one.got.filter((frames) => String(frames[0]) === word).length;
  const broken = { seq: 2n ** 60n }; // no count goes so far
  try {
    await lock.say('BEGIN; LOCK TABLE events.producer IN ACCESS EXCLUSIVE MODE;'); // nothing can be stored
    for (const header of [Buffer.alloc(0), Buffer.from([0xc1]), pack({}), pack({ producer: one.name }), pack({ x: 'x'.repeat(8192) })]) one.send('batch', header, '');
    await until(async () => await own.metric('batches_refused_total') === refused + 5, 'headers that name nobody', 120000);
    one.batch({ ...broken, oldest: false });
    await until(() => heard('resend') >= 1 && !one.acked(2n ** 60n), 'what is before it may wait for an answer still', 120000);
    one.batch({ seq: 2n ** 60n + 1n, producer: 'nobody/1' });
    await until(() => heard('refused') === 1, "another's", 120000);
    one.batch(broken);
    await until(() => one.acked(2n ** 60n), 'its own, and the oldest', 120000);
    assert.ok(!one.acked(2n ** 60n + 1n));
    assert.equal(await own.metric('pending_bytes'), 0, 'nothing of it waits for the database');
    await lock.say('ROLLBACK;');
  } finally { lock.end(); }
  one.batch({ seq: 1 });
  await until(() => one.acked(1), 'what comes behind it', 120000);
  one.stop();
});

test("what one key floods the intake with delays nobody's events by more than two jobs", { skip, timeout: 280000 }, async () => {
  const MANY = 900, JOB = 256, flood = producer(), lock = own.session(); // an edge has 1,024 producers
  const read = async (more) => { const before = await own.metric('batches_total'); await more(); return (count) => until(async () => await own.metric('batches_total') >= before + count, `${count} batches`, 120000); };
  try {
    await lock.say('BEGIN; LOCK TABLE events.producer IN ACCESS EXCLUSIVE MODE;');
    await (await read(() => { for (let i = 0; i < MANY; i++) flood.batch({ producer: `${flood.name}/${i}`, seq: 1, dropped: 1 }); }))(MANY);
    await (await read(() => own.emit(1)))(1);
    await lock.say('ROLLBACK;');
  } finally { lock.end(); }
  await until(isEmpty, 'the event of a service', 120000);
  const of = `events.producer WHERE name LIKE '${flood.name}/%'`;
  await until(() => Number(own.sql(`SELECT count(*) FROM ${of} AND dropped = 1`)) === MANY, 'all of the flood', 120000);
  const before = Number(own.sql(`SELECT count(*) FROM ${of} AND at <= (SELECT max(at) FROM events.log)`));
  assert.ok(before <= 2 * JOB, `${before} of ${MANY} batches were stored before it or with it`);
  flood.stop();
});

// What waits after a stall of the database goes in few transactions when it is all one edge's.
test('a key that is alone has the whole of a transaction', { skip, timeout: 280000 }, async () => {
  const MANY = 24, one = producer(), lock = own.session(), body = Buffer.concat([LAYOUT, value('x'.repeat(1 << 20))]);
  await until(isEmpty, 'nothing else waits', 120000);
  const before = await own.metric('batches_total');
  try {
    await lock.say('BEGIN; LOCK TABLE events.producer IN ACCESS EXCLUSIVE MODE;');
    for (let i = 0; i < MANY; i++) one.batch({ producer: `${one.name}/${i}`, seq: 1, count: 1 }, body);
    await until(async () => await own.metric('batches_total') >= before + MANY, 'all of it is read', 120000);
    await lock.say('ROLLBACK;');
  } finally { lock.end(); }
  const of = `events.producer WHERE name LIKE '${one.name}/%' AND last_seq = 1`;
  await until(() => Number(own.sql(`SELECT count(*) FROM ${of}`)) === MANY, 'all of it is stored', 120000);
  const transactions = Number(own.sql(`SELECT count(DISTINCT xmin::text) FROM ${of}`));
  assert.ok(transactions <= 2, `${MANY} MiB in ${transactions} transactions: what came first, and the rest`);
  one.stop();
});

// A layout is said once, and what it adds goes into the envelope of each event behind it.
test('a layout whose defaults are longer than any that there is makes nothing large out of small events', { skip, timeout: 280000 }, async () => {
  const one = producer(), before = { unreadable: await own.metric('unreadable_total'), published: await own.metric('published_total') };
  const layout = (size) => record(0, Buffer.from(`http_request_complete.v0\nbackend.x STR ${'d'.repeat(size)}`));
  one.batch({ seq: 100, count: 100 }, Buffer.concat([layout(65), ...Array(100).fill(value('ac_1'))]));
  await until(() => one.acked(100), 'it need not send them again', 120000);
  await until(async () => await own.metric('unreadable_total') === before.unreadable + 100, 'they are counted', 120000);
  one.batch({ seq: 200, count: 100 }, Buffer.concat([layout(64), ...Array(100).fill(value('ac_1'))]));
  await until(() => one.acked(200), 'what comes behind them', 120000);
  await until(async () => await own.metric('published_total') === before.published + 100, 'and it is published', 120000);
  one.stop();
});

// /metrics is answered between two turns of what publishes: without one within a batch it has whole batches.
test('what one edge sends is not published all at once: others have their turn within it', { skip, timeout: 280000 }, async () => {
  const EVENTS = 4096, MANY = 16, one = producer(), body = Buffer.concat([LAYOUT, ...Array(EVENTS).fill(value('ac_1'))]);
  await until(isEmpty, 'nothing else waits', 120000);
  const start = await own.metric('published_total');
  let within = false, seq = 0;
  for (let round = 1; round <= 10 && !within; round++) {
    for (let i = 0; i < MANY; i++) one.batch({ seq: seq += EVENTS, count: EVENTS }, body);
    await until(async () => {
      const published = await own.metric('published_total') - start;
      within ||= published % EVENTS !== 0;
      return published === round * MANY * EVENTS;
    }, 'all of it is published', 60000);
  }
  assert.ok(within);
  one.stop();
});

// Of many batches that were put off many are told one by one, and the last one may be all that is said.
test('an edge that is told to send again, and again a moment later, does so each time', { skip, timeout: 280000 }, async () => {
  const pid = () => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/events.pid`, 'utf8')); } catch { return 0; } };
  const { host } = await endpoint({ body: 'x' }), real = pid();
  process.kill(real, 'SIGSTOP');
  try {
    const intake = own.begin(service('events', `ipc://${env.POSTERN_RUN_DIR}/events.in`));
    const batches = () => intake.got.filter((frames) => String(frames[1]) === 'batch' && frames[2].includes('traffic')); // not those of services
    const greeted = new Set();
    await until(async () => {
      for (const [id] of intake.got) if (!greeted.has(id.toString('hex'))) { greeted.add(id.toString('hex')); intake.send(id, 'want', '1'); }
      await through(host);
      return batches().length > 0;
    }, 'a batch', 60000);
    const [id, , header] = batches()[0];
    const sent = () => batches().filter((frames) => frames[0].equals(id) && frames[2].equals(header)).length;
    for (let i = 0; i < 4; i++) {
      await new Promise((resolve) => setTimeout(resolve, 600)); // the first is done at once, the second when some time has passed
      const before = sent();
      intake.send(id, 'resend');
      intake.send(id, 'resend');
      await until(() => sent() >= before + 2, `it is sent twice in round ${i + 1}`, 120000);
    }
    intake.stop();
  } finally {
    process.kill(real, 'SIGKILL'); // its socket is gone
  }
  await until(() => ![0, real].includes(pid()), 'another postern-events', 120000);
  await until(() => fetch(`http://127.0.0.1:${edge.port - 29}/readyz`).then(({ status }) => status === 200, () => false), 'it is ready', 120000);
});
