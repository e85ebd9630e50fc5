// One account's largest objects, many of them: no message of the config log may grow beyond what an edge takes.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { api, edge, endpoint, env, home, must, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const master = () => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8')); } catch { return 0; } }; // none while it starts
const everyone = () => { const workers = children(master()); return [...workers, ...workers.flatMap(children)]; };
const signal = (pids, name) => pids.forEach((pid) => process.kill(pid, name));
const ready = () => fetch(`http://127.0.0.1:${edge.port - 28}/readyz`).then((answer) => answer.text());
const live = async () => {
  const to = await endpoint({ body: 'live' });
  const got = await through(to.host).catch(() => ({}));
  return got.body === 'live' && (await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'still' })).headers['postern-edges'] === '2/2';
};
// Large objects take their time on a busy machine: what was not confirmed is sent again, with its key.
const make = async (path, body) => {
  const headers = { 'Idempotency-Key': `heavy-${process.pid}-${make.count = (make.count ?? 0) + 1}` };
  let answer;
  await until(async () => (answer = await api('POST', path, body, headers)).status !== 503, `POST ${path}`, 120000);
  assert.equal(answer.status, 201, answer.raw);
  return answer.body.id;
};
const several = async (n, one, atOnce = 8) => { for (let i = 0; i < n; i += atOnce) await Promise.all(Array.from({ length: Math.min(atOnce, n - i) }, (_, k) => one(i + k))); };

test('a whole edge that was away while 300 bodies of 64 KB were made follows again', { timeout: 300000 }, async () => {
  const stopped = everyone(), made = [];
  assert.ok(stopped.length >= 4, `workers and helpers: ${stopped}`);
  signal(stopped, 'SIGSTOP');
  try {
    await several(300, async () => made.push(await make('/backends/http_response', { body: 'x'.repeat(65536) })));
  } finally {
    signal(stopped, 'SIGCONT');
  }
  await until(live, 'changes reach every worker again', 120000);
  await until(async () => (await ready()) === 'ready\n' || /lost its helper/.test(await ready()), 'and the edge says that it is current');
  await several(made.length, (i) => must('DELETE', `/backends/http_response/${made[i]}`));
});

test('an edge without a state gets a configuration with 60 routes of 380 KB', { timeout: 300000 }, async () => {
  const to = await endpoint({ body: 'heavy' });
  const metadata = '<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/x"><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">'
    + '<SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/sso"/></IDPSSODescriptor><!--MORE--></EntityDescriptor>';
  const fat = {
    saml: { idp_metadata: metadata.replace('MORE', 'm'.repeat(262144 - metadata.length)) },
    traffic_policy: { value: JSON.stringify({ on_http_request: [{ name: 'y'.repeat(120000), actions: [{ type: 'deny' }] }] }) },
  };
  const routes = `/edges/https/${to.edge.id}/routes`;
  const made = [];
  await several(60, async (i) => made.push(await make(routes, { match_type: 'path_prefix', match: `/fat/${i}`, ...fat })), 2);
  const before = master();
  fs.rmSync(`${home}/edge/config.state`, { force: true });
  process.kill(before, 'SIGTERM');
  await until(() => { const now = master(); return now && now !== before && children(now).length >= 2; }, 'a new edge', 120000);
  await until(async () => { try { return (await through(to.host)).body === 'heavy'; } catch { return false; } }, 'it has a configuration', 120000);
  await until(live, 'and follows', 120000);
  await several(made.length, (i) => must('DELETE', `${routes}/${made[i]}`), 2);
});
