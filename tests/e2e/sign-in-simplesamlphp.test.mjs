// Debian's simplesamlphp as an identity provider: it reads our metadata as they are, verifies what we sign, and signs people in and out.
import assert from 'node:assert/strict';
import test from 'node:test';
import { edge, elsewhere, endpoint, must, through, upstream } from '../support/postern.mjs';
import { ask, Browser, PAGE } from '../support/browser.mjs';
import { EMAIL, provider, signer } from '../support/saml.mjs';
import { BASE, ENTITY, formOf, HOST, IDP, missing, simplesamlphp } from '../support/simplesamlphp.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS || missing;
const SESSION = '__Host-postern.session', FAILED = 'ERR_POSTERN_952', DENIED = 'ERR_POSTERN_951';
const up = skip ? null : await upstream((asked, answer) => answer.end(JSON.stringify(asked.headers)));
const own = skip ? null : signer(), ssp = skip ? null : await simplesamlphp({ signer: own, users: { 'ada:secret': { mail: ['ada@example.test'], uid: ['ada'], groups: ['staff', 'admins'] }, 'bob:secret': { mail: ['bob@example.test'] } } });
test.after(async () => { await up?.close(); await ssp?.stop(); });
const at = (to, place = '/') => `https://${to.host}:${edge.port}${place}`;
const form = (fields) => ({ method: 'POST', headers: { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' }, body: new URLSearchParams(fields).toString() });
const isThere = (location) => new URL(location, at({ host: 'x' })).host === HOST;
const code = (answer) => /ERR_POSTERN_\d+/.exec(answer.body)?.[0];
const without = (xml, kind, binding) => xml.replace(new RegExp(`\\s*<md:${kind} Binding="[^"]*:${binding}"[^>]*/>`), '');

// A route, and simplesamlphp that knows it. theirs: what becomes of its metadata before the route has them; ours: of ours.
async function guarded({ hosted = {}, theirs = (it) => it, ours = (it) => it, ...more } = {}) {
  ssp.configure({ hosted });
  const to = await endpoint(up.address, { saml: { idp_metadata: theirs(await ssp.metadata()), nameid_format: EMAIL, ...more } });
  const known = async () => ssp.configure({ hosted, sps: [ours((await ask(to.route.saml.metadata_url)).body)] });
  await known();
  return { ...to, saml: to.route.saml, known };
}
// From the page of a route to the provider, and what that answers whoever signs in there: the form for the ACS, or an error.
async function toProvider(to, { browser = new Browser(), there = ssp.there(), user = 'ada', change = (it) => it } = {}) {
  const first = await browser.go(at(to, '/page'), { stop: isThere }), sent = formOf(first.body);
  const page = first.status === 302 ? await there.signIn(change(first.headers.location), undefined, user) : await there.signIn(sent.action, sent.fields, user);
  return { browser, there, page, form: formOf(page.body), how: first.status === 302 ? 'redirect' : 'POST' };
}
async function back(to, { browser, form: sent }) {
  assert.equal(sent?.action, to.saml.assertion_consumer_service_url);
  const answer = await browser.open(sent.action, form(sent.fields));
  return answer.status === 302 ? browser.go(answer.headers.location) : answer;
}
async function signedIn(to, options) {
  const away = await toProvider(to, options), last = await back(to, away);
  assert.deepEqual([last.status, last.url], [200, at(to, '/page')], `${last.body} ${away.page.body}`);
  return { ...away, said: JSON.parse(last.body), value: away.browser.cookies.get(new URL(at(to)).host).get(SESSION) };
}
const stays = async (to, { value }) => (await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status === 200;

test('it reads our metadata, verifies our signed request by redirect and by POST, and signs in', { skip }, async () => {
  for (const [how, theirs] of [['redirect', undefined], ['POST', (xml) => without(xml, 'SingleSignOnService', 'HTTP-Redirect')]]) {
    const to = await guarded({ theirs, authorized_groups: ['staff'] }), who = await signedIn(to);
    assert.equal(who.how, how);
    assert.deepEqual([who.said['ngrok-auth-user-id'], who.said['ngrok-auth-user-email'], who.said['postern-auth-user-groups']], ['ada@example.test', 'ada@example.test', 'staff,admins']);
    const again = await signedIn(to, { there: who.there });
    assert.ok(again.value !== who.value, 'who is signed in there is asked for no password');
    const bob = await back(to, await toProvider(to, { user: 'bob' }));
    assert.deepEqual([bob.status, code(bob)], [403, DENIED], 'bob is in no group');
  }
});

test('it verifies what we sign: a changed request, and one that the metadata it has know no key of, sign nobody in', { skip }, async () => {
  const to = await guarded();
  const changed = await toProvider(to, { change: (location) => location.replace(/(SAMLRequest=.*?RelayState=)/, '$1x') });
  assert.equal(changed.form?.fields.SAMLResponse, undefined, changed.page.body.slice(0, 400));
  assert.match(ssp.log(), /Unable to validate Signature/i);
  const before = ssp.log().length;
  const stranger = await guarded();
  ssp.configure({ sps: [(await ask(to.saml.metadata_url)).body.replaceAll(to.saml.request_signing_certificate_pem.replace(/-----[^-]+-----|\s/g, ''), stranger.saml.request_signing_certificate_pem.replace(/-----[^-]+-----|\s/g, ''))] });
  const other = await toProvider(to);
  assert.equal(other.form?.fields.SAMLResponse, undefined, other.page.body.slice(0, 400));
  assert.match(ssp.log().slice(before), /Unable to validate Signature/i);
  await to.known();
  await signedIn(to);
});

test('an encrypted assertion signs in, to the key in use and after a rotation; one whose response is not signed is refused', { skip }, async () => {
  const to = await guarded({ hosted: { 'assertion.encryption': true, 'saml20.sign.response': true } }), rotate = (key_rotation, idp_metadata) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/saml`, { idp_metadata, nameid_format: EMAIL, key_rotation });
  const metadata = await ssp.metadata(), who = await signedIn(to);
  assert.match(Buffer.from(who.form.fields.SAMLResponse, 'base64').toString(), /EncryptedAssertion/);
  // It takes the first certificate for encryption; what it had read before the promotion is the former one.
  for (const [state, learns] of [['next', false], ['next', true], ['promoted', false], ['promoted', true], ['none', true]]) {
    await rotate(state, metadata);
    if (learns) await to.known();
    await signedIn(to);
    assert.ok(await stays(to, who), state);
  }
  const unsigned = await guarded({ hosted: { 'assertion.encryption': true, 'saml20.sign.response': false, 'saml20.sign.assertion': true } }), refused = await back(unsigned, await toProvider(unsigned));
  assert.deepEqual([refused.status, code(refused)], [400, FAILED], 'CBC, which nobody signed');
});

test('single logout, begun here and begun there, by redirect and by POST', { skip }, async () => {
  const posting = (xml) => without(xml, 'SingleLogoutService', 'HTTP-Redirect');
  for (const options of [{}, { theirs: posting, ours: posting }]) {
    const to = await guarded(options), how = options.ours ? 'POST' : 'redirect', who = await signedIn(to);
    const out = await who.browser.open(at(to, '/auth/logout')), asked = formOf(out.body);
    assert.equal(out.status, how === 'POST' ? 200 : 302, out.body);
    assert.equal(await stays(to, who), false);
    const answer = how === 'POST' ? await who.there.go(asked.action, asked.fields) : await who.there.go(out.headers.location), sent = formOf(answer.body);
    const done = answer.status === 200 ? await who.browser.go(sent.action, form(sent.fields)) : await who.browser.go(answer.headers.location);
    assert.ok(done.body.includes('You are signed out'), `${how}: ${answer.body} ${done.body}`);
    assert.ok((await toProvider(to, { there: who.there, user: 'bob' })).form.fields.SAMLResponse, 'it asks for a password again');

    const ada = await signedIn(to), bob = await signedIn(to, { user: 'bob' }), left = await ada.there.go(`${IDP}/SingleLogoutService.php?ReturnTo=${encodeURIComponent(`${BASE}/module.php/core/frontpage_welcome.php`)}`), request = formOf(left.body);
    const told = how === 'POST' ? await ada.browser.open(request.action, form(request.fields)) : await ada.browser.open(left.headers.location, { headers: { ...PAGE, 'Sec-Fetch-Site': 'cross-site' } });
    assert.deepEqual([await stays(to, ada), await stays(to, bob)], [false, true], `${how}: ${left.body} ${told.body}`);
    const reply = formOf(told.body), end = told.status === 302 ? await ada.there.go(told.headers.location) : await ada.there.go(reply.action, reply.fields);
    assert.deepEqual([end.status, /error/i.test(end.body.match(/<title>([^<]*)/)?.[1] ?? '')], [200, false], end.body.slice(0, 600));
  }
});

test('metadata of another key, of another entity, and a user whom it denies sign nobody in', { skip }, async () => {
  const stranger = provider([signer()], ENTITY), before = up.seen.length;
  const certificate = own.certificate, wrong = await guarded({ theirs: (xml) => xml.replaceAll(certificate, stranger.signer.certificate) });
  const entity = await guarded({ theirs: (xml) => xml.replaceAll(ENTITY, 'https://other.example.com/metadata') });
  for (const to of [wrong, entity]) {
    await to.known();
    const refused = await back(to, await toProvider(to));
    assert.deepEqual([refused.status, code(refused)], [400, FAILED]);
  }
  const to = await guarded(), there = ssp.there(), page = await there.signIn((await new Browser().go(at(to), { stop: isThere })).headers.location, undefined, 'ada', 'wrong');
  assert.match(page.body, /Incorrect username or password/i);
  assert.equal(up.seen.length, before, 'the upstream has heard of none');
});
