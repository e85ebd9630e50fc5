// What a client of HTTP/2 makes the edge hold for its connection, beside its requests: frames that nginx answers by itself
// (services/edge/http/edge_frames.c), heads that were refused and never end (edge_heads.c), and streams that it resets (edge_body.c).
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import tls from 'node:tls';
import { ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, exchange, frame, headers } from '../support/h2raw.mjs';
import { ca, edge, elsewhere, endpoint, env, until, upstream } from '../support/postern.mjs';

const skipLog = elsewhere || (env.POSTERN_LOG_DIR ? false : 'the log of the edge is not on this machine');
const WAIT = 120000, STREAMS = 128, OWN = 512, A_STREAM = 64; // frames that may stand there: of a connection, and for each of its requests whose body is there
const counted = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_clients_flooding_total\{worker="\d+"\} (\d+)/gm)].reduce((sum, [, number]) => sum + Number(number), 0);

let sent = 0;
const held = [], up = await upstream((request, response) => {
  if (request.url === '/app/held') held.push(response);
  else if (request.url === '/app/endless') {
    const piece = Buffer.alloc(1 << 16), more = () => { do sent += piece.length; while (response.write(piece)); };
    response.on('error', () => {}).on('drain', more);
    more();
  } else response.end('ok');
});
const to = await endpoint(up.address, { match: '/app' }), away = () => { for (const response of held.splice(0)) response.end('ok'); };
test.after(() => up.close());

const number = (value) => { const out = Buffer.alloc(4); out.writeUInt32BE(value); return out; };
const ask = (stream, path = '/app', method = 'GET', flags = END_HEADERS | END_STREAM) => frame(HEADERS, flags, stream, headers([[':method', method], [':scheme', 'https'], [':path', path], [':authority', to.host]]));
const reset = (stream) => frame(RST_STREAM, 0, stream, number(8)); // CANCEL
const pings = (count) => Array.from({ length: count }, () => frame(PING, 0, 0, Buffer.alloc(8)));
const settings = (count) => Array.from({ length: count }, () => frame(SETTINGS, 0, 0));
// A connection that lasts until enough(what it has got, socket): its socket and what it has got, once something has come; done: what it has got at its end.
function talk(frames, enough) {
  const it = { got: { status: {}, reset: {} } };
  it.done = exchange(to.host, frames, { wait: WAIT, until: (got, socket) => enough(Object.assign(it, { got, socket }).got, socket) });
  return it;
}
// A connection that takes nothing of answers that do not end, once there is no room for more of them.
async function full(answers) {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] }).pause().on('error', () => {});
  const begun = sent, much = number(2 ** 30), open = Buffer.concat([Buffer.from([0, 4]), much]);
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0, open), frame(SETTINGS, ACK, 0), frame(WINDOW_UPDATE, 0, 0, much), ...Array.from({ length: answers }, (_, i) => ask(1 + 2 * i, '/app/endless'))]));
  let before;
  await until(async () => { before = sent; await new Promise((resolve) => setTimeout(resolve, 1000)); return sent > begun && sent === before; }, 'nothing is taken any more', WAIT);
  return socket;
}

for (const [what, frames] of [['PING', pings(OWN + 2 * A_STREAM)], ['SETTINGS', settings(OWN + 2 * A_STREAM)]])
  test(`${what}, and no end of them, beside a request: the connection ends`, { timeout: 300000 }, async () => {
    let next;
    const before = elsewhere ? 0 : await counted(), one = talk([ask(1, '/app/held')], ({ acked, status }, socket) => {
      if (acked > frames.length) next ??= socket.write(ask(3)); // all of them were taken, and the connection ends all the same
      return status[3];
    });
    await until(() => one.socket && held.length === 1, 'it is under way', WAIT);
    one.socket.write(Buffer.concat(frames)); // a record of TLS, which the edge reads as a whole before it answers any of it
    const { closed, acked } = await one.done;
    away();
    assert.equal(closed, true, `${acked} are acknowledged`);
    if (!elsewhere) assert.equal(await counted(), before + 1);
  });

test('few at a time that are not taken end it as well, with the answer that keeps them waiting', { skip: elsewhere, timeout: 300000 }, async () => {
  const before = await counted(), socket = await full(1);
  try {
    await until(async () => { socket.write(Buffer.concat(pings(40))); return await counted() > before; }, 'the connection is one of those that ended so', WAIT);
    assert.equal(await counted(), before + 1);
  } finally { socket.destroy(); }
});

// Each message that has gone on opens the window of its stream again, and nothing takes what says so.
for (const [what, streams] of [['one call', [3]], ['two calls in turn, with the same place among those that are merged,', [3, 3 + 1024]]])
  test(`small messages of ${what} beside an answer that nobody takes are no flood`, { timeout: 300000 }, async () => {
    const MESSAGES = 2 * (OWN + 4 * A_STREAM), message = Buffer.alloc(20, 'm'), before = elsewhere ? 0 : await counted(), socket = await full(1);
    let taken = 0, arrived;
    const path = `/app/messages/${streams.length}`;
    up.server.on('request', (request) => request.url === path && request.on('data', (part) => { taken += part.length; arrived?.(); }));
    const arrives = (bytes) => new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`never happened: byte ${bytes} of ${MESSAGES * message.length} arrives`)), WAIT / 4);
      arrived = () => { if (taken === bytes) { clearTimeout(late); resolve(); } };
    });
    try {
      for (const stream of streams) socket.write(ask(stream, path, 'POST', END_HEADERS));
      for (let i = 1; i <= MESSAGES; i++) {
        const next = arrives(i * message.length);
        socket.write(frame(DATA, 0, streams[i % streams.length], message));
        await next;
      }
      for (const stream of streams) socket.write(frame(DATA, END_STREAM, stream));
      await until(() => up.seen.filter(({ url }) => url === path).length === streams.length, 'all of the requests', WAIT);
    } finally { socket.destroy(); }
    if (!elsewhere) assert.equal(await counted(), before);
  });

test('who begins as many streams as there may be, and makes some frames for each, goes on', { timeout: 300000 }, async () => {
  const RESETS = 100, before = elsewhere ? 0 : await counted(); // as many as anybody may reset (edge_resets.h)
  const one = talk(Array.from({ length: STREAMS }, (_, i) => ask(1 + 2 * i, '/app/held')), ({ status, goaway }) => Object.keys(status).length === STREAMS - RESETS || goaway !== undefined);
  await until(() => one.socket && held.length === STREAMS, 'all are under way', WAIT);
  for (const stream of Array.from({ length: STREAMS }, (_, i) => 1 + 2 * i)) one.socket.write(Buffer.concat([...pings(2), ...settings(1), frame(WINDOW_UPDATE, 0, stream, number(1000)), ...(stream < 2 * RESETS ? [reset(stream)] : [])]));
  await until(() => one.got.acked > 3 * STREAMS || one.got.closed, 'its frames are acknowledged', WAIT);
  away();
  const got = await one.done;
  assert.deepEqual([Object.values(got.status), got.goaway, got.closed], [Array(STREAMS - RESETS).fill(200), undefined, undefined]);
  if (!elsewhere) assert.equal(await counted(), before);
});

test('who has requests under way may have more of them at a time', { timeout: 300000 }, async () => {
  const REQUESTS = 10, frames = pings(OWN + A_STREAM * REQUESTS / 2), one = talk(Array.from({ length: REQUESTS }, (_, i) => ask(1 + 2 * i, '/app/held')), ({ status }) => Object.keys(status).length === REQUESTS);
  await until(() => one.socket && held.length === REQUESTS, 'all are under way', WAIT);
  one.socket.write(Buffer.concat(frames));
  await until(() => one.got.acked > frames.length || one.got.closed, 'its frames are acknowledged', WAIT);
  away();
  const got = await one.done;
  assert.deepEqual([Object.values(got.status), got.closed], [Array(REQUESTS).fill(200), undefined]);
});

test('a head that is refused, and has no end, ends its connection after a time; one that has its end does not', { timeout: 300000 }, async () => {
  const refused = (stream) => frame(HEADERS, END_STREAM, stream, headers([[':method', 'GET'], ['A', 'b'], ['a', 'x'.repeat(100)]])); // nginx refuses capitals: 1.22 resets the stream, 1.26 answers 400
  const [whole, endless] = [1, 2].map(() => talk([ask(1, '/app/held')], ({ status }) => status[1]));
  await until(() => whole.socket && endless.socket && held.length === 2, 'a request of each is under way', WAIT);
  whole.socket.write(refused(3));
  await until(() => whole.got.reset[3] !== undefined || whole.got.status[3] === 400, 'a head of one is refused', WAIT);
  whole.socket.write(frame(CONTINUATION, END_HEADERS, 3, headers([['a', 'b']])));
  endless.socket.write(refused(3)); // POSTERN_CLIENT_HEADER_TIMEOUT begins: what the other one has would have been over before
  assert.equal((await endless.done).closed, true);
  away();
  const got = await whole.done;
  assert.deepEqual([got.status[1], got.closed], [200, undefined]);
});

test('streams that are reset before their page has gone leave no alert in the log', { skip: skipLog, timeout: 300000 }, async () => {
  const STREAMS_RESET = 20, socket = await full(4), log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  try {
    for (let i = 0; i < STREAMS_RESET; i++) socket.write(Buffer.concat([ask(101 + 2 * i, '/none', 'POST', END_HEADERS), reset(101 + 2 * i)]));
    socket.write(ask(201, '/app/after'));
    await until(() => up.seen.some(({ url }) => url === '/app/after'), 'what came behind them', WAIT);
  } finally { socket.destroy(); }
  assert.doesNotMatch(fs.readFileSync(log, 'latin1').slice(from), /http request count is zero/);
});
