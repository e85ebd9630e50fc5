// What the edge makes of a request's host, and of requests in forms that few clients use.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { answerOf, DATA, END_HEADERS, END_STREAM, exchange, frame, HEADERS, headers, PADDED, SETTINGS } from '../support/h2raw.mjs';
import { ca, edge, endpoint, listening, must, raw, through, unique, until, upstream } from '../support/postern.mjs';

const up = await upstream();
const to = await endpoint(up.address);
const { host } = to;
const status = (text) => Number((/^HTTP\/1\.[01] (\d+)/.exec(text) ?? [])[1] ?? 0);
test.after(() => up.close());

// RFC 9112 3.2.2: the target names the host; only HTTP/1.1 needs a Host beside it.
for (const version of ['HTTP/1.0', 'HTTP/1.00'])
  for (const scheme of ['https', 'http'])
    test(`absolute form without Host: ${scheme} ${version}`, async () => {
      up.seen.length = 0;
      const text = await raw(host, `GET ${scheme}://${host}/abs ${version}\r\n\r\n`);
      assert.equal(status(text), 200, text);
      assert.equal(up.seen.length, 1);
      assert.equal(up.seen[0].url, '/abs');
      assert.equal(up.seen[0].headers.host, host);
      assert.equal(up.seen[0].headers['x-forwarded-host'], host);
      assert.equal((await through(host)).status, 200, 'and the worker serves on');
    });

for (const target of [`https://HOST/`, 'http://HOST/', '/', 'https://nobody.example.test/'])
  test(`HTTP/0.9 has no headers and is refused: ${target}`, async () => {
    up.seen.length = 0;
    const text = await raw(host, `GET ${target.replace('HOST', host)}\r\n`);
    assert.equal(status(text), 505, text);
    assert.match(text, /ERR_POSTERN_915/);
    assert.equal(up.seen.length, 0);
    assert.equal((await through(host)).status, 200, 'and the worker serves on');
  });

// What has no version has no headers, but an answer all the same: a page without a status line would be taken for what follows.
test('a line without a version is refused with a status line, whatever its method', async () => {
  for (const line of ['PUT /', 'POST /x', `HEAD https://${host}/`, 'OPTIONS *', 'get /']) {
    for (const text of [await raw(host, `${line}\r\n`), await plain(`${line}\r\n`)]) {
      assert.match(text, /^HTTP\/1\.[01] (400|505) /, `${line}: ${text}`);
      assert.match(text, /\r\nConnection: close\r\n/, `${line}: ${text}`);
    }
  }
});

// RFC 9112 9.6: whoever closes a socket while bytes still come resets it, and that may take the answer away from who sends them.
test('a client that goes on sending what is refused already is not cut off', async () => {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['http/1.1'], allowHalfOpen: true });
  let text = '';
  socket.on('data', (part) => { text += part; });
  await new Promise((resolve, reject) => socket.on('secureConnect', resolve).on('error', reject));
  socket.write(`POST /${'a'.repeat(16384 - 'POST /'.length)}`); // in one record, all of which is read when the line is too long
  // all of it at once: who says nothing for some seconds may be cut off
  await new Promise((resolve, reject) => socket.on('error', reject).on('end', () => {
    for (let i = 0; i < 20; i++) socket.write('a'.repeat(2000), (error) => { if (error) reject(error); else if (i === 19) resolve(); });
  }));
  assert.equal(status(text), 414, text);
  socket.destroy();
});

// RFC 9113 6.2: padding is of the frame, which may come in parts like any other.
test('HTTP/2: the padding of a head that comes while its request runs is not taken for the body', async () => {
  const arrived = [], slow = http.createServer((request, response) => { arrived.push(request.url); request.resume().on('end', () => response.end('x')); });
  await new Promise((resolve) => slow.listen(0, up.address.split(':')[0], resolve));
  const { host: name } = await endpoint(`${up.address.split(':')[0]}:${slow.address().port}`);
  const fields = headers([[':method', 'PUT'], [':scheme', 'https'], [':authority', name], [':path', '/padded'], ['content-length', '1']]);
  const head = frame(HEADERS, END_HEADERS | PADDED, 1, Buffer.concat([Buffer.from([100]), fields, Buffer.alloc(100)]));
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: name, ca, ALPNProtocols: ['h2'] });
  let got;
  try {
    await new Promise((resolve, reject) => socket.on('secureConnect', resolve).on('error', reject));
    const answer = answerOf(socket);
    socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0), head.subarray(0, -50)]));
    await until(() => arrived.length || answer.status, 'the request runs');
    socket.write(Buffer.concat([head.subarray(-50), frame(DATA, END_STREAM, 1, Buffer.from('b'))]));
    await until(() => answer.status, 'an answer');
    got = answer.status;
  } finally {
    socket.destroy();
    slow.closeAllConnections();
    slow.close();
  }
  assert.equal(got, 200);
});

// One host, checked once, is what everything uses: `as` is what the upstream is told, or the answer's status and code.
const request = (target, hostLine, ...more) => [`GET ${target} HTTP/1.1`, ...(hostLine === undefined ? [] : [`Host: ${hostLine}`]), ...more, 'Connection: close', '', ''].join('\r\n');
const refused = { status: 400, code: 910 }, nobody = { status: 404, code: 901 };
const hosts = [
  ['as it is', '/', host, host],
  ['upper case', '/', host.toUpperCase(), host],
  ['a trailing dot', '/', `${host}.`, host],
  ['a port', '/', `${host}:443`, `${host}:443`],
  ['another port, as behind a port mapping', '/', `${host}:8443`, `${host}:8443`],
  ['the least port', '/', `${host}:1`, `${host}:1`],
  ['a port of two digits', '/', `${host}:80`, `${host}:80`],
  ['the largest port', '/', `${host}:65535`, `${host}:65535`],
  ['a port with zeros before it', '/', `${host}:00443`, `${host}:443`],
  ['a trailing dot and a port', '/', `${host.toUpperCase()}.:443`, `${host}:443`],
  ['an empty port', '/', `${host}:`, host],
  ['absolute form and another Host', `https://${host}/x`, 'other.example.test', host],
  ['absolute form in capitals and another Host', `HTTPS://${host.toUpperCase()}/x`, 'other.example.test:8443', host],
  ['absolute form with a port and another Host', `https://${host}:8443/x`, `${host}:1`, `${host}:8443`],
  ['absolute form without a path', `https://${host}?q=1`, host, host],
  ['absolute form with another scheme', `ftp://${host}/x`, host, refused],
  ['absolute form of another and this Host', 'https://other.example.test/x', host, nobody],
  ['absolute form and a Host with junk', `https://${host}/x`, `${host}:443.evil.example`, refused],
  ['junk behind the port', '/', `${host}:443.evil.example`, refused],
  ['a port that is a word', '/', `${host}:https`, refused],
  ['port 0', '/', `${host}:0`, refused],
  ['port 65536', '/', `${host}:65536`, refused],
  ['a port of 20 digits', '/', `${host}:${'9'.repeat(20)}`, refused],
  ['two ports', '/', `${host}:443:443`, refused],
  ['a user', '/', `user@${host}`, refused],
  ['a user and a password', '/', `${host}:443@evil.example`, refused],
  ['a list', '/', `${host},evil.example`, refused],
  ['a wildcard', '/', '*.example.test', refused],
  ['a question mark', '/', `evil.example?.${host}`, refused],
  ['a fragment', '/', `evil.example#.${host}`, refused],
  ['a backslash', '/', `evil.example\\.${host}`, refused],
  ['an escape', '/', `%61.${host}`, refused],
  ['a letter beyond ASCII', '/', `\u00e9.${host}`, refused],
  ['an underscore', '/', `a_b.${host}`, nobody],
  ['an IPv6 literal', '/', '[::1]', nobody],
  ['an IPv6 literal and a port', '/', '[::1]:443', nobody],
  ['an IPv6 literal and junk', '/', '[::1]evil', refused],
];
const parent = unique('wild');
await must('POST', '/reserved_domains', { domain: `*.${parent}` });
const wild = await must('POST', '/edges/https', { hostports: [`*.${parent}:443`] });
await must('POST', `/edges/https/${wild.id}/routes`, { match: '/', match_type: 'path_prefix', backend: { backend_id: to.backend.id } });

test('one_host_is_what_everything_uses', async () => {
  const sub = await listening('http_request_complete');
  for (const [what, target, line, as] of hosts) {
    up.seen.length = 0;
    const mark = `h${Math.random().toString(36).slice(2)}`;
    const text = await raw(host, Buffer.from(request(target, line, `User-Agent: ${mark}`), 'latin1'));
    assert.equal(status(text), as.status ?? 200, `${what}: ${text}`);
    const event = await until(() => sub.events.find((one) => one.object.http.request.user_agent === mark), `event of ${what}`);
    if (as.status) {
      assert.match(text, new RegExp(`ERR_POSTERN_${as.code}`), what);
      assert.equal(up.seen.length, 0, what);
      continue;
    }
    assert.equal(up.seen[0].headers.host, as, what);
    assert.equal(up.seen[0].headers['x-forwarded-host'], as, what);
    assert.equal(event.object.http.request.url.host, host, what);
    assert.ok(event.object.http.request.url.raw.startsWith(`https://${as}/`), `${what}: ${event.object.http.request.url.raw}`);
  }
  await sub.stop();
});

test('a_wildcard_takes_no_host_that_is_no_name', async () => {
  for (const bad of ['evil.example?', 'evil.example#', 'evil.example\\', 'u@', 'a,b', '%2f', '"', '<', '*']) {
    up.seen.length = 0;
    const text = await raw(`a.${parent}`, request('/', `${bad}.${parent}`));
    assert.equal(status(text), 400, `${bad}: ${text}`);
    assert.equal(up.seen.length, 0, bad);
  }
  assert.equal(status(await raw(`a.${parent}`, request('/', `a.${parent}`))), 200);
});

// Bytes as they are on the plain HTTP port.
const plain = (bytes) => new Promise((resolve, reject) => {
  const parts = [], socket = net.connect({ host: edge.plainHost, port: edge.plainPort }, () => socket.write(bytes));
  socket.on('data', (part) => parts.push(part)).on('error', reject).on('close', () => resolve(Buffer.concat(parts).toString('latin1')));
});

test('the_redirect_to_https_goes_to_the_host_that_was_checked', async () => {
  const location = (text) => /^Location: (.*)\r$/m.exec(text)?.[1];
  const want = await plain(request('/x?y', host));
  assert.equal(status(want), 301, want);
  assert.ok(location(want).startsWith(`https://${host}`), want);
  for (const [target, line] of [['/x?y', `${host}:80`], ['/x?y', `${host.toUpperCase()}.`], [`http://${host}/x?y`, 'other.example.test']])
    assert.equal(location(await plain(request(target, line))), location(want), `${target} ${line}`);
  for (const line of [`${host}:80.evil.example`, `u@${host}`, `evil.example?.${parent}`, `evil.example\\.${parent}`]) {
    const text = await plain(request('/x', line));
    assert.equal(status(text), 400, `${line}: ${text}`);
    assert.equal(location(text), undefined, line);
  }
});

test('http2_authority_and_host_must_be_one', async () => {
  const pairs = (...more) => [[':method', 'GET'], [':path', '/'], [':scheme', 'https'], ...more];
  const ask = async (...more) => {
    up.seen.length = 0;
    return (await exchange(host, [frame(HEADERS, END_HEADERS | END_STREAM, 1, headers(pairs(...more)))], { until: (got) => got.status[1] })).status[1];
  };
  assert.equal(await ask([':authority', host]), 200);
  assert.equal(up.seen[0].headers.host, host);
  assert.equal(await ask([':authority', `${host.toUpperCase()}:8443`]), 200);
  assert.equal(up.seen[0].headers.host, `${host}:8443`);
  assert.equal(await ask(['host', host]), 200);
  for (const bad of [[[':authority', host], ['host', 'other.example.test']], [[':authority', 'other.example.test'], ['host', host]], [['host', host], ['host', host]],
    [], [[':authority', '']], [[':authority', `${host}:443.evil.example`]], [[':authority', `u@${host}`]], [['host', `${host}:x`]]]) {
    assert.equal(await ask(...bad), 400, JSON.stringify(bad));
    assert.equal(up.seen.length, 0, JSON.stringify(bad));
  }
});

// RFC 9112 7.1: behind chunks that are none there is no request, whoever answers the one before, and whatever with.
test('what follows a broken body is never the next request', async () => {
  const only = await endpoint({ body: 'fixed' }, { match: '/only' });
  const request = (path, name) => `POST ${path} HTTP/1.1\r\nHost: ${name}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const answers = (text) => [...text.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((row) => Number(row[1]));
  const hidden = `GET /only/smuggled HTTP/1.1\r\nHost: ${only.host}\r\n\r\n`;
  for (const good of ['', '3\r\nabc\r\n']) {
    assert.deepEqual(answers(await raw(only.host, request('/nothere', only.host) + good + hidden)), [404]);
    assert.deepEqual(answers(await raw(only.host, request('/only', only.host) + good + hidden)), [400]);
    assert.deepEqual(answers(await raw(host, request('/', host) + good + hidden)), [400]);
    assert.deepEqual(answers(await raw(only.host, request('/only', unique('nobody')) + good + hidden)), [404]);
    assert.deepEqual(answers(await plain(request('/', only.host) + good + hidden)), [308]);
    assert.deepEqual(answers(await plain(request('/', unique('nobody')) + good + hidden)), [404]);
  }
  assert.equal((await through(only.host, '/only')).status, 200);
});

for (const control of ['\x01', '\x1b[31m', '\x7f'])
  test(`a field with a control character is refused: ${JSON.stringify(control)}`, async () => {
    up.seen.length = 0;
    assert.equal(status(await raw(host, `GET / HTTP/1.1\r\nHost: ${host}\r\nReferer: http://a/${control}\r\nConnection: close\r\n\r\n`)), 400);
    assert.equal(status(await raw(host, `GET / HTTP/1.1\r\nHost: ${host}\r\nX-Tab: a\tb\r\nX-Latin: \xe9\r\nConnection: close\r\n\r\n`)), 200);
    assert.equal(up.seen.length, 1);
  });
