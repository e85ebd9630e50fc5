// How much of an answer its client takes decides over its end, and not how much its socket accepts (services/edge/http/taken.h): a slow link
// loses nothing, and what is not taken ends alone. A stack of its own, which gives clients little time.
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
const port = edge.port + 1000, status = port - 28, WAIT = 240000, PIECE = Buffer.alloc(60000, 'x'), WINDOW = 1 << 28;
const RATE = 40000; // bytes a second: at this rate a third of a socket of 4 MB takes longer than clients have

async function metric(name) {
  const text = await fetch(`http://127.0.0.1:${status}/metrics`).then((got) => got.text());
  const [, number] = new RegExp(`^postern_edge_${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(text) ?? assert.fail(`${name} is not there`);
  return Number(number);
}
const slow = () => metric('clients_slow_total{worker="0"}');

let there, stack, finish;
const ready = new Promise((resolve, reject) => { there = { resolve, reject }; });
const finished = new Promise((resolve) => { finish = resolve; });

test.before(async () => {
  if (skip) return;
  stack = own(async ({ state, run }) => {
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_CLIENT_SEND_TIMEOUT: '15s' } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const events = tail('http_request_complete', { POSTERN_HOME: state });
    const backend = http.createServer((request, response) => {
      if (!request.url.startsWith('/large')) return response.end('small');
      response.writeHead(200, { 'Content-Type': 'application/octet-stream' }).on('error', () => {});
      const more = () => { while (response.write(PIECE)); };
      response.on('drain', more);
      return more();
    });
    await new Promise((resolve) => backend.listen(0, storyHost, resolve));
    const host = unique('taking');
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const { id } = await call('/backends/static', { address: `${storyHost}:${backend.address().port}` }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: id } });
    there.resolve({ host, ca: fs.readFileSync(vars.POSTERN_EDGE_CA), events: () => events.events });
    await finished;
    await events.stop();
    backend.closeAllConnections();
    backend.close();
  });
  stack.catch(there.reject);
  await ready;
});
test.after(async () => { finish(); await stack; });

// A download over HTTP/1.1: {bytes, ended, end()}.
async function download(to, path) {
  const { host, ca } = await ready, one = { bytes: 0, ended: false };
  const request = https.get({ host: '127.0.0.1', port: to, servername: host, ca, path, headers: { Host: host }, agent: false }, (answer) => answer.on('data', (part) => { one.bytes += part.length; }).on('close', () => { one.ended = true; }).on('error', () => {}));
  request.on('error', () => { one.ended = true; });
  return Object.assign(one, { end: () => request.destroy() });
}

// A connection of HTTP/2 whose own window is as good as open, with so large a one for each stream: {get(path, takes), closed(), end()}.
async function connection(to, window = WINDOW >> 4) {
  const { host, ca } = await ready;
  const session = http2.connect(`https://${host}:${to}`, { settings: { initialWindowSize: window }, createConnection: () => tls.connect({ host: '127.0.0.1', port: to, servername: host, ca, ALPNProtocols: ['h2'] }) }).on('error', () => {});
  await new Promise((resolve, reject) => session.on('connect', resolve).on('error', reject));
  session.setLocalWindowSize(WINDOW);
  const get = (path, takes = true) => {
    const one = { bytes: 0, ended: false }, stream = session.request({ ':path': path, ':authority': host });
    stream.on('error', () => {}).on('close', () => { one.ended = true; one.code = stream.rstCode; }).on('response', (fields) => { one.status = fields[':status']; });
    if (takes) stream.on('data', (part) => { one.bytes += part.length; });
    else stream.pause();
    return one;
  };
  return { get, closed: () => session.closed || session.destroyed, end: () => session.destroy() };
}

test('downloads over a slow link last, of either version of HTTP, and several on a connection', { skip, timeout: 400000 }, async () => {
  const before = await slow(), link = await slowLink({ port, localAddress: '127.0.0.61', rate: RATE });
  const one = await download(link.port, '/large/1'), session = await connection(link.port);
  try {
    const all = [one, ...['/large/2', '/large/3', '/large/4'].map((path) => session.get(path))];
    await until(() => all.some(({ ended }) => ended) || (one.bytes > 40 * RATE && all.every(({ bytes }) => bytes > 10 * RATE)), 'each goes on for longer than clients have', WAIT);
    assert.deepEqual(all.map(({ ended }) => ended), [false, false, false, false], `${all.map(({ bytes }) => bytes)} bytes`);
    assert.equal(await slow(), before, 'nobody was cut off');
  } finally { one.end(); session.end(); link.close(); }
});

test('an answer that is not taken ends alone, and its event says why', { skip, timeout: 400000 }, async () => {
  const { host, events } = await ready, before = await slow();
  const link = await slowLink({ port, localAddress: '127.0.0.62', rate: RATE }), session = await connection(link.port, 65535);
  try {
    await until(async () => { const small = session.get('/'); await until(() => small.ended, 'a small answer', WAIT); return events().length; }, 'somebody listens to events', WAIT);
    const taken = session.get('/large/taken'), paused = session.get('/large/paused', false);
    await until(() => paused.ended, 'the end of what is not taken', WAIT);
    assert.deepEqual([paused.status, paused.code], [200, http2.constants.NGHTTP2_INTERNAL_ERROR]);
    assert.equal(await slow(), before + 1);
    const { bytes } = taken;
    await until(() => taken.ended || taken.bytes > bytes + 10 * RATE, 'the other goes on', WAIT);
    assert.deepEqual([taken.ended, session.closed()], [false, false]);
    const { object } = await until(() => events().find(({ object: { http } }) => http.request.url.host === host && http.request.url.path === '/large/paused'), 'its event', WAIT);
    assert.deepEqual([object.http.response.status_code, object.http.response.error_code], [200, 'ERR_POSTERN_918']);
  } finally { session.end(); link.close(); }
});

test('a connection that carries nothing any more ends with all that is on it', { skip, timeout: 400000 }, async () => {
  const before = await slow(), memory = () => metric('request_memory_bytes{worker="0"}');
  await until(async () => await memory() === 0, 'nothing is under way', WAIT);
  const link = await slowLink({ port, localAddress: '127.0.0.63', rate: 10 * RATE }), session = await connection(link.port);
  try {
    const all = ['/large/5', '/large/6', '/large/7'].map((path) => session.get(path));
    await until(() => all.every(({ bytes }) => bytes > 0), 'each has begun', WAIT);
    assert.ok(await memory() > 0);
    link.stop();
    await until(async () => await memory() === 0, 'nothing of them is left', WAIT);
    assert.ok(await slow() > before, 'which is counted');
  } finally { session.end(); link.close(); }
});
