// The module compression: which bodies are encoded for whom, and what the fields of the answer say of it. compression-streams.test.mjs has bodies that stream.
import assert from 'node:assert/strict';
import test from 'node:test';
import { codings, eventOf, get, gzip, protocols, TEXT } from '../support/compression.mjs';
import { edge, elsewhere, endpoint, must, raw, tcpUpstream, upstream } from '../support/postern.mjs';

const counter = async (name) => Number(new RegExp(`^postern_edge_module_${name}_total\\{module="compression"\\} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text()))[1]);

// An upstream whose answer is what a story says: {status, headers, body}.
let answers = {};
const up = await upstream((request, response) => {
  const { status = 200, headers = {}, body = TEXT } = answers;
  response.writeHead(status, { 'Content-Type': 'text/plain', ...([204, 304].includes(status) ? {} : { 'Content-Length': body.length }), ...headers });
  response.end(request.method === 'HEAD' || [204, 304].includes(status) ? undefined : body);
});
test.after(() => up.close());
const to = await endpoint(up.address, { compression: {} });

// [Accept-Encoding, Content-Encoding]
for (const [accepts, coding] of [
  [undefined, undefined],
  ['', undefined],
  ['identity', undefined],
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['GZip', 'gzip'],
  ['deflate', 'deflate'],
  ['gzip, deflate', 'gzip'],
  ['deflate, gzip', 'gzip'],
  ['deflate;q=0.5,gzip;q=0.4', 'deflate'],
  ['deflate; q=0.501 , gzip;Q=0.5', 'deflate'],
  ['gzip;q=0', undefined],
  ['gzip;q=0.000, deflate;q=0.001', 'deflate'],
  ['gzip;q=1.001', undefined],
  ['gzip;q=yes', undefined],
  ['gzip;level=9', undefined],
  ['br', 'br'],
  ['zstd', 'zstd'],
  ['gzip, deflate, br', 'br'],
  ['gzip, deflate, br, zstd', 'zstd'],
  ['zstd;q=0.9, br;q=0.8, gzip;q=0.7', 'zstd'],
  ['zstd;q=0.8, br;q=0.9, gzip;q=0.7', 'br'],
  ['zstd;q=0.8, br;q=0.8, gzip', 'gzip'],
  ['zstd;q=0, br;q=0, *', 'gzip'],
  ['gzip;q=0, deflate;q=0, *', undefined],
  ['*', 'gzip'],
  ['*;q=0', undefined],
  ['gzip;q=0, *', 'deflate'],
  ['*;q=0, gzip', 'gzip'],
  ['gzip;q=0.5, identity', undefined],
  ['gzip, identity', 'gzip'],
  ['gzip;q=0.5, identity;q=0.5', 'gzip'],
  ['compress, pack200-gzip', undefined],
  [['compress', 'deflate;q=0.9, gzip'], 'gzip'],
])
  test(`Accept-Encoding ${JSON.stringify(accepts)}: ${coding ?? 'as it is'}`, async () => {
    answers = {};
    for (const protocol of protocols) {
      const path = `/accept-${protocol}-${encodeURIComponent(accepts)}`;
      const got = await get(to, { protocol, path, headers: accepts === undefined ? {} : { 'accept-encoding': accepts } });
      assert.equal(got.headers['content-encoding'], coding);
      assert.equal(got.headers.vary, 'Accept-Encoding');
      assert.equal(got.headers['content-length'], coding ? undefined : `${TEXT.length}`);
      assert.deepEqual([got.whole, got.body.equals(TEXT)], [true, true]);
    }
  });

test('the event says what was encoded and what went out', async () => {
  answers = {};
  for (const protocol of protocols) {
    for (const coding of [...codings, 'identity']) {
      const path = `/event-${protocol}-${coding}`, got = await get(to, { protocol, path, headers: { 'accept-encoding': coding } });
      const { compression, http: said } = await eventOf(to.host, path);
      assert.deepEqual(compression, coding === 'identity' ? { algorithm: 'none', bytes_saved: 0 } : { algorithm: coding, bytes_saved: TEXT.length - got.sent });
      assert.equal(said.response.body_length, got.sent);
      assert.deepEqual(said.response.headers['Content-Encoding'], coding === 'identity' ? undefined : [coding]);
      assert.ok(coding === 'identity' || got.sent < TEXT.length / 10, `${got.sent}`);
    }
  }
});

const counted = async (work) => { const before = await Promise.all(codings.map((coding) => counter(`encoded_${coding}`))); await work(); return Promise.all(codings.map(async (coding, i) => await counter(`encoded_${coding}`) - before[i])); };
test('answers are counted, each by its coding', { skip: elsewhere }, async () => {
  answers = {};
  for (const [i, coding] of codings.entries()) assert.deepEqual(await counted(() => get(to, { headers: { 'accept-encoding': coding } })), codings.map((_, k) => Number(k === i)));
  assert.deepEqual(await counted(() => get(to)), codings.map(() => 0));
});

// [what, answer, Vary that is expected besides; undefined: none, options of the request]
const SHORT = TEXT.subarray(0, 255), AC = 'Accept-Encoding';
for (const [what, answer, vary, options] of [
  ['of 255 bytes', { body: SHORT }, undefined],
  ['that is encoded already', { headers: { 'Content-Encoding': 'compress' } }, undefined],
  ['that is encoded already, by more than one coding', { headers: { 'Content-Encoding': 'identity, br' } }, undefined],
  ['that must not be transformed', { headers: { 'Cache-Control': 'public, No-Transform, max-age=1' } }, undefined],
  ['that the client wants as it is', {}, undefined, { headers: { ...gzip, 'cache-control': 'no-transform' } }],
  ['of a part', { status: 206, headers: { 'Content-Range': 'bytes 0-3079/9999' } }, undefined],
  ['that tells of a range that there is not', { status: 416, headers: { 'Content-Range': 'bytes */10' } }, undefined],
  ['that has a digest', { headers: { 'Content-Digest': 'sha-256=:AAAA:' } }, undefined],
  ['that has a digest of its representation', { headers: { 'Repr-Digest': 'sha-256=:AAAA:' } }, undefined],
  ['that has an older digest', { headers: { Digest: 'SHA-256=AAAA' } }, undefined],
  ['that has the oldest digest', { headers: { 'Content-MD5': 'AAAA' } }, undefined],
  ['without a type', { headers: { 'Content-Type': '' } }, undefined],
  ['of an image', { headers: { 'Content-Type': 'image/png' } }, undefined],
  ['of gRPC', { headers: { 'Content-Type': 'application/grpc+json' } }, undefined],
  ['of bytes', { headers: { 'Content-Type': 'application/octet-stream' } }, undefined],
])
  test(`a body ${what} goes on as it is`, async () => {
    answers = answer;
    for (const protocol of protocols) {
      const path = `/kept-${protocol}-${encodeURIComponent(what)}`, got = await get(to, { protocol, path, headers: gzip, ...options });
      assert.equal(got.headers['content-encoding'], answer.headers?.['Content-Encoding']);
      assert.equal(got.headers.vary, vary);
      assert.ok(got.body.equals(answer.body ?? TEXT));
      assert.deepEqual((await eventOf(to.host, path)).compression, { algorithm: 'none', bytes_saved: 0 });
    }
  });

for (const type of ['text/html; charset=utf-8', 'TEXT/CSS', 'text/event-stream', 'application/json', 'application/problem+json', 'image/svg+xml', 'application/javascript ; x=y', 'application/wasm', 'font/ttf'])
  test(`a body of the type ${type} is encoded`, async () => {
    answers = { headers: { 'Content-Type': type } };
    const got = await get(to, { headers: gzip });
    assert.deepEqual([got.headers['content-encoding'], got.headers['content-type'], got.body.equals(TEXT)], ['gzip', type, true]);
  });

// [what, fields of the upstream's answer, fields of the encoded one]
for (const [what, said, want] of [
  ['a strong entity tag', { ETag: '"x"' }, { etag: 'W/"x"' }],
  ['a weak entity tag', { ETag: 'W/"x"' }, { etag: 'W/"x"' }],
  ['what is no entity tag', { ETag: 'x' }, { etag: undefined }],
  ['ranges', { 'Accept-Ranges': 'bytes' }, { 'accept-ranges': undefined }],
  ['another Vary', { Vary: 'Origin' }, { vary: 'Origin, Accept-Encoding' }],
  ['Vary that says so', { Vary: 'Origin, accept-encoding' }, { vary: 'Origin, accept-encoding' }],
  ['Vary of everything', { Vary: '*' }, { vary: '*' }],
  ['two lines of Vary', { Vary: ['Origin', 'Accept-Encoding'] }, { vary: 'Origin, Accept-Encoding' }],
  ['the coding identity', { 'Content-Encoding': 'identity' }, { 'content-encoding': 'gzip' }],
  ['an error', {}, {}, 500],
  ['a page that there is not', {}, {}, 404],
  ['what was made', {}, {}, 201],
].map(([name, said, want, status = 200]) => [name, said, { ...want, status }]))
  test(`the fields of an encoded answer: ${what}`, async () => {
    answers = { status: want.status, headers: { 'Last-Modified': 'Tue, 24 Nov 2026 05:15:05 GMT', ...said } };
    for (const protocol of protocols) {
      const got = await get(to, { protocol, headers: gzip });
      const { status, ...fields } = { 'content-encoding': 'gzip', 'content-length': undefined, vary: 'Accept-Encoding', 'last-modified': 'Tue, 24 Nov 2026 05:15:05 GMT', ...want };
      assert.equal(got.status, status);
      for (const [name, value] of Object.entries(fields)) assert.equal(got.headers[name], value, name);
      assert.ok(got.body.equals(TEXT));
    }
  });

test('what the client is not given encoded keeps its fields', async () => {
  answers = { headers: { ETag: '"x"', 'Accept-Ranges': 'bytes', Vary: 'Origin' } };
  const got = await get(to);
  assert.deepEqual([got.headers.etag, got.headers['accept-ranges'], got.headers.vary, got.headers['content-length']], ['"x"', 'bytes', 'Origin, Accept-Encoding', `${TEXT.length}`]);
});

test('the answer to HEAD has the fields of that to GET, and no body', async () => {
  answers = { headers: { ETag: '"x"', 'Accept-Ranges': 'bytes' } };
  for (const protocol of protocols) {
    const path = `/head-${protocol}`, got = await get(to, { protocol, path, method: 'HEAD', headers: gzip });
    assert.deepEqual([got.status, got.headers['content-encoding'], got.headers.etag, got.headers['content-length'], got.headers['accept-ranges'], got.headers.vary, got.sent], [200, 'gzip', 'W/"x"', undefined, undefined, 'Accept-Encoding', 0]);
    assert.deepEqual((await eventOf(to.host, path)).compression, { algorithm: 'none', bytes_saved: 0 });
    assert.equal((await get(to, { protocol, method: 'HEAD' })).headers['content-length'], `${TEXT.length}`);
  }
});

test('an answer without a body has no coding', async () => {
  for (const protocol of protocols) {
    answers = { status: 204 };
    const got = await get(to, { protocol, headers: gzip });
    assert.deepEqual([got.status, got.headers['content-encoding'], got.sent], [204, undefined, 0]);
  }
});

test('a client asks again by the weak tag: the upstream gets it, and its 304 has it too', async () => {
  const fresh = await upstream((request, response) => {
    const same = /(^|, *)(W\/)?"x"/.test(request.headers['if-none-match'] ?? ''); // weak comparison: RFC 9110 13.1.2
    response.writeHead(same ? 304 : 200, { 'Content-Type': 'text/plain', ETag: '"x"' });
    response.end(same ? undefined : TEXT);
  });
  const there = await endpoint(fresh.address, { compression: {} });
  for (const protocol of protocols) {
    const first = await get(there, { protocol, headers: gzip });
    assert.equal(first.headers.etag, 'W/"x"');
    const again = await get(there, { protocol, headers: { ...gzip, 'if-none-match': first.headers.etag } });
    assert.equal(fresh.seen.at(-1).headers['if-none-match'], 'W/"x"');
    assert.deepEqual([again.status, again.headers.etag, again.headers.vary, again.headers['content-encoding'], again.sent], [304, 'W/"x"', 'Accept-Encoding', undefined, 0]);
    const other = await get(there, { protocol, headers: { 'if-none-match': '"x"' } });
    assert.deepEqual([other.status, other.headers.etag], [304, '"x"'], 'whoever has the strong one keeps it');
    assert.equal((await get(there, { protocol, headers: { ...gzip, 'if-none-match': '"y"' } })).headers.etag, 'W/"x"');
  }
  await fresh.close();
});

test('a range is asked of the upstream, and its part goes on as it is', async () => {
  const ranges = await upstream((request, response) => {
    const part = request.headers.range && (!request.headers['if-range'] || request.headers['if-range'] === '"x"'); // strong comparison: RFC 9110 13.1.5
    response.writeHead(part ? 206 : 200, { 'Content-Type': 'text/plain', ETag: '"x"', 'Accept-Ranges': 'bytes', ...(part ? { 'Content-Range': `bytes 10-1009/${TEXT.length}` } : {}) });
    response.end(part ? TEXT.subarray(10, 1010) : TEXT);
  });
  const there = await endpoint(ranges.address, { compression: {} });
  const part = await get(there, { headers: { ...gzip, range: 'bytes=10-1009' } });
  assert.deepEqual([part.status, part.headers['content-encoding'], part.headers.etag, part.body.equals(TEXT.subarray(10, 1010))], [206, undefined, '"x"', true]);
  const whole = await get(there, { headers: { ...gzip, range: 'bytes=10-1009', 'if-range': 'W/"x"' } });
  assert.deepEqual([whole.status, whole.headers['content-encoding'], whole.headers['accept-ranges'], whole.body.equals(TEXT)], [200, 'gzip', undefined, true]);
  await ranges.close();
});

test('a range on the condition of a date is not asked of the upstream by who may have the beginning encoded', async () => {
  const DATE = 'Sat, 01 Aug 2026 10:00:00 GMT', ranges = await upstream((request, response) => {
    const part = request.headers.range && request.headers['if-range'] === DATE;
    response.writeHead(part ? 206 : 200, { 'Content-Type': 'text/plain', 'Last-Modified': DATE, ...(part ? { 'Content-Range': `bytes 10-1009/${TEXT.length}` } : {}) });
    response.end(part ? TEXT.subarray(10, 1010) : TEXT);
  });
  const there = await endpoint(ranges.address, { compression: {} }), asked = { range: 'bytes=10-1009', 'if-range': DATE };
  for (const protocol of protocols) {
    const all = await get(there, { protocol, headers: { ...gzip, ...asked } });
    assert.deepEqual([all.status, all.headers['content-encoding'], all.headers['last-modified'], all.body.equals(TEXT)], [200, 'gzip', DATE, true]);
    assert.deepEqual([ranges.seen.at(-1).headers.range, ranges.seen.at(-1).headers['if-range']], [undefined, undefined]);
    for (const headers of [{}, { 'accept-encoding': 'identity' }, { ...gzip, 'cache-control': 'no-transform' }]) {
      const part = await get(there, { protocol, headers: { ...headers, ...asked } });
      assert.deepEqual([part.status, part.body.equals(TEXT.subarray(10, 1010))], [206, true], `whoever gets bytes as they are: ${JSON.stringify(headers)}`);
    }
    const unconditional = await get(there, { protocol, headers: { ...gzip, range: asked.range } });
    assert.deepEqual([unconditional.status, ranges.seen.at(-1).headers.range], [200, asked.range]);
  }
  await ranges.close();
});

test('what an upstream says twice is changed twice', async () => {
  const { address, close } = await tcpUpstream((socket) => socket.on('data', (head) => {
    const same = /\r\nif-none-match:/i.test(head), tags = 'ETag: "x"\r\nETag: W/"y"\r\nETag: "z"\r\n';
    socket.write(same ? `HTTP/1.1 304 Not Modified\r\n${tags}\r\n`
      : `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${TEXT.length}\r\nContent-Encoding: identity\r\nAccept-Ranges: bytes\r\n${tags}Content-Encoding: Identity\r\nAccept-Ranges: bytes\r\n\r\n${TEXT}`);
  }));
  const there = await endpoint(address, { compression: {} }), fieldOf = (text, name) => [...text.matchAll(new RegExp(`^${name}: (.*)\r$`, 'gim'))].map(([, value]) => value);
  const all = await raw(there.host, `GET / HTTP/1.1\r\nHost: ${there.host}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n`);
  assert.match(all, /^HTTP\/1.1 200 /);
  const weak = ['W/"x"', 'W/"y"', 'W/"z"'], first = weak.slice(0, 1), tagsOf = (text) => fieldOf(text, 'etag');
  // of several tags nginx 1.23 and later hands on the first alone
  const wants = tagsOf(all).length === 1 ? first : weak;
  assert.deepEqual([tagsOf(all), ...['content-encoding', 'accept-ranges'].map((name) => fieldOf(all, name))], [wants, ['gzip'], []]);
  const same = await raw(there.host, `GET / HTTP/1.1\r\nHost: ${there.host}\r\nAccept-Encoding: gzip\r\nIf-None-Match: W/"x"\r\nConnection: close\r\n\r\n`);
  assert.match(same, /^HTTP\/1.1 304 /);
  assert.deepEqual(tagsOf(same), wants);
  await close();
});

test('HTTP/1.0 gets the body as it is, with its length', async () => {
  answers = {};
  const got = await raw(to.host, `GET / HTTP/1.0\r\nHost: ${to.host}\r\nAccept-Encoding: gzip\r\n\r\n`);
  assert.match(got, /\r\nVary: Accept-Encoding\r\n/);
  assert.match(got, new RegExp(`\r\nContent-Length: ${TEXT.length}\r\n`));
  assert.doesNotMatch(got, /Content-Encoding/i);
  assert.ok(got.endsWith(TEXT.toString()));
});

test('the content of a backend http_response is encoded, a page of the edge is not', async () => {
  const there = await endpoint({ body: TEXT.toString(), headers: { 'Content-Type': 'text/html', ETag: '"x"' } }, { compression: {} });
  for (const protocol of protocols) {
    const got = await get(there, { protocol, headers: gzip });
    assert.deepEqual([got.headers['content-encoding'], got.headers.etag, got.headers.vary, got.body.equals(TEXT), got.whole], ['gzip', 'W/"x"', 'Accept-Encoding', true, true]);
  }
  await must('PATCH', `/edges/https/${there.edge.id}/routes/${there.route.id}`, { user_agent_filter: { deny: ['.*'] } });
  for (const protocol of protocols) {
    const page = await get(there, { protocol, headers: { ...gzip, accept: 'text/html', 'user-agent': 'x' } });
    assert.deepEqual([page.status, page.headers['content-encoding'], page.headers.vary], [403, undefined, undefined]);
  }
});

test('the modules beside it: what response_headers says counts, what request_headers takes from the upstream does not', async () => {
  const there = await endpoint(up.address, { compression: {}, request_headers: { remove: ['accept-encoding'] } });
  answers = {};
  assert.equal((await get(there, { headers: gzip })).headers['content-encoding'], 'gzip');
  assert.equal(up.seen.at(-1).headers['accept-encoding'], undefined);
  await must('PATCH', `/edges/https/${there.edge.id}/routes/${there.route.id}`, { request_headers: { add: { 'accept-encoding': 'gzip' } } });
  assert.equal((await get(there)).headers['content-encoding'], undefined);
  await must('PATCH', `/edges/https/${there.edge.id}/routes/${there.route.id}`, { response_headers: { add: { 'cache-control': 'no-transform' } } });
  assert.equal((await get(there, { headers: gzip })).headers['content-encoding'], undefined);
  await must('PATCH', `/edges/https/${there.edge.id}/routes/${there.route.id}`, { response_headers: { remove: ['etag'] } });
  answers = { headers: { ETag: '"x"' } };
  const got = await get(there, { headers: gzip });
  assert.deepEqual([got.headers['content-encoding'], got.headers.etag], ['gzip', undefined]);
});

// Where the operator wants it (POSTERN_COMPRESS_CREDENTIALS=off), what may hold a secret is not encoded.
const secret = process.env.POSTERN_COMPRESS_CREDENTIALS === 'off' ? undefined : 'gzip';
for (const [what, headers, said] of [['a cookie', { cookie: 'a=b' }, {}], ['credentials', { authorization: 'Basic YTpi' }, {}], ['a cookie that is set', {}, { 'Set-Cookie': 'a=b' }]])
  test(`with ${what}: ${secret ?? 'as it is'}, as the operator wants it`, async () => {
    answers = { headers: said };
    const got = await get(to, { headers: { ...gzip, ...headers } });
    assert.deepEqual([got.headers['content-encoding'], got.headers.vary, got.body.equals(TEXT)], [secret, 'Accept-Encoding', true]);
  });

test('a module that is off does nothing', async () => {
  answers = { headers: { ETag: '"x"' } };
  const there = await endpoint(up.address, { compression: { enabled: false } }), got = await get(there, { headers: gzip });
  assert.deepEqual([got.headers['content-encoding'], got.headers.vary, got.headers.etag, got.headers['content-length']], [undefined, undefined, '"x"', `${TEXT.length}`]);
});
