// A peer of the bus, with any key of the running system, that says what a story tells it to (peer.c).
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { home, until } from './postern.mjs';

let program;
function built() {
  if (!program) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-peer-'));
    program = path.join(dir, 'peer');
    execFileSync('cc', ['-D_GNU_SOURCE', '-O1', fileURLToPath(new URL('peer.c', import.meta.url)), '-o', program, '-lczmq', '-lzmq'], { stdio: 'inherit' });
    process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));
  }
  return program;
}

export const edgeKey = () => fs.readdirSync(path.join(home, 'keys')).find((name) => name.startsWith('edge@'));

// msgpack of what has numbers, strings, buffers, booleans, null, lists and maps of them.
export function pack(value) {
  const head = (code, length) => { const out = Buffer.alloc(5); out[0] = code; out.writeUInt32BE(length, 1); return out; };
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === 'boolean') return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === 'number' || typeof value === 'bigint') { const out = Buffer.alloc(9); out[0] = 0xd3; out.writeBigInt64BE(BigInt(value), 1); return out; }
  if (typeof value === 'string') return Buffer.concat([head(0xdb, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(0xc6, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([head(0xdd, value.length), ...value.map(pack)]);
  return Buffer.concat([head(0xdf, Object.keys(value).length), ...Object.entries(value).flatMap(([key, one]) => [pack(key), pack(one)])]);
}

const file = (name, which) => path.join(home, 'keys', name, which);

// What pack made, or the bus; integers as numbers.
export function unpack(bytes) {
  let at = 0;
  const skip = (n) => { at += n; return at - n; };
  const text = (n) => bytes.toString('utf8', skip(n), at), raw = (n) => bytes.subarray(skip(n), at);
  const list = (n) => Array.from({ length: n }, value), map = (n) => Object.fromEntries(Array.from({ length: n }, () => [value(), value()]));
  const by = { 0xc0: () => null, 0xc2: () => false, 0xc3: () => true,
    0xc4: () => raw(bytes.readUInt8(skip(1))), 0xc5: () => raw(bytes.readUInt16BE(skip(2))), 0xc6: () => raw(bytes.readUInt32BE(skip(4))),
    0xcb: () => bytes.readDoubleBE(skip(8)), 0xcc: () => bytes.readUInt8(skip(1)), 0xcd: () => bytes.readUInt16BE(skip(2)), 0xce: () => bytes.readUInt32BE(skip(4)), 0xcf: () => Number(bytes.readBigUInt64BE(skip(8))),
    0xd0: () => bytes.readInt8(skip(1)), 0xd1: () => bytes.readInt16BE(skip(2)), 0xd2: () => bytes.readInt32BE(skip(4)), 0xd3: () => Number(bytes.readBigInt64BE(skip(8))),
    0xd9: () => text(bytes.readUInt8(skip(1))), 0xda: () => text(bytes.readUInt16BE(skip(2))), 0xdb: () => text(bytes.readUInt32BE(skip(4))),
    0xdc: () => list(bytes.readUInt16BE(skip(2))), 0xdd: () => list(bytes.readUInt32BE(skip(4))), 0xde: () => map(bytes.readUInt16BE(skip(2))), 0xdf: () => map(bytes.readUInt32BE(skip(4))) };
  function value() {
    const code = bytes.readUInt8(skip(1));
    if (code < 0x80) return code;
    if (code >= 0xe0) return code - 256;
    if (code < 0x90) return map(code & 15);
    if (code < 0xa0) return list(code & 15);
    return code < 0xc0 ? text(code & 31) : by[code]();
  }
  return value();
}

// {got: messages as lists of buffers, send(...frames), stop()}; server: the service that owns the socket; name: ZeroMQ identity.
export const peer = (key, server, endpoint, ...name) => begin(file(key, 'self.cert_secret'), file(server, 'self.cert'), endpoint, ...name);
// The same in the place of a service (ROUTER): the first frame of each message is the connection's identity.
export const service = (key, endpoint) => begin(file(key, 'self.cert_secret'), '-', endpoint);

function begin(...args) {
  const child = spawn(built(), args, { stdio: ['pipe', 'pipe', 'inherit'] });
  process.on('exit', () => child.kill());
  child.stdin.on('error', () => {}); // it was stopped
  const got = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (part) => {
    const all = (rest + part).split('\n');
    rest = all.pop();
    for (const line of all) got.push(line.split(' ').map((hex) => (hex === '-' ? Buffer.alloc(0) : Buffer.from(hex, 'hex'))));
  });
  const send = (...frames) => child.stdin.write(`${frames.map((frame) => Buffer.from(frame).toString('hex') || '-').join(' ')}\n`);
  return { got, send, stop: () => child.kill('SIGKILL') };
}

// A peer that sends requests: ask(verb, body, {account, left, id, also}) sends one, with the frames of also behind it, and returns its
// id; answer(id) resolves to {code, body, edges: {acked, live} of a change, ...}.
export function caller(key, server, endpoint) {
  const one = peer(key, server, endpoint), mark = `story-${process.pid}-${Math.random().toString(36).slice(2)}`;
  let count = 0;
  one.ask = (verb, body, { account = '', left = 60000, id = `${mark}-${count++}`, also = [] } = {}) => {
    one.send(verb, pack({ v: 1, id, key: id, account, left, clock: 0, deadline: Date.now() + left, actor: null }), pack(body), ...also);
    return id;
  };
  one.answer = (id) => {
    const frames = one.got.find(([first]) => String(first) === id);
    return frames && { ...unpack(frames[1]), body: unpack(frames[2]), edges: { acked: Number(frames[3]), live: Number(frames[4]) } };
  };
  // Until there is an answer: of a service that has just been started, which may take a minute; what was asked before counts from when it was sent.
  one.there = (verb = 'session.check') => until(async () => { const id = one.ask(verb, {}); await until(() => one.answer(id), 'an answer', 90000); return one.answer(id).code !== 503; }, 'the service answers', 240000);
  return one;
}
