// SSH certificate authorities: what they sign, OpenSSH accepts, and nothing else.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import test from 'node:test';
import { api, client, must, until } from '../support/postern.mjs';

const dir = fs.mkdtempSync('/tmp/postern-ssh-');
const user = os.userInfo().username;
const keygen = (...args) => execFileSync('ssh-keygen', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
function key(name, type = 'ed25519', ...more) {
  keygen('-q', '-t', type, '-N', '', '-C', name, '-f', `${dir}/${name}`, ...more);
  return fs.readFileSync(`${dir}/${name}.pub`, 'utf8').trim();
}
const describe = (certificate) => { fs.writeFileSync(`${dir}/look-cert.pub`, `${certificate}\n`); return keygen('-L', '-f', `${dir}/look-cert.pub`); };
const refused = async (code, field, path, body) => {
  const answer = await api('POST', path, body);
  assert.equal(answer.body.error_code, `ERR_POSTERN_${code}`, answer.raw);
  assert.ok(Object.keys(answer.body.details).includes(field), answer.raw);
};

const kinds = [['ed25519'], ['ecdsa', { elliptic_curve: 'p256' }], ['ecdsa', { elliptic_curve: 'p384' }], ['ecdsa', { elliptic_curve: 'p521' }], ['rsa', { key_size: 2048 }], ['rsa', { key_size: 4096 }]];
for (const [private_key_type, more = {}] of kinds)
  test(`an authority with ${private_key_type} ${Object.values(more)} signs what ssh-keygen reads`, async () => {
    const ca = await must('POST', '/ssh_certificate_authorities', { private_key_type, ...more, description: 'd' });
    assert.equal(ca.key_type, private_key_type);
    assert.ok(!JSON.stringify(ca).includes('PRIVATE'));
    assert.deepEqual(await must('GET', `/ssh_certificate_authorities/${ca.id}`), ca);
    fs.writeFileSync(`${dir}/ca.pub`, `${ca.public_key}\n`);
    assert.match(keygen('-l', '-f', `${dir}/ca.pub`), new RegExp(private_key_type, 'i'));
    for (const type of ['ed25519', 'ecdsa', 'rsa']) {
      const name = `k-${private_key_type}-${Object.values(more)}-${type}`;
      const made = await must('POST', '/ssh_user_certificates', { public_key: key(name, type), ssh_certificate_authority_id: ca.id, principals: ['alice', 'bob'], critical_options: { 'source-address': '127.0.0.1/32', 'force-command': 'true' } });
      assert.equal(made.key_type, type);
      assert.equal(made.ssh_certificate_authority_id, ca.id);
      assert.equal(Date.parse(made.valid_until) - Date.parse(made.valid_after), 86400000);
      assert.deepEqual(made.extensions, { 'permit-pty': '', 'permit-user-rc': '' });
      const text = describe(made.certificate);
      for (const want of [/user certificate/, new RegExp(`Key ID: "${made.id}"`), /alice\n\s+bob/, /force-command true/, /source-address 127.0.0.1\/32/, /permit-pty/, /permit-user-rc/]) assert.match(text, want);
    }
    const host = await must('POST', '/ssh_host_certificates', { public_key: key(`h-${private_key_type}-${Object.values(more)}`), ssh_certificate_authority_id: ca.id, principals: ['host.example.test'], valid_after: '2026-01-01T01:00:00+01:00', valid_until: '2026-02-01T00:00:00.5Z' });
    assert.deepEqual([host.valid_after, host.valid_until], ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']);
    assert.match(describe(host.certificate), /host certificate/);
    assert.equal((await api('DELETE', `/ssh_certificate_authorities/${ca.id}`)).status, 409, 'what it signed refers to it');
  });

test('ssh and sshd accept a host and a user certificate, and refuse others', { timeout: 300000 }, async () => {
  const hostCa = await must('POST', '/ssh_certificate_authorities', { private_key_type: 'ecdsa' }), userCa = await must('POST', '/ssh_certificate_authorities', {}), strangerCa = await must('POST', '/ssh_certificate_authorities', {});
  const free = () => new Promise((resolve) => { const s = net.createServer().listen(0, '127.0.0.1', () => { const p = s.address().port; s.close(() => resolve(p)); }); });
  const host = await must('POST', '/ssh_host_certificates', { public_key: key('host'), ssh_certificate_authority_id: hostCa.id, principals: ['ssh.example.test'] });
  fs.writeFileSync(`${dir}/host-cert.pub`, `${host.certificate}\n`);
  fs.writeFileSync(`${dir}/user-ca.pub`, `${userCa.public_key}\n`);
  fs.writeFileSync(`${dir}/known`, `@cert-authority ssh.example.test ${hostCa.public_key}\n`);
  fs.writeFileSync(`${dir}/sshd.conf`, `ListenAddress 127.0.0.1\nHostKey ${dir}/host\nHostCertificate ${dir}/host-cert.pub\nTrustedUserCAKeys ${dir}/user-ca.pub\nAuthorizedKeysFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPidFile none\n`);
  if (process.getuid() === 0) fs.mkdirSync('/run/sshd', { recursive: true });
  // from OpenSSH 9.8 a source that failed a few times is not even asked any more
  const [, major, minor] = /OpenSSH_(\d+)\.(\d+)/.exec(spawnSync('ssh', ['-V'], { encoding: 'utf8' }).stderr).map(Number);
  if (major > 9 || (major === 9 && minor >= 8)) fs.appendFileSync(`${dir}/sshd.conf`, 'PerSourcePenalties no\n');
  let port, sshd, said;
  const start = async () => {
    port = await free();
    said = '';
    sshd = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', `${dir}/sshd.conf`, '-p', String(port)], { stdio: ['ignore', 'ignore', 'pipe'] });
    sshd.stderr.on('data', (part) => { said += part; });
  };
  await start();
  await until(async () => { if (said.includes('Address already in use') && sshd.exitCode !== null) await start(); return said.includes('Server listening'); }, 'sshd listens').catch((error) => { throw new Error(`${error.message}: ${said}`); });
  const login = (name, certificate) => {
    fs.writeFileSync(`${dir}/${name}-cert.pub`, `${certificate}\n`);
    return execFileSync('ssh', ['-F', 'none', '-o', `UserKnownHostsFile=${dir}/known`, '-o', 'GlobalKnownHostsFile=none', '-o', 'StrictHostKeyChecking=yes', '-o', 'HostKeyAlias=ssh.example.test', '-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes', '-o', `CertificateFile=${dir}/${name}-cert.pub`, '-i', `${dir}/${name}`, '-p', String(port), `${user}@127.0.0.1`, 'echo in'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 120000 }).trim();
  };
  const issue = async (name, fields) => (await must('POST', '/ssh_user_certificates', { public_key: fs.existsSync(`${dir}/${name}.pub`) ? fs.readFileSync(`${dir}/${name}.pub`, 'utf8').trim() : key(name), ssh_certificate_authority_id: userCa.id, principals: [user], ...fields })).certificate;
  try {
    assert.equal(login('me', await issue('me', {})), 'in');
    assert.equal(login('me', await issue('me', { critical_options: { 'source-address': '127.0.0.0/8' } })), 'in');
    const denied = {
      'another principal': { principals: [`not-${user}`] },
      'an authority that the server does not know': { ssh_certificate_authority_id: strangerCa.id },
      expired: { valid_after: '2020-01-01T00:00:00Z', valid_until: '2020-01-02T00:00:00Z' },
      'not yet valid': { valid_after: '2090-01-01T00:00:00Z' },
      'another source address': { critical_options: { 'source-address': '192.0.2.0/24' } },
      'a critical option that nobody knows': { critical_options: { 'unknown@example.test': 'x' } },
    };
    for (const [what, fields] of Object.entries(denied)) {
      const certificate = await issue('me', fields);
      assert.throws(() => login('me', certificate), /Permission denied/, what);
    }
    fs.writeFileSync(`${dir}/known`, `@cert-authority ssh.example.test ${strangerCa.public_key}\n`);
    const good = await issue('me', {});
    assert.throws(() => login('me', good), /Host key verification failed|REMOTE HOST|No .*host key/i, 'a host whose authority the client does not know');
  } finally {
    sshd.kill();
  }
});

test('what is refused', async () => {
  const ca = await must('POST', '/ssh_certificate_authorities', {}), public_key = key('refused');
  await refused(197, 'elliptic_curve', '/ssh_certificate_authorities', { private_key_type: 'rsa', elliptic_curve: 'p256' });
  await refused(197, 'key_size', '/ssh_certificate_authorities', { private_key_type: 'ecdsa', key_size: 2048 });
  await refused(197, 'key_size', '/ssh_certificate_authorities', { private_key_type: 'rsa', key_size: 3072 });
  await refused(197, 'key_size', '/ssh_certificate_authorities', { private_key_type: 'rsa', key_size: 1024 });
  await refused(197, 'private_key_type', '/ssh_certificate_authorities', { private_key_type: 'dsa' });
  await refused(197, 'elliptic_curve', '/ssh_certificate_authorities', { private_key_type: 'ecdsa', elliptic_curve: 'p224' });
  for (const path of ['/ssh_user_certificates', '/ssh_host_certificates']) {
    await refused(122, 'public_key', path, { ssh_certificate_authority_id: ca.id });
    await refused(197, 'public_key', path, { ssh_certificate_authority_id: ca.id, public_key: 'ssh-ed25519 AAAA' });
    await refused(122, 'ssh_certificate_authority_id', path, { public_key });
    await refused(128, 'ssh_certificate_authority_id', path, { public_key, ssh_certificate_authority_id: `sshca_${'0'.repeat(27)}` });
    await refused(127, 'ssh_certificate_authority_id', path, { public_key, ssh_certificate_authority_id: `ca_${'0'.repeat(27)}` });
    for (const valid_after of ['tomorrow', '2026-13-01T00:00:00Z', '2026-02-30T00:00:00Z', '2026-01-01', '2026-01-01T00:00:00', '2026-01-01T24:00:00Z', '-123-01-01T00:00:00Z', '0000-01-01T00:00:00Z', '1969-12-31T23:59:59Z', '9999-12-31T23:59:59-23:59', '2026-01-01T00:00:00+25:00', '2026-01-01T00:00:00Zx'])
      await refused(202, 'valid_after', path, { public_key, ssh_certificate_authority_id: ca.id, valid_after });
    await refused(202, 'valid_until', path, { public_key, ssh_certificate_authority_id: ca.id, valid_after: '2026-01-02T00:00:00Z', valid_until: '2026-01-01T00:00:00Z' });
    const made = await must('POST', path, { public_key, ssh_certificate_authority_id: ca.id });
    assert.equal((await api('PATCH', `${path}/${made.id}`, { principals: ['x'] })).body.error_code, 'ERR_POSTERN_126');
    const changed = await must('PATCH', `${path}/${made.id}`, { description: 'changed' });
    assert.deepEqual([changed.description, changed.certificate], ['changed', made.certificate], 'signed once');
    assert.ok((await must('GET', `${path}?limit=1`))[path.slice(1)][0].id === made.id);
    await must('DELETE', `${path}/${made.id}`);
  }
  const ngrok = client();
  const mine = await ngrok.sshCertificateAuthorities.create({ privateKeyType: 'ecdsa', ellipticCurve: 'p384' });
  assert.equal(mine.keyType, 'ecdsa');
  assert.equal((await ngrok.sshHostCertificates.create({ publicKey: public_key, sshCertificateAuthorityId: mine.id, principals: ['h'] })).keyType, 'ed25519');
  assert.equal((await ngrok.sshUserCertificates.create({ publicKey: public_key, sshCertificateAuthorityId: mine.id })).keyType, 'ed25519');
});
