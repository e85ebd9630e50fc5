// An OpenID provider changes its keys, the new one signs at once, and many come at the same moment: people whom it signs out, people who come back from it, programs. All of them
// are heard, its key set is not asked for by each of them, and what anybody can post keeps nobody from being heard.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import { Browser, ask } from '../support/browser.mjs';
import { oidcProvider, signingKey } from '../support/oidc-provider.mjs';
import { edge, elsewhere, endpoint, forgetUsers, through, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS, options = { skip, timeout: 300000 };
const SESSION = '__Host-postern.session', IDP = `https://idp.localhost:${edge.port}`, API = 'https://api.story.test', MANY = 12;
const authority = process.env.STORY_UPSTREAM_TLS;
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const callback = (issuer) => `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback };
const up = skip ? null : await upstream((request, response) => response.end('upstream'));
test.after(() => up?.close());

// A provider of a name that no other has had, so that nobody has asked for its keys before; and a route.
async function setting(t) {
  const provider = await oidcProvider({ port: edge.port - 43 + 98, realm: `/${crypto.randomUUID()}`, apis: [API], clients: [CLIENT], signed });
  t.after(async () => { await forgetUsers(provider.issuer); provider.stop(); });
  for (let i = 0; i < MANY; i++) provider.accounts[`person${i}`] = { name: `Person ${i}`, email: `person${i}@example.test`, email_verified: true };
  const to = await endpoint(up.address, { oidc: { issuer: provider.issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile'], bearer_tokens: true, bearer_audiences: [API] } });
  return { provider, to };
}
const people = Array.from({ length: MANY }, (_, i) => `person${i}`), now = () => Math.floor(Date.now() / 1000), at = (to) => `https://${to.host}:${edge.port}/`;
// As far as where the provider sends the browser back to.
async function away({ provider, to }, sub) {
  const browser = new Browser(), asked = await browser.go(at(to), { stop: (location) => location.startsWith(provider.issuer) }), back = new URL(callback(provider.issuer));
  for (const [name, values] of Object.entries(await provider.signIn(asked.headers.location, sub))) back.searchParams.set(name, values[0]);
  return { browser, back: back.href };
}
async function signedIn(place, sub) {
  const { browser, back } = await away(place, sub), last = await browser.go(back);
  assert.equal(last.status, 200, last.body);
  return browser.cookies.get(`${place.to.host}:${edge.port}`).get(SESSION);
}
const stays = async ({ to }, value) => (await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status === 200;
const logoutToken = ({ provider }, sub, header, key) => provider.sign({ iss: provider.issuer, aud: CLIENT.client_id, iat: now(), exp: now() + 300, jti: crypto.randomUUID(), sub, events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }, header, key);
const logout = async ({ to }, token) => {
  const answer = await ask(`${IDP}/backchannel/${to.route.id}`, { method: 'POST', body: new URLSearchParams({ logout_token: token }).toString(), headers: { 'Content-Type': 'application/x-www-form-urlencoded' } });
  return answer.status === 200 ? 'heard' : `${answer.status} ${answer.body}`;
};
const program = async ({ provider, to }, header, key) => (await through(to.host, '/', { headers: { Authorization: `Bearer ${provider.sign({ iss: provider.issuer, aud: API, sub: crypto.randomUUID(), iat: now(), exp: now() + 300 }, { typ: 'at+jwt', ...header }, key)}` } })).status;
// The provider changes its keys, and takes its time to show them: what comes of them all, and how often the key set was asked for.
async function changed(provider, many) {
  provider.rotate();
  provider.calls.jwks = 0;
  provider.delayMs = 300;
  try { return { came: await many(), asked: provider.calls.jwks }; } finally { provider.delayMs = 0; }
}
// One that comes just when the answer does may ask once more.
const isShared = (asked) => assert.ok(asked >= 1 && asked < 4, `the key set was asked for ${asked} times`);

test('all whom a provider signs out at once with a new key are signed out', options, async (t) => {
  const place = await setting(t), values = [];
  for (const sub of people) values.push(await signedIn(place, sub));
  const { came, asked } = await changed(place.provider, () => Promise.all(people.map((sub) => logout(place, logoutToken(place, sub)))));
  assert.deepEqual(came, people.map(() => 'heard'));
  assert.deepEqual(await Promise.all(values.map((value) => stays(place, value))), people.map(() => false));
  isShared(asked);
});

test('all who come back from a provider at once with a new key are signed in', options, async (t) => {
  const place = await setting(t), backs = [];
  await signedIn(place, 'alice');
  for (const sub of people) backs.push(await away(place, sub));
  const { came, asked } = await changed(place.provider, () => Promise.all(backs.map(async ({ browser, back }) => { const answer = await browser.open(back); return `${answer.status} ${new URL(answer.headers.location ?? at(place.to)).pathname}`; })));
  assert.deepEqual(came, people.map(() => '302 /auth/done'));
  isShared(asked);
});

test('all programs that come at once with a new key are let in, and made-up keys let in nobody', options, async (t) => {
  const place = await setting(t), { provider } = place;
  assert.equal(await program(place), 200);
  const began = Date.now();
  const { came, asked } = await changed(provider, () => Promise.all(people.map(() => program(place))));
  assert.deepEqual(came, people.map(() => 200));
  isShared(asked);
  provider.calls.jwks = 0;
  const stranger = signingKey(), made = [];
  for (let i = 0; i < 10; i++) made.push(await program(place, {}, stranger));
  // Nobody can tell whether such a key is new until the set may be fetched again.
  assert.deepEqual(made.filter((status) => status !== 503), Array(provider.calls.jwks).fill(401), `${made}`);
  // 4 at once and one each 6 s, counted in whole seconds
  assert.ok(asked + provider.calls.jwks <= 4 + (Date.now() - began + 1000) / 6000, `it was asked ${asked} and ${provider.calls.jwks} times`);
  assert.equal(await program(place), 200);
});

test('tokens of no key that anybody posts keep nobody from being signed out after a change of keys', options, async (t) => {
  const place = await setting(t), { provider } = place, stranger = signingKey(), value = await signedIn(place, 'person0');
  provider.calls.jwks = 0;
  const began = Date.now();
  for (let i = 0; i < 5; i++) assert.match(await logout(place, logoutToken(place, 'person0', { kid: provider.kid() }, stranger)), /^400 .*"invalid_request".*its signature is wrong/);
  // once each 10 s, counted in whole seconds
  assert.ok(provider.calls.jwks <= 1 + (Date.now() - began + 1000) / 10000, `such tokens had the key set asked for ${provider.calls.jwks} times`);
  assert.equal(await stays(place, value), true);
  provider.rotate();
  assert.equal(await logout(place, logoutToken(place, 'person0')), 'heard');
  assert.equal(await stays(place, value), false);
  const other = await signedIn(place, 'person1');
  provider.calls.jwks = 0;
  for (let i = 0; i < 4; i++) {
    const before = provider.calls.jwks, answer = await logout(place, logoutToken(place, 'person1', {}, stranger));
    assert.match(answer, provider.calls.jwks > before ? /^400 .*"invalid_request"/ : /^400 .*"temporarily_unavailable"/);
  }
  assert.equal(await stays(place, other), true, 'and a stranger signs nobody out');
  assert.equal(await logout(place, logoutToken(place, 'person1')), 'heard');
  assert.equal(await stays(place, other), false);
});

test('key ids that anybody makes up keep neither sign-outs nor programs from noticing new keys', options, async (t) => {
  const place = await setting(t), { provider } = place;
  for (const [i, madeUp] of [1, 4].entries()) { // one now and then, and as many as may come at once
    const value = await signedIn(place, people[i]);
    for (let made = 0; made < madeUp; made++) assert.match(await logout(place, logoutToken(place, people[i], {}, signingKey())), /^400 /);
    assert.ok([401, 503].includes(await program(place, {}, signingKey())));
    assert.equal(await stays(place, value), true);
    provider.rotate();
    assert.equal(await logout(place, logoutToken(place, people[i])), 'heard', `after ${madeUp}`);
    assert.equal(await stays(place, value), false);
    assert.equal(await program(place), 200);
  }
});

// Once its key set can be had. A token waits for 8 s, and asks each second: a story that was so slow to have the provider answer that these were over says so, and a provider that sends the token again is heard then.
async function heard(place, token, { answer, waited, lifted }) {
  if (answer === 'heard') return;
  assert.match(answer, /^400 .*"temporarily_unavailable"/);
  assert.ok(lifted > 4000 && waited >= 8000, `refused after ${waited} ms; its key set was there after ${lifted} ms`);
  await until(async () => await logout(place, token) === 'heard', 'it is heard');
}

test('a sign-out by a new key waits for a key set that does not come at once', options, async (t) => {
  const place = await setting(t), { provider } = place, values = [await signedIn(place, 'person0'), await signedIn(place, 'person1')];
  provider.rotate();
  provider.calls.jwks = 0;
  provider.down = true;
  const began = Date.now(), tokens = values.map((_, i) => logoutToken(place, `person${i}`));
  const came = Promise.all(tokens.map(async (token) => ({ token, answer: await logout(place, token), waited: Date.now() - began })));
  try { await until(() => provider.calls.jwks > 0, 'the key set is asked for'); } finally { provider.down = false; }
  const lifted = Date.now() - began;
  for (const { token, answer, waited } of await came) await heard(place, token, { answer, waited, lifted });
  assert.deepEqual(await Promise.all(values.map((value) => stays(place, value))), [false, false]);
});

test('nor do many of them at once, that wait for newer keys, keep others from waiting', options, async (t) => {
  const place = await setting(t), { provider } = place, values = [];
  for (const sub of people.slice(0, 4)) values.push(await signedIn(place, sub));
  const madeUp = () => logout(place, logoutToken(place, people[0], {}, signingKey()));
  for (let i = 0; i < 5; i++) await madeUp(); // as many fetches as there may be at once
  const waiting = Array.from({ length: 5 }, madeUp);
  provider.rotate();
  assert.deepEqual(await Promise.all(people.slice(0, 4).map((sub) => logout(place, logoutToken(place, sub)))), Array(4).fill('heard'));
  assert.deepEqual(await Promise.all(values.map((value) => stays(place, value))), Array(4).fill(false));
  for (const answer of await Promise.all(waiting)) assert.match(answer, /^400 /);
});

test('a sign-out by a new key waits where the provider says that there is no key set', options, async (t) => {
  const place = await setting(t), { provider } = place, value = await signedIn(place, 'person0');
  provider.rotate();
  provider.calls.jwks = 0;
  provider.down = 404;
  const began = Date.now(), token = logoutToken(place, 'person0'), came = logout(place, token).then((answer) => ({ answer, waited: Date.now() - began }));
  try { await until(() => provider.calls.jwks > 0, 'the key set is asked for'); } finally { provider.down = false; }
  const lifted = Date.now() - began;
  await heard(place, token, { ...await came, lifted });
  assert.equal(await stays(place, value), false);
});

for (const status of [404, 503]) test(`a provider that answers with ${status} in place of its metadata is not asked for each token that anybody posts`, options, async (t) => {
  const place = await setting(t), { provider } = place, stranger = signingKey(), MADE = 40;
  provider.down = status;
  const began = Date.now(), waits = logout(place, logoutToken(place, 'nobody', {}, stranger));
  for (let i = 0; i < MADE; i++) assert.equal(await program(place, {}, stranger), 503);
  const asked = provider.calls.discovery, took = Date.now() - began;
  // Once each 2 s, counted in whole seconds, by each copy; a few more where two come at once.
  assert.ok(asked >= 1 && asked <= 6 + took / 1000, `it was asked ${asked} times within ${took} ms`);
  assert.match(await waits, /^400 .*"temporarily_unavailable"/);
  provider.down = false;
  const token = logoutToken(place, 'nobody');
  await until(async () => await logout(place, token) === 'heard', 'it is heard', 60000);
  await until(async () => await program(place) === 200, 'a program is let in', 60000);
});
