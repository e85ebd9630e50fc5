// What a traffic policy looks like: no text, of whatever shape, keeps the server from its other work.
import assert from 'node:assert/strict';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { api, must, unique } from '../support/postern.mjs';

const other = account();
const create = (traffic_policy) => api('POST', '/endpoints', { url: `https://${unique('policy')}.internal`, bindings: ['internal'], traffic_policy });
const filled = (shape, head = '') => head + shape.repeat(Math.floor((120000 - head.length) / shape.length));

for (const [shape, head] of [['[', 'inbound: '], ['{', 'inbound: '], ['[{', 'inbound: '], ['- ', 'inbound:\n'], ['? ', 'inbound:\n  '], ['{a: ', 'inbound: ']])
  test(`a policy nested without end is refused at once, and the others are served: ${shape}`, async () => {
    const answer = await create(filled(shape, head));
    assert.deepEqual([answer.status, answer.body.error_code], [400, 'ERR_POSTERN_179'], answer.raw.slice(0, 300));
    assert.match(answer.body.msg, /nested deeper than 32 levels/);
    assert.equal((await other.api('GET', '/endpoints')).status, 200);
  });

for (const shape of ['[', '{', '- ', '? ', '&a *a ', '&a ', '*a ', '!a ', ': '])
  test(`nor does text that is no policy hold anybody up: ${shape}`, async () => {
    const answer = await create(filled(shape));
    assert.deepEqual([answer.status, answer.body.error_code], [400, 'ERR_POSTERN_179'], answer.raw.slice(0, 300));
    assert.equal((await other.api('GET', '/endpoints')).status, 200);
  });

test('a policy may be 32 levels deep, and is kept byte for byte', async () => {
  const nested = (n) => `inbound: ${'['.repeat(n)}${']'.repeat(n)}\n`;
  const answer = await create(nested(31));
  assert.deepEqual([answer.status, answer.body.traffic_policy], [201, nested(31)], answer.raw);
  assert.match((await create(nested(32))).body.msg, /nested deeper than 32 levels/);
  await must('DELETE', `/endpoints/${answer.body.id}`);
});
