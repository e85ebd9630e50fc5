// Signing in at the edge, by the module oauth and a provider of the story's own (POSTERN_OAUTH_GITHUB_URL): who has no session is sent
// away or told so, who has one is let in by it and by nothing else, and the upstream learns who it is from the edge alone.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import test from 'node:test';
import { api, ca, edge, elsewhere, endpoint, env, listed, listening, must, raw, through, until, upstream, WebSocket } from '../support/postern.mjs';
import { ask, Browser, github, PAGE } from '../support/browser.mjs';
import { ask as askGrpc, calling, grpc, serving } from '../support/grpc.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
// names with the prefix that the module oauth has where none is given
const SESSION = '__Host-postern.session', NONCE = '__Host-postern.nonce', LOGIN = '__Host-postern.login';
const PAGES = { needed: 'ERR_POSTERN_950', denied: 'ERR_POSTERN_951', failed: 'ERR_POSTERN_952', unavailable: 'ERR_POSTERN_953', path: 'ERR_POSTERN_954' };
const ada = { id: 1001, login: 'ada', name: 'Ada Lovelace, Countess', email: 'ada@example.test' };
const bob = { id: 1002, login: 'bob', name: 'J\u00fcrgen 100%', email: 'bob@example.org' };
const provider = skip ? null : await github(edge.port - 43 + 96);
const sub = skip ? null : await listening('http_request_complete');
test.after(() => provider?.close());

const oauth = (more = {}) => ({ provider: { github: { email_domains: ['example.test', 'example.org'] } }, ...more });
const at = (to, path = '/') => `https://${to.host}:${edge.port}${path}`;
const code = (answer) => /ERR_POSTERN_\d+/.exec(answer.body)?.[0];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// An upstream that says what came, with sockets of its own for WebSockets, and a route to it where one signs in.
async function guarded(more, fields = {}) {
  const up = await upstream((request, response) => response.end(JSON.stringify({ url: request.url, raw: request.rawHeaders })));
  const open = new Set();
  up.server.on('upgrade', (request, socket) => {
    const accept = crypto.createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    open.add(socket);
    socket.on('error', () => {}).on('end', () => socket.end()).on('close', () => open.delete(socket)).resume();
  });
  const to = await endpoint(up.address, { oauth: oauth(more), ...fields });
  return { up, to, open, close: () => { for (const socket of open) socket.destroy(); return up.close(); } };
}
// What an upstream got: name in lower case -> values.
const got = (answer) => {
  const all = {}, { raw: list } = JSON.parse(answer.body);
  for (let i = 0; i < list.length; i += 2) (all[list[i].toLowerCase()] ??= []).push(list[i + 1]);
  return all;
};
async function signedIn(to, who = ada, path = '/') {
  const browser = new Browser();
  provider.who = who;
  const answer = await browser.go(at(to, path));
  assert.equal(answer.status, 200, `${answer.url} ${answer.body}`);
  return Object.assign(browser, { last: answer, value: browser.cookies.get(new URL(at(to)).host).get(SESSION) });
}
const withSession = (value, more) => ({ headers: { Cookie: `${SESSION}=${value}`, ...more } });

test('whoever signs in comes to where they wanted to go, and the upstream learns who they are', { skip }, async () => {
  const { up, to, close } = await guarded();
  const browser = await signedIn(to, ada, '/deep/link?x=1&y=%2F%20z');
  assert.deepEqual(browser.visited.map(({ url, status }) => [new URL(url).host.split(':')[0].replace(to.host, 'app'), new URL(url).pathname, status]), [
    ['app', '/deep/link', 302], ['idp.localhost', '/login', 302], ['localhost', '/github/web/login/oauth/authorize', 302], ['idp.localhost', '/oauth2/callback', 302], ['app', '/auth/done', 302], ['app', '/deep/link', 200]]);
  assert.equal(browser.last.url, at(to, '/deep/link?x=1&y=%2F%20z'));
  assert.equal(JSON.parse(browser.last.body).url, '/deep/link?x=1&y=%2F%20z');
  const headers = got(browser.last);
  assert.deepEqual(headers['ngrok-auth-user-id'], ['1001']);
  assert.deepEqual(headers['ngrok-auth-user-name'], ['Ada Lovelace, Countess']);
  assert.deepEqual(headers['ngrok-auth-user-email'], ['ada@example.test']);
  assert.match(headers['postern-auth-user-id'][0], /^app_user_/);
  assert.deepEqual(headers['postern-auth-user-email'], ['ada@example.test']);
  assert.equal(headers.cookie, undefined);
  assert.equal(up.seen.length, 1);
  const set = (index, name) => browser.visited[index].headers['set-cookie'].find((line) => line.startsWith(name));
  assert.match(set(0, NONCE), /^__Host-postern\.nonce\.[0-9ab]=[A-Za-z0-9_-]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=900$/);
  assert.match(set(1, LOGIN), /^__Host-postern\.login\.[0-7]=[A-Za-z0-9_-]{6}[0-9a-f]{8}[^;]+; Path=\/; Secure; HttpOnly; SameSite=None; Max-Age=900$/);
  assert.match(set(4, SESSION), /=[A-Za-z0-9_-]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax$/);
  for (const answer of browser.visited.slice(0, 5).filter(({ url }) => !url.includes('//localhost'))) {
    assert.equal(answer.headers['cache-control'], 'no-store', answer.url);
    assert.equal(answer.headers['referrer-policy'], 'no-referrer', answer.url);
    assert.match(answer.headers['content-security-policy'], /frame-ancestors 'none'/);
  }
  await close();
});

test('what is no navigation is not sent away, and nothing of it goes upstream', { skip }, async () => {
  const { up, to, close } = await guarded();
  const cases = [
    ['an XHR', { headers: { Accept: '*/*', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' } }],
    ['an image', { headers: { Accept: 'image/*', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image' } }],
    ['a form', { method: 'POST', headers: PAGE, body: 'a=1' }],
    ['a program', { headers: {} }],
    ['a DELETE', { method: 'DELETE', headers: PAGE }],
    ['OPTIONS', { method: 'OPTIONS', headers: PAGE }],
    ['nobody\'s session', withSession(crypto.randomBytes(32).toString('base64url'))],
    ['half a session', withSession('x')],
  ];
  for (const [what, options] of cases) {
    const answer = await through(to.host, '/', options);
    assert.deepEqual([answer.status, code(answer)], [401, PAGES.needed], what);
    assert.match(answer.headers['www-authenticate'], /^Postern-Session /, what);
    assert.equal(answer.headers.location, undefined, what);
  }
  const refused = await new Promise((resolve) => new WebSocket(`wss://${to.host}:${edge.port}/`, { ca, servername: to.host, lookup: (host, options, done) => done(null, [{ address: edge.host, family: 4 }]) })
    .on('unexpected-response', (request, response) => resolve(response.statusCode)).on('error', resolve));
  assert.equal(refused, 401);
  assert.equal(up.seen.length, 0);
  await close();
});

test('several tabs sign in at the same time, and each comes to its own page', { skip }, async () => {
  const { to, close } = await guarded();
  const browser = new Browser();
  provider.who = ada;
  const stop = (location) => location.includes('/login/oauth/authorize');
  const one = await browser.go(at(to, '/one'), { stop }), two = await browser.go(at(to, '/two'), { stop });
  assert.equal((await browser.go(two.headers.location)).url, at(to, '/two'));
  assert.equal((await browser.go(one.headers.location)).url, at(to, '/one'));
  await close();
});

test('a sign-in is finished once, and by the browser that began it', { skip }, async () => {
  const { up, to, close } = await guarded();
  const browser = new Browser(), other = new Browser();
  provider.who = ada;
  const done = (await browser.go(at(to), { stop: (location) => location.includes('/auth/done') })).headers.location;
  await other.go(at(to), { stop: (location) => location.includes('/login') });
  const stolen = await other.open(done);
  assert.deepEqual([stolen.status, code(stolen)], [400, PAGES.failed], 'another browser has another nonce');
  const late = await browser.open(done);
  assert.deepEqual([late.status, code(late)], [400, PAGES.failed], 'whoever has it, a code is gone when it was shown');
  assert.match(late.body, /href="https:\/\/[^"]+\/auth\/authn"/);
  const again = await browser.go(at(to), { stop: (location) => location.includes('/oauth2/callback') });
  const foreign = await other.go(again.headers.location);
  assert.deepEqual([foreign.status, code(foreign)], [400, PAGES.failed], 'login CSRF');
  assert.equal(up.seen.length, 0);
  await close();
});

test('a sign-in gives the browser another session, whatever it had', { skip }, async () => {
  const { to, close } = await guarded();
  const first = await signedIn(to);
  const host = new URL(at(to)).host, fixed = crypto.randomBytes(32).toString('base64url');
  const second = new Browser();
  second.cookies.set(host, new Map([[SESSION, fixed]]));
  await second.go(at(to));
  assert.notEqual(second.cookies.get(host).get(SESSION), fixed);
  await first.go(at(to, '/auth/authn?to=/again'));
  assert.equal((await through(to.host, '/', withSession(first.value))).status, 401, 'the session before is over');
  assert.equal((await through(to.host, '/', withSession(first.cookies.get(host).get(SESSION)))).status, 200);
  await close();
});

test('where a sign-in leads to is a path of the same host, whatever is asked for', { skip }, async () => {
  const { to, close } = await guarded();
  const browser = await signedIn(to);
  for (const target of ['//evil.test', '/\\evil.test', 'https://evil.test/', '\\\\evil.test', '/%5cevil', '/\t/evil.test', 'javascript:alert(1)', '/%0d%0aX:1', ''])
    for (const query of [`to=${encodeURIComponent(target)}`, `to=${encodeURIComponent(target)}&to=/`]) {
      const answer = await browser.go(at(to, `/auth/authn?${query}`));
      assert.equal(new URL(answer.url).host, new URL(at(to)).host, query);
      assert.doesNotMatch(new URL(answer.url).pathname, /^\/[/\\]/, query);
    }
  await close();
});

test('whom the rules do not admit is told so, and may sign in as somebody else', { skip }, async () => {
  const { up, to, close } = await guarded({ provider: { github: { email_domains: ['example.test'] } } });
  const browser = new Browser();
  provider.who = bob;
  const answer = await browser.go(at(to));
  assert.deepEqual([answer.status, code(answer)], [403, PAGES.denied]);
  const again = /href="([^"]+)"/.exec(answer.body)[1];
  assert.match(again, new RegExp(`^https://${to.host}:${edge.port}/auth/authn\\?other=1$`));
  provider.who = ada;
  assert.equal((await browser.go(again)).status, 200);
  assert.equal(up.seen.length, 1);
  await close();
});

test('signing out ends the session, and the stream that it carries', { skip }, async () => {
  const { to, open, close } = await guarded();
  const browser = await signedIn(to), ws = await socket(to, browser.value);
  const out = await browser.open(at(to, '/auth/logout'));
  assert.equal(out.status, 200);
  assert.match(out.body, /signed out/);
  await until(() => ws.readyState === WebSocket.CLOSED && open.size === 0, 'the end of the stream');
  assert.equal((await through(to.host, '/', withSession(browser.value))).status, 401);
  assert.equal(browser.cookies.get(new URL(at(to)).host).has(SESSION), false);
  await close();
});

const socket = (to, value) => new Promise((resolve, reject) => {
  const ws = new WebSocket(`wss://${to.host}:${edge.port}/ws`, { ca, servername: to.host, headers: { Cookie: `${SESSION}=${value}` }, lookup: (host, options, done) => done(null, [{ address: edge.host, family: 4 }]) });
  ws.on('open', () => resolve(ws)).on('error', reject);
});
const sessionsOf = async (email) => {
  const list = await listed('/app/sessions');
  const users = new Map();
  for (const one of list) if (!users.has(one.application_user.id)) users.set(one.application_user.id, await must('GET', `/app/users/${one.application_user.id}`));
  return list.filter((one) => users.get(one.application_user.id).email === email);
};

test('a session that is deleted is over when the call returns, at every worker, with its WebSocket', { skip }, async () => {
  const { to, open, close } = await guarded();
  const who = { id: 2000 + process.pid, login: 'eve', name: 'Eve', email: `eve-${process.pid}@example.test` };
  const other = await signedIn(to), browser = await signedIn(to, who), stays = await socket(to, other.value), ends = await socket(to, browser.value);
  const [session] = await sessionsOf(who.email);
  for (let i = 0; i < 20; i++) assert.equal((await through(to.host, '/', withSession(browser.value))).status, 200);
  await must('DELETE', `/app/sessions/${session.id}`);
  for (let i = 0; i < 40; i++) assert.equal((await through(to.host, '/', withSession(browser.value))).status, 401);
  await until(() => ends.readyState === WebSocket.CLOSED && open.size === 1, 'the end of its stream');
  assert.equal(stays.readyState, WebSocket.OPEN);
  assert.equal((await through(to.host, '/', withSession(other.value))).status, 200);
  stays.terminate();
  await close();
});

test('a session of one route opens no other', { skip }, async () => {
  const one = await guarded(), two = await guarded();
  const browser = await signedIn(one.to);
  const answer = await through(two.to.host, '/', withSession(browser.value));
  assert.deepEqual([answer.status, code(answer)], [401, PAGES.needed]);
  assert.equal((await through(one.to.host, '/', withSession(browser.value))).status, 200, 'where it belongs it goes on');
  assert.equal(two.up.seen.length, 0);
  await one.close(), await two.close();
});

test('a session that another route of the host knows nothing of goes on where it belongs, with its streams', { skip }, async () => {
  const { to, open, close } = await guarded();
  await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/other', backend: { backend_id: to.backend.id }, oauth: oauth() });
  const { value } = await signedIn(to), streams = [];
  for (let i = 0; i < 4; i++) streams.push(await socket(to, value)); // of all workers
  for (let i = 0; i < 20; i++) assert.equal((await through(to.host, '/other/x', withSession(value))).status, 401, 'its cookie comes along');
  for (let i = 0; i < 20; i++) assert.equal((await through(to.host, '/', withSession(value))).status, 200);
  assert.equal(open.size, 4);
  assert.ok(streams.every((ws) => ws.readyState === WebSocket.OPEN), 'what it carries goes on');
  for (const ws of streams) ws.terminate();
  await close();
});

test('two cookies of a session are none, and no spelling of one goes upstream', { skip }, async () => {
  const { up, to, close } = await guarded();
  const { value } = await signedIn(to);
  const send = (...cookies) => through(to.host, '/', { headers: { Cookie: cookies } });
  assert.equal((await send(`${SESSION}=${value}; ${SESSION}=${value}`)).status, 401);
  assert.equal((await send(`${SESSION}=${value}; ${SESSION}=x`)).status, 401);
  up.seen.length = 0;
  const others = ['POSTERN.SESSION', 'postern_session', 'postern%2Esession', ` ${NONCE} `];
  const answer = await send(`a=1; ${SESSION}=${value}; ${others.map((name) => `${name}=${value}`).join('; ')}; b=2;`);
  assert.equal(answer.status, 200, answer.body);
  assert.deepEqual(got(answer).cookie, ['a=1; b=2;']);
  assert.doesNotMatch(JSON.stringify(up.seen), new RegExp(value));
  await close();
});

test('who somebody is the edge says, and nobody else', { skip }, async () => {
  const { to, close } = await guarded({ options_passthrough: true });
  const open = await endpoint((await upstream((request, response) => response.end(JSON.stringify({ raw: request.rawHeaders })))).address);
  const { value } = await signedIn(to, bob);
  const names = ['User-Id', 'User-Name', 'User-Email', 'User-Groups', 'Token'].flatMap((name) => ['Postern-Auth-', 'POSTERN-AUTH-', 'postern_auth_', 'Ngrok-Auth-', 'ngrok_auth_', 'X-Postern-Auth-'].map((prefix) => prefix + (prefix.includes('_') ? name.replaceAll('-', '_') : name)));
  const lines = names.map((name) => `${name}: root\r\n`).join('');
  const send = (host, method, more = '') => raw(host, `${method} /x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${more}${lines}\r\n`);
  const session = await send(to.host, 'GET', `Cookie: ${SESSION}=${value}\r\n`), options = await send(to.host, 'OPTIONS'), none = await send(open.host, 'GET');
  for (const answer of [session, options, none]) {
    assert.match(answer, /^HTTP\/1.1 200 /);
    assert.doesNotMatch(answer, /root/);
  }
  assert.match(session, /"Ngrok-Auth-User-Name","J%C3%BCrgen 100%25"/);
  assert.doesNotMatch(options, /auth-user/i);
  assert.doesNotMatch(none, /auth-user/i);
  await close();
});

test('what a route takes away of who somebody is its upstream does not get, and the rest of it is the same', { skip }, async () => {
  const { to, close } = await guarded();
  const { last, value } = await signedIn(to), all = got(last);
  const said = (headers) => Object.entries(headers).filter(([name]) => /-auth-user-/.test(name));
  assert.deepEqual(said(all).map(([name, values]) => [name, values.length]), ['ngrok-auth-user-id', 'ngrok-auth-user-name', 'ngrok-auth-user-email', 'postern-auth-user-id', 'postern-auth-user-name', 'postern-auth-user-email', 'postern-auth-user-jwt'].map((name) => [name, 1]));
  const kept = (headers) => said(headers).filter(([name]) => name !== 'postern-auth-user-jwt');
  await must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/request_headers`, { remove: ['Ngrok-Auth-User-Id', 'ngrok-auth-user-email'], add: { 'X-Story': 'one' } });
  const less = got(await through(to.host, '/', withSession(value)));
  assert.deepEqual(kept(less), kept(all).filter(([name]) => !['ngrok-auth-user-id', 'ngrok-auth-user-email'].includes(name)));
  assert.deepEqual(less['x-story'], ['one']);
  await close();
});

test('a server of gRPC learns who somebody is, header by header', { skip }, async () => {
  const server = await serving(), to = await endpoint(server.address, { oauth: oauth() }), client = calling(to.host);
  const browser = new Browser(), metadata = new grpc.Metadata();
  provider.who = bob;
  await browser.go(at(to), { stop: (location) => location === at(to) });
  metadata.set('cookie', `${SESSION}=${browser.cookies.get(new URL(at(to)).host).get(SESSION)}`);
  metadata.set('postern-auth-user-name', 'root');
  assert.equal((await askGrpc(client, { text: 'hello' }, { metadata })).message?.text, 'hello');
  const { metadata: told } = server.calls[0];
  assert.deepEqual([told['ngrok-auth-user-id'], told['ngrok-auth-user-name'], told['postern-auth-user-name'], told['postern-auth-user-email'], told.cookie], ['1002', 'J%C3%BCrgen 100%25', 'J%C3%BCrgen 100%25', 'bob@example.org', undefined]);
  assert.match(told['postern-auth-user-id'], /^app_user_/);
  client.close();
  server.close();
});

test('paths of the edge itself never go upstream; a route below a path has them there', { skip }, async () => {
  const { up, to, close } = await guarded({}, { match: '/app' });
  const { value, last } = await signedIn(to, ada, '/app/page');
  assert.equal(last.url, at(to, '/app/page'));
  const before = up.seen.length;
  for (const path of ['/app/auth/x', '/app/auth/', '/app/auth/done/', '/app/auth/Done', '/app//auth/x/../y'])
    assert.equal((await through(to.host, path, withSession(value))).status, 404, path);
  assert.equal(up.seen.length, before);
  await close();
});

test('other rules end the streams of those alone whom they do not admit; a module that is switched off ends all', { skip, timeout: 300000 }, async () => {
  const { to, open, close } = await guarded(), put = (fields) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oauth`, oauth(fields));
  const eve = await signedIn(to, { id: 1066, login: 'eve', name: 'Eve', email: 'eve@example.test' }), hers = await socket(to, eve.value);
  const { value } = await signedIn(to), streams = [];
  for (let i = 0; i < 4; i++) streams.push(await socket(to, value)); // of all workers
  for (const fields of [{ cookie_prefix: '' }, { provider: { github: { email_domains: ['example.test'] } } }, { maximum_duration: 7200 }, { service_tokens: true }]) {
    await put(fields);
    assert.equal((await through(to.host, '/', withSession(value))).status, 200, JSON.stringify(fields));
  }
  await put({ provider: { github: { email_addresses: [ada.email] } } });
  await until(() => hers.readyState === WebSocket.CLOSED, 'the end of the stream that the rules do not admit');
  assert.equal((await through(to.host, '/', withSession(eve.value))).status, 401);
  assert.equal((await through(to.host, '/', withSession(value))).status, 200);
  assert.deepEqual([streams.map((ws) => ws.readyState), open.size], [streams.map(() => WebSocket.OPEN), 4], 'the others go on');
  await must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}/oauth`);
  await until(() => streams.every((ws) => ws.readyState === WebSocket.CLOSED), 'the end of all');
  assert.equal((await through(to.host)).status, 200);
  await close();
});

test('a route with an inactivity timeout lets in who is active', { skip }, async () => {
  const { to, close } = await guarded({ inactivity_timeout: 60, maximum_duration: 0 });
  const { value } = await signedIn(to);
  assert.equal((await through(to.host, '/', withSession(value))).status, 200);
  await close();
});

test('no code, state or ticket is in an event; who signed in is', { skip }, async () => {
  const { to, close } = await guarded();
  sub.events.length = 0;
  const browser = await signedIn(to);
  await through(to.host, '/last', withSession(browser.value));
  await until(() => sub.events.some(({ object }) => object.http.request.url.path === '/last'), 'events');
  const secrets = browser.visited.flatMap(({ url, headers }) => [url, headers.location ?? '']).flatMap((url) => [...new URL(url, 'https://x').searchParams].filter(([name]) => ['code', 'state', 't'].includes(name)).map(([, value]) => value));
  secrets.push(browser.value, ...[...browser.cookies.values()].flatMap((all) => [...all.values()]));
  assert.ok(secrets.length >= 6);
  const text = JSON.stringify(sub.events);
  for (const secret of secrets) assert.ok(!text.includes(secret) && !text.includes(encodeURIComponent(secret)), secret);
  const { object } = sub.events.find((event) => event.object.http.request.url.path === '/last');
  assert.equal(object.oauth.decision, 'allow');
  assert.equal(object.oauth.user.name, ada.name);
  assert.match(object.oauth.user.id, /^app_user_/);
  await close();
});
