// Questions of the edge to postern-identity, on an edge with a module that only tests have (tests/edge-module): whatever becomes of
// identity or of the worker's helper meanwhile, whoever asked hears of it once, at the end of the time that it has.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import { edge, endpoint, env, through, until, upstream } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const DENIED = '190', UNKNOWN_VERB = '191', TOO_LARGE = '117', GONE = '238', NOBODY = '-1', LATE = '-2';
const up = await upstream();
test.after(() => up.close());
const { host } = await endpoint(up.address, { traffic_policy: { value: '{"on_http_request":[]}' } });

const text = (value) => value.length < 32 ? Buffer.from([0xa0 | value.length, ...Buffer.from(value)]) : Buffer.concat([Buffer.from([0xd9, value.length]), Buffer.from(value)]);
const map = (object) => Buffer.concat([Buffer.from([0x80 | Object.keys(object).length]), ...Object.entries(object).flatMap(([name, value]) => [text(name), text(value)])]);
const session = { hash: crypto.randomBytes(32).toString('hex'), route: `edghtsrt_${'0'.repeat(27)}`, digest: '0'.repeat(64) };
const hex = (object) => map(object).toString('hex');

// What the edge heard.
async function ask(verb, body = '80', { ms = 5000, ...more } = {}) {
  const { headers, status } = await through(host, '/', { headers: { 'X-Verb': verb, 'X-Body': body, 'X-Ms': String(ms), ...more } });
  assert.equal(status, 200);
  return headers['x-asked'];
}
const check = (more) => ask('session.check', hex(session), more);
const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const named = (pid, what) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(what);
const workers = () => children(pidOf('edge')).filter((pid) => named(pid, 'worker process') && !named(pid, 'shutting down'));
const helpers = () => workers().flatMap(children).filter((pid) => named(pid, 'postern helper'));
const metrics = () => fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text());
const there = async () => [...(await metrics()).matchAll(/^postern_edge_identity_there\{worker="\d+"\} (\d+)/gm)].map(([, n]) => n).join('');
const counts = async () => Object.fromEntries([...(await metrics()).matchAll(/^postern_edge_module_(\w+)_total\{module="traffic_policy"\} (\d+)/gm)].map(([, name, value]) => [name, Number(value)]));
const connected = (want = '11') => until(async () => await there() === want, `every worker says ${want} of identity`);

test('a question is answered', { timeout: 300000 }, async () => {
  await connected();
  assert.equal(await check(), GONE);
  assert.equal(await ask('session.end', hex({ hash: session.hash, route: session.route })), '0');
});

test('what an edge may not ask is denied, and what nobody knows is said to be that', { timeout: 300000 }, async () => {
  for (const verb of ['self.get', 'api_key.authenticate', 'account.create', 'api_key.list', 'sign_in.tidy']) assert.equal(await ask(verb), DENIED, verb);
  assert.equal(await ask('no.such'), UNKNOWN_VERB);
  assert.equal(await ask('x'.repeat(64)), 'busy', 'a verb that is too long');
});

test('a body of many packets arrives as it is; one beyond what a verb takes is refused there, and beyond what a question may have here', { timeout: 300000 }, async () => {
  const padded = (n) => { // {..., sealed: n bytes}
    const body = Buffer.concat([map({ ...session, sealed: 'x' }).subarray(0, -2), Buffer.from([0xdb, n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255])]);
    return ask('session.check', body.toString('hex'), { 'X-Pad': String(n) });
  };
  for (const n of [1000, 47000, 60000, 300000]) assert.equal(await padded(n), GONE, `${n} bytes`);
  assert.equal(await padded(700000), TOO_LARGE);
  assert.equal(await padded(1 << 20), 'declined');
  assert.equal(await check(), GONE);
});

test('who does not wait any more is not called, and a client that goes takes its question along', { timeout: 300000 }, async () => {
  const identity = pidOf('identity'), before = await counts();
  process.kill(identity, 'SIGSTOP');
  try {
    assert.equal(await check({ 'X-Leave': '100' }), 'left');
    const gone = new AbortController();
    const cut = through(host, '/', { headers: { 'X-Verb': 'session.check', 'X-Body': hex(session), 'X-Ms': '5000' }, tls: { signal: gone.signal } });
    await until(async () => (await counts()).asks === before.asks + 2, 'it asks');
    gone.abort();
    await assert.rejects(cut);
  } finally { process.kill(identity, 'SIGCONT'); }
  await until(async () => await check() === GONE, 'it answers again');
  const after = await counts();
  assert.equal(after.asks - before.asks - 2, after.answers - before.answers, 'nobody but those who stayed was called');
});

test('an identity that stands still: late at the end of the time', { timeout: 300000 }, async () => {
  await connected();
  const identity = pidOf('identity');
  process.kill(identity, 'SIGSTOP');
  try {
    assert.equal(await check({ ms: 300 }), LATE);
    // its connection is closed when it does not answer signs of life; then nobody is asked
    await connected('00');
    assert.equal(await check({ ms: 5000 }), 'declined');
  } finally { process.kill(identity, 'SIGCONT'); }
  await connected();
  assert.equal(await check(), GONE);
});

test('an identity that dies: a question that it had is asked of its successor', { timeout: 300000 }, async () => {
  await connected();
  const identity = pidOf('identity');
  process.kill(identity, 'SIGSTOP');
  const answers = Array.from({ length: 8 }, () => check({ ms: 20000 }));
  await until(async () => /questions_total/.test(await metrics()), 'they are under way');
  process.kill(identity, 'SIGKILL');
  for (const answer of await Promise.all(answers)) assert.ok([GONE, LATE, NOBODY, 'busy', 'declined'].includes(answer), answer);
  await connected();
  assert.equal(await check(), GONE);
});

test('a helper that dies: all that it had is over, and its successor asks on', { timeout: 300000 }, async () => {
  await connected();
  const identity = pidOf('identity'), old = helpers();
  assert.equal(old.length, 2);
  const before = await counts();
  process.kill(identity, 'SIGSTOP');
  const answers = Array.from({ length: 8 }, () => check({ ms: 50000 }));
  await until(async () => (await counts()).asks >= before.asks + 8, 'they are under way');
  for (const pid of old) process.kill(pid, 'SIGKILL');
  try {
    for (const answer of await Promise.all(answers)) assert.equal(answer, LATE, 'long before its time');
  } finally { process.kill(identity, 'SIGCONT'); }
  await connected();
  assert.equal(await check(), GONE);
});

test('an account has its share of the questions, and of those that wait for a place', { timeout: 300000 }, async () => {
  await connected();
  const identity = pidOf('identity'), MANY = 1200, STREAMS = 100; // at two workers, one of which gets more than half
  const sessions = await Promise.all(Array.from({ length: MANY / STREAMS }, () => new Promise((resolve, reject) => {
    const session = http2.connect(`https://${edge.host}:${edge.port}`, { servername: host, ca: fs.readFileSync(env.POSTERN_EDGE_CA) });
    session.on('error', reject).on('connect', () => resolve(session));
  })));
  const asked = (connection) => new Promise((resolve, reject) => {
    connection.request({ ':path': '/', ':authority': host, 'x-verb': 'session.check', 'x-body': hex(session), 'x-ms': '15000' }).on('error', reject).on('response', (headers) => resolve(headers['x-asked'])).resume();
  });
  process.kill(identity, 'SIGSTOP');
  let answers;
  try { answers = await Promise.all(sessions.flatMap((one) => Array.from({ length: STREAMS }, () => asked(one)))); } finally { process.kill(identity, 'SIGCONT'); }
  for (const one of sessions) one.destroy();
  const sum = (what) => answers.filter((one) => one === what).length;
  assert.equal(sum(LATE) + sum(NOBODY) + sum('busy') + sum('declined'), MANY, `${answers}`);
  assert.ok(sum(LATE) > 0 && sum('busy') > 0, `a worker has 32 of an account under way, its portion of 512 that wait, which is 461 here, and no more: ${answers}`);
  await connected();
  await until(async () => await check() === GONE, 'it answers again');
});
