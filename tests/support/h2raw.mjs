// HTTP/2 frames as they are, for requests that no client library would send (RFC 9113, RFC 7541).
import tls from 'node:tls';
import { ca, edge } from './postern.mjs';

export const DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8, CONTINUATION = 9;
export const ACK = 1, END_STREAM = 1, END_HEADERS = 4, PADDED = 8;

export function frame(type, flags, stream, payload = Buffer.alloc(0)) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

const text = (value) => {
  const bytes = Buffer.from(value, 'latin1');
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const rest = [127];
  let n = bytes.length - 127;
  for (; n >= 128; n = Math.floor(n / 128)) rest.push((n % 128) | 128);
  return Buffer.concat([Buffer.from([...rest, n]), bytes]);
};

// Literals without indexing and without Huffman: bytes go as they are.
export const headers = (pairs) => Buffer.concat(pairs.map(([name, value]) => Buffer.concat([Buffer.from([0]), text(name), text(value)])));

// Sends the frames on a new connection, which ends when until(what it has got, socket) says so, or after `wait` ms. -> {status by stream, reset by stream, goaway: its code, last: its stream, lasts: those of all, acked: how many PING and SETTINGS, closed: by the edge}
export function exchange(servername, frames, { until, wait = until ? 60000 : 1500 } = {}) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername, ca, ALPNProtocols: ['h2'] });
    const got = { status: {}, reset: {}, goaway: undefined, lasts: [], acked: 0, bytes: 0 };
    let rest = Buffer.alloc(0);
    let ended = false;
    const end = () => { ended = true; clearTimeout(timer); socket.destroy(); resolve(got); };
    const endedByEdge = () => { if (!ended) got.closed = true; end(); };
    const timer = setTimeout(end, wait);
    socket.on('secureConnect', () => {
      got.connected = true;
      socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0)]));
      for (const one of frames) socket.write(one);
    });
    socket.on('data', (part) => {
      got.bytes += part.length;
      rest = Buffer.concat([rest, part]);
      while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
        const len = rest.readUIntBE(0, 3), type = rest[3], flags = rest[4], stream = rest.readUInt32BE(5), payload = rest.subarray(9, 9 + len);
        rest = rest.subarray(9 + len);
        if (type === HEADERS) got.status[stream] = statusOf(payload);
        if (type === RST_STREAM) got.reset[stream] = payload.readUInt32BE(0);
        if ((type === PING || type === SETTINGS) && flags & ACK) got.acked++;
        if (type === GOAWAY) { got.lasts.push(payload.readUInt32BE(0)); got.last ??= got.lasts[0]; got.goaway = payload.readUInt32BE(4); }
      }
      if (until?.(got, socket)) end();
    });
    socket.on('error', (error) => (got.connected ? endedByEdge() : reject(error))); // a flood may be cut off before any answer, or while this writes on: a reset
    socket.on('close', endedByEdge);
  });
}

// What a socket gets of its first answer: {status}.
export function answerOf(socket) {
  const got = {};
  let rest = Buffer.alloc(0);
  socket.on('data', (part) => {
    rest = Buffer.concat([rest, part]);
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const len = rest.readUIntBE(0, 3);
      if (rest[3] === HEADERS) got.status ??= statusOf(rest.subarray(9, 9 + len));
      rest = rest.subarray(9 + len);
    }
  });
  return got;
}

// The edge's first header is :status, indexed or a literal with the name indexed.
export function statusOf(block) {
  while ((block[0] & 0xe0) === 0x20) block = block.subarray(1); // a new size of the table
  const known = { 8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500 };
  if (block[0] & 0x80) return known[block[0] & 0x7f];
  const len = block[1] & 0x7f;
  return block[1] & 0x80 ? huffmanDigits(block.subarray(2, 2 + len)) : Number(block.subarray(2, 2 + len).toString());
}

// RFC 7541 appendix B has 5-bit codes for 0, 1 and 2 and 6-bit codes for the other digits.
function huffmanDigits(bytes) {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  let at = 0, out = '';
  while (out.length < 3) {
    const five = parseInt(bits.slice(at, at + 5), 2);
    if (five <= 2) { out += five; at += 5; } else { out += parseInt(bits.slice(at, at + 6), 2) - 0x19 + 3; at += 6; }
  }
  return Number(out);
}
