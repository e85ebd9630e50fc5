// Large bodies of the API: nobody waits while they are parsed, and nobody's is read who has not shown a key.
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { api, env, must, until } from '../support/postern.mjs';

const url = new URL(env.POSTERN_API_URL);
const MIB = 1 << 20, SMALL = 8192;
const head = (token, more, path = '/backends/http_response') =>
  `POST ${path} HTTP/1.1\r\nHost: api\r\nService-Version: 2\r\nContent-Type: application/json\r\n${token ? `Authorization: Bearer ${token}\r\n` : ''}${more}\r\n\r\n`;
const wrong = `2abcdefghijklmnopqrstuvwxyz_${'x'.repeat(21)}`;

// A connection: {write, text (what it was answered), answered() once there is a status in it, closed}
function connect() {
  const socket = net.connect(Number(url.port), url.hostname);
  let told = () => {};
  const self = { text: '', closed: false, answered: () => new Promise((resolve) => { told = resolve; }), write: (bytes) => new Promise((resolve) => socket.write(bytes, resolve)), end: () => socket.destroy() };
  socket.on('data', (part) => { self.text += part; if (status(self)) told(); }).on('error', () => {}).on('close', () => { self.closed = true; });
  return self;
}
const status = (one) => Number(/^HTTP\/1\.1 (\d{3})/.exec(one.text.replace('HTTP/1.1 100 Continue\r\n\r\n', ''))?.[1]);

// Valid JSON up to its last byte, so that only parsing all of it tells.
const values = Buffer.from(`{"a":[${'1,'.repeat((MIB - 20) / 2)}1]`.padEnd(MIB - 1));

test('whoever asks while large bodies are parsed is answered before they are', { timeout: 280000 }, async () => {
  const MANY = 24, other = account();
  assert.equal((await other.api('GET', '/backends/static')).status, 200);
  const all = Array.from({ length: MANY }, connect);
  await Promise.all(all.map((one) => one.write(head(env.POSTERN_API_KEY, `Content-Length: ${MIB}`))));
  await Promise.all(all.map((one) => one.write(values)));
  // What completes the bodies and the questions of others go into their sockets at once: were there an answer in between, somebody who is slow here would
  // give the gateway the time for all bodies.
  const text = JSON.stringify({ body: 'x', metadata: 'y'.repeat(2 * SMALL) }), get = `GET /backends/static HTTP/1.1\r\nHost: api\r\nService-Version: 2\r\nAuthorization: Bearer ${other.token}\r\n\r\n`;
  const others = Array.from({ length: 6 }, connect);
  await Promise.all(others.map((one) => one.write(get)));
  await until(() => others.every((one) => status(one) === 200), 'who asks is known');
  const asked = others.map(async (one, i) => { one.text = ''; await one.answered(); assert.equal(status(one), i < 5 ? 200 : 400); });
  all.forEach((one) => one.write('x'));
  others.forEach((one, i) => one.write(i < 5 ? get : head(other.token, `Content-Length: ${text.length}`) + text));
  await Promise.all(asked);
  const before = all.filter(status).length;
  for (let i = 0; i < 5; i++) assert.equal((await other.api('GET', '/backends/static')).status, 200);
  await until(() => all.every(status), 'all are answered', 120000);
  for (const one of all) {
    assert.match(one.text, /^HTTP\/1\.1 (413|503)/); // it has too many values, or there was no time for it
    one.end();
  }
  assert.ok(before < MANY, 'theirs were all parsed first');
  for (const one of others) one.end();
});

for (const [what, token, wanted] of [['no key', '', 401], ['a key that is none', wrong, 401]])
  for (const [how, more] of [['a length', `Content-Length: ${MIB}`], ['chunks', 'Transfer-Encoding: chunked']])
    test(`a large body by ${how}, with ${what}, is refused before it is sent`, { timeout: 280000 }, async () => {
      const one = connect();
      await one.write(head(token, more));
      if (how === 'chunks') await one.write(`100000\r\n${'x'.repeat(SMALL + 1)}`);
      await until(() => status(one), 'an answer');
      assert.equal(status(one), wanted);
      assert.match(one.text, /\r\nConnection: close\r\n/i);
      await one.write('{}'.repeat(MIB / 4)); // it is read, and thrown away
      one.end();
    });

test('who waits to be told to send a large body is told when the key is known', { timeout: 280000 }, async () => {
  const text = JSON.stringify({ body: 'x'.repeat(SMALL) });
  for (const [token, want] of [[wrong, 401], [env.POSTERN_API_KEY, 201]]) {
    const one = connect();
    await one.write(head(token, `Content-Length: ${text.length}\r\nExpect: 100-continue`));
    await until(() => one.text.includes('\r\n\r\n'), 'a first answer');
    assert.equal(one.text.startsWith('HTTP/1.1 100 '), want === 201, one.text);
    if (want === 201) await one.write(text);
    await until(() => status(one), 'an answer');
    assert.equal(status(one), want);
    one.end();
  }
});

test('a key that is deleted while a body is sent counts no more', { timeout: 280000 }, async () => {
  const made = await must('POST', '/api_keys', {});
  const text = JSON.stringify({ body: 'x'.repeat(4 * SMALL) });
  const one = connect();
  await one.write(head(made.token, `Content-Length: ${text.length}`));
  await one.write(text.slice(0, -1));
  await must('DELETE', `/api_keys/${made.id}`);
  await one.write(text.slice(-1));
  await until(() => status(one), 'an answer');
  assert.equal(status(one), 401, one.text);
  one.end();
});

test('large bodies are what small ones are: on one connection, in any parts, with the same errors', { timeout: 280000 }, async () => {
  const one = connect(), body = 'y'.repeat(3 * SMALL);
  const texts = [JSON.stringify({ body }), JSON.stringify({ body }).slice(0, -1), JSON.stringify({ body: 'z' }), JSON.stringify({ body })];
  const chunked = (text) => `${text.match(/.{1,5000}/gs).map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')}0\r\n\r\n`;
  await one.write(texts.map((text) => head(env.POSTERN_API_KEY, `Content-Length: ${text.length}`) + text).join(''));
  for (const text of texts) {
    await one.write(head(env.POSTERN_API_KEY, 'Transfer-Encoding: chunked'));
    for (const part of chunked(text).match(/.{1,3000}/gs)) await one.write(part);
  }
  const statuses = () => [...one.text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
  await until(() => statuses().length === 8, 'all are answered');
  assert.deepEqual(statuses(), [201, 400, 201, 201, 201, 400, 201, 201]);
  assert.match(one.text, /The request body is not JSON: line 1, column/);
  one.end();
  const made = await api('POST', '/backends/http_response', { body }, { 'Idempotency-Key': `large-${process.pid}` });
  const again = await api('POST', '/backends/http_response', { body }, { 'Idempotency-Key': `large-${process.pid}` });
  assert.equal(made.status, 201);
  assert.equal(again.body.id, made.body.id);
  assert.equal(made.body.body, body);
});
