// What a client does not take, and what it does not send, costs that client: answers that stall are charged to it, and those that are too many
// end early (services/edge/http/edge_stall.c); whoever was refused keeps neither others nor the event of it waiting; and bodies that come by
// the byte end (services/edge/http/edge_upload.c). A stack of its own, in which answers may stall for an hour.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { own } from '../support/own.mjs';
import { edge, elsewhere, env, storyHost, tail, unique, until } from '../support/postern.mjs';
import { slowLink } from '../support/slow-link.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, status = port - 28, MEMORY = 16 << 20, ALONE = 0.39, HELD = 512 << 10, FEW = 8, WAIT = 120000, PROXY = '127.0.0.30';
const BODY = Buffer.alloc(24 << 20, 'x'), PIECE = Buffer.alloc(60000, 'x');

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
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_REQUEST_MEMORY: '16m', POSTERN_CLIENT_SEND_TIMEOUT: '1h', POSTERN_CLIENT_BODY_TIMEOUT: '15s', POSTERN_SEND_TIMEOUT: '1h', POSTERN_TRUSTED_PROXIES: PROXY } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const held = [], uploads = [], deaf = [], events = tail('http_request_complete', { POSTERN_HOME: state });
    const backend = http.createServer((request, response) => {
      if (request.url === '/large') {
        response.writeHead(200, { 'Content-Type': 'application/octet-stream' }).on('error', () => {});
        const more = () => { while (response.write(PIECE)); };
        response.on('drain', more);
        more();
      } else if (request.url === '/upload' || request.url === '/talk') {
        const seen = { gone: false };
        uploads.push(seen);
        request.on('error', () => {}).on('close', () => { seen.gone = true; }).on('end', () => response.end()).resume();
        if (request.url === '/talk') response.on('error', () => {}).writeHead(200).write('go on');
      } else if (request.url === '/deaf') { // reads nothing until it is told to
        deaf.push(() => { let bytes = 0; request.on('data', (part) => { bytes += part.length; }).on('end', () => response.end(String(bytes))); });
      } else if (request.url === '/held') held.push(response);
      else response.end('small');
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
    await call(`/edges/https/${front.id}/routes`, { match_type: 'exact_path', match: '/denied', backend: { backend_id: id }, user_agent_filter: { deny: ['nobody'] } });
    there.resolve({ host, ca: fs.readFileSync(vars.POSTERN_EDGE_CA), held, uploads, deaf, events: () => events.events });
    await finished;
    await events.stop();
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
    const stream = session.request({ ':path': '/large', ':authority': host }), one = { status: 0, ended: false, bytes: 0, take: () => stream.on('data', (part) => { one.bytes += part.length; }).resume() };
    stream.on('error', () => {}).on('close', () => { one.ended = true; }).on('response', (fields) => { one.status = fields[':status']; });
    stream.pause();
    answers.push(one);
  }
  await until(() => answers.every((one) => one.status || one.ended), 'each is answered', WAIT);
  return { answers, end: () => session.destroy() };
}

test('answers that their client does not take cost it a portion, and those beyond it end; the few of another client go on', { skip, timeout: 300000 }, async () => {
  const MANY = 60, most = FEW + Math.floor(MEMORY * ALONE / HELD), slow = await metric('clients_slow_total{worker="0"}');
  await until(async () => await charged() < HELD, 'nothing is under way', WAIT);
  const honest = await stalled(FEW, '127.0.0.21');
  let greedy;
  try {
    greedy = await stalled(MANY, '127.0.0.22');
    await until(() => greedy.answers.filter((one) => !one.ended).length <= most, 'the others end', WAIT);
    const left = greedy.answers.filter((one) => !one.ended).length;
    assert.ok(left > FEW, `${left} go on`);
    assert.ok(await metric('clients_slow_total{worker="0"}') >= slow + MANY - most, 'which is counted');
    assert.ok(await charged() <= MEMORY * ALONE + HELD, 'its portion');
    assert.equal((await ask()).status, 200, 'another client');
    for (const answer of honest.answers) assert.deepEqual([answer.status, answer.ended], [200, false], 'answers that were stalled before any of them');
    const [one] = honest.answers;
    one.take();
    await until(() => one.bytes > 20 * PIECE.length, 'goes on when it is taken', WAIT);
  } finally { honest.end(); greedy?.end(); }
  await until(async () => await charged() < HELD / 2, 'all of it comes back', WAIT);
});

test('an answer over HTTP/1.1 costs what its socket holds of it', { skip, timeout: 300000 }, async () => {
  const { host, ca } = await ready, all = [];
  await until(async () => await charged() < HELD / 2, 'nothing is under way', WAIT);
  try {
    for (let i = 0; i < FEW + 2; i++) all.push(https.get({ host: edge.host, port, servername: host, ca, path: '/large', localAddress: '127.0.0.28', headers: { Host: host }, agent: false }, (answer) => answer.on('error', () => {})).on('error', () => {}));
    await until(async () => await charged() > 3 * HELD, 'two have cost more than the least', WAIT);
  } finally { for (const request of all) request.destroy(); }
  await until(async () => await charged() < HELD / 2, 'all of it comes back', WAIT);
});

test('answers that flow again cost nothing of that any more', { skip, timeout: 300000 }, async () => {
  const { answers, end } = await stalled(FEW + 2, '127.0.0.23');
  try {
    await until(async () => await charged() > 2 * HELD, 'two are charged while they stall', WAIT);
    for (const one of answers) one.take();
    await until(async () => answers.every((one) => one.bytes > PIECE.length) && await charged() < HELD, 'and no more when they flow', WAIT);
  } finally { end(); }
  await until(async () => await charged() < HELD / 2, 'nothing of them is left', WAIT);
});

// ---- clients behind slow links ----

test('many downloads over slow links are none that stall', { skip, timeout: 300000 }, async () => {
  const { host, ca } = await ready, MANY = 30, RATE = 40000, slow = await metric('clients_slow_total{worker="0"}');
  const link = await slowLink({ port, localAddress: '127.0.0.24', rate: RATE }), all = [];
  try {
    for (let i = 0; i < MANY; i++) {
      const one = { bytes: 0, ended: false };
      one.request = https.get({ host: '127.0.0.1', port: link.port, servername: host, ca, path: '/large', headers: { Host: host }, agent: false }, (answer) => answer.on('data', (part) => { one.bytes += part.length; }).on('error', () => {}).on('close', () => { one.ended = true; }));
      one.request.on('error', () => { one.ended = true; });
      all.push(one);
    }
    await until(() => all.some(({ ended }) => ended) || all.every(({ bytes }) => bytes > 20 * RATE), 'each goes on', WAIT);
    assert.deepEqual([all.filter(({ ended }) => ended).length, await metric('clients_slow_total{worker="0"}')], [0, slow]);
  } finally { link.close(); for (const { request } of all) request.destroy(); }
  await until(async () => await charged() < HELD / 2, 'nothing of them is left', WAIT);
});

test('of many answers over one slow connection those end that are too many, and not the connection', { skip, timeout: 300000 }, async () => {
  const { host, ca } = await ready, MANY = 40, RATE = 80000;
  // others have what the account may have for that
  const greedy = await stalled(40, '127.0.0.25'), other = await stalled(40, '127.0.0.26');
  const link = await slowLink({ port, localAddress: '127.0.0.27', rate: RATE }), all = [];
  const session = http2.connect(`https://${host}:${link.port}`, { settings: { initialWindowSize: 1 << 24 }, createConnection: () => tls.connect({ host: '127.0.0.1', port: link.port, servername: host, ca, ALPNProtocols: ['h2'] }) }).on('error', () => {});
  const total = () => all.reduce((sum, { bytes }) => sum + bytes, 0), ended = () => all.filter((one) => one.ended).length;
  try {
    await new Promise((resolve, reject) => session.on('connect', resolve).on('error', reject));
    session.setLocalWindowSize(1 << 28);
    for (let i = 0; i < MANY; i++) {
      const one = { bytes: 0, ended: false };
      session.request({ ':path': '/large', ':authority': host }).on('error', () => {}).on('close', () => { one.ended = true; }).on('data', (part) => { one.bytes += part.length; });
      all.push(one);
    }
    await until(ended, 'the first of them ends', WAIT);
    const before = total();
    await until(() => session.destroyed || total() > before + 10 * RATE, 'others go on', WAIT);
    assert.equal(session.destroyed, false);
    assert.ok(MANY - ended() >= FEW, `${ended()} of ${MANY} ended`);
  } finally { session.destroy(); link.close(); greedy.end(); other.end(); }
  await until(async () => await charged() < HELD / 2, 'nothing of them is left', WAIT);
});

test('answers of a proxy that speaks for many and names nobody cost the account alone, which leaves the rest to others', { skip, timeout: 300000 }, async () => {
  const MANY = 60, REQUEST = 64 << 10;
  await until(async () => await charged() < HELD, 'nothing is under way', WAIT);
  const first = await stalled(1, PROXY);
  let proxy, other;
  try {
    await until(async () => await charged() > HELD, 'the first one is charged', WAIT);
    proxy = await stalled(MANY, PROXY);
    await until(async () => await charged() > 6 * HELD, 'others are, too', WAIT);
    other = await stalled(FEW + 2, '127.0.0.31');
    await until(async () => { const one = await charged(); await new Promise((resolve) => setTimeout(resolve, 4000)); return await charged() === one; }, 'each is charged that may be', WAIT);
    assert.ok(await charged() < MANY * REQUEST + MEMORY * ALONE + 4 * HELD, `${await charged()} bytes`);
    assert.equal((await ask()).status, 200, 'another client');
    for (const answer of proxy.answers) assert.deepEqual([answer.status, answer.ended], [200, false]);
  } finally { first.end(); proxy?.end(); other?.end(); }
  await until(async () => await charged() < HELD / 2, 'all of it comes back', WAIT);
});

// ---- who was refused ----

// A request of HTTP/1.1 with these lines, whose body comes by the byte: {text, closed, socket}.
async function dripping(lines, localAddress) {
  const { host, ca } = await ready, one = { text: '', closed: false, socket: tls.connect({ host: edge.host, port, servername: host, ca, localAddress }) };
  const drip = setInterval(() => one.socket.write('x'), 500), end = () => { one.closed = true; clearInterval(drip); };
  one.socket.on('error', () => {}).on('close', end).on('data', (part) => { one.text += part; }).on('end', () => one.socket.destroy());
  one.socket.write(`${[...lines, `Host: ${host}`].join('\r\n')}\r\n\r\n`);
  return one;
}

test('the event of a request that was refused says when, and does not wait for as long as its client likes to send', { skip, timeout: 300000 }, async () => {
  const { host, events } = await ready;
  await until(async () => { await ask(); return events().length; }, 'somebody listens to events', WAIT);
  const one = await dripping(['POST /denied HTTP/1.1', 'User-Agent: nobody', 'Content-Length: 1000000000'], '127.0.0.30');
  try {
    await until(() => one.text.includes('ERR_POSTERN_922'), 'it is denied', WAIT);
    const answered = Date.now();
    const { event_timestamp: at, object } = await until(() => events().find(({ object: { http } }) => http.request.url.host === host && http.request.url.path === '/denied'), 'its event', WAIT);
    assert.equal(object.http.response.status_code, 403);
    assert.ok(Date.parse(at) <= answered, `${at}, and it was answered by ${new Date(answered).toISOString()}`);
    await until(() => one.closed, 'the end of the connection', WAIT);
  } finally { one.socket.destroy(); }
});

// A client of HTTP/2 with so many requests that are not answered, on connections of 100 each: {refused(), end()}.
async function waiting(count, localAddress) {
  const { host, ca, held } = await ready, sessions = [];
  let refused = 0;
  const before = held.length;
  for (let i = 0; i < count; i++) {
    if (i % 100 === 0) sessions.push(http2.connect(`https://${host}:${port}`, { createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress, ALPNProtocols: ['h2'] }) }).on('error', () => {}));
    let told = false;
    const tell = () => { refused += !told; told = true; };
    sessions.at(-1).request({ ':path': '/held', ':authority': host }).on('error', () => {}).on('response', tell).on('close', tell);
  }
  await until(() => held.length - before + refused >= count, 'each is refused or waits', WAIT);
  return { refused: () => refused, end: () => sessions.forEach((session) => session.destroy()) };
}

test('refused requests whose bodies do not end keep no other client from its answer', { skip, timeout: 300000 }, async () => {
  const greedy = await waiting(400, '127.0.0.31'), other = await waiting(300, '127.0.0.32'), drips = [];
  try {
    assert.ok(greedy.refused() > 0 && other.refused() > 0, 'both have their portion');
    for (let i = 0; i < 70; i++) drips.push(await dripping(['POST / HTTP/1.1', 'Content-Length: 1000000000'], '127.0.0.31'));
    await until(() => drips.filter((one) => one.closed || one.text.startsWith('HTTP/1.1 503')).length === drips.length, 'they are refused', WAIT);
    const { status: code, headers } = await ask({ localAddress: '127.0.0.32' });
    assert.deepEqual([code, headers['retry-after']], [503, '1'], 'another client that has its portion is told so');
    await until(() => drips.every((one) => one.closed), 'the end of each connection', WAIT);
  } finally { greedy.end(); other.end(); for (const one of drips) one.socket.destroy(); }
  await until(async () => await charged() < HELD / 2, 'all of it comes back', WAIT);
});

// ---- bodies that come too slowly ----

test('a body that comes by the byte ends, while one that is part of a conversation and one that its upstream does not read go on', { skip, timeout: 300000 }, async () => {
  const { host, ca, uploads, deaf } = await ready, slow = () => metric('bodies_slow_total{worker="0"}'), before = await slow();
  const options = { host: edge.host, port, servername: host, ca, localAddress: '127.0.0.33', headers: { Host: host }, method: 'POST', agent: false };
  const post = (path, headers = {}) => {
    const one = { text: '', ended: false, failed: false };
    one.request = https.request({ ...options, path, headers: { Host: host, ...headers } }, (answer) => { one.status = answer.statusCode; answer.on('data', (part) => { one.text += part; }).on('end', () => { one.ended = true; }).on('error', () => { one.failed = true; }); }).on('error', () => { one.failed = true; });
    return one;
  };
  const talk = post('/talk'), unread = post('/deaf', { 'Content-Length': BODY.length });
  unread.request.end(BODY);
  talk.request.write('x');
  const drip = setInterval(() => talk.request.write('x'), 500);
  let slowly, session, ticks;
  try {
    await until(() => talk.text && deaf.length, 'both have begun', WAIT);
    slowly = await dripping(['POST /upload HTTP/1.1', 'Content-Length: 100000'], '127.0.0.33');
    session = http2.connect(`https://${host}:${port}`, { createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress: '127.0.0.33', ALPNProtocols: ['h2'] }) }).on('error', () => {});
    const two = session.request({ ':method': 'POST', ':path': '/upload', ':authority': host, 'content-length': 100000 }).on('error', () => {});
    let code;
    two.on('response', (fields) => { code = fields[':status']; });
    ticks = setInterval(() => { if (!two.destroyed && !two.closed) two.write('x'); }, 500);
    await until(() => uploads.length === 3, 'their upstream has both', WAIT);
    await until(() => slowly.text.includes('ERR_POSTERN_917') && code, 'they are given up', WAIT);
    assert.match(slowly.text, /^HTTP\/1.1 408 /);
    assert.equal(code, 408, 'over HTTP/2, too');
    await until(() => uploads[1].gone && uploads[2].gone, 'and so are their connections to the upstream', WAIT);
    // the others, which began before
    assert.deepEqual([talk.failed, talk.ended, unread.failed, unread.ended], [false, false, false, false]);
    clearInterval(drip);
    talk.request.end();
    deaf[0]();
    await until(() => talk.ended && unread.ended, 'both end as they should', WAIT);
    assert.deepEqual([talk.status, unread.status, unread.text], [200, 200, String(BODY.length)]);
    assert.equal(await slow(), before + 2);
  } finally { clearInterval(drip); clearInterval(ticks); slowly?.socket.destroy(); session?.destroy(); talk.request.destroy(); unread.request.destroy(); }
  await until(async () => await charged() < HELD / 2, 'nothing of them is left', WAIT);
});
