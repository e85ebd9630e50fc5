// Grammar of what an upstream answers: {parts: [[bytes, ms before the next]], close, early, want}. want: {status, body, fields} is what a
// client must get; {bad: true}: 502, and nothing of it; {any: true}: it may be either, but framed, and of this request.
import { Random } from '../model/random.mjs';

const latin1 = (text) => Buffer.from(text, 'latin1');

// A number from a text: what is answered depends on the run's seed and on what was asked, so that both ends know it.
export function hash(text, from = 2166136261) {
  let h = from >>> 0;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  h ^= h >>> 15;
  return Math.imul(h, 0x2c1b3c6d) >>> 0;
}

const marked = (mark, size) => { const text = `[${mark}]`; return text.repeat(Math.ceil(size / text.length)).slice(0, Math.max(size, text.length)); };
const INTERIM = ['HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 102 Processing\r\n\r\n', 'HTTP/1.1 103\r\nX-Accel-Redirect: /x\r\nContent-Length: 5\r\n\r\n', 'HTTP/1.1 103 x\r\nConnection: x-a\r\nX-A: b\r\n\r\n', 'HTTP/1.1 199 x\r\nLink: a\nX-B: c\n\n'];
const FIELDS = ['X-Plain: a', 'Set-Cookie: a=b; Path=/', 'Set-Cookie: c=d', 'Server: evil', 'Date: yesterday', 'X-Accel-Redirect: /p/other', 'X-Accel-Expires: 60', 'X-Accel-Limit-Rate: 1', 'X-Accel-Buffering: yes', 'X-Accel-Charset: x', 'Location: http://postern/x', 'Refresh: 0; url=/',
  'Content-Type: text/html', 'Content-Encoding: gzip', 'ETag: "a"', 'Last-Modified: x', 'Cache-Control: no-store', 'Vary: *', 'Connection: X-Plain', 'Connection: close', 'Connection: keep-alive', 'Keep-Alive: timeout=1', 'Trailer: X-T', 'TE: trailers', 'Upgrade: h2c', 'Proxy-Connection: close', 'Proxy-Authenticate: Basic',
  'X-Tab: a\tb', 'X-Latin: \xe9\xff', 'X-Empty:', 'X-Long: ' + 'l'.repeat(5000), 'Alt-Svc: h3=":443"', 'Strict-Transport-Security: max-age=0', 'WWW-Authenticate: Basic', 'Postern-Request-Id: evil', 'Status: 500', 'Accept-Ranges: bytes', 'Content-Range: bytes 0-1/2', 'Link: </x>', 'P3P: x', 'Expires: 0', 'Pragma: no-cache'];
const BAD_FIELDS = ['X-Control: a\x01b', 'X-Nul: a\0b', 'X-Cr: a\rb', ' folded: x', 'X A: b', 'X-A : b', ': b', 'no colon', 'X(a): b', 'X-Del: \x7f', '\x80: b', 'Content-Length : 5', 'Transfer-Encoding : chunked', '\tX: y'];
const BAD_LINES = ['HTTP/2.0 200 OK', 'HTTP/1.1 99 x', 'HTTP/1.1 099 x', 'HTTP/1.1 600 x', 'HTTP/1.1 2000 x', 'HTTP/1.1 20', 'HTTP/1.1  200 OK', 'http/1.1 200 OK', 'HTTP/1.1 200 O\x01K', 'HTTP/1.1 abc x', 'ICY 200 OK', '', ' HTTP/1.1 200 OK', 'HTTP/1.1 -20 x', 'HTTP/1.1\t200 OK', 'HTTP/1.1 200OK', 'GET / HTTP/1.1', '<html>', '\0', 'HTTP/1.1 101 Switching Protocols', 'HTTP/1.1 000 x', 'HTTP/1.1 999 x', 'HTTP/0.9 200 OK', 'SSH-2.0-x', '\x15\x03\x01\x00\x02\x02\x28'];

function chunks(random, text, wrong) {
  let out = '';
  for (let at = 0; at < text.length;) {
    const part = text.slice(at, at + 1 + random.below(random.chance(0.3) ? 5000 : 60));
    let size = part.length.toString(random.chance(0.9) ? 16 : 16);
    if (random.chance(0.1)) size = size.toUpperCase();
    if (random.chance(0.1)) size = `0${size}`;
    if (random.chance(0.08)) size += random.of([';a=b', ';a', ' ', ';"']);
    out += `${size}\r\n${part}\r\n`;
    at += part.length;
  }
  if (wrong) {
    const at = random.below(out.length + 1);
    return out.slice(0, at) + random.of(['zz\r\n', '-1\r\n', 'ffffffffffffffffff\r\n', '\r\n\r\n', '\0', '0\r\n\r\nX', 'HTTP/1.1 200 OK\r\n\r\n', '']) + (random.chance(0.5) ? out.slice(at) : '');
  }
  return `${out}0\r\n${random.chance(0.1) ? 'X-Trailer: a\r\nContent-Length: 9\r\n' : ''}\r\n`;
}

const splitUp = (random, bytes) => {
  if (random.chance(0.75)) return [[bytes, 0]];
  const parts = [];
  let at = 0;
  for (let n = random.of([1, 2, 4, 30]); n > 0 && at < bytes.length; n--) {
    const to = Math.min(bytes.length, at + 1 + random.below(random.chance(0.5) ? 6 : Math.ceil(bytes.length / 2)));
    parts.push([bytes.subarray(at, to), random.chance(0.15) ? random.below(6) : 0]);
    at = to;
  }
  if (at < bytes.length) parts.push([bytes.subarray(at), 0]);
  return parts;
};

// What is answered to the method and the mark; plain: as any application would.
export function answer(seed, method, mark, plain) {
  const random = new Random(hash(`${seed} ${method} ${mark}`));
  const id = hash(mark, seed).toString(36);
  if (plain) {
    const body = marked(id, random.of([3, 30, 30, 300, 300, 5000]));
    const chunky = random.chance(0.3), head = method === 'HEAD';
    const text = `HTTP/1.1 200 OK\r\nX-Mark: ${id}\r\n${chunky ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`}\r\n\r\n${head ? '' : chunky ? chunks(random, body) : body}`;
    return { id, parts: [[latin1(text), 0]], want: { status: 200, body: head ? '' : body } };
  }
  const kind = random.weighed({ good: 30, fields: 10, interim: 10, no_body: 6, bad_line: 8, bad_field: 8, framing: 12, bad_chunks: 6, cut: 6, scratch: 10, surplus: 5, nothing: 3, early: 4, until_close: 5, garbage: 2, flood: 1, large: 2, websocket: 1 });
  let body = marked(id, random.of([3, 30, 300, 3000, 9000])), status = random.of([200, 200, 200, 201, 206, 301, 302, 400, 401, 404, 418, 500, 502, 503, 599, 207, 405, 413, 414, 421, 494, 495, 496, 497, 499, 444, 504, 505, 416, 412]);
  const head = method === 'HEAD';
  let line = `HTTP/1.1 ${status} ${random.of(['OK', '', 'x y z', '\xe9'])}`, fields = [`X-Mark: ${id}`], framing, payload, before = '', after = '';
  let want = { status, body: head ? '' : body }, close = false, early = false;
  const length = () => { framing = [`Content-Length: ${body.length}`]; payload = head ? '' : body; };
  const chunky = (wrong) => { framing = [`Transfer-Encoding: ${random.of(['chunked', 'Chunked'])}`]; payload = head ? '' : chunks(random, body, wrong); };
  if (random.chance(0.4)) chunky(); else length();
  for (let i = random.below(3); i > 0; i--) fields.push(random.of(FIELDS));
  switch (kind) {
    case 'fields': for (let i = random.of([5, 20, 60]); i > 0; i--) fields.push(random.of(FIELDS)); break;
    case 'interim': for (let i = random.of([1, 1, 2, 5, 30]); i > 0; i--) before += random.of(INTERIM); break;
    case 'no_body': {
      status = random.of([204, 304]);
      line = `HTTP/1.1 ${status} x`;
      payload = '';
      if (random.chance(0.5)) framing = [];
      want = { status, body: '' };
      break;
    }
    case 'bad_line': line = random.of(BAD_LINES); want = { bad: true }; close = random.chance(0.5); break;
    case 'bad_field': fields.splice(1 + random.below(fields.length), 0, random.of(BAD_FIELDS)); want = { bad: true }; break;
    case 'framing':
      framing = random.of([['Content-Length: 5', 'Content-Length: 5'], ['Content-Length: 5', 'Content-Length: 6'], ['Content-Length: 5', 'Transfer-Encoding: chunked'], ['Transfer-Encoding: chunked', 'Content-Length: 5'], ['Content-Length: 5, 5'], ['Content-Length: -5'], ['Content-Length: +5'], ['Content-Length: 0x5'], ['Content-Length:'], ['Content-Length: 5 5'],
        ['Content-Length: 9223372036854775808'], ['Content-Length: 99999999999999999999'], ['Transfer-Encoding: gzip'], ['Transfer-Encoding: gzip, chunked'], ['Transfer-Encoding: chunked, chunked'], ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], ['Transfer-Encoding: identity'], ['Transfer-Encoding:'], ['Transfer-Encoding: xchunked'], ['Transfer-Encoding: chunked;q=1']]);
      want = { bad: true };
      break;
    case 'bad_chunks': chunky(true); want = { any: true }; close = true; break;
    case 'surplus': {
      after = random.of(['x', '\r\n', 'HTTP/1.1 200 OK\r\nX-Mark: evil\r\nContent-Length: 4\r\n\r\nevil', '0\r\n\r\n', 'HTTP/1.1 100 Continue\r\n\r\n']);
      break;
    }
    case 'nothing': return { id, parts: random.chance(0.5) ? [] : [[latin1('\r'), 0]], close: true, reset: random.chance(0.3), unread: true, want: { bad: true } };
    case 'early': early = true; break;
    case 'until_close': framing = random.chance(0.5) ? [] : ['Connection: close']; payload = head ? '' : body; close = true; break;
    case 'garbage': return { id, parts: splitUp(random, Buffer.from(Array.from({ length: random.of([1, 20, 500, 70000]) }, () => random.below(256)))), close: true, unread: true, want: { bad: true, loose: true } };
    case 'flood': before = 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(150); want = { bad: true }; break;
    case 'large': { const many = random.of([3000, 20000, 50000, 66000, 200000]); while (fields.join('').length < many) fields.push(`X-Large: ${'v'.repeat(500)}`); want = many > 60000 ? { bad: true, loose: true } : { ...want, any: many > 45000 }; break; }
    case 'websocket': line = 'HTTP/1.1 101 Switching Protocols'; framing = [random.of(['Upgrade: websocket', 'Upgrade: h2c', ''])].filter(Boolean); fields.push('Connection: upgrade'); payload = 'raw'; want = { bad: true }; break;
    default:
  }
  if (random.chance(0.1)) fields.unshift(...framing); else fields.push(...framing);
  const ending = random.chance(0.93) ? '\r\n' : '\n';
  let bytes = latin1(`${before}${line}${ending}${fields.map((field) => field + ending).join('')}${ending}${payload}${after}`);
  if (!close && (fields.some((field) => /^connection:.*close/i.test(field)) || random.chance(0.05))) close = true;
  if (!close && (want.bad || want.any || kind === 'surplus')) close = random.chance(0.3);
  let reset = false;
  if (kind === 'cut') { bytes = bytes.subarray(0, random.below(bytes.length)); close = true; reset = random.chance(0.3); want = { any: true }; }
  if (kind === 'scratch') {
    for (let n = random.of([1, 1, 2, 4]); n > 0; n--) {
      const at = random.below(bytes.length);
      const ways = [() => { bytes[at] ^= 1 << random.below(8); }, () => { bytes[at] = random.of([0, 10, 13, 32, 58, 127, 255, 48]); },
        () => { bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(5))]); }, () => { bytes = Buffer.concat([bytes.subarray(0, at), latin1(random.of(['\r\n', '\n', '\0', ' ', ':', '\r\n\r\n', 'x'])), bytes.subarray(at)]); }];
      random.of(ways)();
      if (bytes.length === 0) break;
    }
    close = true;
    want = { any: true };
  }
  // without a length in its head an answer ends with its connection, also of a status without a body for who asked HEAD
  return { id, parts: splitUp(random, bytes), close, reset, early, kind, want };
}
