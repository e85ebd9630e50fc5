// A name server that does not answer keeps nobody waiting but the change that brought the name: see slow_resolver.c.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { api, elsewhere, endpoint, env, home, must, through, until, upstream } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const live = (answer) => Number(answer.headers['postern-edges'].split('/')[1]);

// First: what an account has spent of others' time is not waited for again. A helper that was replaced says hello, and asks for the name anew.
test('a change whose name is still asked for is not confirmed by a hello', { skip: process.env.POSTERN_SLOW_RESOLVER && !elsewhere ? false : 'the edge has no slow resolver here' }, async () => {
  const up = await upstream((request, response) => response.end('there'));
  const near = await endpoint(up.address);
  const acknowledged = () => until(async () => /^([2-9])\/\1$/.test((await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges']), 'changes are acknowledged');
  await acknowledged();
  const waiting = api('PATCH', `/backends/static/${near.backend.id}`, { address: up.address.replace('127.0.0.1', 'n.late.test') });
  await new Promise((resolve) => setTimeout(resolve, 40)); // it is in force, and waits for its name
  const killed = children(workers());
  for (const pid of killed) process.kill(pid, 'SIGKILL');
  const answer = await waiting;
  assert.equal(`${answer.status} ${answer.headers['postern-edges']}`, '200 2/2');
  const got = await Promise.all(Array.from({ length: 10 }, () => through(near.host, '/')));
  assert.deepEqual(new Set(got.map(({ status }) => status)), new Set([200]), 'confirmed: the name has its address');
  // and nothing of their end is noted later than this
  await until(() => { const now = children(workers()); return now.length === killed.length && !now.some((pid) => killed.includes(pid)); }, 'others are in their place');
  await acknowledged();
  await up.close();
});

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

// Requests all the while, each on a connection of its own; what was not answered 200.
function asking(host) {
  const failed = [];
  let on = true, sent = 0;
  const one = async () => { while (on) { sent++; const got = await through(host, '/').catch((error) => ({ status: error.code ?? error.message })); if (got.status !== 200) failed.push(got.status); } };
  const all = Promise.all(Array.from({ length: 8 }, one));
  // not before so many were asked meanwhile, however slow they are
  return async (least = 60) => { await until(() => sent > least, `more than ${least} requests`, 120000); on = false; await all; return { sent, failed }; };
}
const workers = () => children(Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8')));

test('a named backend answers every request while it is changed', async () => {
  const up = await upstream((request, response) => response.end('there'));
  const near = await endpoint(up.address.replace('127.0.0.1', 'localhost'));
  assert.equal((await through(near.host, '/')).status, 200);
  const stop = asking(near.host);
  for (let i = 0; i < 60; i++) await must('PATCH', `/backends/static/${near.backend.id}`, { description: `change ${i}` });
  const { failed } = await stop();
  assert.deepEqual(failed, []);
  await up.close();
});

function otherAccountsKey(name = 'other') {
  const postern = (...args) => JSON.parse(execFileSync(`${home}/bin/postern`, args, { env: { ...process.env, POSTERN_HOME: home }, encoding: 'utf8' }));
  const account = postern('account', 'create', name, `${name}-${process.pid}@example.test`);
  return postern('api-key', 'create', account.id, account.owner_id).token;
}

test('dead names of one account do not keep those of another waiting', { skip: process.env.POSTERN_SLOW_RESOLVER && !elsewhere ? false : 'the edge has no slow resolver here' }, async () => {
  const up = await upstream((request, response) => response.end('there'));
  const headers = { Authorization: `Bearer ${otherAccountsKey()}` };
  await Promise.all(Array.from({ length: 40 }, (_, i) => api('POST', '/backends/static', { address: `d${i}.slow.test:80` }, headers)));
  for (let i = 0; i < 3; i++) {
    const near = await endpoint(up.address.replace('127.0.0.1', 'localhost'));
    await until(async () => (await through(near.host, '/')).status === 200, 'a name that has an address is found', 3000);
  }
  await until(async () => /^([1-9]\d*)\/\1$/.test((await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges']), 'changes are acknowledged');
  await up.close();
});

// One name at a time is enough to hold up everybody's changes all the time, were they waited for.
test('names of one account that are answered late hold up few changes of another', { skip: process.env.POSTERN_SLOW_RESOLVER && !elsewhere ? false : 'the edge has no slow resolver here', timeout: 300000 }, async () => {
  const headers = { Authorization: `Bearer ${otherAccountsKey('late')}` };
  const { backend } = await endpoint({ body: 'x' });
  const change = async () => {
    const from = Date.now(), got = await api('PATCH', `/backends/http_response/${backend.id}`, { body: `${from}` }), took = Date.now() - from;
    assert.match(got.headers['postern-edges'], /^2\/2$/);
    await new Promise((resolve) => setTimeout(resolve, 50));
    return took;
  };
  // what a change takes on this machine at this moment, when nobody has late names
  const before = [];
  for (let i = 0; i < 30; i++) before.push(await change());
  const alone = before.sort((a, b) => a - b)[20]; // not the longest, which may be a pause of the machine
  let on = true;
  const late = Promise.all([0, 1, 2].map(async (k) => {
    for (let i = 0; on; i++) {
      const got = await api('POST', '/backends/static', { address: `l${k}-${i}-${process.pid}.lag.test:80` }, headers);
      assert.equal(got.status, 201, got.raw);
      if (i % 2) await api('DELETE', `/backends/static/${got.body.id}`, undefined, headers); // an account without names is the same account
    }
  }));
  const quick = [], held = [];
  const begin = Date.now();
  while (quick.length + held.length < 100 && Date.now() - begin < 40000) {
    const took = await change();
    (took < 250 + alone ? quick : held).push(took);
  }
  on = false;
  await late;
  assert.ok(quick.length > 4 * held.length, `of ${quick.length + held.length} changes waited: ${held}`);
});

// Between two of the edge's ticks it comes with a name that is waited for, pays that back, and goes with a name that is not.
test('an account that comes and goes with its names does not end workers', { skip: process.env.POSTERN_SLOW_RESOLVER && !elsewhere ? false : 'the edge has no slow resolver here', timeout: 300000 }, async () => {
  const headers = { Authorization: `Bearer ${otherAccountsKey('brief')}` };
  await until(async () => /^([1-9]\d*)\/\1$/.test((await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges']), 'changes are acknowledged');
  const before = workers();
  const edges = new Set();
  for (let i = 0; i < 15; i++) {
    for (const address of [`b${i}-${process.pid}.brief.test:80`, `localhost:${8000 + i}`]) {
      const got = await api('POST', '/backends/static', { address }, headers);
      assert.equal(got.status, 201, got.raw);
      edges.add(got.headers['postern-edges']);
      await api('DELETE', `/backends/static/${got.body.id}`, undefined, headers);
      await new Promise((resolve) => setTimeout(resolve, 430)); // what it took is paid back, and the tick comes or not
    }
  }
  assert.deepEqual(workers(), before, 'nobody ended');
  assert.deepEqual([...edges], [`${before.length}/${before.length}`]);
});

test('a named backend answers every request while all of the configuration is replaced', { skip: elsewhere }, async () => {
  const up = await upstream((request, response) => response.end('there'));
  const near = await endpoint(up.address.replace('127.0.0.1', 'localhost'));
  assert.equal((await through(near.host, '/')).status, 200);
  const file = `${home}/edge/config.state`;
  const stop = asking(near.host);
  // the last change is cut off the file: the first worker asks for all of it again
  let at = 0, last = 0;
  const bytes = fs.readFileSync(file);
  while (at < bytes.length) { last = at; at += 4 + bytes.readUInt32BE(at); }
  fs.truncateSync(file, last);
  const before = children(workers());
  for (const pid of before) process.kill(pid, 'SIGKILL');
  await until(() => { try { return children(workers()).filter((pid) => !before.includes(pid)).length === before.length; } catch { return false; } }, 'new helpers');
  await must('POST', '/backends/http_response', { body: 'x' });
  await until(() => { try { return !fs.readFileSync(file).subarray(0, 28).equals(bytes.subarray(0, 28)); } catch { return false; } }, 'a whole new file');
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const { failed } = await stop();
  assert.deepEqual(failed, []);
  await up.close();
});
