// What a request is charged of POSTERN_REQUEST_MEMORY is what its head and its body take of a worker (services/edge/http/edge_head_memory.h,
// edge_body_memory.h): a machine is sized by that setting. Heads that nginx and the edge copy most often, and bodies that fill their buffers, on their
// way to an upstream that says nothing, in a worker of their own.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import tls from 'node:tls';
import { DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, frame } from '../support/h2raw.mjs';
import { own } from '../support/own.mjs';
import { children } from '../support/processes.mjs';
import { edge, elsewhere, env, tcpUpstream, unique, until } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, status = port - 28, WAIT = 120000, STREAMS = 100;

const literal = (name, value, how = 0) => { // RFC 7541 6.2; 0x40: it is the newest entry of the table from then on
  const bytes = Buffer.from(value), rest = bytes.length - 127;
  const length = rest < 0 ? [bytes.length] : rest < 128 ? [127, rest] : [127, (rest % 128) | 128, rest >> 7];
  return Buffer.concat([Buffer.from([how, name.length]), Buffer.from(name), Buffer.from(length), bytes]);
};
const GET = Buffer.from([0x82, 0x87]), POST = Buffer.from([0x83, 0x87]), NEWEST = 0x80 | 62;
// Heads of the connection: the first one has the field that all have, 3,900 bytes that are sent once; `times` of it each.
const fields = (name, times, more = Buffer.alloc(0), method = GET) => (host, first) => Buffer.concat([method, literal(':path', '/'), literal(':authority', host), more,
  first ? literal(name, 'v'.repeat(3900), 0x40) : Buffer.from([NEWEST]), Buffer.alloc(times - 1, NEWEST)]);
const hidden = (host, first) => Buffer.concat([GET, literal(':path', '/'), literal(':authority', host), first ? literal('x-forwarded-for', '1', 0x40) : Buffer.from([NEWEST]), Buffer.alloc(900, NEWEST)]);
const post = (more) => (host) => Buffer.concat([POST, literal(':path', '/'), literal(':authority', host), more]);
const path = (value) => (host, first) => Buffer.concat([GET, first ? literal(':path', value, 0x40) : Buffer.from([NEWEST]), literal(':authority', host)]);

// least, most: bytes that each is charged; BODY of a body that is in no head, and the pages of its buffer.
const BODY = 60000, REQUEST = 20 << 10, PAGE = 4096, LENGTH = literal('content-length', '1000000');
const KINDS = [
  { what: 'bodies of HTTP/2', head: post(LENGTH), flags: END_HEADERS, body: [BODY], least: REQUEST + BODY },
  { what: 'bodies of HTTP/2 whose length nobody has said', head: post(Buffer.alloc(0)), flags: END_HEADERS, body: [BODY], least: REQUEST + BODY },
  { what: 'the same that have ended, with less', head: post(Buffer.alloc(0)), flags: END_HEADERS, body: [1000, END_STREAM], most: REQUEST + 3 * PAGE },
  { what: 'short bodies of HTTP/2', head: post(literal('content-length', '1000')), flags: END_HEADERS, body: [1000, END_STREAM], most: REQUEST + 3 * PAGE },
  { what: 'fields that do not go upstream', head: hidden },
  { what: 'cookies of which one does not go upstream', head: fields('cookie', 16, literal('cookie', `__Host-xsession=${'a'.repeat(43)}`)) },
  { what: 'large fields', head: fields('x-f', 16) },
  { what: 'cookies in pieces', head: fields('cookie', 16) },
  { what: 'fields that nginx leaves out', head: fields('x_f', 16) },
  { what: 'a path with escapes', head: path(`/${'%41'.repeat(1250)}`) },
  { what: 'a path that is to be escaped', head: path(`/${'é'.repeat(1900)}`) },
  { what: 'a query', head: path(`/?${'%41'.repeat(1250)}`) },
  { what: 'calls of gRPC', head: fields('x-f', 16, Buffer.concat([literal('content-type', 'application/grpc'), literal('te', 'trailers')]), POST), flags: END_HEADERS },
  { what: 'HTTP/1.1', text: (host) => `GET / HTTP/1.1\r\nHost: ${host}\r\n${`X-F: ${'v'.repeat(15000)}\r\n`.repeat(4)}\r\n` },
];

test('a request is charged what its head and its body take', { skip, timeout: 900000 }, async (t) => {
  await own(async ({ state, run }) => {
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_CLIENT_PORTION: '10000', POSTERN_ACCOUNT_PORTION: '10000', POSTERN_CLIENT_HEADER_TIMEOUT: '5m', POSTERN_CLIENT_BODY_TIMEOUT: '30m' } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const ca = fs.readFileSync(vars.POSTERN_EDGE_CA), host = unique('head-memory'), asked = new Set();
    // of each request at the upstream: its head until that is whole, and how many bytes of its body have come
    const backend = await tcpUpstream((socket) => {
      const one = { head: Buffer.alloc(0), body: 0 };
      asked.add(one);
      socket.on('close', () => asked.delete(one)).on('data', (part) => {
        if (one.head === null) { one.body += part.length; return; }
        one.head = Buffer.concat([one.head, part]);
        const end = one.head.indexOf('\r\n\r\n');
        if (end !== -1) { one.body = one.head.length - end - 4; one.head = null; }
      });
    });
    const call = async (target, body) => {
      const got = await fetch(vars.POSTERN_API_URL + target, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${target}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const { id } = await call('/backends/static', { address: backend.address }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: id } });

    const charged = async () => Number(/^postern_edge_request_memory_bytes\{worker="0"\} (\d+)/m.exec(await fetch(`http://127.0.0.1:${status}/metrics`).then((got) => got.text()))[1]);
    const read = (file) => { try { return fs.readFileSync(file, 'utf8'); } catch { return ''; } };
    const worker = () => children(Number(read(`${vars.POSTERN_RUN_DIR}/edge.pid`))).find((pid) => /^nginx: worker process/.test(read(`/proc/${pid}/cmdline`)));
    const resident = (pid) => Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;
    const connect = (http2) => new Promise((resolve, reject) => {
      const socket = tls.connect({ host: edge.host, port, servername: host, ca, ALPNProtocols: [http2 ? 'h2' : 'http/1.1'] }, () => {
        if (http2) socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0), frame(SETTINGS, 1, 0)]));
        resolve(socket.resume());
      });
      socket.on('error', reject);
    });
    // Heads of one kind to a worker that has had none yet: {grown, taken} in bytes.
    const measure = async ({ head, text, flags = END_HEADERS | END_STREAM, body: [bytes, end = 0] = [0] }) => {
      const before = worker(), sockets = [];
      process.kill(before, 'SIGKILL');
      await until(() => ![undefined, before].includes(worker()), 'another worker', WAIT);
      await until(async () => (await charged()) === 0, 'which has nothing yet', WAIT);
      try {
        const count = head ? 3 * STREAMS : STREAMS;
        for (let i = 0; i < count / (head ? STREAMS : 1); i++) sockets.push(await until(() => connect(Boolean(head)), 'a connection', WAIT));
        const pid = worker(), start = resident(pid), frames = [];
        for (let left = bytes; left > 0; left -= 15000) frames.push([left > 15000 ? 0 : end, Buffer.alloc(Math.min(left, 15000), 'z')]);
        for (const socket of sockets) {
          socket.on('error', () => {});
          if (text) socket.write(text(host));
          else for (let i = 0; i < STREAMS; i++) socket.write(Buffer.concat([frame(HEADERS, flags, 1 + 2 * i, head(host, i === 0)), ...frames.map(([last, part]) => frame(DATA, last, 1 + 2 * i, part))]));
        }
        await until(() => asked.size === count && [...asked].every(({ body }) => body >= bytes), 'all of them at the upstream', WAIT);
        return { grown: resident(pid) - start, taken: await charged(), count };
      } finally {
        for (const socket of sockets) socket.destroy();
        await until(() => asked.size === 0, 'all of them gone', WAIT);
      }
    };
    const sanitized = /libasan/.test(read(`/proc/${worker()}/maps`)); // which puts something around each piece of memory
    for (const kind of KINDS) {
      await t.test(kind.what, { skip: sanitized && kind.text ? 'AddressSanitizer keeps what TLS has given back for each record' : false }, async () => {
        const { grown, taken, count } = await measure(kind), { least = 0, most = Infinity } = kind;
        assert.ok(taken >= least * count && taken <= most * count, `${taken} bytes for ${count}`);
        if (sanitized && kind.body) return; // as above: its records
        assert.ok(grown < taken * (sanitized ? 1.5 : 1.25), `${grown} bytes for ${taken}`);
      });
    }
    await backend.close();
  });
});
