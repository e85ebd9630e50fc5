// What came: bodies without their coding, and what a WebSocket to TCP carried.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';

// Debian's node knows no zstd yet.
let unzstd;
function zstd(body) {
  if (!unzstd) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-model-'));
    unzstd = `${folder}/unzstd`;
    execFileSync('cc', ['-O1', fileURLToPath(new URL('../support/unzstd.c', import.meta.url)), '-o', unzstd, '-lzstd']);
    process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
  }
  const { status, stdout } = spawnSync(unzstd, { input: body, maxBuffer: 1 << 26 });
  if (status !== 0) throw new Error(`unzstd ended with ${status}`);
  return stdout;
}

const decoders = { gzip: zlib.gunzipSync, deflate: zlib.inflateSync, br: zlib.brotliDecompressSync, zstd };
export const decoded = (coding, body) => (coding ? decoders[coding](body) : body);

// ---- RFC 6455 ----

const MASK = Buffer.from([1, 2, 3, 4]);
function frame(opcode, payload) {
  const bytes = Buffer.from(payload);
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | bytes.length]), MASK, bytes.map((byte, i) => byte ^ MASK[i % 4])]);
}

// The whole frames that begin there: [{opcode, payload}].
function frames(bytes) {
  const found = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const short = bytes[at + 1], from = at + (short === 126 ? 4 : short === 127 ? 10 : 2);
    if (from > bytes.length) break;
    const length = short === 126 ? bytes.readUInt16BE(at + 2) : short === 127 ? Number(bytes.readBigUInt64BE(at + 2)) : short;
    if (from + length > bytes.length) break;
    found.push({ opcode: bytes[at] & 15, payload: bytes.subarray(from, from + length) });
    at = from + length;
  }
  return found;
}

// The name of the upstream at the other end of a WebSocket whose messages are TCP: upstreams of the model speak HTTP there, and close.
export function reachedBy(socket, first) {
  return new Promise((resolve, reject) => {
    let got = first;
    const look = () => {
      const all = frames(got), close = all.find(({ opcode }) => opcode === 8);
      if (!close) return;
      const text = Buffer.concat(all.filter(({ opcode }) => opcode === 2).map(({ payload }) => payload)).toString();
      resolve(close.payload.readUInt16BE(0) === 1000 ? /^x-upstream: (\S+)/im.exec(text)?.[1] : `close ${close.payload.readUInt16BE(0)}`);
    };
    socket.on('data', (bytes) => { got = Buffer.concat([got, bytes]); look(); });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`it ended after ${got.length} bytes`)));
    socket.setTimeout(60000, () => reject(new Error('no end within a minute')));
    socket.write(frame(2, 'GET / HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n'));
    look();
  });
}
