// An upstream with TLS by its address that shows no certificate at all is sent nothing, whatever ciphers an operator has set in nginx.conf.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import { WAIT, ask, port, publish, skip, stack } from '../support/clients.mjs';
import { tcpUpstream, until } from '../support/postern.mjs';

const ANONYMOUS = 'aNULL:@SECLEVEL=0', AT = port + 20;

const ready = stack({}, async ({ state, call }) => {
  // An HTTPS server of TLS 1.2 without a certificate; both files and status pages are served by it.
  const server = spawn('openssl', ['s_server', '-accept', `127.0.0.1:${AT}`, '-nocert', '-cipher', ANONYMOUS, '-tls1_2', '-www'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let said = '';
  server.stdout.on('data', (part) => { said += part; });
  await until(() => said.includes('ACCEPT'), 'it listens', WAIT);
  const file = `${state}/edge/nginx.conf`, conf = fs.readFileSync(file, 'utf8');
  const run = /^POSTERN_RUN_DIR=(.*)$/m.exec(fs.readFileSync(`${state}/postern.env`, 'utf8'))[1], pid = () => Number(fs.readFileSync(`${run}/edge.pid`, 'utf8')), old = pid();
  fs.writeFileSync(file, conf.replace('proxy_ssl_protocols', `proxy_ssl_ciphers ${ANONYMOUS}; $&`));
  process.kill(old, 'SIGTERM');
  await until(() => { try { return pid() !== old && fs.existsSync(`/proc/${pid()}`); } catch { return false; } }, 'another edge', WAIT);
  const made = await publish(call, { address: `127.0.0.1:${AT}`, tls: { enabled: true } });
  const other = await tcpUpstream((socket) => socket.on('error', () => {}).on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother')));
  const second = await call('/backends/static', { address: other.address }), group = await call('/backends/failover', { backends: [made.backend.id, second.id] });
  await call(`/edges/https/${made.id}/routes`, { match_type: 'path_prefix', match: '/group', backend: { backend_id: group.id } });
  const log = () => fs.readFileSync(/^POSTERN_LOG_DIR=(.*)$/m.exec(fs.readFileSync(`${state}/postern.env`, 'utf8'))[1] + '/edge.log', 'utf8');
  return { ...made, log, end: async () => { server.kill(); await other.close(); } };
});

test('an upstream by its address that has no certificate is sent nothing', { skip, timeout: 300000 }, async () => {
  const { backend, log } = await ready;
  await until(() => new Promise((resolve) => { net.connect(port, '127.0.0.1', function on() { this.destroy(); resolve(true); }).on('error', () => resolve(false)); }), 'the edge listens', WAIT);
  const got = await until(() => ask(ready).catch(() => undefined), 'an answer', WAIT);
  assert.equal(got.status, 502);
  await until(() => log().split('\n').some((line) => line.includes(`backend: ${backend.id} (`) && / \[error\] .*there is no valid certificate/.test(line)), 'the log says so', WAIT);
});

test('a failover backend goes on to its next member', { skip, timeout: 300000 }, async () => {
  assert.equal((await ask(ready, { path: '/group' })).status, 200);
});
