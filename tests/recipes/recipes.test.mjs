// What the recipes of CONTRIBUTING.md add, in a stack that was built from a copy with all of them: tests/recipes/run.
import test from 'node:test';
import assert from 'node:assert/strict';
import { api, endpoint, healthUrls, listening, must, through, until } from '../support/postern.mjs';

test('a route module denies', async () => {
  const { host } = await endpoint({ body: 'hello' }, { traffic_policy: { value: '{}' } });
  assert.equal((await through(host, '/', { headers: { 'User-Agent': 'a friend of {}' } })).status, 200);
  assert.equal((await through(host, '/', { headers: { 'User-Agent': 'somebody' } })).status, 403);
});

test('a resource is made, read, changed, listed, filtered and deleted', async () => {
  const { id } = await must('POST', '/notes', { description: 'first' });
  assert.match(id, /^note_/);
  assert.equal((await must('PATCH', `/notes/${id}`, { description: 'second' })).description, 'second');
  const list = await must('GET', `/notes?filter=${encodeURIComponent('obj.description == "second"')}`);
  assert.ok(list.notes.some((note) => note.id === id));
  await must('DELETE', `/notes/${id}`);
  assert.equal((await api('GET', `/notes/${id}`)).status, 404);
});

test('an event has its field', async () => {
  const { host } = await endpoint({ body: 'hello' });
  const subscription = await listening('http_request_complete');
  try {
    await through(host);
    const seen = await until(() => subscription.events.find((event) => event.object.http.request.url.host === host), 'the event');
    assert.equal(seen.object.http.request.tls_reused, 'no');
  } finally {
    await subscription.stop();
  }
});

test('a service is ready, and no backend may lead to its health', async () => {
  const metrics = async (where) => (await fetch(`http://${where}/metrics`)).text();
  const answers = await Promise.all(healthUrls().map(async (where) => [where, await metrics(where)]));
  const [toy] = answers.find(([, text]) => text.includes('postern_toy_')) ?? assert.fail('the toy has no metrics');
  const made = await api('POST', '/backends/static', { address: toy });
  assert.equal(made.status, 400, `a backend at ${toy}, the health of the toy`);
  assert.equal(made.body.error_code, 'ERR_POSTERN_218');
});
