// A gateway with two copies of routes and of identity: one that stands still or is killed is left out, and used again when it is
// back. Nothing is done twice and nothing is lost. And the edge, which is connected to one of the two copies of routes: what is
// changed through the other one is live all the same when it is answered.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { another, apiAt } from '../support/copies.mjs';
import { session } from '../support/events.mjs';
import { endpoint, env, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const PORT = Number(new URL(env.POSTERN_API_URL).port) + 77;
const run = env.POSTERN_RUN_DIR, mark = `copies-${process.pid}-${Date.now()}`;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-Atc', text], { encoding: 'utf8' }).trim();
const socket = (name) => `ipc://${run}/${mark}.${name}`;
let copies, gateway, api, lone, loneApi;

// All four lease: each was heard.
const ready = () => until(async () => (await api.metric('leases_held').catch(() => 0)) === 4, 'a gateway that has leases of every copy', 120000);

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
  lone = another('gateway', { POSTERN_HTTP_PORT: String(PORT + 2), POSTERN_HEALTH_PORT: String(PORT + 5), POSTERN_PROXY_SOCKET: '', POSTERN_ROUTES_RPC: socket('routes') });
  loneApi = apiAt(PORT + 2, PORT + 5);
  await ready();
  await until(async () => (await loneApi.ask('GET', '/ip_policies?limit=1').catch(() => ({}))).status === 200, 'a gateway of the second copy alone');
});
test.after(async () => {
  if (skip) return;
  api?.close();
  loneApi?.close();
  await gateway?.stop();
  await lone?.stop();
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

// Each client changes a route of its own through the copy that no edge is connected to, and requests it at once. A worker whose
// helper is not replaced within a second is given up, and the answer says so: always, or at least once in a while, both are there.
async function change(count, made, always) {
  let n = 0, stale = 0, whole = 0;
  const one = async ({ host, edge, route }) => {
    while (n < count) {
      const body = `${mark} ${n++}`;
      const backend = await loneApi.ask('POST', '/backends/http_response', { body });
      const answer = await loneApi.ask('PATCH', `/edges/https/${edge.id}/routes/${route.id}`, { backend: { backend_id: backend.body.id } });
      assert.equal(answer.status, 200, answer.raw);
      const got = await Promise.all(Array.from({ length: 4 }, () => through(host)));
      if (answer.headers['postern-edges'] === '2/2') {
        whole++;
        stale += got.some((each) => each.body !== body);
      }
      assert.ok(!always || answer.headers['postern-edges'] === '2/2', answer.headers['postern-edges']);
    }
  };
  await Promise.all(made.map(one));
  assert.equal(stale, 0, `${stale} of ${whole} changes that both workers acknowledged were not live`);
  assert.ok(whole > 0);
}

test('what is changed through a copy that no edge is connected to is live when it is answered', { skip, timeout: 280000 }, async () => {
  const made = await Promise.all(Array.from({ length: 4 }, () => endpoint({ body: 'first' })));
  await until(async () => /^2\/2$/.test((await loneApi.ask('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges']), 'both workers are known to it');
  await change(200, made, true);
});

test('and while helpers of the edge are killed', { skip, timeout: 280000 }, async () => {
  const made = await Promise.all(Array.from({ length: 4 }, () => endpoint({ body: 'first' })));
  const master = fs.readFileSync(`${run}/edge.pid`, 'utf8').trim();
  const workers = () => children(master);
  const helpers = () => children(workers());
  for (let round = 0; round < 4; round++) {
    const victim = helpers()[round % 2];
    process.kill(victim, 'SIGKILL');
    await change(20, made, false);
    await until(() => { try { const now = helpers(); return now.length === 2 && !now.includes(victim); } catch { return false; } }, 'another helper');
  }
  await until(async () => /^2\/2$/.test((await loneApi.ask('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges']), 'both workers are known to it');
});

for (const name of ['routes', 'identity']) {
  test(`a copy of ${name} that stands still is left out, and used again when it goes on`, { skip, timeout: 280000 }, async () => {
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

  test(`a copy of ${name} that is killed is left out, and used again when there is another`, { skip, timeout: 280000 }, async () => {
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

test('with the only other copy standing still a request waits for one, and is done once', { skip, timeout: 280000 }, async () => {
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

// A backend whose row is locked, and the sessions of copies of routes that wait for that or for each other.
async function locked(client) {
  const { body: { id } } = await client.ask('POST', '/backends/http_response', { body: 'before' }), lock = session(env.DATABASE_URL);
  await lock.say(`BEGIN; SELECT FROM routes.http_response_backend WHERE id = '${id}' FOR UPDATE;`);
  const pids = (where) => sql(`SELECT pid FROM pg_stat_activity WHERE application_name = 'routes' AND ${where}`).split('\n').filter(Boolean);
  return {
    waiting: () => pids("wait_event_type = 'Lock' AND query LIKE '%http_response_backend%'"), // what services do of their own accord waits, too
    is: (pid) => pids(`pid = ${pid}`).length > 0,
    change: (body) => client.ask('PATCH', `/backends/http_response/${id}`, { body }), body: async () => (await client.ask('GET', `/backends/http_response/${id}`)).body.body,
    release: () => lock.say('ROLLBACK;'), end: () => lock.end(),
  };
}

// On a machine that is too slow for it the time of a call is over first: it is tried again.
async function inTime(story) {
  for (let tries = 1; ; tries++) {
    const { status, raw } = await story();
    if (status === 200 || tries === 3) return assert.equal(status, 200, raw);
    assert.equal(status, 503, raw);
  }
}

test('that one copy cannot do a change now is no answer while another one is about to do it', { skip, timeout: 280000 }, () => inTime(async () => {
  const row = await locked(api);
  try {
    const answer = row.change('done');
    let first;
    await until(() => { [first] = row.waiting(); return first; }, 'a copy waits for the lock', 120000);
    await until(() => { const now = row.waiting(); return now.length && !now.includes(first); }, 'it has given up, and the other one waits', 120000);
    await row.release();
    const said = await answer;
    if (said.status === 200) assert.equal(await row.body(), 'done');
    return said;
  } finally { row.end(); }
}));

test('a copy that stood still in its transaction does it again', { skip, timeout: 280000 }, () => inTime(async () => {
  const row = await locked(loneApi);
  let stopped = false;
  try {
    const answer = row.change('done');
    let pid;
    await until(() => { [pid] = row.waiting(); return pid; }, 'it waits for the lock', 120000);
    stopped = copies.routes.kill('SIGSTOP');
    await row.release();
    await until(() => !row.is(pid), 'PostgreSQL ended its session', 120000);
    copies.routes.kill('SIGCONT');
    stopped = false;
    const said = await answer;
    if (said.status === 200) assert.equal(await row.body(), 'done');
    return said;
  } finally {
    if (stopped) copies.routes.kill('SIGCONT');
    row.end();
    await ready();
  }
}));

test('a gateway that no copy of a service answers says so, and lets no request wait for long', { skip, timeout: 280000 }, async () => {
  const port = PORT + 6, own = socket('lonely');
  let copy;
  const front = another('gateway', { POSTERN_HTTP_PORT: String(port), POSTERN_HEALTH_PORT: String(port + 1), POSTERN_PROXY_SOCKET: '', POSTERN_IDENTITY_RPC: own });
  const client = apiAt(port, port + 1);
  const ready = async () => Promise.all([`http://127.0.0.1:${port + 1}/readyz`, `http://127.0.0.1:${port}/readyz`].map((url) => fetch(url).then(async (got) => `${got.status} ${await got.text()}`, () => '')));
  const bot = (name) => client.ask('POST', '/bot_users', { name: `${mark} ${name}` });
  const told = (answer) => `${answer.status} ${answer.headers['retry-after']}`;
  try {
    // It has heard none yet, so from its first word on it is not ready.
    assert.match(await until(async () => (await ready()).find((text) => text), 'it says whether it is ready', 120000), /^503 .*no copy of identity answers/);
    copy = another('identity', { POSTERN_RPC: own });
    await until(async () => (await ready()).every((text) => text.startsWith('200')), 'it is ready', 120000);
    const first = await bot('before');
    assert.equal(first.status, 201, first.raw);
    copy.kill('SIGSTOP');
    await until(async () => (await ready()).every((text) => /^503 .*no copy of identity answers/.test(text)), 'it says so, at both ports', 120000);
    assert.equal(told(await bot('meanwhile')), '503 1');
    const before = await client.metric('calls_resent_total');
    for (let i = 0; i < 3; i++) assert.equal(told(await client.ask('GET', '/bot_users?limit=1')), '503 1');
    assert.ok(await client.metric('calls_resent_total') - before <= 6, 'each for a second or so, not for ten');
    copy.kill('SIGCONT');
    await until(async () => (await ready()).every((text) => text.startsWith('200')), 'it is ready again', 120000);
    await until(async () => (await bot('after')).status === 201, 'and requests are answered', 120000);
  } finally {
    client.close();
    await front.stop();
    await copy?.stop();
    fs.rmSync(`${run}/${mark}.lonely`, { force: true });
  }
});

// A copy that stands still does what it was asked when it goes on, perhaps over something that was answered meanwhile.
test('a change that is under way is not answered as long as it may still be done', { skip, timeout: 280000 }, async () => {
  const port = PORT + 8, own = socket('asleep');
  const copy = another('routes', { POSTERN_RPC: own, POSTERN_CONFIG_LOG: socket('asleep-log') });
  const front = another('gateway', { POSTERN_HTTP_PORT: String(port), POSTERN_HEALTH_PORT: String(port + 1), POSTERN_PROXY_SOCKET: '', POSTERN_ROUTES_RPC: own });
  const client = apiAt(port, port + 1);
  const make = async (name) => (await client.ask('POST', '/backends/http_response', { body: 'x', description: `${mark} ${name}` })).status;
  try {
    await until(async () => await make('before').catch(() => 0) === 201, 'changes are made', 120000);
    copy.kill('SIGSTOP');
    assert.equal(await make('under way'), 503);
    copy.kill('SIGCONT');
    await until(async () => await make('after') === 201, 'changes are made again', 120000);
    const said = [];
    for (let path = '/backends/http_response?limit=100'; path;) {
      const { body } = await client.ask('GET', path);
      said.push(...body.backends.map((one) => one.description));
      const next = body.next_page_uri && new URL(body.next_page_uri);
      path = next && next.pathname + next.search;
    }
    assert.ok(said.includes(`${mark} after`) && !said.includes(`${mark} under way`), said.filter((text) => text.startsWith(mark)).join());
  } finally {
    client.close();
    await front.stop();
    await copy.stop();
    for (const name of ['asleep', 'asleep-log']) fs.rmSync(`${run}/${mark}.${name}`, { force: true });
  }
});
