// Who else opens connections, or takes memory, does not decide whether an account that is busy has new visitors; one customer of IPv6 is no crowd of
// clients; and an address of NAT64 is the client of IPv4 that it stands for (services/edge/http/share.h, portion.h). A stack with few connections.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ALONE, NEWEST, WAIT, allFree, ask, begun, charged, connections, fieldsOf, freeOf, literal, port, publish, servesOthers, skip, stack } from '../support/clients.mjs';
import { END_STREAM, HEADERS, frame } from '../support/h2raw.mjs';
import { until, upstream } from '../support/postern.mjs';

const CONNECTIONS = 512, MEMORY = 16 << 20, BALANCER = '127.0.0.8';

// '/held' waits for its end.
const ready = stack({ POSTERN_WORKER_CONNECTIONS: String(CONNECTIONS), POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_HEADER_TIMEOUT: '5m' }, async ({ call }) => {
  const held = [], backend = await upstream((request, response) => { if (request.url === '/held') held.push(response); else response.end('x'); });
  return { host: (await publish(call, backend.address)).host, held, end: () => backend.close() };
});

// What a load balancer says of whom each connection is.
const named = (client) => Buffer.from(`PROXY TCP${client.includes(':') ? `6 ${client} 2001:db8::1` : `4 ${client} 192.0.2.1`} 50000 443\r\n\x16`, 'latin1'), balancer = { localAddress: BALANCER, to: port + 1 };

test('a customer of IPv6 with many networks is no crowd of clients: what is above them has a portion, too', { skip, timeout: 300000 }, async () => {
  const NETWORKS = 64, some = [], open = () => some.reduce((sum, one) => sum + one.open(), 0);
  try {
    for (let i = 1; i <= NETWORKS; i++) some.push(await connections(20, named(`2001:db8:0:${i.toString(16)}::1`), balancer));
    await until(() => open() <= CONNECTIONS * 0.61, 'the others are closed', WAIT);
    assert.ok(open() >= CONNECTIONS * 0.5, `${open()} are open`);
    await servesOthers(ready, 5);
    some.push(await connections(20, named('2001:db8:1:1::1'), balancer));
    await servesOthers(ready, 5);
    assert.equal(some.at(-1).open(), 20, 'another customer');
  } finally { for (const one of some) one.end(); }
  await allFree(ready, CONNECTIONS);
});

test('a network that is busy has new clients, whoever else opens connections', { skip, timeout: 300000 }, async () => {
  const CLIENTS = 15, FEW = 4, NEW = 6, some = [], of = (host) => named(`198.51.100.${host}`);
  // so many of each client, all of which it may have
  const opens = async (count, ...clients) => {
    const free = await freeOf(CONNECTIONS), made = await Promise.all(clients.map((client) => connections(count, client, balancer)));
    some.push(...made);
    await until(async () => await freeOf(CONNECTIONS) < free - count * clients.length + 2, 'they are taken', WAIT);
    return () => made.reduce((sum, one) => sum + one.open(), 0);
  };
  await allFree(ready, CONNECTIONS);
  try {
    await opens(FEW, ...Array.from({ length: CLIENTS }, (_, i) => of(1 + i)));
    for (let i = 1, free; (free = await freeOf(CONNECTIONS)) > 80; i++) await opens(Math.max(FEW, Math.floor(free * free / CONNECTIONS * 0.4)), named(`203.0.${i}.1`));
    const fresh = await opens(1, ...Array.from({ length: NEW }, (_, i) => of(101 + i)));
    some.push(await connections(1, of(1), balancer));
    await until(() => some.at(-1).open() === 0, 'one of it that has few gets no more', WAIT);
    await servesOthers(ready, 5);
    // one may share its place, of 8,192 by a secret of each start, with somebody who has much
    assert.ok(fresh() >= NEW - 1, `${fresh()} new clients of it`);
  } finally { for (const one of some) one.end(); }
  await allFree(ready, CONNECTIONS);
});

test('an address of NAT64 is the client of IPv4 that it stands for, and no other', { skip, timeout: 300000 }, async () => {
  const some = [await connections(CONNECTIONS, named('64:ff9b::c000:201'), balancer)];
  try {
    await until(() => some[0].open() <= CONNECTIONS * ALONE, 'one of its clients has its portion', WAIT);
    some.push(await connections(10, named('64:ff9b::c633:6401'), balancer), await connections(10, named('192.0.2.1'), balancer));
    await until(() => some[2].open() === 0, 'the same one over IPv4', WAIT);
    assert.equal(some[1].open(), 10, 'another one');
  } finally { for (const one of some) one.end(); }
  await allFree(ready, CONNECTIONS);
});

test('an account that is busy serves new visitors, whoever else opens connections', { skip, timeout: 300000 }, async () => {
  const { held } = await ready, VISITORS = 19, EACH = 8, of = (i) => `127.1.${1 + i}.1`, some = [];
  await allFree(ready, CONNECTIONS);
  const answers = Array.from({ length: VISITORS * EACH }, (_, i) => ask(ready, { path: '/held', localAddress: of(i % VISITORS) }));
  await until(() => held.length === VISITORS * EACH, 'many requests at a time', WAIT);
  try {
    for (const localAddress of ['127.2.1.1', '127.2.2.1', '127.2.3.1']) some.push(await connections(CONNECTIONS, '\x16', { localAddress }));
    await until(async () => await freeOf(CONNECTIONS) < CONNECTIONS / 4, 'less than a fourth is free', WAIT);
    for (let i = 1; i <= 12; i++) assert.equal((await ask(ready, { localAddress: `127.3.${i}.1` })).status, 200, 'a new visitor');
    const { status: code, headers } = await ask(ready, { localAddress: of(0) });
    assert.deepEqual([code, headers['postern-error-code']], [503, 'ERR_POSTERN_927'], 'who has many already gets no more');
  } finally {
    for (const one of some) one.end();
    for (const response of held.splice(0)) response.end('x');
  }
  for (const answer of answers) assert.equal((await answer).status, 200, 'what was under way');
  await allFree(ready, CONNECTIONS);
});

test('an account that is busy serves new visitors, whoever else takes memory', { skip, timeout: 300000 }, async () => {
  const { host, held } = await ready, answers = [], greedy = [], headers = { 'x-large': 'x'.repeat(14000) };
  // a head without its end that takes 120 KB of memory, and 4 KB on the wire
  const start = frame(HEADERS, END_STREAM, 1, Buffer.concat([fieldsOf(host, '/'), literal('b', 'x'.repeat(3000), 0x40), Buffer.alloc(15, NEWEST), literal('a', '', 0x40), Buffer.alloc(880, NEWEST)]));
  await allFree(ready, CONNECTIONS);
  await until(async () => await charged() === 0, 'nothing is under way', WAIT);
  try {
    // more than a fourth of it is the account's, one request of each client
    while (await charged() < MEMORY * 0.255) {
      answers.push(ask(ready, { path: '/held', localAddress: `127.1.${1 + answers.length}.1`, headers }));
      await until(() => held.length === answers.length, 'one more', WAIT);
    }
    // heads that do not come to their end are of no account, and each client has as many of them as it can get
    for (let client = 1; MEMORY - await charged() > MEMORY * 0.22; client++) {
      assert.ok(client <= 10, `${await charged()} bytes are taken`);
      for (let refused = false; !refused;) {
        const before = await charged(), one = await begun(ready, start, { localAddress: `127.2.${client}.1`, http2: true });
        greedy.push(one);
        await until(async () => { refused = one.answer() === 503 || one.gone(); return refused || await charged() > before; }, 'it is kept or refused', WAIT);
      }
    }
    for (let i = 1; i <= 10; i++) assert.equal((await ask(ready, { localAddress: `127.3.${i}.1` })).status, 200, 'a new visitor');
  } finally {
    for (const { socket } of greedy) socket.destroy();
    for (const response of held.splice(0)) response.end('x');
  }
  for (const answer of answers) assert.equal((await answer).status, 200, 'what was under way');
  await allFree(ready, CONNECTIONS);
});
