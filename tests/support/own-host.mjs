// An edge of one worker, and a host of its own there, on a second stack (own.mjs): for stories that need other settings.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { own } from './own.mjs';
import { edge, tail, unique } from './postern.mjs';

export const port = edge.port + 1000;
const status = port - 28;

// The number of a line of the edge's metrics, such as clients_slow_total{worker="0"}.
export async function metric(name) {
  const text = await fetch(`http://127.0.0.1:${status}/metrics`).then((got) => got.text());
  const [, number] = new RegExp(`^postern_edge_${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(text) ?? assert.fail(`${name} is not there`);
  return Number(number);
}

// addresses: where paths that begin so go to; modules: which modules those have. {host, ca, events(), end()}: events of requests there, and end() removes the stack.
export async function ownHost(name, settings, addresses, modules = {}) {
  let there, finish;
  const ready = new Promise((resolve, reject) => { there = { resolve, reject }; }), finished = new Promise((resolve) => { finish = resolve; });
  const stack = own(async ({ state, run }) => {
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', ...settings } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const host = unique(name), events = tail('http_request_complete', { POSTERN_HOME: state });
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const front = await call('/edges/https', { hostports: [`${host}:443`] });
    for (const [match, address] of Object.entries(addresses)) {
      const { id } = await call('/backends/static', { address });
      await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match, backend: { backend_id: id }, ...modules[match] });
    }
    there.resolve({ host, ca: fs.readFileSync(vars.POSTERN_EDGE_CA), events: () => events.events.filter(({ object }) => object.http.request.url.host === host) });
    await finished;
    await events.stop();
  });
  stack.catch(there.reject);
  return { ...await ready, end: async () => { finish(); await stack; } };
}
