// Where a backend may lead: never to Postern's own sockets, nor to link-local addresses, whatever they are called.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import test from 'node:test';
import { api, edge, elsewhere, endpoint, env, must, through, until, upstream } from '../support/postern.mjs';

const base = Number(new URL(env.POSTERN_API_URL).port);
const own = { api: base, health: base + 11, 'health of events': base + 14, status: base + 15, https: edge.port, http: edge.plainPort };
const metric = async () => [...(await fetch(`http://127.0.0.1:${base + 15}/metrics`).then((r) => r.text())).matchAll(/postern_edge_upstreams_denied_total\{worker="\d+"\} (\d+)/g)].reduce((sum, one) => sum + Number(one[1]), 0);

for (const address of ['169.254.169.254:80', '169.254.0.1:443', '0xa9fea9fe:80', '0xa9.0xfe.0xa9.0xfe:80', '[fe80::1]:80', '[fd00:ec2::254]:80', '[::ffff:169.254.169.254]:80', '[::ffff:a9fe:a9fe]:80', '[64:ff9b::a9fe:a9fe]:80',
  '100.100.100.200:80', '[::ffff:100.100.100.200]:80', '168.63.129.16:80', '192.0.0.192:80', '[64:ff9b:1::7f00:1]:80', '[64:ff9b:1:7f00:0:100::]:80', '[2001:0:7f00:1::]:80',
  '0.0.0.0:80', '0x0:80', '[::]:80', '224.0.0.1:80', '255.255.255.255:80', '[ff02::1]:80'])
  test(`a backend does not lead to ${address}`, async () => {
    const made = await api('POST', '/backends/static', { address });
    assert.equal(made.status, 400);
    assert.equal(made.body.error_code, 'ERR_POSTERN_218');
    assert.match(made.body.msg, /address/);
  });

for (const [what, port] of Object.entries(own))
  test(`a backend does not lead to Postern's own socket: ${what}`, { skip: elsewhere }, async () => {
    const machine = Object.values(os.networkInterfaces()).flat().filter((one) => !one.internal && one.family === 'IPv4').map((one) => one.address);
    for (const host of ['127.0.0.1', '127.7.7.7', '[::1]', '[::ffff:127.0.0.1]', '0x7f000001', '0x7f.1', ...machine]) {
      const made = await api('POST', '/backends/static', { address: `${host}:${port}` });
      assert.equal(made.status, 400, host);
      assert.equal(made.body.error_code, 'ERR_POSTERN_218', host);
    }
  });

test('a change does not lead there either, and loopback stays for applications', { skip: elsewhere }, async () => {
  const up = await upstream();
  const to = await endpoint(up.address);
  assert.equal((await through(to.host)).status, 200);
  const changed = await api('PATCH', `/backends/static/${to.backend.id}`, { address: `127.0.0.1:${base + 11}` });
  assert.equal(changed.status, 400);
  assert.equal(changed.body.error_code, 'ERR_POSTERN_218');
  assert.equal((await through(to.host)).status, 200);
  await must('PATCH', `/backends/static/${to.backend.id}`, { address: `127.0.0.1:${base + 1}` });
  assert.match((await through(to.host)).body, /demo upstream/);
  await up.close();
});

test('a name does not go around it: what it leads to is checked before the edge connects', { skip: elsewhere }, async () => {
  const log = `${env.POSTERN_LOG_DIR}/edge.log`;
  for (const port of [base, base + 11, base + 15, edge.port]) {
    const before = await metric();
    const to = await endpoint(`localhost:${port}`);
    for (const target of ['/healthz', '/metrics', '/']) {
      const got = await through(to.host, target);
      assert.equal(got.status, 502, `${port}${target}: ${got.body}`);
      assert.equal(JSON.parse(got.body).error_code, 'ERR_POSTERN_904');
    }
    await until(async () => (await metric()) >= before + 3, 'they are counted');
  }
  assert.match(fs.readFileSync(log, 'utf8'), /is denied: what localhost:\d+ leads to is a socket of Postern's own/);
});
