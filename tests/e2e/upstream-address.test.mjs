// Upstreams with TLS by their IP address: their certificate must have that address, and what the log says of upstreams that are not there.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { ask, calling, serving as grpcServing } from '../support/grpc.mjs';
import { elsewhere, endpoint, env, must, through, until } from '../support/postern.mjs';

const authority = process.env.STORY_UPSTREAM_TLS, options = { skip: elsewhere || !authority, timeout: 120000 };
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-address-'));
test.after(() => fs.rmSync(folder, { recursive: true }));

let made = 0;
// A certificate of the authority that the edge knows, or of itself.
function certificate(subject, names, known = true) {
  const at = `${folder}/${++made}`, openssl = (...args) => execFileSync('openssl', args, { stdio: 'ignore' });
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', `/CN=${subject}`, '-addext', `subjectAltName=${names}`,
    '-addext', 'basicConstraints=critical,CA:false', '-keyout', `${at}.key`, '-out', `${at}.pem`);
  if (known) {
    fs.writeFileSync(`${at}.ext`, `subjectAltName=${names}\n`);
    openssl('req', '-new', '-key', `${at}.key`, '-subj', `/CN=${subject}`, '-out', `${at}.csr`);
    openssl('x509', '-req', '-in', `${at}.csr`, '-CA', `${authority}.pem`, '-CAkey', `${authority}.key`, '-set_serial', String(1000 + made), '-days', '2', '-extfile', `${at}.ext`, '-out', `${at}.pem`);
  }
  return { key: fs.readFileSync(`${at}.key`), cert: fs.readFileSync(`${at}.pem`) };
}

// An upstream that notes the server name of each connection and counts requests.
async function listening(tls, host = '127.0.0.1') {
  const seen = [], names = [];
  const server = https.createServer({ ...tls, SNICallback: (name, done) => { names.push(name); done(null, undefined); } }, (request, response) => { seen.push(request.url); response.end('reached'); });
  await new Promise((resolve) => server.listen(0, host, resolve));
  return { seen, names, port: server.address().port, close: () => new Promise((resolve) => { server.closeAllConnections(); server.close(resolve); }) };
}
const backend = (address) => must('POST', '/backends/static', { address, tls: { enabled: true } });
const answer = async (host) => { const got = await through(host); return got.status === 200 ? `200 ${got.body}` : `${got.status} ${JSON.parse(got.body).error_code}`; };
const log = () => fs.readFileSync(`${env.POSTERN_LOG_DIR}/edge.log`, 'utf8');

// A line of the log for each of so many requests, and no other one of that backend.
async function refusedOf(id, at, count) {
  const lines = () => log().split('\n').filter((line) => line.includes(`backend: ${id} (${at})`));
  await until(() => lines().length >= count, 'the log says what is wrong with it');
  for (const line of lines()) assert.match(line, / \[error\] .*upstream SSL certificate (verify error: \(\d+:[^)]+\)|does not match)/);
  assert.equal(lines().length, count);
}

for (const [why, subject, names, address, want, known] of [
  ['its address', 'one', 'IP:127.0.0.1', '127.0.0.1', '200 reached'],
  ['its address among others', 'one', 'DNS:one.test,IP:192.0.2.7,IP:127.0.0.1', '127.0.0.1', '200 reached'],
  ['another address', 'one', 'IP:127.0.0.2', '127.0.0.1', '502 ERR_POSTERN_906'],
  ['a name that looks like its address', '127.0.0.1', 'DNS:127.0.0.1', '127.0.0.1', '502 ERR_POSTERN_906'],
  ['its address, of an authority that nobody knows', 'one', 'IP:127.0.0.1', '127.0.0.1', '502 ERR_POSTERN_906', false],
  ['its address, and it is asked for by name', 'one', 'IP:127.0.0.1', 'localhost', '502 ERR_POSTERN_906'],
  ['its address of IPv6', 'one', 'IP:::1', '[::1]', '200 reached'],
  ['its address of IPv6 in another form', 'one', 'IP:::1', '[0:0:0:0:0:0:0:1]', '200 reached'],
  ['its address of IPv4, and it is asked for by that of IPv6', 'one', 'IP:127.0.0.1', '[::1]', '502 ERR_POSTERN_906'],
]) {
  test(`a certificate for ${why}: ${want}`, options, async () => {
    const up = await listening(certificate(subject, names, known), address.startsWith('[') ? '::1' : '127.0.0.1');
    try {
      const at = `${address}:${up.port}`, { id } = await backend(at), to = await endpoint({ id });
      for (let i = 0; i < 3; i++) assert.equal(await answer(to.host), want);
      assert.equal(up.seen.length, want === '200 reached' ? 3 : 0);
      if (address !== 'localhost') assert.deepEqual(up.names, [], 'an address is no server name');
      if (want !== '200 reached') await refusedOf(id, at, 3);
    } finally { await up.close(); }
  });
}

test('a call of gRPC goes to an address whose certificate has it, and to no other', options, async () => {
  for (const [names, want] of [['IP:127.0.0.1', true], ['IP:127.0.0.2', false], ['DNS:127.0.0.1', false]]) {
    const up = await grpcServing({}, certificate('one', names));
    try {
      const at = `127.0.0.1:${up.port}`, { id } = await backend(at), to = await endpoint({ id }), client = calling(to.host);
      for (let i = 0; i < 2; i++) {
        const got = await ask(client, { data: Buffer.from('x') });
        assert.equal(got.status.code === 0, want, `${names}: ${got.status.details}`);
      }
      assert.equal(up.calls.length, want ? 2 : 0);
      if (!want) await refusedOf(id, at, 2);
      client.close();
    } finally { up.close(); }
  }
});

test('a failover backend passes over an address with a wrong certificate, and verifies the name behind it as a name', options, async () => {
  const wrong = await listening(certificate('one', 'IP:127.0.0.2')), named = await listening(certificate('two', 'DNS:localhost')), other = await listening(certificate('three', 'DNS:three.test'));
  try {
    const [first, good, bad] = [await backend(`127.0.0.1:${wrong.port}`), await backend(`localhost:${named.port}`), await backend(`localhost:${other.port}`)];
    const to = await endpoint(await must('POST', '/backends/failover', { backends: [first.id, good.id] }));
    assert.equal(await answer(to.host), '200 reached');
    const no = await endpoint(await must('POST', '/backends/failover', { backends: [first.id, bad.id] }));
    assert.equal(await answer(no.host), '502 ERR_POSTERN_906');
    assert.deepEqual([wrong.seen.length, named.seen.length, other.seen.length], [0, 1, 0]);
  } finally { for (const one of [wrong, named, other]) await one.close(); }
});

test('a failover backend verifies an address behind a name as an address', options, async () => {
  const wrong = await listening(certificate('two', 'DNS:three.test')), good = await listening(certificate('one', 'IP:127.0.0.1'));
  try {
    const [first, second] = [await backend(`localhost:${wrong.port}`), await backend(`127.0.0.1:${good.port}`)];
    const to = await endpoint(await must('POST', '/backends/failover', { backends: [first.id, second.id] }));
    assert.equal(await answer(to.host), '200 reached');
    assert.deepEqual([wrong.seen.length, good.seen.length], [0, 1]);
  } finally { for (const one of [wrong, good]) await one.close(); }
});

test('the log names the backend of an upstream that cannot be reached, and its port', { skip: elsewhere }, async () => {
  for (const address of ['127.0.0.1:9', '[::1]:9']) {
    const to = await endpoint(address);
    assert.equal(await answer(to.host), '502 ERR_POSTERN_904');
    const said = (line) => line.includes('connect() failed (111') && line.includes(`, backend: ${to.backend.id} (${address}), `);
    await until(() => log().split('\n').some(said), `a line of ${to.backend.id} and ${address}`);
  }
});
