// One id of a request in its answer, at the upstream and in its event, and the trace that it belongs to.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import { ca, edge, elsewhere, endpoint, env, listening, raw, tcpUpstream, through, until, upstream } from '../support/postern.mjs';

const up = await upstream((request, response) => response.writeHead(200, { 'Postern-Request-Id': 'req_forged', 'Postern-Error-Code': 'ERR_POSTERN_928', 'X-Own': 'kept' }).end('ok'));
const sub = await listening('http_request_complete');
test.after(() => up.close());
const to = await endpoint(up.address);

const ID = /^req_[0-9a-f]{32}$/, PARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736', valid = `00-${TRACE}-00f067aa0ba902b7-00`;
const of = (rawHeaders, name) => rawHeaders.flatMap((one, i) => (i % 2 === 0 && one.toLowerCase() === name ? [rawHeaders[i + 1]] : []));
const eventOf = (host, path) => until(() => sub.events.find(({ object: { http } }) => http.request.url.host === host && http.request.url.path === path)?.object.http, `the event of ${host}${path}`);
let count = 0;
// A request with these lines: what its answer, its upstream and its event say.
const followed = async (lines = []) => {
  const path = `/${count++}`;
  up.seen.length = 0;
  const text = await raw(to.host, [`GET ${path} HTTP/1.1`, `Host: ${to.host}`, ...lines, 'Connection: close', '', ''].join('\r\n'));
  assert.match(text, /^HTTP\/1\.1 200/);
  assert.doesNotMatch(text, /^postern-error-code:/im, 'which an upstream does not set');
  const [{ rawHeaders }] = up.seen;
  return { answer: [...text.matchAll(/^postern-request-id: (.*)\r$/gim)].map(([, id]) => id), rawHeaders, event: await eventOf(to.host, path) };
};

test('the answer, the upstream and the event have the same id, which nobody else can set', async () => {
  const ids = new Set();
  for (const lines of [[], ['Postern-Request-Id: req_mine'], ['postern_request_id: req_mine', 'POSTERN-REQUEST-ID: req_mine'], ['Connection: Postern-Request-Id, traceparent']]) {
    const { answer, rawHeaders, event } = await followed(lines);
    assert.equal(answer.length, 1, 'one of the edge, none of the upstream');
    assert.match(answer[0], ID);
    assert.deepEqual(of(rawHeaders, 'postern-request-id'), answer);
    assert.ok(!JSON.stringify(rawHeaders).includes('req_mine'));
    assert.equal(event.request.id, answer[0]);
    assert.deepEqual(event.response.headers['Postern-Request-Id'], answer);
    assert.equal(of(rawHeaders, 'traceparent').length, 1);
    ids.add(answer[0]);
  }
  assert.equal(ids.size, 4);
});

test('HTTP/2, content of the edge, pages and refused requests have one, too', async () => {
  const session = http2.connect(`https://${to.host}`, { host: edge.host, port: edge.port, servername: to.host, ca });
  const stream = session.request({ ':path': '/h2' });
  const headers = await new Promise((resolve, reject) => { stream.on('response', resolve).on('error', reject); });
  stream.resume().on('end', () => session.close());
  assert.equal((await eventOf(to.host, '/h2')).request.id, headers['postern-request-id']);
  const content = await endpoint({ body: 'own' }, { user_agent_filter: { deny: ['^Bad'] }, match: '/own' });
  for (const [path, agent, status] of [['/own', 'Good', 200], ['/own/denied', 'Bad', 403], ['/other', 'Good', 404]]) {
    const got = await through(content.host, path, { headers: { 'User-Agent': agent } });
    assert.equal(got.status, status);
    assert.match(got.headers['postern-request-id'], ID);
    if (status !== 200) assert.equal(JSON.parse(got.body).details.request_id, got.headers['postern-request-id']);
    assert.equal((await eventOf(content.host, path)).request.id, got.headers['postern-request-id']);
  }
  const refused = await raw(to.host, `GET /refused HTTP/1.1\r\nHost: ${to.host}\r\nX: ${'x'.repeat(20000)}\r\n\r\n`);
  assert.match(refused, /^HTTP\/1\.1 494|^HTTP\/1\.1 431/);
  assert.match(/^postern-request-id: (.*)\r$/im.exec(refused)[1], ID);
});

test('what the log has of a request has its id', { skip: elsewhere || (env.POSTERN_RUN_DIR ? false : 'needs a system that deploy/stack started on this machine') }, async () => {
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size, nobody = await tcpUpstream(() => {});
  const there = await endpoint(nobody.address, { match: '/nobody' });
  await nobody.close();
  const session = http2.connect(`https://${there.host}`, { host: edge.host, port: edge.port, servername: there.host, ca }), ids = [];
  ids.push((await through(there.host, '/nobody')).headers['postern-request-id']);
  ids.push(await new Promise((resolve, reject) => session.request({ ':path': '/nobody' }).on('error', reject).on('response', (headers) => resolve(headers['postern-request-id'])).resume()));
  session.close();
  for (const id of ids) {
    assert.match(id, ID);
    const line = await until(() => fs.readFileSync(log).subarray(from).toString().split('\n').find((one) => one.includes(`, request_id: ${id}, `)), `a line of ${id}`);
    assert.match(line, /\[error\] .*connect\(\) failed.*, client: .*, request: "GET \/nobody HTTP\/[12]\.[01]"/);
  }
  assert.notEqual(ids[0], ids[1]);
});

test('a WebSocket tells it with its 101', async () => {
  const server = await tcpUpstream((socket) => socket.once('data', (part) => {
    const id = /^postern-request-id: (.*)\r$/im.exec(part.toString())[1];
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Seen: ${id}\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n`);
  }));
  const front = await endpoint(server.address);
  const text = await raw(front.host, `GET /ws HTTP/1.1\r\nHost: ${front.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`);
  assert.match(text, /^HTTP\/1\.1 101/);
  const id = /^postern-request-id: (.*)\r$/im.exec(text)[1];
  assert.match(id, ID);
  assert.equal(/^x-seen: (.*)\r$/im.exec(text)[1], id);
  await server.close();
});

for (const [what, lines] of [
  ['a traceparent', [`traceparent: ${valid}`]],
  ['one with its state, in several lines', [`Traceparent: ${valid}`, 'tracestate: a=1', 'tracestate: b=2']],
  ['one of a later version', [`TRACEPARENT: 01-${TRACE}-00f067aa0ba902b7-01-more`]],
])
  test(`${what} goes on as it is`, async () => {
    const { rawHeaders, event } = await followed(lines);
    const want = (name) => lines.map((line) => line.split(': ')).filter(([one]) => one.toLowerCase() === name).map(([, value]) => value);
    assert.deepEqual(of(rawHeaders, 'traceparent'), want('traceparent'));
    assert.deepEqual(of(rawHeaders, 'tracestate'), want('tracestate'));
    assert.equal(event.request.trace_id, TRACE);
  });

for (const [what, lines] of [
  ['none', []],
  ['a state without a traceparent', ['tracestate: a=1']],
  ['two', [`traceparent: ${valid}`, `traceparent: ${valid}`, 'tracestate: a=1']],
  ['an empty one', ['traceparent:']],
  ['zeros', [`traceparent: 00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, 'tracestate: a=1']],
  ['capitals', [`traceparent: ${valid.toUpperCase()}`]],
  ['more than version 00 has', [`traceparent: ${valid}-more`]],
  ['the version that means nothing', [`traceparent: ff${valid.slice(2)}`]],
  ['a list', [`traceparent: ${valid}, ${valid}`]],
  ['one that never ends', [`traceparent: 01${valid.slice(2)}-${'a'.repeat(2000)}`]],
])
  test(`a trace begins where the client says ${what}`, async () => {
    const { rawHeaders, event, answer } = await followed(lines);
    const sent = of(rawHeaders, 'traceparent');
    assert.equal(sent.length, 1);
    const [, trace, parent, flags] = PARENT.exec(sent[0]);
    assert.equal(`req_${trace}`, answer[0]);
    assert.equal(event.request.trace_id, trace);
    assert.notEqual(parent, '0'.repeat(16));
    assert.equal(flags, '01');
    assert.deepEqual(of(rawHeaders, 'tracestate'), []);
    for (const line of lines) assert.ok(line.split(': ')[0].toLowerCase().startsWith('trace') && event.request.headers, 'what the client said is in the event');
  });

test('a route may take the trace away, and set another', async () => {
  const front = await endpoint(up.address, { request_headers: { remove: ['traceparent'], add: { 'X-Trace': 'mine' } } });
  up.seen.length = 0;
  assert.equal((await through(front.host, '/removed')).status, 200);
  assert.deepEqual(of(up.seen[0].rawHeaders, 'traceparent'), []);
  assert.deepEqual(of(up.seen[0].rawHeaders, 'x-trace'), ['mine']);
});

// With two of them an upstream would have no trace, and another client's address or host than the next upstream.
test('what a route sets of a trace or of the client takes the place of what is there', async () => {
  const parent = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;
  const add = { traceparent: parent, 'X-Forwarded-For': '192.0.2.9', 'x-forwarded-host': 'shop.example', 'x-forwarded-proto': 'http' };
  const front = await endpoint(up.address, { request_headers: { add } });
  for (const headers of [{}, { traceparent: valid, 'X-Forwarded-For': '192.0.2.1' }]) {
    up.seen.length = 0;
    assert.equal((await through(front.host, '/set', { headers })).status, 200);
    for (const [name, value] of Object.entries(add)) assert.deepEqual(of(up.seen[0].rawHeaders, name.toLowerCase()), [value]);
  }
});

test('ids of many requests at once differ', async () => {
  const got = await Promise.all(Array.from({ length: 200 }, (_, i) => through(to.host, `/many/${i}`)));
  assert.equal(new Set(got.map(({ headers }) => headers['postern-request-id'])).size, 200);
});
