// Rotation of a route's keys of SAML, through the whole path: a next pair is published, then used, then the former one is dropped, while
// people sign in at providers of samlify and pysaml2 that read the metadata before, during or after that. Nobody is signed out by it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import zlib from 'node:zlib';
import { api, edge, elsewhere, endpoint, env, healthUrls, home, listening, must, through, until, upstream } from '../support/postern.mjs';
import { account } from '../support/account.mjs';
import { ask, Browser, PAGE } from '../support/browser.mjs';
import { EMAIL, encode, encrypted, NS, provider, response, RSA, samlify, signer, time } from '../support/saml.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', FAILED = 'ERR_POSTERN_952', REDIRECT = 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect';
const idp = skip ? null : provider([signer()], `https://idp-keys-${process.pid}.example.com/metadata`);
const up = skip ? null : await upstream((asked, answer) => answer.end(JSON.stringify(asked.headers)));
test.after(() => up?.close());
const at = (to, place = '/') => `https://${to.host}:${edge.port}${place}`;
const metrics = async () => (await Promise.all(healthUrls().map((url) => fetch(`http://${url}/metrics`).then((it) => it.text(), () => '')))).join('\n');
const unique = () => `_${crypto.randomUUID()}`;
const bare = (pem) => pem.replace(/-----[^-]+-----|\s/g, '');
const form = (fields) => ({ method: 'POST', headers: { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' }, body: new URLSearchParams(fields).toString() });

// A route, whose module is what the API said of it last.
async function guarded(more = {}) {
  const to = await endpoint(up.address, { saml: { idp_metadata: idp.metadata, nameid_format: EMAIL, ...more } }), own = { idp_metadata: idp.metadata, nameid_format: EMAIL, ...more };
  const one = { ...to, path: `/edges/https/${to.edge.id}/routes/${to.route.id}/saml`, saml: to.route.saml, own };
  one.rotate = async (key_rotation) => { one.saml = await must('PUT', one.path, { ...own, ...(key_rotation && { key_rotation }) }); return one.saml; };
  return one;
}
const published = async (one) => {
  const { body } = await ask(one.saml.metadata_url), all = (use) => [...body.matchAll(new RegExp(`<md:KeyDescriptor use="${use}">.*?<ds:X509Certificate>([^<]*)<`, 'g'))].map(([, it]) => it);
  return { body, signing: all('signing'), encryption: all('encryption') };
};
// To the provider: the request, and with what it was signed.
async function begin(one, place = '/') {
  const browser = new Browser(), answer = await browser.go(at(one, place), { stop: (location) => location.includes('SAMLRequest=') });
  assert.equal(answer.status, 302, answer.body);
  const url = new URL(answer.headers.location), query = url.search.slice(1), xml = zlib.inflateRawSync(Buffer.from(url.searchParams.get('SAMLRequest'), 'base64')).toString();
  return { browser, query, id: / ID="([^"]+)"/.exec(xml)[1], relay: url.searchParams.get('RelayState') };
}
const isSignedBy = ({ query }, pem) => {
  const [octets, signature] = query.split('&Signature=');
  return crypto.verify('sha256', Buffer.from(octets.slice(octets.search(/SAML(Request|Response)=/))), pem, Buffer.from(decodeURIComponent(signature), 'base64'));
};
const answer = ({ saml }, begun, over = {}) => ({ id: unique(), response: unique(), to: begun.id, recipient: saml.assertion_consumer_service_url, destination: saml.assertion_consumer_service_url, audience: saml.entity_id, ...over });
async function bring(one, begun, message) {
  const first = await begun.browser.open(one.saml.assertion_consumer_service_url, form({ SAMLResponse: message, RelayState: begun.relay }));
  return first.status === 302 ? begun.browser.go(first.headers.location) : first;
}
async function finish(one, begun, message, what) {
  const last = await bring(one, begun, message);
  assert.equal(last.status, 200, `${what}: ${last.url} ${last.body}`);
  return { browser: begun.browser, value: begun.browser.cookies.get(new URL(at(one)).host).get(SESSION), said: JSON.parse(last.body) };
}
async function signedIn(one, over = {}, pem) {
  const begun = await begin(one), parts = answer(one, begun, { name: `${crypto.randomUUID()}@example.test`, ...over });
  return { ...(await finish(one, begun, encode(pem ? encrypted(idp, pem, parts) : response(idp, parts)), 'signs in')), begun, name: parts.name };
}
const stays = async (one, { value }) => (await through(one.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status === 200;

test('a new route takes keys that were made before, and its client waits for none', { skip, timeout: 300000 }, async () => {
  const metric = async (name) => Number(new RegExp(`^postern_routes_saml_keys_${name} (\\d+)`, 'm').exec(await metrics())?.[1]);
  await until(async () => await metric('ready') >= 2, 'two keys are ready', 120000);
  const late = await metric('late_total'), one = await guarded();
  assert.equal(await metric('late_total'), late, 'no key was made within the request');
  assert.notEqual(one.saml.request_signing_certificate_pem, one.saml.encryption_certificate_pem);
  await until(async () => await metric('ready') >= 2, 'others take their place', 120000);
});

test('before, during and after a rotation: both pairs are published, one signs, both decrypt, and nobody signs in anew', { skip }, async () => {
  const one = await guarded(), first = one.saml, sessions = [];
  const round = async (what, signs, opens) => {
    const who = await signedIn(one);
    sessions.push(who);
    assert.ok(isSignedBy(who.begun, signs), what);
    for (const pem of opens) sessions.push(await signedIn(one, {}, pem));
    for (const each of sessions) assert.ok(await stays(one, each), `${what}: a session of before`);
  };
  assert.deepEqual([first.key_rotation, first.other_request_signing_certificate_pem, first.other_encryption_certificate_pem], ['none', null, null]);
  await round('before', first.request_signing_certificate_pem, [first.encryption_certificate_pem]);

  const next = await one.rotate('next');
  assert.deepEqual([next.key_rotation, next.request_signing_certificate_pem, next.encryption_certificate_pem], ['next', first.request_signing_certificate_pem, first.encryption_certificate_pem]);
  assert.equal(new Set([next.request_signing_certificate_pem, next.encryption_certificate_pem, next.other_request_signing_certificate_pem, next.other_encryption_certificate_pem]).size, 4);
  let shown = await published(one);
  assert.deepEqual([shown.signing, shown.encryption], [[bare(next.request_signing_certificate_pem), bare(next.other_request_signing_certificate_pem)], [bare(next.encryption_certificate_pem), bare(next.other_encryption_certificate_pem)]]);
  await round('next', first.request_signing_certificate_pem, [first.encryption_certificate_pem, next.other_encryption_certificate_pem]);

  const promoted = await one.rotate('promoted');
  assert.deepEqual([promoted.request_signing_certificate_pem, promoted.other_request_signing_certificate_pem], [next.other_request_signing_certificate_pem, next.request_signing_certificate_pem]);
  assert.deepEqual([promoted.encryption_certificate_pem, promoted.other_encryption_certificate_pem], [next.other_encryption_certificate_pem, next.encryption_certificate_pem]);
  shown = await published(one);
  assert.deepEqual([shown.signing[0], shown.encryption[0], shown.signing.length, shown.encryption.length], [bare(promoted.request_signing_certificate_pem), bare(promoted.encryption_certificate_pem), 2, 2], 'those in use stand first');
  await round('promoted', promoted.request_signing_certificate_pem, [promoted.encryption_certificate_pem, first.encryption_certificate_pem]);
  assert.ok(!isSignedBy((await begin(one)), first.request_signing_certificate_pem));

  const done = await one.rotate('none');
  assert.deepEqual([done.request_signing_certificate_pem, done.other_request_signing_certificate_pem, done.other_encryption_certificate_pem], [promoted.request_signing_certificate_pem, null, null]);
  shown = await published(one);
  assert.deepEqual([shown.signing, shown.encryption], [[bare(done.request_signing_certificate_pem)], [bare(done.encryption_certificate_pem)]]);
  await round('after', done.request_signing_certificate_pem, [done.encryption_certificate_pem]);
  const late = await begin(one), refused = await bring(one, late, encode(encrypted(idp, first.encryption_certificate_pem, answer(one, late))));
  assert.deepEqual([refused.status, /ERR_POSTERN_\d+/.exec(refused.body)?.[0]], [400, FAILED], 'what was encrypted to the dropped key is not opened any more');
});

test('a sign-in and a sign-out that are under way when keys change come to their ends', { skip }, async () => {
  const one = await guarded(), states = ['next', 'promoted', 'next', 'promoted', 'none'], old = one.saml.encryption_certificate_pem;
  for (const [i, state] of states.entries()) {
    const begun = await begin(one, `/${state}${i}`), leaving = await signedIn(one), pem = state === 'none' ? one.saml.encryption_certificate_pem : old;
    const message = encode(encrypted(idp, pem, answer(one, begun)));
    await one.rotate(state);
    await finish(one, begun, message, `begun before ${state}`);
    const out = await leaving.browser.open(at(one, '/auth/logout'));
    assert.ok(isSignedBy({ query: new URL(out.headers.location).search.slice(1) }, one.saml.request_signing_certificate_pem), 'a LogoutRequest is signed by the key in use');
    assert.equal(await stays(one, leaving), false);
  }
});

test('what a provider sends for logout is answered with the key in use', { skip }, async () => {
  const one = await guarded(), id = unique();
  await one.rotate('next');
  const who = await signedIn(one);
  await one.rotate('promoted');
  const xml = `<samlp:LogoutRequest xmlns:samlp="${NS.protocol}" xmlns:saml="${NS.assertion}" ID="${id}" Version="2.0" IssueInstant="${time(Date.now())}" Destination="${one.saml.single_logout_url}"><saml:Issuer>${idp.entity}</saml:Issuer><saml:NameID Format="${EMAIL}">${who.name}</saml:NameID></samlp:LogoutRequest>`;
  const octets = `SAMLRequest=${encodeURIComponent(zlib.deflateRawSync(xml).toString('base64'))}&SigAlg=${encodeURIComponent(RSA(256))}`;
  const back = await ask(`${one.saml.single_logout_url}?${octets}&Signature=${encodeURIComponent(crypto.sign('sha256', Buffer.from(octets), idp.signer.key).toString('base64'))}`, { headers: PAGE });
  assert.equal(back.status, 302, back.body);
  assert.ok(isSignedBy({ query: new URL(back.headers.location).search.slice(1) }, one.saml.request_signing_certificate_pem));
  assert.equal(await stays(one, who), false);
});

test('a state that does not follow is refused; one that is there is taken again; what says nothing of it changes nothing', { skip }, async () => {
  const one = await guarded(), put = (more) => api('PUT', one.path, { ...one.own, ...more });
  for (const state of ['promoted', 'previous', 5]) {
    const answer = await put({ key_rotation: state });
    assert.equal(answer.status, 400, answer.raw);
    assert.match(answer.raw, /key_rotation/);
  }
  for (const name of ['other_request_signing_certificate_pem', 'other_encryption_key_pem', 'other_request_signing_key_pem']) assert.equal((await put({ [name]: 'x' })).status, 400, name);
  const fresh = await endpoint(up.address);
  for (const key_rotation of ['next', 'promoted']) assert.equal((await api('PUT', `/edges/https/${fresh.edge.id}/routes/${fresh.route.id}/saml`, { ...one.own, key_rotation })).status, 400, 'a new module has new keys');
  const next = await one.rotate('next');
  assert.deepEqual(await one.rotate('next'), next);
  assert.deepEqual(await one.rotate(), next);
  assert.deepEqual((await must('PATCH', one.path.replace(/\/saml$/, ''), { description: 'x' })).saml, next);
  assert.deepEqual((await must('PATCH', one.path.replace(/\/saml$/, ''), { saml: { ...one.own, force_authn: true } })).saml, { ...next, force_authn: true });
  await one.rotate('promoted');
  assert.deepEqual(await one.rotate('next'), next, 'taken back');
});

test('another account cannot turn them, and its own stay as they are', { skip }, async () => {
  const one = await guarded(), theirs = account('Keys'), before = one.saml;
  const front = await theirs.must('POST', '/edges/https', {}), route = await theirs.must('POST', `/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', saml: one.own });
  for (const key_rotation of ['next', 'promoted', 'none']) assert.equal((await theirs.api('PUT', one.path, { ...one.own, key_rotation })).status, 404);
  assert.deepEqual(await must('GET', one.path), before);
  await one.rotate('next');
  assert.deepEqual((await theirs.must('GET', `/edges/https/${front.id}/routes/${route.id}`)).saml, route.saml);
  await theirs.must('DELETE', `/edges/https/${front.id}`);
});

const runDir = env.POSTERN_RUN_DIR;
const pidOf = (name) => Number(fs.readFileSync(`${runDir}/${name}.pid`, 'utf8'));
async function restart(name) {
  const old = pidOf(name);
  process.kill(old, 'SIGTERM');
  await until(() => { const now = pidOf(name); return now && now !== old; }, `another ${name}`, 120000);
}
test('restarts in the midst of a rotation change nothing', { skip: skip || (runDir ? false : 'deploy/stack did not start the system'), timeout: 300000 }, async () => {
  const one = await guarded(), first = one.saml, who = await signedIn(one);
  for (const state of ['next', 'promoted']) {
    const saml = await one.rotate(state), begun = await begin(one), message = encode(encrypted(idp, first.encryption_certificate_pem, answer(one, begun)));
    for (const name of ['routes', 'identity', 'saml']) await restart(name);
    await until(async () => (await api('GET', one.path)).status === 200, 'the API answers', 120000);
    assert.deepEqual(await must('GET', one.path), saml);
    await until(async () => (await ask(saml.metadata_url)).status === 200, 'metadata', 120000);
    assert.equal((await published(one)).signing.length, 2);
    await until(async () => (await stays(one, who)), 'the session goes on', 120000);
    // The first answer may find services that are starting still; an assertion is used up only by the one that is taken.
    let last;
    await until(async () => { last = await bring(one, begun, message); return last.status !== 503; }, 'a verdict', 120000);
    assert.equal(last.status, 200, last.body);
    await until(async () => isSignedBy(await begin(one), saml.request_signing_certificate_pem), 'the key in use signs', 120000);
  }
});

// ---- providers that others wrote: which certificates they take from metadata that have two ----

test('samlify: its provider takes our requests before and after a promotion with the metadata of the time between, and encrypts so that we can read it', { skip }, async () => {
  samlify.setSchemaValidator({ validate: async () => 'not looked at' });
  const entity = 'https://samlify-keys.example.com', theirs = samlify.IdentityProvider({ entityID: entity, privateKey: idp.signer.key, signingCert: idp.signer.pem, isAssertionEncrypted: true, nameIDFormat: [EMAIL], wantAuthnRequestsSigned: true, requestSignatureAlgorithm: RSA(256),
    dataEncryptionAlgorithm: 'http://www.w3.org/2009/xmlenc11#aes128-gcm', keyEncryptionAlgorithm: 'http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p', singleSignOnService: [{ Binding: REDIRECT, Location: `${entity}/sso` }] });
  const one = await guarded({ idp_metadata: theirs.getMetadata() });
  await one.rotate('next');
  // Of several certificates of one use samlify reads the first alone for encryption, and verifies with each.
  const between = (await ask(one.saml.metadata_url)).body;
  for (const state of ['next', 'promoted']) {
    await one.rotate(state);
    const ours = samlify.ServiceProvider({ metadata: between }), begun = await begin(one), params = Object.fromEntries(new URLSearchParams(begun.query)), octets = begun.query.slice(0, begun.query.indexOf('&Signature='));
    const certificates = [ours.entityMeta.getX509Certificate('signing')].flat(), used = certificates.filter((it) => isSignedBy(begun, `-----BEGIN CERTIFICATE-----\n${bare(it).replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`));
    assert.deepEqual([certificates.length, used.length], [2, 1], state);
    const reader = samlify.ServiceProvider({ metadata: between.replace(new RegExp(`<md:KeyDescriptor use="signing">(?:(?!</md:KeyDescriptor>).)*${certificates.find((it) => it !== used[0]).replace(/[+/]/g, '\\$&')}.*?</md:KeyDescriptor>`), '') });
    assert.equal((await theirs.parseLoginRequest(reader, 'redirect', { query: params, octetString: octets })).extract.request.id, begun.id, state);
    const encryption = [ours.entityMeta.getX509Certificate('encryption')].flat();
    for (const each of encryption) {
      const again = await begin(one), pem = `-----BEGIN CERTIFICATE-----\n${bare(each).replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
      const own = { ...idp, entity };
      await finish(one, again, encode(encrypted(own, pem, answer(one, again))), state);
    }
  }
});

const PYTHON = '/usr/bin/python3'; // Debian's, which has Debian's packages
const pysaml2 = (() => { try { execFileSync(PYTHON, ['-c', 'import saml2'], { stdio: 'ignore' }); execFileSync('xmlsec1', ['--version'], { stdio: 'ignore' }); return false; } catch { return 'python3-pysaml2 is not installed'; } })();
test('pysaml2: its provider verifies requests with either certificate, and not with one that was dropped', { skip: skip || pysaml2 }, async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-pysaml2-')), posting = idp.metadata.replaceAll('HTTP-Redirect', 'HTTP-POST'), one = await guarded({ idp_metadata: posting });
  fs.writeFileSync(`${dir}/key`, idp.signer.key), fs.writeFileSync(`${dir}/pem`, idp.signer.pem);
  const python = (sp, authn) => JSON.parse(execFileSync(PYTHON, [new URL('../support/saml_authn.py', import.meta.url).pathname], { encoding: 'utf8', input: JSON.stringify({ folder: dir, sp: sp.replace(/^<\?xml[^>]*>\s*/, ''), authn }), stdio: ['pipe', 'pipe', 'ignore'] }));
  const asked = async () => /name="SAMLRequest" value="([^"]*)"/.exec((await new Browser().go(at(one))).body)[1];
  const before = (await ask(one.saml.metadata_url)).body, old = await asked();
  await one.rotate('next');
  const between = (await ask(one.saml.metadata_url)).body;
  await one.rotate('promoted');
  const now = await asked();
  await one.rotate('none');
  const after = (await ask(one.saml.metadata_url)).body;
  for (const [sp, message] of [[between, old], [between, now]]) assert.equal(python(sp, message).issuer, one.saml.entity_id);
  for (const [sp, message] of [[before, now], [after, old]]) assert.throws(() => python(sp, message), 'a certificate that the metadata do not have');
  fs.rmSync(dir, { recursive: true });
});

// ---- what must not be seen, and what comes by itself ----

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
test('no private key is in an answer, an event, a log, a file of the edge or in clear in the database', { skip }, async () => {
  const sub = await listening(), one = await guarded(), answers = [];
  const mine = () => sub.events.filter((event) => event.event_type === 'https_edge_route_updated.v0' && event.object.id === one.route.id);
  for (const state of ['next', 'promoted']) {
    answers.push(await one.rotate(state));
    for (const target of [one.path, one.path.replace(/\/saml$/, ''), `/edges/https/${one.edge.id}`]) answers.push(await must('GET', target));
  }
  await signedIn(one, {}, one.saml.encryption_certificate_pem);
  await until(() => mine().length === 2, 'both events');
  const seen = JSON.stringify([answers, mine()]);
  assert.ok(seen.includes('other_encryption_certificate_pem'));
  assert.doesNotMatch(seen, /PRIVATE KEY|_key_pem/);
  const stored = JSON.parse(sql(`SELECT saml FROM routes.https_edge_route WHERE id = '${one.route.id}'`));
  const keys = Object.keys(stored).filter((name) => name.endsWith('_key_pem'));
  assert.deepEqual(keys.sort(), ['encryption_key_pem', 'other_encryption_key_pem', 'other_request_signing_key_pem', 'request_signing_key_pem']);
  // As it is, or in base64 without being sealed. Longer than what chance puts into 2,000 characters of base64.
  for (const name of keys) for (const text of [stored[name], Buffer.from(stored[name], 'base64').toString('latin1')]) assert.doesNotMatch(text, /PRIVATE KEY|-----BEGIN/, name);
  const entry = sql(`SELECT to_jsonb(t) FROM routes.config_entry t WHERE id = '${one.route.id}'`);
  assert.ok(entry.includes(one.route.id));
  assert.doesNotMatch(entry, /PRIVATE|_key_pem/);
  for (const name of fs.readdirSync(path.join(home, 'log'))) assert.doesNotMatch(fs.readFileSync(path.join(home, 'log', name), 'utf8'), /PRIVATE KEY/, name);
  await one.rotate('none');
  const left = JSON.parse(sql(`SELECT saml FROM routes.https_edge_route WHERE id = '${one.route.id}'`));
  assert.deepEqual(Object.keys(left).filter((name) => name.startsWith('other_')), [], 'a dropped key is stored nowhere');
  await sub.stop();
});

test('a certificate that ends soon: a next one is published by itself, the log and the metrics say so, and nothing is promoted', { skip: skip || (process.env.POSTERN_RENEW_SECONDS ? false : 'POSTERN_RENEW_SECONDS is not set') }, async () => {
  const one = await guarded(), twin = await guarded(), off = await guarded({ enabled: false }), who = await signedIn(one), before = twin.saml;
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-keys-'));
  // What the API shows of the key in use is one that ends in 20 days. The key stays as it is: nothing that is asked of it here looks at the certificate.
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '20', '-subj', '/CN=soon', '-keyout', `${dir}/key`, '-out', `${dir}/pem`], { stdio: 'ignore' });
  const soon = fs.readFileSync(`${dir}/pem`, 'utf8');
  fs.rmSync(dir, { recursive: true });
  sql(`UPDATE routes.https_edge_route SET saml = jsonb_set(saml, '{request_signing_certificate_pem}', to_jsonb($$${soon}$$::text)) WHERE id IN ('${one.route.id}', '${off.route.id}')`);
  await until(async () => (await must('GET', one.path)).key_rotation === 'next', 'a next pair', 120000);
  one.saml = await must('GET', one.path);
  assert.equal(one.saml.request_signing_certificate_pem, soon);
  assert.ok(new crypto.X509Certificate(one.saml.other_request_signing_certificate_pem).validTo.endsWith('GMT') && Date.parse(new crypto.X509Certificate(one.saml.other_request_signing_certificate_pem).validTo) > Date.now() + 365 * 86400e3);
  await until(async () => (await published(one)).signing.length === 2, 'metadata with both');
  await until(async () => { const text = await metrics(); return Number(/^postern_routes_saml_certificate_days (-?\d+)/m.exec(text)?.[1]) <= 20 && Number(/^postern_routes_saml_certificates_due (\d+)/m.exec(text)?.[1]) >= 1; }, 'metrics');
  const logs = () => fs.readdirSync(path.join(home, 'log')).filter((name) => name.startsWith('routes')).map((name) => fs.readFileSync(path.join(home, 'log', name), 'utf8')).join('\n');
  await until(() => new RegExp(`route=${one.route.id} account=\\S+ its certificate of saml ends in (19|20) days`).test(logs()), 'a line in the log');
  assert.deepEqual(await must('GET', twin.path), before, 'others stay as they are');
  assert.equal((await must('GET', off.path)).key_rotation, 'none', 'a module that is off asks nobody for anything');
  assert.ok(await stays(one, who));
  await one.rotate('promoted');
  assert.notEqual(one.saml.request_signing_certificate_pem, soon);
  await until(async () => !new RegExp(`^postern_routes_saml_certificates_due [1-9]`, 'm').test(await metrics()), 'nothing is due any more');
  assert.ok(isSignedBy(await begin(one), one.saml.request_signing_certificate_pem));
  await one.rotate('none');
  await must('DELETE', off.path);
});
