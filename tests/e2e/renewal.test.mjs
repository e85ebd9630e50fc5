// A certificate of the local authority that ends soon is replaced while everything runs, and the edge serves the new one.
// The stack of `make e2e` looks every second (POSTERN_RENEW_SECONDS), not once a day.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { edge, endpoint, env, must, until } from '../support/postern.mjs';

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
