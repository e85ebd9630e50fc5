// What browsers do around a sign-in: who is told that he is signed out is, and nobody else is; tabs that sign in side by side; the port of
// a client's Host.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import test from 'node:test';
import { edge, elsewhere, endpoint, healthUrls, listed, must, through, upstream } from '../support/postern.mjs';
import { ask, Browser, github, PAGE } from '../support/browser.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', UNASKED = 'ERR_POSTERN_955', FAILED = 'ERR_POSTERN_952';
const ada = { id: 1001, login: 'ada', name: 'Ada', email: 'ada@example.test' };
const provider = skip ? null : await github(edge.port - 43 + 96);
test.after(() => provider?.close());

const oauth = (more = {}) => ({ provider: { github: { email_domains: ['example.test'] } }, ...more });
const at = (to, path = '/') => `https://${to.host}:${edge.port}${path}`;
const hostOf = (to) => new URL(at(to)).host;
const code = (answer) => /ERR_POSTERN_\d+/.exec(answer.body)?.[0];
const withSession = (value) => ({ headers: { Cookie: `${SESSION}=${value}` } });
const stays = async (to, value, path = '/') => (await through(to.host, path, withSession(value))).status === 200;

async function guarded(fields = {}) {
  const up = await upstream((request, response) => response.end(request.url));
  return { up, to: await endpoint(up.address, { oauth: oauth(), ...fields }), close: () => up.close() };
}
async function signedIn(to, path = '/', browser = new Browser()) {
  provider.who = ada;
  const answer = await browser.go(at(to, path));
  assert.equal(answer.status, 200, `${answer.url} ${answer.body}`);
  return { browser, value: browser.cookies.get(hostOf(to)).get(SESSION) };
}
const beside = (to, match, fields = { oauth: oauth() }) => must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match, backend: { backend_id: to.backend.id }, ...fields });
const form = { method: 'POST', body: 'a=1' }, FORM = { 'Content-Type': 'application/x-www-form-urlencoded' };

test('a form of another site, with which no cookie comes, signs nobody out and says so', { skip }, async () => {
  const { to, close } = await guarded(), { browser, value } = await signedIn(to);
  const answer = await ask(at(to, '/auth/logout'), { ...form, headers: { ...PAGE, ...FORM, 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example.test' } });
  assert.deepEqual([answer.status, code(answer), answer.headers['set-cookie']], [403, UNASKED, undefined]);
  const link = /href="([^"]+)">Sign out</.exec(answer.body)[1];
  assert.equal(link, at(to, '/auth/logout'));
  assert.equal(await stays(to, value), true);
  const out = await browser.open(link, { headers: { ...PAGE, 'Sec-Fetch-Site': 'same-origin' } });
  assert.match(out.body, /You are signed out/);
  assert.equal(await stays(to, value), false);
  assert.match((await ask(at(to, '/auth/logout'), { headers: PAGE })).body, /You are signed out/, 'who is not signed in');
  await close();
});

test('of several cookies of one name each that is a session ends; of more than four none', { skip }, async () => {
  const { to, close } = await guarded(), one = (await signedIn(to)).value, two = (await signedIn(to)).value;
  const cookies = (...values) => ({ headers: { ...PAGE, Cookie: values.map((value) => `${SESSION}=${value}`).join('; ') } });
  const many = await through(to.host, '/auth/logout', cookies(one, 'x', 'x', 'x', two));
  assert.deepEqual([many.status, code(many), many.headers['set-cookie']], [403, UNASKED, undefined]);
  assert.deepEqual([await stays(to, one), await stays(to, two)], [true, true]);
  const out = await through(to.host, '/auth/logout', cookies(one, 'x', two));
  assert.match(out.body, /You are signed out/);
  assert.deepEqual([await stays(to, one), await stays(to, two)], [false, false]);
  await close();
});

// Of several sessions of an edge one generation says that one of them has ended (sessions.h). A hash's last bytes say which is its own: a set, and a place in it.
const lastOf = (value) => crypto.createHash('sha256').update(value).digest().subarray(24);
const setOf = (last, sets) => (last.readBigUInt64LE() * BigInt(sets)) >> 64n;
function besideIt(value, sets) {
  const own = lastOf(value), set = setOf(own, sets), begin = crypto.randomBytes(24).toString('base64url');
  for (let i = 0; ; i++) {
    const other = `${begin}${String(i).padStart(10, 'A')}A`, last = lastOf(other);
    if (last[0] % 16 === own[0] % 16 && setOf(last, sets) === set) return other;
  }
}
test("a sign-out with a cookie that is nobody's puts no session in doubt", { skip, timeout: 240000 }, async () => {
  const metric = async (name) => [...(await (await fetch(`http://${healthUrls().at(-1)}/metrics`)).text()).matchAll(new RegExp(`^postern_edge_${name}[{ ].*?(\\d+)$`, 'gm'))].reduce((sum, [, n]) => sum + Number(n), 0);
  const { to, close } = await guarded(), { value } = await signedIn(to), nobodys = besideIt(value, await metric('sessions_max') / 16);
  assert.equal(await stays(to, value), true);
  const asked = await metric('module_admitted_asked_total');
  assert.equal(await stays(to, value), true);
  assert.equal(await metric('module_admitted_asked_total'), asked, 'the edge knows it');
  assert.match((await through(to.host, '/auth/logout', { headers: { ...PAGE, Cookie: `${SESSION}=${nobodys}` } })).body, /You are signed out/);
  assert.equal(await stays(to, value), true);
  assert.equal(await metric('module_admitted_asked_total'), asked, 'and does not ask for it anew');
  // what was somebody's is not found any more
  assert.match((await through(to.host, '/auth/logout', { headers: { ...PAGE, Cookie: `${SESSION}=${value}` } })).body, /You are signed out/);
  assert.equal(await stays(to, value), false);
  await close();
});

test('who signs out, or in, at one route of a host is signed out of the other whose cookie has the same name', { skip }, async () => {
  const { to, close } = await guarded(), other = await guarded();
  await beside(to, '/app');
  const first = await signedIn(to);
  assert.match((await first.browser.open(at(to, '/app/auth/logout'))).body, /You are signed out/);
  for (let i = 0; i < 20; i++) assert.equal(await stays(to, first.value), false);
  const second = await signedIn(to);
  const third = await signedIn(to, '/app/x', second.browser);
  assert.deepEqual([await stays(to, second.value), await stays(to, third.value, '/app/x')], [false, true], 'the new one takes its place');
  // not of another edge, whoever shows it
  assert.equal((await through(other.to.host, '/auth/logout', { headers: { ...PAGE, Cookie: `${SESSION}=${third.value}` } })).status, 200);
  assert.equal(await stays(to, third.value, '/app/x'), true);
  await close(), await other.close();
});

test('images, scripts and frames of a host beside, and what a browser opens beforehand, sign nobody out', { skip }, async () => {
  const { to, close } = await guarded(), { value } = await signedIn(to), Cookie = `${SESSION}=${value}`;
  const refused = {
    'an image of a host beside': ['GET', { 'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image' }],
    'an image of the page': ['GET', { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image' }],
    'a script of a host beside': ['POST', { 'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'empty', Origin: 'https://evil.example.test' }],
    'the same with CORS': ['GET', { 'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty', Origin: 'https://evil.example.test' }],
    'a frame of a host beside': ['GET', { ...PAGE, 'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Dest': 'iframe' }],
    'a prefetch': ['GET', { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty', 'Sec-Purpose': 'prefetch' }],
    'a prerender': ['GET', { ...PAGE, 'Sec-Fetch-Site': 'same-origin', 'Sec-Purpose': 'prefetch;prerender' }],
    'a prefetch of an older browser': ['GET', { Accept: 'text/html', 'X-Moz': 'prefetch' }],
    'an image, without Sec-Fetch': ['GET', { Accept: 'image/avif,*/*' }],
    'a script, without Sec-Fetch': ['GET', { Accept: '*/*' }],
    'a form of a host beside, without Sec-Fetch': ['POST', { Accept: 'text/html', Origin: `https://evil.example.test:${edge.port}` }],
    'a form of no origin': ['POST', { Accept: 'text/html', Origin: 'null' }],
    'a form of another port': ['POST', { Accept: 'text/html', Origin: `https://${to.host}:1` }],
  };
  for (const [what, [method, headers]] of Object.entries(refused)) {
    const answer = await ask(at(to, '/auth/logout'), { method, headers: { ...headers, Cookie }, ...(method === 'POST' ? { body: '' } : {}) });
    assert.deepEqual([answer.status, code(answer), answer.headers['set-cookie'], await stays(to, value)], [403, UNASKED, undefined, true], what);
  }
  const taken = {
    'a link of another site': ['GET', { ...PAGE, 'Sec-Fetch-Site': 'cross-site' }],
    'a form of a host beside that is opened': ['POST', { ...PAGE, 'Sec-Fetch-Site': 'same-site' }],
    'a script of the page': ['POST', { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }],
    'a link, without Sec-Fetch': ['GET', { Accept: 'text/html,*/*' }],
    'a form of the page, without Sec-Fetch': ['POST', { Accept: 'text/html', Origin: at(to).slice(0, -1) }],
    'a program': ['POST', {}],
  };
  for (const [what, [method, headers]] of Object.entries(taken)) {
    const person = await signedIn(to), answer = await ask(at(to, '/auth/logout'), { method, headers: { ...headers, Cookie: `${SESSION}=${person.value}` }, ...(method === 'POST' ? { body: '' } : {}) });
    assert.deepEqual([answer.status, await stays(to, person.value)], [200, false], what);
  }
  await close();
});

test('the port of a client\'s Host decides nothing of a sign-in', { skip }, async () => {
  const { to, close } = await guarded(), browser = new Browser();
  provider.who = ada;
  const open = (path, cookie) => through(to.host, path, { headers: { ...PAGE, Host: `${to.host}:9`, ...(cookie ? { Cookie: cookie } : {}) } });
  const began = await open('/x'), [nonce] = began.headers['set-cookie'][0].split(';');
  const back = await browser.go(began.headers.location, { stop: (location) => location.includes('/auth/done') }), done = new URL(back.headers.location);
  assert.equal(done.host, hostOf(to), 'where the code is sent');
  const last = await open(done.pathname + done.search, nonce);
  assert.equal(last.headers.location, at(to, '/x'));
  const value = /session=([^;]+)/.exec(last.headers['set-cookie'].find((line) => line.startsWith(SESSION)))[1];
  assert.equal(await stays(to, value), true);
  const sessions = (await listed('/app/sessions')).filter(({ route }) => route?.id === to.route.id);
  assert.deepEqual(sessions.map(({ public_url }) => public_url), [at(to).slice(0, -1)]);
  await close();
});

// Requests that a browser sends at once: all with the cookies of this moment, and their answers' cookies in the order of the requests.
async function atOnce(browser, urls) {
  const sent = urls.map((url) => { const cookie = browser.cookie(new URL(url).host); return ask(url, { headers: { ...PAGE, ...(cookie ? { Cookie: cookie } : {}) } }); });
  const answers = await Promise.all(sent);
  for (const answer of answers) browser.keep(answer);
  return answers;
}
async function toTheEnd(browser, urls) {
  const ends = new Map(urls.map((url) => [url, { headers: { location: url }, status: 302 }]));
  for (let n = 0; n < 10; n++) {
    const going = [...ends].filter(([, answer]) => answer.status === 302), answers = await atOnce(browser, going.map(([, answer]) => answer.headers.location));
    going.forEach(([url], i) => ends.set(url, answers[i]));
  }
  return [...ends].map(([url, answer]) => [url, answer.status, answer.url]);
}

test('five tabs that sign in at once all come to their pages', { skip }, async () => {
  const { to, close } = await guarded(), urls = [1, 2, 3, 4, 5].map((n) => at(to, `/tab${n}`)), browser = new Browser();
  provider.who = ada;
  assert.deepEqual(await toTheEnd(browser, urls), urls.map((url) => [url, 200, url]));
  // the same with a nonce of before
  const again = new Browser();
  await again.open(at(to));
  assert.deepEqual(await toTheEnd(again, urls), urls.map((url) => [url, 200, url]));
  await close();
});

test('a browser has a few sign-ins under way, and no page of another\'s takes the place of one', { skip }, async () => {
  const { to, close } = await guarded(), browser = new Browser(), idp = new URL((await browser.open(at(to))).headers.location).host;
  const login = async (headers = PAGE) => browser.open((await browser.open(at(to, '/x'))).headers.location, { headers });
  const flows = () => [...browser.cookies.get(idp) ?? []].map(([name, value]) => `${name}=${value}`);
  for (let i = 0; i < 8; i++) assert.equal((await login()).status, 302);
  const before = flows();
  assert.equal(before.length, 8, before.join());
  for (const cookie of before) assert.match(cookie, /^__Host-postern\.login\.[0-7a-h]=/);
  for (const dest of ['image', 'empty', 'script', 'style', 'iframe']) {
    const answer = await login({ ...PAGE, 'Sec-Fetch-Dest': dest, 'Sec-Fetch-Site': 'cross-site' });
    assert.deepEqual([answer.status, code(answer), flows()], [400, FAILED, before], dest);
  }
  assert.equal((await login()).status, 302);
  assert.equal(flows().length, 8);
  assert.equal(flows().filter((cookie) => before.includes(cookie)).length, 7, 'one made room');
  await close();
});

// The provider is asked what a code is good for, which may take seconds. Meanwhile another tab begins, and has the place of the oldest flow.
test('a flow that ends takes no cookie along of the flow that has its place meanwhile', { skip }, async () => {
  const { to, close } = await guarded(), browser = new Browser(), began = [];
  const begin = async (path) => (await browser.go(at(to, path), { stop: (location) => location.includes('/login/oauth/authorize') })).headers.location;
  provider.who = ada;
  for (let i = 0; i < 8; i++) began.push(await begin(`/tab${i}`));
  const idp = new URL(new URL(began[0]).searchParams.get('redirect_uri')).host, flow = (url) => new URL(url).searchParams.get('state').split('.')[1].slice(0, 6);
  for (let turn = 0; turn < 3; turn++) {
    const before = browser.cookie(idp), next = await begin(`/next${turn}`), now = browser.cookie(idp), lost = began.filter((url) => !now.includes(`=${flow(url)}`));
    assert.equal(lost.length, 1, 'one made room');
    // its tab comes back from the provider with the cookies of before, and has its answer now
    const callback = (await ask(lost[0])).headers.location, ended = await ask(callback, { headers: { ...PAGE, Cookie: before } });
    assert.deepEqual([ended.status, new URL(ended.headers.location).pathname], [302, '/auth/done']);
    assert.ok(ended.headers['set-cookie'].every((line) => line.includes('Max-Age=0')), 'its own is over');
    browser.keep(ended);
    assert.ok(browser.cookie(idp).includes(`=${flow(next)}`), 'the other one goes on');
    assert.equal(browser.cookie(idp).split('; ').length, 8);
    began.splice(began.indexOf(lost[0]), 1, next);
  }
  for (const url of began.slice(-1)) assert.equal((await browser.go(url)).status, 200);
  await close();
});

test('where a sign-in leads to nothing, a browser that is signed in goes on, and no other one does', { skip }, async () => {
  const { to, close } = await guarded({ match: '/app' }), { browser } = await signedIn(to, '/app/x'), other = new Browser(), idp = new URL((await other.open(at(to, '/app'))).headers.location).host;
  const began = await browser.go(at(to, '/app/auth/authn?to=/app/y'), { stop: (location) => location.includes('/oauth2/callback') }), callback = began.headers.location;
  const done = (await browser.go(callback, { stop: (location) => location.includes('/auth/done') })).headers.location;
  assert.equal((await browser.go(done)).url, at(to, '/app/y'));
  const session = browser.cookies.get(hostOf(to)).get(SESSION);
  for (const url of [done, callback]) {
    const answer = await browser.go(url);
    assert.deepEqual([answer.status, answer.url], [200, at(to, '/app')], 'once more');
    const stranger = await other.go(url);
    assert.deepEqual([stranger.status, code(stranger)], [400, FAILED], 'who is not signed in');
  }
  assert.equal(browser.cookies.get(hostOf(to)).get(SESSION), session, 'as who it was');
  assert.equal([...browser.cookies.get(idp) ?? []].length, 0, 'flows that have ended have no cookie');
  assert.equal((await ask(done, { headers: { ...PAGE, Cookie: `${SESSION}=${'x'.repeat(43)}` } })).status, 400, 'nor does a session that is none');
  assert.equal((await ask(done, { method: 'POST', headers: { ...PAGE, Cookie: browser.cookie(hostOf(to)) }, body: '' })).status, 400);
  await close();
});

test('a code goes to no upstream where sign-in was switched off meanwhile, and an application\'s own does', { skip }, async () => {
  const { up, to, close } = await guarded(), browser = new Browser();
  provider.who = ada;
  const done = new URL((await browser.go(at(to), { stop: (location) => location.includes('/auth/done') })).headers.location);
  assert.match(done.search, /^\?code=postern-[A-Za-z0-9_-]{43}$/);
  await must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}/oauth`);
  assert.equal((await through(to.host)).status, 200);
  up.seen.length = 0;
  for (const path of ['', '/deeper']) {
    const answer = await browser.open(at(to, path + done.pathname + done.search));
    assert.deepEqual([answer.status, code(answer)], [400, FAILED]);
  }
  assert.equal(up.seen.length, 0);
  for (const query of ['?code=x', `?code=${'x'.repeat(43)}`, `?code=postern-${'x'.repeat(42)}`, `?code=postern-${'x'.repeat(42)}.`, `?state=y&code=postern-${'x'.repeat(43)}`, ''])
    assert.equal((await through(to.host, `/auth/done${query}`)).body, `/auth/done${query}`);
  assert.equal((await through(to.host, `/other${done.search}`)).status, 200);
  await close();
});
