// The model of the edge: random changes by several accounts, services and helpers killed and stalled, and after each change a
// sample of requests to every worker, answered as the reference answers. MODEL_SEED repeats the choices that a run printed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { edge, elsewhere, until, upstream } from '../support/postern.mjs';
import { Random } from './random.mjs';
import { differs, handshakeDiffers, kindsOf, Reference } from './reference.mjs';
import { said } from './requests.mjs';
import { Tenants } from './tenants.mjs';
import { helpers, pidOf, trust, Workers, workers } from './workers.mjs';

const CHANGES = Number(process.env.MODEL_CHANGES || 1500);
const SAMPLE = Number(process.env.MODEL_SAMPLE || 3);
const BETWEEN_FAULTS = Number(process.env.MODEL_BETWEEN_FAULTS || 120);
const SEED = Number(process.env.MODEL_SEED || Math.floor(Math.random() * 2 ** 32));

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const signal = (pid, name) => { try { if (pid) process.kill(pid, name); } catch { /* it is gone already */ } };

// A self-signed pair {certificate, key, fingerprint} for the names.
function pair(...names) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-model-'));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=model', '-days', '2', '-keyout', `${folder}/key`, '-out', `${folder}/pem`,
    ...(names.length ? ['-addext', `subjectAltName=${names.map((name) => `DNS:${name}`).join()}`] : [])], { stdio: 'ignore' });
  const certificate = fs.readFileSync(`${folder}/pem`, 'utf8'), key = fs.readFileSync(`${folder}/key`, 'utf8');
  fs.rmSync(folder, { recursive: true });
  return { certificate, key, fingerprint: new X509Certificate(certificate).fingerprint256 };
}

// What goes wrong while changes go on; each ends with everything running again.
const FAULTS = {
  helpers_stand_still: async (random, changes) => {
    const some = helpers().filter(() => random.chance(0.7));
    for (const pid of some) signal(pid, 'SIGSTOP');
    await changes(4 + random.below(12)); // deltas that coalesce
    for (const pid of some) signal(pid, 'SIGCONT');
  },
  helper_killed: async (random, changes) => { signal(random.of(helpers()), 'SIGKILL'); await changes(5); },
  worker_killed: async (random, changes) => { signal(random.of(workers()), 'SIGKILL'); await changes(5); },
  worker_stands_still: async (random, changes) => {
    const pid = random.of(workers());
    signal(pid, 'SIGSTOP');
    await changes(2 + random.below(4));
    signal(pid, 'SIGCONT');
  },
  routes_killed: async (random, changes) => { signal(pidOf('routes'), 'SIGKILL'); await changes(3); },
  database_killed: async (random, changes) => { signal(pidOf('postgresql'), 'SIGKILL'); await changes(3); },
  edge_restarted: async (random, changes, reference) => {
    signal(pidOf('edge'), random.of(['SIGKILL', 'SIGTERM']));
    await changes(3);
    reference.breakers.clear(); // a new master begins with closed ones
  },
};

test(`${CHANGES} random changes, seed ${SEED}`, { skip: elsewhere, timeout: 24 * 3600 * 1000 }, async () => {
  const started = Date.now(), random = new Random(SEED), reference = new Reference();
  const ups = [];
  for (const name of ['one', 'two']) {
    const type = name === 'one' ? 'application/json' : 'application/octet-stream'; // what is worth encoding, and what is not
    const up = await upstream(({ method, headers }, s, body) => {
      s.writeHead(200, { 'X-Upstream': name, 'Content-Type': type });
      s.end(JSON.stringify({ method, headers, body: body.toString(), more: '.'.repeat(300) }));
    });
    ups.push(Object.assign(up, { name, type }));
  }
  const count = workers().length, reached = new Workers();
  const tenants = new Tenants(random, reference, ups, count, `m${process.pid.toString(36)}${Date.now().toString(36)}.test`);
  tenants.authority = pair().certificate;
  tenants.pairs = Array.from({ length: 4 }, () => pair(...tenants.names));
  for (const { certificate } of tenants.pairs) trust(certificate);
  const faults = {}, kinds = {}, history = [];
  let done = 0, answers = 0, handshakes = 0;

  const compare = (sent) => reached.ask(sent, (pid, got) => {
    const want = reference.answer(sent), why = differs(want, got);
    assert.equal(why, undefined, `seed ${SEED}, after change ${done} (${history.slice(-5).join(', ')}): worker ${pid}, ${said(sent)}: ${why}`);
    reference.heard(want, got);
    answers++;
    for (const name of kindsOf(got)) kinds[name] = (kinds[name] ?? 0) + 1;
  });
  const compareHandshake = async ({ host, version }) => {
    const want = reference.handshake(host, version);
    for (const [pid, got] of await reached.handshakes(host, version)) {
      handshakes++;
      const why = handshakeDiffers(want, got);
      assert.equal(why, undefined, `seed ${SEED}, after change ${done} (${history.slice(-5).join(', ')}): worker ${pid}, ${version} for ${host}: ${why}`);
    }
  };
  const change = async () => { history.push(await tenants.change()); done++; };
  const metrics = () => fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((r) => r.text()).catch(() => '');
  // Every worker that there should be has the newest revision.
  const settled = async () => {
    if (workers().length !== count || helpers().length !== count) return false;
    const text = await metrics(), revisions = [...text.matchAll(/^postern_edge_revision\{worker="\d+"\} (\d+)/gm)].map((row) => Number(row[1]));
    return /^postern_edge_ready\{.*\} 1$/m.test(text) && revisions.length === count && revisions.every((one) => one >= tenants.revision);
  };

  for (let i = 0; i < 60; i++) await change(); // something to begin with
  while (done < CHANGES) {
    await change();
    // what was answered as live everywhere is live everywhere; an answer without all workers promises nothing of the others
    if (tenants.whole) {
      for (let i = 0; i < SAMPLE; i++) await compare(tenants.sample());
      if (done % 5 === 0) await compareHandshake(tenants.handshake());
    }
    if (done % BETWEEN_FAULTS !== 0) continue;
    const fault = random.of(Object.keys(FAULTS));
    faults[fault] = (faults[fault] ?? 0) + 1;
    history.push(`[${fault}]`);
    await FAULTS[fault](random, async (n) => { for (let i = 0; i < n; i++) await change(); }, reference);
    await until(async () => await settled() || (await sleep(50), false), `all workers have revision ${tenants.revision} after ${fault} (seed ${SEED})`, 120000);
    reached.refresh();
    for (const one of tenants.everything()) await compare(one);
  }
  for (const one of tenants.everything()) await compare(one);
  for (const host of tenants.hosts) await compareHandshake({ host, version: 'TLSv1.3' });
  await tenants.removeAll();
  for (const one of tenants.everything()) await compare(one);
  reached.close();
  for (const up of ups) await up.close();
  const { made, refused, again } = tenants.counts;
  console.log(`model: seed ${SEED}, ${done} changes (${made} made, ${refused} refused, ${again} sent again), ${Object.entries(faults).map(([name, n]) => `${n} ${name}`).join(', ')}; ${answers} answers and ${handshakes} handshakes of ${count} workers, 0 differences: ${Object.entries(kinds).sort(([, a], [, b]) => b - a).map(([name, n]) => `${n} ${name}`).join(', ')}; ${((Date.now() - started) / 1000).toFixed(0)} s`);
});
