// A connection of HTTP/2 that is to end is told so before it takes no more requests (services/edge/http/edge_goaway.c, RFC 9113 6.8): a client
// may have sent a head before it reads that, even one of two frames, with which nginx would end the connection and all that is under way.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { CONTINUATION, END_HEADERS, END_STREAM, HEADERS, exchange, frame, headers } from '../support/h2raw.mjs';
import { endpoint, must, until, upstream } from '../support/postern.mjs';

const WAIT = 120000, ANY = 2 ** 31 - 1, COUNT = 8, held = [];
const up = await upstream((request, response) => { if (request.url === '/held') held.push(response); else response.end('ok'); });
test.afterEach(() => { for (const response of held.splice(0)) response.end(); });
test.after(() => up.close());

const block = (host, target) => headers([[':method', 'GET'], [':scheme', 'https'], [':path', target], [':authority', host]]);
const ask = (host, stream, target) => frame(HEADERS, END_HEADERS | END_STREAM, stream, block(host, target));
const inTwo = (host, stream) => { const all = block(host, '/'); return Buffer.concat([frame(HEADERS, END_STREAM, stream, all.subarray(0, 20)), frame(CONTINUATION, END_HEADERS, stream, all.subarray(20))]); };

// From now on the host has another certificate than connections began with.
async function certify({ host, domain }) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-goaway-'));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '29', '-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`, '-keyout', `${dir}/key`, '-out', `${dir}/cert`], { stdio: 'ignore' });
  const { id } = await must('POST', '/tls_certificates', { certificate_pem: fs.readFileSync(`${dir}/cert`, 'utf8'), private_key_pem: fs.readFileSync(`${dir}/key`, 'utf8') });
  fs.rmSync(dir, { recursive: true });
  await must('PATCH', `/reserved_domains/${domain.id}`, { certificate_id: id });
}

// A connection of which the first requests are these. Once the certificate is replaced it asks for COUNT things in one packet, each by a head of two
// frames, and again until it is told GOAWAY, which the edge says for one of them. told(what it has got, stream of the last one, socket).
async function replaced(first, told) {
  const to = await endpoint(up.address);
  let last = 2 * first.length - 1, asked = 0, change;
  const streams = () => Array.from({ length: COUNT }, (_, i) => last - 2 * i);
  const askMore = (socket) => { last += 2 * COUNT; socket.write(Buffer.concat(streams().reverse().map((stream) => inTwo(to.host, stream)))); };
  const got = await exchange(to.host, first.map((target, i) => ask(to.host, 1 + 2 * i, target)), { wait: WAIT, until: (now, socket) => {
    if (now.lasts.length) return told?.(now, last, socket);
    change ??= until(() => held.length === first.length, 'the first requests are under way', WAIT).then(() => certify(to)).then(() => askMore(socket));
    if (asked < last && streams().every((stream) => now.status[stream])) { asked = last; setTimeout(() => askMore(socket), 100); } // a connection takes 1,000 of them
    return false;
  } });
  await change;
  return { ...got, stream: last, answers: streams().map((stream) => got.status[stream]) };
}

test('what was on its way when the connection was told to end is served, as is what was under way, and then it takes no more', { timeout: 300000 }, async () => {
  let late;
  const { status, answers, lasts, goaway, closed, stream } = await replaced(['/held'], (now, last, socket) => {
    if (now.lasts.length < 2 || late) return false;
    late = last + 2;
    socket.write(ask('any', late, '/late'));
    for (const response of held.splice(0)) response.end('ok');
    return false;
  });
  assert.deepEqual([lasts, goaway, closed], [[ANY, stream], 0, true]);
  assert.deepEqual([answers, status[1], status[late]], [Array(COUNT).fill(200), 200, undefined]);
});

test('it ends, too, where its client begins nothing and nothing is under way', { timeout: 300000 }, async () => {
  const { answers, lasts, goaway, closed, stream } = await replaced([]);
  assert.deepEqual([answers, lasts, goaway, closed], [Array(COUNT).fill(200), [ANY, stream], 0, true]);
});
