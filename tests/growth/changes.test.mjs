// Changes of modules leave nothing behind: GROWTH_CHANGES of them, on routes that are there all along and under load, and then the edge has the memory that
// it had after a tenth of them, and the same processes. `make growth` has 100,000, and tells nothing but that; the gate has 5,000.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { kept, REQUESTS } from '../support/kept.mjs';
import { edge, elsewhere, env, unique, until, upstream } from '../support/postern.mjs';
import { helpers, pidOf, workers } from '../model/workers.mjs';

const CHANGES = Number(process.env.GROWTH_CHANGES || 5000), CLIENTS = 8, ROUTES = 16;
const SHARE = 1.02; // what may be more
const ROOM = CHANGES < 100000 ? 1024 : 0; // kB of a process: allocators that have not seen much yet
const LIMIT = 60000;
const skip = elsewhere || (process.env.ASAN_OPTIONS ? 'a sanitizer keeps what is freed' : false);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- changes ----

const self = skip ? undefined : account('growth of changes');
const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS });
test.after(() => agent.destroy());
const url = new URL(env.POSTERN_API_URL);
const patch = (path, body) => new Promise((resolve, reject) => {
  const text = JSON.stringify(body);
  const request = http.request({
    host: url.hostname, port: url.port, method: 'PATCH', path, agent,
    headers: { Authorization: `Bearer ${self.token}`, 'Service-Version': '2', 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) },
  }, (response) => {
    const parts = [];
    response.on('data', (part) => parts.push(part));
    response.on('end', () => (response.statusCode === 200 ? resolve(response.headers) : reject(new Error(`PATCH ${path}: ${response.statusCode} ${Buffer.concat(parts)}`))));
  });
  request.on('error', reject);
  request.end(text);
});

// What a change n makes of a module. Sizes and values repeat: what there is after any number of changes is the same in kind. A breaker is a place in memory of
// a fixed size, by the values that it was asked under, so that values which never come again would fill that and say nothing.
const text = (n, max) => 'x'.repeat((n * 7919) % max);
const MODULES = {
  request_headers: (n) => ({ add: { 'x-version': `${n}`, 'x-text': text(n, 500) }, remove: [`x-${n % 9}`] }),
  response_headers: (n) => ({ add: { 'x-version': `${n}`, 'x-text': text(n, 500) }, remove: [`x-${n % 9}`] }),
  user_agent_filter: (n) => ({ allow: ['^load'], deny: Array.from({ length: 1 + (n % 20) }, (_, i) => `(?i)bot-${n}-${i}[a-z]+/[0-9.]+`) }),
  ip_restriction: (n, { policies }) => ({ ip_policy_ids: n % 2 ? policies : policies.slice(0, 1) }),
  circuit_breaker: (n) => ({ error_threshold_percentage: 1, volume_threshold: 4294967295, rolling_window: 60 + (n % 16) }),
  webhook_verification: (n) => ({ enabled: n % 2 === 1, provider: ['github', 'gitlab', 'slack', 'stripe'][n % 4], secret: `s${n}${text(n, 200)}` }),
  websocket_tcp_converter: (n) => ({ enabled: n % 2 === 1 }),
  compression: (n) => ({ enabled: n % 2 === 1 }),
  backend: (n, { backends }) => ({ backend_id: backends[n % backends.length] }),
  traffic_policy: (n) => ({ enabled: n % 8 === 0, value: '{"on_http_request":[]}'.padEnd((n * 7919) % 2000) }),
};
const NAMES = Object.keys(MODULES);

async function make() {
  const up = await upstream((request, response) => response.end('of an upstream'));
  const host = unique('growth-changes'), id = async (path, body) => (await self.must('POST', path, body)).id;
  await self.must('POST', '/reserved_domains', { domain: host });
  const front = `/edges/https/${await id('/edges/https', { hostports: [`${host}:443`] })}`;
  const policies = [await id('/ip_policies', {}), await id('/ip_policies', {})];
  for (const policy of policies) await id('/ip_policy_rules', { ip_policy_id: policy, action: 'allow', cidr: '127.0.0.0/8' });
  const fixed = await id('/backends/http_response', { body: 'fixed' }), static_ = await id('/backends/static', { address: up.address });
  const backends = [fixed, static_, await id('/backends/weighted', { backends: { [fixed]: 1, [static_]: 1 } }), await id('/backends/failover', { backends: [static_, fixed] }), await id('/backends/tunnel_group', { labels: { growth: host } })];
  const there = { policies, backends };
  const routes = [];
  for (let i = 0; i < ROUTES; i++) routes.push(`${front}/routes/${await id(`${front}/routes`, { match: `/${i}/`, match_type: 'path_prefix', backend: { backend_id: static_ } })}`);
  return { host, up, routes, there, fixed };
}

// Changes from to to, each by one of several clients, which have routes of their own; every twentieth is of a backend. Returns the newest revision.
async function change({ routes, there, fixed }, from, to) {
  let revision = 0;
  await Promise.all(Array.from({ length: CLIENTS }, async (_, client) => {
    for (let n = from + client; n < to; n += CLIENTS) {
      const name = NAMES[(n * 31 + (n >> 3)) % NAMES.length];
      const headers = n % 20 === 0 ? await patch(`/backends/http_response/${fixed}`, { body: `fixed ${text(n, 5000)}`, headers: { 'x-version': `${n}` } })
        : await patch(routes[(n % CLIENTS) + CLIENTS * ((n >> 3) & 1)], { [name]: MODULES[name](n, there) });
      revision = Math.max(revision, Number(headers['postern-revision']));
    }
  }));
  return revision;
}

// Requests over connections that stay, as long as it goes on: some of each route, a few hundred a second.
function load(host) {
  const state = { answers: 0, over: false };
  const clients = Object.values(kept).map(async (connect, i) => {
    let client = connect(host);
    for (let n = i; !state.over; n++) {
      if (n % REQUESTS === REQUESTS - 1) { client.close(); client = connect(host); }
      await client.ask({ path: `/${n % ROUTES}/`, headers: { 'User-Agent': 'load' } }).catch(() => {}); // one whose module was put on is cut
      state.answers++;
      await sleep(5);
    }
    client.close();
  });
  state.stop = async () => { state.over = true; await Promise.all(clients); };
  return state;
}

// ---- memory ----

// Of a process in kB: what it has allocated, whether its master has the same page or not. Pages of files are the kernel's to keep, and memory that workers
// share has a size of its own.
const memory = (pid) => Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/^RssAnon:\s+(\d+)/m)[1]);
const SERVICES = ['gateway', 'routes', 'identity', 'events'];
const edges = () => Object.fromEntries([...workers().map((pid) => [`worker ${pid}`, memory(pid)]), ...helpers().map((pid) => [`helper ${pid}`, memory(pid)])]);
const services = () => Object.fromEntries(SERVICES.map((name) => [name, memory(pidOf(name))]));
const sum = (of) => Object.values(of).reduce((total, one) => total + one, 0);
const listed = (one, two, three) => Object.keys(one).map((name) => `${name} ${one[name]}, ${two[name]}, ${three[name]}`).join('; ');

async function settled(revision) {
  await until(async () => {
    const metrics = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text());
    const all = [...metrics.matchAll(/^postern_edge_revision\{worker="\d+"\} (\d+)/gm)].map(([, n]) => Number(n));
    return all.length === workers().length && all.every((n) => n >= revision);
  }, 'all workers have the newest revision', LIMIT);
  await sleep(3000); // what is given back in the turns after that
}

test(`${CHANGES} changes of modules leave the edge as large as a tenth of them`, { skip, timeout: 7200000 }, async () => {
  const all = await make(), first = edges(), tenth = CHANGES / 10, started = Date.now();
  const round = async (from, to) => {
    const under = load(all.host), revision = await change(all, from, to);
    await under.stop();
    await settled(revision);
    return under.answers;
  };
  let answers = await round(0, tenth);
  const before = edges(), served = services();
  answers += await round(tenth, CHANGES);
  assert.deepEqual(Object.keys(edges()), Object.keys(first), 'the same workers and helpers');
  const most = sum(before) * SHARE + ROOM * Object.keys(before).length;
  await until(() => sum(edges()) <= most, 'the edge has the memory that it had', LIMIT)
    .catch((error) => { throw new Error(`${error.message}: ${JSON.stringify(before)} kB after ${tenth} changes, ${JSON.stringify(edges())} after ${CHANGES}`); });
  const after = edges(), now = services();
  await all.up.close();
  console.log(`growth: ${CHANGES} changes of ${NAMES.length} modules in ${((Date.now() - started) / 1000).toFixed(0)} s by ${CLIENTS} clients, ${answers} requests; memory of the edge in kB at first, after ${tenth}, after ${CHANGES}: `
    + `${sum(first)}, ${sum(before)}, ${sum(after)} (${((sum(after) / sum(before) - 1) * 100).toFixed(2)} %: ${listed(first, before, after)}); of services after ${tenth} and ${CHANGES}: ${SERVICES.map((name) => `${name} ${served[name]}, ${now[name]}`).join('; ')}`);
});
