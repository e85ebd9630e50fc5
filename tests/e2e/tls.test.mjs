// What a scanner and a client see of the edge's TLS before any request: curves, names that nobody serves, Mozilla's profile.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { ca, edge, elsewhere, endpoint, env, must, raw, through, unique } from '../support/postern.mjs';

const to = await endpoint({ body: 'known' });
const handshake = (options) => new Promise((resolve, reject) => {
  const socket = tls.connect({ host: edge.host, port: edge.port, ca, rejectUnauthorized: false, ...options }, () => { resolve({ key: socket.getEphemeralKeyInfo(), subject: socket.getPeerCertificate().subject }); socket.destroy(); });
  socket.on('error', reject);
});

for (const version of ['TLSv1.2', 'TLSv1.3'])
  test(`${version}: X25519, P-256 and P-384 are the only curves`, async () => {
    const at = { servername: to.host, minVersion: version, maxVersion: version };
    // P-256 behind it: in TLS 1.2 the certificate's key must be on one of the client's curves, too
    for (const [curve, name] of [['X25519', 'X25519'], ['P-256', 'prime256v1'], ['P-384', 'secp384r1']]) assert.equal((await handshake({ ...at, ecdhCurve: curve === 'P-256' ? curve : `${curve}:P-256` })).key.name, name);
    for (const curve of ['P-521', 'X448']) await assert.rejects(handshake({ ...at, ecdhCurve: curve }), /alert/, curve);
    for (const curve of ['P-521', 'X448']) assert.equal((await handshake({ ...at, ecdhCurve: `${curve}:P-256` })).key.name, 'prime256v1', `${curve} is not chosen`);
  });

for (const version of ['TLSv1.2', 'TLSv1.3'])
  test(`${version}: a name that nobody serves, and no name, end in an alert and show no certificate`, async () => {
    const at = { minVersion: version, maxVersion: version };
    await assert.rejects(handshake({ ...at, servername: unique('nobody') }), /unrecognized name/);
    await assert.rejects(handshake({ ...at, servername: `sub.${to.host}` }), /unrecognized name/);
    await assert.rejects(handshake({ ...at, servername: '' }), /alert (missing extension|handshake failure)/);
    assert.equal((await handshake({ ...at, servername: to.host })).subject.CN ?? to.host, to.host);
  });

test('a name that was served and is not any more ends in the alert; a connection for a known name answers for unknown hosts', async () => {
  const gone = await endpoint({ body: 'x' });
  assert.equal((await through(gone.host)).status, 200);
  await must('DELETE', `/edges/https/${gone.edge.id}`);
  assert.equal(JSON.parse((await through(gone.host)).body).error_code, 'ERR_POSTERN_901', 'a reserved domain without an edge has its certificate');
  await must('DELETE', `/reserved_domains/${gone.domain.id}`);
  await assert.rejects(handshake({ servername: gone.host }), /unrecognized name/);
  assert.match(await raw(to.host, `GET / HTTP/1.1\r\nHost: ${gone.host}\r\nConnection: close\r\n\r\n`), /^HTTP\/1.1 404 /);
});

// From PyPI, for tests alone; where it cannot be installed the story says so.
const scanner = path.join(os.tmpdir(), 'postern-sslyze-6.3.1');
const sslyze = () => {
  const program = path.join(scanner, 'bin/sslyze');
  if (fs.existsSync(program)) return program;
  const made = spawnSync('python3', ['-m', 'venv', scanner]).status === 0
    && spawnSync(`${scanner}/bin/python3`, ['-m', 'pip', 'install', '-q', 'sslyze==6.3.1'], { timeout: 300000 }).status === 0;
  return made ? program : null;
};

test("sslyze finds nothing against Mozilla's intermediate profile", { skip: elsewhere, timeout: 300000 }, async (t) => {
  const program = sslyze();
  if (!program) return t.skip('sslyze cannot be installed here');
  const out = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'postern-sslyze-')), 'out.json');
  const text = spawnSync(program, ['--mozilla_config=intermediate', `--certinfo_ca_file=${env.POSTERN_EDGE_CA}`, `--json_out=${out}`, `--sni=${to.host}`, `${edge.host}:${edge.port}`], { encoding: 'utf8' });
  assert.match(text.stdout, /OK - Compliant/, text.stdout.slice(text.stdout.indexOf('COMPLIANCE AGAINST')));
  const [scan] = JSON.parse(fs.readFileSync(out, 'utf8')).server_scan_results;
  assert.equal(scan.scan_status, 'COMPLETED');
  const { result } = scan.scan_result.elliptic_curves;
  assert.deepEqual(result.supported_curves.map((one) => one.name).sort(), ['X25519', 'secp256r1', 'secp384r1']);
});
