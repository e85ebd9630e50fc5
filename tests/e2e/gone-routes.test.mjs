// Sessions of routes, edges and modules that were deleted end, with the provider's tokens, whoever was away when that happened, and so do those
// whose cookies have another name by now, and those of hosts that are not their edge's any more; and none ends because somebody does not answer. The copies of postern-identity that look are the story's own: the stack's own looks once a day.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { another } from '../support/copies.mjs';
import { api, edge, elsewhere, endpoint, env, listed, listening, must, through, unique, until, upstream } from '../support/postern.mjs';
import { Browser } from '../support/browser.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', IDP = `https://idp.localhost:${edge.port}`, PORT = edge.port - 43 + 150, SUBS = ['gone1', 'gone2', 'gone3', 'stays'];
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
const callback = (issuer) => `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback };
const authority = process.env.STORY_UPSTREAM_TLS;
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const provider = skip ? null : await oidcProvider({ port: edge.port - 43 + 98, clients: [CLIENT], signed });
const up = skip ? null : await upstream((request, response) => response.end('in'));
test.after(async () => {
  if (skip) return;
  for (const user of await listed('/app/users')) if (user.identity_provider.url === provider.issuer && SUBS.includes(user.provider_user_id)) await api('DELETE', `/app/users/${user.id}`);
  await up.close();
  provider.stop();
});
if (!skip) for (const sub of SUBS) provider.accounts[sub] = { name: sub, email: `${sub}@example.test`, email_verified: true };

const oidc = (fields = {}) => ({ issuer: provider.issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile'], ...fields });
const at = (to) => `/edges/https/${to.edge.id}/routes/${to.route.id}`;
async function toCode(to, sub) {
  const browser = new Browser();
  const away = await browser.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(provider.issuer) });
  const params = await provider.signIn(away.headers.location, sub), back = new URL(callback(provider.issuer));
  for (const [name, values] of Object.entries(params)) back.searchParams.set(name, values[0]);
  return { browser, done: (await browser.open(back.href)).headers.location };
}
async function signedIn(sub, to, name = SESSION) {
  const place = to ?? await endpoint(up.address, { oidc: oidc() }), { browser, done } = await toCode(place, sub);
  assert.equal((await browser.go(done)).status, 200);
  const value = browser.cookies.get(`${place.host}:${edge.port}`).get(name), id = sql(`SELECT id FROM application_session WHERE token_hash = '${crypto.createHash('sha256').update(value).digest('hex')}'`);
  return { to: place, browser, id, user: (await must('GET', `/app/sessions/${id}`)).application_user.id, value };
}
const ask = ({ to, value }, name = SESSION) => through(to.host, '/', { headers: { Cookie: `${name}=${value}`, 'Sec-Fetch-Mode': 'cors' } }).then(({ status }) => status);
const isListed = async ({ id }) => (await api('GET', `/app/sessions/${id}`)).status === 200;
// A copy that looks each second.
const looking = (changed = {}) => another('identity', { POSTERN_RPC: `ipc://${env.POSTERN_RUN_DIR}/gone-${process.pid}.rpc`, POSTERN_HEALTH_PORT: String(PORT), POSTERN_SIGN_IN_TIDY_SECONDS: '1', POSTERN_GONE_ROUTES_SECONDS: '1', ...changed });
const metric = (name) => new Promise((resolve) => {
  http.get({ host: '127.0.0.1', port: PORT, path: '/metrics', agent: false }, (answer) => {
    let text = '';
    answer.setEncoding('utf8').on('data', (more) => { text += more; }).on('end', () => resolve(Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1] ?? -1)));
  }).on('error', () => resolve(-1));
});

test('sessions of a route, an edge and a module that were deleted end, and those of others go on', { skip }, async () => {
  const events = await listening(), gone = [await signedIn('gone1'), await signedIn('gone2'), await signedIn('gone3')], stays = await signedIn('stays');
  const [byRoute, byEdge, byModule] = gone;
  // of versions that noted neither where a session was made nor what tells a module from the one before
  sql(`UPDATE sign_in_session SET place = NULL, counts_at = NULL WHERE session_id IN ('${byRoute.id}', '${stays.id}'); UPDATE routes.https_edge_route SET oidc = oidc - 'made_id' WHERE id = '${stays.to.route.id}'`);
  sql(`UPDATE sign_in_session SET tokens = 'sealed' WHERE session_id = '${byRoute.id}'`);
  await must('DELETE', at(byRoute.to));
  await must('DELETE', `/edges/https/${byEdge.to.edge.id}`);
  await must('DELETE', `${at(byModule.to)}/oidc`);
  await must('PUT', `${at(stays.to)}/oidc`, oidc({ enabled: false })); // off is not gone
  for (const one of gone) assert.ok(await isListed(one), 'nobody has looked yet');
  const copy = looking();
  try {
    for (const one of gone) {
      const { principal } = await until(() => events.events.find((event) => event.event_type === 'application_session_deleted.v0' && event.object?.id === one.id), `the end of ${one.id}`, 120000);
      assert.deepEqual([principal.id, principal.source], [one.user, 'ROUTE']);
      assert.equal(await isListed(one), false);
      assert.equal(sql(`SELECT count(*) FROM sign_in_session WHERE session_id = '${one.id}'`), '0', 'its tokens went with it');
      assert.deepEqual((await must('GET', `/app/users/${one.user}`)).endpoints, []);
    }
    const asked = await metric('postern_identity_asked_total\\{service="routes"\\}');
    await until(async () => await metric('postern_identity_asked_total\\{service="routes"\\}') >= asked + 3, 'it looks again', 120000);
  } finally { await copy.stop(); }
  await must('PUT', `${at(stays.to)}/oidc`, oidc());
  assert.deepEqual([await isListed(stays), await ask(stays)], [true, 200]);
  await events.stop();
});

test('a module that is deleted and put again has nothing of the former one: no session, and no sign-in that was under way', { skip }, async () => {
  const session = await signedIn('gone1'), { to } = session, events = await listening();
  for (const same of [oidc(), oidc({ maximum_duration: 7200 }), oidc({ enabled: false }), oidc()]) await must('PUT', `${at(to)}/oidc`, same);
  assert.equal(await ask(session), 200, 'changes of a module leave it the one that it was');
  const { browser, done } = await toCode(to, 'gone2');
  await must('DELETE', `${at(to)}/oidc`);
  await must('PUT', `${at(to)}/oidc`, oidc());
  assert.deepEqual([await ask(session), (await browser.open(done)).status], [401, 400]);
  const copy = looking(), fresh = await signedIn('gone3', to);
  try {
    const event = await until(() => events.events.find((one) => one.event_type === 'application_session_deleted.v0' && one.object?.id === session.id), 'the end of the former session', 120000);
    assert.equal(event.principal.source, 'ROUTE');
    const asked = await metric('postern_identity_asked_total\\{service="routes"\\}');
    await until(async () => await metric('postern_identity_asked_total\\{service="routes"\\}') >= asked + 3, 'it looks again', 120000);
    assert.deepEqual([await isListed(fresh), await ask(fresh)], [true, 200], 'the new module has sessions of its own');
  } finally { await copy.stop(); }
  await events.stop();
});

test('after another cookie_prefix no upstream gets the former cookies, their values count nowhere, and those sessions end', { skip }, async () => {
  const OLD = '__Host-abc.session', NEW = '__Host-def.session', to = await endpoint(up.address, { oidc: oidc({ cookie_prefix: 'abc.' }) }), events = await listening();
  await must('POST', `/edges/https/${to.edge.id}/routes`, { match_type: 'path_prefix', match: '/public', backend: { backend_id: to.backend.id } });
  const session = await signedIn('gone1', to, OLD), { browser } = session;
  const seen = async () => { assert.equal((await browser.open(`https://${to.host}:${edge.port}/public`)).status, 200); return up.seen.at(-1).headers.cookie; };
  assert.deepEqual([await seen(), await ask(session, OLD)], [undefined, 200]);
  await must('PUT', `${at(to)}/oidc`, oidc({ cookie_prefix: 'def.' }));
  assert.ok(browser.cookie(`${to.host}:${edge.port}`).includes(OLD), 'the browser has it still');
  assert.equal(await seen(), undefined);
  assert.deepEqual([await ask(session, OLD), await ask(session, NEW), await ask(session)], [401, 401, 401]);
  const fresh = await signedIn('gone2', to, NEW);
  assert.ok(await isListed(session), 'nobody has looked yet');
  const copy = looking();
  try {
    const event = await until(() => events.events.find((one) => one.event_type === 'application_session_deleted.v0' && one.object?.id === session.id), 'the end of the former session', 120000);
    assert.deepEqual([event.principal.id, event.principal.source], [session.user, 'ROUTE']);
    const asked = await metric('postern_identity_asked_total\\{service="routes"\\}');
    await until(async () => await metric('postern_identity_asked_total\\{service="routes"\\}') >= asked + 3, 'it looks again', 120000);
    assert.deepEqual([await isListed(fresh), await ask(fresh, NEW)], [true, 200]);
  } finally { await copy.stop(); }
  await events.stop();
});

test('a session counts at the host where it was made, and ends when that is not its edge\'s any more', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), events = await listening(), base = unique('wild'), wild = `*.${base}`, below = `below.${base}`;
  const other = { ...to, host: unique('other') }, under = { ...to, host: below };
  for (const domain of [other.host, wild]) await must('POST', '/reserved_domains', { domain });
  const hosts = (...names) => must('PATCH', `/edges/https/${to.edge.id}`, { hostports: names.map((name) => `${name}:443`) });
  await hosts(to.host, other.host, wild);
  const here = await signedIn('gone1', to), there = await signedIn('gone2', other), deep = await signedIn('gone3', under), before = await signedIn('stays', to);
  assert.deepEqual([await ask(here), await ask(there), await ask(deep), await ask(before)], [200, 200, 200, 200]);
  for (const [session, at] of [[here, other], [here, under], [there, to], [deep, to], [deep, { ...to, host: `beside.${base}` }]]) {
    assert.equal(await ask({ ...session, to: at }), 401, `of ${session.to.host} at ${at.host}`);
    assert.equal(await ask(session), 200, 'where it was made it goes on');
  }
  sql(`UPDATE sign_in_session SET counts_at = NULL WHERE session_id = '${before.id}'`); // as a version before noted it
  await hosts(other.host, wild);
  assert.equal((await api('DELETE', `/reserved_domains/${to.domain.id}`)).status, 204);
  assert.deepEqual([await isListed(here), await isListed(before), await ask(there), await ask(deep)], [true, true, 200, 200]);
  const copy = looking();
  try {
    for (const session of [here, before]) {
      const event = await until(() => events.events.find((one) => one.event_type === 'application_session_deleted.v0' && one.object?.id === session.id), 'the end of a session of the host', 120000);
      assert.deepEqual([event.principal.id, event.principal.source], [session.user, 'ROUTE']);
    }
    const asked = await metric('postern_identity_asked_total\\{service="routes"\\}');
    await until(async () => await metric('postern_identity_asked_total\\{service="routes"\\}') >= asked + 3, 'it looks again', 120000);
    for (const session of [there, deep]) assert.deepEqual([await isListed(session), await ask(session)], [true, 200], `that of ${session.to.host} goes on`);
  } finally { await copy.stop(); }
  await events.stop();
});

test('while postern-routes does not answer nothing ends, and when it does again it does', { skip }, async () => {
  const session = await signedIn('gone1');
  await must('DELETE', at(session.to));
  const deaf = looking({ POSTERN_ROUTES_RPC: `ipc://${env.POSTERN_RUN_DIR}/nobody-${process.pid}.rpc` });
  try {
    await until(async () => await metric('postern_identity_asked_in_vain_total\\{service="routes"\\}') >= 2, 'it has asked twice, in vain', 120000);
    assert.ok(await isListed(session));
  } finally { await deaf.stop(); }
  const copy = looking();
  try {
    await until(async () => !await isListed(session), 'it ends', 120000);
  } finally { await copy.stop(); }
});
