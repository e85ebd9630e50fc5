// What a peer of TLS 1.3 may send behind the handshake that carries nothing: a KeyUpdate has 27 bytes and costs the edge as much as a request does. OpenSSL's own client sends one for a
// line of "k".
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import test from 'node:test';
import { edge, elsewhere, endpoint, through, until, upstream } from '../support/postern.mjs';

const WAIT = 120000, options = { skip: elsewhere, timeout: 300000 };
const ended = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_clients_flooding_total\{worker="\d+"\} (\d+)/gm)].reduce((sum, [, number]) => sum + Number(number), 0);

function client(host) {
  const child = spawn('openssl', ['s_client', '-connect', `${edge.host}:${edge.port}`, '-servername', host, '-tls1_3'], { stdio: ['pipe', 'pipe', 'pipe'] });
  const self = { child, said: '', over: false, updates: () => self.said.split('KEYUPDATE').length - 1 };
  for (const from of [child.stdout, child.stderr]) from.on('data', (part) => { self.said += part; });
  child.stdin.on('error', () => {});
  child.on('close', () => { self.over = true; }); // what it has said is here by then
  return self;
}
// One KeyUpdate more. False: the connection is over.
async function update(self) {
  const before = self.updates();
  self.child.stdin.write('k\n');
  await until(() => self.over || self.updates() > before, 'it is sent', WAIT);
  return !self.over;
}

test('who sends some KeyUpdates is served', options, async () => {
  const { host } = await endpoint({ body: 'served all the same' }), self = client(host);
  await until(() => self.said.includes('Verify return code'), 'a connection', WAIT);
  for (let i = 0; i < 20; i++) assert.equal(await update(self), true, self.said);
  self.child.stdin.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  await until(() => self.over, 'the answer', WAIT);
  assert.ok(self.said.includes('served all the same'), self.said);
});

test('whose KeyUpdates have no end is cut off, before a request as well as in its midst', options, async () => {
  const up = await upstream((request, response) => response.end('served')), { host } = await endpoint(up.address);
  for (const head of ['', `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n`]) {
    const before = await ended(), self = client(host);
    await until(() => self.said.includes('Verify return code'), 'a connection', WAIT);
    self.child.stdin.write(head);
    await until(() => !head || self.said.includes('100 Continue'), 'its body is waited for', WAIT); // what comes at once is no command
    for (let i = 0; i < 100 && await update(self);) i++; // as many as the client has said that it sends
    await until(() => self.over, 'it is cut off, by less than a hundred', WAIT);
    await until(async () => await ended() > before, 'it is counted', WAIT);
  }
  assert.equal((await through(host)).status, 200);
  await up.close();
});
