// Grammar of HTTP/2 connections: streams as they should be, and every kind of wrong frame, order, flag and length among them
// (RFC 9113, RFC 7541).
import tls from 'node:tls';
import { edge } from '../support/postern.mjs';
import { DATA, frame, GOAWAY, HEADERS, headers, PING, RST_STREAM, SETTINGS, END_HEADERS, END_STREAM, PADDED, statusOf } from '../support/h2raw.mjs';
import { LIMIT_MS, secureContext, writePieces } from './client.mjs';
import { CLAIMS, isClaim, isTrace, normalPath, splitAuthority } from './reference.mjs';

const PRIORITY = 2, PUSH_PROMISE = 5, WINDOW_UPDATE = 8, CONTINUATION = 9, PRIORITISED = 32;
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32BE(n >>> 0); return b; };
const setting = (id, value) => Buffer.concat([Buffer.from([id >> 8, id & 255]), u32(value)]);
const noise = (random, n) => Buffer.from(Array.from({ length: n }, () => random.below(256)));

const VALUES = ['a', 'text/html', '', 'a, b', '\xe9', 'x'.repeat(200), '127.0.0.1'];
const NAMES = ['accept', 'user-agent', 'x-one', 'x-two', 'referer', 'cache-control', 'content-type', 'traceparent', 'tracestate'];

// One stream: {pairs, body, sure}; sure: it is as it should be, and so is answered.
function stream(random, id, name, mark) {
  const method = random.weighed({ GET: 50, HEAD: 8, POST: 30, PUT: 8, DELETE: 4 });
  const path = `${random.weighed({ '/p/': 50, '/x/': 40, '/f/': 5, '/t/': 1, '/nowhere/': 5 })}${mark}.${id}${random.of(['', '/a', '//b', '/./c', '/%41', '?a=b'])}`;
  const body = method === 'GET' || method === 'HEAD' ? Buffer.alloc(0) : Buffer.alloc(random.of([0, 1, 10, 500, 5000, 20000]), 'b');
  const pairs = [[':method', method], [':scheme', 'https'], [':authority', name], [':path', path]];
  for (let i = random.below(4); i > 0; i--) pairs.push([random.of(NAMES), random.of(VALUES)]);
  if (random.chance(0.15)) pairs.push([random.of(CLAIMS), random.of(['203.0.113.9', 'root', 'http'])]);
  if (body.length && random.chance(0.5)) pairs.push(['content-length', String(body.length)]);
  if (random.chance(0.1)) pairs.push(['cookie', 'a=b'], ['cookie', 'c=d']);
  return { id, method, path, body, pairs, sure: true };
}

// What is wrong in a request's fields. The request may be refused, or arrive without what is wrong.
const FIELDS = {
  no_pseudo: (random, s) => { s.pairs.splice(random.below(4), 1); },
  twice_pseudo: (random, s) => { s.pairs.splice(random.below(5), 0, [...s.pairs[random.below(4)]]); },
  late_pseudo: (random, s) => { s.pairs.push(...s.pairs.splice(random.below(4), 1)); },
  unknown_pseudo: (random, s) => { s.pairs.splice(random.below(5), 0, [random.of([':protocol', ':status', ':', ':x', '::path', ':Method']), 'websocket']); },
  method: (random, s) => { s.pairs.find(([name]) => name === ':method')[1] = random.of(['', 'get', 'GET ', 'G\0T', 'GET / HTTP/1.1\r\nX: y', 'CONNECT', 'TRACE', 'PRI', '\xff', 'A'.repeat(5000)]); },
  path: (random, s) => { s.pairs.find(([name]) => name === ':path')[1] = random.of(['', '*', 'x', '/x/ y', '/x/\r\nX: y', '/x/\0', '/x/%zz', '/x/..', '/x/../..', '//', '/p/\xff', 'https://a/x/', `/${'a'.repeat(20000)}`, '/x/#a', '/x/?\n', '?']); },
  scheme: (random, s) => { s.pairs.find(([name]) => name === ':scheme')[1] = random.of(['', 'http', 'HTTPS', 'ftp', 'https\r\n', '\0', 'x'.repeat(300)]); },
  authority: (random, s, name) => { s.pairs.find(([key]) => key === ':authority')[1] = random.of(['', 'evil.example', `${name}:x`, `u@${name}`, `${name}.`, `${name}\r\nX: y`, `${name}\0`, '*', name.toUpperCase(), `${name}:443`, '[::1]', 'a'.repeat(5000)]); },
  host: (random, s, name) => { s.pairs.push(['host', random.of([name, 'evil.example', '', `${name}:443`])]); },
  capitals: (random, s) => { s.pairs.push([random.of(['X-Upper', 'Content-Length', 'Host', 'Transfer-Encoding']), '1']); },
  name: (random, s) => { s.pairs.push([random.of(['', ' ', 'a b', 'a:b', 'a\r\nb', 'a\0b', '\x7f', '\xff', 'x_y', 'x(y)', 'x'.repeat(300)]), 'a']); },
  value: (random, s) => { s.pairs.push([random.of(NAMES), random.of(['a\r\nX-Evil: b', 'a\nb', 'a\rb', 'a\0b', '\x01', '\x7f', ' a', 'a ', '\ta', 'x'.repeat(9000), 'x'.repeat(40000)])]); },
  hop: (random, s) => { s.pairs.push([random.of(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'te', 'trailer', 'expect', 'http2-settings']), random.of(['chunked', 'close', 'trailers', 'x-one', 'websocket', 'h2c', '100-continue', ''])]); },
  length: (random, s) => { s.pairs = s.pairs.filter(([name]) => name !== 'content-length'); for (let i = random.of([1, 1, 2]); i > 0; i--) s.pairs.push(['content-length', random.of(['', 'x', '-1', '+1', '1, 1', '0', '1', '99999', '9223372036854775807', '9223372036854775808', '1\0', '0x1', String(s.body.length + 1)])]); },
  many: (random, s) => { for (let i = random.of([100, 500, 2000]); i > 0; i--) s.pairs.push([`x-n-${i}`, 'v']); },
};

// Frames of a stream: [[bytes], ...]; wrong is what the connection may end with.
function framesOf(random, s) {
  const block = headers(s.pairs), out = [], end = s.body.length === 0;
  let flags = END_HEADERS | (end ? END_STREAM : 0), payload = block;
  if (random.chance(0.1)) { flags |= PRIORITISED; payload = Buffer.concat([u32(random.of([0, s.id === 1 ? 3 : 1])), Buffer.from([random.below(256)]), payload]); }
  if (random.chance(0.1)) { const pad = random.below(20); flags |= PADDED; payload = Buffer.concat([Buffer.from([pad]), payload, Buffer.alloc(pad)]); }
  if ((random.chance(0.1) || payload.length > 16000) && !(flags & (PADDED | PRIORITISED))) {
    const at = 1 + random.below(Math.min(16000, Math.max(1, payload.length - 1)));
    out.push(frame(HEADERS, flags & ~END_HEADERS, s.id, payload.subarray(0, at)));
    let rest = payload.subarray(at);
    do { const part = rest.subarray(0, 16000); rest = rest.subarray(part.length); out.push(frame(CONTINUATION, rest.length ? 0 : END_HEADERS, s.id, part)); } while (rest.length);
  } else out.push(frame(HEADERS, flags, s.id, payload));
  for (let at = 0; at < s.body.length;) {
    const part = s.body.subarray(at, at + 1 + random.below(8000));
    at += part.length;
    const last = at >= s.body.length, pad = random.chance(0.1) ? random.below(30) : undefined;
    out.push(frame(DATA, (last ? END_STREAM : 0) | (pad === undefined ? 0 : PADDED), s.id, pad === undefined ? part : Buffer.concat([Buffer.from([pad]), part, Buffer.alloc(pad)])));
  }
  return out;
}

// A frame that should not be there, or not so.
function wrongFrame(random, ids) {
  const id = random.of([0, 0, ...ids, 2, 99, 0x7fffffff, 0xffffffff]);
  return random.of([
    () => frame(random.below(256), random.below(256), id, noise(random, random.below(40))),
    () => frame(DATA, random.of([0, 1, 8, 9]), id, noise(random, random.of([0, 1, 5, 300]))),
    () => frame(DATA, PADDED, id, Buffer.from([random.of([0, 1, 5, 255]), 1, 2])),
    () => frame(HEADERS, random.of([0, 4, 5, 1, 12, 36, 44]), id, noise(random, random.below(60))),
    () => frame(HEADERS, END_HEADERS | END_STREAM, id, headers([['x-trailer', 'a']])), // nginx takes no trailers: it ends the connection
    () => frame(CONTINUATION, random.of([0, 4]), id, noise(random, random.below(20))),
    () => frame(PRIORITY, 0, id, Buffer.concat([u32(random.of([0, id, 1, 0xffffffff])), Buffer.from([random.below(256)])])),
    () => frame(PRIORITY, 0, id, noise(random, random.of([0, 4, 6]))),
    () => frame(RST_STREAM, 0, id, noise(random, random.of([4, 4, 4, 0, 3, 5]))),
    () => frame(SETTINGS, random.of([0, 0, 1]), random.of([0, 0, 0, 1]), Buffer.concat(Array.from({ length: random.below(4) }, () => setting(random.of([1, 2, 3, 4, 5, 6, 8, 9, 0xffff]), random.of([0, 1, 2, 100, 16384, 16777215, 16777216, 0x7fffffff, 0x80000000, 0xffffffff]))))),
    () => frame(SETTINGS, random.of([0, 1]), 0, noise(random, random.of([1, 5, 7]))),
    () => frame(PUSH_PROMISE, 4, id, Buffer.concat([u32(2), noise(random, 5)])),
    () => frame(PING, random.of([0, 1]), random.of([0, 0, 1]), noise(random, random.of([8, 8, 7, 9, 0]))),
    () => frame(GOAWAY, 0, random.of([0, 0, 1]), Buffer.concat([u32(random.of([0, 1, 0x7fffffff])), u32(random.below(16)), noise(random, random.of([0, 0, 20]))])),
    () => frame(WINDOW_UPDATE, 0, id, random.of([u32(0), u32(1), u32(0x7fffffff), u32(0x80000001), Buffer.alloc(3)])),
    () => { const b = frame(random.below(10), 0, id, noise(random, 10)); b.writeUIntBE(random.of([0, 9, 11, 16385, 0xffffff]), 0, 3); return b; },
    () => noise(random, 1 + random.below(30)),
    () => PREFACE,
    () => Buffer.concat(Array.from({ length: 200 }, () => random.of([frame(PING, 0, 0, Buffer.alloc(8)), frame(SETTINGS, 0, 0), frame(PRIORITY, 0, 3, Buffer.from([0, 0, 0, 0, 1])), frame(DATA, 0, ids[0], Buffer.alloc(0)), frame(WINDOW_UPDATE, 0, 0, u32(1)), frame(RST_STREAM, 0, ids[0], u32(8))]))),
  ])();
}

// A field block that no encoder makes.
const GARBAGE = [
  (random) => noise(random, 1 + random.below(100)),
  () => Buffer.from([0x80]), // index 0
  () => Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), // an index that overflows
  () => Buffer.from([0xbf]), // an index that the table has not
  () => Buffer.from([0x3f, 0xff, 0xff, 0xff, 0x7f]), // a table's size beyond what was agreed
  () => Buffer.concat(Array.from({ length: 20 }, () => Buffer.from([0x20]))), // size updates without end
  () => Buffer.from([0x82, 0x20]), // an update behind a field
  () => Buffer.from([0x00, 0x7f, 0xff, 0xff, 0xff, 0x7f]), // a length beyond the block
  () => Buffer.from([0x00, 0x85, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0xff]), // Huffman's end of string
  () => Buffer.from([0x00, 0x81, 0xfe, 0x81, 0x00]), // Huffman with a padding that is none
  () => Buffer.from([0x40, 0x01, 0x61]), // ends within a field
];

const isPlainName = (name) => /^[a-z0-9-]+$/.test(name);
const HOP = new Set(['connection', 'proxy-connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'expect', 'http2-settings', 'host', 'content-length']);

// The request that an upstream may see of a stream; what a wrong one leaves is told by its own path and body alone.
function referenceOf(s, place) {
  const of = (name) => s.pairs.find(([key]) => key === name)?.[1];
  const path = of(':path') ?? '', mark = path.indexOf('?');
  const normal = normalPath(mark < 0 ? path : path.slice(0, mark)), host = splitAuthority(of(':authority') ?? of('host') ?? '');
  const url = normal === undefined ? undefined : normal + (mark < 0 ? '' : path.slice(mark));
  const route = normal === undefined || !host || !place.isOurs(host.name) ? undefined : place.routeOf(normal);
  const r = { method: of(':method') ?? '', version: 2, host: host?.authority, url, route, arrives: !route ? 'no' : s.sure ? 'yes' : 'maybe', after: 'on', complete: true, body: s.body, why: 'HTTP/2', id: s.id };
  r.key = `${r.method} ${r.host} ${r.url}`;
  // a body that is longer than was said: what was said of it may have gone on before more came (RFC 9113 8.1.1)
  const said = s.pairs.filter(([name, value]) => name === 'content-length' && /^[0-9]+$/.test(value)).map(([, value]) => Number(value));
  if (said.length) r.said = said;
  const cookies = s.pairs.filter(([name]) => name === 'cookie').map(([, value]) => value);
  r.passed = s.pairs.filter(([name]) => isPlainName(name) && !HOP.has(name) && !isClaim(name) && !isTrace(name) && name !== 'cookie').map(([name, value]) => ({ name, value: value.replace(/^[ \t]+|[ \t]+$/g, '') }));
  if (cookies.length) r.passed.push({ name: 'cookie', value: cookies.join('; ') }); // RFC 9113 8.2.3
  return r;
}

// {writes: [[bytes, ms]], streams, requests, begun: how many could be counted, loose}
export function connection(random, name, mark, place) {
  const count = random.of([1, 1, 2, 3, 5, 10, 30]), streams = [], frames = [];
  const wrong = random.weighed({ none: 40, fields: 25, frames: 20, garbage: 8, scratch: 7 });
  let begun = 0;
  for (let i = 0; i < count; i++) {
    const s = stream(random, 1 + 2 * i, name, mark);
    if (wrong === 'fields' && random.chance(2 / count)) { for (let n = random.of([1, 1, 2]); n > 0; n--) try { FIELDS[random.of(Object.keys(FIELDS))](random, s, name); } catch { /* what it would change is gone already */ } s.sure = false; }
    streams.push(s);
  }
  // frames of streams among each other, each stream's in order; HEADERS with its CONTINUATIONs in one piece
  const queues = streams.map((s) => { const all = framesOf(random, s), head = all.filter((one) => one[3] === HEADERS && one === all[0] || one[3] === CONTINUATION); return [Buffer.concat(head), ...all.slice(head.length)]; });
  let opened = 0;
  while (queues.some((queue) => queue.length)) {
    const open = queues.findIndex((queue, i) => i === opened && queue.length);
    const ready = queues.filter((queue, i) => i < opened && queue.length);
    if (open >= 0 && (ready.length === 0 || random.chance(0.6))) { frames.push(queues[open].shift()); opened++; } else if (ready.length) frames.push(random.of(ready).shift());
  }
  begun = frames.filter((one) => one[3] === HEADERS).length;
  const ids = streams.map((s) => s.id);
  if (wrong === 'frames') for (let n = random.of([1, 1, 2, 4]); n > 0; n--) { frames.splice(random.below(frames.length + 1), 0, wrongFrame(random, ids)); begun++; }
  if (wrong === 'garbage') { frames.splice(random.below(frames.length + 1), 0, frame(HEADERS, random.of([4, 5]), random.of([...ids, 2 * count + 1, 101]), random.of(GARBAGE)(random))); begun++; }
  let start = Buffer.concat([PREFACE, frame(SETTINGS, 0, 0, random.chance(0.8) ? Buffer.alloc(0) : Buffer.concat([setting(4, random.of([0, 1, 100, 65535, 1 << 20])), setting(1, random.of([0, 4096, 100]))]))]);
  if (wrong === 'none' || wrong === 'fields') start = Buffer.concat([PREFACE, frame(SETTINGS, 0, 0, setting(4, 1 << 20)), frame(WINDOW_UPDATE, 0, 0, u32(1 << 24))]);
  let bytes = Buffer.concat([start, ...frames]), loose = false;
  if (wrong === 'scratch') {
    loose = true;
    for (let n = random.of([1, 1, 3]); n > 0; n--) {
      const at = random.below(bytes.length);
      bytes = random.of([() => { bytes[at] ^= 1 << random.below(8); return bytes; }, () => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(4))]), () => Buffer.concat([bytes.subarray(0, at), noise(random, 3), bytes.subarray(at)]), () => bytes.subarray(0, at + 1)])();
    }
  }
  if (wrong !== 'none') for (const s of streams) s.sure = false;
  const end = wrong === 'none' && random.chance(0.9) ? 'wait' : random.of(['quiet', 'quiet', 'abort', 'half']);
  if (end === 'abort' || end === 'half') { bytes = bytes.subarray(0, 1 + random.below(bytes.length)); for (const s of streams) s.sure = false; }
  const cuts = [];
  if (random.chance(0.25)) for (let i = random.of([1, 2, 5, 20]); i > 0; i--) cuts.push([random.below(bytes.length), random.chance(0.2) ? random.below(10) : 0]);
  cuts.sort((a, b) => a[0] - b[0]);
  const requests = streams.map((s) => ({ ...referenceOf(s, place), partial: false }));
  for (const request of requests) Object.assign(request, { loose, anyBody: wrong === 'frames' || wrong === 'garbage' });
  return { kind: 'http2', wrong, bytes, cuts, end, count, requests, begun, loose, tail: true };
}

const session = {};

// Sends; resolves with {statuses, bodies, ended, resets} by stream.
export function send(name, { bytes, cuts, end }, enough) {
  return new Promise((resolve) => {
    const result = { statuses: {}, bodies: {}, ended: new Set(), resets: {}, started: Date.now() };
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: name, secureContext, session: session.ticket, ALPNProtocols: ['h2'] });
    let rest = Buffer.alloc(0), over = false, quiet, timer = setTimeout(() => { result.late = true; finish(); }, LIMIT_MS);
    const finish = () => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      clearTimeout(quiet);
      socket.destroy();
      result.ms = Date.now() - result.started;
      resolve(result);
    };
    // of what is wrong nobody knows how much is answered: until nothing more comes
    const rests = () => { clearTimeout(quiet); quiet = setTimeout(finish, 60); };
    socket.setNoDelay(true);
    socket.on('session', (ticket) => { session.ticket = ticket; });
    socket.on('error', (error) => { result.error = error.code ?? error.message; });
    socket.on('close', () => { result.closed = true; finish(); });
    socket.on('data', (part) => {
      rest = rest.length ? Buffer.concat([rest, part]) : part;
      while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
        const size = rest.readUIntBE(0, 3), type = rest[3], flags = rest[4], id = rest.readUInt32BE(5), payload = rest.subarray(9, 9 + size);
        rest = rest.subarray(9 + size);
        if (type > CONTINUATION || (type === HEADERS && (flags & (PADDED | PRIORITISED)))) result.problem = `a frame of type ${type}, flags ${flags}`;
        if (type === HEADERS && payload.length) { const status = statusOf(payload); if (!(status < 200)) { if (result.statuses[id]) result.problem = `two heads of stream ${id}`; result.statuses[id] = status; } }
        if (type === DATA) { if (!result.statuses[id]) result.problem = `a body without a head, stream ${id}`; (result.bodies[id] ??= []).push(Buffer.from(payload)); }
        if (type === RST_STREAM) result.resets[id] = payload.readUInt32BE(0);
        if (type === GOAWAY) result.goaway = payload.readUInt32BE(4);
        if (type <= HEADERS && flags & END_STREAM) result.ended.add(id);
      }
      if (end === 'wait' && enough(result)) finish(); else if (end === 'quiet' && result.sent) rests();
    });
    socket.on('secureConnect', async () => {
      result.connected = true;
      const last = await writePieces(socket, bytes, cuts, () => over);
      if (!last) return;
      if (end === 'half') return void socket.end(last);
      socket.write(last, () => {
        result.sent = true;
        if (end === 'abort') finish(); else if (end === 'quiet') rests(); else if (enough(result)) finish();
      });
    });
  });
}
