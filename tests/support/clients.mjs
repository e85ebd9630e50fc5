// Clients from many addresses of this machine, at a stack of the file's own (own.mjs) with little of what clients share.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { CONTINUATION, END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame, statusOf } from './h2raw.mjs';
import { own } from './own.mjs';
import { edge, elsewhere, env, unique, until } from './postern.mjs';

export const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
export const port = edge.port + 1000, plain = edge.plainPort + 1000, status = port - 28;
export const ALONE = 0.39, WAIT = 120000; // of all, what one client has at most; milliseconds for what comes soon on a machine with nothing else to do

// ---- the stack ----

// A metric of the stack's edge, with its labels.
export async function metric(name) {
  const text = await fetch(`http://127.0.0.1:${status}/metrics`).then((got) => got.text());
  const [, number] = new RegExp(`^postern_edge_${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(text) ?? assert.fail(`${name} is not there`);
  return Number(number);
}
export const charged = () => metric('request_memory_bytes{worker="0"}');

// The stack of one worker and these settings, from the file's first test to its last: a promise of {state, ca, call} and of what begin({state, call})
// made there, whose end() comes before the stack's. call(path, body): the answer of the API to a POST.
export function stack(settings, begin) {
  let there, finish, running;
  const ready = new Promise((resolve, reject) => { there = { resolve, reject }; }), finished = new Promise((resolve) => { finish = resolve; });
  test.before(async () => {
    if (skip) return;
    running = own(async ({ state, run }) => {
      const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', ...settings } });
      assert.equal(up.status, 0, up.stderr);
      const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
      const call = async (path, body) => {
        const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
        assert.ok(got.ok, `${path}: ${got.status}`);
        return got.json();
      };
      const { end, ...made } = await begin({ state, call });
      there.resolve({ state, call, ca: fs.readFileSync(vars.POSTERN_EDGE_CA), ...made });
      await finished;
      await end();
    });
    running.catch(there.reject);
    await ready;
  });
  test.after(async () => { finish(); await running; });
  return ready;
}

// An endpoint there, whose requests all go to the address, or to a backend of these fields: {host, id of the edge, backend}.
export async function publish(call, address, modules = {}) {
  const host = unique('clients');
  await call('/reserved_domains', { domain: host });
  const backend = await call('/backends/static', address.address ? address : { address }), { id } = await call('/edges/https', { hostports: [`${host}:443`] });
  await call(`/edges/https/${id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id }, ...modules });
  return { host, id, backend };
}

// ---- clients ----

const secure = ({ host, ca }, localAddress, protocol) => tls.connect({ host: edge.host, port, servername: host, ca, localAddress, ALPNProtocols: [protocol] });

// One request, on a connection of its own: {status, headers}.
export const ask = async (ready, { path = '/', localAddress = '127.0.0.20', headers = {} } = {}) => {
  const { host, ca } = await ready;
  return new Promise((resolve, reject) => {
    https.get({ host: edge.host, port, servername: host, ca, path, localAddress, headers: { Host: host, ...headers }, agent: false }, (answer) => answer.resume().on('end', () => resolve({ status: answer.statusCode, headers: answer.headers })).on('error', reject)).on('error', reject);
  });
};
// Requests of a client that has nothing else are served, and the status port answers.
export async function servesOthers(ready, times = 10) {
  for (let i = 0; i < times; i++) assert.equal((await ask(ready)).status, 200, 'another client');
  assert.equal((await fetch(`http://127.0.0.1:${status}/healthz`)).status, 200, 'the status port');
}

// A connection of HTTP/2 by a client library.
export const session = (there, localAddress, settings = {}) => http2.connect(`https://${there.host}:${port}`, { settings, createConnection: () => secure(there, localAddress, 'h2') }).on('error', () => {});

// Connections from an address with these bytes first: {all, open(), end()}.
export async function connections(count, bytes, { localAddress, to = port }) {
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
// As many as the stack has, less those in use; `all` of the setting.
export const freeOf = async (all) => all - await metric('connections{worker="0"}');
export const allFree = (ready, all) => until(async () => (await ask(ready)).status === 200 && await freeOf(all) > all * 0.8, 'what was held is free again', WAIT);

// ---- frames ----

export const literal = (name, value, how = 0) => { // a field with a new name, and how it stands in the table: RFC 7541 6.2
  const bytes = Buffer.from(value), rest = bytes.length - 127;
  const length = rest < 0 ? [bytes.length] : rest < 128 ? [127, rest] : [127, (rest % 128) | 128, rest >> 7];
  return Buffer.concat([Buffer.from([how, name.length]), Buffer.from(name), Buffer.from(length), bytes]);
};
export const NEWEST = 0x80 | 62; // the newest entry of the table
export const window = (size) => { const setting = Buffer.alloc(6); setting.writeUInt16BE(4, 0); setting.writeUInt32BE(size, 2); return frame(SETTINGS, 0, 0, setting); };
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
export const fieldsOf = (host, path) => Buffer.concat([Buffer.from([0x82, 0x87]), literal(':path', path), literal(':authority', host)]);

// Calls on(type, stream, payload) for each frame that comes.
export function onFrames(socket, on) {
  let rest = Buffer.alloc(0);
  socket.on('data', (part) => {
    rest = Buffer.concat([rest, part]);
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const len = rest.readUIntBE(0, 3), type = rest[3], flags = rest[4], stream = rest.readUInt32BE(5), payload = rest.subarray(9, 9 + len);
      rest = rest.subarray(9 + len);
      on(type, stream, payload, flags);
    }
  });
}

// A connection that has sent these bytes: {socket, answer(), answers, text(), gone()}. answer(): the status that came last, 0: none; answers: by
// stream; text(): of HTTP/1.1, all that came; gone(): it has ended.
export async function begun(ready, bytes, { localAddress, http2: two }) {
  const socket = secure(await ready, localAddress, two ? 'h2' : 'http/1.1'), answers = {};
  let text = '', last = 0;
  await new Promise((resolve, reject) => socket.on('secureConnect', resolve).on('error', reject));
  socket.on('error', () => {});
  if (two) onFrames(socket, (type, stream, payload) => { if (type === HEADERS) last = answers[stream] = statusOf(payload); });
  else socket.on('data', (part) => { text += part.toString('latin1'); last ||= Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0); });
  socket.write(two ? Buffer.concat([PREFACE, window(65535), bytes]) : bytes);
  return { socket, answer: () => last, answers, text: () => text, gone: () => socket.destroyed || socket.readyState !== 'open' };
}

// A head of so many small fields without its end, its end, and what it takes of the memory for requests at least.
export const HEADS = {
  'HTTP/2': {
    start: (host, count) => frame(HEADERS, END_STREAM, 1, Buffer.concat([fieldsOf(host, '/fixed'), literal('a', '', 0x40), Buffer.alloc(count, NEWEST)])),
    end: frame(CONTINUATION, END_HEADERS, 1, Buffer.concat([literal('b', 'c')])), bytes: (count) => 20480 + count * 48,
  },
  'HTTP/1.1': {
    start: (host, count) => `GET /fixed HTTP/1.1\r\nHost: ${host}\r\n${'a:\r\n'.repeat(count)}`,
    end: '\r\n', bytes: (count) => 20480 + 16384 + count * 48,
  },
};
