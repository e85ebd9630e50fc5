// A path that dies without a word (tests/support/path.mjs): who is connected by it notices.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { another, apiAt, settingsOf } from '../support/copies.mjs';
import { path } from '../support/path.mjs';
import { api, elsewhere, endpoint, env, listening, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const helpers = () => children(pidOf('edge')).flatMap(children);
const change = async () => (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'];

// In the place of a service's socket, for as long as the story lasts.
async function onPath(name, story) {
  const file = `${env.POSTERN_RUN_DIR}/${name}`;
  let between;
  fs.renameSync(file, `${file}.real`);
  try {
    between = await path(file, `${file}.real`);
    fs.chmodSync(file, 0o666);
    return await story(between);
  } finally {
    between?.close();
    fs.rmSync(file, { force: true });
    fs.renameSync(`${file}.real`, file);
    await until(async () => await change() === '2/2', 'all is well again', 120000);
  }
}

async function throughPath(name, story) {
  await onPath(name, async (between) => {
    for (const pid of helpers()) process.kill(pid, 'SIGKILL'); // they come back this way
    await until(() => between.open() >= 2, 'both workers are connected this way', 120000);
    await until(async () => await change() === '2/2', 'and hear of changes', 120000);
    const ends = helpers();
    await story(between);
    assert.deepEqual(helpers(), ends, 'by the same helpers');
  });
}

test('a path to the config log that died is noticed, and the edge connects again', { skip: elsewhere, timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'v1' });
  await throughPath('config.log', async ({ open, die }) => {
    die();
    await until(() => open() >= 2, 'other connections', 120000);
    const patch = async () => (await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'v2' })).headers['postern-edges'];
    await until(async () => await patch() === '2/2', 'changes are in force', 120000);
    assert.equal((await through(to.host)).body, 'v2');
  });
});

test('a path to the events intake that died is noticed, and events come again', { skip: elsewhere, timeout: 280000 }, async () => {
  const to = await endpoint({ body: 'v1' });
  const subscription = await listening('http_request_complete');
  try {
    await throughPath('events.in', async ({ open, die }) => {
      die();
      await until(() => open() >= 2, 'other connections', 120000);
      const before = subscription.events.length;
      await until(async () => {
        await through(to.host);
        return subscription.events.length > before;
      }, 'events', 120000);
    });
  } finally {
    await subscription.stop();
  }
});

test('a copy that answers, but whose path to the database died, keeps no request', { skip: elsewhere, timeout: 280000 }, async () => {
  const [, host, rest] = settingsOf('routes').vars.POSTERN_DATABASE_URL.match(/@([^/?]*)(.*)$/), place = decodeURIComponent(host).match(/^(.*?)(?::(\d+))?$/);
  const port = Number(new URL(env.POSTERN_API_URL).port) + 77, run = env.POSTERN_RUN_DIR, socket = `${run}/dead-${process.pid}.rpc`;
  const between = await path(0, place[1].startsWith('/') ? `${place[1]}/.s.PGSQL.${place[2] ?? 5432}` : { host: place[1], port: Number(place[2] ?? 5432) });
  const url = settingsOf('routes').vars.POSTERN_DATABASE_URL.replace(/@[^/?]*.*$/, `@127.0.0.1:${between.port}${rest}`);
  const copy = another('routes', { POSTERN_RPC: `ipc://${socket}`, POSTERN_CONFIG_LOG: `ipc://${socket}.log`, POSTERN_DATABASE_URL: url });
  const gateway = another('gateway', { POSTERN_HTTP_PORT: String(port), POSTERN_HEALTH_PORT: String(port + 1), POSTERN_PROXY_SOCKET: '', POSTERN_ROUTES_RPC: `ipc://${run}/routes.rpc,ipc://${socket}` });
  const own = apiAt(port, port + 1);
  const all = async (count, what) => {
    for (let i = 0; i < count; i++) {
      const answer = await (i % 2 ? own.ask('GET', '/ip_policies?limit=1') : own.ask('POST', '/backends/http_response', { body: what }));
      assert.ok([200, 201].includes(answer.status), `${what} ${i}: ${answer.status} ${answer.raw}`);
    }
  };
  try {
    await until(async () => await own.metric('leases_held').catch(() => 0) === 3, 'a gateway that has leases of every copy', 120000);
    await all(12, 'before'); // connections of its workers
    between.die();
    await until(async () => {
      await all(2, 'after');
      return await own.metric('calls_resent_total') > 0;
    }, 'one that its workers could not answer', 60000);
    await until(async () => await own.metric('copies_answering') === 4, 'it is not left out: its reactor says that it is there', 120000);
  } finally {
    own.close();
    await gateway.stop();
    await copy.stop();
    between.close();
    for (const file of [socket, `${socket}.log`]) fs.rmSync(file, { force: true });
    await until(async () => await change() === '2/2', 'all is well again', 120000);
  }
});
