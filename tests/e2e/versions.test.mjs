// Each request keeps the version of its route that it began with. What an account may keep so in a worker is bounded: the requests of the oldest
// versions end, however little their clients send or take.
import assert from 'node:assert/strict';
import http from 'node:http';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { ca, edge, elsewhere, must, storyHost, unique, until } from '../support/postern.mjs';
import { workers } from '../model/workers.mjs';

// A version with two lists of user_agent_filter counts as 256 KiB and a little; an account may keep 16 MiB of them (services/edge/table/retired.h).
const KEPT = 16 * 4, VERSIONS = 170;

test('requests of old versions of routes end when an account keeps too many, the oldest first', { skip: elsewhere }, async () => {
  const arrived = new Set();
  const silent = http.createServer((request) => arrived.add(request.url)); // never answers
  await new Promise((resolve) => silent.listen(0, storyHost, resolve));
  const host = unique('versions');
  await must('POST', '/reserved_domains', { domain: host });
  const backend = await must('POST', '/backends/static', { address: `${storyHost}:${silent.address().port}` });
  const front = await must('POST', '/edges/https', { hostports: [`${host}:443`] });
  const route = await must('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  const version = (n) => must('PATCH', `/edges/https/${front.id}/routes/${route.id}`, { user_agent_filter: { allow: ['.*', `never ${n}`], deny: [`nor ${n}`] } });
  const before = workers();

  // sends a little of its body at a time, for ever; who sends less than 4 KiB a minute is cut off for that, which a slow run would live to see
  const trickle = (path) => {
    const self = { got: '', closed: false }, socket = tls.connect({ ...edge, servername: host, ca });
    socket.write(`POST ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 1000000\r\n\r\nx`);
    const timer = setInterval(() => socket.write('x'.repeat(100)), 100);
    socket.on('data', (bytes) => { self.got += bytes; }).on('error', () => {}).on('close', () => { self.closed = true; clearInterval(timer); });
    self.end = () => { clearInterval(timer); socket.destroy(); };
    return self;
  };
  // takes nothing of an answer, not even of the page
  const unread = (path) => {
    const self = { got: '', closed: false }, session = http2.connect(`https://${edge.host}:${edge.port}`, { servername: host, ca, settings: { initialWindowSize: 0 } });
    session.on('error', () => {}).on('close', () => { self.closed = true; });
    session.request({ ':authority': host, ':path': path, ':method': 'POST' }).on('error', () => {}).write('x');
    self.end = () => session.destroy();
    return self;
  };

  const requests = [];
  for (let n = 0; n < VERSIONS; n++) {
    await version(n);
    requests.push((n % 10 === 1 ? unread : trickle)(`/${n}`));
    await until(() => arrived.has(`/${n}`), `request ${n} is on its way`);
  }
  await version('the last');
  const open = () => requests.filter(({ closed }) => !closed).length;
  await until(() => open() <= before.length * (KEPT + 1), `${before.length} workers keep no more than they may: ${open()}`);
  for (const n of [0, 1, 2, 3, 4]) await until(() => requests[n].closed, `request ${n}, of the oldest, has ended`);
  assert.match(requests[0].got, /ERR_POSTERN_925/);
  for (const one of requests.slice(-20)) assert.deepEqual([one.closed, one.got], [false, '']);
  assert.deepEqual(workers(), before);
  for (const one of requests) one.end();
  silent.closeAllConnections();
  silent.close();
  for (const path of [`/edges/https/${front.id}`, `/backends/static/${backend.id}`]) await must('DELETE', path);
});

// A version with a body of 64 KiB counts as 136 KiB and a little.
test('requests of old versions of backends end in the same way', { skip: elsewhere }, async () => {
  const host = unique('versions'), MOST = 128 * 1024 / 136;
  await must('POST', '/reserved_domains', { domain: host });
  const backend = await must('POST', '/backends/http_response', { body: 'x'.repeat(65536) });
  const front = await must('POST', '/edges/https', { hostports: [`${host}:443`] });
  await must('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
  const before = workers();

  // takes the head of the answer, and nothing of its body
  const unread = () => new Promise((resolve, reject) => {
    const self = { closed: false }, session = http2.connect(`https://${edge.host}:${edge.port}`, { servername: host, ca, settings: { initialWindowSize: 0 } });
    session.on('error', () => {}).on('close', () => { self.closed = true; reject(new Error('closed')); });
    session.request({ ':authority': host, ':path': '/' }).on('error', () => {}).on('response', () => resolve(self));
    self.end = () => session.destroy();
  });
  const requests = [];
  for (let n = 0; n < 136 * before.length; n++) {
    await must('PATCH', `/backends/http_response/${backend.id}`, { body: `${n} `.padEnd(65536, 'x') });
    requests.push(await unread());
  }
  await must('PATCH', `/backends/http_response/${backend.id}`, { body: 'x'.repeat(65536) });
  const open = () => requests.filter(({ closed }) => !closed).length;
  await until(() => open() <= before.length * MOST, `${before.length} workers keep no more than they may: ${open()}`);
  for (const one of requests.slice(-20)) assert.equal(one.closed, false);
  assert.deepEqual(workers(), before);
  for (const one of requests) one.end();
  for (const path of [`/edges/https/${front.id}`, `/backends/http_response/${backend.id}`]) await must('DELETE', path);
});
