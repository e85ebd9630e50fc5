// Who may do what inside: a key of the bus opens what its role may, and nothing else. `make roles` asks for all of it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { peer } from '../support/peer.mjs';
import { elsewhere, env, healthUrls, home, listening, through, until } from '../support/postern.mjs';

const keys = path.join(home, 'keys');
const options = { skip: elsewhere };
const run = (key, ...args) => spawnSync(`${home}/bin/postern`, args, { encoding: 'utf8', timeout: 120000, env: { ...process.env, POSTERN_HOME: home, POSTERN_CURVE_DIR: path.join(keys, key) } });
const names = () => fs.readdirSync(keys);
const edge = () => names().find((name) => name.startsWith('edge@'));

// A copy of one part's key, with the public keys of all that it could speak to: what a thief would have.
function stolen(name) {
  const dir = fs.mkdtempSync('/tmp/postern-stolen-');
  fs.cpSync(path.join(keys, name), dir, { recursive: true });
  for (const peer of names()) fs.copyFileSync(path.join(keys, peer, 'self.cert'), path.join(dir, 'peers', `${peer}.cert`));
  return dir;
}
const withKey = (dir, ...args) => spawnSync(`${home}/bin/postern`, args, { encoding: 'utf8', timeout: 120000, env: { ...process.env, POSTERN_HOME: home, POSTERN_CURVE_DIR: dir } });
const metric = async (service, socket) => {
  const port = { routes: 1, identity: 2, events: 3 }[service];
  const text = await (await fetch(`http://${healthUrls()[port]}/metrics`)).text();
  return Number(text.match(new RegExp(`^postern_${service}_bus_refused_total\\{socket="${socket}"\\} (\\d+)`, 'm'))?.[1]);
};

test("with the edge's key no account and no API key is made, and no event is watched", options, async () => {
  const key = stolen(edge());
  const [requests, watchers] = [await metric('identity', 'rpc'), await metric('events', 'pub')];
  for (const [why, ...args] of [
    [/This peer may not call this verb/, 'account', 'create', 'Thief', 'thief@example.test'], [/This peer may not call this verb/, 'api-key', 'create', env.POSTERN_ACCOUNT, 'usr_x'],
    [/does not take the key in/, 'tail'],
  ]) {
    const got = withKey(key, ...args);
    assert.equal(got.status, 1, `${args[0]}: ${got.stdout}`);
    assert.match(got.stderr, why);
    assert.equal(got.stdout, '');
  }
  await until(async () => await metric('identity', 'rpc') >= requests + 2, 'both requests are counted');
  await until(async () => await metric('events', 'pub') >= watchers + 1, 'and who wanted to watch');
  for (const verb of ['account.create', 'api_key.create']) {
    const said = fs.readFileSync(`${env.POSTERN_LOG_DIR}/identity.log`, 'utf8').split('\n').filter((line) => line.includes(`refused: socket=identity.rpc peer="${edge()}" may not call ${verb}`));
    assert.ok(said.length >= 1 && said.length <= 2, `once a minute: ${said.join('\n')}`);
  }
});

test("with the gateway's key no account is made: 190", options, () => {
  const got = withKey(stolen('gateway'), 'account', 'create', 'Thief', 'thief@example.test');
  assert.deepEqual([got.status, got.stdout], [1, '']);
  assert.match(got.stderr, /This peer may not call this verb/);
});

test('a key that nobody lists, and none at all, open nothing', options, () => {
  const dir = fs.mkdtempSync('/tmp/postern-stranger-');
  fs.chmodSync(dir, 0o755);
  assert.equal(spawnSync(`${home}/bin/postern`, ['curve-keys', dir, 'cli', 'identity', 'events'], { encoding: 'utf8' }).status, 0);
  for (const peer of ['identity', 'events']) fs.copyFileSync(path.join(keys, peer, 'self.cert'), path.join(dir, 'cli/peers', `${peer}.cert`));
  for (const args of [['account', 'create', 'Stranger', 'stranger@example.test'], ['tail']]) {
    assert.match(withKey(path.join(dir, 'cli'), ...args).stderr, /does not take the key in/, args[0]);
    assert.match(withKey('', ...args).stderr, /POSTERN_CURVE_DIR is not set|needs CURVE keys/, args[0]);
  }
});

test('a subscriber watches all events and does nothing else', options, async () => {
  const child = spawn(`${home}/bin/postern`, ['tail', 'http_request_complete'], { env: { ...process.env, POSTERN_HOME: home, POSTERN_CURVE_DIR: path.join(keys, 'subscriber') } });
  try {
    let text = '';
    child.stdout.on('data', (part) => { text += part; });
    const { host } = await listening.probe();
    await until(async () => { await through(host, '/watched'); return text.includes('/watched'); }, 'an event at the subscriber');
  } finally { child.kill(); }
  assert.match(withKey(stolen('subscriber'), 'account', 'create', 'Watcher', 'watcher@example.test').stderr, /does not take the key in/);
});

test('keys are their owner\'s to read, and lists hold those with whom there is business', options, () => {
  for (const name of names()) {
    assert.equal(fs.statSync(path.join(keys, name)).mode & 0o077, 0, name);
    assert.equal(fs.statSync(path.join(keys, name, 'self.cert_secret')).mode & 0o777, 0o600, name);
  }
  const peers = (name) => fs.readdirSync(path.join(keys, name, 'peers')).sort();
  assert.deepEqual(peers(edge()), ['events.cert', 'identity.cert', 'routes.cert']);
  assert.deepEqual(peers('subscriber'), ['events.cert']);
  assert.deepEqual(peers('identity'), ['cli.cert', ...names().filter((name) => name.startsWith('edge@')).map((name) => `${name}.cert`), 'events.cert', 'gateway.cert', 'routes.cert', 'saml.cert'].sort());
  assert.deepEqual(peers('saml'), ['identity.cert']);
  assert.deepEqual(peers('gateway'), ['events.cert', 'identity.cert', 'routes.cert']);
});

test('curve-keys refuses what is no role, and what was listed once and has no business there goes', options, () => {
  const dir = fs.mkdtempSync('/tmp/postern-keys-');
  const make = (...args) => spawnSync(`${home}/bin/postern`, ['curve-keys', dir, ...args], { encoding: 'utf8' });
  for (const name of ['admin', 'edge@', 'edge@a/b', '../edge', '@x', '']) assert.match(make(name).stderr, /is no name of a peer/, name);
  assert.deepEqual(fs.readdirSync(dir), []);
  assert.equal(make('identity', 'subscriber').status, 0);
  const before = fs.readFileSync(path.join(dir, 'subscriber/self.cert_secret'), 'utf8');
  fs.copyFileSync(path.join(dir, 'subscriber/self.cert'), path.join(dir, 'identity/peers/subscriber.cert')); // as it was before there were roles
  assert.equal(make('identity', 'subscriber', 'cli').status, 0);
  assert.deepEqual(fs.readdirSync(path.join(dir, 'identity/peers')), ['cli.cert']);
  assert.equal(fs.readFileSync(path.join(dir, 'subscriber/self.cert_secret'), 'utf8'), before, 'a key stays');
});

test('the command line works as before', options, () => {
  assert.equal(run('cli', 'account', 'create', 'Roles', `roles-${process.pid}@example.test`).status, 0);
});

// What a service asks itself (certificates to renew, once a second here) is answered to nobody.
test('a peer that calls itself "self" hears what is its own, and no answer of the service to itself', options, async () => {
  const one = peer('gateway', 'routes', `ipc://${env.POSTERN_RUN_DIR}/routes.rpc`, 'self');
  try {
    one.send('lease', '1', '1');
    await until(() => one.got.some((frames) => String(frames[0]) === 'lease'), 'its lease');
    await new Promise((resolve) => setTimeout(resolve, 2500));
    one.send('lease', '1', '2');
    await until(() => one.got.some((frames) => String(frames[0]) === 'lease' && String(frames[2]) === '2'), 'its next lease');
    assert.deepEqual(one.got.filter((frames) => !['lease', 'revoke'].includes(String(frames[0]))).map(String), []);
  } finally { one.stop(); }
});
