// Signing out together with an OpenID provider, npm's oidc-provider: a person who signs out at a route signs out at the provider, too (RP-Initiated Logout 1.0),
// and who signs out at the provider is signed out at the routes (Back-Channel Logout 1.0). Every logout token that must do nothing does nothing.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { Browser, PAGE, ask } from '../support/browser.mjs';
import { oidcProvider, signingKey } from '../support/oidc-provider.mjs';
import { ca, edge, elsewhere, endpoint, env, forgetUsers, home, listed, must, tail, through, until, upstream } from '../support/postern.mjs';
import { another } from '../support/copies.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { seal } from '../support/sealed.mjs';
import { holding, sql } from '../support/user-room.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', IDP = `https://idp.localhost:${edge.port}`, BACK = `${IDP}/signed-out`;
const callback = (issuer) => `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const authority = process.env.STORY_UPSTREAM_TLS, port = edge.port - 43 + 98, issuer = `https://localhost:${port}`;
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const up = skip ? null : await upstream((request, response) => response.end('upstream'));
const oidc = (client, fields = {}) => ({ issuer, client_id: client, client_secret: 'a secret of the story', scopes: ['email', 'profile', 'groups'], ...fields });
const route = (client, fields) => endpoint(up.address, { oidc: oidc(client, fields) });
// Two routes of one client, one of another, and one that does not sign out at the provider.
const places = skip ? {} : { one: await route('first'), same: await route('first'), other: await route('second'), quiet: await route('third', { provider_logout: false }), plain: await endpoint(up.address) };
const client = (id, backchannel) => ({ client_id: id, client_secret: 'a secret of the story', redirect_uris: callback, post_logout_redirect_uris: [BACK],
  ...(backchannel ? { backchannel_logout_uri: `${IDP}/backchannel/${backchannel.route.id}`, backchannel_logout_session_required: true } : {}) });
const provider = skip ? null : await oidcProvider({ port, signed, trusts: ca, clients: [client('first', places.one), client('second'), client('third')] });
test.after(async () => { if (provider) await forgetUsers(issuer); provider?.stop(); await up?.close(); });

const at = (to, path = '/') => `https://${to.host}:${edge.port}${path}`;
async function signedIn(to, sub = 'alice', jar = new Map()) {
  const browser = new Browser();
  const away = await browser.go(at(to), { stop: (location) => location.startsWith(issuer) });
  const back = new URL(callback(issuer));
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, sub, jar))) back.searchParams.set(name, values[0]);
  const last = await browser.go(back.href);
  assert.equal(last.status, 200, last.body);
  return { to, browser, jar, value: browser.cookies.get(`${to.host}:${edge.port}`).get(SESSION) };
}
const stays = async ({ to, value }) => (await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status === 200;
const secrets = new Set(); // ID tokens and logout tokens
const logout = (to, token, { headers = {}, body = new URLSearchParams({ logout_token: token }).toString(), method = 'POST' } = {}) =>
  secrets.add(token) && ask(`${IDP}/backchannel/${to.route?.id ?? to}`, { method, body, headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers } });
const now = () => Math.floor(Date.now() / 1000);
const claims = (fields) => ({ iss: issuer, aud: 'first', iat: now(), exp: now() + 120, jti: crypto.randomUUID(), sub: 'alice', events: { 'http://schemas.openid.net/event/backchannel-logout': {} }, ...fields });
const sidOf = async (person) => { // of the session at the provider, as it says at a sign-out
  const location = new URL((await person.browser.open(at(person.to, '/auth/logout'))).headers.location);
  return JSON.parse(Buffer.from(location.searchParams.get('id_token_hint').split('.')[1], 'base64url')).sid;
};

test('who signs out is signed out here first, then at the provider, and comes back to a page of the sign-in host', { skip }, async () => {
  const person = await signedIn(places.one), { browser, jar } = person;
  const away = await browser.open(at(places.one, '/auth/logout'), { headers: { ...PAGE, 'Sec-Fetch-Site': 'same-origin' } });
  const asked = new URL(away.headers.location);
  assert.deepEqual([away.status, asked.origin + asked.pathname, away.headers['cache-control'], away.headers['referrer-policy']], [302, `${issuer}/session/end`, 'no-store', 'no-referrer']);
  assert.deepEqual(['client_id', 'post_logout_redirect_uri'].map((name) => asked.searchParams.get(name)), ['first', BACK]);
  assert.equal(JSON.parse(Buffer.from(asked.searchParams.get('id_token_hint').split('.')[1], 'base64url')).sub, 'alice');
  assert.match(asked.searchParams.get('state'), new RegExp(`^${places.one.route.id}\\.[\\w-]{22}$`));
  secrets.add(asked.searchParams.get('id_token_hint'));
  assert.equal(await stays(person), false, 'the session is over, whatever happens at the provider');
  assert.equal(browser.cookies.get(`${places.one.host}:${edge.port}`).get(SESSION), undefined);
  const back = await provider.signOut(asked.href, jar), page = await browser.open(back);
  assert.ok(back.startsWith(`${BACK}?state=`), back);
  assert.deepEqual([page.status, page.headers['cache-control']], [200, 'no-store']);
  assert.ok(page.body.includes('You are signed out') && page.body.includes(`href="${at(places.one, '/auth/authn')}"`), page.body);
  assert.equal(jar.get('_session'), undefined, 'and at the provider');
});

test('a page of another site, and what is no page, sign nobody out at the provider', { skip }, async () => {
  const cases = [['GET', { ...PAGE, 'Sec-Fetch-Site': 'cross-site' }], ['GET', { ...PAGE, 'Sec-Fetch-Site': 'same-site' }], ['POST', { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Site': 'same-origin' }], ['POST', { Accept: '*/*' }]];
  for (const [method, headers] of cases) {
    const person = await signedIn(places.one), answer = await person.browser.open(at(places.one, '/auth/logout'), { method, headers });
    assert.deepEqual([answer.status, answer.headers.location, await stays(person)], [200, undefined, false], JSON.stringify(headers));
  }
  const person = await signedIn(places.one), posted = await person.browser.open(at(places.one, '/auth/logout'), { method: 'POST', headers: { ...PAGE, 'Sec-Fetch-Site': 'same-origin' } });
  assert.equal(posted.status, 302, 'a form of the route itself does');
  const again = await person.browser.open(at(places.one, '/auth/logout'));
  assert.deepEqual([again.status, again.headers.location], [200, undefined], 'who is not signed in has nothing to sign out of');
});

test('a module that says so, and a provider that is down, leave it at the sign-out here', { skip }, async () => {
  const quiet = await signedIn(places.quiet), answer = await quiet.browser.open(at(places.quiet, '/auth/logout'));
  assert.deepEqual([answer.status, answer.headers.location, await stays(quiet)], [200, undefined, false]);
  const person = await signedIn(places.other);
  provider.down = true;
  try {
    const out = await person.browser.open(at(places.other, '/auth/logout'));
    assert.ok([200, 302].includes(out.status), 'its metadata may be known');
    assert.equal(await stays(person), false);
  } finally { provider.down = false; }
});

test('whatever comes to the page of who is signed out, it leads nowhere but to a route', { skip }, async () => {
  for (const query of ['', '?state=', '?state=x', '?state=https://evil.example.test', `?state=${places.plain.route.id}.x`, '?state=%00', `?state=${places.one.route.id}.x&state=y`, `?state="><script>.x`])
    { const page = await ask(BACK + query); assert.deepEqual([page.status, /href|script/.test(page.body)], [200, false], query); }
  assert.equal((await ask(BACK, { method: 'POST', body: 'a=b' })).status, 404);
});

test('who signs out at the provider is signed out at all routes of that client, before the provider hears that it is so', { skip }, async () => {
  const jar = new Map(), one = await signedIn(places.one, 'alice', jar), same = await signedIn(places.same, 'alice', jar), other = await signedIn(places.other, 'alice', jar);
  const elsewhereToo = await signedIn(places.one, 'alice'), bob = await signedIn(places.one, 'bob');
  provider.told.length = 0;
  const asked = new URL((await other.browser.open(at(places.other, '/auth/logout'))).headers.location);
  await provider.signOut(asked.href, jar);
  assert.equal(provider.told.length, 1, JSON.stringify(provider.told));
  assert.deepEqual([provider.told[0].error, provider.told[0].sub], [undefined, 'alice']);
  assert.deepEqual([await stays(one), await stays(same)], [false, false], 'of the session at the provider');
  assert.deepEqual([await stays(elsewhereToo), await stays(bob)], [true, true], 'of no other one');
  const events = (await listed('/app/sessions')).filter(({ public_url }) => public_url === at(places.one).slice(0, -1));
  assert.equal(events.length, 2, 'the API shows what is left');
});

test('a token without sid ends all sessions of the person at the client, one with sid that session alone', { skip }, async () => {
  const one = await signedIn(places.one), same = await signedIn(places.same), other = await signedIn(places.other), bob = await signedIn(places.one, 'bob');
  const gone = await signedIn(places.one), sid = await sidOf(gone), again = await signedIn(places.one, 'alice', gone.jar);
  assert.equal((await logout(places.one, provider.sign(claims({ sub: undefined, sid }), { typ: 'logout+jwt' }))).status, 200);
  assert.deepEqual([await stays(again), await stays(one)], [false, true]);
  const answer = await logout(places.one, provider.sign(claims()));
  assert.deepEqual([answer.status, answer.headers['cache-control'], answer.body], [200, 'no-store', '']);
  assert.deepEqual([await stays(one), await stays(same), await stays(other), await stays(bob)], [false, false, true, true]);
  assert.equal((await logout(places.one, provider.sign(claims({ sub: 'nobody' })))).status, 200, 'who is not here is signed out');
});

test('while the module is off the provider still signs its people out', { skip }, async () => {
  const off = await route('first'), one = await signedIn(off, 'alice'), bob = await signedIn(off, 'bob');
  const put = (enabled) => must('PUT', `/edges/https/${off.edge.id}/routes/${off.route.id}/oidc`, oidc('first', { enabled }));
  await put(false);
  assert.equal((await logout(off, provider.sign(claims(), {}, signingKey('RS256')))).status, 400, 'of a stranger');
  assert.equal((await logout(off, provider.sign(claims()))).status, 200);
  await put(true);
  assert.deepEqual([await stays(one), await stays(bob)], [false, true], 'who was signed out meanwhile stays so');
});

test('a sign-in that was under way when its session at the provider ended leads to nothing, and the next one is good', { skip }, async () => {
  const first = await signedIn(places.one), sid = await sidOf(first), browser = new Browser(), back = new URL(callback(issuer));
  const away = await browser.go(at(places.one), { stop: (location) => location.startsWith(issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, 'alice', first.jar))) back.searchParams.set(name, values[0]);
  const done = await browser.open(back.href);
  assert.match(done.headers.location, /\/auth\/done\?code=/);
  // Another one has not come back from the provider yet, which vouches for it only when it is asked by its code.
  const later = new Browser(), last = new URL(callback(issuer)), asked = await later.go(at(places.one), { stop: (location) => location.startsWith(issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(asked.headers.location, 'alice', first.jar))) last.searchParams.set(name, values[0]);
  assert.equal((await logout(places.one, provider.sign(claims({ sid })))).status, 200);
  assert.equal((await browser.open(done.headers.location)).status, 400);
  assert.equal((await later.go(last.href)).status, 400);
  assert.equal(await stays(first), false);
  // The provider goes on with that session: whom it vouches for from now on is signed in, and a further sign-out ends that, too.
  for (let i = 0; i < 2; i++) {
    const again = await signedIn(places.one, 'alice', first.jar);
    assert.equal(await stays(again), true);
    assert.equal((await logout(places.one, provider.sign(claims({ sid, sub: undefined })))).status, 200);
    assert.equal(await stays(again), false);
  }
  const after = await signedIn(places.one, 'alice', first.jar);
  assert.deepEqual([await sidOf(after), await stays(first)], [sid, false], 'it is the same session there');
});

// A sign-in as far as the code that the route's host has not been shown yet; what becomes of it then.
async function underWay(to, sub) {
  const browser = new Browser(), back = new URL(callback(issuer));
  const away = await browser.go(at(to), { stop: (location) => location.startsWith(issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, sub, new Map()))) back.searchParams.set(name, values[0]);
  const done = await browser.open(back.href);
  assert.match(done.headers.location, /\/auth\/done\?code=/);
  return async () => (await browser.open(done.headers.location)).status;
}

test('nor does one of a person whose sessions there all ended', { skip }, async () => {
  const goOn = await underWay(places.one, 'alice');
  assert.equal((await logout(places.one, provider.sign(claims()))).status, 200);
  assert.equal(await goOn(), 400);
  assert.ok(await stays(await signedIn(places.one)), 'who signs in afterwards is signed in');
});

test('nor does one of whom the provider has ended a session, but never says which is whose', { skip }, async () => {
  assert.equal(await sidOf(await signedIn(places.other)), undefined);
  const hers = await underWay(places.other, 'alice'), his = await underWay(places.other, 'bob'), known = await underWay(places.one, 'alice');
  assert.equal((await logout(places.other, provider.sign(claims({ aud: 'second', sid: 'one of theirs' })))).status, 200);
  assert.deepEqual([await hers(), await his(), await known()], [400, 302, 302], 'of the others it is known that it is not theirs');
  assert.ok(await stays(await signedIn(places.other)), 'who signs in afterwards is signed in');
});

test('no other token ends a session, and each is answered with 400', { skip }, async () => {
  const person = await signedIn(places.one), stranger = { ...signingKey('RS256') }, used = claims({ sub: 'nobody' });
  const key = crypto.createPublicKey({ key: crypto.createPrivateKey({ key: signingKey('RS256'), format: 'jwk' }), format: 'jwk' });
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const hmac = (text) => `${text}.${crypto.createHmac('sha256', key.export({ type: 'spki', format: 'pem' })).update(text).digest('base64url')}`;
  assert.equal((await logout(places.one, provider.sign(used))).status, 200);
  const tokens = {
    'of a jti that was used before': provider.sign({ ...used, sub: 'alice' }),
    'of a jti that was used before, and the same but for a second': provider.sign({ ...used, exp: used.exp + 1 }),
    'other issuer': provider.sign(claims({ iss: 'https://evil.example.test' })),
    'other client': provider.sign(claims({ aud: 'second' })),
    'other clients too': provider.sign(claims({ aud: ['first', 'second'] })),
    expired: provider.sign(claims({ exp: now() - 61 })),
    'without exp': provider.sign(claims({ exp: undefined })),
    'without iat': provider.sign(claims({ iat: undefined })),
    'of the future': () => provider.sign(claims({ iat: now() + 120, exp: now() + 240 })), // from when it is sent
    old: provider.sign(claims({ iat: now() - 3600, exp: now() + 3600 })),
    'without jti': provider.sign(claims({ jti: undefined })),
    'without events': provider.sign(claims({ events: undefined })),
    'of other events': provider.sign(claims({ events: { 'https://example.test/event': {} } })),
    'with an event that is no object': provider.sign(claims({ events: { 'http://schemas.openid.net/event/backchannel-logout': true } })),
    'with a nonce': provider.sign(claims({ nonce: 'n' })),
    'of nobody': provider.sign(claims({ sub: undefined })),
    'of a sub that is no text': provider.sign(claims({ sub: 1 })),
    'of another type': provider.sign(claims(), { typ: 'at+jwt' }),
    'with crit': provider.sign(claims(), { crit: ['x'], x: 1 }),
    "with a stranger's key under the provider's kid": provider.sign(claims(), { kid: provider.kid() }, stranger),
    'with the key in it': provider.sign(claims(), { kid: provider.kid(), jwk: { kty: 'RSA', n: stranger.n, e: stranger.e } }, stranger),
    'unsigned': `${part({ alg: 'none' })}.${part(claims())}.`,
    'by HMAC': hmac(`${part({ alg: 'HS256' })}.${part(claims())}`),
    'changed': provider.sign(claims({ sub: 'nobody' })).replace(/\.[^.]+\./, `.${part(claims())}.`),
    'no token': 'x', 'empty': '', 'two dots': '..',
  };
  for (const [name, made] of Object.entries(tokens)) {
    const token = typeof made === 'function' ? made() : made, answer = await logout(places.one, token);
    assert.deepEqual([answer.status, answer.headers['cache-control'], answer.headers['content-type'], JSON.parse(answer.body).error], [400, 'no-store', 'application/json', 'invalid_request'], `${name}: ${answer.body}`);
    assert.ok(!token || token.length < 4 || !answer.body.includes(token.slice(0, 40)), 'the token is not repeated');
  }
  // A key that may be new: the key set is not asked for each time.
  for (const token of [provider.sign(claims(), {}, stranger), provider.sign(claims(), { jwk: { kty: 'RSA', n: stranger.n, e: stranger.e } }, stranger)]) {
    const answer = await logout(places.one, token);
    assert.equal(answer.status, 400, answer.body);
    assert.ok(['invalid_request', 'temporarily_unavailable'].includes(JSON.parse(answer.body).error), answer.body);
  }
  const good = provider.sign(claims());
  for (const [name, answer] of Object.entries({
    'twice in a form': await logout(places.one, good, { body: `logout_token=${good}&logout_token=${good}` }), 'another name': await logout(places.one, good, { body: `token=${good}` }),
    'too long a form': await logout(places.one, good, { body: `logout_token=${good}&x=${'x'.repeat(16384)}` }), 'no form': await logout(places.one, good, { body: '' }),
    "another client's route": await logout(places.other, good), 'a route without the module': await logout(places.plain, good), 'no route': await logout(`edghtsrt_${'x'.repeat(27)}`, good),
  })) assert.equal(answer.status, 400, name);
  for (const [to, method] of [[places.one, 'GET'], [places.one, 'PUT'], ['', 'POST']]) assert.equal((await logout(to, good, { method, ...(method === 'GET' ? { body: undefined } : {}) })).status, 404);
  assert.ok(await stays(person), 'nobody was signed out');
  assert.equal((await logout(places.one, good)).status, 200, 'and the token is still good for once');
  assert.equal(await stays(person), false);
});

test('a token that comes again, because its answer was lost, is told that it was carried out, and ends nothing that came since', { skip }, async () => {
  const person = await signedIn(places.one), token = provider.sign(claims());
  for (const to of [places.one, places.same]) { // whichever of the client's routes the URL names
    assert.equal((await logout(to, token)).status, 200);
    assert.equal(await stays(person), false);
  }
  const since = await signedIn(places.one);
  assert.equal((await logout(places.one, token)).status, 200);
  assert.ok(await stays(since));
  sql('UPDATE sign_in_logout SET text_hash = NULL'); // as a version before left it
  assert.equal((await logout(places.one, token)).status, 400, 'of which it is not known whether it is the same');
});

test('a token that comes again before it is carried out is not told that it was', { skip }, async () => {
  const person = await signedIn(places.one), token = provider.sign(claims()), hash = crypto.createHash('sha256').update(person.value).digest('hex');
  const lock = await holding(`SELECT FROM application_session WHERE token_hash = '${hash}' FOR UPDATE`); // which cannot end now
  const answers = [];
  let told = 0;
  try {
    const queued = async () => Number(/^postern_identity_requests_queued (\d+)/m.exec(await (await fetch(`http://127.0.0.1:${edge.port - 30}/metrics`)).text())[1]);
    // The second one may wait for the first one's worker: sign-outs of providers have but some of them.
    for (const waits of [() => lock.waiting() >= 1, async () => lock.waiting() >= 2 || await queued() >= 1]) {
      answers.push(logout(places.one, token).finally(() => { told++; }));
      await until(waits, `${answers.length} wait`);
    }
    assert.deepEqual([told, await stays(person)], [0, true]);
  } finally { await lock.end(); }
  assert.deepEqual((await Promise.all(answers)).map(({ status }) => status), [200, 200]);
  assert.equal(await stays(person), false);
});

test('of two tokens with one jti that come at the same moment one is carried out, and the other is refused', { skip }, async () => {
  const alice = await signedIn(places.one), bob = await signedIn(places.one, 'bob'), one = claims(), tokens = [provider.sign(one), provider.sign({ ...one, sub: 'bob' })];
  const hash = crypto.createHash('sha256').update(alice.value).digest('hex'), account = sql(`SELECT account_id FROM application_session WHERE token_hash = '${hash}'`);
  const sealed = seal({ route: places.one.route.id, account, edge: places.one.edge.id, module: 'oidc', config: { enabled: true, ...oidc('first') } });
  // A copy that has workers for several tokens of an account at a time.
  const socket = `ipc://${env.POSTERN_RUN_DIR}/sign-out-oidc-${process.pid}.rpc`, copy = another('identity', { POSTERN_RPC: socket, POSTERN_WORKERS: '8' }), bus = caller(edgeKey(), 'identity', socket);
  let lock;
  try {
    await bus.there();
    lock = await holding(`SELECT FROM application_session WHERE token_hash = '${hash}' FOR UPDATE`); // the first one's cannot end now
    const asked = [];
    for (const waits of [() => lock.waiting() >= 1, () => lock.waiting() >= 2 || bus.answer(asked[1])]) {
      asked.push(bus.ask('sign_in.logout', { sealed, token: tokens[asked.length] }));
      await until(waits, `${asked.length} wait`);
    }
    await lock.end();
    lock = null;
    await until(() => asked.every((id) => bus.answer(id)), 'answers', 120000);
    assert.deepEqual(asked.map((id) => bus.answer(id).code), [0, 236]);
    assert.match(bus.answer(asked[1]).msg, /its jti was used before/);
    assert.deepEqual([await stays(alice), await stays(bob)], [false, true]);
  } finally {
    await lock?.end();
    bus.stop();
    await copy.stop();
  }
});

test('a provider that signs out many people at once is heard for each of them', { skip }, async () => {
  const person = await signedIn(places.one), people = [...Array.from({ length: 23 }, (_, i) => `nobody ${i}`), 'alice'];
  const answers = await Promise.all(people.map((sub) => logout(places.one, provider.sign(claims({ sub })))));
  assert.deepEqual(answers.map(({ status, body }) => [status, body]), people.map(() => [200, '']));
  assert.equal(await stays(person), false);
});

const WAITS = 9000, UNDER_WAY = 4; // milliseconds, less than tokens wait; of one client, at two workers
test('whom a provider signs out while identity is restarted is signed out', { skip: skip || (env.POSTERN_RUN_DIR ? false : 'deploy/stack did not start the system'), timeout: 300000 }, async () => {
  const person = await signedIn(places.one), people = [...Array.from({ length: 11 }, (_, i) => `nobody ${i}`), 'alice'], file = `${env.POSTERN_RUN_DIR}/identity.pid`, old = fs.readFileSync(file, 'utf8');
  const tokens = people.map((sub) => provider.sign(claims({ sub })));
  process.kill(Number(old), 'SIGKILL');
  const began = Date.now(), answers = Promise.all(tokens.map(async (token) => ({ ...await logout(places.one, token), waited: Date.now() - began })));
  await until(() => fs.existsSync(file) && fs.readFileSync(file, 'utf8') !== old, 'another identity', 120000);
  // Those that a copy had taken before it was missed are not asked again: as many as may be under way. Others are heard, or waited.
  const refused = (await answers).filter(({ status }) => status !== 200);
  for (const { body } of refused) assert.equal(JSON.parse(body).error, 'temporarily_unavailable');
  assert.ok(refused.filter(({ waited }) => waited < WAITS).length <= UNDER_WAY, `after ${refused.map(({ waited }) => waited).join()} ms`);
  // On a slow machine a start takes longer than tokens wait: a provider that sends them again is heard then.
  for (const [i, { status }] of (await answers).entries()) await until(async () => status === 200 || (await logout(places.one, tokens[i])).status === 200, people[i], 120000);
  assert.equal(await stays(person), false);
});

test('hundreds who post what is no token keep nobody from signing out, and leave nothing behind', { skip }, async () => {
  const person = await signedIn(places.one), forged = () => provider.sign(claims(), { kid: provider.kid() }, stranger), stranger = signingKey('RS256');
  const flood = Promise.all(Array.from({ length: 20 }, async () => { for (let i = 0; i < 15; i++) assert.equal((await logout(places.one, forged())).status, 400); }));
  let answer;
  await until(async () => (answer = await logout(places.one, provider.sign(claims()))).status === 200 || (assert.equal(JSON.parse(answer.body).error, 'temporarily_unavailable'), false), 'a logout among them');
  assert.equal(await stays(person), false);
  await flood;
});

test('no token of a sign-out is in a log or an event', { skip }, async () => {
  const tokens = [...secrets].filter((token) => token.length > 100);
  assert.ok(tokens.length > 20);
  const person = await signedIn(places.one), events = tail('http_request_complete');
  await until(async () => { await through(places.plain.host, '/'); return events.events.length > 0; }, 'events');
  const hint = new URL((await person.browser.open(at(places.one, '/auth/logout'))).headers.location).searchParams.get('id_token_hint'), token = provider.sign(claims());
  await logout(places.one, token);
  await until(() => events.events.some((event) => JSON.stringify(event).includes('/auth/logout')), 'the event of the sign-out');
  events.stop();
  const logs = fs.readdirSync(path.join(home, 'log')).map((name) => fs.readFileSync(path.join(home, 'log', name), 'utf8')).join('') + JSON.stringify(events.events);
  for (const secret of [...tokens, hint, token]) assert.ok(!logs.includes(secret.split('.')[2] || secret), 'a token');
});
