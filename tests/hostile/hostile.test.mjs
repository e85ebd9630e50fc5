// Requests and answers that nobody would write, against a running edge. After each batch: nobody has ended, each request that the edge
// counted has its event, upstreams saw what the reference allows, and a plain request is answered. HOSTILE_SEED repeats the bytes that a
// run sent, HOSTILE_ONLY=index,... sends those of it alone and tells what became of them.
import assert from 'node:assert/strict';
import test from 'node:test';
import { api, edge, elsewhere, listening, must, through, until } from '../support/postern.mjs';
import { Random } from '../model/random.mjs';
import { workers } from '../model/workers.mjs';
import { hash } from './answers.mjs';
import { LIMIT_MS, send } from './client.mjs';
import * as hellos from './hellos.mjs';
import * as http1 from './http1.mjs';
import * as http2 from './http2.mjs';
import { requests as reference } from './reference.mjs';
import { garbled, strict } from './upstream.mjs';
import { answered, answeredStreams, arrived, atMost, evented, eventedStreams, plan, redirected, required } from './verdict.mjs';

const REQUESTS = Number(process.env.HOSTILE_REQUESTS || 50000);
const SEED = Number(process.env.HOSTILE_SEED || Math.floor(Math.random() * 2 ** 32));
const ONLY = process.env.HOSTILE_ONLY?.split(',').map(Number);
const AT_ONCE = Number(process.env.HOSTILE_AT_ONCE || 24), BATCH = 200;
const KINDS = JSON.parse(process.env.HOSTILE_KINDS || '{"http1":66,"http2":22,"hello":8,"plain":4}');
const FINDINGS = Number(process.env.HOSTILE_FINDINGS || 1); // how many before it ends

const suffix = `s${SEED.toString(36)}.hostile.test`;
// Bytes for a person: runs of one character are counted.
const escaped = (bytes) => {
  const text = bytes.toString('latin1').replace(/(.)\1{40,}/gs, (run, char) => `${char}{${run.length}}`);
  return text.slice(0, 3000).replace(/[^\x20-\x7e\n]|\\/g, (char) => (char === '\r' ? '\\r' : `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`)) + (text.length > 3000 ? `... (${bytes.length} bytes)` : '');
};

const ROUTES = { '/p/': 'plain', '/x/': 'hostile', '/f/': 'fixed', '/t/': 'garbled' };
const routeOf = (path) => Object.entries(ROUTES).find(([prefix]) => path.startsWith(prefix))?.[1];

async function setUp(ports) {
  const found = (await api('GET', '/reserved_domains?limit=100')).body.reserved_domains ?? [];
  assert.ok(!found.some((one) => one.domain === `*.${suffix}`), `seed ${SEED} ran on this system already`);
  const domain = await must('POST', '/reserved_domains', { domain: `*.${suffix}` });
  const front = await must('POST', '/edges/https', { hostports: [`*.${suffix}:443`] });
  const backends = { plain: { address: `127.0.0.1:${ports.plain}` }, hostile: { address: `127.0.0.1:${ports.hostile}` }, fixed: { body: 'fixed' }, garbled: { address: `127.0.0.1:${ports.garbled}`, tls: { enabled: true } } };
  const made = [];
  for (const [match, name] of Object.entries(ROUTES)) {
    const backend = await must('POST', backends[name].address ? '/backends/static' : '/backends/http_response', backends[name]);
    made.push([`/backends/${backends[name].address ? 'static' : 'http_response'}/${backend.id}`]);
    await must('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match, backend: { backend_id: backend.id } });
  }
  return async () => {
    await must('DELETE', `/edges/https/${front.id}`);
    for (const [path] of made) await must('DELETE', path);
    await must('DELETE', `/reserved_domains/${domain.id}`);
  };
}

async function counters() {
  const text = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((answer) => answer.text());
  const sum = (name) => [...text.matchAll(new RegExp(`^postern_edge_${name}\\{worker="\\d+"\\} (\\d+)`, 'gm'))].reduce((all, [, n]) => all + Number(n), 0);
  return { requests: sum('requests_total'), events: sum('events_total'), dropped: sum('events_dropped_total'), lost: sum('events_lost_total') };
}

test(`hostile requests, seed ${SEED}`, { skip: elsewhere, timeout: 24 * 3600 * 1000 }, async () => {
  const started = Date.now(), figures = { connections: 0, requests: 0, events: 0, answers: 0, arrivals: 0 }, findings = [], statuses = {};
  const arrivals = new Map(); // key -> what came
  const begin = (one) => { figures.arrivals++; const list = arrivals.get(one.key); if (list) list.push(one); else arrivals.set(one.key, [one]); return one; };
  const ups = { plain: await strict({ seed: SEED, address: '127.0.0.1', begin, isPlain: () => true }), hostile: await strict({ seed: SEED, address: '127.0.0.1', begin, isPlain: () => false }), garbled: await garbled(new Random(SEED)) };
  const remove = await setUp({ plain: ups.plain.port, hostile: ups.hostile.port, garbled: ups.garbled.port });
  const sub = await listening('http_request_complete');
  const pids = workers();
  const find = (index, why, bytes) => findings.push({ what: `seed ${SEED}, index ${index}: ${why}`, bytes });

  function make(index) {
    const random = new Random(hash(`${SEED} ${index}`)), mark = index.toString(36), name = `c${mark}.${suffix}`;
    const place = { name, suffix, routeOf, isOurs: (host) => host.endsWith(`.${suffix}`) };
    const kind = random.weighed(KINDS), one = { index, name, requests: [] };
    if (kind === 'http2') Object.assign(one, http2.connection(random, name, mark, place));
    else if (kind === 'hello') Object.assign(one, hellos.connection(random, name));
    else {
      Object.assign(one, { kind, plainly: kind === 'plain' }, http1.connection(random, name, mark, place));
      Object.assign(one, reference(one.bytes, place));
    }
    for (const request of one.requests) request.plan = plan(SEED, request);
    one.need = required(one.requests, one.end);
    return one;
  }
  const kinds = {
    http2: {
      send: (one) => http2.send(one.name, one, (got) => one.requests.every(({ id }) => got.ended.has(id) || got.resets[id] !== undefined)),
      answered: answeredStreams, evented: eventedStreams, answers: (result) => Object.values(result.statuses),
    },
    hello: { send: hellos.send, answered: (one, { connected, error }) => (connected ? [] : [`no connection: ${error}`]), evented: () => [], answers: () => [] },
    http1: {
      // where it is not known whether HEAD was read, its page may have a body or not
      send: (one) => send(one.name, one, (i) => { const request = one.requests[i]; return request?.method === 'HEAD' && request.after === 'end' && !request.closes ? 'HEAD?' : request?.method; }, one.need, one.requests.filter((request) => request.complete).length),
      answered, evented, answers: (result) => result.answers.list.map(({ status }) => status),
      most: atMost,
    },
  };
  kinds.plain = { ...kinds.http1, answered: redirected, evented: (one, result, statuses) => (statuses.length ? [`events of a redirect: ${statuses}`] : []) };
  async function run(one) {
    const kind = kinds[one.kind];
    one.result = await kind.send(one);
    one.need = Math.min(one.need ?? 0, kind.most?.(one) ?? Infinity);
    for (const why of kind.answered(one, one.result)) find(one.index, why, one.bytes);
    figures.connections++;
    figures.requests += one.count;
    figures[one.kind] = (figures[one.kind] ?? 0) + one.count;
    for (const status of kind.answers(one.result)) { figures.answers++; statuses[status] = (statuses[status] ?? 0) + 1; }
  }
  const events = new Map(); // server name -> statuses
  let before = await counters(), received = 0;
  await until(async () => { // what stories before this one left comes to its end
    await new Promise((resolve) => setTimeout(resolve, 500));
    const last = before;
    before = await counters();
    return before.requests === last.requests && before.events === last.events;
  }, 'nobody else has requests', 60000);
  const settle = async () => {
    let now;
    await until(async () => {
      now = await counters();
      for (const event of sub.events.splice(0)) {
        const { conn: { server_name: name }, http: { response: { status_code: status } } } = event.object;
        if (name !== '' && !name.endsWith(`.${suffix}`)) continue; // of who listens
        received++;
        const list = events.get(name);
        if (list) list.push(status); else events.set(name, [status]);
      }
      return now.requests - before.requests === received && now.events - before.events === received;
    }, 'an event of each request', 4 * LIMIT_MS).catch((error) => find(-1, `${error.message}: ${JSON.stringify({ before, now, received })}`));
    if (now.dropped !== before.dropped || now.lost !== before.lost) find(-1, `events dropped or lost: ${JSON.stringify({ before, now })}`);
    figures.events += received;
    before = now;
    received = 0;
    if (String(workers()) !== String(pids)) find(-1, `workers ${pids} are now ${workers()}`);
    const plainly = await through(`plain.${suffix}`, '/p/next');
    if (plainly.status !== 200) find(-1, `the next plain request: ${plainly.status} ${plainly.body}`);
  };
  // What a batch left is looked at one batch later: an upstream, or the edge, may have been late with it.
  let strays = 0; // arrivals that nobody knows: of connections whose bytes were changed at random
  const judge = (batch) => {
    const keys = new Map();
    for (const one of batch) {
      for (const why of kinds[one.kind].evented(one, one.result, events.get(one.name) ?? [])) find(one.index, why, one.bytes);
      if (ONLY) console.log(one.index, one.kind, one.wrong, escaped(one.bytes), { end: one.end, cuts: one.cuts, need: one.need, tail: one.tail, requests: one.requests.map(({ arrives, after, reached, complete, method, url, why, plan: its }) => [arrives, after, reached, complete, method, url, why, its && `${its.kind} ${its.close} ${its.reset} ${escaped(Buffer.concat(its.parts.map(([part]) => part)))}`, its?.want]), answers: one.kind === 'http2' || one.kind === 'hello' ? one.result : one.result.answers.list.map(({ status, mark, body }) => [status, mark, body.slice(0, 100)]), events: events.get(one.name), ms: one.result.ms, closed: one.result.closed });
      events.delete(one.name);
      for (const request of one.plainly ? [] : one.requests) if (request.key) { const list = keys.get(request.key); if (list) list.push({ one, request }); else keys.set(request.key, [{ one, request }]); }
    }
    strays += batch.reduce((sum, one) => sum + (one.loose ? one.begun : 0), 0);
    for (const [key, list] of keys) {
      const came = arrivals.get(key) ?? [];
      for (const why of arrived(list.map(({ request }) => request), came)) find(list[0].one.index, `${key}: ${why}`, list[0].one.bytes);
      const sure = list.filter(({ one, request }) => request.arrives === 'yes' && request.route === 'plain' && one.requests.indexOf(request) < (one.kind === 'http2' ? (one.end === 'wait' ? Infinity : 0) : one.need));
      if (came.length < sure.length) find(list[0].one.index, `${key}: answered, and never arrived`, list[0].one.bytes);
      if (ONLY) console.log(key, came);
      arrivals.delete(key);
    }
  };

  let index = 0, last = [];
  const goesOn = () => (ONLY ? index < ONLY.length : figures.requests < REQUESTS) && findings.length < FINDINGS;
  while (goesOn()) {
    const batch = [];
    const worker = async () => { while (batch.length < BATCH && goesOn()) { const one = make(ONLY ? ONLY[index] : index); index++; batch.push(one); await run(one); } };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    await settle();
    judge(last);
    last = batch;
  }
  await settle();
  judge(last);
  arrivals.delete(`GET plain.${suffix} /p/next`);
  for (const [key, list] of arrivals) if (--strays < 0) find(-1, `arrived, and nobody sent it: ${key} ${JSON.stringify(list[0]).slice(0, 1000)}`);
  await sub.stop();
  const held = () => fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((answer) => answer.text()).then((text) => text.match(/^postern_edge_(request|read|encoder)_memory_bytes\{.*\} [^0\n].*$/gm));
  await until(async () => await held() === null, 'all that was charged is given back', 4 * LIMIT_MS).catch(async (error) => find(-1, `${error.message}: ${await held()}`));
  await remove();
  for (const up of Object.values(ups)) await up.close();
  const seconds = (Date.now() - started) / 1000;
  console.log(`hostile: seed ${SEED}, ${figures.requests} requests (${Object.keys(KINDS).map((kind) => `${figures[kind] ?? 0} ${kind}`).join(', ')}) on ${figures.connections} connections, ${figures.answers} answers (${Object.entries(statuses).map(([status, n]) => `${status}: ${n}`).join(', ')}), ${figures.arrivals} at upstreams, ${figures.events} events, ${seconds.toFixed(0)} s`);
  for (const { what, bytes } of findings.slice(0, 5)) console.log(`---- ${what}${bytes ? `\n${escaped(bytes)}` : ''}`);
  assert.equal(findings.length, 0, `${findings.length} findings:\n${findings.slice(0, 50).map(({ what }) => what).join('\n')}`);
});
