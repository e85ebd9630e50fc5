// A client of HTTP/2 that opens the windows of its streams by a byte or two makes the edge write each time, while it reads (services/edge/http/
// edge_slivers.h): such a connection ends. Those that are opened by more do not, however narrow they are.
import assert from 'node:assert/strict';
import test from 'node:test';
import { END_HEADERS, END_STREAM, HEADERS, SETTINGS, WINDOW_UPDATE, exchange, frame, headers } from '../support/h2raw.mjs';
import { edge, elsewhere, endpoint, upstream } from '../support/postern.mjs';

const WAIT = 120000, STREAMS = 100, BYTES = 20000;
const counted = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_clients_slivering_total\{worker="\d+"\} (\d+)/gm)].reduce((sum, [, number]) => sum + Number(number), 0);

const up = await upstream((request, response) => response.end(Buffer.alloc(BYTES)));
const to = await endpoint(up.address);
test.after(() => up.close());

const number = (value) => { const out = Buffer.alloc(4); out.writeUInt32BE(value); return out; };
const ask = (stream) => frame(HEADERS, END_HEADERS | END_STREAM, stream, headers([[':method', 'GET'], [':scheme', 'https'], [':path', '/'], [':authority', to.host]]));
const window = (bytes) => frame(SETTINGS, 0, 0, Buffer.concat([Buffer.from([0, 4]), number(bytes)]));
const wider = (stream, bytes) => frame(WINDOW_UPDATE, 0, stream, number(bytes));
// Asks for that many answers with no window at all. Once all of them have begun open(round) is sent, and again whenever something came, until all have come.
function taken(streams, open) {
  let round = 0;
  const asks = Array.from({ length: streams }, (_, i) => ask(1 + 2 * i));
  return exchange(to.host, [window(0), wider(0, 2 ** 30), ...asks], { wait: WAIT, until: (got, socket) => {
    if (Object.keys(got.status).length < streams) return false;
    socket.write(open(++round));
    return got.bytes >= streams * BYTES;
  } });
}

test('settings that widen all windows by two bytes: the connection ends', { timeout: 300000 }, async () => {
  const before = elsewhere ? 0 : await counted(), got = await taken(STREAMS, (round) => window(2 * round));
  assert.equal(got.closed, true);
  assert.ok(got.bytes < STREAMS * BYTES / 2, `${got.bytes} bytes came`);
  if (!elsewhere) assert.equal(await counted(), before + 1);
});

test('so it does where each stream is widened by itself, or the connection is', { timeout: 300000 }, async () => {
  assert.equal((await taken(1, () => wider(1, 1))).closed, true);
  let first = true;
  const got = await exchange(to.host, [window(2 ** 20), ...Array.from({ length: 8 }, (_, i) => ask(1 + 2 * i))], { wait: WAIT, until: (now, socket) => {
    if (now.bytes > 65535) socket.write(wider(0, first ? 1 : 2)), first = false; // what a connection may send at first
    return false;
  } });
  assert.equal(got.closed, true);
});

test('windows that are opened by a kilobyte each time let everything through', { timeout: 300000 }, async () => {
  const STEP = 1000, before = elsewhere ? 0 : await counted();
  let got = await taken(STREAMS, (round) => window(Math.min(round, BYTES / STEP) * STEP));
  assert.ok(got.bytes >= STREAMS * BYTES && !got.closed, `${got.bytes} bytes came`);
  got = await taken(1, () => wider(1, STEP));
  assert.ok(got.bytes >= BYTES && !got.closed, `${got.bytes} bytes came`);
  if (!elsewhere) assert.equal(await counted(), before);
});
