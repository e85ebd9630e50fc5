// What a gateway remembers about callers is gone when the answer to a revoking change is given: with keys, their owners and
// IP restrictions, at this gateway and at another one, also at one that was stopped meanwhile.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { api, env, must, until } from '../support/postern.mjs';

const ROUNDS = Number(process.env.ADMISSION_ROUNDS || 100);
const PORT = Number(new URL(env.POSTERN_API_URL).port) + 77;
const withKey = (token) => ({ Authorization: `Bearer ${token}` });

// A second gateway of the same system: {ask(token) -> status, pid, stop(): the next one has its port}.
async function secondGateway() {
  const pid = fs.readFileSync(`${env.POSTERN_RUN_DIR}/gateway.pid`, 'utf8').trim();
  const vars = Object.fromEntries(fs.readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter((row) => row.includes('=')).map((row) => [row.slice(0, row.indexOf('=')), row.slice(row.indexOf('=') + 1)]));
  const child = spawn(fs.readlinkSync(`/proc/${pid}/exe`), { env: { ...vars, POSTERN_HTTP_PORT: String(PORT), POSTERN_HEALTH_PORT: String(PORT + 1), POSTERN_PROXY_SOCKET: '' }, stdio: 'ignore' });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const get = (token, path) => new Promise((resolve, reject) => {
    http.get({ host: '127.0.0.1', port: PORT, path, agent, headers: { ...withKey(token), 'Service-Version': '2' } }, (response) => {
      let text = '';
      response.on('data', (part) => { text += part; });
      response.on('end', () => resolve({ status: response.statusCode, text }));
    }).on('error', reject);
  });
  const metric = async (name) => Number((await fetch(`http://127.0.0.1:${PORT + 1}/metrics`).then((got) => got.text(), () => '')).match(new RegExp(`^postern_gateway_${name} (\\d+)`, 'm'))?.[1]);
  const ended = new Promise((resolve) => child.on('exit', resolve));
  process.on('exit', () => child.kill('SIGKILL'));
  await until(async () => (await get(env.POSTERN_API_KEY, '/ip_policies?limit=1').catch(() => ({}))).status === 200 && (await metric('leases_held')) >= 2, 'the second gateway and its leases', 120000);
  return { ask: async (token) => (await get(token, '/ip_policies?limit=1')).status, metric, pid: child.pid, stop: () => { agent.destroy(); child.kill(); return ended; } };
}

test('a deleted key is refused by the next request at every gateway', async () => {
  const other = await secondGateway();
  try {
    const before = await other.metric('admissions_remembered_total');
    for (let i = 0; i < ROUNDS; i++) {
      const key = await must('POST', '/api_keys', { description: 'short-lived' });
      for (let n = 0; n < 3; n++) assert.equal(await other.ask(key.token), 200);
      assert.equal((await api('GET', '/ip_policies?limit=1', undefined, withKey(key.token))).status, 200);
      let over = false;
      const hammer = (async () => { while (!over) await other.ask(key.token); })(); // requests of the key are on the way all the time
      await must('DELETE', `/api_keys/${key.id}`);
      const [here, there] = await Promise.all([api('GET', '/ip_policies?limit=1', undefined, withKey(key.token)), other.ask(key.token)]);
      over = true;
      await hammer;
      assert.equal(here.status, 401, `round ${i}`);
      assert.equal(there, 401, `round ${i}`);
    }
    assert.ok(await other.metric('admissions_remembered_total') - before >= ROUNDS, 'most requests were answered from memory');
  } finally { await other.stop(); }
});

test('the key of an inactive user is refused by the next request, and admitted again once it is active', async () => {
  const bot = await must('POST', '/bot_users', { name: 'robot' });
  const key = await must('POST', '/api_keys', { owner_id: bot.id });
  const ask = async () => (await api('GET', '/ip_policies?limit=1', undefined, withKey(key.token))).status;
  for (let i = 0; i < 20; i++) {
    assert.equal(await ask(), 200);
    await must('PATCH', `/bot_users/${bot.id}`, { active: false });
    assert.equal(await ask(), 403);
    await must('PATCH', `/bot_users/${bot.id}`, { active: true });
  }
  await must('DELETE', `/api_keys/${key.id}`);
  await must('DELETE', `/bot_users/${bot.id}`);
});

test('a gateway that is stopped while a key is deleted does not admit it when it goes on', async () => {
  const other = await secondGateway();
  try {
    for (let i = 0; i < 5; i++) {
      const key = await must('POST', '/api_keys', {});
      for (let n = 0; n < 3; n++) assert.equal(await other.ask(key.token), 200);
      process.kill(other.pid, 'SIGSTOP');
      await must('DELETE', `/api_keys/${key.id}`); // waits until the lease of the stopped one has run out
      const answer = other.ask(key.token); // lies in its socket before it goes on
      process.kill(other.pid, 'SIGCONT');
      assert.equal(await answer, 401);
    }
  } finally { process.kill(other.pid, 'SIGCONT'); await other.stop(); }
});
