// An address that the provider has not verified may be anybody's: it reaches upstreams under a name of its own, and stands for nobody in audit events.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import { api, edge, elsewhere, endpoint, listed, listening, must, through, until, upstream } from '../support/postern.mjs';
import { Browser } from '../support/browser.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', IDP = `https://idp.localhost:${edge.port}`;
const callback = (issuer) => `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback };
const authority = process.env.STORY_UPSTREAM_TLS;
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const provider = skip ? null : await oidcProvider({ port: edge.port - 43 + 98, clients: [CLIENT], signed });
const events = skip ? null : await listening();
const mine = async (sub) => (await listed('/app/users')).find(({ identity_provider: by, provider_user_id: id }) => by.url === provider.issuer && id === sub);
test.after(async () => {
  if (skip) return;
  for (const sub of Object.keys(PEOPLE)) { const user = await mine(sub); if (user) await api('DELETE', `/app/users/${user.id}`); }
  await events.stop();
  provider.stop();
});

const PEOPLE = {
  mallory: { name: 'The CEO', email: 'ceo@corp.test', email_verified: false, groups: ['people'] },
  silent: { name: 'Silent', email: 'silent@corp.test', groups: ['people'] },
  texty: { name: 'Texty', email: 'texty@corp.test', email_verified: 'yes', groups: ['people'] },
  nomail: { name: 'Nomail', email_verified: true, groups: ['people'] },
  honest: { name: 'Honest', email: 'honest@corp.test', email_verified: true, groups: ['people'] },
};
if (!skip) Object.assign(provider.accounts, structuredClone(PEOPLE));
const oidc = (fields = {}) => ({ issuer: provider.issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile', 'groups'], groups: ['people'], ...fields });
async function signedIn(to, sub) {
  const browser = new Browser();
  const away = await browser.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(provider.issuer) });
  const params = await provider.signIn(away.headers.location, sub), back = new URL(callback(provider.issuer));
  for (const [name, values] of Object.entries(params)) back.searchParams.set(name, values[0]);
  const last = await browser.go(back.href);
  return { last, headers: last.status === 200 ? JSON.parse(last.body) : null, value: browser.cookies.get(`${to.host}:${edge.port}`)?.get(SESSION) };
}
const addresses = (headers) => ['ngrok-auth-user-email', 'postern-auth-user-email', 'postern-auth-user-email-unverified', 'ngrok-auth-user-email-unverified'].map((name) => headers[name]);
const claims = (headers) => JSON.parse(Buffer.from(headers['postern-auth-user-jwt'].split('.')[1], 'base64url'));

test('an address that its provider has not verified has a name of its own at upstreams, and one that it has none beside it', { skip }, async () => {
  const up = await upstream((request, response) => response.end(JSON.stringify(request.headers))), to = await endpoint(up.address, { oidc: oidc() });
  for (const [sub, verified, unverified] of [['mallory', undefined, 'ceo@corp.test'], ['silent', undefined, 'silent@corp.test'], ['texty', undefined, 'texty@corp.test'], ['nomail', undefined, undefined], ['honest', 'honest@corp.test', undefined]]) {
    const { last, headers, value } = await signedIn(to, sub);
    assert.equal(last.status, 200, `${sub}: ${last.body}`);
    assert.deepEqual(addresses(headers), [verified, verified, unverified, undefined], sub);
    const { email, email_verified: is } = claims(headers);
    assert.deepEqual([email, is], [verified ?? unverified, verified || unverified ? Boolean(verified) : undefined], `the JWT of ${sub}`);
    const again = JSON.parse((await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}`, 'Postern-Auth-User-Email': 'ceo@corp.test', 'Postern-Auth-User-Email-Unverified': 'x@corp.test', postern_auth_user_email: 'ceo@corp.test' } })).body);
    assert.deepEqual(addresses(again), [verified, verified, unverified, undefined], `what a client says of ${sub}`);
  }
  await up.close();
});

test('what the provider says of an address later, upstreams learn later, headers and JWT alike', { skip }, async () => {
  const up = await upstream((request, response) => response.end(JSON.stringify(request.headers))), to = await endpoint(up.address, { oidc: oidc() });
  const { value } = await signedIn(to, 'honest'), put = (fields) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oidc`, oidc(fields));
  const now = async () => JSON.parse((await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).body);
  assert.equal(claims(await now()).email_verified, true);
  for (const [verified, scopes] of [[false, ['email', 'groups']], [true, ['email', 'profile', 'groups']]]) {
    provider.accounts.honest.email_verified = verified;
    await put({ scopes }); // other scopes are another question, so the provider is asked
    const headers = await now();
    assert.deepEqual(addresses(headers), verified ? ['honest@corp.test', 'honest@corp.test', undefined, undefined] : [undefined, undefined, 'honest@corp.test', undefined]);
    assert.equal(claims(headers).email_verified, verified, 'no JWT of before, in which the same words say something else');
  }
  await up.close();
});

test('audit events name whom the provider vouches for by the address, and anybody else by the id', { skip }, async () => {
  const up = await upstream((request, response) => response.end(JSON.stringify(request.headers))), to = await endpoint(up.address, { oidc: oidc() });
  const seen = (type, id) => until(() => events.events.find((one) => one.event_type === type && one.object?.id === id), `${type} of ${id}`);
  for (const [sub, verified] of [['mallory', false], ['silent', false], ['honest', true]]) {
    const old = await mine(sub);
    if (old) await must('DELETE', `/app/users/${old.id}`);
    const { value } = await signedIn(to, sub), user = await mine(sub), subject = verified ? PEOPLE[sub].email : user.id;
    const [session] = (await must('GET', `/app/sessions?filter=${encodeURIComponent(`obj.application_user.id == "${user.id}"`)}`)).application_sessions;
    await through(to.host, '/auth/logout', { headers: { Cookie: `${SESSION}=${value}`, Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document', 'Sec-Fetch-Site': 'same-origin' } });
    for (const [type, id, source] of [['application_user_created.v0', user.id, 'SIGN_IN'], ['application_session_created.v0', session.id, 'SIGN_IN'], ['application_session_deleted.v0', session.id, 'SIGN_OUT']])
      assert.deepEqual((await seen(type, id)).principal, { id: user.id, subject, source, credential: null }, `${type} of ${sub}`);
  }
  await up.close();
});
