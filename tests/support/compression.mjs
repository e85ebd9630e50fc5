// What the stories of the module compression share: requests over either protocol, what comes of their answers, and the events of both.
import { createHash } from 'node:crypto';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';
import { Duplex } from 'node:stream';
import { ca, edge, listening, until } from './postern.mjs';

const sub = await listening('http_request_complete');
export const eventOf = (host, path) => until(() => sub.events.find((event) => event.object.http.request.url.host === host && event.object.http.request.url.path === path)?.object, `the event of ${host}${path}`);
export const TEXT = Buffer.from('All happy families are alike; each unhappy family is unhappy in its own way. '.repeat(40));
const tools = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-unzstd-'));
execFileSync('cc', ['-O1', fileURLToPath(new URL('unzstd.c', import.meta.url)), '-o', `${tools}/unzstd`, '-lzstd']);
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
export const decoders = { gzip: zlib.createGunzip, deflate: zlib.createInflate, br: zlib.createBrotliDecompress, zstd: unzstd };
export const codings = Object.keys(decoders);

// A request over either protocol: {response (a stream), status, headers, end()}.
export const one = {
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
export const protocols = Object.keys(one);

// What comes of an answer: {sent, body, whole, hash}. sent: bytes before they were decoded; keep: the body itself, too.
export function read(answer, keep = true) {
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

export const get = async (to, { protocol = 'h1', path = '/', ...options } = {}) => { const answer = await one[protocol](to.host, path, options); return { ...answer, ...await read(answer) }; };
export const gzip = { 'accept-encoding': 'gzip' };
