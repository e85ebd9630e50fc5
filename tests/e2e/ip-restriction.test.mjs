// ip_restriction: who may use a route is what the rules of its IP policies say of the connection's own address, from the moment at which
// the change of one of them is answered.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { own } from '../support/own.mjs';
import { WebSocket, api, ca, edge, elsewhere, endpoint, env, listening, must, tcpUpstream, through, until, upstream } from '../support/postern.mjs';

const skip = elsewhere; // who connects is an address of this machine
const up = await upstream();
let connections = 0;
up.server.on('connection', () => connections++);
const sub = await listening('http_request_complete');
test.after(() => up.close());

const rule = (policy, text) => { const [action, cidr] = text.split(' '); return must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action, cidr }); };
async function policyOf(...rules) {
  const policy = await must('POST', '/ip_policies', {});
  policy.rules = [];
  for (const text of rules) policy.rules.push(await rule(policy, text));
  return policy;
}
const restricted = (policies, more = {}) => endpoint(up.address, { ip_restriction: { ip_policy_ids: policies.map(({ id }) => id) }, ...more });
const pathOf = (to) => `/edges/https/${to.edge.id}/routes/${to.route.id}`;
const from = (to, localAddress, options = {}) => through(to.host, '/', { ...options, tls: { localAddress, ...options.tls } });
const codeOf = ({ body }) => /ERR_POSTERN_\d+/.exec(body)?.[0];
const eventsOf = (host) => sub.events.filter(({ object }) => object.conn.server_name === host).map(({ object }) => object);
// Of the edge's metrics, all workers together.
const metric = async (pattern) => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(pattern)].reduce((sum, [, n]) => sum + Number(n), 0);
const denials = () => metric(/^postern_edge_module_denied_total\{module="ip_restriction"\} (\d+)/gm);
const streamsEnded = () => metric(/^postern_edge_streams_ended_total\{worker="\d+"\} (\d+)/gm);
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qXAtc', text], { encoding: 'utf8' }).trim();

// As many connections as reach every worker: what it is after a change it is at all of them.
async function everywhere(to, address, status) {
  const got = await Promise.all(Array.from({ length: 12 }, () => from(to, address)));
  assert.deepEqual([...new Set(got.map((one) => one.status))], [status], `from ${address}`);
}

// A denied request: nothing of it reaches the upstream.
async function isDenied(to, address, options) {
  up.seen.length = 0;
  const before = connections, got = await from(to, address, options);
  assert.equal(got.status, 403);
  assert.equal(codeOf(got), 'ERR_POSTERN_930');
  assert.deepEqual([up.seen.length, connections - before], [0, 0], 'the upstream hears nothing');
  return got;
}
async function isAllowed(to, address, options) {
  const got = await from(to, address, options);
  assert.equal(got.status, 200, `${address}: ${got.body}`);
  return got;
}

// what it says: [rules of each policy, addresses that may, addresses that may not]
for (const [what, policies, may, mayNot] of [
  ['a network is all of its addresses', [['allow 127.0.4.0/30']], ['127.0.4.0', '127.0.4.3'], ['127.0.3.255', '127.0.4.4', '127.0.0.1']],
  ['one address', [['allow 127.0.0.9/32']], ['127.0.0.9'], ['127.0.0.8', '127.0.0.1']],
  ['everybody', [['allow 0.0.0.0/0']], ['127.0.0.1', '127.255.255.254'], []],
  ['a denial wins over the network around it', [['allow 127.0.0.0/8', 'deny 127.0.5.0/24']], ['127.0.4.1', '127.0.6.1'], ['127.0.5.1']],
  ['a denial wins over the network within it', [['deny 127.0.0.0/16', 'allow 127.0.5.0/24', 'allow 127.1.0.0/16']], ['127.1.0.1'], ['127.0.5.1', '127.0.6.1']],
  ['who is only not denied may not', [['deny 127.0.5.0/24']], [], ['127.0.5.1', '127.0.6.1']],
  ['nobody may by an empty policy', [[]], [], ['127.0.0.1']],
  ['rules of several policies are one set: one allows', [['allow 127.0.4.0/24'], ['allow 127.0.5.0/24']], ['127.0.4.1', '127.0.5.1'], ['127.0.6.1']],
  ['rules of several policies are one set: one denies', [['allow 127.0.0.0/8'], ['deny 127.0.5.0/24'], []], ['127.0.4.1'], ['127.0.5.1']],
  ['IPv4 in IPv6 is IPv4', [['allow ::ffff:127.0.4.0/120']], ['127.0.4.1'], ['127.0.5.1']],
  ['all of IPv6 is not IPv4', [['allow ::/0']], [], ['127.0.4.1']],
])
  test(`${what}: ${policies.map((rules) => `{${rules.join(', ')}}`).join(' ')}`, { skip }, async () => {
    const to = await restricted(await Promise.all(policies.map((rules) => policyOf(...rules))));
    for (const address of may) await isAllowed(to, address);
    for (const address of mayNot) await isDenied(to, address);
  });

test('denied: page, event and metrics say so, and a body, an upgrade and HTTP/2 change nothing', { skip }, async () => {
  const to = await restricted([await policyOf('allow 127.0.4.0/24')]);
  const before = await denials();
  const html = await isDenied(to, '127.0.5.1', { headers: { Accept: 'text/html' } });
  assert.match(html.headers['content-type'], /^text\/html/);
  const json = await isDenied(to, '127.0.5.1', { method: 'POST', body: 'x'.repeat(300000) });
  assert.equal(JSON.parse(json.body).status_code, 403);
  await isDenied(to, '127.0.5.1', { headers: { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': crypto.randomBytes(16).toString('base64') } });
  const seen = connections, session = http2.connect(`https://${to.host}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, localAddress: '127.0.5.1', ALPNProtocols: ['h2'] }) });
  const status = await new Promise((resolve, reject) => { const one = session.request({ ':path': '/', ':authority': to.host }); one.on('response', (fields) => resolve(fields[':status'])).on('error', reject).resume(); });
  session.close();
  assert.deepEqual([status, connections - seen], [403, 0]);
  const events = await until(() => { const all = eventsOf(to.host); return all.length === 4 && all; }, 'four events');
  for (const event of events) {
    assert.equal(event.ip_policy.decision, 'block');
    assert.deepEqual(event.denied, { module: 'ip_restriction', route_id: to.route.id });
    assert.equal(event.conn.client_ip, '127.0.5.1');
    assert.equal(event.http.response.status_code, 403);
  }
  assert.equal(await denials(), before + 4);
});

test('allowed: the event says so; without the module, or with one that is off, it says nothing', { skip }, async () => {
  const to = await restricted([await policyOf('allow 127.0.0.0/8')]), plain = await endpoint(up.address);
  const decision = async (one, n) => (await until(() => eventsOf(one.host)[n], 'its event')).ip_policy.decision;
  await isAllowed(to, '127.0.0.1');
  assert.equal(await decision(to, 0), 'allow');
  await isAllowed(plain, '127.0.0.1');
  assert.equal(await decision(plain, 0), 'invalid');
  await must('PUT', `${pathOf(to)}/ip_restriction`, { enabled: false, ip_policy_ids: [(await policyOf()).id] }, 200);
  await isAllowed(to, '127.0.0.1');
  assert.equal(await decision(to, 1), 'invalid');
});

test('what a trusted proxy says of its client counts for nothing: the address is the connection\'s own', { skip }, async () => {
  const to = await restricted([await policyOf('allow 127.0.0.9/32')]), other = await restricted([await policyOf('allow 127.0.0.2/32')]);
  const headers = { 'X-Forwarded-For': '127.0.0.9', Forwarded: 'for=127.0.0.9', 'X-Real-IP': '127.0.0.9' };
  await isDenied(to, '127.0.0.2', { headers }); // of POSTERN_TRUSTED_PROXIES
  await isDenied(to, '127.0.0.1', { headers });
  await isAllowed(other, '127.0.0.2', { headers: { 'X-Forwarded-For': '203.0.113.1' } });
});

test('a change of a rule is in force at every worker when it is answered, also on connections that are open', { skip }, async () => {
  const policy = await policyOf('allow 127.0.4.0/24'), to = await restricted([policy]), second = await restricted([await policyOf(), policy]);
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, servername: to.host }), kept = () => from(to, '127.0.4.1', { agent });
  assert.equal((await kept()).status, 200);
  const check = async (status, four, five) => {
    assert.equal((await kept()).status, status);
    for (const one of [to, second]) { await everywhere(one, '127.0.4.1', four); await everywhere(one, '127.0.5.1', five); }
  };
  await check(200, 200, 403);
  await must('PATCH', `/ip_policy_rules/${policy.rules[0].id}`, { cidr: '127.0.5.0/24' });
  await check(403, 403, 200);
  const wide = await rule(policy, 'allow 127.0.0.0/8');
  await check(200, 200, 200);
  const deny = await rule(policy, 'deny 127.0.4.1/32');
  await check(403, 403, 200);
  await must('PATCH', `/ip_policy_rules/${deny.id}`, { description: 'another word for it' });
  await must('PATCH', `/ip_policies/${policy.id}`, { description: 'changes nothing' });
  await check(403, 403, 200);
  await must('DELETE', `/ip_policy_rules/${deny.id}`);
  await check(200, 200, 200);
  await must('DELETE', `/ip_policy_rules/${wide.id}`);
  await check(403, 403, 200);
  await must('PATCH', pathOf(to), { ip_restriction: { ip_policy_ids: [(await policyOf('allow 127.0.4.1/32')).id] } });
  assert.equal((await kept()).status, 200);
  await must('DELETE', `${pathOf(to)}/ip_restriction`);
  await everywhere(to, '127.0.6.1', 200);
  agent.destroy();
});

test('a policy that a route names stays; one that goes takes its rules from the edges', { skip }, async () => {
  const policy = await policyOf('allow 127.0.0.0/8', 'deny 127.0.5.0/24'), to = await restricted([policy]);
  const entries = () => sql(`SELECT count(*) FROM routes.config_entry WHERE doc IS NOT NULL AND id IN (${[policy, ...policy.rules].map(({ id }) => `'${id}'`)})`);
  const kept = await api('DELETE', `/ip_policies/${policy.id}`);
  assert.deepEqual([kept.status, kept.body.error_code], [409, 'ERR_POSTERN_142']);
  await isAllowed(to, '127.0.0.1');
  assert.equal(entries(), '3');
  await must('DELETE', `${pathOf(to)}/ip_restriction`);
  await must('DELETE', `/ip_policies/${policy.id}`);
  assert.equal(entries(), '0');
  await isAllowed(to, '127.0.5.1');
});

test('what names no policy, one that is not there or too many is refused, and nothing changes', { skip }, async () => {
  const policy = await policyOf('allow 127.0.4.0/24'), to = await restricted([policy]);
  for (const [ids, code] of [[[], 162], [[`ipp_${'0'.repeat(27)}`], 128], [[policy.rules[0].id], 127], [Array(101).fill(policy.id), 162], [[policy.id, policy.id], 162]]) {
    const answer = await api('PUT', `${pathOf(to)}/ip_restriction`, { ip_policy_ids: ids });
    assert.deepEqual([answer.status, answer.body.error_code], [400, `ERR_POSTERN_${code}`], answer.raw);
  }
  await isAllowed(to, '127.0.4.1');
  await isDenied(to, '127.0.5.1');
  const others = [];
  while (others.length < 99) others.push((await must('POST', '/ip_policies', {})).id);
  await must('PUT', `${pathOf(to)}/ip_restriction`, { ip_policy_ids: [...others, policy.id] }, 200);
  await isAllowed(to, '127.0.4.1');
  await isDenied(to, '127.0.5.1');
});

// An upstream that answers with 101, and with a pong to whatever is said then.
const ponging = () => tcpUpstream((socket) => {
  let head = '';
  socket.on('data', (part) => {
    if (head.endsWith('\r\n\r\n')) { socket.write(Buffer.from([0x8a, 0])); return; }
    head += part.toString('latin1');
    const key = /sec-websocket-key: (\S+)/i.exec(head)?.[1];
    if (head.endsWith('\r\n\r\n')) socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${crypto.createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')}\r\n\r\n`);
  });
});
const socketTo = (to, localAddress) => new Promise((resolve, reject) => {
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { ca, servername: to.host, localAddress, headers: { Host: to.host } });
  socket.on('open', () => { socket.removeAllListeners('error'); socket.on('error', () => {}); resolve(socket); }).on('error', reject);
});

test('a WebSocket of an address that a change denies ends before the change is answered; others go on', { skip }, async () => {
  const back = await ponging();
  const policies = await Promise.all([policyOf('allow 127.0.0.0/8'), policyOf(), policyOf(), policyOf()]);
  // by one policy, by two, and by more than a stream has keys for
  for (const [named, changed] of [[policies.slice(0, 1), 0], [policies.slice(0, 2), 1], [policies, 3]]) {
    const to = await endpoint(back.address, { ip_restriction: { ip_policy_ids: named.map(({ id }) => id) } });
    const four = await socketTo(to, '127.0.4.1'), five = await socketTo(to, '127.0.5.1');
    const before = await streamsEnded();
    let ended = 0;
    four.on('close', (code) => { ended = code; });
    const answer = await api('POST', '/ip_policy_rules', { ip_policy_id: policies[changed].id, action: 'deny', cidr: '127.0.4.0/24' });
    assert.equal(answer.status, 201, answer.raw);
    assert.equal(await streamsEnded(), before + 1, `by ${named.length} policies`);
    await until(() => ended, 'it is closed');
    assert.equal(ended, 1006);
    five.ping();
    await new Promise((resolve) => { five.on('pong', resolve); });
    five.terminate();
    await must('DELETE', `/ip_policy_rules/${answer.body.id}`);
  }
  await back.close();
});

test('policies of which the edge knows nothing deny everybody: 503; what a version before did not publish comes by itself', { skip }, async () => {
  const policy = await policyOf('allow 127.0.0.0/8', 'deny 127.0.5.0/24'), to = await restricted([policy]);
  await isAllowed(to, '127.0.0.1');
  // the policy's entry goes with the next change, and nobody notices that it is missing
  sql(`UPDATE routes.config_entry SET doc = NULL, revision = (SELECT revision + 1 FROM routes.config_head) WHERE id = '${policy.id}'`);
  await must('POST', '/ip_policies', {});
  up.seen.length = 0;
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, at = fs.statSync(log).size;
  const got = await until(async () => { const one = await from(to, '127.0.0.1'); return one.status === 503 && one; }, 'denied');
  assert.equal(codeOf(got), 'ERR_POSTERN_920');
  assert.match(fs.readFileSync(log).subarray(at).toString(), new RegExp(`IP policy ${policy.id} of route ${to.route.id} is not there, or a rule of it cannot be applied: denied`));
  const event = await until(() => eventsOf(to.host).find(({ http }) => http.response.status_code === 503), 'its event');
  assert.equal(event.ip_policy.decision, 'block');
  // as that version leaves rows: never published, with another network than edges have, deleted
  sql(`UPDATE routes.ip_policy SET published = NULL WHERE id = '${policy.id}'; UPDATE routes.ip_policy_rule SET cidr = '127.0.6.0/24' WHERE id = '${policy.rules[1].id}'; DELETE FROM routes.object WHERE id = '${policy.rules[0].id}'`);
  await until(async () => (await from(to, '127.0.0.1')).status === 403, 'the policy is there, and no rule allows anything');
  await rule(policy, 'allow 127.0.0.0/8');
  await until(async () => (await from(to, '127.0.5.1')).status === 200, 'the changed rule is there');
  await isDenied(to, '127.0.6.1');
});

test('IPv6: an edge that listens there judges IPv6 addresses by IPv6 rules', { skip, timeout: 280000 }, async () => {
  await own(async ({ state, run }) => {
    const begun = run('up', { settings: { POSTERN_EDGE_ADDRESS: '[::1]' } });
    assert.equal(begun.status, 0, begun.stdout + begun.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const call = async (method, path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method, headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${method} ${path}: ${got.status}`);
      return got.status === 204 ? undefined : got.json();
    };
    const host = 'six.test';
    await call('POST', '/reserved_domains', { domain: host });
    const policy = await call('POST', '/ip_policies', {}), backend = await call('POST', '/backends/http_response', { body: 'six' }), front = await call('POST', '/edges/https', { hostports: [`${host}:443`] });
    await call('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id }, ip_restriction: { ip_policy_ids: [policy.id] } });
    const status = () => new Promise((resolve, reject) => {
      https.get({ host: '::1', port: edge.port + 1000, servername: host, ca: fs.readFileSync(vars.POSTERN_EDGE_CA), headers: { Host: host }, agent: false }, (answer) => { answer.resume(); resolve(answer.statusCode); }).on('error', reject);
    });
    assert.equal(await status(), 403);
    await call('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '0.0.0.0/0' });
    assert.equal(await status(), 403, 'all of IPv4 is not IPv6');
    const six = await call('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '::/64' });
    assert.equal(await status(), 200);
    await call('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action: 'deny', cidr: '::1/128' });
    assert.equal(await status(), 403);
    await call('DELETE', `/ip_policy_rules/${six.id}`);
    assert.equal(await status(), 403);
  });
});
