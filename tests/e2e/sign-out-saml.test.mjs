// Single logout of SAML (profiles 4.4), both ways, by both bindings, with identity providers that sign with node's crypto, xml-crypto, samlify and pysaml2. What is
// not the provider's, for this place, in time, and new, ends nothing.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import zlib from 'node:zlib';
import { ca, edge, elsewhere, endpoint, env, home, must, through, until, upstream } from '../support/postern.mjs';
import { ask, Browser, PAGE } from '../support/browser.mjs';
import { deflate, ECDSA, EMAIL, encode, NS, provider, response, RSA, samlify, sign, signer, SUCCESS, time } from '../support/saml.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session';
const PAGES = { failed: 'ERR_POSTERN_952', path: 'ERR_POSTERN_954' };
const BINDING = 'urn:oasis:names:tc:SAML:2.0:bindings:', THEIRS = 'https://idp.example.com/slo';
const idp = skip ? null : provider([signer()], `https://idp-${process.pid}.example.com/metadata`), other = skip ? null : signer();
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qXAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
const up = skip ? null : await upstream((asked, answer) => answer.end('upstream'));
test.after(() => up?.close());
const at = (to, place = '/') => `https://${to.host}:${edge.port}${place}`;
const code = (answer) => /ERR_POSTERN_\d+/.exec(answer.body)?.[0];
const unique = () => `_${crypto.randomUUID()}`;
const route = async (more = {}) => { const to = await endpoint(up.address, { saml: { idp_metadata: idp.metadata, nameid_format: EMAIL, ...more } }); return { ...to, saml: to.route.saml }; };
const form = (fields) => ({ method: 'POST', headers: { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' }, body: new URLSearchParams(fields).toString() });
const stays = async ({ to, value }) => (await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status === 200;
const stayed = (all) => Promise.all(all.map(stays));

// Somebody whom the provider signs in: {to, browser, value, name, index}.
async function brought(to, { name = `${crypto.randomUUID()}@example.test`, index = unique(), by = idp, browser = new Browser(), ...over } = {}) {
  const xml = response(by, { id: unique(), response: unique(), to: '', recipient: to.saml.assertion_consumer_service_url, destination: to.saml.assertion_consumer_service_url, audience: to.saml.entity_id, name, index, attributes: {}, ...over });
  const first = await browser.open(to.saml.assertion_consumer_service_url, form({ SAMLResponse: encode(xml) }));
  assert.equal(first.status, 302, first.body);
  return { to, browser, name, index, next: first.headers.location };
}
async function signedIn(to, over) {
  const who = await brought(to, over), last = await who.browser.go(who.next);
  assert.equal(last.status, 200, last.body);
  return { ...who, value: who.browser.cookies.get(new URL(at(to)).host).get(SESSION) };
}

// What the provider sends. indexes: []: all sessions of the name.
const logoutRequest = (to, name, indexes = [], over = {}) => {
  const now = Date.now(), id = over.id ?? unique();
  return { id, xml: `<samlp:LogoutRequest xmlns:samlp="${NS.protocol}" xmlns:saml="${NS.assertion}" ID="${id}" Version="2.0" IssueInstant="${time(over.issued ?? now)}"${over.until === null ? '' : ` NotOnOrAfter="${time(over.until ?? now + 120000)}"`}${over.destination === null ? '' : ` Destination="${over.destination ?? to.saml.single_logout_url}"`}>`
    + `<saml:Issuer>${over.issuer ?? idp.entity}</saml:Issuer>${over.nameId ?? `<saml:NameID Format="${EMAIL}">${name}</saml:NameID>`}${indexes.map((one) => `<samlp:SessionIndex>${one}</samlp:SessionIndex>`).join('')}</samlp:LogoutRequest>` };
};
const logoutResponse = (to, inResponseTo, { status = SUCCESS, more = '', id = unique(), destination, issuer } = {}) => ({ id,
  xml: `<samlp:LogoutResponse xmlns:samlp="${NS.protocol}" xmlns:saml="${NS.assertion}" ID="${id}" Version="2.0" IssueInstant="${time(Date.now())}" Destination="${destination ?? to.saml.single_logout_url}" InResponseTo="${inResponseTo}"><saml:Issuer>${issuer ?? idp.entity}</saml:Issuer><samlp:Status><samlp:StatusCode Value="${status}">${more}</samlp:StatusCode></samlp:Status></samlp:LogoutResponse>` });
function query(xml, { by = idp.signer, name = 'SAMLRequest', relay, algorithm = by.kind === 'ec' ? ECDSA(256) : RSA(256), hash = 'sha256' } = {}) {
  const octets = `${name}=${encodeURIComponent(deflate(xml))}${relay === undefined ? '' : `&RelayState=${encodeURIComponent(relay)}`}&SigAlg=${encodeURIComponent(algorithm)}`;
  return `${octets}&Signature=${encodeURIComponent(crypto.sign(hash, Buffer.from(octets), { key: by.key, dsaEncoding: 'ieee-p1363' }).toString('base64'))}`;
}
const byRedirect = (to, text, browser = new Browser()) => browser.open(`${to.saml.single_logout_url}?${text}`, { headers: { ...PAGE, 'Sec-Fetch-Site': 'cross-site' } });
const byPost = (to, fields, browser = new Browser()) => browser.open(to.saml.single_logout_url, form(fields));
const post = (to, { xml, id }, { by = idp.signer, relay, ...how } = {}) => byPost(to, { SAMLRequest: encode(sign(xml, id, by, how)), ...(relay === undefined ? {} : { RelayState: relay }) });
const refused = (answer, what) => assert.deepEqual([answer.status, code(answer), answer.headers.location], [400, PAGES.failed, undefined], what);

// A message of ours in a redirect, verified by the certificate that the metadata show.
function opened(location, saml, name) {
  const text = location.slice(location.indexOf('?') + 1), [octets, signature] = text.split('&Signature='), params = new URLSearchParams(text);
  assert.ok(crypto.verify('sha256', Buffer.from(octets.slice(octets.indexOf(`${name}=`))), saml.request_signing_certificate_pem, Buffer.from(decodeURIComponent(signature), 'base64')), 'its signature holds');
  assert.match(octets, new RegExp(`${name}=[^&]+(&RelayState=[^&]*)?&SigAlg=http%3A%2F%2Fwww.w3.org%2F2001%2F04%2Fxmldsig-more%23rsa-sha256$`));
  const xml = zlib.inflateRawSync(Buffer.from(params.get(name), 'base64')).toString();
  return { xml, relay: params.get('RelayState'), id: / ID="([^"]+)"/.exec(xml)[1], place: location.slice(0, location.indexOf('?')) };
}

// ---- the provider begins ----

test('a LogoutRequest by either binding ends the name\'s sessions at this route, at every edge, before the provider is answered', { skip }, async () => {
  const to = await route(), twin = await route();
  for (const binding of ['redirect', 'post']) {
    const name = `ada-${unique()}@example.test`;
    const one = await signedIn(to, { name }), two = await signedIn(to, { name }), bob = await signedIn(to), there = await signedIn(twin, { name });
    const request = logoutRequest(to, name), relay = 'their state /?&=ü';
    const answer = binding === 'redirect' ? await byRedirect(to, query(request.xml, { relay })) : await post(to, request, { relay });
    assert.deepEqual([answer.status, answer.headers['cache-control'], answer.headers['referrer-policy']], [302, 'no-store', 'no-referrer'], answer.body);
    assert.deepEqual(await stayed([one, two, bob, there]), [false, false, true, true], 'those of the name, at the route that the message came to, and no others');
    const back = opened(answer.headers.location, to.saml, 'SAMLResponse');
    assert.deepEqual([back.place, back.relay], [THEIRS, relay]);
    assert.ok(back.xml.includes(`InResponseTo="${request.id}"`) && back.xml.includes(`Destination="${THEIRS}"`) && back.xml.includes(`Value="${SUCCESS}"`) && back.xml.includes(`>${to.saml.entity_id}</saml:Issuer>`), back.xml);
  }
  const none = logoutRequest(to, 'nobody@example.test');
  assert.equal((await byRedirect(to, query(none.xml))).status, 302, 'who is not here is signed out');
});

test('a LogoutRequest that a browser brings again, whose page is loaded anew, is answered again and ends nothing that came since', { skip }, async () => {
  const to = await route(), name = `again-${unique()}@example.test`, relay = 'a state';
  for (const binding of ['redirect', 'post']) {
    const who = await signedIn(to, { name }), request = logoutRequest(to, name), text = query(request.xml, { relay }), fields = { SAMLRequest: encode(sign(request.xml, request.id, idp.signer)), RelayState: relay };
    const bring = () => (binding === 'redirect' ? byRedirect(to, text) : byPost(to, fields));
    assert.equal((await bring()).status, 302);
    assert.equal(await stays(who), false);
    const since = await signedIn(to, { name }), again = await bring();
    assert.equal(again.status, 302, again.body);
    const back = opened(again.headers.location, to.saml, 'SAMLResponse');
    assert.deepEqual([back.place, back.relay, back.xml.includes(`InResponseTo="${request.id}"`), back.xml.includes(`Value="${SUCCESS}"`)], [THEIRS, relay, true, true]);
    assert.equal(await stays(since), true);
    // Whatever else has its ID is another message.
    refused(await (binding === 'redirect' ? byRedirect(to, query(request.xml, { relay: 'another state' })) : byPost(to, { ...fields, RelayState: 'another state' })), binding);
    refused(await (binding === 'redirect' ? post(to, request, { relay }) : byRedirect(to, query(request.xml, { relay }))), `${binding}, then the other one`);
    sql('UPDATE sign_in_logout SET text_hash = NULL'); // as a version before left it
    refused(await bring(), 'of which it is not known whether it is the same');
    assert.equal(await stays(since), true);
  }
});

test('with SessionIndex those sessions end, and those whose index the provider never said', { skip }, async () => {
  const to = await route(), name = `idx-${unique()}@example.test`;
  const one = await signedIn(to, { name }), two = await signedIn(to, { name }), three = await signedIn(to, { name });
  const silent = await signedIn(to, { name, index: '' });
  assert.equal((await byRedirect(to, query(logoutRequest(to, name, [one.index, three.index]).xml))).status, 302);
  assert.deepEqual(await stayed([one, two, three, silent]), [false, true, false, false]);
  const bob = await signedIn(to, { index: two.index });
  assert.equal((await byRedirect(to, query(logoutRequest(to, bob.name, ['_unknown', two.index]).xml))).status, 302);
  assert.deepEqual(await stayed([two, bob]), [true, false], 'an index is of its name alone');
  assert.equal((await byRedirect(to, query(logoutRequest(to, name, ['_unknown']).xml))).status, 302);
  assert.deepEqual(await stayed([two]), [true]);
});

test('people whom a provider tells apart by the format or the qualifiers of one name are several, and are signed out so', { skip }, async () => {
  const to = await route({ nameid_format: 'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified' }), name = `same-${unique()}@example.test`;
  const PERSISTENT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent', written = (attributes) => `<saml:NameID${attributes}>${name}</saml:NameID>`;
  const forms = { plain: ` Format="${PERSISTENT}"`, same: ` Format="${PERSISTENT}" NameQualifier="${idp.entity}" SPNameQualifier="${to.saml.entity_id}"`, theirs: ` Format="${PERSISTENT}" NameQualifier="https://behind.example.com/idp"`, affiliates: ` Format="${PERSISTENT}" SPNameQualifier="https://affiliation.example.com"`, mail: ` Format="${EMAIL}"` };
  const users = async () => (await must('GET', `/app/users?filter=${encodeURIComponent(`obj.provider_user_id == "${name}"`)}`)).application_users.map(({ id }) => id);
  const enter = (form) => signedIn(to, { name, nameId: written(forms[form]) });
  const first = await enter('plain'), [before] = await users();
  sql(`UPDATE application_user SET name_form = '' WHERE id = '${before}'`); // as a version before left it
  const same = await enter('same');
  assert.deepEqual(await users(), [before], 'what is left out is what was meant, and who was a user is that one');
  const people = [first, same, await enter('theirs'), await enter('affiliates'), await enter('mail')];
  assert.equal((await users()).length, 4);
  await enter('theirs');
  assert.equal((await users()).length, 4);
  const out = async (attributes) => { assert.equal((await byRedirect(to, query(logoutRequest(to, name, [], { nameId: written(attributes) }).xml))).status, 302); return stayed(people); };
  assert.deepEqual(await out(' NameQualifier="https://nobody.example.com"'), [true, true, true, true, true]);
  assert.deepEqual(await out(forms.theirs), [true, true, false, true, true]);
  assert.deepEqual(await out(forms.same), [false, false, false, true, true]);
  assert.deepEqual(await out(` Format="${EMAIL}"`), [false, false, false, true, false]);
  assert.deepEqual(await out(''), [false, false, false, false, false], 'what a request leaves out is any');
});

// Two people who have one name in two forms, each with a sign-in that is not a session yet.
async function twins() {
  const to = await route({ nameid_format: 'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified' }), name = `twin-${unique()}@example.test`;
  const nameId = { mail: `<saml:NameID Format="${EMAIL}">${name}</saml:NameID>`, persistent: `<saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent">${name}</saml:NameID>` };
  const all = (step) => Promise.all(['mail', 'persistent'].map((form) => step(to, { name, nameId: nameId[form] })));
  await all(signedIn);
  const users = async () => (await must('GET', `/app/users?filter=${encodeURIComponent(`obj.provider_user_id == "${name}"`)}`)).application_users;
  const redeemed = async (pending) => { const answers = []; for (const one of pending) answers.push((await one.browser.go(one.next)).status); return answers; };
  return { to, name, nameId, users, pending: () => all(brought), redeemed };
}

test('a sign-in that is under way ends with a LogoutRequest for its form of the name, and with no other', { skip }, async () => {
  const { to, name, nameId, pending, redeemed } = await twins();
  const out = async (over) => assert.equal((await byRedirect(to, query(logoutRequest(to, name, [], over).xml))).status, 302);
  let both = await pending();
  await out({ nameId: nameId.mail });
  assert.deepEqual(await redeemed(both), [400, 200]);
  both = await pending();
  await out({ nameId: nameId.persistent });
  assert.deepEqual(await redeemed(both), [200, 400]);
  both = await pending();
  await out({ nameId: `<saml:NameID>${name}</saml:NameID>` });
  assert.deepEqual(await redeemed(both), [400, 400], 'what a request leaves out is any');
  both = await pending();
  await out({ nameId: nameId.mail });
  sql('UPDATE sign_in_logout SET name_form = NULL'); // as a version before left it
  assert.deepEqual(await redeemed(both), [400, 400]);
});

test('a sign-in that is under way ends with the deletion of whoever has its form of the name, and with no other', { skip }, async () => {
  const { users, pending, redeemed } = await twins();
  const [mail] = (await users()).filter(({ email }) => email), [persistent] = (await users()).filter(({ email }) => !email);
  let both = await pending();
  await must('DELETE', `/app/users/${mail.id}`);
  assert.deepEqual(await redeemed(both), [400, 200]);
  both = await pending();
  sql(`UPDATE application_user SET name_form = '' WHERE id = '${persistent.id}'`); // as a version before left it
  await must('DELETE', `/app/users/${persistent.id}`);
  assert.deepEqual(await redeemed(both), [400, 400], 'of whom it is not known by which form he is, he is by any');
});

test('while the module is off the provider still signs its people out, and nobody signs in', { skip }, async () => {
  const to = await route(), one = await signedIn(to), two = await signedIn(to), stranger = await signedIn(to);
  const put = (enabled) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/saml`, { idp_metadata: idp.metadata, nameid_format: EMAIL, enabled });
  await put(false);
  const places = { 'its metadata': [to.saml.entity_id, {}], 'a response': [to.saml.assertion_consumer_service_url, form({ SAMLResponse: 'x' })], 'a login': [`${new URL(to.saml.entity_id).origin}/login?t=${to.route.id}.x`, {}] };
  for (const [what, [url, options]] of Object.entries(places)) assert.ok([400, 404].includes((await ask(url, { headers: PAGE, ...options })).status), what);
  refused(await byRedirect(to, query(logoutRequest(to, stranger.name).xml, { by: other })), 'of a stranger');
  const answer = await byRedirect(to, query(logoutRequest(to, one.name).xml));
  assert.equal(answer.status, 302, answer.body);
  assert.ok(opened(answer.headers.location, to.saml, 'SAMLResponse').xml.includes(`Value="${SUCCESS}"`));
  assert.equal((await post(to, logoutRequest(to, two.name))).status, 302);
  await put(true);
  assert.deepEqual(await stayed([one, two, stranger]), [false, false, true], 'who was signed out meanwhile stays so');
});

test('the API shows no session any more that the provider has ended', { skip }, async () => {
  const to = await route(), who = await signedIn(to);
  const { application_users: [user] } = await must('GET', `/app/users?filter=${encodeURIComponent(`obj.provider_user_id == "${who.name}"`)}`);
  const sessions = () => must('GET', `/app/sessions?filter=${encodeURIComponent(`obj.application_user.id == "${user.id}"`)}`).then((list) => list.application_sessions.length);
  assert.equal(await sessions(), 1);
  assert.equal((await post(to, logoutRequest(to, who.name))).status, 302);
  assert.equal(await sessions(), 0);
});

test('every other LogoutRequest is refused, and ends nothing', { skip }, async () => {
  const to = await route(), strange = await route(), who = await signedIn(to), { name } = who;
  const good = () => logoutRequest(to, name), make = (over) => logoutRequest(to, name, [], over);
  const used = good();
  assert.equal((await byRedirect(to, query(logoutRequest(to, 'nobody@example.test', [], { id: used.id }).xml))).status, 302);
  const forBoth = [
    ['an ID that was used before', used], ['another Issuer', make({ issuer: 'https://idp.example.org/metadata' })], ['the Destination of another route', make({ destination: strange.saml.single_logout_url })],
    ['the ACS as Destination', make({ destination: to.saml.assertion_consumer_service_url })], ['no Destination', make({ destination: null })], ['expired', (now) => make({ until: now - 61000, issued: now - 120000 })],
    ['old, and it does not say until when it is valid', (now) => make({ until: null, issued: now - 600000 })], ['from the future', (now) => make({ issued: now + 120000 })], ['for ever', (now) => make({ until: now + 2 * 86400000 })],
    ['a LogoutResponse under the name of a request', logoutResponse(to, '_x')], ['a SessionIndex with white space around it', logoutRequest(to, name, [`\n  ${who.index}\n`])],
  ];
  for (const [what, made] of forBoth) {
    const one = () => (typeof made === 'function' ? made(Date.now()) : made); // times count from when it is sent
    refused(await byRedirect(to, query(one().xml)), `${what}, by redirect`);
    refused(await post(to, one()), `${what}, by POST`);
  }
  const redirects = {
    'another key': query(good().xml, { by: other }), 'SHA-1': query(good().xml, { algorithm: `${NS.dsig}rsa-sha1`, hash: 'sha1' }),
    'unsigned': query(good().xml).replace(/&SigAlg=.*/, ''), 'no Signature': query(good().xml).replace(/&Signature=.*/, ''), 'empty Signature': query(good().xml).replace(/&Signature=.*/, '&Signature='),
    'another RelayState than the signed one': query(good().xml, { relay: 'a' }).replace('RelayState=a', 'RelayState=b'), 'RelayState added': `RelayState=x&${query(good().xml)}`, 'RelayState taken away': query(good().xml, { relay: 'a' }).replace('&RelayState=a', ''),
    'twice': (() => { const one = query(good().xml); return `${one}&${one.slice(0, one.indexOf('&'))}`; })(), 'a second message without a signature before the signed one': `SAMLRequest=${encodeURIComponent(deflate(good().xml))}&${query(logoutRequest(to, 'nobody@example.test').xml)}`,
    'request and response': `${query(good().xml)}&SAMLResponse=x`, 'another encoding': `${query(good().xml)}&SAMLEncoding=x`, 'a message that is signed itself': (() => { const one = good(); return query(sign(one.xml, one.id, idp.signer)); })(),
    'the name of a parameter encoded': query(good().xml).replace('SAMLRequest', 'SAML%52equest'), 'a long RelayState': query(good().xml, { relay: 'x'.repeat(513) }), 'control characters in RelayState': query(good().xml, { relay: 'a\nb' }), 'RelayState of no UTF-8': query(good().xml, { relay: 'a' }).replace('=a&', '=%ff&'),
    'a NUL': query(good().xml).replace('&SigAlg', '%00&SigAlg'), 'half an escape': `${query(good().xml)}%2`, 'not deflated': `SAMLRequest=${encodeURIComponent(encode(good().xml))}`, 'nothing': '', 'other things': 'a=b',
    'EncryptedID': query(good().xml.replace(/<saml:NameID.*<\/saml:NameID>/, '<saml:EncryptedID/>')), 'no name': query(good().xml.replace(/<saml:NameID.*<\/saml:NameID>/, '')),
  };
  for (const [what, text] of Object.entries(redirects)) refused(await byRedirect(to, text), `${what}, by redirect`);
  const one = good(), signed = sign(one.xml, one.id, idp.signer);
  const forms = {
    'unsigned': { SAMLRequest: encode(one.xml) }, 'another key': { SAMLRequest: encode(sign(one.xml, one.id, other)) }, 'SHA-1': { SAMLRequest: encode(sign(one.xml, one.id, idp.signer, { algorithm: `${NS.dsig}rsa-sha1`, digest: `${NS.dsig}sha1` })) },
    'changed after it was signed': { SAMLRequest: encode(signed.replace(name, 'nobody@example.test')) }, 'request and response': { SAMLRequest: encode(signed), SAMLResponse: 'x' }, 'nothing': { RelayState: 'x' },
    'signed by query-string parameters': Object.fromEntries(new URLSearchParams(query(one.xml))), 'a long RelayState': { SAMLRequest: encode(signed), RelayState: 'x'.repeat(513) }, 'no base64': { SAMLRequest: '%' },
  };
  for (const [what, fields] of Object.entries(forms)) refused(await byPost(to, fields), `${what}, by POST`);
  refused(await new Browser().open(to.saml.single_logout_url, { ...form({}), body: `${new URLSearchParams({ SAMLRequest: encode(signed) })}&SAMLRequest=x` }), 'twice, by POST');
  refused(await post(strange, one), 'at another route, by POST');
  refused(await byRedirect(strange, query(one.xml)), 'at another route, by redirect');
  refused(await byPost(to, { SAMLRequest: encode(zlib.deflateRawSync(signed).toString('base64')) }), 'deflated, by POST');
  const asResponse = await who.browser.open(to.saml.assertion_consumer_service_url, form({ SAMLResponse: encode(signed) }));
  refused(asResponse, 'at the place of responses');
  assert.equal(await stays(who), true, 'none of them ended the session');
  assert.equal((await byPost(to, { SAMLRequest: encode(signed), RelayState: 'x'.repeat(512) })).status, 302, 'and the right one does');
  assert.equal(await stays(who), false);
  refused(await byPost(to, { SAMLRequest: encode(signed) }), 'a replay');
  const back = await signedIn(to, { name });
  refused(await byPost(to, { SAMLRequest: encode(signed) }), 'a replay, after another sign-in');
  assert.equal(await stays(back), true);
});

test('the RelayState of a logout leads nowhere', { skip }, async () => {
  const to = await route();
  for (const relay of ['https://evil.test/', '//evil.test', 'javascript:alert(1)', at(to)]) {
    const answer = await byRedirect(to, query(logoutRequest(to, 'nobody@example.test').xml, { relay }));
    assert.ok(answer.headers.location.startsWith(`${THEIRS}?SAMLResponse=`), answer.headers.location);
    refused(await byRedirect(to, query(logoutResponse(to, '_x').xml, { name: 'SAMLResponse', relay })), relay);
  }
});

test('a sign-in that was under way when the provider signed its person out leads to nothing; one that began later is good', { skip }, async () => {
  const to = await route(), name = `way-${unique()}@example.test`, index = unique();
  for (const indexes of [[], [index]]) {
    const early = await brought(to, { name, index });
    assert.equal((await post(to, logoutRequest(to, name, indexes))).status, 302);
    assert.equal((await early.browser.open(early.next)).status, 400, 'its code');
    const late = await brought(to, { name, index, issued: time(Date.now() - 30000) });
    assert.equal((await late.browser.open(late.next)).status, 400, 'what the provider said before, brought after it');
    assert.equal(await stays(await signedIn(to, { name, index: unique() })), true, 'a new sign-in');
  }
});

test('while another provider of the account takes connections and says nothing, people sign in and are signed out', { skip }, async () => {
  const held = new Set(), port = edge.port - 43 + 97;
  let most = 0;
  const silent = net.createServer((socket) => { most = Math.max(most, held.add(socket).size); socket.on('error', () => {}).on('close', () => held.delete(socket)); });
  await new Promise((resolve) => silent.listen(port, '127.0.0.1', resolve));
  const dead = await endpoint(up.address, { oidc: { issuer: `https://127.0.0.1:${port}`, client_id: 'x', client_secret: 'y' } }), to = await route();
  let ended = false, begun = 0;
  // Addresses of their own: one client alone may have few of these questions under way.
  const begin = (from) => new Promise((resolve) => {
    const get = (url, then) => { const { hostname, host, pathname, search } = new URL(url); const asked = https.get({ host: edge.host, port: edge.port, servername: hostname, ca, localAddress: from, agent: false, path: pathname + search, headers: { ...PAGE, Host: host } }, (answer) => { answer.resume().on('end', () => then(answer)).on('error', resolve); }); asked.on('error', resolve); };
    get(at(dead), ({ headers: { location } }) => { begun++; location ? get(location, resolve) : resolve(); });
  });
  const people = Array.from({ length: 24 }, async (_, i) => { while (!ended) await begin(`127.9.1.${i + 1}`); });
  try {
    await until(() => begun >= 24 && held.size > 0, 'all are waiting', 120000);
    for (let i = 0; i < 4; i++) {
      const who = await signedIn(to);
      assert.equal((await post(to, logoutRequest(to, who.name))).status, 302);
      assert.equal(await stays(who), false);
    }
    assert.ok(most <= 3, `what all want to know of the provider is one request: ${most}`); // one that is over may still be closing
  } finally {
    ended = true;
    silent.close();
    for (const socket of held) socket.destroy();
    await Promise.all(people);
  }
});

test('a provider that writes LogoutRequests in whole seconds means all of the second', { skip }, async () => {
  const to = await route(), second = Math.floor(Date.now() / 1000) * 1000;
  const early = await brought(to, { issued: time(second + 300) }), message = logoutRequest(to, early.name, [], { issued: second });
  assert.equal((await post(to, { ...message, xml: message.xml.replace(time(second), `${time(second).slice(0, 19)}Z`) })).status, 302);
  assert.equal((await early.browser.open(early.next)).status, 400);
});

test('a provider without a place for the answer is not answered, and the sessions are over', { skip }, async () => {
  const to = await route({ idp_metadata: idp.metadata.replace(/<md:SingleLogoutService[^>]*>/, '') }), who = await signedIn(to);
  const answer = await who.browser.go(`${to.saml.single_logout_url}?${query(logoutRequest(to, who.name).xml)}`);
  assert.deepEqual([answer.status, answer.url.split('?')[0], await stays(who)], [200, `${new URL(to.saml.entity_id).origin}/signed-out`, false]);
  assert.ok(answer.body.includes('You are signed out'));
});

test('a provider\'s place with a query, and one of its own for answers, are used as they are', { skip }, async () => {
  const slo = `<md:SingleLogoutService Binding="${BINDING}HTTP-Redirect" Location="https://idp.example.com/slo?tenant=a&amp;b=c" ResponseLocation="https://idp.example.com/answers?d=e"/>`;
  const to = await route({ idp_metadata: idp.metadata.replace(/<md:SingleLogoutService[^>]*>/, slo) }), who = await signedIn(to);
  assert.ok((await byRedirect(to, query(logoutRequest(to, 'nobody@example.test').xml))).headers.location.startsWith('https://idp.example.com/answers?d=e&SAMLResponse='));
  assert.ok((await who.browser.open(at(to, '/auth/logout'))).headers.location.startsWith('https://idp.example.com/slo?tenant=a&b=c&SAMLRequest='));
});

// ---- the person begins ----

test('who signs out is signed out here first, then at the provider, and comes back to a page that says so', { skip }, async () => {
  const to = await route(), who = await signedIn(to, { name: 'a&b<c>"d@example.test'.replace('<', '&lt;').replace('a&b', 'a&amp;b') }), { browser } = who;
  const out = await browser.open(at(to, '/auth/logout'), { headers: { ...PAGE, 'Sec-Fetch-Site': 'same-origin' } });
  assert.deepEqual([out.status, out.headers['cache-control'], out.headers['referrer-policy']], [302, 'no-store', 'no-referrer'], out.body);
  assert.equal(await stays(who), false, 'the session is over, whatever happens at the provider');
  assert.equal(browser.cookies.get(new URL(at(to)).host).get(SESSION), undefined);
  const asked = opened(out.headers.location, to.saml, 'SAMLRequest');
  assert.equal(asked.place, THEIRS);
  assert.ok(asked.xml.includes(`<saml:NameID xmlns:saml="${NS.assertion}" Format="${EMAIL}">a&amp;b&lt;c&gt;"d@example.test</saml:NameID>`) && asked.xml.includes(`<samlp:SessionIndex>${who.index}</samlp:SessionIndex>`), asked.xml);
  assert.match(asked.xml, / ID="_[A-Za-z0-9_-]{43}" IssueInstant="[^"]+Z" NotOnOrAfter="[^"]+Z" /);
  assert.ok(asked.relay.startsWith(`${to.route.id}.`) && asked.relay.length <= 80, asked.relay);
  for (const [host, cookies] of browser.cookies) for (const value of cookies.values()) assert.ok(!value.includes(who.name), host);
  for (const binding of ['redirect', 'post']) {
    const { xml, id } = logoutResponse(to, asked.id);
    const first = binding === 'redirect' ? await byRedirect(to, query(xml, { name: 'SAMLResponse', relay: asked.relay }), browser) : await byPost(to, { SAMLResponse: encode(sign(xml, id, idp.signer)), RelayState: asked.relay }, browser);
    assert.equal(first.headers.location, `${new URL(to.saml.entity_id).origin}/signed-out?state=${to.route.id}.`);
    const page = await browser.go(first.headers.location);
    assert.ok(page.status === 200 && page.body.includes('You are signed out') && page.body.includes(`href="${at(to, '/auth/authn')}"`) && !page.body.includes('everywhere'), page.body);
  }
  const partly = logoutResponse(to, asked.id, { status: 'urn:oasis:names:tc:SAML:2.0:status:Responder', more: '<samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:PartialLogout"/>' });
  const page = await browser.go(`${to.saml.single_logout_url}?${query(partly.xml, { name: 'SAMLResponse', relay: asked.relay })}`);
  assert.ok(page.body.includes('not signed you out everywhere'), page.body);
});

test('every other LogoutResponse is refused', { skip }, async () => {
  const to = await route(), strange = await route(), who = await signedIn(to), { browser } = who;
  const asked = opened((await browser.open(at(to, '/auth/logout'))).headers.location, to.saml, 'SAMLRequest'), stay = await signedIn(to, { name: who.name });
  const text = (over = {}, how = {}) => query(logoutResponse(to, over.to ?? asked.id, over).xml, { name: 'SAMLResponse', relay: asked.relay, ...how });
  for (const [what, one] of Object.entries({
    'another request': text({ to: unique() }), 'another state': text({}, { relay: `${to.route.id}.${'x'.repeat(22)}` }), 'no state': text({}, { relay: undefined }), 'another key': text({}, { by: other }), 'unsigned': text().replace(/&SigAlg=.*/, ''),
    'another Issuer': text({ issuer: 'https://x.test' }), 'another Destination': text({ destination: strange.saml.single_logout_url }), 'a LogoutRequest under the name of a response': query(logoutRequest(to, who.name).xml, { name: 'SAMLResponse', relay: asked.relay }),
  })) refused(await byRedirect(to, one), what);
  refused(await byRedirect(strange, text()), 'at another route');
  refused(await byPost(to, { SAMLResponse: encode(logoutResponse(to, asked.id).xml), RelayState: asked.relay }), 'unsigned, by POST');
  assert.equal((await byRedirect(to, text())).status, 302, 'the right one is taken');
  assert.equal(await stays(stay), true, 'and ends nothing');
});

test('a page of another site, and what is no page, sign nobody out at the provider; nor is there another one to be told', { skip }, async () => {
  const to = await route();
  for (const [method, headers] of [['GET', { ...PAGE, 'Sec-Fetch-Site': 'cross-site' }], ['POST', { Accept: '*/*' }]]) {
    const who = await signedIn(to), answer = await who.browser.open(at(to, '/auth/logout'), { method, headers });
    assert.deepEqual([answer.status, answer.headers.location, await stays(who)], [200, undefined, false], JSON.stringify(headers));
  }
  const who = await signedIn(to);
  await must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/saml`, { idp_metadata: provider([idp.signer], 'https://idp.example.net/other').metadata, nameid_format: EMAIL });
  const answer = await who.browser.open(at(to, '/auth/logout'));
  assert.deepEqual([answer.status, answer.headers.location, await stays(who)], [200, undefined, false], 'its metadata are another provider\'s now');
});

test('metadata name the place of logout for both bindings', { skip }, async () => {
  const to = await route(), { body } = await ask(to.saml.metadata_url);
  const ours = samlify.ServiceProvider({ metadata: body });
  assert.deepEqual([ours.entityMeta.getSingleLogoutService('redirect'), ours.entityMeta.getSingleLogoutService('post')], [to.saml.single_logout_url, to.saml.single_logout_url]);
  assert.ok(body.indexOf('</md:KeyDescriptor>') < body.indexOf('<md:SingleLogoutService') && body.lastIndexOf('<md:SingleLogoutService') < body.indexOf('<md:NameIDFormat>'), 'in the order of the schema');
});

test('what is no message of logout, and no route with SAML, is not there', { skip }, async () => {
  const to = await route(), open = await endpoint(up.address), origin = new URL(to.saml.entity_id).origin;
  for (const [what, url, options] of [['PUT', to.saml.single_logout_url, { method: 'PUT', body: 'x' }], ['no route', `${origin}/saml/edghtsrt_2000000000000000000000000000/slo`], ['a route without sign-in', `${origin}/saml/${open.route.id}/slo`], ['something behind it', `${to.saml.single_logout_url}/x`]]) {
    const answer = await ask(url, { headers: PAGE, ...options });
    assert.deepEqual([answer.status, code(answer)], [404, PAGES.path], what);
  }
});

// ---- providers that others wrote ----

test('samlify\'s identity provider: both ways, by both bindings', { skip }, async () => {
  samlify.setSchemaValidator({ validate: async () => 'not looked at' });
  const entity = `https://samlify-${process.pid}.example.com`, places = (name) => ['Redirect', 'POST'].map((binding) => ({ Binding: `${BINDING}HTTP-${binding}`, Location: `${entity}/${name}` }));
  const theirs = samlify.IdentityProvider({ entityID: entity, privateKey: idp.signer.key, signingCert: idp.signer.pem, isAssertionEncrypted: false, nameIDFormat: [EMAIL], requestSignatureAlgorithm: RSA(256), wantLogoutRequestSigned: true, wantLogoutResponseSigned: true, singleSignOnService: places('sso'), singleLogoutService: places('slo') });
  const to = await route({ idp_metadata: theirs.getMetadata() });
  const ours = samlify.ServiceProvider({ metadata: (await ask(to.saml.metadata_url)).body, wantLogoutRequestSigned: true, wantLogoutResponseSigned: true });
  const by = { entity, signer: idp.signer }, parse = async (how, location, name) => theirs[how](ours, 'redirect', { query: Object.fromEntries(new URL(location).searchParams), octetString: location.slice(location.indexOf(`${name}=`), location.indexOf('&Signature=')) });
  for (const binding of ['redirect', 'post']) {
    const who = await signedIn(to, { by }), user = { logoutNameID: who.name, sessionIndex: who.index };
    const made = theirs.createLogoutRequest(ours, binding, user, { relayState: 'theirs' });
    const answer = binding === 'redirect' ? await new Browser().open(made.context) : await byPost(to, { SAMLRequest: made.context, RelayState: 'theirs' });
    assert.deepEqual([answer.status, await stays(who)], [302, false], answer.body);
    const said = await parse('parseLogoutResponse', answer.headers.location, 'SAMLResponse');
    assert.equal(said.extract.response.inResponseTo, made.id);
  }
  for (const binding of ['redirect', 'post']) {
    const who = await signedIn(to, { by }), out = await who.browser.open(at(to, '/auth/logout')), request = await parse('parseLogoutRequest', out.headers.location, 'SAMLRequest');
    assert.deepEqual([request.extract.nameID, request.extract.sessionIndex, request.extract.issuer], [who.name, who.index, to.saml.entity_id]);
    const relayState = new URL(out.headers.location).searchParams.get('RelayState'), made = theirs.createLogoutResponse(ours, request, binding, { relayState });
    const last = binding === 'redirect' ? await who.browser.go(made.context) : await who.browser.go(to.saml.single_logout_url, form({ SAMLResponse: made.context, RelayState: relayState }));
    assert.ok(last.status === 200 && last.body.includes('You are signed out'), last.body);
  }
});

const PYTHON = '/usr/bin/python3'; // Debian's, which has Debian's packages
const pysaml2 = (() => { try { execFileSync(PYTHON, ['-c', 'import saml2'], { stdio: 'ignore' }); execFileSync('xmlsec1', ['--version'], { stdio: 'ignore' }); return false; } catch { return 'python3-pysaml2 is not installed'; } })();
const folder = skip || pysaml2 ? null : fs.mkdtempSync(path.join(os.tmpdir(), 'postern-pysaml2-'));
if (folder) { fs.writeFileSync(`${folder}/key`, idp.signer.key); fs.writeFileSync(`${folder}/pem`, idp.signer.pem); test.after(() => fs.rmSync(folder, { recursive: true })); }
const python = (asked) => JSON.parse(execFileSync(PYTHON, [new URL('../support/saml_slo.py', import.meta.url).pathname], { encoding: 'utf8', input: JSON.stringify({ folder, ...asked }), stdio: ['pipe', 'pipe', 'inherit'] }));

test('pysaml2\'s identity provider: both ways, by both bindings', { skip: skip || pysaml2 }, async () => {
  const { metadata, entity } = python({}), to = await route({ idp_metadata: metadata }), sp = (await ask(to.saml.metadata_url)).body.replace(/^<\?xml[^>]*>\s*/, ''), by = { entity, signer: idp.signer };
  for (const binding of ['redirect', 'post']) {
    const who = await signedIn(to, { by }), { send } = python({ sp, send: { binding, name: who.name, index: who.index, destination: to.saml.single_logout_url, relay: 'theirs' } });
    const answer = binding === 'redirect' ? await new Browser().open(send.url) : await byPost(to, { SAMLRequest: encode(send.message), RelayState: 'theirs' });
    assert.deepEqual([answer.status, await stays(who)], [302, false], answer.body);
    assert.equal(opened(answer.headers.location, to.saml, 'SAMLResponse').relay, 'theirs');
    const { answer: said } = python({ sp, answer: new URL(answer.headers.location).searchParams.get('SAMLResponse') });
    assert.ok(said.includes(SUCCESS), said);
  }
  for (const binding of ['redirect', 'post']) {
    const who = await signedIn(to, { by }), out = await who.browser.open(at(to, '/auth/logout')), url = new URL(out.headers.location), relay = url.searchParams.get('RelayState');
    const asked = opened(out.headers.location, to.saml, 'SAMLRequest');
    const { request, response: back } = python({ sp, request: { binding: 'redirect', message: url.searchParams.get('SAMLRequest'), query: Object.fromEntries(url.searchParams), back: to.saml.single_logout_url, relay } });
    assert.deepEqual([request.id, request.name, request.indexes, request.issuer], [asked.id, who.name, [who.index], to.saml.entity_id]);
    const answered = logoutResponse(to, asked.id, { issuer: entity });
    const last = binding === 'redirect' ? await who.browser.go(back.url) : await who.browser.go(to.saml.single_logout_url, form({ SAMLResponse: encode(sign(answered.xml, answered.id, idp.signer)), RelayState: relay }));
    assert.ok(last.status === 200 && last.body.includes('You are signed out'), last.body);
  }
});

test('no message, name or state of a logout is in a log', { skip }, async () => {
  const to = await route(), canary = `canary-${crypto.randomUUID()}`, who = await signedIn(to, { name: `${canary}@example.test`, index: `_${canary}-index` });
  const text = query(logoutRequest(to, who.name, [who.index]).xml, { relay: `${canary}-relay` });
  const answer = await byRedirect(to, text), again = await signedIn(to, { name: who.name }), out = await again.browser.open(at(to, '/auth/logout'));
  const secrets = [canary, ...[text, answer.headers.location, out.headers.location].flatMap((one) => [...new URLSearchParams(one.slice(one.indexOf('?') + 1))].filter(([name]) => /^SAMLRe|Signature/.test(name)).map(([, value]) => encodeURIComponent(value)))];
  const logs = fs.readdirSync(path.join(home, 'log')).map((name) => fs.readFileSync(path.join(home, 'log', name), 'utf8'));
  for (const secret of secrets) assert.ok(!logs.some((log) => log.includes(secret)), secret);
});
