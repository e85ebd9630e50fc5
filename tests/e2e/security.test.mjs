// Flaws that others shipped, each a test that must deny (the numbers are those of our list of cases).
// Cases 6, 7, 9, 13, 14 and 16 stand in edge.test.mjs, 5 in spellings.test.mjs and spellings-again.test.mjs, 52 in tests/unit/test_bus.c.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import test from 'node:test';
import { api, edge, endpoint, env, listening, must, raw, tcpUpstream, through, until, upstream } from '../support/postern.mjs';
import { DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, exchange, frame, headers } from '../support/h2raw.mjs';
import { children } from '../support/processes.mjs';

const open = await upstream((q, s) => s.end(q.url)), closed = await upstream((q, s) => s.end(q.url));
const to = await endpoint(open.address);
const { host } = to;
const priv = await must('POST', '/backends/static', { address: closed.address });
for (const [match, match_type] of [['/admin', 'path_prefix'], ['/health', 'exact_path']])
  await must('POST', `/edges/https/${to.edge.id}/routes`, { match, match_type, backend: { backend_id: priv.id } });

const line = (first, ...more) => Buffer.from([first, `Host: ${host}`, 'Connection: close', ...more, '', ''].join('\r\n'), 'latin1');
const statusOf = (text) => Number((/^HTTP\/1\.[01] (\d+)/.exec(text) ?? [])[1] ?? 0);
const quiet = () => { open.seen.length = closed.seen.length = 0; };
const heard = () => [...open.seen, ...closed.seen].map((one) => one.url);

test('case_01_cve_2021_32637_a_malformed_uri_is_400_and_reaches_nobody', async () => {
  quiet();
  for (const target of ['/admin%', '/admin%g0', '/%', '/%0', '/admin%00', '/%00admin', '/admin\x80', '/\xff\xfe', '/a%ff', '/%c0%afadmin', '/admin\x7f', '/%0d%0aX:y'])
    assert.equal(statusOf(await raw(host, line(`GET ${target} HTTP/1.1`))), 400, JSON.stringify(target));
  assert.deepEqual(heard(), []);
});

test('case_02_cve_2021_32779_fragments_and_repeated_headers', async () => {
  quiet();
  for (const target of ['/public#/../admin', '/public#', '/#/admin', '/public?x#/../admin', '/admin#x'])
    assert.equal(statusOf(await raw(host, line(`GET ${target} HTTP/1.1`))), 400, target);
  assert.deepEqual(heard(), []);
  await raw(host, line('GET /twice HTTP/1.1', 'X-Role: user', 'X-Role: admin', 'x-role: root'));
  const { rawHeaders } = open.seen[0];
  const values = rawHeaders.filter((_, i) => i % 2 && rawHeaders[i - 1].toLowerCase() === 'x-role');
  assert.deepEqual(values, ['user', 'admin', 'root'], 'neither merged nor dropped');
});

test('case_03_ghsa_pxq7_h93f_9jrg_matching_sees_the_path_only', async () => {
  for (const [target, where] of [['/x?path=/health', open], ['/x?/admin', open], ['/health?x=1', closed], ['/health?', closed], ['/health%3Fx', open],
    ['/health%23', open], ['/health;x', open], ['/healthx', open], ['/health/', open], ['/x;/admin', open], ['/admin;x', closed], ['/admin?x=/..', closed], ['/%61dmin?', closed]]) {
    quiet();
    assert.equal(statusOf(await raw(host, line(`GET ${target} HTTP/1.1`))), 200, target);
    assert.equal(where.seen.length, 1, target);
    assert.equal(heard().length, 1, target);
  }
});

test('case_04_cve_2013_4547_spaces_and_control_bytes_in_the_request_line', { timeout: 300000 }, async () => {
  quiet();
  const bytes = [...Array.from({ length: 0x21 }, (_, i) => i), 0x7f].filter((c) => c !== 10);
  for (const c of bytes)
    for (const target of [`/a${String.fromCharCode(c)}b`, `/admin${String.fromCharCode(c)}`, `/a${String.fromCharCode(c)}/../admin`])
      if (!/^\/admin[ \r]$/.test(target)) // the separator itself, or a line that ends
        assert.ok([400, 0, 505].includes(statusOf(await raw(host, line(`GET ${target} HTTP/1.1`)))), JSON.stringify(target));
  assert.deepEqual(heard(), []);
});

test('case_08_cve_2023_25725_an_empty_header_name_drops_nothing', async () => {
  const seen = [];
  const up = await tcpUpstream((socket) => socket.on('data', (part) => { seen.push(part.toString('latin1')); socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'); }));
  const other = await endpoint(up.address);
  for (const evil of [': x', ' : x', '\t: x', ':']) {
    seen.length = 0;
    const got = statusOf(await raw(other.host, Buffer.from(`GET / HTTP/1.1\r\nHost: ${other.host}\r\nX-Before: 1\r\n${evil}\r\nX-After: 2\r\nConnection: close\r\n\r\n`)));
    if (got === 400) { assert.deepEqual(seen, []); continue; }
    assert.equal(got, 200, JSON.stringify(evil));
    assert.match(seen.join(''), /X-Before: 1\r\n(.*\r\n)*X-After: 2\r\n/, JSON.stringify(evil));
  }
  await up.close();
});

test('case_08_cve_2021_40346_no_length_overflows', async () => {
  quiet();
  for (const length of ['18446744073709551617', '4294967297', '9223372036854775808', '0x5', '5 ', ' 5', '05', '1e1', '5,5', ''])
    for (const extra of [[], ['Content-Length: 5']]) {
      const got = statusOf(await raw(host, Buffer.concat([line('POST /len HTTP/1.1', `Content-Length: ${length}`, ...extra), Buffer.from('helloGET /smuggled HTTP/1.1\r\n\r\n')]), extra.length ? {} : { limit: 400 })); // there may be no answer to one alone: it waits for more
      assert.ok(extra.length ? got === 400 : [200, 400, 413, 0].includes(got), `${length}: ${got}`);
    }
  assert.ok(!heard().some((url) => url.includes('smuggled')), String(heard()));
});

test('case_08_http2_requests_become_one_request_each', { timeout: 300000 }, async () => {
  // Two of them: the head of a request that is cut may be on its way still when the next one is refused.
  const seen = [];
  const listening_ = async () => { const at = seen.push('') - 1; return tcpUpstream((socket) => socket.on('data', (part) => { seen[at] += part.toString('latin1'); socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'); })); };
  const ups = [await listening_(), await listening_()], [other, cuts] = [await endpoint(ups[0].address), await endpoint(ups[1].address)];
  const base = (more = [], path = '/h2', method = 'POST') => [[':method', method], [':scheme', 'https'], [':authority', other.host], [':path', path], ...more];
  const body = Buffer.from('GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n');
  // refused: the upstream hears nothing | cut: at most the head, never the body | served: one request
  const cases = {
    'a length of 0 and a body': ['cut', base([['content-length', '0']]), body],
    'a shorter length': ['cut', base([['content-length', '5']]), body],
    'a longer length': ['cut', base([['content-length', '500']]), body],
    'two lengths': ['refused', base([['content-length', '5'], ['content-length', String(body.length)]]), body],
    'transfer-encoding': ['refused', base([['transfer-encoding', 'chunked']]), Buffer.from('0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n')],
    'transfer-encoding with spaces': ['refused', base([['transfer-encoding', ' chunked ']]), Buffer.from('0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n')],
    'line break in a value': ['refused', base([['x-a', 'b\r\nTransfer-Encoding: chunked']]), body],
    'line feed in a value': ['refused', base([['x-a', 'b\nGET /smuggled HTTP/1.1\r\n']])],
    'NUL in a value': ['refused', base([['x-a', 'b\0c']])],
    'line break in a name': ['refused', base([['x-a: b\r\ntransfer-encoding', 'chunked']]), body],
    'colon in a name': ['refused', base([['transfer-encoding: chunked\r\nx', 'y']]), body],
    'space in a name': ['refused', base([['transfer-encoding ', 'chunked']]), body],
    'upper-case name': ['refused', base([['Transfer-Encoding', 'chunked']]), body],
    'empty name': ['refused', base([['', 'x']])],
    'line break in the path': ['refused', base([], '/a HTTP/1.1\r\nHost: x\r\n\r\nGET /smuggled')],
    'space in the path': ['refused', base([], '/a b')],
    'path without a slash': ['refused', base([], 'admin')],
    'empty path': ['refused', base([], '')],
    'line break in the method': ['refused', base([], '/m', 'GET /smuggled HTTP/1.1\r\nX:')],
    'empty method': ['refused', base([], '/m', '')],
    'line break in the authority': ['refused', [[':method', 'GET'], [':scheme', 'https'], [':authority', `${other.host}\r\nX-Evil: smuggled`], [':path', '/']]],
    'two paths': ['refused', [...base(), [':path', '/smuggled']]],
    'connection fields': ['refused', base([['connection', 'x-a'], ['x-a', 'b']], '/h2', 'GET')],
    'h2c upgrade': ['refused', base([['upgrade', 'h2c'], ['http2-settings', 'AAA']], '/h2', 'GET')],
    'no authority': ['refused', [[':method', 'GET'], [':scheme', 'https'], [':path', '/']]],
    'a body of its own': ['served', base(), body],
    'a body and its length': ['served', base([['content-length', String(body.length)]]), body],
  };
  for (const [what, [want, pairs, data]] of Object.entries(cases)) {
    const [to_, at] = want === 'cut' ? [cuts.host, 1] : [other.host, 0];
    seen[at] = '';
    const frames = [frame(HEADERS, END_HEADERS | (data ? 0 : END_STREAM), 1, headers(pairs.map(([name, value]) => [name, value === other.host ? to_ : value])))];
    if (data) frames.push(frame(DATA, END_STREAM, 1, data));
    const got = await exchange(to_, frames, { until: (so) => so.status[1] !== undefined || so.reset[1] !== undefined || so.goaway !== undefined });
    if (want === 'cut') await new Promise((resolve) => setTimeout(resolve, 50)); // its head may still be on the way
    const told = `${what}: ${JSON.stringify(got)} ${JSON.stringify(seen[at])}`;
    if (want === 'served') {
      assert.equal(got.status[1], 200, told);
      assert.equal(seen[at].match(/^POST \/h2 HTTP\/1\.1\r$/gm)?.length, 1, told);
    } else {
      assert.ok(got.status[1] >= 400 || got.reset[1] !== undefined || got.goaway !== undefined, told);
      assert.ok(want === 'refused' ? seen[at] === '' : !seen[at].includes('smuggled'), told);
    }
  }
  assert.ok(!seen[1].includes('smuggled'), 'nor later');
  assert.equal((await through(other.host)).status, 200);
  for (const up of ups) await up.close();
});

test('case_48_cve_2017_7529_ranges_chunks_and_encodings', { timeout: 300000 }, async () => {
  let seed = 48;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const up = await tcpUpstream((socket) => {
    socket.on('data', () => {
      const body = 'x'.repeat(random(3000)), length = [String(body.length), '18446744073709551615', '-1', '5'][random(8) > 4 ? random(4) : 0];
      const chunks = [`${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`, 'ffffffffffffffff\r\nx', `${'f'.repeat(40)}\r\n`, '5;ext="\r\n"\r\nhello\r\n0\r\nX-T: 1\r\n\r\n', '-5\r\nhello\r\n0\r\n\r\n'][random(5)];
      const range = random(3) ? '' : 'Content-Range: bytes 0-9223372036854775807/*\r\nAccept-Ranges: bytes\r\n';
      const encoding = random(4) ? '' : 'Content-Encoding: gzip\r\n';
      socket.end(random(2) ? `HTTP/1.1 ${[200, 206, 304, 204, 416][random(5)]} X\r\n${range}${encoding}Content-Length: ${length}\r\n\r\n${body}`
        : `HTTP/1.1 200 X\r\n${range}${encoding}Transfer-Encoding: chunked\r\n\r\n${chunks}`);
    });
    socket.on('error', () => {});
  });
  const other = await endpoint(up.address);
  const agent = new https.Agent({ keepAlive: true, maxSockets: 8 });
  const ranges = ['bytes=0-', 'bytes=-9223372036854775806', 'bytes=0-0,-9223372036854775807', 'bytes=9223372036854775807-', `bytes=${'0-1,'.repeat(1000)}0-1`, 'bytes=-0', 'bytes=5-2', 'bytes=18446744073709551615-'];
  for (let i = 0; i < 60; i++)
    await Promise.all(Array.from({ length: 8 }, (_, k) =>
      through(other.host, `/${i}`, { agent, headers: { Range: ranges[k], 'Accept-Encoding': 'gzip' } }).catch(() => undefined)));
  agent.destroy();
  await up.close();
  assert.equal(statusOf(await raw(host, line('GET /alive HTTP/1.1'))), 200, 'a worker that crashed would show in the sanitizer\'s log');
});

test('case_51_cve_2023_44487_http2_floods_stay_bounded', { timeout: 300000 }, async () => {
  const pids = children(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8').trim());
  const memory = () => pids.reduce((sum, pid) => sum + Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]), 0);
  const block = headers([[':method', 'GET'], [':scheme', 'https'], [':authority', host], [':path', '/flood']]);
  const floods = {
    'rapid reset': () => Array.from({ length: 3000 }, (_, i) => Buffer.concat([frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, block), frame(RST_STREAM, 0, 2 * i + 1, Buffer.from([0, 0, 0, 8]))])),
    ping: () => Array.from({ length: 20000 }, () => frame(PING, 0, 0, Buffer.alloc(8))),
    settings: () => Array.from({ length: 20000 }, () => frame(SETTINGS, 0, 0)),
    'empty data': () => [frame(HEADERS, END_HEADERS, 1, block), ...Array.from({ length: 20000 }, () => frame(DATA, 0, 1))],
    'streams without end': () => Array.from({ length: 3000 }, (_, i) => frame(HEADERS, END_HEADERS, 2 * i + 1, block)),
    'headers without end': () => [frame(HEADERS, 0, 1, block), ...Array.from({ length: 2000 }, () => frame(9, 0, 1, headers([['x-a', 'b'.repeat(100)]])))],
  };
  await exchange(host, floods['rapid reset']());
  const before = memory();
  for (let round = 0; round < 3; round++)
    await Promise.all(Object.values(floods).map((make) => exchange(host, make(), { wait: 2500, until: (got) => got.goaway !== undefined })));
  assert.equal(statusOf(await raw(host, line('GET /alive HTTP/1.1'))), 200);
  const after = children(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8').trim());
  assert.deepEqual(after, pids, 'no worker died');
  assert.ok(memory() - before < 200 * 1024, `${before} KiB grew to ${memory()} KiB`);
});

test('case_51_every_flooded_request_is_one_event_at_most', { timeout: 300000 }, async () => {
  const other = await endpoint({ body: 'x' });
  const sub = await listening('http_request_complete');
  const block = headers([[':method', 'GET'], [':scheme', 'https'], [':authority', other.host], [':path', '/']]);
  await exchange(other.host, Array.from({ length: 500 }, (_, i) => Buffer.concat([frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, block), frame(RST_STREAM, 0, 2 * i + 1, Buffer.from([0, 0, 0, 8]))])));
  await through(other.host, '/last');
  await until(() => sub.events.some((event) => event.object.http.request.url.path === '/last'), 'the last event');
  const mine = sub.events.filter((event) => event.object.http.request.url.host === other.host);
  assert.ok(mine.length <= 501, `${mine.length} events`);
  assert.equal(new Set(mine.map((event) => event.event_id)).size, mine.length);
  await sub.stop();
});

test('case_53_cve_2022_24797_nothing_internal_listens_in_public', async () => {
  const listens = execFileSync('ss', ['-Hltnp'], { encoding: 'utf8' }).split('\n').filter((row) => /postern|nginx|postgres/.test(row)).map((row) => row.trim().split(/\s+/)[3]);
  assert.ok(listens.length >= 5, String(listens));
  for (const address of listens) assert.match(address, /^127\.0\.0\.1:/, 'only what POSTERN_EDGE_ADDRESS opens is public');
  for (const path of ['/metrics', '/healthz', '/readyz', '/status', '/openapi.json']) {
    quiet();
    const text = await raw(host, line(`GET ${path} HTTP/1.1`));
    assert.ok(!text.includes('postern_edge_'), path);
  }
  for (const headers of [{ Authorization: undefined }, {}]) assert.equal((await api('GET', '/metrics', undefined, headers)).status, 404, 'numbers of all accounts are no account\'s');
});

test('case_54_go_2024_3179_no_token_opens_the_bus', async () => {
  const dir = env.POSTERN_RUN_DIR;
  assert.equal(fs.statSync(dir).mode & 0o007, 0, 'nobody else enters the folder of the sockets');
  for (const file of fs.readdirSync(dir)) {
    const stat = fs.statSync(`${dir}/${file}`);
    if (stat.isSocket()) assert.equal(stat.mode & 0o007, 0, file);
  }
  for (const token of ['', 'x', 'usr_1', env.POSTERN_ACCOUNT, env.POSTERN_API_KEY.slice(0, -1), `${env.POSTERN_API_KEY}x`, env.POSTERN_API_KEY.toUpperCase(), `${env.POSTERN_API_KEY}\u00a0`, 'null', 'undefined', '*'])
    for (const path of ['/self', '/api_keys', '/edges/https'])
      assert.ok([400, 401].includes((await api('GET', path, undefined, { Authorization: `Bearer ${Buffer.from(token).toString('latin1')}` })).status), `${token} ${path}`);
});

test('after_all_that_the_edge_still_serves', async () => {
  assert.equal((await through(host, '/fine')).status, 200);
  await open.close();
  await closed.close();
});
