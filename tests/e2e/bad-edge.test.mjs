// Malformed and hostile requests at the edge, each with its answer. What reaches the upstream must be
// what was matched: a private path is on another route than the public one.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import net from 'node:net';
import test from 'node:test';
import { edge, endpoint, listening, must, raw, through, until, upstream } from '../support/postern.mjs';

const open = await upstream(), closed = await upstream();
const to = await endpoint(open.address);
const priv = await must('POST', '/backends/static', { address: closed.address });
const root = `/edges/https/${to.edge.id}/routes`;
await must('POST', root, { match: '/admin', match_type: 'path_prefix', backend: { backend_id: priv.id } });
await must('POST', root, { match: '/health', match_type: 'exact_path', backend: { backend_id: priv.id } });
const host = to.host;

// Every request leaves one event, refused or not.
const sub = await listening('http_request_complete');
const events = () => sub.events.filter((event) => event.object.conn.server_name === host);

const status = (text) => Number((/^HTTP\/1\.[01] (\d+)/.exec(text) ?? [])[1] ?? 0);
const lines = (first, ...headers) => [first, `Host: ${host}`, 'Connection: close', ...headers, '', ''].join('\r\n');
const get = (target) => lines(`GET ${target} HTTP/1.1`);

// [what, bytes, allowed statuses (0: closed without answer), upstream url or undefined]
const cases = [
  // paths: normalised once, matched and sent in the same spelling
  ['dot segment', get('/a/./b'), [200], '/a/b'],
  ['dot dot', get('/a/../b'), [200], '/b'],
  ['dot dot at the root', get('/../b'), [400]],
  ['escaped dots', get('/a/%2e%2e/b'), [200], '/b'],
  ['escaped dots upper', get('/a/%2E%2E/b'), [200], '/b'],
  ['half escaped dots', get('/a/.%2e/b'), [200], '/b'],
  ['to a private path by dots', get('/x/../admin'), [200], '/admin', closed],
  ['to a private path by escaped dots', get('/x/%2e%2e/admin/y'), [200], '/admin/y', closed],
  ['to a private path by an escaped letter', get('/%61dmin'), [200], '/admin', closed],
  ['to a private path by slashes', get('//admin'), [200], '/admin', closed],
  ['many slashes', get('/a////b//'), [200], '/a/b/'],
  ['escaped slash stays', get('/a%2fb'), [200], '/a%2Fb'],
  ['escaped slash and dots', get('/a/..%2fadmin'), [400]],
  ['escaped backslash and dots', get('/a/..%5cadmin'), [400]],
  ['dots behind an escaped slash', get('/a%2f../admin'), [400]],
  ['dots hidden behind an escaped slash', get('/a%2f..'), [400]],
  ['dots with a parameter', get('/a/..;/admin'), [400]],
  ['dots with a parameter value', get('/a/..;x=1/admin'), [400]],
  ['parameter', get('/a;x=1/b'), [200], '/a;x=1/b'],
  ['raw backslash', get('/a\\..\\admin'), [400]],
  ['escaped NUL', get('/a%00b'), [400]],
  ['escaped NUL before a suffix', get('/admin%00.png'), [400]],
  ['escaped newline', get('/a%0d%0aX: y'), [400]],
  ['escaped newline alone', get('/a%0d%0ab'), [400]],
  ['escaped tab', get('/a%09b'), [400]],
  ['escaped DEL', get('/a%7f'), [400]],
  ['percent alone', get('/a%'), [400]],
  ['percent and one digit', get('/a%2'), [400]],
  ['percent and no hex', get('/a%zz'), [400]],
  ['double escape stays', get('/a%252e%252e/b'), [200], '/a%252e%252e/b'],
  ['over-long slash', get('/a%c0%afb'), [400]],
  ['over-long dot', get('/%c0%ae%c0%ae/admin'), [400]],
  ['over-long three bytes', get('/%e0%80%ae'), [400]],
  ['surrogate', get('/%ed%a0%80'), [400]],
  ['beyond Unicode', get('/%f4%90%80%80'), [400]],
  ['truncated UTF-8', get('/%e2%82'), [400]],
  ['UTF-8', get('/%e2%82%ac'), [200], '/%E2%82%AC'],
  ['raw UTF-8', Buffer.from(get('/\u20ac')), [200], '/%E2%82%AC'],
  ['raw byte', Buffer.from(get('/\u00ff'), 'latin1'), [400]],
  ['fragment', get('/public#/../admin'), [400]],
  ['fragment in the query', get('/public?a=b#c'), [400]],
  ['escaped fragment', get('/a%23b'), [200], '/a%23b'],
  ['exact path in the query', get('/x?path=/health'), [200], '/x?path=/health'],
  ['exact path and a parameter', get('/health;x'), [200], '/health;x'],
  ['exact path and an escaped fragment', get('/health%23'), [200], '/health%23'],
  ['exact path and an escaped question mark', get('/health%3f'), [200], '/health%3F'],
  ['exact path itself', get('/health'), [200], '/health', closed],
  ['query kept as it is', get('/x?a=%2e%2e/&b=%00'), [200], '/x?a=%2e%2e/&b=%00'],
  ['URI of 20 KB', get(`/${'a'.repeat(20000)}`), [414]],
  // request lines
  ['absolute form', get(`https://${host}/abs`), [200], '/abs'],
  ['absolute form of another host', get('https://other.example.test/abs'), [404]],
  ['asterisk', get('*'), [400]],
  ['no leading slash', get('admin'), [400]],
  ['space in the target', lines('GET /a b HTTP/1.1'), [400]],
  ['tab in the target', lines('GET /a\tb HTTP/1.1'), [400]],
  ['control byte in the target', Buffer.from(lines('GET /a\u0001b HTTP/1.1'), 'latin1'), [400]],
  ['NUL in the target', Buffer.from(lines('GET /a\u0000b HTTP/1.1'), 'latin1'), [400]],
  ['lower-case method', lines('get / HTTP/1.1'), [400]],
  ['CONNECT', lines(`CONNECT ${host}:443 HTTP/1.1`), [405]],
  ['CONNECT of a path', lines('CONNECT / HTTP/1.1'), [405]],
  ['TRACE', lines('TRACE / HTTP/1.1'), [405]],
  ['HTTP/3.0', lines('GET / HTTP/3.0'), [505]],
  ['HTTP/1.2', lines('GET / HTTP/1.2'), [200, 505, 400], '/'],
  ['garbage', 'hello\r\n\r\n', [400]],
  ['TLS inside TLS', Buffer.from([22, 3, 1, 0, 5, 1, 0, 0, 1, 0]), [400]],
  // hosts
  ['no Host', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n', [400]],
  ['two Hosts', lines('GET / HTTP/1.1', 'Host: other.example.test'), [400]],
  ['Host with a slash', `GET / HTTP/1.1\r\nHost: ${host}/x\r\nConnection: close\r\n\r\n`, [400]],
  ['Host with a space', `GET / HTTP/1.1\r\nHost: ${host} x\r\nConnection: close\r\n\r\n`, [400]],
  ['Host with a user', `GET / HTTP/1.1\r\nHost: a@${host}\r\nConnection: close\r\n\r\n`, [400]],
  ['Host of nobody', 'GET / HTTP/1.1\r\nHost: nobody.example.test\r\nConnection: close\r\n\r\n', [404]],
  ['empty Host', 'GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n', [400]],
  // headers
  ['space before the colon', lines('GET / HTTP/1.1', 'X-A : b'), [400]],
  ['no colon', lines('GET / HTTP/1.1', 'nonsense'), [400, 200], '/'],
  ['empty name', lines('GET / HTTP/1.1', ': evil'), [400, 200], '/'],
  ['folded line', lines('GET / HTTP/1.1', 'X-A: b', ' c: d'), [400, 200], '/'],
  ['NUL in a value', Buffer.from(lines('GET / HTTP/1.1', 'X-A: b\u0000c'), 'latin1'), [400]],
  ['CR in a value', lines('GET / HTTP/1.1', 'X-A: b\rX-C: d'), [400, 200], '/'],
  ['headers of 100 KB', lines('GET / HTTP/1.1', `X-A: ${'a'.repeat(100000)}`), [431]],
  ['headers of 100 KB in short lines', lines('GET / HTTP/1.1', ...Array.from({ length: 1000 }, (_, i) => `X-${i}: ${'a'.repeat(100)}`)), [431]],
  // framing: what one peer reads as two requests
  ['class_smuggling_cl_te', `${lines('POST / HTTP/1.1', 'Content-Length: 6', 'Transfer-Encoding: chunked')}0\r\n\r\nG`, [400]],
  ['class_smuggling_te_cl', `${lines('POST / HTTP/1.1', 'Transfer-Encoding: chunked', 'Content-Length: 3')}8\r\nSMUGGLED\r\n0\r\n\r\n`, [400]],
  ['class_smuggling_two_lengths', `${lines('POST / HTTP/1.1', 'Content-Length: 1', 'Content-Length: 2')}ab`, [400]],
  ['class_smuggling_length_list', `${lines('POST / HTTP/1.1', 'Content-Length: 1, 1')}a`, [400]],
  ['class_smuggling_negative_length', lines('POST / HTTP/1.1', 'Content-Length: -1'), [400]],
  ['class_smuggling_plus_length', `${lines('POST / HTTP/1.1', 'Content-Length: +1')}a`, [400]],
  ['class_smuggling_huge_length', lines('POST / HTTP/1.1', 'Content-Length: 99999999999999999999'), [400]],
  ['class_smuggling_te_identity', lines('POST / HTTP/1.1', 'Transfer-Encoding: identity'), [501]],
  ['class_smuggling_te_list', lines('POST / HTTP/1.1', 'Transfer-Encoding: gzip, chunked'), [501]],
  ['class_smuggling_te_twice', lines('POST / HTTP/1.1', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'), [400]],
  ['class_smuggling_te_tab', lines('POST / HTTP/1.1', 'Transfer-Encoding:\tchunked, x'), [501]],
  ['class_smuggling_te_underscore', `${lines('POST / HTTP/1.1', 'Transfer_Encoding: chunked', 'Content-Length: 2')}hi`, [200], '/'],
  ['class_smuggling_bad_chunk', `${lines('POST / HTTP/1.1', 'Transfer-Encoding: chunked')}zz\r\nhello\r\n0\r\n\r\n`, [400]],
  ['class_smuggling_huge_chunk', `${lines('POST / HTTP/1.1', 'Transfer-Encoding: chunked')}fffffffffffffffff\r\nhello\r\n`, [400]],
  ['class_h2c_upgrade', lines('GET / HTTP/1.1', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__', 'Connection: Upgrade, HTTP2-Settings'), [200], '/'],
];

test('at_least_60_hostile_requests', () => assert.ok(cases.length >= 60, `${cases.length} cases`));

for (const [what, bytes, allowed, url, where = open] of cases)
  test(`bad_edge: ${what}`, async () => {
    open.seen.length = closed.seen.length = 0;
    const before = events().length;
    const text = await raw(host, bytes, { wait: 3000 });
    const got = status(text);
    assert.ok(allowed.includes(got), `${got}, not ${allowed}: ${text.slice(0, 200)}`);
    await until(() => events().length > before, 'its event');
    const { account_id: account, object: { http: { request, response }, tls: { version } } } = events()[before];
    assert.equal(response.status_code, got);
    assert.ok(version.startsWith('TLSv1'));
    const [, method, target] = /^([A-Za-z]+) ([^\r]*?)( HTTP\/[0-9.]*)?\r\n/.exec(bytes.toString('latin1')) ?? [];
    assert.equal(request.method, method?.toLowerCase() ?? '');
    if (/^\/[ -$&-~]*$/.test(target) && target.length < 1000 && got !== 200) assert.ok(request.url.raw.endsWith(target), `${request.url.raw} of ${target}`);
    assert.ok(account === '' || (request.url.host === host && account.startsWith('ac_')), `${account} of ${request.url.host}`);
    if (got !== 200) {
      const page = text.slice(text.indexOf('\r\n\r\n') + 4);
      const { error_code: code, status_code: code_status, details } = JSON.parse(page);
      assert.match(code, /^ERR_POSTERN_9\d\d$/);
      assert.equal(code_status, got);
      assert.match(text, new RegExp(`^Postern-Request-Id: ${details.request_id}\r$`, 'm'));
      assert.match(text, /^Connection: close\r$/m);
    }
    const arrived = [...open.seen, ...closed.seen];
    if (got === 200 && url) {
      assert.equal(arrived.length, 1);
      assert.equal(where.seen.length, 1, 'the matched route is the one that serves');
      assert.equal(where.seen[0].url, url);
      assert.ok(!('upgrade' in where.seen[0].headers));
    } else if (got !== 200) {
      assert.equal(arrived.length, 0, `reached an upstream: ${JSON.stringify(arrived.map((one) => one.url))}`);
    }
  });

// The server name of a client hello is read by the edge itself (RFC 6066 3). 22: its answer is a handshake record; 21: an alert, fatal
// and 112 (unrecognized_name) where the name can be read and nobody serves it.
const u16 = (n) => Buffer.from([n >> 8, n & 255]);
const sized = (bytes) => Buffer.concat([u16(bytes.length), bytes]);
const extension = (type, bytes) => Buffer.concat([u16(type), sized(bytes)]);
const name = (text, type = 0) => Buffer.concat([Buffer.from([type]), sized(Buffer.from(text, 'latin1'))]);
const hello = (serverName) => {
  const body = Buffer.concat([
    u16(0x0303), crypto.randomBytes(32), Buffer.from([0]), sized(Buffer.concat([u16(0x1301), u16(0xc02b), u16(0xc02f)])), Buffer.from([1, 0]),
    sized(Buffer.concat([
      ...(serverName ? [extension(0, serverName)] : []), extension(10, sized(u16(29))), extension(13, sized(Buffer.concat([0x0403, 0x0804, 0x0401].map(u16)))),
      extension(43, Buffer.from([2, 3, 4])), extension(51, sized(Buffer.concat([u16(29), sized(crypto.randomBytes(32))]))),
    ]))]);
  return Buffer.concat([Buffer.from([22, 3, 1]), sized(Buffer.concat([Buffer.from([1, 0]), sized(body)]))]);
};
for (const [what, serverName, record, alert] of [
  ['none', null, 21],
  ['of this edge', sized(name(host)), 22],
  ['of nobody', sized(name('nobody.example.test')), 21, 112],
  ['of 255 bytes', sized(name('a'.repeat(255))), 21, 112],
  ['of 256 bytes', sized(name('a'.repeat(256))), 21],
  ['of 16,000 bytes', sized(name('a'.repeat(16000))), 21],
  ['with a NUL', sized(name(`${host}\0.evil`)), 21],
  ['an extension without bytes', Buffer.alloc(0), 21],
  ['a list without names', sized(Buffer.alloc(0)), 21],
  ['a list that is cut', Buffer.from([0, 9, 0]), 21],
  ['a name longer than its list', sized(Buffer.from([0, 255, 255, 97])), 21],
  ['a list longer than its extension', Buffer.concat([u16(500), name(host)]), 21],
  ['bytes behind the list', Buffer.concat([sized(name(host)), Buffer.from([1, 2])]), 21],
  ['another type of name', sized(name(host, 1)), 21],
])
  test(`bad_edge: a server name: ${what}`, { timeout: 280000 }, async () => {
    const got = await new Promise((resolve, reject) => {
      const socket = net.connect({ host: edge.host, port: edge.port }, () => socket.write(hello(serverName)));
      socket.on('data', (part) => { resolve([part[0], part[5], part[6]]); socket.destroy(); });
      socket.on('end', () => resolve([])).on('error', reject);
    });
    assert.equal(got[0], record);
    if (alert) assert.deepEqual(got.slice(1), [2, alert]);
  });

test('class_normalisation_agrees_with_the_upstream_path_for_generated_variants', { timeout: 280000 }, async () => {
  const { Agent } = await import('node:https');
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const pieces = ['/', '//', '.', '..', '%2e', '%2E', '%2f', '%5c', 'a', '%61', 'admin', '%61dmin', ';', ';x', '%3b', '~', '%7e', '%c3%a9', '+'];
  let seed = 12345;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const one = async () => {
    let path = '/';
    for (let i = 0; i < 1 + random(7); i++) path += pieces[random(pieces.length)];
    const got = await through(host, path, { agent, headers: { 'X-Sent': path } });
    if (got.status !== 200) { assert.equal(got.status, 400, path); return; }
    const { url, headers } = JSON.parse(got.body);
    assert.equal(headers['x-sent'], path);
    assert.ok(!/(^|\/)\.\.?(\/|$)|\/\/|%2e|%7e|%61/i.test(url), `${path} arrived as ${url}`);
    const served = closed.seen.some((seen) => seen.headers['x-sent'] === path) ? 'closed' : 'open';
    assert.equal(served, url.startsWith('/admin') || url === '/health' ? 'closed' : 'open', `${path} as ${url}`);
  };
  open.seen.length = closed.seen.length = 0;
  for (let i = 0; i < 250; i++) await Promise.all(Array.from({ length: 8 }, one));
  agent.destroy();
});

test('after_all_that_the_edge_still_serves', async () => {
  assert.equal((await through(host, '/fine')).status, 200);
  assert.equal(events().length > cases.length, true);
  await sub.stop();
  await open.close();
  await closed.close();
});
