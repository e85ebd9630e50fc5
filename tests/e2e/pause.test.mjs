// A worker that stood still (a signal, a paused machine, swap) for longer than a change waits for it: what it serves when it goes on.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import tls from 'node:tls';
import { api, ca, edge, elsewhere, endpoint, env, must, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const workers = () => children(pidOf('edge'));
const signal = (pids, name) => { for (const pid of pids) process.kill(pid, name); };
const upToDate = async () => { const all = workers().length; return all > 0 && (await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'] === `${all}/${all}`; };

// A connection on which requests are sent by hand: next() is the body of its next answer.
async function connection(host) {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca });
  let text = '', wake = () => {};
  socket.on('data', (part) => { text += part; wake(); });
  socket.on('error', () => {});
  await new Promise((resolve, reject) => { socket.on('secureConnect', resolve); socket.on('error', reject); });
  const next = async () => {
    for (;;) {
      const end = text.indexOf('\r\n\r\n'), length = Number(text.match(/content-length: (\d+)/i)?.[1]);
      if (end >= 0 && text.length >= end + 4 + length) {
        const body = text.slice(end + 4, end + 4 + length);
        text = text.slice(end + 4 + length);
        return body;
      }
      await new Promise((resolve) => { wake = resolve; });
    }
  };
  return { ask: () => socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`), next, close: () => socket.destroy() };
}

async function stopped(pids, story) {
  signal(pids, 'SIGSTOP');
  try { return await story(); } finally { for (const pid of pids) try { process.kill(pid, 'SIGCONT'); } catch { /* it was replaced */ } }
}

for (const [whose, who] of [['workers', () => workers()], ['workers and their helpers', () => [...workers(), ...workers().flatMap(children)]]]) {
  test(`${whose} that were stopped serve nothing of what was changed meanwhile`, { skip: elsewhere }, async () => {
    const to = await endpoint({ body: 'v1' });
    await until(upToDate, 'all workers are up to date');
    const kept = await Promise.all(Array.from({ length: 20 }, () => connection(to.host)));
    for (const one of kept) { one.ask(); assert.equal(await one.next(), 'v1'); }
    const asked = await stopped(who(), async () => {
      await must('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'v2' }); // lies in the link of each helper that runs
      await until(async () => (await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'v3' })).headers['postern-edges'] === '0/0', 'nobody waits for them');
      const later = await endpoint({ body: 'later' }); // its name has no certificate in what they have
      for (const one of kept) one.ask();
      const all = [
        ...kept.map(async (one) => [await one.next(), 'v3']),
        ...Array.from({ length: 10 }, () => through(to.host).then(({ body }) => [body, 'v3'])),
        ...Array.from({ length: 10 }, () => through(later.host).then(({ body }) => [body, 'later'], (error) => [error.code, 'later'])),
      ];
      await new Promise((resolve) => setTimeout(resolve, 200)); // all of them wait in sockets
      return all;
    });
    assert.deepEqual((await Promise.all(asked)).filter(([got, want]) => got !== want), []);
    await until(upToDate, 'changes reach every worker again');
    for (const one of kept) one.close();
  });
}

test('workers that were stopped while the config log is away serve what they have', { skip: elsewhere }, async () => {
  const to = await endpoint({ body: 'still here' });
  await until(upToDate, 'all workers are up to date');
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  const told = (text) => fs.readFileSync(log, 'utf8').slice(from).split(text).length - 1;
  const pause = () => stopped(workers(), () => new Promise((resolve) => setTimeout(resolve, 1500)));
  const all = async () => new Set((await Promise.all(Array.from({ length: 20 }, () => through(to.host)))).map(({ body }) => body));
  // A worker that the machine kept still for a second has stood still once more.
  const asked = () => told('does not answer: serving revision'), stood = () => told('this worker stood still');
  await stopped([pidOf('routes')], async () => {
    const before = stood();
    await pause();
    assert.deepEqual([...await all()], ['still here']);
    const waits = asked();
    assert.ok(waits > 0 && waits <= stood() - before, `each of them asked once: ${waits}`);
    await pause(); // it may have come back meanwhile: they ask again
    assert.deepEqual([...await all()], ['still here']);
    const more = asked() - waits;
    assert.ok(more > 0 && waits + more <= stood() - before, `each of them asked once more: ${more}`);
  });
  await until(upToDate, 'changes reach every worker again');
});

test('workers that were stopped while the config log is away, and again while it comes back, serve nothing of what was changed meanwhile', { skip: elsewhere }, async () => {
  const to = await endpoint({ body: 'v1' });
  await until(upToDate, 'all workers are up to date');
  const kept = await Promise.all(Array.from({ length: 40 }, () => connection(to.host)));
  for (const one of kept) { one.ask(); assert.equal(await one.next(), 'v1'); }
  const all = [...workers(), ...workers().flatMap(children)], routes = [pidOf('routes')];
  const asked = await stopped(all, async () => {
    signal(all, 'SIGCONT');
    await stopped(routes, async () => {
      await stopped(workers(), () => new Promise((resolve) => setTimeout(resolve, 1500)));
      for (const one of kept) { one.ask(); assert.equal(await one.next(), 'v1', 'it is away'); }
      signal(all, 'SIGSTOP');
    });
    await until(async () => (await api('PATCH', `/backends/http_response/${to.backend.id}`, { body: 'v2' })).headers['postern-edges'] === '0/0', 'nobody waits for them');
    for (const one of kept) one.ask();
    await new Promise((resolve) => setTimeout(resolve, 1000)); // all of them wait in sockets, and the pause is one
    return kept.map((one) => one.next());
  });
  assert.deepEqual(new Set(await Promise.all(asked)), new Set(['v2']));
  await until(upToDate, 'changes reach every worker again');
  for (const one of kept) one.close();
});
