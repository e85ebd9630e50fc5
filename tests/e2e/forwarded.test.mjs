// Whom the edge believes about where a request comes from. The stack of these stories trusts proxies at 127.0.0.2 and
// 127.0.0.3 (POSTERN_TRUSTED_PROXIES in the Makefile): a story is one by connecting from there.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { elsewhere, endpoint, listening, raw, through, until, upstream } from '../support/postern.mjs';

const up = await upstream();
const to = await endpoint(up.address);
const { host } = to;
test.after(() => up.close());

const claims = [...fs.readFileSync(new URL('../../proto/forwarded.def', import.meta.url), 'utf8').matchAll(/^FORWARDED\("([^"]+)",\s+(\w+),/gm)]
  .map(([, name, who]) => ({ name, who }));
const own = { 'x-forwarded-for': 'FOR', 'x-forwarded-proto': 'PROTO', 'x-forwarded-host': 'HOST' };

// What arrives at the upstream of a request with these header lines: all its raw headers, names in lower case.
const arrives = async (lines, from = '127.0.0.1') => {
  up.seen.length = 0;
  const text = await raw(host, [`GET / HTTP/1.1`, `Host: ${host}`, ...lines, 'Connection: close', '', ''].join('\r\n'), { tlsOptions: { localAddress: from } });
  assert.match(text, /^HTTP\/1\.1 200/);
  assert.equal(up.seen.length, 1);
  const { rawHeaders } = up.seen[0];
  return rawHeaders.flatMap((name, i) => (i % 2 ? [] : [[name.toLowerCase(), rawHeaders[i + 1]]]));
};
const of = (all, name) => all.filter(([one]) => one === name).map(([, value]) => value);

test('readme_lists_every_claim', () => {
  const readme = fs.readFileSync(new URL('../../services/edge/README.md', import.meta.url), 'utf8');
  assert.ok(claims.length > 60);
  for (const { name, who } of claims) {
    const written = who === 'NEVER' ? name.replace(/\*$/, '') : name;
    assert.ok(who in { FOR: 1, PROTO: 1, HOST: 1 } || readme.includes(`\`${written}\``), name);
  }
});

test('no_forwarded_of_a_stranger_reaches_the_upstream', { skip: elsewhere }, async () => {
  for (let i = 0; i < claims.length; i += 15) { // a request's headers are limited
    const names = claims.slice(i, i + 15).map(({ name }) => name.replace('*', 'any'));
    const upper = (name) => name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
    const all = await arrives(names.flatMap((name) => [`${name}: forged`, `${upper(name)}: forged`, `${name.toUpperCase()}: forged`, `${name.replaceAll('-', '_')}: forged`]));
    assert.deepEqual(all.filter(([name, value]) => value.includes('forged') || (names.includes(name.replaceAll('_', '-')) && !(name in own))), []);
  }
  const all = await arrives(['X-Forwarded-For: 10.9.8.7', 'X-Forwarded-For: 10.9.8.6', 'X-Forwarded-Proto: http', 'X-Forwarded-Host: evil.test', 'X-HTTP-Method-Override: PUT']);
  assert.deepEqual(of(all, 'x-forwarded-for'), ['127.0.0.1']);
  assert.deepEqual(of(all, 'x-forwarded-proto'), ['https']);
  assert.deepEqual(of(all, 'x-forwarded-host'), [host]);
  assert.deepEqual(of(all, 'x-http-method-override'), ['PUT'], 'it claims nothing');
});

for (const name of ['Forwarded', 'X-Real-IP', 'X-Forwarded-Port', 'X-Forwarded-Prefix', 'X-Forwarded-User', 'X-Forwarded-Server', 'X-Original-URL', 'X-Rewrite-URL', 'True-Client-IP', 'CF-Connecting-IP'])
  test(`a stranger's ${name} does not arrive, a trusted proxy's does`, { skip: elsewhere }, async () => {
    assert.deepEqual(of(await arrives([`${name}: said`]), name.toLowerCase()), []);
    assert.deepEqual(of(await arrives([`${name}: said`, `${name}: again`], '127.0.0.2'), name.toLowerCase()), ['said', 'again']);
  });

test('names_of_the_edge_come_from_nobody', { skip: elsewhere }, async () => {
  const names = claims.filter(({ who }) => who === 'NEVER').map(({ name }) => name.replace('*', 'any'));
  assert.deepEqual((await arrives(names.map((name) => `${name}: forged`), '127.0.0.2')).filter(([, value]) => value === 'forged'), []);
});

// [what, X-Forwarded-For lines, what the upstream is told, the client in the event]
const chains = [
  ['nothing', [], '127.0.0.2', '127.0.0.2'],
  ['one line', ['192.0.2.7'], '192.0.2.7, 127.0.0.2', '192.0.2.7'],
  ["the client's line and the proxy's", ['10.66.66.66', '192.0.2.7'], '10.66.66.66, 192.0.2.7, 127.0.0.2', '192.0.2.7'],
  ['three lines, lists among them', ['10.66.66.66, 10.1.1.1', '', '192.0.2.7,192.0.2.8'], '10.66.66.66, 10.1.1.1, 192.0.2.7,192.0.2.8, 127.0.0.2', '192.0.2.8'],
  ['through two trusted proxies', ['10.66.66.66, 192.0.2.7, 127.0.0.3'], '10.66.66.66, 192.0.2.7, 127.0.0.3, 127.0.0.2', '192.0.2.7'],
  ['trusted proxies only', ['127.0.0.2', '127.0.0.3'], '127.0.0.2, 127.0.0.3, 127.0.0.2', '127.0.0.2'],
  ['no address at the right', ['192.0.2.7', 'unknown'], '192.0.2.7, unknown, 127.0.0.2', '127.0.0.2'],
  ['no address behind a trusted one', ['192.0.2.7, _hidden, 127.0.0.3'], '192.0.2.7, _hidden, 127.0.0.3, 127.0.0.2', '127.0.0.3'],
  ['leading zeros are no address', ['010.0.0.1'], '010.0.0.1, 127.0.0.2', '127.0.0.2'],
  ['a port', ['192.0.2.7:4711'], '192.0.2.7:4711, 127.0.0.2', '192.0.2.7'],
  ['IPv6', ['2001:DB8:0::1'], '2001:DB8:0::1, 127.0.0.2', '2001:db8::1'],
  ['IPv6 and a port', ['[2001:db8::1]:4711'], '[2001:db8::1]:4711, 127.0.0.2', '2001:db8::1'],
  ['IPv4 in IPv6', ['192.0.2.9', '::ffff:127.0.0.3'], '192.0.2.9, ::ffff:127.0.0.3, 127.0.0.2', '192.0.2.9'],
  ['commas and blanks', [' , 192.0.2.7 ,, \t'], undefined, '192.0.2.7'],
  ['10,000 bytes of trusted proxies', [Array(900).fill('127.0.0.3').join(',')], undefined, '127.0.0.3'],
];
test('the_client_of_a_trusted_proxy_is_the_nearest_address_that_is_not_trusted', { skip: elsewhere }, async () => {
  const sub = await listening('http_request_complete');
  for (const [what, lines, told, client] of chains) {
    const mark = `f${Math.random().toString(36).slice(2)}`;
    const all = await arrives([...lines.map((line) => `X-Forwarded-For: ${line}`), `User-Agent: ${mark}`], '127.0.0.2');
    const got = of(all, 'x-forwarded-for');
    assert.equal(got.length, 1, what);
    if (told) assert.equal(got[0], told, what);
    const event = await until(() => sub.events.find((one) => one.object.http.request.user_agent === mark), `event of ${what}`);
    assert.equal(event.object.conn.client_ip, client, what);
  }
  await sub.stop();
});

test('scheme_and_host_of_a_trusted_proxy_are_its_last_word', { skip: elsewhere }, async () => {
  const proto = async (...lines) => of(await arrives(lines.map((line) => `X-Forwarded-Proto: ${line}`), '127.0.0.2'), 'x-forwarded-proto');
  assert.deepEqual(await proto(), ['https']);
  assert.deepEqual(await proto('http'), ['http, https']);
  assert.deepEqual(await proto('https', 'http'), ['http, https']);
  assert.deepEqual(await proto('https, http'), ['http, https']);
  const named = async (...lines) => of(await arrives(lines.map((line) => `X-Forwarded-Host: ${line}`), '127.0.0.2'), 'x-forwarded-host');
  assert.deepEqual(await named(), [host]);
  assert.deepEqual(await named('public.example'), ['public.example']);
  assert.deepEqual(await named('evil.example', 'public.example'), ['public.example']);
  assert.deepEqual(await named('evil.example, public.example'), ['public.example']);
});

// What is of a client's connection ends at the edge (RFC 9110 7.6.1).
test('fields_of_the_connection_do_not_arrive', { skip: elsewhere }, async () => {
  const all = await arrives(['Connection: X-Hop ,x-other,, TE', 'X-Hop: 1', 'x-hop: 2', 'X-Hopper: 3', 'X-OTHER: 4', 'TE: trailers, deflate', 'Keep-Alive: timeout=5', 'Proxy-Connection: keep-alive',
    'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA', 'Trailer: X-T', 'Upgrade: h2c', 'Cookie: a=b']);
  assert.deepEqual(all.map(([name]) => name).filter((name) => !/^(host|connection|x-forwarded-.*|postern-request-id|traceparent)$/.test(name)).sort(), ['cookie', 'x-hopper']);
  assert.deepEqual(of(all, 'connection').filter((value) => /hop|other|te/i.test(value)), []);
});

test('nobody_takes_away_what_the_edge_says_or_goes_by', { skip: elsewhere }, async () => {
  const names = ['Host', 'X-Forwarded-For', 'X-Forwarded-Proto', 'X-Forwarded-Host', 'X-Real-IP', 'Content-Length', 'Connection', 'X-Added', 'X-Gone'];
  const added = await endpoint(up.address, { request_headers: { add: { 'x-added': 'by the route' }, remove: ['x-gone'] } });
  for (const [from, told] of [['127.0.0.1', '127.0.0.1'], ['127.0.0.2', '192.0.2.7, 127.0.0.2']]) {
    up.seen.length = 0;
    const text = await raw(added.host, [`POST / HTTP/1.1`, `Host: ${added.host}`, `Connection: close, ${names.join(', ')}`, 'Content-Length: 4', 'X-Forwarded-For: 192.0.2.7', 'X-Real-IP: 192.0.2.8',
      'X-Added: by the client', 'X-Gone: yes', '', 'body'].join('\r\n'), { tlsOptions: { localAddress: from } });
    assert.match(text, /^HTTP\/1\.1 200/);
    const { headers, body } = up.seen[0];
    assert.deepEqual([headers.host, headers['x-forwarded-for'], headers['x-forwarded-proto'], headers['x-forwarded-host'], headers['x-added'], headers['x-gone'], body.toString()],
      [added.host, told, 'https', added.host, 'by the route', undefined, 'body']);
    assert.equal(headers['x-real-ip'], from === '127.0.0.2' ? '192.0.2.8' : undefined, 'a trusted proxy says it, whose Connection ever it passed on');
  }
});

test('a_connection_field_names_a_bounded_number_of_others', { skip: elsewhere }, async () => {
  const names = (n) => Array.from({ length: n }, (_, i) => `X-${i}`).join(',');
  assert.deepEqual(of(await arrives([`Connection: close, keep-alive, ${names(32)}`, 'X-31: a']), 'x-31'), []);
  const text = await raw(host, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close, ${names(16)}\r\nConnection: ${names(17)}\r\n\r\n`);
  assert.match(text, /^HTTP\/1\.1 400 [^]*ERR_POSTERN_900/);
});

test('the_edge_still_serves', async () => assert.equal((await through(host)).status, 200));
