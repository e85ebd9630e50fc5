// What an operator finds in the log of postern-identity when a provider of SAML, or the route, is set up wrong: which part of the response was
// refused, what it said and what was expected, at which route. Whoever signs in sees a page that says nothing of that.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { edge, elsewhere, endpoint, home, until, upstream } from '../support/postern.mjs';
import { ask, Browser, PAGE } from '../support/browser.mjs';
import { EMAIL, encode, encrypted, NS, provider, response, signer, time } from '../support/saml.mjs';
import { formOf, HOST, missing, simplesamlphp } from '../support/simplesamlphp.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const idp = skip ? null : provider([signer()], `https://idp-reasons-${process.pid}.example.com/metadata`), other = skip ? null : signer();
const up = skip ? null : await upstream((asked, answer) => answer.end('served'));
test.after(() => up?.close());
const at = (to, place = '/') => `https://${to.host}:${edge.port}${place}`;
const unique = () => `_${crypto.randomUUID()}`;
const form = (fields) => ({ method: 'POST', headers: { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' }, body: new URLSearchParams(fields).toString() });
const guarded = async (more = {}) => { const to = await endpoint(up.address, { saml: { idp_metadata: idp.metadata, nameid_format: EMAIL, ...more } }); return { ...to, saml: to.route.saml }; };
const answer = ({ saml }, over = {}) => ({ id: unique(), response: unique(), to: '', recipient: saml.assertion_consumer_service_url, destination: saml.assertion_consumer_service_url, audience: saml.entity_id, ...over });
const log = () => fs.readdirSync(path.join(home, 'log')).filter((name) => name.startsWith('identity')).map((name) => fs.readFileSync(path.join(home, 'log', name), 'utf8')).join('\n');
// The reasons that the log has of a route, each once.
const reasons = (to) => [...log().matchAll(/verb=sign_in\.callback .*? r=(\S+) .*?why="((?:[^"\\]|\\.)*)"/g)].map(([, r, why]) => `${r} ${why}`).filter((line) => line.includes(to.route.id));
const quoted = (text) => new RegExp(`'${text.slice(0, 60).replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')}`);
async function said(to, xml, fields = {}) {
  const before = reasons(to).length, page = await new Browser().open(to.saml.assertion_consumer_service_url, form({ SAMLResponse: encode(xml), ...fields }));
  assert.ok([400, 403].includes(page.status), `${page.status} ${page.body}`);
  await until(() => reasons(to).length > before, 'a line of the log');
  const line = reasons(to).at(-1), id = /op_[A-Za-z0-9]+/.exec(page.body)?.[0];
  assert.ok(!id || log().includes(id), 'the page names the request, by which the line is found');
  assert.doesNotMatch(page.body, /audience|entity_id|signature|issuer/i, 'the page says nothing of that');
  return line;
}

test('each setting that is wrong is named with what came and what was expected', { skip, timeout: 300000 }, async () => {
  const to = await guarded(), twin = await guarded(), groups = await guarded({ authorized_groups: ['staff'] }), asked = await guarded({ allow_idp_initiated: false }), { saml } = to;
  const TRANSIENT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient', make = (over, how) => response(idp, answer(to, over), how);
  const status = (code) => make({ status: 'urn:oasis:names:tc:SAML:2.0:status:Requester' }, { which: 'response' }).replace(/<ds:Signature .*?<\/ds:Signature>/s, '').replace(/<saml:Assertion .*<\/saml:Assertion>/s, '').replace(/<samlp:StatusCode [^>]*\/>/, `<samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Requester"><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:${code}"/></samlp:StatusCode>`);
  const cases = [
    ['wrong audience', make({ audience: twin.saml.entity_id }), [/is for another audience: /, quoted(twin.saml.entity_id), quoted(saml.entity_id)]],
    ['wrong ACS', make({ recipient: twin.saml.assertion_consumer_service_url }), [/is for another recipient: /, quoted(twin.saml.assertion_consumer_service_url), quoted(saml.assertion_consumer_service_url)]],
    ['wrong Destination', make({ destination: twin.saml.metadata_url }, { which: 'both' }), [/has the destination /, quoted(twin.saml.metadata_url), quoted(saml.assertion_consumer_service_url)]],
    ['a clock that is ahead', () => { const now = Date.now(); return make({ issued: time(now + 600000), from: time(now + 600000) }); }, [/from the future: see IssueInstant, which is (59\d|60\d) s ahead by the clock here: are both clocks right\?/]],
    ['a clock that is behind', () => { const now = Date.now(); return make({ issued: time(now - 7200000), from: time(now - 7200000), until: time(now - 6900000), conditionsUntil: time(now - 6900000) }); }, [/came too late: see NotOnOrAfter of SubjectConfirmationData, which is 6[89]\d\d s ago/]],
    ['another entity', make({ issuer: 'https://idp.example.org/other' }), [/of the issuer 'https:\/\/idp\.example\.org\/other', not /, quoted(idp.entity)]],
    ['another format of the name', make({ format: TRANSIENT }), [/NameID of the format /, quoted(TRANSIENT), quoted(EMAIL)]],
    ['not signed', make({}, { which: 'response' }).replace(/<ds:Signature .*?<\/ds:Signature>/s, ''), [/is not signed: the provider has to sign the response, or the assertion in it/]],
    ['SHA-1', make({}, { algorithm: `${NS.dsig}rsa-sha1`, digest: `${NS.dsig}sha1` }), [/another algorithm than RSA or ECDSA with SHA-256, SHA-384 or SHA-512: /, quoted(`${NS.dsig}rsa-sha1`)]],
    ['a digest with SHA-1', make({}, { digest: `${NS.dsig}sha1` }), [/another digest than SHA-256, SHA-384 or SHA-512: /, quoted(`${NS.dsig}sha1`)]],
    ['a new certificate of the provider', make({}, { by: other }), [/by no key of the metadata, .*has the provider another certificate now than idp_metadata has\?/]],
    ['encrypted to another route', encrypted(idp, twin.saml.encryption_certificate_pem, answer(to)), [/cannot be decrypted: is it encrypted to the route's encryption_certificate_pem\?/]],
    ['CBC that nobody signed', encrypted(idp, saml.encryption_certificate_pem, answer(to), { cipher: 'aes256-cbc' }), [/CBC, which is taken of a response only that is signed itself/]],
    ['a provider that refuses', status('InvalidNameIDPolicy'), [/status 'urn:oasis:names:tc:SAML:2.0:status:Requester', 'urn:oasis:names:tc:SAML:2.0:status:InvalidNameIDPolicy'/]],
    ['no AuthnStatement', make({ authn: '' }), [/has no AuthnStatement/]],
    ['a RelayState that leads elsewhere', make(), [/SIGN_IN_STATE nobody asked for this response here, and its RelayState is no path of the route/], to, { RelayState: 'https://elsewhere.example.com/' }],
    ['begun by the provider where that is off', response(idp, answer(asked)), [/SIGN_IN_STATE nobody asked for this response here, and allow_idp_initiated is off/], asked],
    ['no attribute with groups', response(idp, answer(groups, { attributes: { email: ['a@example.test'] } })), [/SIGN_IN_DENIED the route's rules \(groups\) do not admit this user: the provider says of no group that the user is in it/], groups],
    ['other groups', response(idp, answer(groups, { attributes: { groups: ['others'] } })), [/SIGN_IN_DENIED the route's rules \(groups\) do not admit this user \(route/], groups],
  ];
  for (const [what, xml, wants, route = to, fields] of cases) {
    const line = await said(route, typeof xml === 'function' ? xml() : xml, fields); // times count from when it is sent
    for (const want of wants) assert.match(line, want, what);
    assert.ok(line.endsWith(`(route ${route.route.id})`), `${what}: ${line}`);
    assert.doesNotMatch(line, /user@example\.test|others/, 'no name and no group of anybody');
  }
  assert.equal(up.seen.length, 0);
});

test('simplesamlphp: what it is set to, and what the log says', { skip: skip || missing, timeout: 300000 }, async () => {
  const ssp = await simplesamlphp({ signer: idp.signer, users: { 'ada:secret': { mail: ['ada@example.test'] } } }), entity = await ssp.metadata();
  const come = async (to, hosted, change = (it) => it) => {
    ssp.configure({ hosted, sps: [change((await ask(to.saml.metadata_url)).body)] });
    const browser = new Browser(), away = await browser.go(at(to), { stop: (location) => new URL(location, at(to)).host === HOST }), before = reasons(to).length;
    const sent = formOf((await ssp.there().signIn(away.headers.location)).body);
    assert.ok(sent?.fields.SAMLResponse, 'it answers');
    const answered = await browser.open(to.saml.assertion_consumer_service_url, form(sent.fields));
    await until(() => answered.status === 302 || reasons(to).length > before, 'a line of the log');
    return answered.status === 302 ? 'good' : reasons(to).at(-1);
  };
  const to = await guarded({ idp_metadata: entity }), staff = await guarded({ idp_metadata: entity, authorized_groups: ['staff'] });
  const wants = [
    [{}, /^good$/], [{ 'signature.algorithm': `${NS.dsig}rsa-sha1` }, /SHA-384 or SHA-512: 'http:\/\/www\.w3\.org\/2000\/09\/xmldsig#/], [{ 'saml20.sign.assertion': false, 'saml20.sign.response': false }, /is not signed: the provider has to sign/, (xml) => xml.replace(' WantAssertionsSigned="true"', '')],
    [{ authproc: [{ class: 'saml:TransientNameID' }], NameIDFormat: 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient' }, /NameID of the format 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient', not 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress'|status '[^']*', '[^']*InvalidNameIDPolicy'/],
    [{ 'assertion.encryption': true, 'saml20.sign.response': false }, /CBC, which is taken of a response only that is signed itself/],
  ];
  for (const [hosted, want, change] of wants) assert.match(await come(to, hosted, change), want, JSON.stringify(hosted));
  assert.match(await come(staff, {}), /says of no group that the user is in it/);
  await ssp.stop();
});
