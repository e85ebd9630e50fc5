// The API behind its own host name: TLS by the edge's nginx, and a name that is nobody's.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { own } from '../support/own.mjs';
import { Ngrok, api, ca, edge, elsewhere, endpoint, env, home, listening, must, raw, through, unique, until } from '../support/postern.mjs';

const url = new URL(env.POSTERN_API_TLS_URL);
const host = url.hostname;
const keyed = { Authorization: `Bearer ${env.POSTERN_API_KEY}`, 'Service-Version': '2' };
const head = Object.entries(keyed).map(([name, value]) => `${name}: ${value}\r\n`).join('');
const statuses = (text) => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
const ask = async (method, target, { headers = {}, body } = {}) => {
  const answer = await through(host, target, { method, headers: { ...keyed, ...headers }, body });
  let parsed;
  try { parsed = JSON.parse(answer.body); } catch { /* none */ }
  return { ...answer, json: parsed };
};

test('the official client works over https with the authority\'s certificate', async () => {
  const { ca: before, lookup } = https.globalAgent.options;
  Object.assign(https.globalAgent.options, { ca, lookup: (name, options, done) => (options.all ? done(null, [{ address: edge.host, family: 4 }]) : done(null, edge.host, 4)) });
  try {
    const remote = new Ngrok({ baseUrl: env.POSTERN_API_TLS_URL, apiToken: env.POSTERN_API_KEY });
    const made = await remote.ipPolicies.create({ description: unique('tls') });
    assert.equal(made.uri, `${env.POSTERN_API_TLS_URL}/ip_policies/${made.id}`, 'uris lead back through TLS');
    assert.equal((await remote.ipPolicies.get(made.id)).description, made.description);
    const page = await ask('GET', '/ip_policies?limit=1');
    assert.ok(!page.json.next_page_uri || page.json.next_page_uri.startsWith(`${env.POSTERN_API_TLS_URL}/`));
    assert.equal((await api('GET', `/ip_policies/${made.id}`)).body.uri, `${env.POSTERN_API_URL}/ip_policies/${made.id}`, 'and on loopback stay there');
  } finally {
    Object.assign(https.globalAgent.options, { ca: before, lookup });
  }
});

test('a retry under the same Idempotency-Key may come by the other way', async () => {
  const description = unique('retry'), headers = { 'Idempotency-Key': unique('key') };
  const first = await api('POST', '/ip_policies', { description }, headers);
  const second = await ask('POST', '/ip_policies', { headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify({ description }) });
  assert.deepEqual([first.status, second.status, second.json.id], [201, 201, first.body.id], second.body);
});

test('HTTP/2, with body and errors', async () => {
  const session = http2.connect(env.POSTERN_API_TLS_URL, {
    createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['h2'] }),
  });
  const call = (headers, body) => new Promise((resolve, reject) => {
    const stream = session.request({ ...keyed, ...headers }, { endStream: body === undefined });
    let status, text = '';
    stream.on('response', (answer) => { status = answer[':status']; });
    stream.on('data', (part) => { text += part; });
    stream.on('end', () => resolve({ status, body: text && JSON.parse(text) }));
    stream.on('error', reject);
    if (body !== undefined) stream.end(body);
  });
  try {
    const made = await call({ ':method': 'POST', ':path': '/ip_policies', 'content-type': 'application/json' }, JSON.stringify({ description: unique('h2') }));
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.equal((await call({ ':method': 'GET', ':path': `/ip_policies/${made.body.id}` })).body.id, made.body.id);
    assert.equal((await call({ ':method': 'GET', ':path': '/nothing' })).status, 404);
    const large = await call({ ':method': 'POST', ':path': '/ip_policies', 'content-type': 'application/json', 'content-length': String(2 << 20) }, 'x'.repeat(2 << 20)).catch((error) => error);
    if (large.body) assert.deepEqual([large.status, large.body.error_code], [413, 'ERR_POSTERN_117']);
  } finally {
    session.close();
  }
});

const hidden = unique('hidden');
const hiddenBody = JSON.stringify({ description: hidden });
const second = `POST /ip_policies HTTP/1.1\r\nHost: ${host}\r\n${head}Content-Type: application/json\r\nContent-Length: ${hiddenBody.length}\r\n\r\n${hiddenBody}`;
for (const [what, start] of [
  ['two lengths', `GET /ip_policies HTTP/1.1\r\nHost: ${host}\r\n${head}Content-Length: 0\r\nContent-Length: ${second.length}\r\n\r\n`],
  ['a length and chunks', `POST /ip_policies HTTP/1.1\r\nHost: ${host}\r\n${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['another coding', `POST /ip_policies HTTP/1.1\r\nHost: ${host}\r\n${head}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`],
  ['two hosts', `GET /ip_policies HTTP/1.1\r\nHost: ${host}\r\nHost: other\r\n${head}\r\n`],
  ['NUL in a value', `GET /ip_policies HTTP/1.1\r\nHost: ${host}\r\n${head}X-A: a\0b\r\n\r\n`],
])
  test(`framing over TLS: ${what} is refused as JSON and nothing behind it is read`, async () => {
    const text = await raw(host, Buffer.from(start + second, 'latin1'), { wait: 5000 });
    assert.equal(statuses(text).length, 1, text);
    assert.ok([400, 501].includes(statuses(text)[0]), text);
    const body = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));
    assert.ok(body.msg && body.status_code === statuses(text)[0] && body.details, text);
  });

// nginx has no path for these.
const pathless = [
  ['CONNECT', `CONNECT a:443 HTTP/1.1\r\nHost: ${host}\r\n${head}\r\n`],
  ['a path that leads out', `GET /%2e%2e/self HTTP/1.1\r\nHost: ${host}\r\n${head}\r\n`],
  ['dots that lead out', `GET /../self HTTP/1.1\r\nHost: ${host}\r\n${head}\r\n`],
  ['an escape that is none', `GET /a%zz HTTP/1.1\r\nHost: ${host}\r\n${head}\r\n`],
  ['a target that is no path', `GET self HTTP/1.1\r\nHost: ${host}\r\n${head}\r\n`],
  ['no HTTP at all', 'hello\r\n\r\n'],
];
const refusal = (text) => {
  assert.equal(statuses(text).length, 1, text);
  assert.ok([400, 405].includes(statuses(text)[0]), text);
  assert.match(text, /\r\nContent-Type: application\/json\r\n/);
  const body = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4));
  assert.ok(body.msg && body.status_code === statuses(text)[0] && body.details, text);
};
for (const [what, bytes] of pathless) {
  test(`over TLS, ${what} is refused as JSON`, async () => refusal(await raw(host, bytes, { wait: 5000 })));
}

test('HTTP/2: a path that leads out is refused as JSON', async () => {
  const session = http2.connect(env.POSTERN_API_TLS_URL, {
    createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['h2'] }),
  });
  try {
    const stream = session.request({ ...keyed, ':path': '/%2e%2e/self' });
    let status, text = '';
    stream.on('response', (answer) => { status = answer[':status']; }).on('data', (part) => { text += part; });
    await new Promise((resolve, reject) => stream.on('end', resolve).on('error', reject));
    assert.deepEqual([status, JSON.parse(text).error_code], [400, 'ERR_POSTERN_220'], text);
  } finally {
    session.close();
  }
});

test('in clear, what nginx has no path for is refused', async () => {
  for (const [, bytes] of pathless.filter(([, line]) => line.includes('Host:'))) {
    const text = await new Promise((resolve) => {
      const socket = net.connect(edge.plainPort, edge.plainHost, () => socket.write(bytes));
      let got = '';
      socket.on('data', (part) => { got += part; }).on('close', () => resolve(got));
    });
    assert.equal(statuses(text).length, 1, text);
    assert.ok([400, 405].includes(statuses(text)[0]), text);
    assert.doesNotMatch(text, /500 Internal/);
  }
});

test('framing over TLS: no hidden request was executed', async () => {
  const { body } = await api('GET', `/ip_policies?filter=${encodeURIComponent(`obj.description == "${hidden}"`)}`);
  assert.deepEqual(body.ip_policies, []);
});

test('no account can reserve the name, cover it, or serve it', async () => {
  const parent = host.slice(host.indexOf('.') + 1);
  const taken = [409, 'ERR_POSTERN_144'], overOne = [400, 'ERR_POSTERN_182']; // nobody has a wildcard over one label
  for (const [domain, want] of [[host, taken], [host.toUpperCase(), taken], [`${host}.`, taken], [`*.${parent}`, parent.includes('.') ? taken : overOne]]) {
    const answer = await api('POST', '/reserved_domains', { domain });
    assert.deepEqual([answer.status, answer.body.error_code], want, `${domain}: ${answer.raw}`);
  }
  for (const [path, body] of [['/edges/https', { hostports: [`${host}:443`] }], ['/edges/tls', { hostports: [`${host}:443`] }],
    ['/endpoints', { url: `https://${host}`, type: 'cloud', bindings: ['public'], traffic_policy: '{"on_http_request":[]}' }]]) {
    const answer = await api('POST', path, body);
    assert.ok(answer.status >= 400 && answer.status < 500, `${path}: ${answer.raw}`);
  }
  assert.ok(!(await api('GET', '/reserved_domains?limit=100')).body.reserved_domains.some(({ domain }) => domain === host), 'it is in no list');
  assert.equal((await ask('GET', '/ip_policies?limit=1')).status, 200);
});

test('host and TLS name must agree', async () => {
  const front = await endpoint({ body: 'a tenant' });
  const asTenant = await through(host, '/', { servername: front.host, headers: keyed });
  assert.equal(asTenant.status, 421);
  assert.match(asTenant.body, /ERR_POSTERN_907/);
  const asApi = await through(front.host, '/', { servername: host });
  assert.equal(asApi.status, 421);
});

test('requests to the API are no traffic of anybody', async () => {
  const { events, stop } = await listening('http_request_complete');
  const begun = new Date().toISOString(); // what was asked before has its event, and it may still come
  await ask('GET', '/ip_policies?limit=1');
  await ask('GET', '/nothing');
  await raw(host, `GET / HTTP/1.1\r\nHost: ${host}\r\nHost: b\r\n\r\n`, { wait: 3000 });
  const { host: mark } = await endpoint({ body: 'mark' });
  await through(mark, '/after');
  await until(() => events.some((event) => JSON.stringify(event).includes(mark)), 'the event of a request that came after');
  await stop();
  assert.deepEqual(events.filter((event) => event.event_timestamp >= begun && JSON.stringify(event).includes(host)), []);
});

test('the client\'s address is what the edge saw, whatever the client says', { skip: elsewhere }, async () => {
  const policy = await must('POST', '/ip_policies', { description: 'elsewhere' });
  await must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '127.0.0.1/32', action: 'allow' });
  const restriction = await must('POST', '/ip_restrictions', { type: 'api', ip_policy_ids: [policy.id], enforced: true });
  const spoofed = { 'X-Forwarded-For': '203.0.113.9', Forwarded: 'for=203.0.113.9', 'X-Real-IP': '203.0.113.9' };
  try {
    assert.equal((await ask('GET', '/ip_policies?limit=1', { headers: spoofed })).status, 200);
    assert.equal((await api('GET', '/ip_policies?limit=1', undefined, spoofed)).status, 200);
    const rules = (await must('GET', '/ip_policy_rules?limit=100')).ip_policy_rules.filter(({ ip_policy }) => ip_policy.id === policy.id);
    await must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '203.0.113.9/32', action: 'allow' });
    await must('DELETE', `/ip_policy_rules/${rules[0].id}`, undefined, 204);
    for (const answer of [await ask('GET', '/ip_policies?limit=1', { headers: spoofed }), await api('GET', '/ip_policies?limit=1', undefined, spoofed)])
      assert.equal(answer.status, 403, 'an address that is only claimed opens nothing');
  } finally {
    execFileSync('psql', [env.DATABASE_URL, '-qc', `UPDATE routes.ip_restriction SET enforced = false WHERE id = '${restriction.id}'`]);
    await until(async () => (await api('DELETE', `/ip_restrictions/${restriction.id}`)).status === 204, 'unlocked', 120000);
  }
});

test('one address has a bounded number of requests at a time, and others theirs', { timeout: 280000 }, async () => {
  const open = [];
  let refused = '';
  for (let i = 0; i < 80; i++) {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca });
    socket.on('error', () => {});
    socket.on('data', (part) => { refused += part; });
    await new Promise((resolve) => socket.on('secureConnect', resolve));
    socket.write(`POST /ip_policies HTTP/1.1\r\nHost: ${host}\r\n${head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`);
    open.push(socket);
  }
  await until(() => refused.includes('ERR_POSTERN_504'), 'a refusal');
  assert.deepEqual([...new Set(statuses(refused))], [429]);
  assert.match(refused, /\r\nRetry-After: 1\r\n/);
  assert.equal((await api('GET', '/ip_policies?limit=1')).status, 200, 'the gateway heard of none of them');
  for (const socket of open) socket.destroy();
  await until(async () => (await ask('GET', '/ip_policies?limit=1')).status === 200, 'room again');
});

test('a key that comes in clear to the name is told so', async () => {
  const text = await new Promise((resolve) => {
    const socket = net.connect(edge.plainPort, edge.plainHost, () => socket.write(`GET /ip_policies HTTP/1.1\r\nHost: ${host}\r\n${head}Connection: close\r\n\r\n`));
    let got = '';
    socket.on('data', (part) => { got += part; }).on('close', () => resolve(got));
  });
  assert.deepEqual(statuses(text), [403], text);
  assert.match(text, /use https/);
});

// ---- a certificate that the operator gives: in a stack of its own ----

test("the operator's own certificate is replaced without a restart; a broken one is refused, and the last goes on", { skip: env.POSTERN_RUN_DIR ? false : 'the story starts a stack on this machine', timeout: 280000 }, async () => {
  const { uid, gid } = fs.statSync(fs.realpathSync(home)), port = edge.port + 1000;
  let files;
  const make = (name) => {
    const made = { cert: `${files}/${name}.pem`, key: `${files}/${name}.key` };
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30', '-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:api.localhost',
      '-keyout', made.key, '-out', made.cert], { stdio: 'ignore' });
    return { cert: fs.readFileSync(made.cert), key: fs.readFileSync(made.key) };
  };
  const put = (name, content) => { // whole or not at all
    fs.writeFileSync(`${files}/new`, content, { mode: 0o600 });
    fs.chownSync(`${files}/new`, uid, gid);
    fs.renameSync(`${files}/new`, `${files}/${name}`);
  };
  const give = ({ cert, key }) => { put('api.key', key); put('api.pem', cert); };
  const served = () => new Promise((resolve, reject) => {
    const socket = tls.connect({ host: edge.host, port, servername: 'api.localhost', rejectUnauthorized: false }, () => { resolve(socket.getPeerCertificate().subject.CN); socket.destroy(); });
    socket.on('error', reject);
  });
  files = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-given-'));
  fs.chmodSync(files, 0o755);
  const [first, second, third] = ['first', 'second', 'third'].map(make);
  give(first);
  try {
    await own(async ({ state, run }) => {
      const up = run('up');
      assert.equal(up.status, 0, up.stderr);
      const stack = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').map((line) => line.split(/=(.*)/s)));
      const pids = () => ['edge', 'routes', 'gateway'].map((name) => fs.readFileSync(`${stack.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
      const told = (text) => fs.readFileSync(`${state}/log/routes.log`, 'utf8').split(text).length - 1;
      const before = pids();
      assert.equal(await served(), 'first');
      const status = await new Promise((resolve, reject) => https.get({ host: edge.host, port, servername: 'api.localhost', ca: first.cert, agent: false, path: '/api_keys',
        headers: { Host: 'api.localhost', 'Service-Version': '2', Authorization: `Bearer ${stack.POSTERN_API_KEY}` } }, (answer) => { answer.resume(); resolve(answer.statusCode); }).on('error', reject));
      assert.equal(status, 200, 'a client that trusts it is served');

      give(second);
      await until(async () => await served() === 'second', 'the second is served', 120000);
      for (const [what, broken, said] of [
        ["another one's key", { cert: third.cert, key: first.key }, 'api-certificate and api-certificate-key are no certificate and its key'],
        ['half of it', { cert: third.cert.subarray(0, 200), key: third.key }, 'api-certificate and api-certificate-key are no certificate and its key'],
        ['nothing in it', { cert: '', key: third.key }, `read ${files}/api.pem, the certificate or key of api-host`],
      ]) {
        const heard = told(said);
        give(broken);
        await until(() => told(said) > heard, `${what} is refused`, 120000);
        assert.equal(await served(), 'second', what);
      }
      give(third);
      await until(async () => await served() === 'third', 'the third is served', 120000);
      assert.deepEqual(pids(), before, 'nothing was started again');
    }, { also: { POSTERN_API_CERTIFICATE: `${files}/api.pem`, POSTERN_API_CERTIFICATE_KEY: `${files}/api.key`, POSTERN_RENEW_SECONDS: '1' } });
  } finally {
    fs.rmSync(files, { recursive: true });
  }
});
