// On a connection of HTTP/2 answers wait for what others have put into its socket. Over a slow link that may be longer than clients have for
// what they do not take, and is no client's fault (services/edge/http/pace.h). A stack of its own, which gives clients little time.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http from 'node:http';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { metric, ownHost, port } from '../support/own-host.mjs';
import { elsewhere, env, storyHost, until } from '../support/postern.mjs';
import { slowLink } from '../support/slow-link.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const WAIT = 200000, PIECE = Buffer.from(crypto.randomBytes(45000).toString('base64')), LARGE = 64 << 10, MADE = 64 << 10, REQUEST = 20 << 10;
const RATE = 20000; // bytes a second: half of what a socket takes ahead needs longer than clients have

const slow = () => metric('clients_slow_total{worker="0"}'), lent = () => metric('read_memory_bytes{worker="0"}'), memory = () => metric('request_memory_bytes{worker="0"}'), encoders = () => metric('encoder_memory_bytes{worker="0"}');

test('an answer waits for others on a slow connection; one that its client has given up keeps nothing that others could use', { skip, timeout: 290000 }, async () => {
  const backend = http.createServer((request, response) => {
    if (!request.url.startsWith('/large')) return response.end('small');
    response.writeHead(200, { 'Content-Type': 'text/plain' }).on('error', () => {});
    const more = () => { while (response.write(PIECE)); };
    response.on('drain', more);
    return more();
  });
  await new Promise((resolve) => backend.listen(0, storyHost, resolve));
  const address = `${storyHost}:${backend.address().port}`;
  const there = await ownHost('behind', { POSTERN_CLIENT_SEND_TIMEOUT: '15s' }, { '/': address, '/large/given-up': address }, { '/large/given-up': { compression: {} } }), { host, ca } = there;
  const link = await slowLink({ port, localAddress: '127.0.0.64', rate: RATE });
  const session = http2.connect(`https://${host}`, { settings: { initialWindowSize: 1 << 24 }, createConnection: () => tls.connect({ host: '127.0.0.1', port: link.port, servername: host, ca, ALPNProtocols: ['h2'] }) }).on('error', () => {});
  const get = (path) => {
    const one = { bytes: 0, ended: false }, stream = session.request({ ':path': path, ':authority': host, 'accept-encoding': 'gzip' });
    stream.on('error', () => {}).on('close', () => { one.ended = true; one.code = stream.rstCode; }).on('response', (fields) => { one.status = fields[':status']; }).on('data', (part) => { one.bytes += part.length; });
    return Object.assign(one, { giveUp: () => stream.close(http2.constants.NGHTTP2_CANCEL) });
  };
  try {
    await new Promise((resolve, reject) => session.on('connect', resolve).on('error', reject));
    session.setLocalWindowSize(1 << 28);
    await until(async () => { const one = get('/'); await until(() => one.ended, 'a small answer', WAIT); return there.events().length; }, 'somebody listens to events', WAIT);
    await until(async () => await lent() + await memory() === 0, 'nothing is under way', WAIT);
    const before = await slow(), large = get('/large');
    await until(() => large.bytes > RATE, 'the socket of its connection is full', WAIT);
    const small = get('/small'), givenUp = get('/large/given-up');
    await until(async () => await lent() === 2 * LARGE && await encoders() > MADE && await memory() > 3 * REQUEST, 'both large ones have begun, and the small one', WAIT);
    givenUp.giveUp();
    await until(async () => await lent() === LARGE && await encoders() <= MADE, 'what was lent to it comes back, and its encoder', WAIT);
    assert.ok(await memory() > 3 * REQUEST, 'while its head waits for the socket');
    await until(() => small.ended, 'the small one has come', WAIT);
    assert.deepEqual([small.status, small.code, small.bytes], [200, 0, 'small'.length]);
    const { object } = await until(() => there.events().find(({ object: { http: { request } } }) => request.url.path === '/large/given-up'), 'the event of the other one', WAIT);
    assert.notEqual(object.http.response.error_code, 'ERR_POSTERN_918');
    assert.deepEqual([large.ended, session.destroyed, await slow()], [false, false, before]);
  } finally {
    session.destroy();
    link.close();
    backend.closeAllConnections();
    backend.close();
    await there.end();
  }
});
