// While nobody takes the edge's events, one account's flood does not cost another account its own: what is given up is the flooding one's, and
// is counted (services/edge/events/portions.h). A stack of its own with little room for events.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import test from 'node:test';
import { own } from '../support/own.mjs';
import { edge, elsewhere, env, tail, unique, until } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, QUIET = 30, WAIT = 60000;

async function metric(name) {
  const text = await fetch(`http://127.0.0.1:${port - 28}/metrics`).then((got) => got.text());
  return Number(new RegExp(`^postern_edge_${name}\\{worker="0"\\} (\\d+)`, 'm').exec(text)[1]);
}

test('an account that floods loses its own events, each of which is counted, and another account loses none', { skip, timeout: 280000 }, () => own(async ({ state, run }) => {
  const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_EVENT_RING: '1m', POSTERN_EVENT_SPOOL: '1m' } });
  assert.equal(up.status, 0, up.stderr);
  const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
  const cli = (...args) => JSON.parse(execFileSync(path.join(state, 'bin/postern'), args, { encoding: 'utf8', env: { ...process.env, ...vars, POSTERN_HOME: state } }));
  const ca = fs.readFileSync(vars.POSTERN_EDGE_CA), agent = new https.Agent({ keepAlive: true, maxSockets: 4 });
  const front = async (token) => {
    const host = unique('flood'), call = async (target, body) => {
      const got = await fetch(vars.POSTERN_API_URL + target, { method: 'POST', headers: { Authorization: `Bearer ${token}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${target}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const { id } = await call('/backends/http_response', { body: 'x' }), made = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${made.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: id } });
    return host;
  };
  const other = cli('account', 'create', 'The quiet one', 'quiet@example.test');
  const [loud, quiet] = [await front(vars.POSTERN_API_KEY), await front(cli('api-key', 'create', other.id, other.owner_id, 'of the story').token)];
  const ask = (host, target, headers = {}) => new Promise((resolve, reject) => {
    https.get({ host: edge.host, port, servername: host, ca, path: target, agent, headers: { Host: host, ...headers } }, (answer) => answer.resume().on('end', () => resolve(answer.statusCode)).on('error', reject)).on('error', reject);
  });
  const made = { [loud]: 0, [quiet]: 0 };
  const request = async (host, headers) => { assert.equal(await ask(host, `/${made[host]++}`, headers), 200); };

  const subscription = tail('http_request_complete', vars), heard = (host) => subscription.events.filter(({ object: { http: { request: { url } } } }) => url.host === host && url.path !== '/probe').length;
  let stopped = 0;
  try {
    const probed = (host) => subscription.events.some(({ object: { http: { request: { url } } } }) => url.host === host);
    for (const host of [loud, quiet]) await until(async () => { await ask(host, '/probe'); return probed(host); }, 'somebody listens', WAIT);
    stopped = Number(fs.readFileSync(path.join(vars.POSTERN_RUN_DIR, 'events.pid'), 'utf8'));
    process.kill(stopped, 'SIGSTOP');
    const large = Object.fromEntries(Array.from({ length: 3 }, (_, i) => [`X-Large-${i}`, 'l'.repeat(7000)]));
    // until each is given up: what takes them may have gone on for a while
    for (let kept = 25; kept || await metric('events_over_share_total') < 50;) {
      const before = await metric('events_over_share_total');
      for (let i = 0; i < 25; i++) await request(loud, large);
      kept = before + 25 - await metric('events_over_share_total');
    }
    for (let i = 0; i < QUIET; i++) await request(quiet);
    for (let i = 0; i < 25; i++) await request(loud, large);
    const dropped = await metric('events_over_share_total');
    assert.ok(dropped >= 75 && dropped < made[loud], `${dropped} of ${made[loud]} are given up`);
    assert.equal(await metric('events_dropped_total'), dropped, 'and none for another reason');
    process.kill(stopped, 'SIGCONT');
    stopped = 0;
    await request(quiet); // a batch tells what was given up before it
    await until(() => heard(quiet) >= made[quiet], `all of the quiet one`, WAIT);
    await until(() => heard(loud) + dropped >= made[loud], 'and of the other one what was kept', WAIT);
    assert.deepEqual([heard(quiet), heard(loud) + dropped], [made[quiet], made[loud]], 'each is there once, or counted');
    const told = () => Number(execFileSync('psql', [vars.DATABASE_URL, '-qAtc', 'SELECT sum(dropped) FROM events.producer'], { encoding: 'utf8' }));
    await until(async () => { await ask(quiet, '/later'); return told() === dropped; }, 'the number is in the accounts of postern-events', WAIT);
  } finally {
    if (stopped) process.kill(stopped, 'SIGCONT');
    agent.destroy();
    await subscription.stop();
  }
}));
