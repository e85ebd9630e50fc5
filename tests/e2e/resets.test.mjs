// A connection of HTTP/2 whose client resets most of its streams takes no more of them (services/edge/http/edge_resets.h, CVE-2023-44487): none
// of those counts among the streams that a connection may have at a time, and each costs what a request costs.
import assert from 'node:assert/strict';
import test from 'node:test';
import { END_HEADERS, END_STREAM, HEADERS, RST_STREAM, WINDOW_UPDATE, exchange, frame, headers } from '../support/h2raw.mjs';
import { edge, elsewhere, endpoint, until, upstream } from '../support/postern.mjs';

const WAIT = 120000, FEW = 100, MANY = 150; // FEW: as many as a client may reset whatever else it does
const counted = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_clients_resetting_total\{worker="\d+"\} (\d+)/gm)].reduce((sum, [, number]) => sum + Number(number), 0);

const held = [], up = await upstream((request, response) => { if (request.url.startsWith('/held')) held.push(response); else response.end('ok'); });
const to = await endpoint(up.address);
test.after(() => up.close());

const ask = (stream, path) => frame(HEADERS, END_HEADERS | END_STREAM, stream, headers([[':method', 'GET'], [':scheme', 'https'], [':path', path], [':authority', to.host]]));
const reset = (stream) => frame(RST_STREAM, 0, stream, Buffer.from([0, 0, 0, 8])); // CANCEL
const resets = (first, count) => Array.from({ length: count }, (_, i) => Buffer.concat([ask(first + 2 * i, '/held/reset'), reset(first + 2 * i)]));
const asks = (first, count) => Array.from({ length: count }, (_, i) => ask(first + 2 * i, '/'));

test('who resets most of many streams is told to go: new ones are not begun, and one that was there before ends as it would have', { timeout: 300000 }, async () => {
  const before = elsewhere ? 0 : await counted();
  let after = MANY;
  const got = await exchange(to.host, [ask(1, '/held/kept'), ...resets(3, MANY)], { wait: WAIT, until: (now) => {
    if (now.goaway !== undefined && after === MANY) { after = 0; void until(() => up.seen.some(({ url }) => url === '/held/kept'), 'the one that is kept', WAIT).then(() => { for (const response of held) response.end('ok'); }); }
    return false;
  } });
  assert.deepEqual([got.goaway, got.status[1], got.closed], [0, 200, true]);
  assert.ok(got.last >= 2 * FEW + 1 && got.last < 2 * MANY + 1, `the last stream is ${got.last}`);
  if (!elsewhere) assert.equal(await counted(), before + 1);
});

test('so is who makes the edge reset them', { timeout: 300000 }, async () => {
  const much = Buffer.from([0x7f, 0xff, 0xff, 0xff]); // a window that grows too large is an error of the stream: RFC 9113 6.9.1
  const got = await exchange(to.host, Array.from({ length: MANY }, (_, i) => Buffer.concat([ask(1 + 2 * i, '/held/reset'), frame(WINDOW_UPDATE, 0, 1 + 2 * i, much)])), { wait: WAIT });
  assert.deepEqual([got.goaway, got.closed], [0, true]);
  assert.ok(Object.keys(got.reset).length > FEW && Object.keys(got.reset).length < MANY, `${Object.keys(got.reset).length} were reset`);
});

test('who resets a few goes on', { timeout: 300000 }, async () => {
  const last = 1 + 2 * FEW, got = await exchange(to.host, [...resets(1, FEW), ask(last, '/')], { wait: WAIT, until: ({ status, goaway }) => status[last] || goaway !== undefined });
  assert.deepEqual([got.status[last], got.goaway], [200, undefined]);
});

test('so does who lets more of them end', { timeout: 300000 }, async () => {
  const ROUND = 60, ROUNDS = 3; // of each kind, so that all are among the streams that a connection may have at a time
  let round = 1;
  const first = () => 1 + 2 * 2 * ROUND * (round - 1), last = () => first() + 2 * (ROUND - 1);
  const some = () => [...asks(first(), ROUND), ...resets(last() + 2, ROUND - 1)];
  const got = await exchange(to.host, some(), { wait: WAIT, until: ({ status, goaway }, socket) => {
    if (goaway !== undefined || Object.keys(status).length < ROUND * round) return goaway !== undefined;
    if (round++ < ROUNDS) for (const one of some()) socket.write(one);
    return round > ROUNDS;
  } });
  assert.deepEqual([Object.values(got.status), got.goaway], [Array(ROUND * ROUNDS).fill(200), undefined]);
});
