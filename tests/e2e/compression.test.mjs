// The module compression: which bodies are encoded for whom, what the fields of the answer say of it, and that encoded bodies stream,
// wait and break off as others do.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';
import { Duplex, Readable } from 'node:stream';
import { ca, edge, elsewhere, endpoint, listening, must, raw, tcpUpstream, until, upstream } from '../support/postern.mjs';
import { workers } from '../model/workers.mjs';

const MIB = 1 << 20;
const sub = await listening('http_request_complete');
const eventOf = (host, path) => until(() => sub.events.find((event) => event.object.http.request.url.host === host && event.object.http.request.url.path === path)?.object, `the event of ${host}${path}`);
const counter = async (name) => Number(new RegExp(`^postern_edge_module_${name}_total\\{module="compression"\\} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text()))[1]);

const TEXT = Buffer.from('All happy families are alike; each unhappy family is unhappy in its own way. '.repeat(40));
const tools = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-unzstd-'));
execFileSync('cc', ['-O1', fileURLToPath(new URL('../support/unzstd.c', import.meta.url)), '-o', `${tools}/unzstd`, '-lzstd']);
test.after(() => fs.rmSync(tools, { recursive: true, force: true }));
function unzstd() {
  const child = spawn(`${tools}/unzstd`, { stdio: ['pipe', 'pipe', 'ignore'] });
  const decoder = new Duplex({
    write: (part, _, done) => { child.stdin.write(part, () => done()); },
    final: (done) => { child.stdin.end(() => done()); },
    read: () => { child.stdout.resume(); },
    destroy: (error, done) => { child.kill(); done(error); },
  });
  child.stdin.on('error', () => {});
  child.stdout.on('data', (part) => { if (!decoder.push(part)) child.stdout.pause(); });
  child.on('close', (code) => { if (code === 0) decoder.push(null); else decoder.destroy(new Error('the frame has no end')); });
  return decoder;
}
const decoders = { gzip: zlib.createGunzip, deflate: zlib.createInflate, br: zlib.createBrotliDecompress, zstd: unzstd };
const codings = Object.keys(decoders);

// A request over either protocol: {response (a stream), status, headers, end()}.
const one = {
  h1: (host, path, { method = 'GET', headers = {} } = {}) => new Promise((resolve, reject) => {
    const request = https.request({ host: edge.host, port: edge.port, servername: host, ca, path, method, agent: false, headers: { Host: host, ...headers } });
    request.on('error', reject);
    request.on('response', (response) => resolve({ response, status: response.statusCode, headers: response.headers, end: () => request.destroy() }));
    request.end();
  }),
  h2: (host, path, { method = 'GET', headers = {} } = {}) => new Promise((resolve, reject) => {
    const session = http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca });
    const request = session.request({ ':path': path, ':method': method, ...headers });
    session.on('error', reject);
    request.on('error', reject);
    request.on('close', () => session.close());
    request.on('response', (got) => resolve({ response: request, status: got[':status'], headers: got, end: () => session.destroy() }));
    request.end();
  }),
};
const protocols = Object.keys(one);

// What comes of an answer: {sent, body, whole, hash}. sent: bytes before they were decoded; keep: the body itself, too.
function read(answer, keep = true) {
  return new Promise((resolve) => {
    const hash = createHash('sha256'), parts = [], decoder = decoders[answer.headers['content-encoding']]?.();
    let sent = 0, bytes = 0, ended = false, settled = false;
    const done = (whole) => {
      if (settled) return;
      settled = true;
      answer.end();
      resolve({ sent, bytes, whole, hash: hash.digest('hex'), body: keep ? Buffer.concat(parts) : undefined });
    };
    const take = (part) => { hash.update(part); bytes += part.length; if (keep) parts.push(part); };
    decoder?.on('data', take).on('end', () => done(ended)).on('error', () => done(false));
    answer.response.on('data', (part) => { sent += part.length; if (decoder) { if (!decoder.write(part)) { answer.response.pause(); decoder.once('drain', () => answer.response.resume()); } } else take(part); });
    answer.response.on('end', () => { ended = answer.response.complete ?? true; if (decoder) decoder.end(); else done(ended); });
    answer.response.on('error', () => {});
    answer.response.on('close', () => { if (!ended) { if (decoder) decoder.end(); else done(false); } });
  });
}

const get = async (to, { protocol = 'h1', path = '/', ...options } = {}) => { const answer = await one[protocol](to.host, path, options); return { ...answer, ...await read(answer) }; };

// An upstream whose answer is what a story says: {status, headers, body}.
let answers = {};
const up = await upstream((request, response) => {
  const { status = 200, headers = {}, body = TEXT } = answers;
  response.writeHead(status, { 'Content-Type': 'text/plain', ...([204, 304].includes(status) ? {} : { 'Content-Length': body.length }), ...headers });
  response.end(request.method === 'HEAD' || [204, 304].includes(status) ? undefined : body);
});
test.after(() => up.close());
const to = await endpoint(up.address, { compression: {} });
const gzip = { 'accept-encoding': 'gzip' };

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

// ---- bodies that stream ----

const head = (fields = '') => `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n${fields}\r\n`;
const chunk = (part) => Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), Buffer.from(part), Buffer.from('\r\n')]);

for (const protocol of protocols)
  for (const coding of codings)
    test(`what the upstream sends can be decoded before it sends more: ${coding}, ${protocol}`, { timeout: 280000 }, async () => {
      let socket;
      const there = await tcpUpstream((one) => { socket = one; one.once('data', () => one.write(head())); });
      const stream = await endpoint(there.address, { compression: {} });
      const answer = await one[protocol](stream.host, '/', { headers: { 'accept-encoding': coding } }); // before there is a body
      assert.equal(answer.headers['content-encoding'], coding);
      const decoder = decoders[coding]();
      let text = Buffer.alloc(0), want = Buffer.alloc(0), ended = false;
      decoder.on('data', (part) => { text = Buffer.concat([text, part]); }).on('end', () => { ended = true; });
      answer.response.pipe(decoder);
      for (const piece of ['data: 1\n\n', 'd', 'data: 2\n\n', randomBytes(200000).toString('base64'), 'x', 'data: last\n\n']) {
        socket.write(chunk(piece));
        want = Buffer.concat([want, Buffer.from(piece)]);
        await until(() => text.length === want.length, `${want.length} bytes at the client`);
      }
      socket.end('0\r\n\r\n');
      await until(() => ended, 'the end');
      assert.ok(text.equals(want));
      answer.end();
      await there.close();
    });

// Parts that differ from place to place, half of them text: one that is lost, moved or doubled is noticed.
const noise = Buffer.concat([randomBytes(MIB), Buffer.from(randomBytes(MIB / 2).toString('hex'))]);
function* parts(bytes) {
  for (let at = 0, i = 0; at < bytes; i++) {
    const size = Math.min(1 + (i * 7919) % 150000, bytes - at), from = (i * 104729) % MIB;
    yield noise.subarray(from, from + size);
    at += size;
  }
}
const sumOf = (bytes) => { const hash = createHash('sha256'); for (const part of parts(bytes)) hash.update(part); return hash.digest('hex'); };

async function serve(listener) {
  const server = http.createServer({ requestTimeout: 0 }, listener);
  await new Promise((resolve) => server.listen(0, process.env.STORY_HOST || '127.0.0.1', resolve));
  return { address: `${process.env.STORY_HOST || '127.0.0.1'}:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

test('64 MiB are whole, and counted', { timeout: 300000, skip: elsewhere }, async () => {
  const SIZE = 64 * MIB, want = sumOf(SIZE);
  const there = await serve((request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain', ...(request.url.endsWith('length') ? { 'Content-Length': SIZE } : {}) });
    Readable.from(parts(SIZE), { objectMode: false, highWaterMark: MIB }).pipe(response);
  });
  const large = await endpoint(there.address, { compression: {} });
  for (const [protocol, coding, framing] of [['h1', 'gzip', 'length'], ['h2', 'gzip', 'chunks'], ['h1', 'deflate', 'chunks'], ['h2', 'deflate', 'length']]) {
    const path = `/${protocol}-${coding}-${framing}`, answer = await one[protocol](large.host, path, { headers: { 'accept-encoding': coding } });
    const got = await read(answer, false);
    assert.deepEqual([answer.headers['content-encoding'], got.whole, got.bytes, got.hash], [coding, true, SIZE, want], path);
    const event = await eventOf(large.host, path);
    assert.equal(event.http.response.body_length, got.sent);
    assert.deepEqual(event.compression, { algorithm: coding, bytes_saved: SIZE - got.sent });
  }
  there.close();
});

test('others are served while a large body is encoded', { timeout: 280000, skip: elsewhere }, async () => {
  const there = await serve((request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' });
    if (request.url === '/small') return response.end('small');
    return Readable.from(parts(64 * MIB), { objectMode: false, highWaterMark: MIB }).pipe(response);
  });
  const both = await endpoint(there.address, { compression: {} });
  const large = await Promise.all(Array.from({ length: 2 * workers().length }, () => one.h1(both.host, '/large', { headers: gzip })));
  let left = large.length, served = 0;
  for (const answer of large) answer.response.on('data', () => {}).on('end', () => { left--; });
  while (left) {
    assert.equal((await get(both, { path: '/small', headers: gzip })).body.toString(), 'small');
    if (left) served++;
  }
  assert.ok(served >= 20, `${served} others`);
  there.close();
});

const cuts = {
  'its length is not reached': (s) => { s.write(`HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${2 * MIB}\r\n\r\n`); s.end(noise.subarray(0, MIB)); },
  'its length is not reached, and the connection reset': (s) => { s.write(`HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${2 * MIB}\r\n\r\n`); s.write(noise.subarray(0, MIB), () => s.resetAndDestroy()); },
  'in the middle of a chunk': (s) => { s.write(head()); s.write(`${(2 * MIB).toString(16)}\r\n`); s.end(noise.subarray(0, MIB)); },
  'between two chunks': (s) => { s.write(head()); s.end(chunk(noise.subarray(0, MIB))); },
  'a chunk has no size': (s) => { s.write(head()); s.write(chunk(noise.subarray(0, MIB))); s.write('nonsense\r\n'); },
};
for (const [what, answer] of Object.entries(cuts))
  test(`a client notices that the upstream's answer is not whole: ${what}`, { timeout: 280000 }, async () => {
    const there = await tcpUpstream((socket) => socket.once('data', () => answer(socket)));
    const cut = await endpoint(there.address, { compression: {} });
    for (const protocol of protocols) {
      for (const coding of codings) {
        const answer = await one[protocol](cut.host, `/${protocol}-${coding}`, { headers: { 'accept-encoding': coding } });
        let framed = false;
        answer.response.on('end', () => { framed = answer.response.complete ?? true; });
        const got = await read(answer);
        assert.ok(!got.whole && !framed, `${protocol}, ${coding}: it seems whole`);
        assert.ok(got.body.equals(noise.subarray(0, got.bytes)));
        const event = await eventOf(cut.host, `/${protocol}-${coding}`);
        assert.equal(event.compression.algorithm, coding);
        assert.ok(event.http.response.body_length >= got.sent);
      }
    }
    await there.close();
  });

test('a change of the configuration while bodies stream: they go on as they began', { timeout: 280000 }, async () => {
  const sockets = [];
  const there = await tcpUpstream((socket) => socket.once('data', () => { socket.write(head()); socket.write(chunk('before\n')); sockets.push(socket); }));
  const stream = await endpoint(there.address, { compression: {} });
  const begin = async (protocol) => {
    const answer = await one[protocol](stream.host, '/', { headers: gzip }), coding = answer.headers['content-encoding'];
    const got = { coding, text: '', ended: false, end: answer.end };
    (coding ? answer.response.pipe(decoders[coding]()) : answer.response).on('data', (part) => { got.text += part; }).on('end', () => { got.ended = true; });
    return got;
  };
  const open = [await begin('h1'), await begin('h2')];
  await until(() => open.every((got) => got.text === 'before\n'), 'the first piece');
  await must('DELETE', `/edges/https/${stream.edge.id}/routes/${stream.route.id}/compression`);
  open.push(await begin('h1'));
  await must('PUT', `/edges/https/${stream.edge.id}/routes/${stream.route.id}/compression`, {});
  open.push(await begin('h2'));
  assert.deepEqual(open.map(({ coding }) => coding), ['gzip', 'gzip', undefined, 'gzip']);
  for (const socket of sockets) socket.end(Buffer.concat([chunk('after\n'), Buffer.from('0\r\n\r\n')]));
  await until(() => open.every((got) => got.ended), 'the ends');
  assert.deepEqual(open.map(({ text }) => text), Array(4).fill('before\nafter\n'));
  for (const { end } of open) end();
  await there.close();
});

test('a WebSocket is none of it', async () => {
  const there = await tcpUpstream((socket) => socket.once('data', (request) => {
    const accept = createHash('sha1').update(`${/sec-websocket-key: (\S+)/i.exec(request.toString('latin1'))[1]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Type: text/plain\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on('data', (part) => socket.write(part));
  }));
  const echo = await endpoint(there.address, { compression: {} });
  const answer = await raw(echo.host, `GET / HTTP/1.1\r\nHost: ${echo.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAccept-Encoding: gzip\r\n\r\n`, { wait: 500 });
  assert.match(answer, /^HTTP\/1.1 101/);
  assert.doesNotMatch(answer, /Content-Encoding|Vary/i);
  await there.close();
});

// ---- memory ----

const resident = () => workers().reduce((total, pid) => total + Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024, 0);
// AddressSanitizer keeps 256 MiB that a process freed: only without it (make chaos) this tells what a client costs.
const sanitizer = () => workers().filter((pid) => /libasan/.test(fs.readFileSync(`/proc/${pid}/maps`, 'utf8'))).length * 256 * MIB;

test('clients that do not take what was encoded for them cost a bounded part of memory, and go on', { timeout: 280000, skip: elsewhere }, async () => {
  const READERS = 24, BLOCK = 64 * 1024;
  let written = 0;
  const there = await serve((request, response) => {
    let left = 1024 * MIB;
    response.writeHead(200, { 'Content-Type': 'text/plain', ...(request.url === '/length' ? { 'Content-Length': left } : {}) });
    const write = () => {
      for (; left > 0; left -= BLOCK, written += BLOCK) {
        if (!response.write(noise.subarray(0, BLOCK))) { left -= BLOCK; written += BLOCK; response.once('drain', write); return; }
      }
      response.end();
    };
    write();
  });
  const slow = await endpoint(there.address, { compression: {} });
  await get(slow, { method: 'HEAD' });
  const before = resident(), open = [];
  for (let i = 0; i < READERS; i++) open.push(await one[i % 2 ? 'h2' : 'h1'](slow.host, i % 4 < 2 ? '/length' : '/chunks', { headers: { 'accept-encoding': codings[i % codings.length] } }));
  for (const { response } of open) response.on('error', () => {});
  let last = -1, same = 0;
  await until(() => { same = written === last ? same + 1 : 0; last = written; return same > 25; }, 'all wait for their clients', 120000);
  const grown = resident() - before;
  const encoders = { gzip: 264, deflate: 264, br: 1950, zstd: 660 }; // KiB, as services/edge/README.md has it
  const most = codings.reduce((sum, coding) => sum + READERS / codings.length * (encoders[coding] + 376) * 1024, 0);
  assert.ok(grown < most + 16 * MIB + sanitizer(), `${READERS} clients took ${grown} bytes of memory`);
  // and what the kernel takes for a client that does not read, which is 6 MiB of what was encoded where nobody has set it otherwise
  const received = Number(fs.readFileSync('/proc/sys/net/ipv4/tcp_rmem', 'utf8').trim().split(/\s+/)[2]);
  assert.ok(written < READERS * 64 * MIB * Math.max(1, received / (6 * MIB)), `${written} bytes of the answers are on their way`);

  for (const answer of open.slice(0, codings.length)) {
    let bytes = 0, right = true;
    answer.response.pipe(decoders[answer.headers['content-encoding']]()).on('data', (part) => {
      for (let at = 0; at < part.length && right;) {
        const from = (bytes + at) % BLOCK, size = Math.min(BLOCK - from, part.length - at);
        right = part.compare(noise, from, from + size, at, at + size) === 0;
        at += size;
      }
      bytes += part.length;
    });
    await until(() => bytes > 32 * MIB || !right, '32 MiB of what waited', 120000);
    assert.ok(right);
  }
  for (const answer of open) answer.end();
  there.close();
});
