// Grammar of TLS hellos, and of what is none (RFC 8446 4.1.2, RFC 6066 3).
import net from 'node:net';
import { edge } from '../support/postern.mjs';

const u8 = (n) => Buffer.from([n & 255]), u16 = (n) => Buffer.from([(n >> 8) & 255, n & 255]), u24 = (n) => Buffer.from([(n >> 16) & 255, (n >> 8) & 255, n & 255]);
const sized = (bytes) => Buffer.concat([u16(bytes.length), bytes]);
const noise = (random, n) => Buffer.from(Array.from({ length: n }, () => random.below(256)));
const extension = (type, bytes) => Buffer.concat([u16(type), sized(bytes)]);
const named = (text, type = 0) => Buffer.concat([u8(type), sized(Buffer.from(text, 'latin1'))]);

function serverName(random, name) {
  return random.of([
    () => extension(0, sized(named(name))), () => extension(0, sized(named(name))), () => extension(0, sized(named(name))),
    () => Buffer.alloc(0),
    () => extension(0, sized(named(random.of(['', '.', '..', 'nobody.example', 'a'.repeat(255), 'a'.repeat(256), 'a'.repeat(16000), `${name}\0`, `\0${name}`, `${name}.`, name.toUpperCase(), '127.0.0.1', '[::1]', `*.${name}`, `.${name}`, ' ', '\xff', `${name}:443`]), random.of([0, 0, 0, 1, 255])))),
    () => extension(0, Buffer.concat([sized(named(name)), noise(random, 1 + random.below(5))])),
    () => extension(0, Buffer.concat([u16(random.of([0, 1, 500, 65535])), named(name)])),
    () => extension(0, sized(Buffer.concat([named(name), named('nobody.example')]))),
    () => extension(0, sized(Buffer.concat([u8(0), u16(random.of([0, 65535])), Buffer.from(name)]))),
    () => Buffer.concat([extension(0, sized(named(name))), extension(0, sized(named(name)))]),
    () => extension(0, noise(random, random.below(8))),
  ])();
}

function hello(random, name) {
  const suites = sized(Buffer.concat(random.of([[0x1301, 0xc02b, 0xc02f], [0x1301], [0xc02f], [0x000a], [0x5600, 0xc02f], [], [0x00ff], Array.from({ length: 200 }, () => random.below(65536))]).map(u16)));
  const versions = random.of([[0x0304], [0x0304, 0x0303], [0x0303], [0x0302], [0x0305], [0x7a7a, 0x0304], []]);
  const protocols = random.of([['h2'], ['http/1.1'], ['h2', 'http/1.1'], [''], ['x'], ['h'.repeat(255)], undefined]);
  const extensions = [
    serverName(random, name), extension(10, sized(Buffer.concat(random.of([[29], [29, 23], [0], [0x7a7a, 29]]).map(u16)))), extension(11, Buffer.from([1, 0])),
    extension(13, sized(Buffer.concat(random.of([[0x0403, 0x0804, 0x0401], [0x0101], []]).map(u16)))), extension(43, Buffer.concat([u8(2 * versions.length), ...versions.map(u16)])),
    extension(51, sized(random.of([Buffer.concat([u16(29), sized(noise(random, 32))]), Buffer.concat([u16(29), sized(Buffer.alloc(32))]), Buffer.alloc(0), Buffer.concat([u16(23), sized(noise(random, 65))])]))),
    extension(45, Buffer.from([1, 1])), ...(protocols ? [extension(16, sized(Buffer.concat(protocols.map((text) => Buffer.concat([u8(text.length), Buffer.from(text)])))))] : []),
  ];
  if (random.chance(0.2)) extensions.push(extension(random.of([5, 18, 21, 22, 23, 35, 42, 44, 49, 65281, random.below(65536)]), noise(random, random.of([0, 1, 5, 100, 1000]))));
  if (random.chance(0.1)) extensions.push(extension(41, noise(random, 60))); // a key that nobody gave
  if (random.chance(0.2)) extensions.splice(random.below(extensions.length), 1);
  if (random.chance(0.1)) extensions.push(random.of(extensions));
  const all = Buffer.concat(extensions), body = Buffer.concat([u16(random.of([0x0303, 0x0303, 0x0303, 0x0301, 0x0300, 0x0002, 0x0304, 0xffff])), noise(random, 32), u8(random.of([0, 32])), suites, Buffer.from([1, 0]), random.chance(0.9) ? sized(all) : Buffer.concat([u16(random.below(65536)), all])]);
  const message = Buffer.concat([u8(random.chance(0.95) ? 1 : random.below(256)), u24(random.chance(0.92) ? body.length : random.below(1 << 24)), body]);
  const record = (part) => Buffer.concat([u8(random.chance(0.97) ? 22 : random.of([20, 21, 23, 24, 0x80])), u16(random.of([0x0301, 0x0301, 0x0303, 0x0300, 0x0304, 0x0200])), random.chance(0.95) ? sized(part) : Buffer.concat([u16(random.below(65536)), part])]);
  const parts = [];
  for (let at = 0; at < message.length;) { const part = message.subarray(at, at + (random.chance(0.8) ? 16000 : 1 + random.below(200))); at += part.length; parts.push(record(part)); }
  return Buffer.concat(parts);
}

export function connection(random, name) {
  let bytes = random.weighed({ hello: 80, noise: 8, ssl2: 4, plain: 8 });
  if (bytes === 'hello') bytes = hello(random, name);
  else if (bytes === 'noise') bytes = noise(random, 1 + random.below(random.of([10, 300, 20000])));
  else if (bytes === 'ssl2') bytes = Buffer.concat([Buffer.from([0x80, random.below(256), 1, 3, 1]), noise(random, random.below(100))]);
  else bytes = Buffer.from(random.of([`GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`, `POST /x HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 5\r\n\r\nhello`, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'GET /\r\n', `GET / HTTP/1.0\r\n\r\n`, 'CONNECT a:443 HTTP/1.1\r\n\r\n', 'SSH-2.0-x\r\n', '\r\n\r\n', 'PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n\x16\x03\x01']), 'latin1');
  if (random.chance(0.25)) bytes[random.below(bytes.length)] ^= 1 << random.below(8);
  if (random.chance(0.15)) bytes = bytes.subarray(0, 1 + random.below(bytes.length));
  if (random.chance(0.05)) bytes = Buffer.concat([bytes, noise(random, random.below(500))]);
  const cuts = random.chance(0.3) ? Array.from({ length: random.of([1, 2, 10]) }, () => [random.below(bytes.length), 0]).sort((a, b) => a[0] - b[0]) : [];
  return { kind: 'hello', bytes, cuts, end: random.of(['quiet', 'quiet', 'half', 'abort']), count: 1 };
}

// Sends; resolves when nothing more comes.
export function send({ bytes, cuts, end }) {
  return new Promise((resolve) => {
    const result = { bytes: 0 }, socket = net.connect({ host: edge.host, port: edge.port, noDelay: true });
    let quiet, over = false;
    const finish = () => { if (over) return; over = true; clearTimeout(quiet); socket.destroy(); resolve(result); };
    socket.on('data', (part) => { result.first ??= part; result.bytes += part.length; }).on('error', (error) => { result.error = error.code; }).on('close', finish);
    socket.on('connect', async () => {
      result.connected = true;
      let at = 0;
      for (const [to] of cuts) { if (to > at && !over) socket.write(bytes.subarray(at, to)); at = Math.max(at, to); await new Promise(setImmediate); if (over) return; }
      if (end === 'half') socket.end(bytes.subarray(at)); else socket.write(bytes.subarray(at), () => { if (end === 'abort') finish(); });
      quiet = setTimeout(finish, 40);
    });
  });
}
