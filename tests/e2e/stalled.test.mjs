// What a client does not take costs that client: answers that stall are charged to it, and those that are too many end early
// (services/edge/http/edge_stall.c). A stack of its own, in which answers may stall for an hour.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { own } from '../support/own.mjs';
import { edge, elsewhere, env, storyHost, unique, until } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, status = port - 28, MEMORY = 16 << 20, ALONE = 0.39, HELD = 512 << 10, WAIT = 120000;
const PIECE = Buffer.alloc(60000, 'x');

async function metric(name) {
  const text = await fetch(`http://127.0.0.1:${status}/metrics`).then((got) => got.text());
  const [, number] = new RegExp(`^postern_edge_${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(text) ?? assert.fail(`${name} is not there`);
  return Number(number);
}
const charged = () => metric('request_memory_bytes{worker="0"}');

let there, stack, finish;
const ready = new Promise((resolve, reject) => { there = { resolve, reject }; });
const finished = new Promise((resolve) => { finish = resolve; });

test.before(async () => {
  if (skip) return;
  stack = own(async ({ state, run }) => {
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_SEND_TIMEOUT: '1h' } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const backend = http.createServer((request, response) => {
      if (request.url === '/large') {
        response.writeHead(200, { 'Content-Type': 'application/octet-stream' }).on('error', () => {});
        const more = () => { while (response.write(PIECE)); };
        response.on('drain', more);
        more();
      } else response.end('small');
    });
    await new Promise((resolve) => backend.listen(0, storyHost, resolve));
    const host = unique('stalled');
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const { id } = await call('/backends/static', { address: `${storyHost}:${backend.address().port}` }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: id } });
    there.resolve({ host, ca: fs.readFileSync(vars.POSTERN_EDGE_CA) });
    await finished;
    backend.closeAllConnections();
    backend.close();
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

// A client of HTTP/2 with `count` answers of /large, of which it takes none: {answers: {status, ended, bytes, take()}, end()}.
async function stalled(count, localAddress) {
  const { host, ca } = await ready, answers = [];
  const session = http2.connect(`https://${host}:${port}`, { createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress, ALPNProtocols: ['h2'] }) });
  session.on('error', () => {});
  for (let i = 0; i < count; i++) {
    const stream = session.request({ ':path': '/large', ':authority': host }), one = { status: 0, ended: false, bytes: 0, take: () => stream.on('data', (part) => { one.bytes += part.length; }) };
    stream.on('error', () => {}).on('close', () => { one.ended = true; }).on('response', (fields) => { one.status = fields[':status']; });
    stream.pause();
    answers.push(one);
  }
  await until(() => answers.every((one) => one.status || one.ended), 'each is answered', WAIT);
  return { answers, end: () => session.destroy() };
}

test('answers that their client does not take cost it a portion, and those beyond it end; one of another client goes on', { skip, timeout: 300000 }, async () => {
  const MANY = 40, most = Math.floor(MEMORY * ALONE / HELD), slow = await metric('clients_slow_total{worker="0"}');
  await until(async () => await charged() < HELD, 'nothing is under way', WAIT);
  const honest = await stalled(1, '127.0.0.21');
  let greedy;
  try {
    await until(async () => await charged() > HELD, 'one costs what sockets hold of it', WAIT);
    greedy = await stalled(MANY, '127.0.0.22');
    await until(() => greedy.answers.filter((one) => !one.ended).length <= most, 'the others end', WAIT);
    const left = greedy.answers.filter((one) => !one.ended).length;
    assert.ok(left >= 8, `${left} go on`);
    assert.ok(await metric('clients_slow_total{worker="0"}') >= slow + MANY - most, 'which is counted');
    assert.ok(await charged() <= MEMORY * ALONE + 2 * HELD, 'its portion, and the one of the other client');
    assert.equal((await ask()).status, 200, 'another client');
    const [one] = honest.answers;
    assert.deepEqual([one.status, one.ended], [200, false], 'an answer that was stalled before any of them');
    one.take();
    await until(() => one.bytes > 20 * PIECE.length, 'goes on when it is taken', WAIT);
  } finally { honest.end(); greedy?.end(); }
  await until(async () => await charged() < HELD / 2, 'all of it comes back', WAIT);
});

test('a client that has few answers keeps them stalled, also where its portion is used up', { skip, timeout: 300000 }, async () => {
  const FEW = 8, clients = [];
  try {
    for (let i = 0; i < 5; i++) clients.push(await stalled(FEW, `127.0.0.${40 + i}`));
    await until(async () => await charged() > MEMORY * 0.6, 'most of the memory is charged', WAIT);
    const before = await metric('clients_slow_total{worker="0"}'), kept = await stalled(1, '127.0.0.50');
    clients.push(kept);
    for (let i = 0; i < 10; i++) { await new Promise((resolve) => setTimeout(resolve, 1000)); assert.equal((await ask()).status, 200); }
    assert.equal(await metric('clients_slow_total{worker="0"}'), before);
    assert.ok(clients.every(({ answers }) => answers.every((one) => !one.ended)), 'none has ended');
  } finally { for (const one of clients) one.end(); }
  await until(async () => await charged() < HELD / 2, 'all of it comes back', WAIT);
});

test('an answer that is taken slowly, but taken, costs nothing of that', { skip, timeout: 300000 }, async () => {
  const { answers: [one], end } = await stalled(1, '127.0.0.23');
  try {
    await until(async () => await charged() > HELD, 'it is charged while it stalls', WAIT);
    one.take();
    await until(async () => one.bytes > PIECE.length && await charged() < HELD, 'and no more when it flows', WAIT);
  } finally { end(); }
});
