// Encrypted assertions, through the whole path: identity opens the key of the content, a child of postern-xml decrypts, and what comes out
// is judged as if it had come so. Whoever has the route's certificate can encrypt, so that alone lets nobody in.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import zlib from 'node:zlib';
import { edge, elsewhere, endpoint, env, home, must, until, upstream } from '../support/postern.mjs';
import { ask, Browser, PAGE } from '../support/browser.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { CIPHERS, EMAIL, encode, encrypt, encrypted, NS, parts, provider, response, RSA, samlify, signer, time, XENC, XENC11 } from '../support/saml.mjs';
import { seal } from '../support/sealed.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const idp = skip ? null : provider([signer()], `https://idp-${process.pid}.example.com/metadata`), other = skip ? null : signer();
const unique = () => `_${crypto.randomUUID()}`;
const at = (to, place = '/') => `https://${to.host}:${edge.port}${place}`;
const FAILED = 'ERR_POSTERN_952';

async function guarded(more = {}) {
  const up = await upstream((asked, answer) => answer.end(JSON.stringify(asked.headers)));
  const to = await endpoint(up.address, { saml: { idp_metadata: idp.metadata, nameid_format: EMAIL, ...more } });
  return { up, to, saml: to.route.saml, pem: to.route.saml.encryption_certificate_pem, close: () => up.close() };
}
// A response of these parts for a route, which nobody asked for: each is brought by a browser of its own.
const toRoute = (saml, over = {}) => ({ id: unique(), response: unique(), to: '', recipient: saml.assertion_consumer_service_url, destination: saml.assertion_consumer_service_url, audience: saml.entity_id, ...over });
const form = (fields) => ({ method: 'POST', headers: { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' }, body: new URLSearchParams(fields).toString() });
const bring = (saml, xml, browser = new Browser(), more = {}) => browser.open(saml.assertion_consumer_service_url, form({ SAMLResponse: encode(xml), ...more }));
async function admitted({ to, saml }, xml, what) {
  const browser = new Browser(), answer = await bring(saml, xml, browser);
  assert.equal(answer.status, 302, `${what}: ${answer.status} ${answer.body}`);
  const last = await browser.go(answer.headers.location);
  assert.deepEqual([last.status, last.url], [200, at(to)], what);
  return JSON.parse(last.body);
}
// The page without what names the one request, and what identity's log says of it.
const logs = () => fs.readdirSync(path.join(home, 'log')).map((name) => fs.readFileSync(path.join(home, 'log', name), 'utf8')).join('\n');
const reasons = () => [...logs().matchAll(/verb=sign_in\.callback .*? r=(\S+) .*?why="((?:[^"\\]|\\.)*)"/g)].map(([, r, why]) => `${r} ${why}`);
async function refused(saml, xml, what) {
  const before = reasons().length, answer = await bring(saml, xml);
  assert.deepEqual([answer.status, /ERR_POSTERN_\d+/.exec(answer.body)?.[0]], [400, FAILED], what);
  await until(() => reasons().length > before, 'the reason in the log');
  return { page: answer.body.replace(/\b[\w-]{20,}\b/g, '').replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, ''), why: reasons().at(-1) };
}
const turned = (i) => (bytes) => { const out = Buffer.from(bytes); out[i < 0 ? out.length + i : i] ^= 1; return out; };
const cut = (n) => (bytes) => bytes.subarray(0, bytes.length - n);

test('an encrypted assertion signs in, by each algorithm that is taken', { skip }, async () => {
  const one = await guarded();
  for (const cipher of ['aes128-gcm', 'aes256-gcm'])
    for (const hash of ['sha1', 'sha256'])
      for (const which of ['assertion', 'response', 'both']) {
        const name = `${cipher}-${hash}-${which}@example.test`;
        const headers = await admitted(one, encrypted(idp, one.pem, toRoute(one.saml, { name }), { cipher, hash, which }), name);
        assert.equal(headers['ngrok-auth-user-id'], name);
      }
  for (const cipher of ['aes128-cbc', 'aes256-cbc'])
    for (const which of ['response', 'both']) await admitted(one, encrypted(idp, one.pem, toRoute(one.saml), { cipher, which }), `${cipher} ${which}`);
  await admitted(one, response(idp, toRoute(one.saml)), 'plain ones are taken still');
  await one.close();
});

test('what cannot be decrypted is refused with one page and one reason, whatever was wrong', { skip }, async () => {
  const one = await guarded(), { saml, pem } = one, whole = (how) => encrypted(idp, pem, toRoute(saml), how);
  const cases = {
    'another key': encrypted(idp, other.pem, toRoute(saml)),
    'the key that signs requests': encrypted(idp, saml.request_signing_certificate_pem, toRoute(saml)),
    'a tag that was changed': whole({ change: turned(-1) }),
    'a ciphertext that was changed': whole({ change: turned(40) }),
    'an IV that was changed': whole({ change: turned(0) }),
    'cut off': whole({ change: cut(1) }),
    'cut off to the IV': whole({ change: (bytes) => bytes.subarray(0, 12) }),
    'a key that was changed': whole({ wrap: turned(100) }),
    'a key that was cut off': whole({ wrap: cut(1) }),
    'a key of nothing': whole({ wrap: () => Buffer.alloc(256) }),
    'OAEP with another digest than it says': whole({ hash: 'sha256', oaep: `<xenc:EncryptionMethod Algorithm="${XENC}rsa-oaep-mgf1p"/>` }),
    'a key of another length': encrypted(idp, pem, toRoute(saml), { cipher: 'aes256-gcm', keys: (it) => it }).replace(`${XENC11}aes256-gcm`, `${XENC11}aes128-gcm`),
    'no XML': whole({ plain: () => 'SAML' }),
    'nothing': whole({ plain: () => '' }),
    'a comment': whole({ plain: (text) => `<!-- -->${text}` }),
    'a DTD': whole({ plain: (text) => `<!DOCTYPE a [<!ENTITY b "c">]>${text}` }),
    'two assertions': whole({ plain: (text) => text + text }),
    'the end of what is around it': whole({ plain: (text) => `${text}</saml:EncryptedAssertion></samlp:Response>` }),
    'more beside it': whole({ plain: (text) => `${text}</saml:EncryptedAssertion><saml:EncryptedAssertion>` }),
    'a response inside': whole({ plain: () => response(idp, toRoute(saml)) }),
    'encrypted twice': whole({ plain: (text) => encrypt(text, pem) }),
    'elements without end': whole({ plain: () => '<a>'.repeat(2000) + '</a>'.repeat(2000) }),
    'too many elements': whole({ plain: () => `<a>${'<b/>'.repeat(5000)}</a>` }),
    'a padding of CBC that is none': encrypted(idp, pem, toRoute(saml), { cipher: 'aes128-cbc', which: 'response', change: (bytes) => bytes.subarray(0, bytes.length - 16) }),
  };
  const seen = [];
  for (const [what, xml] of Object.entries(cases)) seen.push({ what, ...(await refused(saml, xml, what)) });
  for (const { what, page, why } of seen) {
    assert.equal(why, `SIGN_IN_PROVIDER the message is not good: the message has an assertion that cannot be decrypted: is it encrypted to the route's encryption_certificate_pem? (route ${one.to.route.id})`, what);
    assert.equal(page, seen[0].page, what);
  }
  assert.equal(one.up.seen.length, 0);
  await one.close();
});

test('each other hostile one is refused for its own reason, and nobody gets in who could only encrypt', { skip }, async () => {
  const one = await guarded(), { saml, pem } = one, strange = await guarded(), now = Date.now();
  const whole = (how, over) => encrypted(idp, pem, toRoute(saml, over), how);
  const oaep = `<xenc:EncryptionMethod Algorithm="${XENC}rsa-oaep-mgf1p"`;
  const plain = (over) => /<saml:Assertion .*<\/saml:Assertion>/s.exec(response(idp, toRoute(saml, over)))[0];
  const cases = {
    'RSA 1.5': [whole({ padding: crypto.constants.RSA_PKCS1_PADDING, oaep: `<xenc:EncryptionMethod Algorithm="${XENC}rsa-1_5"/>` }), /another algorithm than RSA-OAEP/],
    'RSA 1.5, by a signed response': [whole({ padding: crypto.constants.RSA_PKCS1_PADDING, oaep: `<xenc:EncryptionMethod Algorithm="${XENC}rsa-1_5"/>`, which: 'both' }), /another algorithm than RSA-OAEP/],
    'OAEP with SHA-512': [whole({ hash: 'sha512' }), /another algorithm than RSA-OAEP/],
    'OAEP with parameters': [whole({ oaep: `${oaep}><xenc:OAEPparams>AAAA</xenc:OAEPparams></xenc:EncryptionMethod>` }), /without parameters/],
    '3DES': [whole({ cipher: 'tripledes-cbc', which: 'both' }), /another algorithm than AES/],
    'an unknown cipher': [whole({}).replace(`${XENC11}aes128-gcm`, 'urn:cipher'), /another algorithm than AES/],
    'CBC around a signed assertion': [whole({ cipher: 'aes128-cbc' }), /CBC/],
    'GCM called CBC': [whole({}).replace(`${XENC11}aes128-gcm`, `${XENC}aes128-cbc`), /CBC/],
    'CBC, changed behind the signature of the response': [whole({ cipher: 'aes256-cbc', which: 'both' }).replace(/<xenc:CipherValue>(.)(?=[^<]*<\/xenc:CipherValue><\/xenc:CipherData><\/xenc:EncryptedData>)/, (all, first) => all.slice(0, -1) + (first === 'A' ? 'B' : 'A')), /was changed/],
    'CBC in a response that somebody else signed': [whole({ cipher: 'aes128-cbc', which: 'response', by: other }), /no key of the metadata/],
    'two EncryptedKeys': [whole({ keys: (it) => it + it }), /or several/],
    'one EncryptedKey in it, one behind it': [whole({}).replace('</xenc:EncryptedData>', `</xenc:EncryptedData><xenc:EncryptedKey xmlns:xenc="${XENC}"/>`), /or several/],
    'no EncryptedKey': [whole({ keys: () => '' }), /no EncryptedKey/],
    'a CipherReference': [whole({}).replace(/<xenc:CipherValue>[^<]*<\/xenc:CipherValue>(?=<\/xenc:CipherData><\/xenc:EncryptedData>)/, '<xenc:CipherReference URI="http://127.0.0.1/"/>'), /CipherValue/],
    'XSW: a forged plain assertion beside the encrypted one': [whole({ whole: (xml) => xml.replace('<saml:EncryptedAssertion', `${parts(idp, toRoute(saml, { name: 'root@example.test' })).assertion}<saml:EncryptedAssertion`) }), /several assertions/],
    'XSW: a forged plain assertion behind it': [whole({ whole: (xml) => xml.replace('</saml:EncryptedAssertion>', `</saml:EncryptedAssertion>${parts(idp, toRoute(saml)).assertion}`) }), /several assertions/],
    'XSW: a forged encrypted assertion beside the signed plain one': [response(idp, toRoute(saml)).replace('</samlp:Response>', `${encrypt(parts(idp, toRoute(saml)).assertion, pem)}</samlp:Response>`), /several assertions/],
    'XSW: two encrypted ones': [whole({ whole: (xml) => xml.replace('</samlp:Response>', `${encrypt(plain(), pem)}</samlp:Response>`) }), /several assertions/],
    'XSW: the signed assertion inside of a forged one': [whole({ plain: (text) => parts(idp, toRoute(saml)).assertion.replace('</saml:Assertion>', `${text}</saml:Assertion>`) }), /another place/],
    'XSW: an encrypted assertion in Extensions': [whole({ whole: (xml) => xml.replace(/<saml:EncryptedAssertion.*<\/saml:EncryptedAssertion>/s, (all) => `<samlp:Extensions>${all}</samlp:Extensions>`) }), /another place|another part/],
    'the ciphertext of a signed response, in another one': [whole({ which: 'response', whole: (xml) => xml }).replace(/<ds:Signature .*?<\/ds:Signature>/s, ''), /is not signed/],
    'nobody signed': [whole({ which: 'none' }), /is not signed/],
    'somebody else signed the assertion': [whole({ by: other }), /no key of the metadata/],
    'changed before it was encrypted': [whole({ plain: (text) => text.replace('user@example.test<', 'root@example.test<') }), /was changed/],
    'signed as a whole before it was encrypted': [response(idp, toRoute(saml), { which: 'response' }).replace(/<saml:Assertion .*<\/saml:Assertion>/s, (all) => encrypt(all, pem)), /was changed/],
    'an encrypted NameID': [whole({ which: 'both', plain: (text) => text }, { nameId: `<saml:EncryptedID><xenc:EncryptedData xmlns:xenc="${XENC}"/></saml:EncryptedID>` }), /encrypted part/],
    'another audience': [whole({}, { audience: strange.saml.entity_id }), /another audience/],
    'another recipient': [whole({}, { recipient: strange.saml.assertion_consumer_service_url }), /another recipient/],
    'another destination': [whole({ which: 'both' }, { destination: strange.saml.assertion_consumer_service_url }), /destination/],
    'too late': [whole({}, { until: time(now - 120000) }), /too late/],
    'an answer to somebody else': [whole({}, { to: unique() }), /another request/],
  };
  for (const [what, [xml, why]] of Object.entries(cases)) assert.match((await refused(saml, xml, what)).why, why, what);
  const huge = await bring(saml, whole({ plain: () => 'A'.repeat(36000) }));
  assert.equal(huge.status, 400, 'more than 64 KiB');
  assert.equal(one.up.seen.length, 0);
  const replayed = whole({});
  await admitted(one, replayed, 'the right one');
  assert.match((await refused(saml, replayed, 'a replay')).why, /used/);
  await one.close(), await strange.close();
});

test('a key is of one route, and is kept; a route of before gets one with its next change', { skip }, async () => {
  const one = await guarded(), two = await guarded(), route = `/edges/https/${one.to.edge.id}/routes/${one.to.route.id}`;
  assert.notEqual(one.pem, two.pem);
  assert.match((await refused(one.saml, encrypted(idp, two.pem, toRoute(one.saml)), 'the key of another route')).why, /cannot be decrypted/);
  const metadata = await ask(one.saml.metadata_url), sp = samlify.ServiceProvider({ metadata: metadata.body });
  assert.equal(sp.entityMeta.getX509Certificate('encryption').replace(/\s/g, ''), one.pem.replace(/-----[^-]+-----|\s/g, ''));
  assert.ok(metadata.body.includes(CIPHERS['aes256-gcm'].uri) && !metadata.body.includes('cbc') && !metadata.body.includes('PRIVATE'), metadata.body);
  execFileSync('psql', [env.DATABASE_URL, '-qAtc', `UPDATE routes.https_edge_route SET saml = saml - 'encryption_certificate_pem' - 'encryption_key_pem' WHERE id = '${one.to.route.id}'`]);
  const without = await must('GET', route);
  assert.equal(without.saml.encryption_certificate_pem ?? null, null);
  const changed = await must('PATCH', route, {});
  assert.match(changed.saml.encryption_certificate_pem, /^-----BEGIN CERTIFICATE-----/);
  assert.equal(changed.saml.request_signing_certificate_pem, one.saml.request_signing_certificate_pem);
  await admitted(one, encrypted(idp, changed.saml.encryption_certificate_pem, toRoute(one.saml)), 'with the new key');
  await one.close(), await two.close();
});

test('neither the private key nor a content\'s key is in a log or a file', { skip }, async () => {
  const mine = signer(), key = crypto.randomBytes(16), wrong = crypto.randomBytes(16), id = `edghtsrt_${crypto.randomBytes(14).toString('hex').slice(0, 27)}`;
  const url = `${new URL((await guarded()).saml.entity_id).origin}/saml/${id}`;
  const sealed = seal({ route: id, account: env.POSTERN_ACCOUNT, edge: `edghts_${'0'.repeat(27)}`, module: 'saml', config: { enabled: true, allow_idp_initiated: true, idp_metadata: idp.metadata, nameid_format: EMAIL, encryption_key_pem: mine.key } });
  const speaker = caller(edgeKey(), 'identity', `ipc://${env.POSTERN_RUN_DIR}/identity.rpc`);
  const callback = async (how) => {
    const xml = encrypted(idp, mine.pem, { id: unique(), response: unique(), to: '', recipient: `${url}/acs`, destination: `${url}/acs`, audience: url }, how);
    const sent = speaker.ask('sign_in.callback', { sealed, state: '', at: 'acs', host: 'app.example.test', home: '/', ip: '192.0.2.9', user_agent: 'x', params: { SAMLResponse: [encode(xml)] } });
    await until(() => speaker.answer(sent), 'an answer');
    return speaker.answer(sent);
  };
  const good = await callback({ content: key }), bad = await callback({ content: wrong, change: turned(-1) });
  speaker.stop();
  assert.equal(good.code, 0, good.msg);
  assert.match(bad.msg, /cannot be decrypted/);
  const lines = mine.key.split('\n').filter((line) => line.length === 64);
  assert.ok(lines.length > 20);
  const secrets = [...lines, ...[key, wrong].flatMap((one) => [one.toString('base64'), one.toString('hex'), one.toString('latin1')])];
  const files = [path.join(home, 'log'), env.POSTERN_RUN_DIR].flatMap((dir) => fs.readdirSync(dir).map((name) => path.join(dir, name))).filter((name) => fs.statSync(name).isFile());
  for (const name of files) {
    const text = fs.readFileSync(name, 'latin1');
    for (const secret of secrets) assert.ok(!text.includes(secret), `${name} has a secret`);
    assert.doesNotMatch(text, /PRIVATE KEY/, name);
  }
});

// ---- providers that others wrote ----

// A browser that began at the route: what the provider has to answer to.
async function begun(to) {
  const browser = new Browser(), answer = await browser.go(at(to), { stop: (location) => location.includes('SAMLRequest=') });
  const url = new URL(answer.headers.location), xml = zlib.inflateRawSync(Buffer.from(url.searchParams.get('SAMLRequest'), 'base64')).toString();
  return { browser, id: / ID="([^"]+)"/.exec(xml)[1], relay: url.searchParams.get('RelayState') };
}
async function finished(to, saml, { browser, relay }, message) {
  const answer = await browser.open(saml.assertion_consumer_service_url, form({ SAMLResponse: message, RelayState: relay }));
  assert.equal(answer.status, 302, `${answer.body} ${reasons().at(-1)}`);
  const last = await browser.go(answer.headers.location);
  assert.deepEqual([last.status, last.url], [200, at(to)], last.body);
  return JSON.parse(last.body);
}

test('samlify\'s identity provider encrypts for the certificate in our metadata', { skip }, async () => {
  samlify.setSchemaValidator({ validate: async () => 'not looked at' });
  const entity = 'https://samlify.example.com';
  for (const [data, encryptThenSign] of [[`${XENC11}aes128-gcm`, false], [`${XENC11}aes256-gcm`, false], [`${XENC}aes256-cbc`, true]]) {
    const theirs = samlify.IdentityProvider({
      entityID: entity, privateKey: idp.signer.key, signingCert: idp.signer.pem, isAssertionEncrypted: true, nameIDFormat: [EMAIL], requestSignatureAlgorithm: RSA(256),
      dataEncryptionAlgorithm: data, keyEncryptionAlgorithm: `${XENC}rsa-oaep-mgf1p`,
      singleSignOnService: [{ Binding: 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect', Location: `${entity}/sso` }],
      loginResponseTemplate: { context: samlify.SamlLib.defaultLoginResponseTemplate.context, attributes: [{ name: 'email', valueTag: 'user.email', nameFormat: 'urn:oasis:names:tc:SAML:2.0:attrname-format:basic', valueXsiType: 'xs:string' }] },
    });
    const { to, saml, close } = await guarded({ idp_metadata: theirs.getMetadata() });
    const ours = samlify.ServiceProvider({ metadata: (await ask(saml.metadata_url)).body, wantMessageSigned: encryptThenSign });
    const flow = await begun(to), now = Date.now(), acs = saml.assertion_consumer_service_url;
    const tags = (template) => {
      const id = unique(), values = { ID: id, AssertionID: unique(), Destination: acs, Audience: saml.entity_id, SubjectRecipient: acs, AssertionConsumerServiceURL: acs, NameIDFormat: EMAIL, NameID: 'sam@example.test', EntityID: saml.entity_id, Issuer: entity, IssueInstant: time(now), StatusCode: 'urn:oasis:names:tc:SAML:2.0:status:Success',
        ConditionsNotBefore: time(now), ConditionsNotOnOrAfter: time(now + 300000), SubjectConfirmationDataNotOnOrAfter: time(now + 300000), InResponseTo: flow.id, attrUserEmail: 'sam@example.test',
        AuthnStatement: `<saml:AuthnStatement AuthnInstant="${time(now)}" SessionIndex="_s"><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>` };
      return { id, context: samlify.SamlLib.replaceTagsByValue(template.replace('{AuthnStatement}', values.AuthnStatement), values) };
    };
    const { context } = await theirs.createLoginResponse(ours, { extract: { request: { id: flow.id } } }, 'post', { email: 'sam@example.test' }, tags, encryptThenSign);
    const xml = Buffer.from(context, 'base64').toString();
    assert.ok(xml.includes('EncryptedAssertion') && xml.includes(data) && !xml.includes('sam@example.test'), xml);
    assert.equal((await finished(to, saml, flow, context))['ngrok-auth-user-email'], 'sam@example.test', data);
    await close();
  }
});

const PYTHON = '/usr/bin/python3'; // Debian's, which has Debian's packages
const pysaml2 = (() => { try { execFileSync(PYTHON, ['-c', 'import saml2'], { stdio: 'ignore' }); execFileSync('xmlsec1', ['--version'], { stdio: 'ignore' }); return false; } catch { return 'python3-pysaml2 is not installed'; } })();
test('pysaml2\'s identity provider encrypts with xmlsec1', { skip: skip || pysaml2 }, async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-pysaml2-'));
  const { to, saml, pem, close } = await guarded({ idp_metadata: idp.metadata.replaceAll(idp.entity, 'https://pysaml2.example.com/metadata') });
  for (const [name, text] of [['key', idp.signer.key], ['pem', idp.signer.pem], ['encryption', pem]]) fs.writeFileSync(`${dir}/${name}`, text);
  for (const [cipher, bits, which] of [['aes128-gcm', 'aes-128', 'assertion'], ['aes256-gcm', 'aes-256', 'both'], ['aes128-cbc', 'aes-128', 'both']]) {
    const flow = await begun(to);
    const made = JSON.parse(execFileSync(PYTHON, [new URL('../support/saml_idp.py', import.meta.url).pathname, dir, saml.assertion_consumer_service_url, saml.entity_id, flow.id, 'https://x.test/slo', CIPHERS[cipher].uri, bits], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }));
    const xml = made[`encrypted_${which}`];
    assert.ok(xml.includes(CIPHERS[cipher].uri) && xml.includes(`${NS.dsig}`) && !xml.includes('user@example.test'), xml);
    assert.equal((await finished(to, saml, flow, encode(xml)))['ngrok-auth-user-email'], 'user@example.test', `${cipher} ${which}`);
  }
  fs.rmSync(dir, { recursive: true });
  await close();
});
