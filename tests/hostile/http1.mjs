// Grammar of HTTP/1 connections: requests as they should be, then what is changed of them, so that most are nearly right.
import { CLAIMS } from './reference.mjs';

const latin1 = (text) => Buffer.from(text, 'latin1');
const TAILS = ['', '', '', '', '/', '/a', '/a/b', '//b', '/./c', '/../d', '/x/%2e%2e/e', '/%2E/', '/..', '/.', '/%41%7e', '/a%2fb', '/a%2F..', '/..%2fx', '/..;/x', ';v=1', '/;x/y', '/%5c', '\\x', '/%00', '/%', '/%4', '/%zz',
  '/%c3%a9', '/\xc3\xa9', '/\xff', '/%c0%af', '/%ed%a0%80', '/%f4%90%80%80', '/%0d%0a', '/%7f', '/a+b', "/!$&'()*,=:@", '/"<>^`{|}', '/%25', '/%252e%252e', '/...', '/a..', '/.a'];
const QUERIES = ['', '', '', '', '?', '?a=b', '?a=/../b', '?%00', '?%zz', '??', '?a#b', '#a', '?\xff', '?"<>', '?a=b&c=%0d%0aX:y'];
const METHODS = { GET: 40, HEAD: 6, POST: 25, PUT: 5, PATCH: 3, DELETE: 4, OPTIONS: 5 };
const ODD_METHODS = { TRACE: 1, CONNECT: 1, PROPFIND: 1, PURGE: 1, get: 1, 'G-E_T': 1, PRI: 1, M: 1, GETT: 1, 'G\xc9T': 0.5, [`${'A'.repeat(300)}`]: 0.3 };
const VALUES = ['a', 'text/html,*/*', '"q;=,"', 'a, b', '', '  a', 'a\tb', '\ta', 'a \t', '\xe9\xff', 'x'.repeat(300), '${conn.client_ip}', '%00', "' or 1=1", '127.0.0.1', 'https', '\\', ':', '0'];
const NAMES = ['Accept', 'User-Agent', 'Cookie', 'X-One', 'X-Two', 'x-three', 'Authorization', 'Referer', 'Range', 'If-None-Match', 'Accept-Encoding', 'Cache-Control', 'X-HTTP-Method-Override', 'Content-Type', 'Date', 'Via', 'Max-Forwards', 'Content-Encoding', '1', '-', 'X--', 'Traceparent', 'tracestate'];
const HOP = ['Keep-Alive', 'Proxy-Connection', 'TE', 'Trailer', 'Upgrade', 'HTTP2-Settings', 'Expect', 'Proxy-Authorization', 'Proxy-Authenticate'];
const OPTIONS = ['keep-alive', 'X-One', 'x-two', 'TE', 'Cookie', 'Upgrade'], ODD_OPTIONS = ['close', 'keep-alive', 'Keep-Alive', 'Upgrade', 'X-One', 'x-two', 'TE', 'Host', 'Content-Length', 'X-Forwarded-For', 'Transfer-Encoding', 'Cookie', 'Connection', '', ' ', 'closed', 'x-close', 'HTTP2-Settings', 'a b', '\xff'];
const ODD_NAMES = ['X_One', 'Content_Length', 'Transfer_Encoding', 'Host_', 'X(a)', 'X;a', 'X/a', '"X"', 'X\xe9', 'X\x7f', 'X One', 'X-One ', '\tX', ' X', '', ':', 'X\x01', 'X\0', '{}', 'X@', '!', "X'", 'X*', 'X.Y', 'X~', '$'];

const GOOD_TAILS = ['', '/', '/a', '/a/b', '//b', '/./c', '/x/../d', '/%2E/', ';v=1', '/%41%7e', '/a%2fb', '/%c3%a9', '/a+b', "/!$&'()*,=:@", '/%25', '/...', '/.a'];
const tail = (random, odd) => (!odd || random.chance(0.5) ? random.of(GOOD_TAILS) + random.of(['', '', '?', '?a=b', '?a=/../b', '?%00']) : random.of(TAILS) + (random.chance(0.3) ? random.of(TAILS) : '') + random.of(QUERIES));

function authority(random, name, place, odd = true) {
  if (!odd || random.chance(0.8)) return random.chance(0.97) ? name : random.of([name.toUpperCase(), `${name}:443`, `${name}.`, `${name}:`]);
  return random.of([name.toUpperCase(), `${name}.`, `${name}:443`, `${name}:8443`, `${name}:`, `${name}:00443`, `${name}:0`, `${name}:65536`, `${name}:x`, `${name}:443.evil`, `u@${name}`, `u:p@${name}`, `${name}, evil`, `evil.${name}`, `${name}..`, `.${name}`,
    place.suffix, `*.${place.suffix}`, `x.${place.suffix}`, 'evil.example', '[::1]', '[::1]:443', `[${name}]`, '127.0.0.1', '', ' ', `${name} x`, `${name}/x`, `${name}?`, `${name}#`, `${name}\\`, `%63${name.slice(1)}`, '\xe9', `${name}\0`, `${name}:443:443`, 'a'.repeat(300), `${name}:${'9'.repeat(30)}`, '..', '.', '-']);
}

function target(random, name, mark, place, odd) {
  const path = `${random.weighed({ '/p/': 45, '/x/': 40, '/f/': 5, '/t/': 1, '/nowhere/': 4, '/': 2, '/P/': 1, '//p/': 1, '/./x/': 1, '/%70/': 1 })}${mark}${tail(random, odd)}`;
  if (!odd) return random.chance(0.97) ? path : `https://${name}${path}`;
  if (random.chance(0.75)) return path;
  const host = authority(random, name, place);
  return random.of([`https://${host}${path}`, `http://${host}${path}`, `HTTPS://${host}${path}`, `https://${host}`, `https://${host}?q`, `https://${host}#f`, `ftp://${host}${path}`, `//${host}${path}`, `https:/${path}`, `https:${path}`, `://${host}${path}`, `https://u:p@${host}${path}`,
    `${host}:443`, host, '*', '', path.slice(1), `?${path}`, `\\${path}`, `/${'a'.repeat(random.of([2000, 9000, 17000, 70000]))}`, `${path} `, ` ${path}`, `${path} x`, `${path}\t`, `${path}\x01`, `${path}\0`, `${path}\r`, `unix:/${path}`]);
}

function body(random) {
  const size = random.weighed({ 0: 20, 1: 20, 10: 20, 200: 20, 3000: 10, 9000: 5, 40000: 2 });
  const bytes = Buffer.alloc(Math.max(0, Number(size) - random.below(2))), some = Array.from({ length: 37 }, () => 'abc\r\n0 '.charCodeAt(random.below(7)));
  for (let i = 0; i < bytes.length; i++) bytes[i] = some[i % 37];
  return bytes;
}

function chunked(random, data, changed) {
  const parts = [], odd = changed && random.chance(0.5);
  for (let at = 0; at < data.length;) {
    const n = Math.min(data.length - at, 1 + random.below(random.chance(0.3) ? 8000 : 30));
    let size = n.toString(16);
    if (random.chance(0.1)) size = size.toUpperCase();
    if (random.chance(0.1)) size = `00${size}`;
    if (random.chance(0.1)) size += random.of([';a=b', ';a', ';a="b;c"', `;${'x'.repeat(50)}`, ' ;a', ';', '\t']);
    if (odd && random.chance(0.2)) size = random.of([`0x${size}`, `+${size}`, `-${size}`, ` ${size}`, '', 'g', `${size} `, 'ffffffffffffffff', '7fffffffffffffff', '8000000000000000', '10000000000000000', `${size}\0`, `${size}\r`, `${size};a\nb`, `${size};${'x'.repeat(9000)}`, `${size};\0`, '0', (n + 1).toString(16), Math.max(0, n - 1).toString(16)]);
    parts.push(latin1(size + (odd && random.chance(0.1) ? random.of(['\n', '\r', '\r\r\n', '', '\n\r', ' \r\n']) : '\r\n')), data.subarray(at, at + n),
      latin1(odd && random.chance(0.1) ? random.of(['\n', '', '\r', 'x\r\n', '\r\n\r\n', '\r\r\n']) : '\r\n'));
    at += n;
  }
  parts.push(latin1(odd && random.chance(0.2) ? random.of(['0', '00', '0;a=b', '', '0 ', '-0', '0\n']) : '0'), latin1('\r\n'));
  if (random.chance(0.15)) for (let i = random.below(3); i >= 0; i--) {
    parts.push(latin1(`${random.of(['X-Trailer: a', 'Content-Length: 5', 'Host: evil', 'Transfer-Encoding: chunked', 'X-Forwarded-For: 1.2.3.4', 'Connection: close', ...(odd ? [' folded', 'no colon', ': x', 'X: \0', `X: ${'a'.repeat(9000)}`, 'X: a\rb', 'GET / HTTP/1.1'] : [])])}\r\n`));
  }
  parts.push(latin1(odd && random.chance(0.1) ? random.of(['\n', '', '\r', '\r\r\n']) : '\r\n'));
  return Buffer.concat(parts);
}

// One request: {line, fields: [[name, separator, value, end]], body}.
function production(random, name, mark, place, odd) {
  const method = random.weighed(odd && random.chance(0.3) ? ODD_METHODS : METHODS);
  const version = !odd || random.chance(0.7) ? 'HTTP/1.1' : random.weighed({ 'HTTP/1.1': 5, 'HTTP/1.0': 7, '': 0.5, 'HTTP/0.9': 0.3, 'HTTP/1.2': 0.5, 'HTTP/2.0': 0.5, 'HTTP/1.': 0.3, 'HTTP/11': 0.3, 'HTTP/1.11': 0.3, 'HTTP/1.1111': 0.2, 'http/1.1': 0.3, 'HTTP/01.1': 0.2, 'HTTP/1.1 ': 0.3, 'HTTP/1.1x': 0.2, HTTPS: 0.1, 'HTTP/': 0.1, 'HTTP/1.00': 0.2, 'HTTP/3': 0.1 });
  const fields = [];
  const add = (key, value) => fields.push([key, ': ', value, '\r\n']);
  add('Host', authority(random, name, place, odd));
  for (let i = random.below(6); i > 0; i--) add(random.of(NAMES), random.of(VALUES));
  if (random.chance(0.2)) add(random.of(CLAIMS), random.of(['203.0.113.9', 'for=evil;host=evil', 'http', 'root', '', '/admin']));
  if (random.chance(0.05)) add(random.of(CLAIMS).replace(/-/g, '_'), '203.0.113.9');
  if (random.chance(0.15)) add(random.of(HOP), random.of(['trailers', 'websocket', 'h2c', 'timeout=5', '100-continue', '100-Continue', '', 'x', ...(odd ? ['200-ok'] : []), 'Basic YTpi']));
  if (random.chance(0.15)) add('Connection', Array.from({ length: random.of([1, 1, 1, 2, 3, ...(odd ? [40] : [])]) }, () => random.of(odd ? ODD_OPTIONS : OPTIONS)).join(random.of([',', ', ', ' , '])));
  if (random.chance(0.02)) { add('Connection', 'Upgrade'); add('Upgrade', random.of(['websocket', 'WebSocket', 'websocket, h2c', 'h2c'])); }
  if (random.chance(0.03)) add('Expect', '100-continue');
  if (random.chance(odd ? 0.05 : 0.003)) for (let i = random.of([50, 150, 600, 1500]); i > 0; i--) add(`X-N-${i}`, 'v'.repeat(random.below(100)));
  if (random.chance(odd ? 0.05 : 0.003)) add('X-Long', 'v'.repeat(random.of([1000, 7900, 8100, 15000, 17000, 66000])));
  const data = method === 'GET' || method === 'HEAD' ? (random.chance(0.1) ? body(random) : null) : random.chance(0.85) ? body(random) : null;
  let sent = Buffer.alloc(0);
  if (data && random.chance(0.45)) { add('Transfer-Encoding', random.chance(0.9) ? 'chunked' : 'Chunked'); sent = chunked(random, data, odd); } else if (data) { add('Content-Length', String(data.length)); sent = data; }
  return { method, gap: ' ', target: target(random, name, mark, place, odd), gap2: version ? ' ' : '', version, end: '\r\n', fields, last: '\r\n', sent };
}

// What is changed of a request before it is bytes: each is near to a rule.
const CHANGES = {
  odd_name: (random, r) => r.fields.splice(random.below(r.fields.length + 1), 0, [random.of(ODD_NAMES), ': ', random.of(VALUES), '\r\n']),
  framing: (random, r) => {
    const n = r.sent.length;
    for (let i = random.of([1, 1, 2]); i > 0; i--) {
      r.fields.splice(random.below(r.fields.length + 1), 0, random.of([['Content-Length', ': ', String(n), '\r\n'], ['Content-Length', ': ', String(Math.max(0, n - 1)), '\r\n'], ['Content-Length', ': ', '0', '\r\n'], ['Content-Length', ':', `${n},${n}`, '\r\n'], ['Content-Length', ': ', `+${n}`, '\r\n'],
        ['Content-Length', ': ', `0${n}`, '\r\n'], ['Content-Length', ': ', `0x${n.toString(16)}`, '\r\n'], ['Content-Length', ': ', `-${n}`, '\r\n'], ['Content-Length', ':\t', String(n), '\r\n'], ['Content-Length', ': ', `${n}\t`, '\r\n'], ['Content-Length', ': ', `${n} ${n}`, '\r\n'], ['Content-Length', ': ', '', '\r\n'],
        ['Content-Length', ': ', '9223372036854775807', '\r\n'], ['Content-Length', ': ', '9223372036854775808', '\r\n'], ['Content-Length', ': ', '18446744073709551616', '\r\n'], ['content-length', ': ', `${n}.0`, '\r\n'], ['Content-Length ', ': ', String(n), '\r\n'], ['Content_Length', ': ', String(n + 3), '\r\n'],
        ['Transfer-Encoding', ': ', 'chunked', '\r\n'], ['Transfer-Encoding', ':\t', 'chunked', '\r\n'], ['Transfer-Encoding', ': ', 'chunked ', '\r\n'], ['Transfer-Encoding', ': ', 'chunked\t', '\r\n'], ['Transfer-Encoding', ': ', 'identity', '\r\n'], ['Transfer-Encoding', ': ', 'gzip, chunked', '\r\n'], ['Transfer-Encoding', ': ', 'chunked, chunked', '\r\n'],
        ['Transfer-Encoding', ': ', 'chunked;a=b', '\r\n'], ['Transfer-Encoding', ': ', '"chunked"', '\r\n'], ['Transfer-Encoding', ': ', 'xchunked', '\r\n'], ['Transfer-Encoding', ': ', '', '\r\n'], ['Transfer-Encoding', ' : ', 'chunked', '\r\n'], ['Transfer-Encoding', ':\x0b', 'chunked', '\r\n'], ['Transfer-Encoding', ': ', '\0chunked', '\r\n'],
        ['Transfer_Encoding', ': ', 'chunked', '\r\n'], ['Transfer-Encoding', '', '', '\r\n'], ['Transfer-Encoding', ':\r\n ', 'chunked', '\r\n'], ['X', ': a\n', 'Transfer-Encoding: chunked', '\r\n'], ['X', ': a\r', 'Content-Length: 0', '\r\n'], ['Foo', ': b\r\n', `Content-Length: ${n}`, '\r\n']]));
    }
  },
  no_body: (random, r) => { r.sent = Buffer.alloc(0); },
  other_body: (random, r) => { r.sent = random.chance(0.5) ? chunked(random, body(random), true) : body(random); },
  no_framing: (random, r) => { r.fields = r.fields.filter(([name]) => !/^(content-length|transfer-encoding)$/i.test(name)); },
  host: (random, r, name, place) => r.fields.splice(random.below(r.fields.length + 1), 0, ['Host', ': ', authority(random, name, place), '\r\n']),
  no_host: (random, r) => { r.fields = r.fields.filter(([name]) => name !== 'Host'); },
  host_last: (random, r) => { if (r.fields.length) r.fields.push(r.fields.shift()); },
  fold: (random, r) => { const field = random.of(r.fields); if (field) field[2] += `\r\n${random.of([' ', '\t', '  '])}folded`; },
  end: (random, r) => { const field = random.of(r.fields); if (field) field[3] = random.of(['\n', '\r', '\r\r\n', '\n\r\n', '\0\r\n', ' \r\n', '\r\n\n', '', '\r \n', '\x0b\r\n', '\x85\r\n']); },
  separator: (random, r) => { const field = random.of(r.fields); if (field) field[1] = random.of([':', ' : ', ':\t', '', ';', '=', '::', ': \r\n ', ':\0', ': \0', ':  ', ':\x0c', '\t:']); },
  value: (random, r) => { const field = random.of(r.fields); if (field) field[2] = random.of([...VALUES, '\0', '\x01', '\x1b[31m', '\x7f', 'a\rb', 'a\nb', 'a\r\nb', 'a\r\nX-Smuggled: b', `a\r\n\r\nGET /x/smuggled HTTP/1.1\r\nHost: x\r\n\r\n`, '\x80', '\xa0']); },
  twice: (random, r) => { const field = random.of(r.fields); if (field) r.fields.push([...field]); },
  last: (random, r) => { r.last = random.of(['\n', '\r', '', '\r\r\n', '\n\r\n', ' \r\n', '\r\n\r\n', '\0\r\n', '\r\n ']); },
  first: (random, r) => { r[random.of(['gap', 'gap2'])] = random.of(['', '  ', '\t', ' \t', '\0', '\x0b', '\r', '\n', '%20', '+']); },
  first_end: (random, r) => { r.end = random.of(['\n', '\r', '\r\r\n', ' \r\n', '\r\n ', '\r\n\t', '\r\n\r\n', '\0\r\n', '\n\n', '\r\n\n', '']); },
  before: (random, r) => { r.before = random.of(['\r\n', '\n', '\r\n\r\n', '\r\r\r', ' ', '\0', '\n'.repeat(50), '\xef\xbb\xbf', '\x16\x03\x01', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n']); },
};

const serialise = (r) => Buffer.concat([latin1(`${r.before ?? ''}${r.method}${r.gap}${r.target}${r.gap2}${r.version}${r.end}${r.fields.map((field) => field.join('')).join('')}${r.last}`), r.sent]);

// What is changed of bytes, whatever they mean.
function scratch(random, bytes) {
  const out = Buffer.from(bytes), at = random.below(out.length), n = 1 + random.below(random.chance(0.2) ? 40 : 3);
  switch (random.below(6)) {
    case 0: out[at] ^= 1 << random.below(8); return out;
    case 1: out[at] = random.of([0, 9, 10, 13, 32, 58, 127, 128, 255, 47, 44, 59, 48]); return out;
    case 2: return Buffer.concat([out.subarray(0, at), out.subarray(Math.min(out.length, at + n))]);
    case 3: return Buffer.concat([out.subarray(0, at), latin1(random.of(['\r\n', '\n', '\r', '\0', ' ', ':', '\r\n\r\n', '\xff', 'a', '0', '%', '\t'])), out.subarray(at)]);
    case 4: return Buffer.concat([out.subarray(0, at), out.subarray(at, at + n), out.subarray(at, at + n), out.subarray(at + n)]);
    default: { const other = random.below(out.length); [out[at], out[other]] = [out[other], out[at]]; return out; }
  }
}

// {bytes, cuts, end}: cuts, where a write ends: [[offset, ms before the next one]]; end: wait | half | abort.
export function connection(random, name, mark, place) {
  const parts = [];
  const count = random.of([1, 2, 4, 6, 8, 12, 16, 24]);
  // most requests of a connection are as they should be, or none behind them would ever be read
  const oddness = random.chance(0.2) ? 0 : random.of([1, 1, 2]) / count;
  for (let i = 0; i < count; i++) {
    const r = production(random, name, `${mark}.${i}`, place, random.chance(oddness));
    if (random.chance(oddness)) for (let n = random.of([1, 1, 1, 2, 3]); n > 0; n--) CHANGES[random.of(Object.keys(CHANGES))](random, r, name, place);
    let bytes = serialise(r);
    if (bytes.length && random.chance(oddness / 4)) for (let n = random.of([1, 1, 2, 5]); n > 0 && bytes.length; n--) bytes = scratch(random, bytes);
    parts.push(bytes);
  }
  let bytes = Buffer.concat(parts), end = random.weighed({ wait: 88, half: 6, abort: 6 });
  if (end !== 'wait' && random.chance(0.6)) bytes = bytes.subarray(0, 1 + random.below(bytes.length));
  const cuts = [];
  if (random.chance(0.3)) for (let i = random.of([1, 2, 3, 5, 20]); i > 0; i--) cuts.push([random.below(bytes.length), random.chance(0.2) ? random.below(15) : 0]);
  cuts.sort((a, b) => a[0] - b[0]);
  return { bytes, cuts, end, count };
}
