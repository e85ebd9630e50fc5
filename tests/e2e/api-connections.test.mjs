// Clients without a key that hold as many connections as they can get: whoever has a key is served all the same.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import { env, until } from '../support/postern.mjs';

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

// {status, port of the connection}; fails after 5 s.
const ask = (agent, path = '/api_keys?limit=1') => new Promise((resolve, reject) => {
  const request = http.get({
    host: url.hostname, port: url.port, path, agent, timeout: 5000,
    headers: { Authorization: `Bearer ${env.POSTERN_API_KEY}`, 'Service-Version': '2' },
  }, (response) => {
    const port = response.socket.localPort;
    response.resume().on('end', () => resolve({ status: response.statusCode, port }));
  });
  request.on('timeout', () => request.destroy(new Error('no answer in 5 s')));
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
  test(`${MANY} connections without a key that ${what} keep nobody out`, { timeout: 60000 }, async () => {
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

test('an address has a bounded share of connections that showed no key', { timeout: 60000 }, async () => {
  const release = await hold('', '');
  try {
    const response = await new Promise((resolve, reject) => {
      http.get({ host: url.hostname, port: url.port, path: '/metrics', agent: false, headers: { Authorization: `Bearer ${env.POSTERN_API_KEY}` } }, (answer) => {
        let text = '';
        answer.on('data', (part) => { text += part; }).on('end', () => resolve(text));
      }).on('error', reject);
    });
    const count = Number(/postern_gateway_connections (\d+)/.exec(response)[1]);
    assert.ok(count <= 300, `${count} connections`);
    assert.ok(Number(/postern_gateway_connections_evicted_total (\d+)/.exec(response)[1]) >= MANY - 300);
  } finally {
    release();
  }
});

// Everything that a connection with these bytes was answered, when it is closed.
const exchange = (bytes) => new Promise((resolve, reject) => {
  let text = '';
  const socket = net.connect(Number(url.port), url.hostname, () => socket.write(bytes));
  socket.on('data', (part) => { text += part; }).on('error', reject).on('close', () => resolve(text));
});
const last = poll.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');

test('a few empty lines before a request are nothing, many are no HTTP', { timeout: 20000 }, async () => {
  const text = await exchange('\r\n\r\n' + poll + '\r\n'.repeat(8) + last);
  assert.equal(text.match(/HTTP\/1\.1 200 /g).length, 2);
  for (const many of [9, 2000]) {
    const refused = await exchange('\r\n'.repeat(many) + last);
    assert.match(refused, /^HTTP\/1\.1 400 /);
    assert.match(refused, /empty lines/);
    assert.doesNotMatch(refused, / 200 /);
  }
});

test('empty lines give a client no more time for its request', { timeout: 60000 }, async () => {
  const socket = net.connect(Number(url.port), url.hostname);
  let lines = 0, closed = false, text = '';
  socket.on('data', (part) => { text += part; }).on('error', () => {}).on('close', () => { closed = true; });
  const timer = setInterval(() => { if (lines < 8) { lines++; socket.write('\r\n'); } }, 3000);
  await until(() => closed || lines === 8, 'its time is over', 30000);
  clearInterval(timer);
  socket.destroy();
  assert.ok(lines < 8, 'closed while its lines came');
  assert.equal(text, '');
});
