// A PostgreSQL that stands still, as with a hung disk or host: no connection ends, and nothing is answered.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { api, elsewhere, env, healthUrls, home, must, unique, until } from '../support/postern.mjs';

const services = { routes: 1, identity: 2, events: 3 };
const readiness = async (service) => {
  const answer = await fetch(`http://${healthUrls()[services[service]]}/readyz`);
  return `${answer.status} ${await answer.text()}`;
};
const log = (service) => fs.readFileSync(`${env.POSTERN_LOG_DIR}/${service}.log`, 'utf8');
const health = () => spawnSync(`${home}/bin/postern`, ['health'], { encoding: 'utf8', timeout: 60000, env: { ...process.env, ...env, POSTERN_HOME: home } });

test('services that need a PostgreSQL that stands still are not ready and say so, once', { skip: elsewhere, timeout: 300000 }, async () => {
  const postmaster = Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/postgresql.pid`, 'utf8'));
  const all = () => [postmaster, ...execFileSync('pgrep', ['-P', String(postmaster)], { encoding: 'utf8' }).trim().split('\n').map(Number)];
  const from = Object.fromEntries(Object.keys(services).map((service) => [service, log(service).length]));
  const lines = (service, text) => log(service).slice(from[service]).split('\n').filter((line) => line.includes(text));
  const signal = (name) => { for (const pid of all()) try { process.kill(pid, name); } catch (error) { if (error.code !== 'ESRCH') throw error; } };
  signal('SIGSTOP');
  let change;
  try {
    change = api('POST', '/vaults', { name: unique('still') });
    for (const service of Object.keys(services))
      await until(async () => /^503 PostgreSQL has not answered for \d+ s/.test(await readiness(service)), `${service} is not ready`);
    const { status, stdout } = health();
    assert.equal(status, 1, stdout);
    assert.match(stdout, /identity .*not ready: PostgreSQL has not answered for \d+ s/);
    assert.equal((await change).status, 503);
  } finally { signal('SIGCONT'); }
  for (const service of Object.keys(services)) {
    await until(async () => (await readiness(service)).startsWith('200 '), `${service} is ready again`);
    await until(() => lines(service, 'PostgreSQL answers again, after').length, `${service} says that it is over`);
    assert.equal(lines(service, 'warn').filter((line) => line.includes('PostgreSQL has not answered for')).length, 1, `${service} says so once`);
    assert.equal(lines(service, 'PostgreSQL answers again, after').length, 1, service);
  }
  await until(() => api('GET', '/vaults?limit=1').then((answer) => answer.status === 200, () => false), 'the API answers again');
  await must('POST', '/vaults', { name: unique('still') });
});
