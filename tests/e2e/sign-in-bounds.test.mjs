// What browsers carry of a sign-in: a few cookies whatever begins at once, which are taken for nothing but what the edge has set; and where
// a sign-in may lead to.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http2 from 'node:http2';
import tls from 'node:tls';
import test from 'node:test';
import { ca, edge, elsewhere, endpoint, must, through, upstream } from '../support/postern.mjs';
import { ask, Browser, github, PAGE } from '../support/browser.mjs';
import { kept } from '../support/kept.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', NONCE = '__Host-postern.nonce', FLOW = '__Host-postern.login.', FAILED = 'ERR_POSTERN_952';
const PLACES = 10, BYTES = 14500; // of all flows of a browser; a line of a head may have 16 KB
const ada = { id: 1001, login: 'ada', name: 'Ada', email: 'ada@example.test' };
const provider = skip ? null : await github(edge.port - 43 + 96);
test.after(() => provider?.close());

const oauth = { provider: { github: { email_domains: ['example.test'] } } };
const at = (to, path = '/') => `https://${to.host}:${edge.port}${path}`;
const hostOf = (to) => new URL(at(to)).host;
const code = (answer) => /ERR_POSTERN_\d+/.exec(answer.body)?.[0];
const FRAME = { ...PAGE, 'Sec-Fetch-Dest': 'iframe', 'Sec-Fetch-Site': 'same-site' };
const long = (n) => `/${'x'.repeat(n)}`;

async function guarded(fields = {}) {
  const up = await upstream((request, response) => response.end(request.url));
  return { up, to: await endpoint(up.address, { oauth, ...fields }), close: () => up.close() };
}
const ticket = async (to, target) => (await ask(at(to, `/auth/authn?to=${target}`), { headers: PAGE })).headers.location;
const flowsOf = (browser, idp) => [...browser.cookies.get(idp) ?? []].filter(([name]) => name.startsWith(FLOW));

// Sign-ins that somebody else has prepared, sent at once: all with the cookies of this moment.
async function beginAtOnce(browser, urls, headers) {
  const cookie = browser.cookie(new URL(urls[0]).host);
  const answers = await Promise.all(urls.map((url) => ask(url, { headers: { ...headers, ...(cookie ? { Cookie: cookie } : {}) } })));
  for (const answer of answers) browser.keep(answer);
  return answers;
}
async function signsIn(browser, to, path = '/mine') {
  provider.who = ada;
  const answer = await browser.go(at(to, path));
  assert.deepEqual([answer.status, answer.url], [200, at(to, path)], answer.body);
}

test('frames that begin sign-ins at once keep nobody from signing in', { skip }, async () => {
  const { to, close } = await guarded(), mine = await guarded(), browser = new Browser();
  const tickets = await Promise.all([...Array(24)].map((_, i) => ticket(to, long(i % 2 ? 1 : 2000)))), idp = new URL(tickets[0]).host;
  const answers = await beginAtOnce(browser, tickets, FRAME);
  for (const { status } of answers) assert.equal(status, 302, 'each sees none of the others');
  assert.ok(flowsOf(browser, idp).length <= 3, flowsOf(browser, idp).map(([name]) => name).join());
  for (const { status } of await beginAtOnce(browser, tickets, FRAME)) assert.ok(status === 302 || status === 400);
  assert.ok(flowsOf(browser, idp).length <= 3);
  await signsIn(browser, mine.to);
  await close(), await mine.close();
});

test('nor do pages, and all their cookies have room in a head', { skip }, async () => {
  const { to, close } = await guarded(), mine = await guarded(), browser = new Browser();
  const tickets = await Promise.all([...Array(36)].map((_, i) => ticket(to, long(i % 2 ? 1 : 2000)))), idp = new URL(tickets[0]).host;
  for (let round = 0; round < 2; round++) {
    for (const { status } of await beginAtOnce(browser, tickets, PAGE)) assert.equal(status, 302);
    assert.ok(flowsOf(browser, idp).length <= PLACES, flowsOf(browser, idp).map(([name]) => name).join());
    assert.ok(browser.cookie(idp).length <= BYTES, String(browser.cookie(idp).length));
  }
  await signsIn(browser, mine.to);
  await signsIn(browser, mine.to, long(1900));
  await close(), await mine.close();
});

test('tabs on one connection of HTTP/2 have each their own cookie', { skip }, async () => {
  const { to, close } = await guarded(), tickets = await Promise.all([...Array(5)].map((_, i) => ticket(to, `/tab${i}`))), { hostname } = new URL(tickets[0]);
  const connection = kept['HTTP/2'](hostname);
  const answers = await Promise.all(tickets.map((url) => connection.ask({ path: new URL(url).pathname + new URL(url).search, headers: { accept: 'text/html' } })));
  const names = answers.map(({ headers }) => headers['set-cookie'].filter((line) => !line.includes('Max-Age=0')).map((line) => line.split('=')[0]).join());
  assert.equal(new Set(names).size, 5, names.join(' '));
  for (const name of names) assert.match(name, /^__Host-postern\.login\.[0-7]$/);
  connection.close();
  await close();
});

test('a flow that a version before this one began comes to its end', { skip }, async () => {
  const { to, close } = await guarded(), browser = new Browser();
  provider.who = ada;
  const began = await browser.go(at(to, '/x'), { stop: (location) => location.includes('/login/oauth/authorize') }), idp = new URL(began.url).host;
  const [[, value]] = flowsOf(browser, idp), former = `${FLOW}${value.slice(0, 6)}`;
  browser.cookies.set(idp, new Map([[former, value.slice(14)]]));
  assert.equal((await browser.go(began.headers.location)).url, at(to, '/x'));
  assert.deepEqual(flowsOf(browser, idp), [], 'and its cookie is gone');
  // where there are many of them they make room
  browser.cookies.set(idp, new Map([...Array(20)].map((_, i) => [`${FLOW}former`.slice(0, -2) + String(i).padStart(2, '0'), 'x'.repeat(600)])));
  const other = await guarded();
  assert.equal((await browser.open(await ticket(other.to, '/y'))).status, 302);
  assert.ok(browser.cookie(idp).length < 12600, String(browser.cookie(idp).length));
  assert.equal(flowsOf(browser, idp).filter(([name]) => /\.[0-7]$/.test(name)).length, 1);
  await close(), await other.close();
});

test('a head that is too long for the sign-in host takes the flows\' cookies away, of that host alone', { skip }, async () => {
  const { to, close } = await guarded(), { hostname, host } = new URL(await ticket(to, '/'));
  const cleared = (answer) => [answer.headers['set-cookie'] ?? []].flat().filter((line) => line.startsWith(FLOW) && line.includes('Max-Age=0') && line.includes('Path=/; Secure')).map((line) => line.split('=')[0].slice(FLOW.length));
  const all = [...'0123456789abcdefghij'];
  const Cookie = `${FLOW}former=1; ${FLOW}0=${'x'.repeat(15000)}`;
  assert.deepEqual(cleared(await ask(`https://${host}/login`, { headers: { ...PAGE, Cookie: `${FLOW}0=${'x'.repeat(20000)}` } })), all, 'one line of 20 KB, which is not read');
  const many = await ask(`https://${host}/login`, { headers: { Cookie, A: 'x'.repeat(15000), B: 'x'.repeat(15000), C: 'x'.repeat(15000), D: 'x'.repeat(15000) } });
  assert.equal(many.status, 431);
  assert.deepEqual(cleared(many).slice(0, all.length), all);
  assert.deepEqual(cleared(await through(to.host, '/', { headers: { Cookie: `a=${'x'.repeat(20000)}` } })), [], 'another host');
  assert.deepEqual(cleared(await through(hostname, '/nothing', { headers: { Cookie: `${FLOW}0=1` } })), [], 'another page');
  await close();
});

const noncesOf = (browser, to) => [...browser.cookies.get(hostOf(to)) ?? []].map(([name]) => name).filter((name) => name.startsWith(NONCE));

test('what begins at a route\'s host at once leaves a few nonces, and an image or a script none', { skip }, async () => {
  const { to, close } = await guarded(), urls = [...Array(60)].map((_, i) => at(to, `/auth/authn?n=${i}`)), browser = new Browser();
  for (const dest of ['image', 'script', 'style', 'empty', 'video']) {
    const [{ status, headers }] = await beginAtOnce(browser, [urls[0]], { Accept: '*/*', 'Sec-Fetch-Dest': dest, 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Site': 'same-site' });
    assert.deepEqual([status, headers['set-cookie'], headers.location], [401, undefined, undefined], dest);
  }
  for (const all of [urls, [...Array(60)].map((_, i) => at(to, `/page${i}`))]) {
    const framed = new Browser(), opened = new Browser();
    await beginAtOnce(framed, all, FRAME);
    assert.ok(noncesOf(framed, to).length <= 3 && noncesOf(framed, to).every((name) => /\.[cde]$/.test(name)), noncesOf(framed, to).join());
    await beginAtOnce(opened, all, PAGE);
    await beginAtOnce(opened, all, FRAME);
    assert.ok(noncesOf(opened, to).length <= 12 && noncesOf(opened, to).every((name) => /\.[0-9ab]$/.test(name)), noncesOf(opened, to).join());
    for (const each of [framed, opened]) await signsIn(each, to);
  }
  await close();
});

test('a browser begins further sign-ins with the nonce that it has', { skip }, async () => {
  const { to, close } = await guarded(), browser = new Browser();
  const set = async () => (await browser.open(at(to))).headers['set-cookie'].map((line) => line.split(';')[0]);
  const first = await set();
  for (let i = 0; i < 3; i++) assert.deepEqual(await set(), first);
  assert.equal(noncesOf(browser, to).length, 1);
  await close();
});

test('a nonce that a version before this one has set comes to its end', { skip }, async () => {
  const { to, close } = await guarded();
  provider.who = ada;
  for (const former of [(value) => `${NONCE}.${crypto.createHash('sha256').update(value).digest('hex').slice(0, 8)}`, () => NONCE]) {
    const browser = new Browser(), began = await browser.go(at(to, '/x'), { stop: (location) => location.includes('/auth/done') }), [[, value]] = browser.cookies.get(hostOf(to));
    browser.cookies.set(hostOf(to), new Map([[former(value), value]]));
    assert.equal((await browser.go(began.headers.location)).url, at(to, '/x'), former(value));
  }
  await close();
});

test('a head that is too long for a route\'s host takes the nonces\' cookies away, also where its host stands behind the long line', { skip }, async () => {
  const { to, close } = await guarded({ oauth: { ...oauth, cookie_prefix: 'My.' } }), up = await upstream(), plain = await endpoint(up.address);
  const usual = await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/usual', backend: { backend_id: to.backend.id }, oauth }).then(() => '/usual/x?y=1');
  const { hostname } = new URL(await ticket(to, '/')), big = `Cookie: a=${'x'.repeat(20000)}`;
  // written as it is: the host of the handshake, and whatever head
  const refused = (host, path, ...lines) => new Promise((resolve, reject) => {
    let text = '';
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca }, () => socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`));
    socket.on('data', (part) => { text += part; }).on('end', () => resolve(text)).on('close', () => resolve(text)).on('error', (error) => (text ? resolve(text) : reject(error)));
  });
  const cleared = (text) => [...text.matchAll(/^Set-Cookie: ([^=]+)=; Path=\/; Secure; HttpOnly; Max-Age=0/gim)].map(([, name]) => name);
  const places = (prefix) => [...'0123456789abcdef'].map((digit) => `__Host-${prefix}nonce.${digit}`), flows = [...'0123456789abcdefghij'].map((name) => FLOW + name);
  const cases = [
    [to.host, '/', places('My.')], [to.host, usual, places('postern.')], [hostname, '/login', flows], [plain.host, '/', []],
  ];
  for (const [host, path, names] of cases) for (const lines of [[`Host: ${host}`, big], [big, `Host: ${host}`]]) {
    const text = await refused(host, path, ...lines);
    assert.match(text, /^HTTP\/1\.1 431 /, `${host}${path}`);
    assert.deepEqual(cleared(text), names, `${host}${path} ${lines[0].slice(0, 5)}`);
  }
  // those of versions before stand in lines that were read
  const former = `__Host-My.nonce.0123abcd=${'A'.repeat(43)}; __Host-My.nonce=1; __Host-other.nonce.0123abcd=1`;
  assert.deepEqual(cleared(await refused(to.host, '/', `Host: ${to.host}`, `Cookie: ${former}`, big)), [...places('My.'), '__Host-My.nonce.0123abcd', '__Host-My.nonce']);
  await close(), await up.close();
});

test('no name but the one that a nonce has by its own value is taken for it', { skip }, async () => {
  const names = ['.zzzzzzzz', '.0123456g', '.--------', '.01234567', '', '.0123456', '.012345678'].map((end) => NONCE + end), places = [...'0123456789abcdefAF'].map((digit) => `${NONCE}.${digit}`); // such as the edge reads, which no upstream sets
  let nonce;
  const up = await upstream((request, response) => { if (nonce) response.setHeader('Set-Cookie', [...names, ...places].map((name) => `${name}=${nonce}; Path=/; Secure; HttpOnly`)); response.end(request.url); });
  const to = await endpoint(up.address, { oauth });
  await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/public', backend: { backend_id: to.backend.id } });
  provider.who = { id: 1002, login: 'mallory', name: 'Mallory', email: 'mallory@example.test' };
  const mallory = new Browser(), done = (await mallory.go(at(to), { stop: (location) => location.includes('/auth/done') })).headers.location;
  const [[own, value]] = mallory.cookies.get(hostOf(to));
  nonce = value;
  const visitor = new Browser();
  assert.equal((await visitor.open(at(to, '/public/x'))).status, 200);
  const last = await visitor.open(done);
  assert.deepEqual([last.status, code(last), visitor.cookies.get(hostOf(to))?.get(SESSION)], [400, FAILED, undefined], 'what an upstream set');
  for (const name of names.filter((each) => each !== NONCE)) { // that one versions before this one have set
    const answer = await ask(done, { headers: { ...PAGE, Cookie: `${name}=${nonce}` } });
    assert.deepEqual([answer.status, code(answer), answer.headers['set-cookie']], [400, FAILED, undefined], name);
  }
  assert.equal((await ask(done, { headers: { ...PAGE, Cookie: `${own}=${nonce}` } })).status, 302);
  await up.close();
});

test('a sign-in leads to none of the edge\'s own paths, of whatever route, in whatever spelling', { skip }, async () => {
  const { to, close } = await guarded({ match: '/app' });
  await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/app/deeper', backend: { backend_id: to.backend.id }, oauth });
  await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/open', backend: { backend_id: to.backend.id } });
  const leads = async (target) => {
    provider.who = ada;
    const answer = await new Browser().go(at(to, `/app/auth/authn?to=${encodeURIComponent(target)}`), { stop: (location) => !/\/(login|auth|oauth2)/.test(new URL(location).pathname) || location === at(to, target) });
    return answer.headers.location;
  };
  for (const target of ['/app/auth/logout', '/app/%61uth/logout', '/app//auth/logout', '/%61pp/auth/logout?x', '/app/auth/authn?to=/app/auth/logout', '/app/auth/done?code=x', '/app/auth/', '/app/deeper/auth/logout', '/auth/logout', '/app/%zz'])
    assert.equal(await leads(target), at(to, '/'), target);
  for (const target of ['/app/x', '/app/auth', '/app/x/auth/logout', '/app/author/x', '/open/auth/logout', '/app?to=/app/auth/logout'])
    assert.equal(await leads(target), at(to, target), target);
  await close();
});

test('a form comes in parts, the last of which is empty', { skip }, async () => {
  const { to, close } = await guarded(), { hostname } = new URL(await ticket(to, '/')), body = `code=${'x'.repeat(3000)}`;
  const session = http2.connect(`https://${hostname}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: hostname, ca, ALPNProtocols: ['h2'] }) });
  const post = () => new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':path': '/oauth2/callback', 'content-type': 'application/x-www-form-urlencoded', 'content-length': body.length });
    let status;
    stream.on('response', (head) => { status = head[':status']; }).on('error', reject).on('data', () => {}).on('end', () => resolve(status));
    stream.write(body.slice(0, 1000), () => stream.write(body.slice(1000), () => stream.end()));
  });
  session.on('error', () => {});
  for (let i = 0; i < 5; i++) assert.equal(await post(), 400);
  session.close();
  await close();
});
