// What the event says of the time that each module took, and of that for which it waited.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import https from 'node:https';
import test from 'node:test';
import { ca, edge, elsewhere, endpoint, listening, through, until, upstream } from '../support/postern.mjs';

const up = await upstream((request, response) => { response.setHeader('Content-Type', 'text/plain'); response.end('x'.repeat(100000)); });
const sub = await listening('http_request_complete');
test.after(() => up.close());

// Events of two workers come in any order: each is found by its path.
const eventOf = (host, path = '/') => until(() => sub.events.find(({ object }) => object.conn.server_name === host && object.http.request.url.path === path)?.object, `the event of ${path}`);
// Bytes of all workers that requests under way take.
const charged = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_request_memory_bytes\{worker="\d+"\} (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
const filter = { allow: [], deny: ['^Bad'] };

// what runs: [modules of the route, headers of the request, those in the event]
for (const [what, modules, headers, ran] of [
  ['the backend alone', {}, {}, ['backend']],
  ['modules before it', { user_agent_filter: filter, request_headers: { add: { a: 'b' } } }, { 'User-Agent': 'Good' }, ['user_agent_filter', 'request_headers', 'backend']],
  ['none behind the one that denies', { user_agent_filter: filter, request_headers: { add: { a: 'b' } } }, { 'User-Agent': 'Bad' }, ['user_agent_filter']],
  ['those that are on', { user_agent_filter: { ...filter, enabled: false } }, {}, ['backend']],
  ['modules of the answer', { response_headers: { add: { c: 'd' } }, compression: {} }, { 'Accept-Encoding': 'gzip' }, ['backend', 'response_headers', 'compression']],
])
  test(`${what}: ${ran.join(', ')}`, async () => {
    const to = await endpoint(up.address, modules);
    await through(to.host, '/', { headers });
    const { modules: took } = await eventOf(to.host);
    assert.deepEqual(Object.keys(took.run_ns).sort(), [...ran].sort());
    for (const [name, ns] of Object.entries(took.run_ns)) assert.ok(Number.isInteger(ns) && ns > 0, `${name} ${ns}`);
    assert.deepEqual(took.wait_us, {});
  });

test('what ran more than once is one number, and what ran for a body is in it', async () => {
  const to = await endpoint(up.address, { compression: {}, response_headers: { add: { c: 'd' } } });
  await through(to.host, '/encoded', { headers: { 'Accept-Encoding': 'gzip' } });
  await through(to.host, '/plain', { headers: { 'Accept-Encoding': 'identity' } });
  const [encoded, plain] = [await eventOf(to.host, '/encoded'), await eventOf(to.host, '/plain')];
  assert.ok(encoded.modules.run_ns.compression > plain.modules.run_ns.compression, 'encoding 100 KB takes longer than to look at a header');
});

test('a module that waits for a body: how long, and that it ran', async () => {
  const secret = 'of the story', body = JSON.stringify({ zen: 'Keep it logically awesome.' });
  const to = await endpoint(up.address, { webhook_verification: { provider: 'github', secret } });
  const signature = `sha256=${crypto.createHmac('sha256', secret).update(body).digest('hex')}`;
  const request = https.request({ host: edge.host, port: edge.port, servername: to.host, ca, agent: false, method: 'POST', path: '/hook', headers: { Host: to.host, 'Content-Length': body.length, 'X-Hub-Signature-256': signature } });
  const answered = new Promise((resolve, reject) => { request.on('response', (response) => { response.resume(); response.on('end', () => resolve(response.statusCode)); }).on('error', reject); });
  const before = elsewhere ? 0 : await charged();
  request.write(body.slice(0, 5));
  if (!elsewhere) await until(async () => await charged() > before, 'its head is with a worker');
  await new Promise((resolve) => { setTimeout(resolve, 50); });
  request.end(body.slice(5));
  assert.equal(await answered, 200);
  const { modules } = await eventOf(to.host, '/hook');
  assert.deepEqual(Object.keys(modules.wait_us), ['webhook_verification']);
  assert.ok(modules.wait_us.webhook_verification > 0);
  assert.deepEqual(Object.keys(modules.run_ns).sort(), ['backend', 'webhook_verification']);
});

test('where nobody runs a module, as without a route, nothing is said', async () => {
  const to = await endpoint(up.address, { match: '/there' });
  await through(to.host, '/nowhere');
  assert.deepEqual((await eventOf(to.host, '/nowhere')).modules, { run_ns: {}, wait_us: {} });
});
