// How a start ends that cannot succeed, and what `postern health` says of one that did.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import http from 'node:http';
import test from 'node:test';
import { notStarted, own } from '../support/own.mjs';
import { edge, env, home, until } from '../support/postern.mjs';

const base = edge.port - 43;
const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';

test('a service that refuses its settings ends the start, with what it said', { skip, timeout: 300000 }, () => own(async (stack) => {
  notStarted(stack, { POSTERN_USER_SESSIONS: '0' }, 'identity', /^error: POSTERN_USER_SESSIONS \(--user-sessions\) must be a number from 1 to 1000, not '0'/);
  notStarted(stack, { POSTERN_ROUTES_COPIES: '2', POSTERN_TCP_PORT_FIRST: '30000' }, 'routes|routes-2', /tcp-port-first must not be above tcp-port-last/);
  notStarted(stack, { POSTERN_OUT_CONNECT: 'foo' }, '\\w+', /POSTERN_OUT_CONNECT: 'foo' is no host:port:to-host:to-port/);
  notStarted(stack, { POSTERN_OUT_DENIED: '10.0.0.0/8 10.0.0.0/33' }, '\\w+', /POSTERN_OUT_DENIED: '10.0.0.0\/33' is no address or network/);
}));

test('a program that is killed while the stack starts is started again, and no more', { skip, timeout: 300000 }, () => own(async ({ state, run }) => {
  const sockets = `${process.getuid() ? process.env.XDG_RUNTIME_DIR || '/tmp' : '/run'}/postern-${crypto.createHash('sha256').update(state).digest('hex').slice(0, 12)}`;
  const killer = spawn('bash', ['-c', `for i in 1 2 3; do until pid=$(cat ${sockets}/saml.pid 2>/dev/null) && [ "$pid" != "$last" ] && kill -9 -- "-$pid"; do sleep 0.02; done; last=$pid; done`], { stdio: 'ignore' });
  const ended = new Promise((resolve) => killer.on('close', resolve));
  const up = run('up');
  assert.equal(up.status, 0, up.stderr);
  assert.equal(await ended, 0, 'it was killed three times');
}));

test('health names each service, and says why one is not ready', { skip }, async () => {
  const health = (urls) => { const { status, stdout } = spawnSync(`${home}/bin/postern`, ['health'], { env: { ...process.env, POSTERN_HOME: home, ...urls && { POSTERN_HEALTH_URLS: urls } }, encoding: 'utf8' }); return { status, lines: stdout.split('\n') }; };
  await until(() => health().status === 0, 'what a file before this one has started again is ready');
  const all = health();
  assert.equal(all.status, 0, all.lines.join('\n'));
  for (const [name, offset] of [['gateway', 11], ['routes', 12], ['identity', 13], ['events', 14], ['saml', 16], ['edge', 15]]) assert.ok(all.lines.includes(`${name} 127.0.0.1:${base + offset} ready`), all.lines.join('\n'));
  const server = http.createServer((request, response) => { response.statusCode = 503; response.end(`PostgreSQL is read-only\x1b[31m: ${request.url}\n`); });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const at = `127.0.0.1:${server.address().port}`;
    const child = spawn(`${home}/bin/postern`, ['health'], { env: { ...process.env, POSTERN_HEALTH_URLS: `127.0.0.1:${base + 11},identity=${at},routes=127.0.0.1:1,nobody` }, stdio: ['ignore', 'pipe', 'ignore'] });
    let said = '';
    child.stdout.on('data', (data) => { said += data; });
    assert.equal(await new Promise((resolve) => child.on('close', resolve)), 1);
    assert.equal(said, `127.0.0.1:${base + 11} ready\nidentity ${at} not ready: PostgreSQL is read-only?[31m: /readyz\nroutes 127.0.0.1:1 not ready: Connection refused\n`
      + 'nobody not ready: this item of POSTERN_HEALTH_URLS is neither host:port nor name=host:port\n');
  } finally {
    server.close();
  }
});
