// A certificate of the local authority that ends soon is replaced while everything runs, and the edge serves the new one.
// The stack of `make e2e` looks every second (POSTERN_RENEW_SECONDS), not once a day.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { ca, edge, endpoint, env, must, until, upstream } from '../support/postern.mjs';

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
const served = (servername) => new Promise((resolve, reject) => {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername, rejectUnauthorized: false }, () => { resolve(socket.getPeerCertificate()); socket.destroy(); });
  socket.on('error', reject);
});
const lasts = (certificate) => (new Date(certificate.valid_to) - new Date(certificate.valid_from)) / 86400e3;
const days = (certificate) => (new Date(certificate.valid_to) - Date.now()) / 86400e3;

test('a local certificate that ends soon is renewed without a restart', { skip: process.env.POSTERN_RENEW_SECONDS ? false : 'POSTERN_RENEW_SECONDS is not set' }, async () => {
  const [soon, later] = [await endpoint({ body: 'x' }), await endpoint({ body: 'x' })];
  const before = await served(soon.host), other = await served(later.host);
  assert.ok(days(before) > 30);
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-renewal-'));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '29', '-subj', `/CN=${soon.host}`, '-keyout', `${dir}/key`, '-out', `${dir}/cert`], { stdio: 'ignore' });
  sql(`UPDATE routes.reserved_domain SET local_certificate_pem = '${fs.readFileSync(`${dir}/cert`, 'utf8')}' WHERE id = '${soon.domain.id}'`);
  await until(async () => (await served(soon.host)).serialNumber !== before.serialNumber, 'another certificate');
  const after = await served(soon.host);
  assert.ok(days(after) > 30, after.valid_to);
  assert.equal(after.issuer.CN, before.issuer.CN);
  assert.equal((await served(later.host)).serialNumber, other.serialNumber, 'the others stay as they are');
  await must('GET', `/reserved_domains/${soon.domain.id}`);
});

test('a local certificate made for longer than browsers take is renewed', { skip: process.env.POSTERN_RENEW_SECONDS ? false : 'POSTERN_RENEW_SECONDS is not set' }, async () => {
  const to = await endpoint({ body: 'x' });
  assert.ok(lasts(await served(to.host)) <= 366, 'Mozilla: 366 days; CA/Browser Forum: 398');
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-renewal-'));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '800', '-subj', `/CN=${to.host}`, '-keyout', `${dir}/key`, '-out', `${dir}/cert`], { stdio: 'ignore' });
  sql(`UPDATE routes.reserved_domain SET local_certificate_pem = '${fs.readFileSync(`${dir}/cert`, 'utf8')}' WHERE id = '${to.domain.id}'`);
  const stored = () => sql(`SELECT local_certificate_pem FROM routes.reserved_domain WHERE id = '${to.domain.id}'`);
  const long = fs.readFileSync(`${dir}/cert`, 'utf8').trim(); // not what is stored by now: it may be renewed already
  await until(() => stored() !== long, 'another certificate');
  await until(async () => new crypto.X509Certificate(stored()).serialNumber === (await served(to.host)).serialNumber, 'and it is served');
  assert.ok(lasts(await served(to.host)) <= 366);
});

// A request on the one connection of this agent: {status, last}; last: it closes behind this answer.
const asked = (to, agent, path = '/') => new Promise((resolve, reject) => {
  https.get({ host: edge.host, port: edge.port, servername: to.host, ca, path, agent, headers: { Host: to.host } }, (answer) => answer.resume().on('end', () => resolve({ status: answer.statusCode, last: answer.headers.connection === 'close' }))).on('error', reject);
});
const kept = () => new https.Agent({ keepAlive: true, maxSockets: 1 });
const overHttp2 = async (session, to) => {
  const stream = session.request({ ':path': '/', ':authority': to.host });
  return new Promise((resolve, reject) => { let status; stream.on('response', (fields) => { status = fields[':status']; }).on('error', reject).on('end', () => resolve(status)).resume(); });
};

test('a connection that began with a certificate of before takes no request more, and a stream on it goes on', { skip: process.env.POSTERN_RENEW_SECONDS ? false : 'POSTERN_RENEW_SECONDS is not set', timeout: 300000 }, async () => {
  const held = [], up = await upstream((request, response) => { if (request.url === '/events') { held.push(response); response.writeHead(200, { 'Content-Type': 'text/event-stream' }); response.write('1'); } else response.end('x'); });
  const [to, other] = [await endpoint(up.address), await endpoint(up.address)], agents = [kept(), kept()], heard = [];
  const session = http2.connect(`https://${to.host}`, { host: edge.host, port: edge.port, servername: to.host, ca });
  let goaway = false;
  session.on('error', () => {}).on('goaway', () => { goaway = true; });
  try {
    session.request({ ':path': '/events', ':authority': to.host }).on('data', (part) => heard.push(String(part))).on('error', () => {});
    await until(() => heard.length === 1, 'an event');
    for (const [i, one] of [to, other].entries()) assert.deepEqual(await asked(one, agents[i]), { status: 200, last: false });
    assert.equal(await overHttp2(session, to), 200);
    assert.ok(!goaway);
    const before = await served(to.host), dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-renewal-'));
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '29', '-subj', `/CN=${to.host}`, '-keyout', `${dir}/key`, '-out', `${dir}/cert`], { stdio: 'ignore' });
    sql(`UPDATE routes.reserved_domain SET local_certificate_pem = '${fs.readFileSync(`${dir}/cert`, 'utf8')}' WHERE id = '${to.domain.id}'`);
    await until(async () => (await served(to.host)).serialNumber !== before.serialNumber, 'another certificate');
    await until(async () => { const { status, last } = await asked(to, agents[0]); assert.equal(status, 200); return last; }, 'the connection of HTTP/1.1 is told to end');
    await until(async () => { if (!goaway) assert.equal(await overHttp2(session, to), 200); return goaway; }, 'and that of HTTP/2');
    assert.deepEqual(await asked(other, agents[1]), { status: 200, last: false }, 'another name\'s goes on');
    held[0].write('2');
    await until(() => heard.length === 2, 'and so does the stream');
  } finally {
    for (const agent of agents) agent.destroy();
    session.destroy();
    await up.close();
  }
});

test('a connection whose edge is deleted takes no request more', { timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'x' }), agent = kept();
  assert.deepEqual(await asked(to, agent), { status: 200, last: false });
  await must('DELETE', `/edges/https/${to.edge.id}`);
  await until(async () => { const { status, last } = await asked(to, agent); return status === 404 && last; }, 'its last answer');
  agent.destroy();
});
