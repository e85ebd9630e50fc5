// Configuration of every route module, changed many times under load: no connection ends, each answer is wholly of one version, and of none that was
// replaced before its request began, and workers are the same processes.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { kept, REQUESTS } from '../support/kept.mjs';
import { WebSocket, ca, edge, elsewhere, tcpUpstream, unique, until, upstream } from '../support/postern.mjs';
import { workers } from '../model/workers.mjs';

const CHANGES = Number(process.env.CHANGES_EACH || 40); // of each module
const LONG = 'a text that is worth encoding '.repeat(20);

const up = await upstream(({ headers, method }, response, body) => {
  response.writeHead(200, { 'X-Upstream': 'yes', 'Content-Type': 'application/json' });
  response.end(JSON.stringify({ headers, method, body: body.toString(), LONG }));
});
const echo = await tcpUpstream((socket) => socket.on('data', (bytes) => socket.write(bytes)));
test.after(() => Promise.all([up.close(), echo.close()]));

// ---- what is there ----

const self = account('changes'), other = account('changes, restricted');
async function front(who) {
  const host = unique('changes');
  await who.must('POST', '/reserved_domains', { domain: host });
  return { host, path: `/edges/https/${(await who.must('POST', '/edges/https', { hostports: [`${host}:443`] })).id}` };
}
const backendOf = async (who, kind, document) => (await who.must('POST', `/backends/${kind}`, document)).id;
const policyOf = async (who, ...rules) => {
  const { id } = await who.must('POST', '/ip_policies', {});
  for (const cidr of rules) await who.must('POST', '/ip_policy_rules', { ip_policy_id: id, action: 'allow', cidr });
  return id;
};
const at = { backend: {}, policy: {} };
if (!elsewhere) {
  const { backend, policy } = at;
  backend.up = await backendOf(self, 'static', { address: up.address });
  backend.tcp = await backendOf(self, 'static', { address: echo.address });
  backend.dead = await backendOf(self, 'static', { address: '127.0.0.1:1' });
  backend.fixed = await backendOf(self, 'http_response', { body: LONG });
  backend.failing = await backendOf(self, 'http_response', { body: 'fails', status_code: 500 });
  backend.changing = await backendOf(self, 'http_response', { body: '0', headers: { 'x-body': '0' } });
  backend.weighted = await backendOf(self, 'weighted', { backends: { [backend.fixed]: 1, [backend.up]: 0 } });
  backend.shared = await backendOf(self, 'weighted', { backends: { [backend.fixed]: 1, [backend.up]: 0 } });
  backend.failover = await backendOf(self, 'failover', { backends: [backend.dead, backend.fixed] });
  backend.tunnel_group = await backendOf(self, 'tunnel_group', { labels: { story: 'changes' } });
  policy.us = await policyOf(self, '127.0.0.0/8');
  policy.nobody = await policyOf(self);
}

// ---- what changes ----

const code = (got) => /ERR_POSTERN_(\d+)/.exec(got.body)?.[1];
const is = (got, status, page, what) => assert.deepEqual([got.status, code(got)], [status, page], what);
const isUpstream = (got) => { assert.equal(got.status, 200); return JSON.parse(got.body).headers; };
const isFixed = (got) => { is(got, 200, undefined); assert.ok(got.body === LONG, got.body); };
const BODY = '{"signed":true}', signedBy = (secret) => ({ 'X-Hub-Signature-256': `sha256=${crypto.createHmac('sha256', secret).update(BODY).digest('hex')}` });
const KINDS = ['up', 'fixed', 'weighted', 'failover', 'tunnel_group', 'failing'];

// Each: to (its backend), modules(n) of version n, sent (the request), judge(got, n): is this the answer of version n? The version stands in a header
// of the answer, on pages, too. What denies stands before a backend that answers at once: nothing is in the middle of an answer when it is denied.
const SUBJECTS = {
  request_headers: {
    to: 'up', modules: (n) => ({ request_headers: { add: { 'x-seen': `${n}`, 'x-again': `${n}` }, remove: n % 2 ? ['x-client'] : [] } }),
    judge: (got, n) => { const seen = isUpstream(got); assert.deepEqual([seen['x-seen'], seen['x-again'], seen['x-client']], [`${n}`, `${n}`, n % 2 ? undefined : 'here']); },
  },
  response_headers: {
    to: 'up', modules: (n) => ({ response_headers: { add: { 'x-version': `${n}`, 'x-again': `${n}` }, remove: n % 2 ? ['x-upstream'] : [] } }),
    judge: (got, n) => { isUpstream(got); assert.deepEqual([got.headers['x-again'], got.headers['x-upstream']], [`${n}`, n % 2 ? undefined : 'yes']); },
  },
  compression: {
    to: 'up', modules: (n) => ({ compression: { enabled: n % 2 === 1 }, request_headers: { add: { 'x-seen': `${n}` } } }), sent: { headers: { 'Accept-Encoding': 'gzip' } },
    judge: (got, n) => { assert.equal(isUpstream(got)['x-seen'], `${n}`); assert.deepEqual([got.headers['content-encoding'], got.headers.vary], n % 2 ? ['gzip', 'Accept-Encoding'] : [undefined, undefined]); },
  },
  backend: {
    to: 'fixed', modules: (n) => ({ backend: { backend_id: at.backend[KINDS[n % KINDS.length]] } }),
    judge: (got, n) => {
      const kind = KINDS[n % KINDS.length];
      if (kind === 'up') isUpstream(got);
      else if (kind === 'tunnel_group') is(got, 503, '903');
      else if (kind === 'failing') is(got, 500, undefined);
      else isFixed(got);
    },
    // what dialled its first member, which a busy kernel refuses a moment later, when the route got a backend that nobody serves: that ends it
    excused: (got, asked) => got.status === 503 && code(got) === '903' && KINDS[got.headers['x-version'] % KINDS.length] === 'failover' && asked > Number(got.headers['x-version']),
  },
  ip_restriction: {
    to: 'fixed', modules: (n) => ({ ip_restriction: { ip_policy_ids: [n % 2 ? at.policy.nobody : at.policy.us] } }),
    judge: (got, n) => (n % 2 ? is(got, 403, '930') : isFixed(got)),
  },
  user_agent_filter: {
    to: 'fixed', modules: (n) => ({ user_agent_filter: { allow: [`^never ${n}$`], deny: [n % 2 ? '^even$' : '^odd$', `^${n}$`] } }), sent: { headers: { 'User-Agent': 'even' } },
    judge: (got, n) => (n % 2 ? is(got, 403, '922') : isFixed(got)),
  },
  webhook_verification: {
    to: 'fixed', modules: (n) => ({ webhook_verification: { provider: 'github', secret: `s${n % 2}` } }), sent: { method: 'POST', body: BODY, headers: signedBy('s0') },
    judge: (got, n) => (n % 2 ? is(got, 403, '924') : isFixed(got)),
    excused: (got) => got.status === 503 && code(got) === '925', // what waited for its body when the secret changed
  },
  circuit_breaker: {
    to: 'failing', modules: (n) => ({ circuit_breaker: { error_threshold_percentage: 1, volume_threshold: n % 2 ? 1 : 4294967295, tripped_duration: 86400, rolling_window: 1000 + n } }),
    judge: (got, n) => (n % 2 && got.status === 503 ? is(got, 503, '923') : is(got, 500, undefined)),
  },
  websocket_tcp_converter: {
    to: 'fixed', modules: (n) => ({ websocket_tcp_converter: { enabled: n % 2 === 1 } }),
    judge: (got, n) => (n % 2 ? is(got, 400, '940') : isFixed(got)),
  },
  // entries of their own, which routes refer to: their version is in what they say
  http_response: {
    to: 'changing', change: (n) => self.must('PATCH', `/backends/http_response/${at.backend.changing}`, { body: `${n}`, headers: { 'x-version': `${n}`, 'x-body': `${n}` } }),
    judge: (got, n) => assert.deepEqual([got.status, got.body, got.headers['x-body']], [200, `${n}`, `${n}`]),
  },
  members: {
    to: 'shared', change: (n) => self.must('PATCH', `/backends/weighted/${at.backend.shared}`, { backends: { [at.backend.fixed]: n % 2, [at.backend.up]: 1 - (n % 2) } }),
    judge: (got) => assert.equal(got.status, 200, got.body), unversioned: true,
  },
  ip_restrictions: {
    who: other, to: 'restricted', change: (n) => other.must('PATCH', `/ip_restrictions/${at.restriction}`, { enforced: n % 2 === 1 }),
    judge: (got) => (got.status === 200 ? isFixed(got) : is(got, 403, '931')), unversioned: true,
  },
};

// One subject's route, its changes, and clients of both protocols that ask as long as it changes.
async function under({ who = self, to, modules, change, sent = {}, judge, excused = () => false, unversioned }, name) {
  const { host, path } = await front(who), seen = new Set();
  const versioned = (n) => ({ response_headers: { add: { 'x-version': `${n}` } }, ...modules(n) });
  const route = await who.must('POST', `${path}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: at.backend[to] }, ...(modules && versioned(0)) });
  const next = change ?? ((n) => who.must('PATCH', `${path}/routes/${route.id}`, versioned(n)));
  await next(0);
  let answered = 0, asked = 0, over = false, answers = 0;
  const headers = { 'X-Client': 'here', 'User-Agent': 'story', ...sent.headers };
  const clients = Object.entries(kept).map(async ([protocol, connect]) => {
    let client = connect(host);
    try {
      for (let i = 1; !over; i++) {
        if (i % REQUESTS === 0) {
          assert.deepEqual(client.lost, []);
          client.close();
          client = connect(host);
        }
        const from = answered, got = await client.ask({ ...sent, headers }), n = Number(got.headers['x-version']);
        answers++;
        if (excused(got, asked)) continue;
        if (!unversioned) {
          assert.ok(n >= from && n <= asked, `${name}, ${protocol}: version ${n} of a request that began after ${from} was answered, before ${asked + 1} was asked for`);
          seen.add(n);
        }
        judge(got, n);
      }
      assert.deepEqual(client.lost, [], `${name}, ${protocol}`);
    } catch (error) {
      error.message = `${name}, ${protocol}, after ${answered} changes: ${error.message} ${client.lost}`;
      throw error;
    } finally {
      client.close();
    }
  });
  const changes = async () => {
    await until(() => answers >= 4, `${name}: answers before the first change`, 120000);
    for (let n = 1; n <= CHANGES; n++) { asked = n; await next(n); answered = n; }
  };
  await Promise.all([...clients, changes().finally(() => { over = true; })]);
  if (!unversioned) assert.ok(seen.size > 1, `${name}: several versions were seen`);
  return answers;
}

test(`${CHANGES} changes of each module under load: no connection ends, and no answer is of two versions`, { skip: elsewhere, timeout: 3600000 }, async () => {
  at.backend.restricted = await backendOf(other, 'http_response', { body: LONG });
  at.restriction = (await other.must('POST', '/ip_restrictions', { type: 'endpoints', enforced: false, ip_policy_ids: [await policyOf(other)] })).id;
  // a WebSocket to TCP is open while all else of its route changes
  const { host, path } = await front(self);
  const route = await self.must('POST', `${path}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: at.backend.tcp }, websocket_tcp_converter: {} });
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/`, { ca, servername: host, headers: { Host: host, 'User-Agent': 'story' } }), got = [];
  let ended;
  socket.on('message', (bytes) => got.push(bytes.toString())).on('close', (why) => { ended = why; }).on('error', (error) => { ended = error.message; });
  await until(() => socket.readyState === WebSocket.OPEN, 'the WebSocket');

  const before = workers();
  const all = await Promise.all([
    ...Object.entries(SUBJECTS).map(([name, subject]) => under(subject, name)),
    (async () => {
      for (let n = 1; n <= CHANGES; n++) {
        await self.must('PATCH', `${path}/routes/${route.id}`, { websocket_tcp_converter: {}, response_headers: { add: { 'x-version': `${n}` } }, user_agent_filter: { deny: [`^${n}$`] },
          compression: {}, ip_restriction: { ip_policy_ids: [at.policy.us] }, request_headers: { add: { 'x-version': `${n}` } } });
        socket.send(Buffer.from(`${n}.`));
        await until(() => ended || got.join('').endsWith(`${n}.`), `the WebSocket carries ${n}`);
      }
      return 0;
    })(),
  ]);
  assert.deepEqual([ended, got.join('').split('.').length - 1], [undefined, CHANGES]);
  socket.terminate();
  assert.deepEqual(workers(), before, 'the same workers');
  console.log(`changes: ${CHANGES} of each of ${Object.keys(SUBJECTS).length} subjects, ${all.reduce((sum, n) => sum + n, 0)} answers`);
});
