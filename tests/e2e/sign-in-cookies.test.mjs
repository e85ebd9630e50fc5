// Cookies of sign-in stay between browsers and the edge: a browser sends them to every path of a host, and no upstream of any route of it gets one.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { ask, calling, grpc, serving } from '../support/grpc.mjs';
import { kept } from '../support/kept.mjs';
import { ca, edge, elsewhere, endpoint, env, listening, must, through, until, upstream, WebSocket } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR && !elsewhere ? false : 'the story signs in nobody, and needs the settings of a system on this machine';
const VALUE = 'A'.repeat(43);
const OURS = ['__Host-my.session', '__Host-my.nonce', '__host-MY_Session', 'my.session', 'my.nonce', 'MY_Session', '__Host-off.session', 'off.session', 'off.nonce', '__Host-postern.session', '__Host-postern.nonce', 'postern.session', 'postern_nonce'];
const cookie = `a=1; ${OURS.map((name) => `${name}=${VALUE}`).join('; ')}; session=theirs; b=2`;
const LEFT = 'a=1; session=theirs; b=2';
const oauth = (more) => ({ provider: { github: { email_domains: ['example.test'] } }, ...more });

// Routes of one host: "/" signs in, "/off" has a module that is off, "/plain" and what more says have none.
async function site(more = {}) {
  const up = await upstream();
  up.server.on('upgrade', (request, socket) => { up.upgraded = request.headers; socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'); });
  const to = await endpoint(up.address, { oauth: oauth({ cookie_prefix: 'my.' }) });
  const route = (match, fields = {}) => must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match, backend: { backend_id: to.backend.id }, ...fields });
  const off = await route('/off', { oauth: oauth({ cookie_prefix: 'off.', enabled: false }) });
  await route('/plain');
  for (const [match, fields] of Object.entries(more)) await route(match, fields);
  return { up, to, off };
}
const last = (up) => up.seen.at(-1).headers;

test('what one route signs in with goes to no other route\'s upstream, on or off, over HTTP/1.1 and HTTP/2', { skip }, async () => {
  const { up, to, off } = await site({ '/headers': { request_headers: { add: { 'x-story': 'one' } } } });
  assert.equal((await through(to.host, '/', { headers: { Cookie: cookie } })).status, 401, 'made-up cookies let in nobody');
  for (const [name, client] of Object.entries(kept)) {
    const connection = client(to.host);
    for (const path of ['/plain', '/off', '/headers']) {
      assert.equal((await connection.ask({ path, headers: { cookie } })).status, 200, `${name} ${path}`);
      assert.equal(last(up).cookie, LEFT, `${name} ${path}`);
      assert.equal((await connection.ask({ path, headers: { cookie: `my.session=${VALUE}` } })).status, 200);
      assert.equal(last(up).cookie, undefined, `${name} ${path}: nothing is left`);
    }
    connection.close();
  }
  await must('DELETE', `/edges/https/${to.edge.id}/routes/${off.id}/oauth`);
  assert.equal((await through(to.host, '/off', { headers: { Cookie: `a=1; my.session=${VALUE}; postern.session=${VALUE}` } })).status, 200);
  assert.equal(last(up).cookie, 'a=1', 'without a module of its own');
  await up.close();
});

test('no upstream sets one, in whatever spelling, and its own come through', { skip }, async () => {
  const set = [...OURS.filter((name) => !name.includes('off.')).map((name) => `${name}=${VALUE}; Path=/; Secure`), ` __Host-my.session = ${VALUE}`, '__Host-my.nonce', `=__Host-my.session=${VALUE}; Path=/`, ` = =\t__Host-my.nonce=${VALUE}`, '=__Host-my.session', 'session=theirs; Path=/', 'a=__Host-my.session', '=a=__Host-my.session', 'b=1; __Host-my.session=x'];
  const theirs = ['session=theirs; Path=/', 'a=__Host-my.session', '=a=__Host-my.session', 'b=1; __Host-my.session=x'];
  const up = await upstream((request, response) => { response.writeEarlyHints?.({ link: '</x>; rel=preload', 'set-cookie': `__Host-my.session=${VALUE}` }); response.writeHead(200, { 'Set-Cookie': set }); response.end('x'); });
  const to = await endpoint(up.address);
  await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/in', backend: { backend_id: to.backend.id }, oauth: oauth({ cookie_prefix: 'my.' }) });
  for (const [name, client] of Object.entries(kept)) {
    const connection = client(to.host), answer = await connection.ask({ path: '/', headers: {} });
    assert.equal(answer.status, 200, name);
    assert.deepEqual([answer.headers['set-cookie']].flat(), theirs, name);
    connection.close();
  }
  await up.close();
});

test('nor with a handshake of a WebSocket, nor with OPTIONS that passes', { skip }, async () => {
  const { up, to } = await site({ '/open': { oidc: { issuer: 'https://op.example.test', client_id: 'x', client_secret: 'y', cookie_prefix: 'open.', options_passthrough: true } } });
  const refused = await new Promise((resolve) => new WebSocket(`wss://${to.host}:${edge.port}/plain`, { ca, servername: to.host, headers: { Cookie: cookie }, lookup: (host, options, done) => done(null, [{ address: edge.host, family: 4 }]) })
    .on('unexpected-response', (request, response) => resolve(response.statusCode)).on('error', resolve));
  assert.equal(refused, 426);
  assert.equal(up.upgraded.cookie, LEFT);
  assert.equal((await through(to.host, '/open', { method: 'OPTIONS', headers: { Cookie: `open.session=${VALUE}; ${cookie}` } })).status, 200);
  assert.equal(last(up).cookie, LEFT);
  await up.close();
});

test('nor with a call of gRPC', { skip }, async () => {
  const server = await serving();
  const { up, to } = await site({ '/story.Story': {} });
  const backend = await must('POST', '/backends/static', { address: server.address });
  const { routes } = await must('GET', `/edges/https/${to.edge.id}`);
  await must('PUT', `/edges/https/${to.edge.id}/routes/${routes.find(({ match }) => match === '/story.Story').id}/backend`, { backend_id: backend.id });
  const metadata = new grpc.Metadata();
  metadata.set('cookie', cookie);
  const client = calling(to.host);
  const got = await ask(client, { number: 1 }, { metadata });
  assert.equal(got.error, null);
  assert.equal(server.calls[0].metadata.cookie, LEFT);
  client.close();
  server.close();
  await up.close();
});

test('a prefix of another host\'s routes means nothing here', { skip }, async () => {
  await site();
  const up = await upstream(), to = await endpoint(up.address);
  await through(to.host, '/', { headers: { Cookie: `my.session=${VALUE}; off.nonce=1` } });
  assert.equal(last(up).cookie, `my.session=${VALUE}; off.nonce=1`);
  await up.close();
});

// Of a module that has another prefix now, or of a host that was another edge's: the edge knows no such prefix.
test('what looks like a cookie of sign-in is one, whatever its prefix: it goes to no upstream, and none sets it', { skip }, async () => {
  const theirs = ['__Host-session', '__Host-former.csrf', 'former.session', '__Secure-former.session'], ours = ['__Host-former.session', '__Host-former.nonce', '__Host-former.nonce.0123abcd', '__host-FORMER_Session'];
  const set = [...ours, ...theirs].map((name) => `${name}=${VALUE}; Path=/; Secure`);
  const up = await upstream((request, response) => { response.writeHead(200, { 'Set-Cookie': [...set, '__Host-former.session=of another form; Path=/'] }); response.end('x'); });
  const { host, route } = await endpoint(up.address), other = `__Host-former.session=${VALUE}x`, log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  const keptBack = async () => [...(await (await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`)).text()).matchAll(/^postern_edge_cookies_kept_back_total\{worker="\d+"\} (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
  const before = await keptBack();
  for (const [name, client] of Object.entries(kept)) {
    const connection = client(host);
    const { headers } = await connection.ask({ path: '/', headers: { cookie: `a=1; ${[...ours, ...theirs].map((one) => `${one}=${VALUE}`).join('; ')}; __Host-former.session="${VALUE}"; ${other}; b=2` } });
    assert.equal(last(up).cookie, `a=1; ${theirs.map((one) => `${one}=${VALUE}`).join('; ')}; ${other}; b=2`, name);
    assert.deepEqual([headers['set-cookie']].flat(), [...set.slice(ours.length), '__Host-former.session=of another form; Path=/'], name);
    connection.close();
  }
  // and an operator learns of it: all are counted, and each worker has a line of the route
  assert.equal(await keptBack() - before, ours.length * Object.keys(kept).length);
  const lines = fs.readFileSync(log, 'utf8').slice(from).split('\n').filter((line) => line.includes(route.id) && line.includes('one of sign-in'));
  assert.ok(lines.length >= 1 && lines.length <= 2, lines.join('\n'));
  for (const line of lines) assert.match(line, /\[warn\].* sets the cookie "__Host-former\.session", /);
  for (const line of lines) assert.ok(!line.includes(VALUE));
  await up.close();
});

test('a code, a state or a ticket is in no event, also where something denies before anybody signs in', { skip }, async () => {
  const sub = await listening('http_request_complete');
  const policy = await must('POST', '/ip_policies', {});
  await must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' });
  const up = await upstream(), to = await endpoint(up.address, { oauth: oauth(), ip_restriction: { ip_policy_ids: [policy.id] } }), open = await endpoint(up.address);
  const big = { Cookie: `a=${'x'.repeat(70000)}` };
  assert.equal((await through(to.host, '/auth/done?code=secret-1')).status, 403);
  assert.equal((await through(to.host, '/auth/done?code=secret-2', { headers: big })).status, 431);
  assert.equal((await through(to.host, '/auth/done?code=secret-3', { servername: open.host })).status, 421);
  assert.equal((await through(to.host, '/%zz/auth/done?code=secret-4')).status, 400);
  assert.equal((await through('idp.localhost', '/login?t=secret-5', { servername: open.host })).status, 421);
  assert.equal((await through('idp.localhost', '/oauth2/callback?code=secret-6&state=secret-7', { headers: big })).status, 431);
  assert.equal((await through(to.host, '/last?x=secret-no-more')).status, 403);
  assert.equal((await through(open.host, '/auth/done?code=of-an-application')).status, 200);
  await until(() => ['secret-no-more', 'of-an-application'].every((text) => JSON.stringify(sub.events).includes(text)), 'events');
  const text = JSON.stringify(sub.events);
  for (let n = 1; n <= 7; n++) assert.ok(!text.includes(`secret-${n}`), `secret-${n}`);
  assert.ok(sub.events.some(({ object }) => object.http.request.url.path === '/auth/done' && object.http.response.status_code === 403), 'the path is there');
  await up.close();
});
