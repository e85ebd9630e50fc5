// A name server that does not answer keeps nobody waiting but the change that brought the name: see slow_resolver.c.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { api, endpoint, env, must, through, until, upstream } from '../support/postern.mjs';

const live = (answer) => Number(answer.headers['postern-edges'].split('/')[1]);

test('names that nobody answers for hold up no other change', { skip: process.env.POSTERN_SLOW_RESOLVER ? false : 'the edge has no slow resolver here' }, async () => {
  const up = await upstream((request, response) => response.end('there'));
  const log = `${env.POSTERN_LOG_DIR}/routes.log`, from = fs.statSync(log).size;
  const slow = [];
  for (let round = 0; round < 2; round++) {
    // fewer than there are threads: one asks again for known names, one is left for names that do have an address
    slow.push(api('POST', '/backends/static', { address: `a${round}.slow.test:80` }));
    for (let i = 0; i < 20; i++) {
      const answer = await api('POST', '/backends/http_response', { body: 'x' });
      assert.equal(answer.status, 201);
      assert.ok(live(answer) >= 2, `${answer.headers['postern-edges']}: the workers are there`);
    }
  }
  for (const answer of await Promise.all(slow)) { assert.equal(answer.status, 201); assert.ok(live(answer) >= 2, answer.headers['postern-edges']); }
  const near = await endpoint(up.address.replace('127.0.0.1', 'localhost')); // not behind those
  await until(async () => (await through(near.host, '/')).body === 'there', 'a name with an address is found meanwhile');
  assert.doesNotMatch(fs.readFileSync(log, 'utf8').slice(from), /left the config log|cannot be told of changes/);
  await must('GET', '/backends/static?limit=1');
  await up.close();
});
