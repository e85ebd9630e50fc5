// A gateway with two copies of routes and of identity: one that stands still or is killed is left out, and used again when it is
// back. Nothing is done twice and nothing is lost.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { another, apiAt } from '../support/copies.mjs';
import { env, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const PORT = Number(new URL(env.POSTERN_API_URL).port) + 77;
const run = env.POSTERN_RUN_DIR, mark = `copies-${process.pid}-${Date.now()}`;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-Atc', text], { encoding: 'utf8' }).trim();
const socket = (name) => `ipc://${run}/${mark}.${name}`;
let copies, gateway, api;

// All four lease: each was heard.
const ready = () => until(async () => (await api.metric('leases_held').catch(() => 0)) === 4, 'a gateway that has leases of every copy', 30000);

test.before(async () => {
  if (skip) return;
  copies = {
    routes: another('routes', { POSTERN_RPC: socket('routes'), POSTERN_CONFIG_LOG: socket('log') }),
    identity: another('identity', { POSTERN_RPC: socket('identity') }),
  };
  gateway = another('gateway', {
    POSTERN_HTTP_PORT: String(PORT), POSTERN_HEALTH_PORT: String(PORT + 1), POSTERN_PROXY_SOCKET: '',
    POSTERN_ROUTES_RPC: `ipc://${run}/routes.rpc,${socket('routes')}`, POSTERN_IDENTITY_RPC: `ipc://${run}/identity.rpc,${socket('identity')}`,
  });
  api = apiAt(PORT, PORT + 1);
  await ready();
});
test.after(async () => {
  if (skip) return;
  api?.close();
  await gateway?.stop();
  for (const one of Object.values(copies ?? {})) await one.stop();
  for (const name of ['routes', 'identity', 'log']) fs.rmSync(`${run}/${mark}.${name}`, { force: true });
});

// So many requests by eight clients: creates and reads of both services. All must succeed.
async function load(count, what) {
  let n = 0;
  const one = async () => {
    while (n < count) {
      const i = n++, metadata = `${mark} ${what} ${i}`;
      const answer = await (i % 4 === 0 ? api.ask('POST', '/backends/http_response', { body: 'x', metadata })
        : i % 4 === 1 ? api.ask('POST', '/bot_users', { name: metadata })
          : api.ask('GET', i % 4 === 2 ? '/ip_policies?limit=1' : '/api_keys?limit=1'));
      assert.ok(answer.status === 200 || answer.status === 201, `${what} ${i}: ${answer.status} ${answer.raw}`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
  for (const [table, field] of [['routes.http_response_backend', 'metadata'], ['identity.bot_user', 'name']])
    assert.equal(Number(sql(`SELECT count(*) FROM ${table} WHERE ${field} LIKE '${mark} ${what} %'`)), count / 4, `${table}: each once`);
}

for (const name of ['routes', 'identity']) {
  test(`a copy of ${name} that stands still is left out, and used again when it goes on`, { skip, timeout: 120000 }, async () => {
    const before = await api.metric('calls_resent_total'), out = await api.metric('copies_left_out_total'), back = await api.metric('copies_back_total');
    copies[name].kill('SIGSTOP');
    try {
      await load(200, `${name} stopped`);
      // What was with it when it stopped, and went to it before that was noticed: eight clients wait for it, and ask again for each of
      // the at most three calls of a request. Nothing later.
      const resent = await api.metric('calls_resent_total') - before;
      assert.ok(resent <= 24, `${resent} calls were sent again`);
      assert.equal(await api.metric('copies_left_out_total') - out, 1);
      const settled = await api.metric('calls_resent_total');
      await load(200, `${name} still stopped`);
      assert.equal(await api.metric('calls_resent_total'), settled, 'no request went to the copy that is left out');
    } finally {
      copies[name].kill('SIGCONT');
    }
    await until(async () => await api.metric('copies_back_total') - back === 1, 'it is used again');
    await ready();
    await load(40, `${name} back`);
  });

  test(`a copy of ${name} that is killed is left out, and used again when there is another`, { skip, timeout: 120000 }, async () => {
    const before = await api.metric('calls_resent_total'), out = await api.metric('copies_left_out_total'), back = await api.metric('copies_back_total');
    const first = load(200, `${name} killed`);
    copies[name].kill('SIGKILL');
    await first;
    const resent = await api.metric('calls_resent_total') - before;
    assert.ok(resent <= 24, `${resent} calls were sent again`);
    assert.equal(await api.metric('copies_left_out_total') - out, 1);
    const settled = await api.metric('calls_resent_total');
    await load(200, `${name} gone`);
    assert.equal(await api.metric('calls_resent_total'), settled, 'no request went to the copy that is gone');
    copies[name].start();
    await until(async () => await api.metric('copies_back_total') - back === 1, 'another one is used');
    await ready();
    await load(40, `${name} anew`);
  });
}

test('with the only other copy standing still a request waits for one, and is done once', { skip, timeout: 60000 }, async () => {
  const running = Number(fs.readFileSync(`${run}/routes.pid`, 'utf8'));
  copies.routes.kill('SIGSTOP');
  process.kill(running, 'SIGSTOP');
  let answer;
  try {
    answer = api.ask('POST', '/backends/http_response', { body: 'x', metadata: `${mark} both` });
    await until(async () => await api.metric('copies_answering') === 3, 'both are left out'); // two of identity, one of events
  } finally {
    process.kill(running, 'SIGCONT');
    copies.routes.kill('SIGCONT');
  }
  assert.equal((await answer).status, 201);
  assert.equal(sql(`SELECT count(*) FROM routes.http_response_backend WHERE metadata = '${mark} both'`), '1');
  await ready();
});
