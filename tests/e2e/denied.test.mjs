// A request that a route's module denied says so, whichever module it was: in its event, in the log and in the edge's metrics.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { edge, elsewhere, endpoint, env, listening, must, through, until, upstream } from '../support/postern.mjs';

const up = await upstream();
const sub = await listening('http_request_complete');
const eventOf = (host) => until(() => sub.events.find((event) => event.object.conn.server_name === host), 'its event').then(({ object }) => object);
const denials = async (module) => Number(new RegExp(`^postern_edge_module_denied_total\\{module="${module}"\\} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text()))[1]);
const decisions = ({ circuit_breaker: breaker, ip_policy: addresses, oauth, webhook_verification: webhook }) => [breaker, addresses, oauth, webhook].map(({ decision }) => decision);
test.after(() => up.close());

// [module, its document, code, decisions in the order above]
for (const [module, document, ...blocked] of [
  ['traffic_policy', { value: '{"on_http_request":[]}' }, 'invalid', 'invalid', 'invalid', 'invalid'],
  ['request_headers', { add: { 'X-Ip': '${conn.client_ip}' } }, 'invalid', 'invalid', 'invalid', 'invalid'],
])
  test(`denied by ${module}: event, log and metrics name it`, { skip: elsewhere }, async () => {
    const to = await endpoint(up.address, { [module]: document });
    const log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size, before = await denials(module);
    up.seen.length = 0;
    assert.equal(JSON.parse((await through(to.host)).body).error_code, 'ERR_POSTERN_908');
    assert.equal(up.seen.length, 0);
    const event = await eventOf(to.host);
    assert.deepEqual(event.denied, { module, route_id: to.route.id });
    assert.deepEqual(decisions(event), blocked);
    assert.match(fs.readFileSync(log).subarray(from).toString(), new RegExp(`module ${module} of route ${to.route.id} cannot be enforced`));
    assert.equal(await denials(module), before + 1);
  });

test('denied for want of a backend: it is the backend module that denied', async () => {
  const to = await endpoint(up.address);
  await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { backend: { backend_id: to.backend.id, enabled: false } });
  assert.equal(JSON.parse((await through(to.host)).body).error_code, 'ERR_POSTERN_903');
  assert.deepEqual((await eventOf(to.host)).denied, { module: 'backend', route_id: to.route.id });
});

test('a request that nobody denied says nothing of that', async () => {
  const to = await endpoint(up.address);
  assert.equal((await through(to.host)).status, 200);
  assert.deepEqual((await eventOf(to.host)).denied, { module: '', route_id: '' });
});
