// Requests that are refused before they are routed: each has the edge's page, by Accept, and its own code, and leaves one event that
// tells what is known of it. bad-edge.test.mjs asks the same of every hostile request it has.
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import { END_HEADERS, END_STREAM, HEADERS, exchange, frame, headers } from '../support/h2raw.mjs';
import { ca, edge, elsewhere, endpoint, listening, raw, through, until, upstream } from '../support/postern.mjs';

const up = await upstream();
const to = await endpoint(up.address);
const other = await endpoint(up.address);
const { host } = to;
const aside = (await endpoint(up.address)).host; // where nobody counts events
const sub = await listening('http_request_complete');
test.after(() => up.close());
const status = (text) => Number((/^HTTP\/1\.[01] (\d+)/.exec(text) ?? [])[1] ?? 0);
const of = (name) => sub.events.filter((event) => event.object.conn.server_name === name);
// The event of what act does on connections to name, and what act brings; one event and no more.
async function leaves(name, act) {
  const before = of(name).length;
  const answer = await act();
  await until(() => of(name).length > before, 'its event');
  return [of(name)[before], answer];
}
const request = (first, ...lines) => [first, ...lines, '', ''].join('\r\n');
const H = `Host: ${host}`;

// [what, bytes, status, code, fields of the event's request, whether the edge's account gets the event]
const cases = [
  ['a bad escape', request('GET /%zz?q=1 HTTP/1.1', H), 400, 900, { method: 'get', raw: '/%zz?q=1', path: '/%zz', query: 'q=1' }, false],
  ['dots beyond the root', request('GET /a/../../etc HTTP/1.1', H), 400, 900, { method: 'get', raw: '/a/../../etc' }, false],
  ['a name and a password in the target', request(`GET https://user:secret@${host}/u HTTP/1.1`, H), 400, 900, { raw: `https://${host}/u` }, false],
  ['TRACE', request('TRACE /t HTTP/1.1', H), 405, 911, { method: 'trace', raw: `https://${host}/t`, path: '/t' }, true],
  ['CONNECT', request('CONNECT a.example:443 HTTP/1.1', H), 405, 911, { method: 'connect', raw: 'a.example:443' }, false],
  ['CONNECT with a path', request('CONNECT / HTTP/1.1', H), 405, 911, { method: 'connect' }, true],
  ['a long target', request(`POST /${'a'.repeat(20000)} HTTP/1.1`, H), 414, 912, { method: 'post' }, false],
  ['a long line', request('GET /l HTTP/1.1', H, `X-A: ${'a'.repeat(20000)}`), 431, 913, { method: 'get', path: '/l' }, true],
  ['a long line before the host', request('GET /l HTTP/1.1', `X-A: ${'a'.repeat(20000)}`, H), 431, 913, { method: 'get', path: '/l' }, false],
  ['many lines', request('GET /l HTTP/1.1', H, ...Array.from({ length: 900 }, (_, i) => `X-${i}: ${'a'.repeat(100)}`)), 431, 913, { path: '/l' }, true],
  ['no host', request('GET /n HTTP/1.1', 'X-A: b'), 400, 910, { path: '/n', host: '' }, false],
  ['two hosts', request('GET /h HTTP/1.1', H, `Host: ${other.host}`), 400, 910, { path: '/h', host }, false],
  ['the same host twice', request('GET /h HTTP/1.1', H, H), 400, 910, { path: '/h', host }, false],
  ['an empty host', request('GET /h HTTP/1.1', 'Host:'), 400, 910, { path: '/h', host: '' }, false],
  ['a host with a slash', request('GET /h HTTP/1.1', `Host: ${host}/x`), 400, 910, { path: '/h', host: `${host}/x` }, false],
  ['length and chunks', `${request('POST /f HTTP/1.1', H, 'Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`, 400, 900, { method: 'post', path: '/f' }, true],
  ['two lengths', `${request('POST /f HTTP/1.1', H, 'Content-Length: 5', 'Content-Length: 6')}hello`, 400, 900, { method: 'post' }, true],
  ['another transfer coding', request('POST /f HTTP/1.1', H, 'Transfer-Encoding: gzip, chunked'), 501, 916, { method: 'post' }, true],
  ['a method in lower case', request('get /m HTTP/1.1', H), 400, 900, { method: 'get', path: '/m' }, false],
  ['a method with a bad letter', request('G$T /m HTTP/1.1', H), 400, 900, { method: '', path: '' }, false],
  ['HTTP/2.0 as text', request('GET /v HTTP/2.0', H), 505, 915, { method: 'get', path: '/v' }, false],
  ['HTTP/0.9', 'GET /old\r\n', 505, 915, { method: 'get', path: '/old' }, false],
  ['NUL in a header', request('GET /z HTTP/1.1', H, 'X-A: b\0c'), 400, 900, { path: '/z' }, true],
  ['no request at all', 'hello\r\n\r\n', 400, 900, { method: '', raw: '' }, false],
  ['bytes beyond ASCII', Buffer.from(request('GET /\u00ff\u00fe\u0001 HTTP/1.1', H), 'latin1'), 400, 900, { method: 'get' }, false],
  ['a bad chunk, behind the route', `${request('POST /c HTTP/1.1', H, 'Transfer-Encoding: chunked')}zz\r\n`, 400, 900, { method: 'post', path: '/c' }, true],
];
// A password in any of these is in no event: [target, further lines, host line].
const passwords = [
  [`https://user:pass-word@${host}/u`], [`https://user:pass-word@${host}/u?b=1`], [`https:/user:pass-word@${host}/u`], [`HTTPS://user:pass-word@${host}`], [`ftp://user:pass-word@${host}/u`],
  [`user:pass-word@${host}`], [`https://user:a/pass-word@${host}/u`], [`https://user:a?pass-word@${host}/u`], [`https://[user:pass-word@${host}]/u`], ['/u', [], `Host: user:pass-word@${host}`],
  ['/u', [`X-Forwarded-Host: user:pass-word@${host}`, 'Origin: https://user:pass-word@a.example', 'Referer: https://user:pass-word@a.example/r?x=@']],
];
for (const method of ['GET', 'CONNECT', 'get', 'GET\t'])
  test(`a password in target or host is in no event: ${JSON.stringify(method)}`, async () => {
    for (const [target, more = [], hostLine = H] of passwords) {
      const before = of(aside).length;
      await raw(aside, request(`${method} ${target} HTTP/1.1`, hostLine, ...more, 'Connection: close'), { wait: 20000 });
      await until(() => of(aside).length > before, `an event of ${target}`);
      const got = JSON.stringify(of(aside).slice(before));
      assert.doesNotMatch(got, /pass-word/, target);
    }
  });

for (const [what, bytes, want, code, fields, owned] of cases)
  test(`refused: ${what}`, async () => {
    up.seen.length = 0;
    const before = of(host).length;
    const [event, text] = await leaves(host, () => raw(host, bytes, { wait: 20000 }));
    assert.equal(status(text), want, text.slice(0, 300));
    assert.match(text, new RegExp(`"error_code":"ERR_POSTERN_${code}","status_code":${want},`));
    assert.match(text, /^Content-Type: application\/json\r$/m);
    assert.match(text, /^Connection: close\r$/m, 'what follows on the connection is no request');
    if (want === 405) assert.match(text, /^Allow: GET, HEAD, /m);
    const { http: h } = event.object;
    const { raw: url, ...rest } = fields;
    assert.equal(h.response.status_code, want);
    assert.ok(h.response.headers['Postern-Request-Id']?.[0].startsWith('req_'), 'the event has the id that the page shows');
    if (url !== undefined) assert.ok(h.request.url.raw === url || (url && h.request.url.raw.endsWith(url)), h.request.url.raw);
    for (const [name, value] of Object.entries(rest)) assert.equal(name === 'method' ? h.request.method : h.request.url[name], value, name);
    assert.equal(event.account_id.startsWith('ac_'), owned, `owned by ${event.account_id}`);
    assert.equal(up.seen.length, 0, 'nothing of it arrives');
    await through(host, '/next');
    await until(() => of(host).some((one, i) => i > before && one.object.http.request.url.path === '/next'), 'the next event');
    assert.equal(of(host).length, before + 2, 'one event, not two');
  });

const A = `Host: ${aside}`;
test('the_page_of_a_refused_request_is_html_for_a_browser', async () => {
  for (const [first, ...lines] of [['GET / HTTP/1.1', A, A], ['TRACE / HTTP/1.1', A], ['GET / HTTP/1.1'], ['POST / HTTP/1.1', A, 'Transfer-Encoding: x'], ['GET / HTTP/1.1', A, `X: ${'a'.repeat(20000)}`]]) {
    const text = await raw(aside, request(first, 'Accept: text/html,*/*', ...lines), { wait: 20000 });
    assert.match(text, /^Content-Type: text\/html; charset=utf-8\r$/m, first);
    assert.match(text, /<code>ERR_POSTERN_9\d\d<\/code>/, first);
    assert.ok(!/nginx<\/center>/.test(text), first);
  }
});

test('a_refused_request_leaves_no_second_one_behind', async () => {
  const smuggled = request('GET /smuggled HTTP/1.1', A);
  for (const bytes of [request('TRACE / HTTP/1.1', A, `Content-Length: ${smuggled.length}`), request('GET / HTTP/1.1', A, A), request('GET /%zz HTTP/1.1', A), `${request('POST / HTTP/1.1', A, 'Content-Length: 3', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
    request('POST / HTTP/1.1', A, 'Connection: keep-alive', 'Expect: 100-continue', 'Content-Length: 1', 'Content-Length: 2')]) {
    up.seen.length = 0;
    const text = await raw(aside, bytes + smuggled, { wait: 20000 });
    assert.ok(status(text) >= 400, text);
    assert.equal(text.split('HTTP/1.1 ').length, 2, text);
    assert.equal(up.seen.length, 0);
  }
});

test('a_second_request_of_a_connection_may_be_refused', async () => {
  const text = await raw(host, request('GET /pair HTTP/1.1', H) + request('GET /pair/%zz HTTP/1.1', H), { wait: 20000 });
  assert.match(text, /^HTTP\/1\.1 200 /);
  assert.match(text, /HTTP\/1\.1 400 [^]*ERR_POSTERN_900/);
  const pair = () => of(host).filter((event) => event.object.http.request.url.path.startsWith('/pair'));
  await until(() => pair().length === 2, 'two events');
  assert.deepEqual(pair().map((event) => event.object.http.response.status_code).sort(), [200, 400]);
});

test('a_request_that_breaks_off_leaves_an_event', async () => {
  for (const bytes of ['GET /half', `GET /half HTTP/1.1\r\n${H}\r\nX-A: b`, request('POST /half HTTP/1.1', H, 'Content-Length: 10')]) {
    const [event] = await leaves(host, () => new Promise((resolve, reject) => {
      const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca }, () => socket.end(bytes, resolve)).on('error', reject);
      socket.resume();
    }));
    assert.equal(event.object.http.request.url.path, '/half', bytes);
    assert.ok(event.object.http.response.status_code >= 400, bytes);
  }
});

test('plain_http_on_the_https_port_has_a_page_and_an_event', { skip: elsewhere }, async () => {
  const mark = `/plain-${Date.now()}`;
  const text = await new Promise((resolve, reject) => {
    const parts = [], socket = net.connect({ host: edge.host, port: edge.port }, () => socket.write(request(`GET ${mark} HTTP/1.1`, H)));
    socket.on('data', (part) => parts.push(part)).on('error', reject).on('close', () => resolve(Buffer.concat(parts).toString('latin1')));
  });
  assert.equal(status(text), 400);
  assert.match(text, /ERR_POSTERN_914/);
  const event = await until(() => sub.events.find((one) => one.object.http.request.url.path === mark), 'its event');
  assert.equal(event.object.http.request.url.raw, `http://${host}${mark}`);
  assert.equal(event.object.http.request.url.scheme, 'http');
  assert.equal(event.account_id, '', 'without TLS it is nobody\'s');
});

test('an_event_is_of_an_account_only_if_host_and_tls_agree', async () => {
  for (const method of ['TRACE', 'GET']) {
    const [event] = await leaves(host, () => raw(host, request(`${method} / HTTP/1.1`, `Host: ${other.host}`)));
    assert.equal(event.object.http.request.url.host, other.host);
    assert.equal(event.account_id, '', method);
  }
});

test('pages_of_the_plain_port_are_the_edges', async () => {
  for (const [bytes, want, code] of [[request('GET /%zz HTTP/1.1', H), 400, 900], [request('TRACE / HTTP/1.1', H), 405, 911], [request('GET / HTTP/1.1'), 400, 910], [request('GET / HTTP/3.0', H), 505, 915],
    [request(`GET /${'a'.repeat(20000)} HTTP/1.1`), 414, 912], [request('GET / HTTP/1.1', H, `X: ${'a'.repeat(20000)}`), 431, 913], ['\x16\x03\x01\x00\x05hello', 400, 900], ['GET /\r\n', 505, 915]]) {
    const text = await new Promise((resolve, reject) => {
      const parts = [], socket = net.connect({ host: edge.plainHost, port: edge.plainPort }, () => socket.write(bytes, 'latin1'));
      socket.on('data', (part) => parts.push(part)).on('error', reject).on('close', () => resolve(Buffer.concat(parts).toString('latin1')));
    });
    assert.equal(status(text), want, text);
    assert.match(text, new RegExp(`ERR_POSTERN_${code}`));
  }
});

// HTTP/2: pseudo-headers in full, but for what is taken away or added.
const pseudo = { ':method': 'GET', ':path': '/two', ':scheme': 'https', ':authority': host };
const two = (change, ...more) => frame(HEADERS, END_HEADERS | END_STREAM, 1, headers([...Object.entries({ ...pseudo, ...change }).filter(([, value]) => value !== undefined), ...more]));
for (const [what, block, want, owned] of [
  ['a bad escape', two({ ':path': '/%zz' }), 400],
  ['no leading slash', two({ ':path': 'two' }), 400],
  ['an unknown pseudo-header', two({ ':protocol': 'x' }), 400, true],
  ['TRACE', two({ ':method': 'TRACE' }), 405, true],
  ['CONNECT', two({ ':method': 'CONNECT', ':path': undefined, ':scheme': undefined }), 405, true],
  ['no method', two({ ':method': undefined }), 400, true],
  ['no scheme', two({ ':scheme': undefined }), 400, true],
  ['no host', two({ ':authority': undefined }), 400],
  ['two hosts', two({}, ['host', other.host]), 400],
  ['another host than that of the connection', two({ ':authority': other.host }), 421],
  ['a host with a user', two({ ':authority': `u@${host}` }), 400],
  ['a field of the connection', two({}, ['transfer-encoding', 'chunked']), undefined],
  ['a length that is no number', two({}, ['content-length', 'x']), 400, true],
])
  test(`refused over HTTP/2: ${what}`, async () => {
    up.seen.length = 0;
    const [event, got] = await leaves(host, () => exchange(host, [block], { until: (so_far) => so_far.status[1] }));
    assert.ok(got.status[1] >= 400 && (want === undefined || got.status[1] === want), JSON.stringify(got));
    assert.equal(event.object.http.response.status_code, got.status[1]);
    assert.ok(event.object.http.response.headers['Postern-Request-Id'], 'a page of the edge');
    if (want !== 421 && want) assert.equal(event.account_id.startsWith('ac_'), owned ?? false, event.account_id);
    assert.equal(up.seen.length, 0);
  });
for (const [what, frames] of [
  ['a name in capitals', [two({}, ['X-Upper', 'a'])]],
  ['a value with a line end', [two({}, ['x-a', 'a\r\nb: c'])]],
  ['a header that is too large', [two({}, ...Array.from({ length: 9 }, (_, i) => [`x-${i}`, 'a'.repeat(1500)]))].map((one) => one)],
])
  test(`reset over HTTP/2: ${what}`, async () => {
    up.seen.length = 0;
    const [event, got] = await leaves(host, () => exchange(host, frames, { until: (so_far) => so_far.reset[1] !== undefined || so_far.goaway !== undefined || so_far.status[1] }));
    if (got.status[1]) assert.equal(event.object.http.response.status_code, got.status[1]);
    else assert.equal(event.object.http.response.status_code, 400);
    assert.equal(event.object.http.request.url.path, '/two');
  });

test('the_edge_still_serves_and_every_request_was_counted', { skip: elsewhere }, async () => {
  assert.equal((await through(host)).status, 200);
  const numbers = async () => {
    const text = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((answer) => answer.text());
    const sum = (name) => [...text.matchAll(new RegExp(`^${name}\\{worker="\\d+"\\} (\\d+)`, 'gm'))].reduce((all, [, n]) => all + Number(n), 0);
    return { requests: sum('postern_edge_requests_total'), events: sum('postern_edge_events_total'), dropped: sum('postern_edge_events_dropped_total') };
  };
  const then = await numbers();
  const garbage = ['GET /%zz HTTP/1.1\r\n\r\n', '\x16\x03', 'TRACE / HTTP/1.1\r\nHost: x\r\n\r\n', 'GET /\r\n', request('GET / HTTP/1.1', H, 'Connection: close')];
  for (let i = 0; i < 40; i++) await raw(host, garbage[i % garbage.length], { wait: 20000 });
  const now = await until(async () => { const got = await numbers(); return got.events + got.dropped - then.events - then.dropped >= 40 && got; }, 'an event of each');
  assert.equal(now.requests - then.requests, now.events + now.dropped - then.events - then.dropped);
  await sub.stop();
});
