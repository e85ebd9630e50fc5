// SAML's binding POST for what a route sends (bindings 3.5): where a provider's metadata offer nothing else, a page posts the request, which is signed in itself.
// xml-crypto, samlify, xmlsec1 and pysaml2 verify the signatures, and Chromium the page.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { edge, elsewhere, endpoint, through, upstream } from '../support/postern.mjs';
import { ask, Browser, PAGE } from '../support/browser.mjs';
import { EMAIL, encode, NS, provider, response, RSA, samlify, sign, SignedXml, signer, SUCCESS, time } from '../support/saml.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', SSO = 'https://idp.example.com/sso', SLO = 'https://idp.example.com/slo';
const idp = skip ? null : provider([signer()], `https://idp-${process.pid}.example.com/metadata`), posting = idp?.metadata.replaceAll('HTTP-Redirect', 'HTTP-POST');
const up = skip ? null : await upstream((asked, answer) => answer.end('upstream'));
test.after(() => up?.close());
const at = (to, place = '/') => `https://${to.host}:${edge.port}${place}`;
const unique = () => `_${crypto.randomUUID()}`;
const route = async (more = {}) => { const to = await endpoint(up.address, { saml: { idp_metadata: posting, nameid_format: EMAIL, ...more } }); return { ...to, saml: to.route.saml }; };
const form = (fields) => ({ method: 'POST', headers: { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' }, body: new URLSearchParams(fields).toString() });
const stays = async ({ to, value }) => (await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status === 200;
const plain = (text) => text.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');

// The form of a page, which is nothing but that, and the one script that its policy lets run.
function posted(page) {
  assert.deepEqual([page.status, page.headers['content-type'], page.headers['cache-control'], page.headers['referrer-policy']], [200, 'text/html; charset=utf-8', 'no-store', 'no-referrer'], page.body);
  const [, script] = /<script>([^<]*)<\/script>/.exec(page.body), policy = page.headers['content-security-policy'];
  assert.equal(page.body.match(/<script/g).length, 1);
  assert.equal(policy, `default-src 'none'; script-src 'sha256-${crypto.createHash('sha256').update(script).digest('base64')}'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action https:`);
  assert.match(page.body, /<button>/);
  const fields = Object.fromEntries([...page.body.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(([, name, value]) => [name, plain(value)]));
  const message = fields.SAMLRequest ?? fields.SAMLResponse, xml = Buffer.from(message, 'base64').toString();
  return { action: plain(/<form method="post" action="([^"]*)">/.exec(page.body)[1]), fields, message, xml, id: / ID="([^"]+)"/.exec(xml)[1], relay: fields.RelayState };
}
// By the certificate that the API shows; and no other, and nothing else, is taken.
function verified(xml, pem) {
  const check = (text) => {
    const signature = /<ds:Signature .*<\/ds:Signature>/s.exec(text)[0], one = new SignedXml({ publicCert: pem, getCertFromKeyInfo: () => null, idAttributes: ['ID'] });
    one.loadSignature(signature);
    try { return one.checkSignature(text) && one.getSignedReferences().length === 1; } catch { return false; }
  };
  assert.ok(check(xml), 'xml-crypto takes it');
  assert.ok(!check(xml.replace('Version="2.0"', 'Version="2.1"')), 'and not what was changed');
}
async function begin(to, place = '/', browser = new Browser()) {
  const page = await browser.go(at(to, place));
  return { browser, page, ...posted(page) };
}
const answered = (saml, to, over = {}) => response(idp, { id: unique(), response: unique(), to, recipient: saml.assertion_consumer_service_url, destination: saml.assertion_consumer_service_url, audience: saml.entity_id, attributes: {}, ...over });
async function signedIn(to, over = {}) {
  const begun = await begin(to), { browser } = begun, name = over.name ?? `${crypto.randomUUID()}@example.test`;
  const first = await browser.open(to.saml.assertion_consumer_service_url, form({ SAMLResponse: encode(answered(to.saml, begun.id, { name, ...over })), RelayState: begun.relay }));
  assert.equal(first.status, 302, first.body);
  assert.equal((await browser.go(first.headers.location)).status, 200);
  return { to, browser, name, value: browser.cookies.get(new URL(at(to)).host).get(SESSION) };
}

test('a provider that takes requests by POST alone is sent one that is signed in itself, and signs in', { skip }, async () => {
  const to = await route({ force_authn: true }), begun = await begin(to, '/deep?x=1');
  assert.equal(begun.action, SSO);
  assert.deepEqual(Object.keys(begun.fields), ['SAMLRequest', 'RelayState']);
  assert.ok(begun.relay.startsWith(`${to.route.id}.`) && begun.relay.length <= 80, begun.relay);
  assert.match(begun.xml, / ForceAuthn="true" ID="_[A-Za-z0-9_-]{43}"/);
  assert.ok(begun.xml.includes(`Destination="${SSO}"`) && begun.xml.includes(`${to.saml.entity_id}</saml:Issuer><ds:Signature `) && begun.xml.includes(to.saml.request_signing_certificate_pem.replace(/-----[^-]+-----|\s/g, '')), begun.xml);
  verified(begun.xml, to.saml.request_signing_certificate_pem);
  const { browser } = begun, back = await browser.open(to.saml.assertion_consumer_service_url, form({ SAMLResponse: encode(answered(to.saml, begun.id)), RelayState: begun.relay }));
  const last = await browser.go(back.headers.location);
  assert.deepEqual([last.status, last.url], [200, at(to, '/deep?x=1')], last.body);
  const other = await begin(to);
  assert.equal((await other.browser.open(to.saml.assertion_consumer_service_url, form({ SAMLResponse: encode(answered(to.saml, begun.id)), RelayState: other.relay }))).status, 400, 'an answer to another request');
});

test('a provider that offers both is sent requests by redirect', { skip }, async () => {
  const both = posting.replace(/(<md:SingleSignOnService )([^>]*\/>)/, `$1$2$1Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="${SSO}"/>`), to = await route({ idp_metadata: both });
  const answer = await new Browser().go(at(to), { stop: (location) => location.startsWith(SSO) });
  assert.deepEqual([answer.status, answer.headers.location.startsWith(`${SSO}?SAMLRequest=`)], [302, true]);
});

test('what has a meaning in HTML or XML stays what it is', { skip }, async () => {
  const place = `https://idp.example.com/sso?a=1&amp;b='c'`, to = await route({ idp_metadata: posting.replace(SSO, place) }), begun = await begin(to);
  assert.equal(begun.action, "https://idp.example.com/sso?a=1&b='c'");
  assert.ok(begun.xml.includes(`Destination="${place}"`), begun.xml);
  verified(begun.xml, to.saml.request_signing_certificate_pem);
  const name = 'a&amp;b&lt;c&gt;"d&#13;é@example.test'.replace('&#13;', ''), who = await signedIn(to, { name, index: 'x&lt;&quot;&gt;&amp;' }), out = await who.browser.open(at(to, '/auth/logout'));
  verified(posted(out).xml, to.saml.request_signing_certificate_pem);
});

test('single logout by POST, both ways', { skip }, async () => {
  const to = await route(), who = await signedIn(to, { index: '_s1' }), out = await who.browser.open(at(to, '/auth/logout'), { headers: { ...PAGE, 'Sec-Fetch-Site': 'same-origin' } }), asked = posted(out);
  assert.deepEqual([asked.action, await stays(who), who.browser.cookies.get(new URL(at(to)).host).get(SESSION)], [SLO, false, undefined]);
  assert.ok(asked.xml.includes('<samlp:SessionIndex>_s1</samlp:SessionIndex>') && asked.xml.includes(`>${who.name}</saml:NameID>`), asked.xml);
  verified(asked.xml, to.saml.request_signing_certificate_pem);
  const id = unique(), done = `<samlp:LogoutResponse xmlns:samlp="${NS.protocol}" xmlns:saml="${NS.assertion}" ID="${id}" Version="2.0" IssueInstant="${time(Date.now())}" Destination="${to.saml.single_logout_url}" InResponseTo="${asked.id}"><saml:Issuer>${idp.entity}</saml:Issuer><samlp:Status><samlp:StatusCode Value="${SUCCESS}"/></samlp:Status></samlp:LogoutResponse>`;
  const last = await who.browser.go(to.saml.single_logout_url, form({ SAMLResponse: encode(sign(done, id, idp.signer)), RelayState: asked.relay }));
  assert.ok(last.body.includes('You are signed out'), last.body);
  const again = await signedIn(to), request = unique(), relay = `"><script>alert(1)</script>&'ü`;
  const xml = `<samlp:LogoutRequest xmlns:samlp="${NS.protocol}" xmlns:saml="${NS.assertion}" ID="${request}" Version="2.0" IssueInstant="${time(Date.now())}" Destination="${to.saml.single_logout_url}"><saml:Issuer>${idp.entity}</saml:Issuer><saml:NameID Format="${EMAIL}">${again.name}</saml:NameID></samlp:LogoutRequest>`;
  const back = posted(await ask(to.saml.single_logout_url, form({ SAMLRequest: encode(sign(xml, request, idp.signer)), RelayState: relay })));
  assert.deepEqual([back.action, back.relay, await stays(again)], [SLO, relay, false]);
  assert.ok(back.fields.SAMLResponse && back.xml.includes(`InResponseTo="${request}"`) && back.xml.includes(SUCCESS), back.xml);
  verified(back.xml, to.saml.request_signing_certificate_pem);
});

test('scripts of a page of another site end no session at the provider by a form either', { skip }, async () => {
  const to = await route(), who = await signedIn(to), answer = await who.browser.open(at(to, '/auth/logout'), { headers: { ...PAGE, 'Sec-Fetch-Site': 'cross-site' } });
  assert.ok(answer.body.includes('You are signed out') && !answer.body.includes('<form'), answer.body);
});

test('samlify\'s identity provider takes our request by POST', { skip }, async () => {
  samlify.setSchemaValidator({ validate: async () => 'not looked at' });
  const entity = 'https://samlify.example.com', POST = 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST';
  const theirs = samlify.IdentityProvider({ entityID: entity, privateKey: idp.signer.key, signingCert: idp.signer.pem, isAssertionEncrypted: false, nameIDFormat: [EMAIL], wantAuthnRequestsSigned: true, wantLogoutRequestSigned: true, wantLogoutResponseSigned: true,
    requestSignatureAlgorithm: RSA(256), singleSignOnService: [{ Binding: POST, Location: `${entity}/sso` }], singleLogoutService: [{ Binding: POST, Location: `${entity}/slo` }] });
  const to = await route({ idp_metadata: theirs.getMetadata() }), ours = samlify.ServiceProvider({ metadata: (await ask(to.saml.metadata_url)).body, wantLogoutRequestSigned: true }), begun = await begin(to);
  assert.equal(begun.action, `${entity}/sso`);
  const parsed = await theirs.parseLoginRequest(ours, 'post', { body: { SAMLRequest: begun.message } });
  assert.deepEqual([parsed.extract.request.id, parsed.extract.issuer], [begun.id, to.saml.entity_id]);
  await assert.rejects(theirs.parseLoginRequest(ours, 'post', { body: { SAMLRequest: encode(begun.xml.replace('Version="2.0"', 'Version="2.1"')) } }));
});

const PYTHON = '/usr/bin/python3'; // Debian's, which has Debian's packages
const pysaml2 = (() => { try { execFileSync(PYTHON, ['-c', 'import saml2'], { stdio: 'ignore' }); execFileSync('xmlsec1', ['--version'], { stdio: 'ignore' }); return false; } catch { return 'python3-pysaml2 is not installed'; } })();
test('xmlsec1 and pysaml2\'s identity provider take our requests by POST, and not what was changed', { skip: skip || pysaml2 }, async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-pysaml2-')), to = await route(), begun = await begin(to), who = await signedIn(to), leaving = posted(await who.browser.open(at(to, '/auth/logout')));
  const sp = (await ask(to.saml.metadata_url)).body.replace(/^<\?xml[^>]*>\s*/, '');
  fs.writeFileSync(`${dir}/key`, idp.signer.key), fs.writeFileSync(`${dir}/pem`, idp.signer.pem), fs.writeFileSync(`${dir}/sp.pem`, to.saml.request_signing_certificate_pem);
  const xmlsec = (xml, name) => { fs.writeFileSync(`${dir}/message.xml`, xml); execFileSync('xmlsec1', ['--verify', '--id-attr:ID', `${NS.protocol}:${name}`, '--pubkey-cert-pem', `${dir}/sp.pem`, `${dir}/message.xml`], { stdio: 'ignore' }); };
  for (const [one, name] of [[begun, 'AuthnRequest'], [leaving, 'LogoutRequest']]) {
    xmlsec(one.xml, name);
    assert.throws(() => xmlsec(one.xml.replace('Version="2.0"', 'Version="2.1"'), name));
  }
  const python = (asked) => JSON.parse(execFileSync(PYTHON, [new URL('../support/saml_authn.py', import.meta.url).pathname], { encoding: 'utf8', input: JSON.stringify({ folder: dir, sp, ...asked }), stdio: ['pipe', 'pipe', 'ignore'] }));
  assert.deepEqual(python({ authn: begun.message }), { id: begun.id, issuer: to.saml.entity_id, signed: true });
  assert.deepEqual(python({ logout: leaving.message }), { id: leaving.id, issuer: to.saml.entity_id, signed: true });
  assert.throws(() => python({ authn: encode(begun.xml.replace('bindings:HTTP-POST"', 'bindings:HTTP-Artifact"')) }));
  fs.rmSync(dir, { recursive: true });
});
