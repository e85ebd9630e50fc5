// Who else opens connections does not decide whether an account that is busy has new visitors; one customer of IPv6 is no crowd of clients; and an
// address of NAT64 is the client of IPv4 that it stands for (services/edge/http/share.h). A stack of its own with few connections.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import { own } from '../support/own.mjs';
import { edge, elsewhere, env, unique, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, CONNECTIONS = 512, BALANCER = '127.0.0.8', ALONE = 0.39, WAIT = 120000;

async function free() {
  const text = await fetch(`http://127.0.0.1:${port - 28}/metrics`).then((got) => got.text());
  return CONNECTIONS - Number(/^postern_edge_connections\{worker="0"\} (\d+)/m.exec(text)[1]);
}

// The stack: {host, ca, held} of an endpoint where '/held' waits for its end.
let there, stack, finish;
const ready = new Promise((resolve, reject) => { there = { resolve, reject }; });
const finished = new Promise((resolve) => { finish = resolve; });
test.before(async () => {
  if (skip) return;
  stack = own(async ({ state, run }) => {
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_WORKER_CONNECTIONS: String(CONNECTIONS), POSTERN_CLIENT_HEADER_TIMEOUT: '5m' } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const held = [], host = unique('crowds'), backend = await upstream((request, response) => { if (request.url === '/held') held.push(response); else response.end('x'); });
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const { id } = await call('/backends/static', { address: backend.address }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: id } });
    there.resolve({ host, held, ca: fs.readFileSync(vars.POSTERN_EDGE_CA) });
    await finished;
    backend.server.closeAllConnections();
    backend.server.close();
  });
  stack.catch(there.reject);
  await ready;
});
test.after(async () => { finish(); await stack; });

async function ask({ path = '/', localAddress = '127.0.0.20' } = {}) {
  const { host, ca } = await ready;
  return new Promise((resolve, reject) => {
    https.get({ host: edge.host, port, servername: host, ca, path, localAddress, headers: { Host: host }, agent: false }, (answer) => answer.resume().on('end', () => resolve({ status: answer.statusCode, headers: answer.headers })).on('error', reject)).on('error', reject);
  });
}
async function servesOthers(times = 5) {
  for (let i = 0; i < times; i++) assert.equal((await ask()).status, 200, 'another client');
}
const allFree = () => until(async () => (await ask()).status === 200 && await free() > CONNECTIONS * 0.8, 'what was held is free again', WAIT);

// Connections from an address with these bytes first: {all, open()}.
async function connections(count, bytes, { localAddress, to = port }) {
  const all = [], settled = [];
  for (let i = 0; i < count; i++) {
    const socket = net.connect({ host: edge.host, port: to, localAddress });
    all.push(socket);
    settled.push(new Promise((resolve) => socket.on('connect', resolve).on('close', resolve)));
    socket.on('error', () => {}).resume().on('connect', () => socket.write(bytes));
  }
  await Promise.all(settled);
  return { all, open: () => all.filter((socket) => !socket.destroyed && socket.readyState === 'open').length, end: () => all.forEach((socket) => socket.destroy()) };
}

// What a load balancer says of whom each connection is.
const named = (client) => Buffer.from(`PROXY TCP${client.includes(':') ? `6 ${client} 2001:db8::1` : `4 ${client} 192.0.2.1`} 50000 443\r\n\x16`, 'latin1'), balancer = { localAddress: BALANCER, to: port + 1 };

test('a customer of IPv6 with many networks is no crowd of clients: what is above them has a portion, too', { skip, timeout: 300000 }, async () => {
  const NETWORKS = 64, some = [], open = () => some.reduce((sum, one) => sum + one.open(), 0);
  try {
    for (let i = 1; i <= NETWORKS; i++) some.push(await connections(20, named(`2001:db8:0:${i.toString(16)}::1`), balancer));
    await until(() => open() <= CONNECTIONS * 0.61, 'the others are closed', WAIT);
    assert.ok(open() >= CONNECTIONS * 0.5, `${open()} are open`);
    await servesOthers();
    some.push(await connections(20, named('2001:db8:1:1::1'), balancer));
    await servesOthers();
    assert.equal(some.at(-1).open(), 20, 'another customer');
  } finally { for (const one of some) one.end(); }
  await allFree();
});

test('an address of NAT64 is the client of IPv4 that it stands for, and no other', { skip, timeout: 300000 }, async () => {
  const some = [await connections(CONNECTIONS, named('64:ff9b::c000:201'), balancer)];
  try {
    await until(() => some[0].open() <= CONNECTIONS * ALONE, 'one of its clients has its portion', WAIT);
    some.push(await connections(10, named('64:ff9b::c633:6401'), balancer), await connections(10, named('192.0.2.1'), balancer));
    await until(() => some[2].open() === 0, 'the same one over IPv4', WAIT);
    assert.equal(some[1].open(), 10, 'another one');
  } finally { for (const one of some) one.end(); }
  await allFree();
});

test('an account that is busy serves new visitors, whoever else opens connections', { skip, timeout: 300000 }, async () => {
  const { held } = await ready, VISITORS = 19, EACH = 8, of = (i) => `127.1.${1 + i}.1`, some = [];
  await allFree();
  const answers = Array.from({ length: VISITORS * EACH }, (_, i) => ask({ path: '/held', localAddress: of(i % VISITORS) }));
  await until(() => held.length === VISITORS * EACH, 'many requests at a time', WAIT);
  try {
    for (const localAddress of ['127.2.1.1', '127.2.2.1', '127.2.3.1']) some.push(await connections(CONNECTIONS, '\x16', { localAddress }));
    await until(async () => await free() < CONNECTIONS / 4, 'less than a fourth is free', WAIT);
    for (let i = 1; i <= 12; i++) assert.equal((await ask({ localAddress: `127.3.${i}.1` })).status, 200, 'a new visitor');
    const { status: code, headers } = await ask({ localAddress: of(0) });
    assert.deepEqual([code, headers['postern-error-code']], [503, 'ERR_POSTERN_927'], 'who has many already gets no more');
  } finally {
    for (const one of some) one.end();
    for (const response of held.splice(0)) response.end('x');
  }
  for (const answer of answers) assert.equal((await answer).status, 200, 'what was under way');
  await allFree();
});
