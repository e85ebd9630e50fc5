// Signing in with a real browser, Debian's Chromium, at npm's oidc-provider: what the other stories of sign-in do by hand, with the browser's own cookies,
// redirects, forms, scripts and WebSockets.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import { chromium } from '../support/chromium.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';
import { ca, edge, elsewhere, endpoint, forgetUsers, listed, must, through, unique, until, upstream, WebSocket as Socket } from '../support/postern.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', IDP = `https://idp.localhost:${edge.port}`;
const authority = process.env.STORY_UPSTREAM_TLS, port = edge.port - 43 + 98, issuer = `https://localhost:${port}`;
const callback = `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback, post_logout_redirect_uris: [`${IDP}/signed-out`] };
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const provider = skip ? null : await oidcProvider({ port, clients: [CLIENT], signed, trusts: ca });
// Pages that say who asks for what, and have a link and a form for signing out; sockets that stay open.
const PAGE = ({ url, method, headers }) => `<!doctype html><title>${method} ${url}</title><p id="who">${headers['ngrok-auth-user-id']}</p>
<a id="out" href="/auth/logout">out</a><form method="post" action="/form"><input name="a" value="b"><button>send</button></form>`;
const up = skip ? null : await upstream((request, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end(PAGE(request)));
const sockets = skip ? null : new Socket.WebSocketServer({ server: up.server });
const browser = skip ? null : await chromium();
test.after(async () => { if (provider) await forgetUsers(issuer); await browser?.close(); sockets?.close(); provider?.stop(); await up?.close(); });

const oidc = (fields) => ({ issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile'], ...fields });
const at = (to, path = '/') => `https://${to.host}:${edge.port}${path}`;
const cookieOf = async (to) => (await browser.profile.cookies(at(to))).find(({ name }) => name === SESSION);
const fetched = (tab, path, options = {}) => tab.evaluate(async ([target, given]) => { const answer = await fetch(target, given); return { status: answer.status, code: /ERR_POSTERN_\d+/.exec(await answer.text())?.[0] }; }, [path, options]);
const NEEDED = { status: 401, code: 'ERR_POSTERN_950' };

test('a person comes back to the page that was asked for, and pages and scripts go upstream as that person', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), tab = await browser.tab();
  const answer = await tab.goto(at(to, '/deep/link?x=1&y=%20#part'));
  assert.deepEqual([answer.status(), tab.url(), await tab.title(), await tab.textContent('#who')], [200, at(to, '/deep/link?x=1&y=%20#part'), 'GET /deep/link?x=1&y=%20', 'alice']);
  const cookie = await cookieOf(to);
  assert.deepEqual([cookie.httpOnly, cookie.secure, cookie.sameSite, cookie.path, cookie.domain], [true, true, 'Lax', '/', to.host]);
  assert.equal(await tab.evaluate(() => document.cookie), '');
  assert.deepEqual(await fetched(tab, '/data', { method: 'POST', body: 'x' }), { status: 200, code: undefined });
  await tab.click('button');
  await until(async () => (await tab.title()) === 'POST /form', 'the form');
  assert.ok(up.seen.every(({ headers }) => !headers.cookie), 'no cookie of sign-in goes upstream');
  await tab.close();
});

test('without a session scripts and forms are told so, and are not sent to the provider', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), tab = await browser.tab();
  await tab.goto(at(to));
  await browser.profile.clearCookies({ domain: to.host });
  const calls = provider.calls.auth;
  assert.deepEqual([await fetched(tab, '/data'), await fetched(tab, '/data', { method: 'POST', body: 'x' })], [NEEDED, NEEDED]);
  const [answer] = await Promise.all([tab.waitForResponse(at(to, '/form')), tab.click('button')]);
  assert.equal(answer.status(), 401);
  assert.equal(provider.calls.auth, calls);
  await tab.close();
});

test('two tabs that sign in side by side each come to the page that they asked for', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), tabs = [await browser.tab(), await browser.tab()], visits = [];
  let release;
  provider.hold = new Promise((resolve) => { release = resolve; });
  for (const [i, tab] of tabs.entries()) { // the second begins while the first is at the provider
    const calls = provider.calls.auth ?? 0;
    visits.push(tab.goto(at(to, `/tab-${i}`)));
    await until(() => provider.calls.auth > calls, `tab ${i} at the provider`, 120000);
  }
  provider.hold = null;
  release();
  await Promise.all(visits);
  for (const [i, tab] of tabs.entries()) {
    assert.deepEqual([tab.url(), await tab.textContent('#who')], [at(to, `/tab-${i}`), 'alice']);
    await tab.reload();
    assert.equal(await tab.title(), `GET /tab-${i}`, 'both go on with the session that is there now');
    await tab.close();
  }
});

test('ten tabs that are opened at once, two more than flows have places, all come to pages of the route', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), tabs = await Promise.all([...Array(10)].map(() => browser.tab()));
  const asked = new Set();
  let release;
  provider.hold = new Promise((resolve) => { release = resolve; });
  for (const [i, tab] of tabs.entries()) {
    tab.on('request', (request) => { if (request.url().startsWith(issuer)) asked.add(i); });
    tab.goto(at(to, `/many-${i}`), { timeout: 0 }).catch(() => {}); // what becomes of it is looked at below
  }
  await until(() => asked.size === tabs.length, 'all flows have begun', 120000);
  provider.hold = null;
  release();
  for (const [i, tab] of tabs.entries()) { // one whose flow made room goes on by itself after a moment
    await until(async () => /^GET /.test(await tab.title()), `tab ${i} at a page: ${tab.url()}`, 240000);
    assert.ok([at(to, `/many-${i}`), at(to)].includes(tab.url()), tab.url());
    await tab.close();
  }
});

test('who signs out by a link of the page is signed out here and at the provider, and can sign in again from there', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), tab = await browser.tab();
  await tab.goto(at(to, '/before'));
  const before = await cookieOf(to);
  await tab.click('#out');
  await tab.waitForURL(`${IDP}/signed-out**`);
  assert.match(await tab.textContent('h1'), /You are signed out/);
  assert.equal(await cookieOf(to), undefined);
  assert.equal((await through(to.host, '/', { headers: { Cookie: `${SESSION}=${before.value}` } })).status, 401);
  const asked = provider.calls.person ?? 0;
  await tab.click('a');
  await tab.waitForURL(at(to, '/'));
  assert.equal(await tab.textContent('#who'), 'alice');
  assert.ok(provider.calls.person > asked, 'the provider had to ask who it is');
  assert.notEqual((await cookieOf(to)).value, before.value);
  await tab.close();
});

test("another site's page can neither sign a person out by an image nor at the provider by a link", { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), other = await endpoint(up.address, { host: unique('story').replace('.example.test', '.elsewhere.test') }), tab = await browser.tab();
  await tab.goto(at(to));
  await tab.goto(at(other));
  await tab.evaluate((url) => new Promise((resolve) => { const image = new Image(); image.onload = image.onerror = resolve; image.src = url; document.body.append(image); }), at(to, '/auth/logout'));
  const still = await through(to.host, '/', { headers: { Cookie: `${SESSION}=${(await cookieOf(to)).value}` } });
  const calls = provider.calls.logout ?? 0;
  await tab.evaluate((url) => { document.querySelector('#out').href = url; }, at(to, '/auth/logout'));
  await tab.click('#out');
  await tab.waitForURL(at(to, '/auth/logout'));
  assert.match(await tab.textContent('h1'), /You are signed out/);
  assert.equal(provider.calls.logout ?? 0, calls, 'the provider was not asked');
  assert.equal(still.status, 200);
  await tab.close();
});

test('a session that expires ends under the open page, and the next page signs in again', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc({ maximum_duration: 30 }) }), tab = await browser.tab();
  await tab.goto(at(to, '/short'));
  const before = (await cookieOf(to)).value;
  await until(async () => (await fetched(tab, '/data')).status === 401, 'the end of the session', 120000);
  await tab.reload();
  assert.deepEqual([tab.url(), await tab.textContent('#who')], [at(to, '/short'), 'alice']);
  assert.notEqual((await cookieOf(to)).value, before);
  await tab.close();
});

test('a revocation closes the WebSocket of an open page', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), tab = await browser.tab();
  await tab.goto(at(to));
  await tab.evaluate((url) => new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    window.streamEnded = new Promise((done) => { socket.onclose = done; });
    socket.onopen = resolve;
    socket.onerror = reject;
  }), at(to, '/socket').replace('https', 'wss'));
  const [session] = (await listed('/app/sessions')).filter(({ public_url }) => public_url === at(to).slice(0, -1));
  assert.match(session.browser_session.user_agent.browser_name, /Chrom/);
  await must('DELETE', `/app/sessions/${session.id}`);
  assert.equal(await tab.evaluate(() => window.streamEnded.then(() => 'closed')), 'closed');
  assert.deepEqual(await fetched(tab, '/data'), NEEDED);
  assert.equal(await tab.evaluate((url) => new Promise((resolve) => { const socket = new WebSocket(url); socket.onopen = () => resolve('open'); socket.onerror = () => resolve('refused'); }), at(to, '/socket').replace('https', 'wss')), 'refused');
  await tab.close();
});
