// Whom a route with OpenID Connect admits of those whom the provider vouches for: the lists of the module, each with somebody whom it must deny.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import { Browser } from '../support/browser.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';
import { edge, elsewhere, endpoint, forgetUsers, must, upstream } from '../support/postern.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const authority = process.env.STORY_UPSTREAM_TLS, port = edge.port - 43 + 98, issuer = `https://localhost:${port}`;
const callback = `https://idp.localhost:${edge.port}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback };
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const provider = skip ? null : await oidcProvider({ port, clients: [CLIENT], signed });
const up = skip ? null : await upstream((request, response) => response.end('upstream'));
test.after(async () => { if (provider) await forgetUsers(issuer); provider?.stop(); await up?.close(); });

const oidc = (rules) => ({ issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile', 'groups'], ...rules });
async function comes(to, sub) {
  const browser = new Browser();
  const away = await browser.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(issuer) });
  const back = new URL(callback);
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, sub))) back.searchParams.set(name, values[0]);
  const { status, body } = await browser.go(back.href);
  return status === 200 ? 'enters' : `${status} ${/ERR_POSTERN_\d+/.exec(body)?.[0]}`;
}
const DENIED = '403 ERR_POSTERN_951';
// Alice: alice@example.test, of staff and admins. Bob: bob@other.test, which is not verified, of staff.
const CASES = [
  [{ email_addresses: ['alice@example.test'] }, { alice: 'enters', bob: DENIED }],
  [{ email_addresses: ['someone@example.test'] }, { alice: DENIED }],
  [{ email_domains: ['example.test'] }, { alice: 'enters', bob: DENIED }],
  [{ email_domains: ['test', 'sub.example.test', 'notexample.test'] }, { alice: DENIED }],
  [{ email_addresses: ['bob@other.test'], email_domains: ['other.test'] }, { bob: DENIED }],
  [{ groups: ['admins'] }, { alice: 'enters', bob: DENIED }],
  [{ groups: ['Admins', 'admin', 'admins '] }, { alice: DENIED }],
  [{ groups: ['staff'], groups_claim: 'roles' }, { alice: DENIED, bob: DENIED }],
  [{ groups: ['alice'], groups_claim: 'preferred_username' }, { alice: 'enters', bob: DENIED }],
  [{ email_domains: ['example.test'], groups: ['staff'] }, { alice: 'enters', bob: 'enters' }],
  [{ email_domains: ['nobody.test'], groups: ['nobody'] }, { alice: DENIED, bob: DENIED }],
  [{}, { alice: 'enters', bob: 'enters' }],
];

test('each list admits whom it names, and nobody else', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() });
  for (const [rules, people] of CASES) {
    await must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oidc`, oidc(rules));
    for (const [sub, want] of Object.entries(people)) assert.equal(await comes(to, sub), want, `${sub} by ${JSON.stringify(rules)}`);
  }
});

test('a list that becomes narrower ends the sessions of those whom it does not name any more', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc({ groups: ['staff'] }) }), browser = new Browser(), back = new URL(callback);
  const away = await browser.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, 'bob'))) back.searchParams.set(name, values[0]);
  assert.equal((await browser.go(back.href)).status, 200);
  await must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oidc`, oidc({ groups: ['admins'] }));
  assert.equal((await browser.open(`https://${to.host}:${edge.port}/`)).status, 403);
});
