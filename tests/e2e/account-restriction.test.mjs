// An ip_restriction of type endpoints: who may use any edge of its account, from the moment at which a change is answered.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { account } from '../support/account.mjs';
import { WebSocket, ca, edge, elsewhere, env, listening, tcpUpstream, through, unique, until, upstream } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const skip = elsewhere; // who connects is an address of this machine
const up = await upstream();
let connections = 0;
up.server.on('connection', () => connections++);
const sub = await listening('http_request_complete');
test.after(() => up.close());

const metric = async (pattern) => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(pattern)].reduce((sum, [, n]) => sum + Number(n), 0);
const counted = (name) => metric(new RegExp(`^postern_edge_module_${name}_total\\{module="ip_restriction"\\} (\\d+)`, 'gm'));
const streamsEnded = () => metric(/^postern_edge_streams_ended_total\{worker="\d+"\} (\d+)/gm);
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qXAtc', text], { encoding: 'utf8' }).trim();
const from = (host, localAddress, options = {}) => through(host, options.target ?? '/', { ...options, tls: { localAddress, ...options.tls } });
const codeOf = ({ body }) => /ERR_POSTERN_\d+/.exec(body)?.[0];
const eventsOf = (host) => sub.events.filter(({ object }) => object.conn.server_name === host).map(({ object }) => object);

// An account with as many edges as are asked for; each has a route for /, or for the match that is given.
async function withEdges(count = 1, { address = up.address, match = '/', modules = {} } = {}) {
  const self = account(), hosts = [], routes = [];
  const backend = await self.must('POST', '/backends/static', { address });
  for (let i = 0; i < count; i++) {
    const host = unique('restricted');
    await self.must('POST', '/reserved_domains', { domain: host });
    const front = await self.must('POST', '/edges/https', { hostports: [`${host}:443`] });
    const route = await self.must('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match, backend: { backend_id: backend.id }, ...modules });
    hosts.push(host);
    routes.push({ ...route, path: `/edges/https/${front.id}/routes/${route.id}` });
  }
  const rule = (policy, text) => { const [action, cidr] = text.split(' '); return self.must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action, cidr }); };
  const policy = async (...rules) => {
    const made = await self.must('POST', '/ip_policies', {});
    made.rules = [];
    for (const text of rules) made.rules.push(await rule(made, text));
    return made;
  };
  const restrict = (policies, enforced = true) => self.must('POST', '/ip_restrictions', { type: 'endpoints', enforced, ip_policy_ids: policies.map(({ id }) => id) });
  return { ...self, hosts, host: hosts[0], routes, rule, policy, restrict };
}

// As many connections as reach every worker: what it is after a change it is at all of them.
async function everywhere(host, address, status) {
  const got = await Promise.all(Array.from({ length: 12 }, () => from(host, address)));
  assert.deepEqual([...new Set(got.map((one) => one.status))], [status], `${host} from ${address}`);
}
async function isDenied(host, address, options) {
  up.seen.length = 0;
  const before = connections, got = await from(host, address, options);
  assert.equal(got.status, 403, `${address}: ${got.body}`);
  assert.equal(codeOf(got), 'ERR_POSTERN_931');
  assert.deepEqual([up.seen.length, connections - before], [0, 0], 'the upstream hears nothing');
  return got;
}
const isAllowed = async (host, address) => { const got = await from(host, address); assert.equal(got.status, 200, `${address}: ${got.body}`); return got; };

// what it says: [rules of each policy, addresses that may, addresses that may not]
for (const [what, policies, may, mayNot] of [
  ['a network is all of its addresses', [['allow 127.0.4.0/30']], ['127.0.4.3'], ['127.0.4.4', '127.0.0.1']],
  ['a denial wins', [['allow 127.0.0.0/8', 'deny 127.0.5.0/24']], ['127.0.4.1'], ['127.0.5.1']],
  ['who is only not denied may not', [['deny 127.0.5.0/24']], [], ['127.0.5.1', '127.0.6.1']],
  ['nobody may by an empty policy', [[]], [], ['127.0.0.1']],
  ['policies unite: one allows', [['allow 127.0.4.0/24'], ['allow 127.0.5.0/24']], ['127.0.4.1', '127.0.5.1'], ['127.0.6.1']],
  ['policies unite: one denies', [['allow 127.0.0.0/8'], ['deny 127.0.5.0/24']], ['127.0.4.1'], ['127.0.5.1']],
])
  test(`${what}: ${policies.map((rules) => `{${rules.join(', ')}}`).join(' ')}`, { skip }, async () => {
    const to = await withEdges(2);
    await to.restrict(await Promise.all(policies.map((rules) => to.policy(...rules))));
    for (const host of to.hosts) {
      for (const address of may) await isAllowed(host, address);
      for (const address of mayNot) await isDenied(host, address);
    }
  });

test('denied: before the routes and their modules, with page, event and counters, however it comes', { skip }, async () => {
  const to = await withEdges(1, { match: '/known', modules: { user_agent_filter: { allow: [], deny: ['.'] } } });
  const { id } = await to.restrict([await to.policy('allow 127.0.4.0/24')]);
  const before = await counted('denied'), own = await counted('account_denied');
  const html = await isDenied(to.host, '127.0.5.1', { target: '/known', headers: { Accept: 'text/html' } });
  assert.match(html.headers['content-type'], /^text\/html/);
  const json = await isDenied(to.host, '127.0.5.1', { target: '/unknown', method: 'POST', body: 'x'.repeat(300000) });
  assert.deepEqual([JSON.parse(json.body).status_code, JSON.parse(json.body).error_code], [403, 'ERR_POSTERN_931']);
  await isDenied(to.host, '127.0.5.1', { target: '/unknown%2f../x' }); // which is 400 for who may
  await isDenied(to.host, '127.0.5.1', { target: '/known', headers: { 'X-Forwarded-For': '127.0.4.1', Forwarded: 'for=127.0.4.1', 'X-Real-IP': '127.0.4.1' } });
  await isDenied(to.host, '127.0.5.1', { target: '/known', headers: { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': crypto.randomBytes(16).toString('base64') } });
  const session = http2.connect(`https://${to.host}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, localAddress: '127.0.5.1', ALPNProtocols: ['h2'] }) });
  const status = await new Promise((resolve, reject) => { const one = session.request({ ':path': '/known', ':authority': to.host }); one.on('response', (fields) => resolve(fields[':status'])).on('error', reject).resume(); });
  session.close();
  assert.equal(status, 403);
  const events = await until(() => { const all = eventsOf(to.host); return all.length === 6 && all; }, 'six events');
  for (const event of events) {
    assert.deepEqual(event.ip_policy, { decision: 'block', restriction_id: id });
    assert.deepEqual(event.denied, { module: 'ip_restriction', route_id: '' });
    assert.equal(event.conn.client_ip, '127.0.5.1');
    assert.equal(event.http.response.status_code, 403);
  }
  for (const { event_type: type, account_id: whose } of sub.events.filter(({ object }) => object.conn.server_name === to.host)) assert.deepEqual([type, whose], ['http_request_complete.v0', to.id]);
  assert.deepEqual([await counted('denied') - before, await counted('account_denied') - own], [6, 6]);
  // who may gets what the routes say
  assert.equal((await from(to.host, '127.0.4.1', { target: '/unknown' })).status, 404);
  assert.equal((await from(to.host, '127.0.4.1', { target: '/unknown%2f../x' })).status, 400);
  const got = await from(to.host, '127.0.4.1', { target: '/known', headers: { 'User-Agent': 'x' } });
  assert.equal(codeOf(got), 'ERR_POSTERN_922');
  const last = await until(() => eventsOf(to.host).find(({ http }) => http.request.url.path === '/known' && http.request.headers['User-Agent']?.[0] === 'x'), 'its event');
  assert.deepEqual([last.ip_policy.decision, last.denied.module, last.ip_policy.restriction_id], ['allow', 'user_agent_filter', '']);
});

test('plain HTTP tells who may not as little', { skip }, async () => {
  const to = await withEdges();
  await to.restrict([await to.policy('allow 127.0.4.0/24')]);
  const plain = (localAddress) => new Promise((resolve, reject) => {
    http.get({ host: edge.plainHost, port: edge.plainPort, path: '/x', headers: { Host: to.host }, localAddress, agent: false }, (answer) => {
      let body = '';
      answer.setEncoding('utf8').on('data', (part) => { body += part; }).on('end', () => resolve({ status: answer.statusCode, body }));
    }).on('error', reject);
  });
  assert.equal((await plain('127.0.4.1')).status, 301);
  const denied = await plain('127.0.5.1');
  assert.deepEqual([denied.status, codeOf(denied)], [403, 'ERR_POSTERN_931']);
});

test("a route's own ip_restriction judges whom that of the account admits", { skip }, async () => {
  const to = await withEdges();
  const wide = await to.policy('allow 127.0.0.0/8', 'deny 127.0.5.0/24');
  await to.restrict([wide]);
  await to.must('PUT', `${to.routes[0].path}/ip_restriction`, { ip_policy_ids: [(await to.policy('allow 127.0.4.0/23')).id] });
  await isAllowed(to.host, '127.0.4.1');
  await isDenied(to.host, '127.0.5.1');
  const got = await from(to.host, '127.0.6.1');
  assert.equal(codeOf(got), 'ERR_POSTERN_930');
  const event = await until(() => eventsOf(to.host).find(({ conn }) => conn.client_ip === '127.0.6.1'), 'its event'); // workers' events come in any order
  assert.deepEqual([event.ip_policy.decision, event.denied], ['block', { module: 'ip_restriction', route_id: to.routes[0].id }]);
});

test('one that is not enforced denies nobody, and the log says whom it would', { skip }, async () => {
  const to = await withEdges(), policy = await to.policy('allow 127.0.4.0/24');
  const { id } = await to.restrict([policy], false);
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, at = fs.statSync(log).size, told = await counted('account_would_deny');
  await isAllowed(to.host, '127.0.5.1');
  assert.equal((await until(() => eventsOf(to.host)[0], 'its event')).ip_policy.decision, 'invalid');
  assert.equal(await counted('account_would_deny'), told + 1);
  assert.equal((await to.must('PATCH', `/ip_restrictions/${id}`, { enforced: true })).enforced, true);
  await everywhere(to.host, '127.0.5.1', 403);
  await everywhere(to.host, '127.0.4.1', 200);
  await to.must('PATCH', `/ip_restrictions/${id}`, { enforced: false });
  await everywhere(to.host, '127.0.5.1', 200);
  assert.match(fs.readFileSync(log).subarray(at).toString(), new RegExp(`IP restriction ${id} of the account would deny the connection's address: it is not enforced`));
});

test('another account is not concerned, whatever this one does', { skip }, async () => {
  const [to, other] = await Promise.all([withEdges(), withEdges()]);
  const policy = await to.policy(), own = await other.policy('allow 127.0.5.0/24');
  await to.restrict([policy]);
  await everywhere(other.host, '127.0.4.1', 200);
  await isDenied(to.host, '127.0.4.1');
  await other.restrict([own]);
  await everywhere(other.host, '127.0.5.1', 200);
  await everywhere(other.host, '127.0.4.1', 403);
  const foreign = await to.api('PATCH', `/ip_restrictions/${(await to.must('GET', '/ip_restrictions')).ip_restrictions[0].id}`, { ip_policy_ids: [own.id] });
  assert.deepEqual([foreign.status, foreign.body.error_code], [400, 'ERR_POSTERN_128'], foreign.raw);
});

test('a change is in force at every worker when it is answered, on edges of the account that come later too', { skip }, async () => {
  const to = await withEdges(2), policy = await to.policy('allow 127.0.4.0/24'), restriction = await to.restrict([policy]);
  const check = async (four, five) => { for (const host of to.hosts) { await everywhere(host, '127.0.4.1', four); await everywhere(host, '127.0.5.1', five); } };
  await check(200, 403);
  const wide = await to.rule(policy, 'allow 127.0.5.0/24');
  await check(200, 200);
  const deny = await to.rule(policy, 'deny 127.0.4.0/25');
  await check(403, 200);
  await to.must('DELETE', `/ip_policy_rules/${deny.id}`);
  await to.must('DELETE', `/ip_policy_rules/${wide.id}`);
  await check(200, 403);
  const five = await to.policy('allow 127.0.5.0/24');
  await to.must('PATCH', `/ip_restrictions/${restriction.id}`, { ip_policy_ids: [five.id] });
  await check(403, 200);
  const late = unique('restricted');
  await to.must('POST', '/reserved_domains', { domain: late });
  await to.must('POST', '/edges/https', { hostports: [`${late}:443`] });
  await everywhere(late, '127.0.4.1', 403);
  await everywhere(late, '127.0.5.1', 404);
  const kept = await to.api('DELETE', `/ip_policies/${five.id}`);
  assert.deepEqual([kept.status, kept.body.error_code], [409, 'ERR_POSTERN_142'], 'a policy that it names stays');
  await to.must('DELETE', `/ip_restrictions/${restriction.id}`);
  await check(200, 200);
  await to.must('DELETE', `/ip_policies/${five.id}`);
  await check(200, 200);
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
const socketTo = (host, localAddress) => new Promise((resolve, reject) => {
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { ca, servername: host, localAddress, headers: { Host: host } });
  socket.on('open', () => { socket.removeAllListeners('error'); socket.on('error', () => {}); resolve(socket); }).on('error', reject);
});

test('a WebSocket whose address a change denies ends before the change is answered; others go on', { skip }, async () => {
  const back = await ponging();
  const to = await withEdges(2, { address: back.address }), other = await withEdges(1, { address: back.address });
  const policy = await to.policy('allow 127.0.0.0/8'), bare = await to.policy();
  let restriction;
  const steps = [
    // a rule of a policy that it names; the restriction itself, made, enforced, and with another policy
    ['made', async () => { restriction = await to.restrict([await to.policy('allow 127.0.5.0/24')]); }, async () => to.must('DELETE', `/ip_restrictions/${restriction.id}`)],
    ['a rule', async () => { policy.deny = await to.rule(policy, 'deny 127.0.4.0/24'); }, async () => to.must('DELETE', `/ip_policy_rules/${policy.deny.id}`), async () => { restriction = await to.restrict([bare, policy]); }],
    ['other policies', async () => to.must('PATCH', `/ip_restrictions/${restriction.id}`, { ip_policy_ids: [(await to.policy('allow 127.0.5.0/24')).id] }), async () => to.must('PATCH', `/ip_restrictions/${restriction.id}`, { enforced: false })],
    ['enforced', async () => to.must('PATCH', `/ip_restrictions/${restriction.id}`, { enforced: true }), async () => {}],
  ];
  for (const [what, change, undo, prepare] of steps) {
    await prepare?.();
    const [first, second, kept, foreign] = await Promise.all([socketTo(to.hosts[0], '127.0.4.1'), socketTo(to.hosts[1], '127.0.4.1'), socketTo(to.host, '127.0.5.1'), socketTo(other.host, '127.0.4.1')]);
    const before = await streamsEnded(), closed = [];
    for (const socket of [first, second]) socket.on('close', (code) => closed.push(code));
    await change();
    assert.equal(await streamsEnded(), before + 2, what);
    await until(() => closed.length === 2, 'they are closed');
    assert.deepEqual(closed, [1006, 1006]);
    for (const socket of [kept, foreign]) {
      socket.ping();
      await new Promise((resolve) => { socket.on('pong', resolve); });
      socket.terminate();
    }
    await undo();
  }
  await back.close();
});

test('a policy of which the edge knows nothing denies everybody; what a version before wrote comes by itself', { skip }, async () => {
  const to = await withEdges(), other = await withEdges(), policy = await to.policy('allow 127.0.0.0/8'), restriction = await to.restrict([policy]);
  await isAllowed(to.host, '127.0.0.1');
  // the policy's entry goes with the next change, and nobody notices that it is missing
  sql(`UPDATE routes.config_entry SET doc = NULL, revision = (SELECT revision + 1 FROM routes.config_head) WHERE id = '${policy.id}'`);
  await other.policy();
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, at = fs.statSync(log).size;
  const got = await until(async () => { const one = await from(to.host, '127.0.0.1'); return one.status === 503 && one; }, 'denied');
  assert.equal(codeOf(got), 'ERR_POSTERN_920');
  assert.match(fs.readFileSync(log).subarray(at).toString(), new RegExp(`IP restriction ${restriction.id} of the account, or IP policy ${policy.id} of it, is not there or cannot be applied: denied`));
  const event = await until(() => eventsOf(to.host).find(({ http: said }) => said.response.status_code === 503), 'its event');
  assert.deepEqual([event.ip_policy.decision, event.ip_policy.restriction_id], ['block', restriction.id]);
  await isAllowed(other.host, '127.0.0.1');
  // as that version leaves rows: never published, or with other policies than edges have
  const five = await to.policy('allow 127.0.5.0/24');
  sql(`UPDATE routes.ip_policy SET published = NULL WHERE id = '${policy.id}'; UPDATE routes.ip_restriction SET ip_policy_ids = '["${five.id}"]' WHERE id = '${restriction.id}'`);
  await until(async () => (await from(to.host, '127.0.0.1')).status === 403, 'the other policy is in force');
  await isAllowed(to.host, '127.0.5.1');
  sql(`UPDATE routes.ip_restriction SET enforced = false WHERE id = '${restriction.id}'`); // the way back in that services/gateway/README.md names
  await until(async () => (await from(to.host, '127.0.0.1')).status === 200, 'nothing is enforced');
  // deleted by that version
  await to.must('PATCH', `/ip_restrictions/${restriction.id}`, { enforced: true });
  await isDenied(to.host, '127.0.0.1');
  sql(`DELETE FROM routes.object WHERE id = '${restriction.id}'`);
  await until(async () => (await from(to.host, '127.0.0.1')).status === 200, 'it is gone');
});

test('an edge that begins from its disk, with the config log silent, enforces it', { skip, timeout: 280000 }, async () => {
  const to = await withEdges(), pidOf = (name) => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')); } catch { return 0; } };
  await to.restrict([await to.policy('allow 127.0.4.0/24')]);
  const before = pidOf('edge'), workers = () => children(pidOf('edge'));
  process.kill(pidOf('routes'), 'SIGSTOP');
  try {
    process.kill(-before, 'SIGKILL');
    await until(() => ![0, before].includes(pidOf('edge')) && workers().length >= 2, 'a new edge', 120000);
    await until(() => from(to.host, '127.0.4.1').then(({ status }) => status === 200, () => false), 'it serves', 120000);
    await everywhere(to.host, '127.0.5.1', 403);
    await everywhere(to.host, '127.0.4.1', 200);
  } finally {
    process.kill(pidOf('routes'), 'SIGCONT');
  }
  await until(() => to.api('POST', '/ip_policies', {}).then(({ headers }) => headers['postern-edges'] === '2/2'), 'changes are in force again', 120000);
});
