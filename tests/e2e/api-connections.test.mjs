// Clients that hold as many connections as they can get, without a key or with one: everybody else is served all the same.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { session } from '../support/events.mjs';
import { elsewhere, env, healthUrls, until } from '../support/postern.mjs';

const url = new URL(env.POSTERN_API_URL);
const MANY = 1100;
const poll = 'GET /healthz HTTP/1.1\r\nHost: api\r\n\r\n';

// Connections that send first and then, every second, again; what is closed is opened anew.
async function hold(first, again) {
  const sockets = new Set();
  let stopped = false, opened = 0;
  const open = () => {
    const socket = net.connect(Number(url.port), url.hostname, () => { opened++; if (first) socket.write(first); });
    sockets.add(socket);
    socket.on('data', () => {});
    socket.on('error', () => {});
    socket.on('close', () => { sockets.delete(socket); if (!stopped) setTimeout(open, 100); });
  };
  for (let i = 0; i < MANY; i++) open();
  const timer = setInterval(() => { if (again) for (const socket of sockets) if (!socket.destroyed) socket.write(again); }, 1000);
  for (let i = 0; i < 200 && opened < MANY; i++) await new Promise((resolve) => setTimeout(resolve, 20));
  return () => { stopped = true; clearInterval(timer); for (const socket of sockets) socket.destroy(); };
}

// {status, port of the connection}; fails after 12 s: sooner than connections of an attack that say nothing are ended, after 15 s.
const ask = (agent, path = '/api_keys?limit=1', key = env.POSTERN_API_KEY) => new Promise((resolve, reject) => {
  const request = http.get({
    host: url.hostname, port: url.port, path, agent, timeout: 12000,
    headers: { Authorization: `Bearer ${key}`, 'Service-Version': '2' },
  }, (response) => {
    const port = response.socket.localPort;
    response.resume().on('end', () => resolve({ status: response.statusCode, port }));
  });
  request.on('timeout', () => request.destroy(new Error('no answer in 12 s')));
  request.on('error', reject);
});

const attacks = [
  ['poll /healthz', poll, poll],
  ['are silent', '', ''],
  ['were answered and are idle', poll, ''],
  ['are slow in the head', 'GET /api_keys HTTP/1.1\r\nHost: api\r\nX-A: ', 'x'],
  ['are slow in the body', 'POST /api_keys HTTP/1.1\r\nHost: api\r\nContent-Length: 100000\r\n\r\n', 'x'],
  ['show a key that is none', `GET /api_keys HTTP/1.1\r\nHost: api\r\nService-Version: 2\r\nAuthorization: Bearer 2abcdefghijklmnopqrstuvwxyz_${'x'.repeat(21)}\r\n\r\n`, ''],
];

for (const [what, first, again] of attacks)
  test(`${MANY} connections without a key that ${what} keep nobody out`, { timeout: 280000 }, async () => {
    const kept = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const before = await ask(kept);
    const release = await hold(first, again);
    try {
      for (let i = 0; i < 10; i++) {
        assert.equal((await ask(false)).status, 200); // a new connection each
        const after = await ask(kept);
        assert.deepEqual(after, { status: 200, port: before.port }, 'who showed a key keeps its connection');
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    } finally {
      release();
      kept.destroy();
    }
  });

test('an address has a bounded share of connections that showed no key', { timeout: 280000 }, async () => {
  const read = async (name) => {
    const text = await (await fetch(`http://${healthUrls()[0]}/metrics`)).text();
    return Number(new RegExp(`^postern_gateway_${name} (\\d+)`, 'm').exec(text)[1]);
  };
  const before = await read('connections_evicted_total');
  const release = await hold('', '');
  try {
    // The gateway accepts them in its own time, and counts those that it has just closed until its next turn.
    await until(async () => await read('connections_evicted_total') - before >= MANY - 300, 'the connections beyond that are gone', 120000);
    await until(async () => await read('connections') <= 300, 'no more than its share is there', 120000); // some of the stories before still linger
  } finally {
    release();
  }
});

const metric = async (name) => Number(new RegExp(`^postern_gateway_${name} (\\d+)`, 'm').exec(await (await fetch(`http://${healthUrls()[0]}/metrics`)).text())[1]);
const keyed = (path, key = env.POSTERN_API_KEY) => `GET ${path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer ${key}\r\nService-Version: 2\r\n\r\n`;

test(`${MANY} connections of one key keep no other account out, not even when its calls stand still`, { skip: elsewhere, timeout: 280000 }, async () => {
  const other = account(), lock = session(env.DATABASE_URL), before = await metric('calls_over_share_total');
  let release;
  try {
    await lock.say('BEGIN; LOCK TABLE events.event_destination IN ACCESS EXCLUSIVE MODE;');
    release = await hold(keyed('/event_destinations'), '');
    await until(async () => await metric('calls_over_share_total') > before, 'it has its share of calls', 120000);
    for (let i = 0; i < 10; i++) assert.equal((await ask(false, '/backends/static?limit=1', other.token)).status, 200);
    for (let i = 0; i < 10; i++) assert.equal((await ask(false, '/event_subscriptions?limit=1', other.token)).status, 200, 'by the service that waits for them');
    assert.ok(await metric('calls_in_flight') <= 520, 'half of the places are free for others');
  } finally {
    await lock.say('ROLLBACK;');
    lock.end();
    release?.();
  }
  await until(async () => await metric('calls_in_flight') === 0, 'all of its calls end', 120000);
  assert.equal((await ask(false)).status, 200, 'and it is served again');
});

test('idle connections of the account that has most give way to others', { timeout: 280000 }, async () => {
  const other = account(), kept = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const first = await ask(kept, '/backends/static?limit=1', other.token); // the oldest of all
  const release = await hold(keyed('/api_keys?limit=1'), '');
  try {
    await until(async () => await metric('connections') >= 1024, 'there is no room', 120000);
    for (let i = 0; i < 10; i++) assert.equal((await ask(false, '/backends/static?limit=1', other.token)).status, 200);
    assert.deepEqual(await ask(kept, '/backends/static?limit=1', other.token), first, 'a small account keeps its connection');
  } finally {
    release();
    kept.destroy();
  }
});

test('answers that nobody reads have a bound, and the slowest client gives way', { timeout: 280000 }, async () => {
  const OWN = 64 << 20, many = account(), other = account();
  for (let i = 0; i < 100; i += 10) await Promise.all(Array.from({ length: 10 }, () => many.must('POST', '/backends/http_response', { body: 'x'.repeat(65000) })));
  const closed = await metric('unread_closed_total'), sockets = [];
  let size = 0;
  const closings = async () => await metric('unread_closed_total') - closed;
  try {
    for (let i = 0; i < 24; i++) {
      const socket = net.connect(Number(url.port), url.hostname, () => socket.write(keyed('/backends/http_response?limit=100', many.token)));
      socket.pause().on('error', () => {});
      sockets.push(socket);
      await until(async () => await metric('unread_bytes') + await closings() * size > i * size, 'its answer waits', 120000);
      size ||= await metric('unread_bytes');
      assert.ok(await metric('unread_bytes') <= OWN, 'within the bound');
    }
    assert.equal(await closings(), 24 - Math.floor(OWN / size), 'those before are closed');
    assert.equal((await ask(false, '/backends/static?limit=1', other.token)).status, 200);
    const last = sockets.at(-1);
    let bytes = 0;
    last.on('data', (part) => { bytes += part.length; }).resume();
    await until(() => bytes > 100 * 65000, 'the newest is whole');
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  await until(async () => await metric('unread_bytes') === 0, 'nothing waits any more', 120000);
});

// All of one address, as every check here is: those that are there have a time, however slowly they send.
test('slow connections keep the health port of a service from nobody for long', { timeout: 280000 }, async () => {
  const [host, port] = healthUrls()[0].split(':'), sockets = [];
  for (let i = 0; i < 100; i++) sockets.push(net.connect(Number(port), host).on('error', () => {}));
  for (const socket of sockets) socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: ');
  const timer = setInterval(() => { for (const socket of sockets) if (!socket.destroyed) socket.write('x'); }, 500);
  try {
    await until(async () => { try { return (await fetch(`http://${host}:${port}/healthz`, { signal: AbortSignal.timeout(2000) })).status === 200; } catch { return false; } }, 'an answer', 120000);
  } finally {
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
  }
});

// Everything that a connection with these bytes was answered, when it is closed.
const exchange = (bytes) => new Promise((resolve, reject) => {
  let text = '';
  const socket = net.connect(Number(url.port), url.hostname, () => socket.write(bytes));
  socket.on('data', (part) => { text += part; }).on('error', reject).on('close', () => resolve(text));
});
const last = poll.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');

test('a few empty lines before a request are nothing, many are no HTTP', { timeout: 280000 }, async () => {
  const text = await exchange('\r\n\r\n' + poll + '\r\n'.repeat(8) + last);
  assert.equal(text.match(/HTTP\/1\.1 200 /g).length, 2);
  for (const many of [9, 2000]) {
    const refused = await exchange('\r\n'.repeat(many) + last);
    assert.match(refused, /^HTTP\/1\.1 400 /);
    assert.match(refused, /empty lines/);
    assert.doesNotMatch(refused, / 200 /);
  }
});

test('empty lines give a client no more time for its request', { timeout: 280000 }, async () => {
  const socket = net.connect(Number(url.port), url.hostname);
  let lines = 0, closed = false, text = '';
  socket.on('data', (part) => { text += part; }).on('error', () => {}).on('close', () => { closed = true; });
  const timer = setInterval(() => { if (lines < 8) { lines++; socket.write('\r\n'); } }, 3500); // all of them take longer than it has, 15 s, and less than twice as long
  await until(() => closed || lines === 8, 'its time is over', 120000);
  clearInterval(timer);
  socket.destroy();
  assert.ok(lines < 8, 'closed while its lines came');
  assert.equal(text, '');
});

// Connections that keep some hundreds of requests in flight, each, until they are released; or, with an end, that send so many.
async function pipeline(connections, request, { end = Infinity } = {}) {
  const AHEAD = 400, sockets = [];
  const counts = { answered: 0 };
  for (let i = 0; i < connections; i++) {
    const socket = net.connect(Number(url.port), url.hostname);
    let sent = 0, answered = 0, rest = '';
    const more = () => { const n = Math.min(AHEAD - (sent - answered), end - sent); if (n > 0) { sent += n; socket.write(request.repeat(n)); } };
    await new Promise((resolve) => socket.on('connect', resolve));
    socket.on('error', () => {});
    socket.on('data', (part) => {
      rest += part.toString('latin1');
      const parts = rest.split('\r\n\r\n');
      rest = parts.pop();
      answered += parts.length;
      counts.answered += parts.length;
      more();
    });
    sockets.push({ socket, more });
  }
  for (const { more } of sockets) more();
  return { counts, release: () => { for (const { socket } of sockets) socket.destroy(); } };
}

for (const [what, request] of [
  ['/openapi.json', 'HEAD /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['/healthz', 'HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['what needs a key', 'HEAD /api_keys HTTP/1.1\r\nHost: a\r\n\r\n'],
])
  test(`16 connections that ask for ${what} without an end keep nobody from being answered`, { timeout: 280000 }, async () => {
    const { counts, release } = await pipeline(16, request);
    try {
      await until(() => counts.answered > 0, 'they are answered');
      for (let i = 0; i < 10; i++) assert.equal((await ask(false)).status, 200);
    } finally {
      release();
    }
  });

// In the order of answers, not of time: whoever asks ten times, each time after an answer, is not the last.
test('one request at a time has its turn among thousands that came before it', { timeout: 280000 }, async () => {
  // of connections that have 400 each under way: one that waited for all of those each time would be the last
  const COUNT = 3200;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const { counts, release } = await pipeline(16, 'HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n', { end: COUNT });
  try {
    for (let i = 0; i < 10; i++) {
      const status = await new Promise((resolve, reject) => {
        http.get({ host: url.hostname, port: url.port, path: '/healthz', agent }, (response) => response.resume().on('end', () => resolve(response.statusCode))).on('error', reject);
      });
      assert.equal(status, 200);
    }
    assert.ok(counts.answered < 16 * COUNT, 'all of theirs came first');
  } finally {
    release();
    agent.destroy();
  }
});

// Nothing comes behind them that would call the gateway's attention to those that are left.
test('requests that came at once are all answered, in their order, when nothing more comes', { timeout: 280000 }, async () => {
  const keyed = `Authorization: Bearer ${env.POSTERN_API_KEY}\r\nService-Version: 2\r\n`;
  const kinds = [['GET /healthz', '', 200], ['GET /nothing', '', 404], ['GET /api_keys?limit=1', keyed, 200], ['HEAD /openapi.json', '', 200], ['GET /api_keys', '', 401]];
  for (const count of [1, 4, 5, 8, 9, 200]) {
    const wanted = Array.from({ length: count }, (_, i) => kinds[i % kinds.length]);
    const bytes = wanted.map(([line, headers]) => `${line} HTTP/1.1\r\nHost: a\r\n${headers}\r\n`).join('');
    for (const closes of [false, true]) { // by its word, or by the end of what it sends
      let text = '';
      const socket = net.connect(Number(url.port), url.hostname);
      socket.on('data', (part) => { text += part; });
      const closed = new Promise((resolve, reject) => socket.on('close', resolve).on('error', reject));
      if (closes) socket.write(`${bytes}GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
      else socket.end(bytes);
      await closed;
      const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
      assert.deepEqual(statuses, [...wanted.map(([, , status]) => status), ...(closes ? [200] : [])], `${count} requests`);
    }
  }
});
