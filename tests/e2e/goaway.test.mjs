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

const WAIT = 120000, ANY = 2 ** 31 - 1, held = [];
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

// A connection of which the first requests are these. Once the certificate is replaced it asks, one request at a time, until it is told GOAWAY.
// told(what it has got, stream of the last one, socket), from then on.
async function replaced(first, told) {
  const to = await endpoint(up.address);
  let last = 2 * first.length - 1, asked = 0, change;
  const askOnce = (socket) => { last += 2; socket.write(ask(to.host, last, '/')); };
  const got = await exchange(to.host, first.map((target, i) => ask(to.host, 1 + 2 * i, target)), { wait: WAIT, until: (now, socket) => {
    if (now.lasts.length) return told?.(now, last, socket, to.host);
    change ??= until(() => held.length === first.length, 'the first requests are under way', WAIT).then(() => certify(to)).then(() => askOnce(socket));
    if (asked < last && now.status[last]) { asked = last; setTimeout(() => askOnce(socket), 100); } // a connection takes 1,000 of them
    return false;
  } });
  await change;
  return { ...got, last };
}

test('what was on its way when the connection was told to end is served, as is what was under way, and then it takes no more', { timeout: 300000 }, async () => {
  let two, late;
  const { status, lasts, goaway, closed, last } = await replaced(['/held'], (now, stream, socket, host) => {
    if (!two) socket.write(inTwo(host, two = stream + 2)); // it might have been sent before GOAWAY was read
    if (now.lasts.length < 2 || late) return false;
    socket.write(ask(host, late = two + 2, '/'));
    for (const response of held.splice(0)) response.end('ok');
    return false;
  });
  assert.deepEqual([lasts, goaway, closed], [[ANY, two], 0, true]);
  assert.deepEqual([last, two, late].map((stream) => status[stream]).concat(status[1]), [200, 200, undefined, 200]);
});

test('it ends, too, where its client begins nothing and nothing is under way', { timeout: 300000 }, async () => {
  const { status, lasts, goaway, closed, last } = await replaced([]);
  assert.deepEqual([status[last], lasts, goaway, closed], [200, [ANY, last], 0, true]);
});
