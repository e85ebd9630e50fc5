// What an edge may make of the bytes of an HTTP/1 connection, said a second time and shared with nothing in services/edge
// (RFC 9112, services/edge/README.md): a list of requests, each with how it would arrive at an upstream, whether it has to, and whether what stands
// behind it may be a request, too. Where nginx takes more than RFC 9112 asks for, or less, it may do either: what it must not do is
// to see another request than this one.
import fs from 'node:fs';

export const MAX_LINE = 8000, MAX_HEAD = 30000, MAX_FIELDS = 500; // what is larger may be refused

const RESERVED = [...fs.readFileSync(new URL('../../proto/forwarded.def', import.meta.url), 'utf8').matchAll(/^FORWARDED\("([^"]+)"/gm)].map((row) => row[1]);
const WHOLE = new Set(RESERVED.filter((name) => !name.endsWith('*'))), BEGINNINGS = RESERVED.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
export const CLAIMS = RESERVED.map((name) => name.replace(/\*$/, 'any'));

// Names that an edge keeps from an upstream when they come from anybody but a trusted proxy.
export function isClaim(name) {
  const folded = name.toLowerCase().replace(/_/g, '-');
  return WHOLE.has(folded) || BEGINNINGS.some((one) => folded.startsWith(one));
}

// No client here says a valid traceparent: the edge begins a trace of its own, to which theirs is nothing.
export const isTrace = (name) => name === 'traceparent' || name === 'tracestate';

// Of the connection (RFC 9110 7.6.1), or nginx's to say: never passed on.
const HOP = new Set(['connection', 'proxy-connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'expect', 'http2-settings', 'host', 'content-length']);
const STAYS = new Set(['host', 'content-length', 'connection', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host']);
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

// ---- paths ----

const UNRESERVED = /[A-Za-z0-9._~-]/, LITERAL = /[A-Za-z0-9._~!$&'()*+,;=:@/-]/;

// RFC 3986 6.2.2, and what common/codec/path.h promises beside it. undefined: refused. Text is latin1, a character a byte.
export function normalPath(text) {
  if (!text.startsWith('/')) return undefined;
  let out = '';
  const bytes = [];
  for (let i = 0; i < text.length; i++) {
    let char = text[i], escaped = false;
    if (char === '%') {
      if (!/^[0-9a-fA-F]{2}$/.test(text.slice(i + 1, i + 3))) return undefined;
      char = String.fromCharCode(parseInt(text.slice(i + 1, i + 3), 16));
      escaped = true;
      i += 2;
    } else if ('#\\? '.includes(char)) return undefined;
    if (/[\0-\x1f\x7f]/.test(char)) return undefined;
    bytes.push(char.charCodeAt(0));
    out += (escaped ? UNRESERVED : LITERAL).test(char) ? char : `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
  }
  try { new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes)); } catch { return undefined; }
  const segments = [];
  const parts = out.split('/').slice(1);
  let slash = false;
  for (const part of parts) {
    if (part !== '.' && part !== '..' && hidesDots(part)) return undefined; // though a later .. may take it away
    slash = part === '' || part === '.' || part === '..';
    if (part === '..') { if (segments.pop() === undefined) return undefined; } else if (!slash) segments.push(part);
  }
  return `/${segments.join('/')}${slash && segments.length ? '/' : ''}`;
}

// A part before a parameter, or between escaped separators, that somebody else would read as . or ..
function hidesDots(segment) {
  return segment.split(/%2F|%5C/).some((part) => /^\.\.?$/.test(part.split(';')[0]));
}

// ---- hosts ----

// host[:port] -> {name, authority}; undefined: none that a request could mean.
export function splitAuthority(text) {
  const m = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,254})(?::([0-9]*))?$/.exec(text);
  if (!m || /\.\./.test(m[1])) return undefined;
  const port = m[2] ? Number(m[2]) : undefined;
  if (m[2] && (port < 1 || port > 65535)) return undefined;
  const name = m[1].toLowerCase().replace(/\.$/, '');
  return name === '' ? undefined : { name, authority: port ? `${name}:${port}` : name };
}

// ---- requests ----

const untab = (text) => text.replace(/^[ \t]+|[ \t]+$/g, '');

// A line from at: {text, next, strict}; undefined: its end is not there.
function line(bytes, at) {
  const end = bytes.indexOf(10, at);
  if (end < 0) return undefined;
  let stop = end;
  while (stop > at && bytes[stop - 1] === 13) stop--;
  return { text: bytes.toString('latin1', at, stop), crs: end - stop, next: end + 1 };
}

// {end, body, strict} | {more: true, body} | {bad: true, body}
function chunks(bytes, at) {
  const parts = [];
  let strict = true;
  const done = (how) => ({ ...how, body: Buffer.concat(parts), strict });
  for (;;) {
    const head = line(bytes, at);
    const text = head ? head.text : bytes.toString('latin1', at);
    const m = /^([0-9A-Fa-f]*)([ \t]*)(;[^\r]*)?/.exec(text);
    if (head ? !m[1] || !/^([ \t;]|$)/.test(text.slice(m[1].length)) : /^[^0-9A-Fa-f]/.test(text)) return done({ bad: true });
    if (!head) return done({ more: true });
    if (head.crs !== 1 || /[\0-\x1f\x7f\r]/.test(text.replace(/\t/g, '')) || m[2] || m[1].length > 8) strict = false;
    if (text.length > 1000) strict = false;
    if (/\r/.test(text)) return done({ bad: true, doubtful: true });
    const size = parseInt(m[1], 16);
    if (!Number.isSafeInteger(size)) return done({ bad: true });
    at = head.next;
    if (size === 0) break;
    parts.push(bytes.subarray(at, at + size));
    if (at + size >= bytes.length) return done({ more: true });
    at += size;
    const end = bytes.toString('latin1', at, at + 2);
    if (end === '\r') return done({ more: true });
    if (end[0] === '\n') { strict = false; at++; } else if (end === '\r\n') at += 2; else return done({ bad: true });
  }
  for (let n = 0; ; n++) { // trailers, which nobody looks at
    const one = line(bytes, at);
    if (!one) return done({ more: true });
    if (one.crs !== 1 || n > 20 || one.text.length > 1000 || (one.text && !/^[A-Za-z0-9-]+:[\t\x20-\x7e\x80-\xff]*$/.test(one.text))) strict = false;
    if (/\r/.test(one.text)) strict = false;
    at = one.next;
    if (one.text === '') return done({ end: at });
  }
}

// One request from at. {method, arrives: yes | maybe | no, after: on | maybe | end, complete, next, ...}
function request(bytes, at, place) {
  const first = line(bytes, at);
  const r = { at, arrives: 'yes', after: 'on', complete: true, fields: [], method: /^[A-Z_-]*/.exec(bytes.toString('latin1', at, at + 40))[0] };
  const end = (why) => Object.assign(r, { arrives: 'no', after: 'end', why, next: bytes.length });
  const maybe = (why) => { if (r.arrives === 'yes') { r.arrives = 'maybe'; r.why = why; } if (r.after === 'on') r.after = 'maybe'; };
  const page = (why) => { if (r.arrives !== 'no') { r.arrives = 'no'; r.why = why; } if (r.after === 'on') r.after = 'maybe'; };
  if (!first) return Object.assign(r, { arrives: 'no', after: 'end', complete: false, why: 'no end of its first line', next: bytes.length });

  const m = /^([A-Z_-]+)( +)([^ ]+)( +)HTTP\/(\d+)\.(\d+)( *)$/.exec(first.text);
  if (!m || /[\0\r]/.test(first.text) || first.crs > 1) return end('no request line');
  const [, method, s1, target, s2, major, minor, s3] = m;
  const version = Number(minor);
  if (major !== '1' || minor.length > 3) return end('another version');
  if (first.crs !== 1 || s1 !== ' ' || s2 !== ' ' || s3 !== '' || !/^[01]$/.test(minor)) maybe('an odd request line');
  if (first.text.length > MAX_LINE) maybe('a long line');
  r.method = method;
  r.version = version;
  if (method === 'TRACE') page(method);
  if (!METHODS.has(method)) maybe('a method of its own');

  // the head
  let pos = first.next, noColon = false;
  for (;;) {
    const one = line(bytes, pos);
    if (!one) {
      const rest = bytes.toString('latin1', pos);
      return Object.assign(r, { arrives: 'no', after: 'end', complete: false, why: 'no end of its head', next: bytes.length, doubtful: rest !== '' || r.fields.length > 0 });
    }
    pos = one.next;
    if (one.text === '') { if (one.crs > 1) return end('CR in a head'); if (one.crs === 0) maybe('LF alone'); break; }
    if (/[\0\r]/.test(one.text)) return end('NUL or CR in a field');
    if (one.crs !== 1) maybe('an odd end of a line');
    if (one.text.length > MAX_LINE) maybe('a long line');
    const colon = one.text.indexOf(':'), name = colon < 0 ? one.text : one.text.slice(0, colon);
    if (colon < 0) { maybe('no colon'); noColon = true; }
    if (name === '' || /[\0-\x20\x7f]/.test(name)) return end('no name of a field');
    const value = colon < 0 ? '' : one.text.slice(colon + 1);
    r.fields.push({ name: name.toLowerCase(), value: untab(value), taken: /^[A-Za-z0-9-]+$/.test(name), tab: /^ *\t|\t *$/.test(value), raw: value });
  }
  if (method === 'CONNECT') return end(method);
  if (pos - at > MAX_HEAD || r.fields.length > MAX_FIELDS) maybe('a large head');
  const taken = r.fields.filter((field) => field.taken), all = (name) => taken.filter((field) => field.name === name);
  if (r.fields.some((field) => /[\0-\x08\x0a-\x1f\x7f]/.test(field.value))) {
    // in a field that nginx takes no notice of it does no harm
    if (taken.some((field) => /[\0-\x08\x0a-\x1f\x7f]/.test(field.value))) page('a control character'); else maybe('a control character where nobody looks');
  }

  if (['authorization', 'if-modified-since', 'if-unmodified-since', 'if-match', 'if-none-match', 'if-range', 'range', 'content-range', 'expect'].some((name) => all(name).length > 1)) {
    maybe('twice what there is one of'); // nginx refuses it
    r.after = 'maybe';
  }

  // where it ends
  const lengths = all('content-length'), codings = all('transfer-encoding');
  if (lengths.length > 1 || codings.length > 1) return end('twice a length or coding');
  if (lengths.length && codings.length) return end('length and coding');
  let size = 0;
  if (lengths.length) {
    const text = lengths[0].value;
    if (!/^[0-9]+$/.test(text) || BigInt(text) > 9223372036854775807n) return end('a length that is none');
    if (lengths[0].tab) maybe('a tab before a length');
    size = Number(text);
  }
  if (codings.length) {
    if (codings[0].value.toLowerCase() !== 'chunked' || version === 0) return end('a coding that is not chunked');
    if (codings[0].tab) maybe('a tab before a coding');
  }
  if (codings.length) {
    const got = chunks(bytes, pos);
    Object.assign(r, { body: got.body, chunked: true });
    if (!got.strict) maybe('odd chunks');
    if (got.end === undefined) {
      // it is refused, or ends at the upstream as it ended here: before its end
      Object.assign(r, { after: 'end', partial: true, complete: Boolean(got.bad && !got.doubtful), doubtful: true, next: bytes.length });
      maybe('no end of its chunks');
      r.arrives = r.arrives === 'no' ? 'no' : 'maybe';
    } else r.next = got.end;
  } else {
    r.body = bytes.subarray(pos, pos + size);
    r.next = Math.min(bytes.length, pos + size);
    if (r.body.length < size) {
      Object.assign(r, { after: 'end', partial: true, complete: false, doubtful: true });
      maybe('no end of its body');
    }
  }

  // to whom
  const hosts = all('host');
  let host;
  if (hosts.length > 1) return end('two hosts');
  if (hosts.length === 0 && version > 0) return end('no host');
  if (hosts.length) {
    host = splitAuthority(hosts[0].value);
    if (!host) page('no host that is one');
    if (hosts[0].tab) maybe('a tab before a host');
  }
  let path = target;
  if (!target.startsWith('/')) {
    const abs = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?#]*)(.*)$/.exec(target);
    if (!abs) return end('a target that is none');
    if (!/^https?$/i.test(abs[1])) page('another scheme');
    if (host || hosts.length === 0) host = splitAuthority(abs[2]); // HTTP/1.0 needs no Host
    if (!host) page('no authority');
    path = abs[3].startsWith('/') ? abs[3] : `/${abs[3]}`;
    if (/^#/.test(abs[3])) page('a fragment');
  }
  if (!host) { page('no host'); host = { name: '', authority: '' }; }
  if (!place.isOurs(host.name)) page('a host of nobody');
  else if (host.name !== place.name) maybe('another host of this edge');
  if (/[\0-\x1f\x7f]/.test(target)) return end('a control character in the target');

  const mark = path.indexOf('?'), query = mark < 0 ? '' : path.slice(mark);
  const normal = normalPath(mark < 0 ? path : path.slice(0, mark));
  if (normal === undefined || /[#\0]/.test(query)) page('a path that is refused');
  r.host = host.authority;
  r.url = normal === undefined ? undefined : normal + query;
  r.route = normal === undefined ? undefined : place.routeOf(normal);
  if (!r.route) page('no route');
  r.key = `${r.method} ${r.host} ${r.url}`;

  // what ends with the connection
  const options = all('connection').flatMap((field) => field.value.split(',').map((one) => untab(one).toLowerCase())).filter((one) => one);
  if (options.filter((one) => one !== 'close' && one !== 'keep-alive' && one !== 'upgrade').length > 32) page('many options');
  const says = all('connection').map((field) => field.value.toLowerCase()).join(',');
  if (options.includes('close') || (version === 0 && !options.includes('keep-alive'))) r.closes = true;
  if (r.closes && options.includes('keep-alive')) { if (r.after === 'on') r.after = 'maybe'; } else if (r.closes) r.after = r.after === 'on' ? 'end' : r.after;
  else if (/close/.test(says) && r.after === 'on') r.after = 'maybe';
  const upgrades = all('upgrade');
  r.websocket = method === 'GET' && version === 1 && options.includes('upgrade') && upgrades.length > 0 && /^websocket$/i.test(upgrades[0].value);
  const gone = (field) => isTrace(field.name) || HOP.has(field.name) || isClaim(field.name) || (options.includes(field.name) && !STAYS.has(field.name));
  r.passed = taken.filter((field) => !gone(field));
  r.expects = all('expect').length > 0;
  if (all('expect').some((field) => field.value.toLowerCase() !== '100-continue')) maybe('another expectation');
  return r;
}

// -> {requests, tail}: tail, bytes behind the last one that are no whole request yet.
export function requests(bytes, place) {
  const list = [];
  let at = 0, sure = 'on';
  while (sure !== 'end') {
    let blank = 0;
    while (at < bytes.length && (bytes[at] === 13 || bytes[at] === 10)) { at++; blank++; }
    if (at >= bytes.length) return { requests: list, tail: blank > 0 };
    const one = request(bytes, at, place);
    if (sure === 'maybe') { one.reached = 'maybe'; if (one.arrives === 'yes') one.arrives = 'maybe'; }
    if (blank > 2 && one.arrives === 'yes') one.arrives = 'maybe';
    list.push(one);
    if (one.after === 'end') return { requests: list, tail: !one.complete };
    if (one.after === 'maybe') sure = 'maybe';
    at = one.next;
  }
  return { requests: list, tail: false };
}
