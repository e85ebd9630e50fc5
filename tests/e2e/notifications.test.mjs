// Every user of the database may notify on the channels over which copies of postern-routes tell each other what they hear and what
// changed. What another service's role says there counts for nothing, be it made up or said again.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { another, apiAt } from '../support/copies.mjs';
import { api, edge, endpoint, env, healthUrls, home, through, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const PORT = edge.port + 60, HEALTH = PORT + 4;
const run = env.POSTERN_RUN_DIR, mark = `notified-${process.pid}-${Date.now()}`;
const socket = (name) => `ipc://${run}/${mark}.${name}`;
const metrics = (url) => fetch(`http://${url}/metrics`).then((got) => got.text(), () => '');
const metric = async (url, name) => Number(new RegExp(`^postern_routes_${name} (\\d+)`, 'm').exec(await metrics(url))?.[1] ?? -1);
let first, copy, gateway, client, psql;

// A session of another service's role: what it is told is in heard, as [channel, payload].
function session() {
  const child = spawn('psql', ['-XqAt', fs.readFileSync(path.join(home, 'database', 'events.url'), 'utf8').trim()], { stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part) => { text += part; });
  return {
    say: (sql) => child.stdin.write(`${sql};\n`),
    heard: () => [...text.matchAll(/Asynchronous notification "(\w+)" with payload "(.*)" received from server process/g)].map((found) => [found[1], found[2]]),
    stop: () => new Promise((resolve) => { child.on('exit', resolve); child.stdin.end(); }),
  };
}
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
// Again and again, until stop().
function repeat(each) {
  const timer = setInterval(each, 20);
  return () => clearInterval(timer);
}

test.before(async () => {
  if (skip) return;
  const urls = healthUrls();
  for (const url of urls) if (/^postern_routes_other_copies/m.test(await metrics(url))) first = url;
  psql = session();
});
test.after(async () => {
  if (skip) return;
  client?.close();
  await psql.stop();
  await gateway?.stop();
  await copy?.stop();
  for (const name of ['routes', 'log']) fs.rmSync(`${run}/${mark}.${name}`, { force: true });
});

// Changes through the copy that no edge is connected to: it knows of the workers what the other one says.
async function changes_are_live(made, count) {
  for (let i = 0; i < count; i++) {
    const body = `${mark} ${i}`, answer = await client.ask('PATCH', `/backends/http_response/${made.backend.id}`, { body });
    assert.equal(`${answer.status} ${answer.headers['postern-edges']}`, '200 2/2');
    assert.equal((await through(made.host)).body, body);
  }
}

test('copies that there are not, made up by another role, are not heard', { skip, timeout: 280000 }, async () => {
  const made = await endpoint({ body: 'first' }), refused = await metric(first, 'notifications_refused_total');
  let n = 0;
  const stop = repeat(() => {
    psql.say(`SELECT pg_notify('routes_workers', format('{"copy":"copy_%s","number":%s,"part":0,"last":true,"log":"x","workers":{"made/up":0},"lost":{}}', i, ${++n})) FROM generate_series(1, 64) i`);
    psql.say(`SELECT pg_notify('routes_config', '4611686018427387904'), pg_notify('routes_config', ''), pg_notify('routes_config', '{"revision":4611686018427387904}')`);
  });
  try {
    await until(async () => await metric(first, 'notifications_refused_total') > refused + 200, 'they are counted', 120000);
    copy = another('routes', { POSTERN_RPC: socket('routes'), POSTERN_CONFIG_LOG: socket('log'), POSTERN_HEALTH_PORT: String(HEALTH) });
    gateway = another('gateway', { POSTERN_HTTP_PORT: String(PORT), POSTERN_HEALTH_PORT: String(PORT + 1), POSTERN_PROXY_SOCKET: '', POSTERN_ROUTES_RPC: socket('routes') });
    client = apiAt(PORT, PORT + 1);
    const patch = async () => client.ask('PATCH', `/backends/http_response/${made.backend.id}`, { body: 'x' }).then((answer) => answer.headers['postern-edges'], () => '');
    await until(async () => await patch() === '2/2', 'the copy knows both workers of the edge', 120000);
    await changes_are_live(made, 20);
    assert.equal(await metric(first, 'other_copies'), 1);
    assert.equal(await metric(`127.0.0.1:${HEALTH}`, 'other_copies'), 1);
    assert.equal((await api('PATCH', `/backends/http_response/${made.backend.id}`, { body: 'end' })).headers['postern-edges'], '2/2');
  } finally { stop(); }
});

test('what copies said is not heard again from another role', { skip, timeout: 280000 }, async () => {
  const made = await endpoint({ body: 'first' });
  psql.say('LISTEN routes_workers; LISTEN routes_config');
  const asked = repeat(() => psql.say('SELECT 1'));
  await until(() => psql.heard().filter(([channel]) => channel === 'routes_workers').length > 20, 'copies are overheard', 120000);
  await changes_are_live(made, 5);
  asked();
  const heard = psql.heard().slice(-100);
  assert.ok(heard.some(([channel]) => channel === 'routes_config'));
  const stop = repeat(() => psql.say(`SELECT ${heard.map(([channel, text]) => `pg_notify(${quoted(channel)}, ${quoted(text)})`).join(', ')}`));
  try {
    const refused = await metric(first, 'notifications_refused_total');
    await until(async () => await metric(first, 'notifications_refused_total') > refused + 200, 'they are counted', 120000);
    await changes_are_live(made, 20);
    await copy.stop();
    await until(async () => await metric(first, 'other_copies') === 0, 'a copy that is gone is not kept alive', 120000);
    for (let i = 0; i < 5; i++) assert.equal((await api('PATCH', `/backends/http_response/${made.backend.id}`, { body: `end ${i}` })).headers['postern-edges'], '2/2');
  } finally { stop(); }
});
