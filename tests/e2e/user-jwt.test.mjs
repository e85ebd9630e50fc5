// What upstreams are told of who has signed in, signed: a JWT that they verify with the keys of the sign-in host, which nobody but
// identity makes, that a client's own never takes the place of, and that is in no event. POSTERN_USER_JWTS is on in stories.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { caller, edgeKey } from '../support/peer.mjs';
import { api, edge, elsewhere, endpoint, env, everyWorker, home, listed, listening, must, raw, through, until, upstream } from '../support/postern.mjs';
import { ask as browse, Browser, github } from '../support/browser.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', NAME = 'postern-auth-user-jwt', IDP = `https://idp.localhost:${edge.port}`;
const ada = { id: 2001, login: 'ada', name: 'Ada Lovelace', email: 'ada@example.test' };
const provider = skip ? null : await github(edge.port - 43 + 96);
const sub = skip ? null : await listening('http_request_complete');
let bus;
test.after(() => { provider?.close(); bus?.stop(); });

async function guarded(fields = { oauth: { provider: { github: { email_domains: ['example.test'] } } } }) {
  const up = await upstream((request, response) => response.end(JSON.stringify(request.rawHeaders)));
  return { up, to: await endpoint(up.address, fields) };
}
async function signedIn(to, who = ada) {
  const browser = new Browser();
  provider.who = who;
  const last = await browser.go(`https://${to.host}:${edge.port}/`);
  assert.equal(last.status, 200, last.body);
  return { last, value: browser.cookies.get(`${to.host}:${edge.port}`).get(SESSION) };
}
const withSession = (value, headers = {}) => ({ headers: { Cookie: `${SESSION}=${value}`, ...headers } });
// All JWTs that the upstream got with a request, whatever their names look like.
const told = (answer) => JSON.parse(answer.body).flatMap((name, i, all) => (i % 2 === 0 && /user.?jwt/i.test(name) ? [[name.toLowerCase(), all[i + 1]]] : []));
const jwtOf = (answer) => { const all = told(answer); assert.deepEqual(all.map(([name]) => name), [NAME]); return all[0][1]; };
const part = (jwt, i) => JSON.parse(Buffer.from(jwt.split('.')[i], 'base64url'));
const keysOf = async () => JSON.parse((await browse(`${IDP}/.well-known/jwks.json`)).body).keys;
// As an upstream does it.
async function verified(jwt, audience) {
  const header = part(jwt, 0), jwk = (await keysOf()).find(({ kid }) => kid === header.kid);
  assert.deepEqual([header.alg, header.typ, Boolean(jwk)], ['ES256', 'JWT', true]);
  const [head, body, signature] = jwt.split('.');
  const key = crypto.createPublicKey({ key: jwk, format: 'jwk' });
  assert.ok(crypto.verify('sha256', Buffer.from(`${head}.${body}`), { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url')), 'the signature is good');
  const claims = part(jwt, 1), now = Date.now() / 1000;
  assert.deepEqual([claims.iss, claims.aud], [IDP, audience]);
  assert.ok(claims.iat <= now + 1 && claims.exp > now && claims.exp - claims.iat <= 600, JSON.stringify(claims));
  return claims;
}
const metrics = () => new Promise((resolve, reject) => http.get({ host: '127.0.0.1', port: edge.port - 28, path: '/metrics', agent: false }, (answer) => {
  let text = '';
  answer.setEncoding('utf8').on('data', (more) => { text += more; }).on('end', () => resolve(text)).on('error', reject);
}).on('error', reject));
async function counter(name) {
  let sum = 0;
  for (const [, n] of (await metrics()).matchAll(new RegExp(`^postern_edge_module_${name}_total\\{[^}]*module="oauth"[^}]*\\} (\\d+)`, 'gm'))) sum += Number(n);
  return sum;
}
async function ask(verb, body) {
  bus ??= caller(edgeKey(), 'identity', `ipc://${env.POSTERN_RUN_DIR}/identity.rpc`);
  const id = bus.ask(verb, body);
  return until(() => bus.answer(id), `an answer to ${verb}`);
}
const hex = (text) => crypto.createHash('sha256').update(text).digest('hex');

test('the upstream gets a JWT of who has signed in, and can verify it', { skip }, async () => {
  const { up, to } = await guarded();
  const { last, value } = await signedIn(to);
  const claims = await verified(jwtOf(last), `https://${to.host}:${edge.port}`);
  const users = await listed('/app/users'), user = users.find(({ provider_user_id: id }) => id === '2001');
  const sessions = await listed('/app/sessions');
  assert.equal(claims.sub, user.id);
  assert.deepEqual([claims.name, claims.email, claims.email_verified], [ada.name, ada.email, true]);
  assert.equal(sessions.find(({ id }) => id === claims.sid)?.public_url, `https://${to.host}:${edge.port}`);
  assert.deepEqual(Object.keys(claims).sort(), ['aud', 'email', 'email_verified', 'exp', 'iat', 'iss', 'name', 'sid', 'sub']);
  // whatever port or name of the route is asked later: it says where the session was made
  assert.equal(part(jwtOf(await through(to.host, '/', withSession(value))), 1).aud, `https://${to.host}:${edge.port}`);
  await up.close();
});

test('the upstream never gets one that a client sent, in whatever spelling, and nobody gets one without a session', { skip }, async () => {
  const { up, to } = await guarded(), open = await guarded({});
  const { last, value } = await signedIn(to), own = jwtOf(last);
  const forged = ['Postern-Auth-User-Jwt', 'postern-auth-user-jwt', 'Postern_Auth_User_Jwt', 'POSTERN-AUTH-USER-JWT', 'Postern-Auth_User-JWT'].map((name) => `${name}: ${own}x\r\n`).join('');
  for (const { host } of [to, open.to]) {
    const answer = await raw(host, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nCookie: ${SESSION}=${value}\r\n${forged}\r\n`);
    const jwts = told({ body: answer.slice(answer.indexOf('[')).replace(/\][^\]]*$/, ']') });
    assert.ok(jwts.every(([, jwt]) => !jwt.endsWith('x')), 'none of the client');
    assert.equal(jwts.length, host === to.host ? 1 : 0);
  }
  const before = up.seen.length;
  for (const cookie of [`${SESSION}=${crypto.randomBytes(32).toString('base64url')}`, `${SESSION}=${own}`, 'a=b']) assert.equal((await through(to.host, '/', { headers: { Cookie: cookie, [NAME]: own } })).status, 401);
  assert.equal(up.seen.length, before);
  await Promise.all([up.close(), open.up.close()]);
});

test('it is asked for once by a worker, however many requests need it at the same time', { skip }, async () => {
  const { up, to } = await guarded();
  const { value } = await signedIn(to), before = await counter('jwt_asks');
  const answers = await Promise.all(Array.from({ length: 200 }, () => through(to.host, '/', withSession(value))));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  const jwts = new Set(answers.map(jwtOf));
  assert.ok(jwts.size <= 2, `${jwts.size} of 2 workers`);
  const asked = await counter('jwt_asks') - before;
  assert.ok(asked >= 1 && asked <= 2, `${asked}`);
  await up.close();
});

test('it says of a person what the headers beside it say, also when the provider has just said something else', { skip }, async () => {
  const who = { ...ada, id: 2077 }, { up, to } = await guarded({ oauth: { provider: { github: {} }, auth_check_interval: 1 } }), { value } = await signedIn(to, who);
  Object.assign(who, { name: 'Countess Lovelace', email: 'countess@example.test' }); // who its tokens are of
  const email = (answer) => { const all = JSON.parse(answer.body); return all[all.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === 'postern-auth-user-email') + 1]; };
  const pairs = [];
  await until(async () => {
    const answer = await through(to.host, '/', withSession(value));
    pairs.push([part(jwtOf(answer), 1).email, email(answer)]);
    return email(answer) === 'countess@example.test';
  }, 'the provider is asked again');
  for (const [signed, clear] of pairs) assert.equal(signed, clear);
  provider.who = ada;
  await up.close();
});

test('it says so, too, where the texts change places and together stay the same', { skip }, async () => {
  const who = { ...ada, id: 2078, name: 'Ada', email: 'mada@example.test' }, { up, to } = await guarded({ oauth: { provider: { github: {} }, auth_check_interval: 1 } }), { value } = await signedIn(to, who);
  Object.assign(who, { name: 'Adam', email: 'ada@example.test' });
  const header = (answer, wanted) => { const all = JSON.parse(answer.body); return all[all.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === `postern-auth-user-${wanted}`) + 1]; };
  const seen = [];
  await until(async () => {
    const answer = await through(to.host, '/', withSession(value)), claims = part(jwtOf(answer), 1);
    seen.push([[claims.name, claims.email], [header(answer, 'name'), header(answer, 'email')]]);
    return header(answer, 'email') === 'ada@example.test';
  }, 'the provider is asked again');
  for (const [signed, clear] of seen) assert.deepEqual(signed, clear);
  provider.who = ada;
  await up.close();
});

test('a session that ended gets nobody in, with or without one', { skip }, async () => {
  const { up, to } = await guarded();
  const { last, value } = await signedIn(to), { sid } = part(jwtOf(last), 1);
  assert.equal((await api('DELETE', `/app/sessions/${sid}`)).status, 204);
  const before = up.seen.length;
  const answers = await Promise.all(Array.from({ length: 50 }, () => through(to.host, '/', withSession(value, { [NAME]: jwtOf(last) }))));
  assert.deepEqual([...new Set(answers.map(({ status }) => status)), up.seen.length], [401, before]);
  await up.close();
});

test('identity signs for the session\'s route and host alone, whatever an edge says', { skip }, async () => {
  const one = await guarded(), other = await guarded();
  const { value } = await signedIn(one.to), hash = hex(value);
  const good = await ask('session.vouch', { hash, route: one.to.route.id, host: other.to.host, aud: `https://${other.to.host}` });
  assert.equal(good.code, 0);
  assert.equal((await verified(good.body.jwt, `https://${one.to.host}:${edge.port}`)).name, ada.name);
  assert.ok(good.body.lasts_ms <= 600000 && good.body.renew_ms < good.body.lasts_ms);
  assert.equal((await ask('session.vouch', { hash, route: other.to.route.id })).code, 238);
  assert.equal((await ask('session.vouch', { hash: hex('nobody'), route: one.to.route.id })).code, 238);
  for (const body of [{}, { hash }, { hash: value, route: one.to.route.id }, { hash: [hash], route: one.to.route.id }, { hash, route: 'edghtsrt_1' }]) assert.equal((await ask('session.vouch', body)).code, 121, JSON.stringify(body));
  await Promise.all([one.up.close(), other.up.close()]);
});

test('the keys are public, of this period and those beside it, and nothing of them is secret', { skip }, async () => {
  const answer = await browse(`${IDP}/.well-known/jwks.json`);
  assert.deepEqual([answer.status, answer.headers['content-type'], answer.headers['cache-control']], [200, 'application/jwk-set+json', 'public, max-age=3600']);
  const { keys } = JSON.parse(answer.body);
  assert.equal(new Set(keys.map(({ kid }) => kid)).size, 3);
  for (const key of keys) assert.deepEqual([Object.keys(key).sort(), key.kty, key.crv, key.alg, key.use], [['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'], 'EC', 'P-256', 'ES256', 'sig']);
  assert.deepEqual(await browse(`${IDP}/.well-known/jwks.json`, { method: 'HEAD' }).then(({ status, body }) => [status, body]), [200, '']);
  for (const [method, path] of [['POST', '/.well-known/jwks.json'], ['GET', '/.well-known/jwks.json/'], ['GET', '/.well-known/'], ['GET', '/.well-known/openid-configuration']]) {
    assert.equal((await browse(IDP + path, { method })).status, 404, `${method} ${path}`);
  }
  const { up, to } = await guarded({});
  assert.equal((await through(to.host, '/.well-known/jwks.json')).status, 200, 'of a route it is its own');
  assert.equal(up.seen.length, 1);
  await up.close();
});

test('while identity stands still, sessions go on with the one that lasts, or without', { skip, timeout: 300000 }, async () => {
  const { up, to } = await guarded();
  const { value } = await signedIn(to);
  for (const ask of [() => through(to.host, '/', withSession(value)), keysOf]) await everyWorker(() => Promise.all(Array.from({ length: 25 }, ask))); // every worker has one, and the keys
  const pid = Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/identity.pid`, 'utf8'));
  process.kill(pid, 'SIGSTOP');
  try {
    const answers = await Promise.all(Array.from({ length: 8 }, () => through(to.host, '/', withSession(value))));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    for (const answer of answers) if (told(answer).length) await verified(jwtOf(answer), `https://${to.host}:${edge.port}`);
    assert.equal((await browse(`${IDP}/.well-known/jwks.json`)).status, 200, 'keys are known');
  } finally { process.kill(pid, 'SIGCONT'); }
  await up.close();
});

test('no event, log or page has one', { skip }, async () => {
  const { up, to } = await guarded();
  const { value } = await signedIn(to);
  sub.events.length = 0;
  const jwt = jwtOf(await through(to.host, '/last', withSession(value, { [NAME]: 'forged.by.client' })));
  await until(() => sub.events.some(({ object }) => object.http.request.url.path === '/last'), 'events');
  const signature = jwt.split('.')[2];
  assert.ok(!JSON.stringify(sub.events).includes(signature));
  for (const file of fs.readdirSync(`${home}/log`)) assert.ok(!fs.readFileSync(`${home}/log/${file}`, 'latin1').includes(signature), file);
  await up.close();
});
