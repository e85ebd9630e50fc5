// SAML identity providers of a story's own, messages that they sign (with xml-crypto; others in the stories themselves), and what
// postern-saml says of them.
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';
import { caller } from './peer.mjs';
import { env, until } from './postern.mjs';

const require = createRequire(path.join(path.dirname(fileURLToPath(import.meta.url)), '../e2e/package.json'));
export const { SignedXml } = require('xml-crypto');
export const samlify = require('samlify');

export const NS = { assertion: 'urn:oasis:names:tc:SAML:2.0:assertion', protocol: 'urn:oasis:names:tc:SAML:2.0:protocol', dsig: 'http://www.w3.org/2000/09/xmldsig#' };
export const EXCLUSIVE = 'http://www.w3.org/2001/10/xml-exc-c14n#', ENVELOPED = `${NS.dsig}enveloped-signature`;
export const MORE = 'http://www.w3.org/2001/04/xmldsig-more#';
export const RSA = (bits) => `${MORE}rsa-sha${bits}`, ECDSA = (bits) => `${MORE}ecdsa-sha${bits}`;
export const SHA = (bits) => (bits === 384 ? `${MORE}sha384` : `http://www.w3.org/2001/04/xmlenc#sha${bits}`);
export const SUCCESS = 'urn:oasis:names:tc:SAML:2.0:status:Success', BEARER = 'urn:oasis:names:tc:SAML:2.0:cm:bearer';
export const EMAIL = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress';
export const ACS = 'https://idp.example.test/saml/acs', SLO = 'https://idp.example.test/saml/slo', AUDIENCE = 'https://idp.example.test/saml/rt_1';

// {key, certificate}: PEM and base64 of DER; kind: rsa:2048, rsa:1024, ec:P-256...
export function signer(kind = 'rsa:2048') {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-saml-'));
  const [name, size] = kind.split(':');
  const how = name === 'rsa' ? ['-newkey', kind] : ['-newkey', 'ec', '-pkeyopt', `ec_paramgen_curve:${size}`];
  execFileSync('openssl', ['req', '-x509', ...how, '-nodes', '-days', '1', '-subj', '/CN=idp', '-keyout', `${dir}/key`, '-out', `${dir}/pem`], { stdio: 'ignore' });
  const made = { key: fs.readFileSync(`${dir}/key`, 'utf8'), pem: fs.readFileSync(`${dir}/pem`, 'utf8') };
  fs.rmSync(dir, { recursive: true });
  return { ...made, certificate: made.pem.replace(/-----[^-]+-----|\s/g, ''), kind: name };
}

// An identity provider; its metadata has the certificates of all signers.
export function provider(signers, entity = 'https://idp.example.com/metadata', { more = '', use = ' use="signing"' } = {}) {
  const keys = signers.map((one) => `<md:KeyDescriptor${use}><ds:KeyInfo xmlns:ds="${NS.dsig}"><ds:X509Data><ds:X509Certificate>${one.certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`).join('');
  const metadata = `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${entity}">${more}<md:IDPSSODescriptor WantAuthnRequestsSigned="true" protocolSupportEnumeration="${NS.protocol}">${keys}`
    + '<md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example.com/slo"/>'
    + '<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example.com/sso"/></md:IDPSSODescriptor></md:EntityDescriptor>';
  return { entity, metadata, signers, signer: signers[0] };
}

export const time = (ms) => new Date(ms).toISOString();

// The parts of a response, each of which a story may give itself.
export function parts(idp, over = {}) {
  const now = over.now ?? Date.now();
  const v = { now, id: '_assertion1', response: '_response1', to: '_request1', name: 'user@example.test', format: EMAIL, issuer: idp.entity, audience: AUDIENCE, recipient: ACS, destination: ACS,
    status: SUCCESS, from: time(now - 60000), until: time(now + 300000), conditionsUntil: time(now + 300000), issued: time(now), index: '_session1', method: BEARER, attributes: { groups: ['staff', 'admins'], email: ['user@example.test'] }, ...over };
  const to = v.to ? ` InResponseTo="${v.to}"` : '';
  const p = { v };
  p.nameId = over.nameId ?? `<saml:NameID Format="${v.format}">${v.name}</saml:NameID>`;
  p.data = `<saml:SubjectConfirmationData NotOnOrAfter="${v.until}" Recipient="${v.recipient}"${v.confirmTo === undefined ? to : v.confirmTo}/>`;
  p.subject = over.subject ?? `<saml:Subject>${p.nameId}<saml:SubjectConfirmation Method="${v.method}">${over.data ?? p.data}</saml:SubjectConfirmation></saml:Subject>`;
  p.conditions = over.conditions ?? `<saml:Conditions NotBefore="${v.from}" NotOnOrAfter="${v.conditionsUntil}"><saml:AudienceRestriction><saml:Audience>${v.audience}</saml:Audience></saml:AudienceRestriction></saml:Conditions>`;
  p.authn = over.authn ?? `<saml:AuthnStatement AuthnInstant="${v.issued}" SessionIndex="${v.index}"${over.authnMore ?? ''}><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>`;
  p.statement = over.statement ?? `<saml:AttributeStatement>${Object.entries(v.attributes).map(([name, values]) => `<saml:Attribute Name="${name}">${values.map((one) => `<saml:AttributeValue xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="xs:string">${one}</saml:AttributeValue>`).join('')}</saml:Attribute>`).join('')}</saml:AttributeStatement>`;
  p.assertion = over.assertion ?? `<saml:Assertion xmlns:saml="${NS.assertion}" ID="${v.id}" Version="2.0" IssueInstant="${v.issued}"><saml:Issuer>${over.assertionIssuer ?? v.issuer}</saml:Issuer>${p.subject}${p.conditions}${p.authn}${p.statement}</saml:Assertion>`;
  p.head = `<saml:Issuer xmlns:saml="${NS.assertion}">${v.issuer}</saml:Issuer>`;
  p.statusPart = `<samlp:Status><samlp:StatusCode Value="${v.status}"/></samlp:Status>`;
  p.whole = (assertion = p.assertion) => `<samlp:Response xmlns:samlp="${NS.protocol}" ID="${v.response}" Version="2.0" IssueInstant="${v.issued}" Destination="${v.destination}"${v.responseTo === undefined ? to : v.responseTo}>${p.head}${p.statusPart}${assertion}</samlp:Response>`;
  return p;
}

// ECDSA, which xml-crypto does not have: r and s as XMLDSig has them.
const hash = (uri) => `sha${uri.slice(-3)}`;
class Ecdsa {
  constructor(uri) { this.uri = uri; this.getSignature = (text, key) => crypto.sign(hash(uri), Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64'); this.verifySignature = () => false; this.getAlgorithmName = () => uri; }
}
class RsaMore {
  constructor(uri) { this.getSignature = (text, key) => crypto.sign(hash(uri), Buffer.from(text), key).toString('base64'); this.verifySignature = () => false; this.getAlgorithmName = () => uri; }
}
class Digest {
  constructor(uri) { this.getHash = (text) => crypto.createHash(hash(uri)).update(text, 'utf8').digest('base64'); this.getAlgorithmName = () => uri; }
}

// xml with a signature of xml-crypto over the element of that ID, behind its Issuer.
export function sign(xml, id, by, { algorithm, digest = SHA(256), transforms = [ENVELOPED, EXCLUSIVE], c14n = EXCLUSIVE, prefixes, place, key = by.key, uri, keyInfo } = {}) {
  const method = algorithm ?? (by.kind === 'ec' ? ECDSA(256) : RSA(256));
  const signed = new SignedXml({ privateKey: key, publicCert: keyInfo ?? by.pem, signatureAlgorithm: method, canonicalizationAlgorithm: c14n, idAttributes: ['ID'] });
  if (method.includes('#ecdsa')) signed.SignatureAlgorithms[method] = class extends Ecdsa { constructor() { super(method); } };
  if (method === RSA(384)) signed.SignatureAlgorithms[method] = class extends RsaMore { constructor() { super(method); } };
  if (digest === SHA(384)) signed.HashAlgorithms[digest] = class extends Digest { constructor() { super(digest); } };
  if (method.includes('hmac')) signed.enableHMAC();
  signed.addReference({ xpath: `//*[@ID='${id}']`, digestAlgorithm: digest, transforms, inclusiveNamespacesPrefixList: prefixes, uri });
  signed.computeSignature(xml, { prefix: 'ds', location: place ?? { reference: `//*[@ID='${id}']/*[local-name(.)='Issuer']`, action: 'after' } });
  return signed.getSignedXml();
}

// A response as most providers make it: the assertion is signed, the response too, or only that.
export function response(idp, over = {}, how = {}) {
  const p = parts(idp, over), which = how.which ?? 'assertion', by = how.by ?? idp.signer;
  let xml = p.whole();
  if (which !== 'response') xml = sign(xml, p.v.id, by, how);
  if (which !== 'assertion') xml = sign(xml, p.v.response, by, how);
  return xml;
}

// ---- encryption (XML Encryption 1.1) ----

export const XENC = 'http://www.w3.org/2001/04/xmlenc#', XENC11 = 'http://www.w3.org/2009/xmlenc11#';
export const CIPHERS = {
  'aes128-gcm': { uri: `${XENC11}aes128-gcm`, name: 'aes-128-gcm', bytes: 16, iv: 12 }, 'aes256-gcm': { uri: `${XENC11}aes256-gcm`, name: 'aes-256-gcm', bytes: 32, iv: 12 },
  'aes128-cbc': { uri: `${XENC}aes128-cbc`, name: 'aes-128-cbc', bytes: 16, iv: 16 }, 'aes256-cbc': { uri: `${XENC}aes256-cbc`, name: 'aes-256-cbc', bytes: 32, iv: 16 },
  'tripledes-cbc': { uri: `${XENC}tripledes-cbc`, name: 'des-ede3-cbc', bytes: 24, iv: 8 },
};

// An EncryptedAssertion of a text for whoever has the private key of a certificate (PEM). content: its key; hash: of OAEP and MGF1;
// change: of the bytes of the ciphertext, wrap: of those of the encrypted key, keys: of the EncryptedKey's text.
export function encrypt(plain, pem, { cipher = 'aes128-gcm', content = crypto.randomBytes(CIPHERS[cipher].bytes), hash = 'sha1', padding = crypto.constants.RSA_PKCS1_OAEP_PADDING, oaep, change = (it) => it, wrap = (it) => it, keys = (it) => it } = {}) {
  const { uri, name, iv: length } = CIPHERS[cipher], iv = crypto.randomBytes(length), sealing = crypto.createCipheriv(name, content, iv);
  const bytes = change(Buffer.concat([iv, sealing.update(plain), sealing.final(), ...(name.endsWith('gcm') ? [sealing.getAuthTag()] : [])]));
  const wrapped = wrap(crypto.publicEncrypt({ key: pem, padding, ...(padding === crypto.constants.RSA_PKCS1_OAEP_PADDING ? { oaepHash: hash } : {}) }, content));
  const method = oaep ?? (hash === 'sha1' ? `<xenc:EncryptionMethod Algorithm="${XENC}rsa-oaep-mgf1p"><ds:DigestMethod Algorithm="${NS.dsig}sha1"/></xenc:EncryptionMethod>`
    : `<xenc:EncryptionMethod Algorithm="${XENC11}rsa-oaep"><ds:DigestMethod Algorithm="${XENC}${hash}"/><xenc11:MGF xmlns:xenc11="${XENC11}" Algorithm="${XENC11}mgf1${hash}"/></xenc:EncryptionMethod>`);
  const encryptedKey = keys(`<xenc:EncryptedKey>${method}<xenc:CipherData><xenc:CipherValue>${wrapped.toString('base64')}</xenc:CipherValue></xenc:CipherData></xenc:EncryptedKey>`);
  return `<saml:EncryptedAssertion xmlns:saml="${NS.assertion}"><xenc:EncryptedData xmlns:xenc="${XENC}" Type="${XENC}Element"><xenc:EncryptionMethod Algorithm="${uri}"/><ds:KeyInfo xmlns:ds="${NS.dsig}">${encryptedKey}</ds:KeyInfo>`
    + `<xenc:CipherData><xenc:CipherValue>${bytes.toString('base64')}</xenc:CipherValue></xenc:CipherData></xenc:EncryptedData></saml:EncryptedAssertion>`;
}

// A response whose assertion is encrypted for the holder of a certificate; over and how as in response() and encrypt(); the assertion is
// signed before, the response behind it. plain: what becomes of the assertion's text before it is encrypted, whole: of the response's.
export function encrypted(idp, pem, over = {}, how = {}) {
  const p = parts(idp, over), which = how.which ?? 'assertion', by = how.by ?? idp.signer;
  const inner = which === 'response' || which === 'none' ? p.whole() : sign(p.whole(), p.v.id, by, how);
  const text = (how.plain ?? ((it) => it))(/<saml:Assertion .*<\/saml:Assertion>/s.exec(inner)[0]);
  const xml = (how.whole ?? ((it) => it))(p.whole(encrypt(text, pem, how)));
  return which === 'response' || which === 'both' ? sign(xml, p.v.response, by, how) : xml;
}

export const encode = (xml) => Buffer.from(xml).toString('base64');
export const deflate = (xml) => zlib.deflateRawSync(xml).toString('base64');

// What is expected of a response; over wins.
export const expected = (over = {}) => ({ kind: 'response', destination: ACS, recipient: ACS, audience: AUDIENCE, in_response_to: '_request1', allow_unsolicited: false, now_ms: Date.now(), skew_ms: 60000, nameid_format: EMAIL, require_authn_statement: true, ...over });

// Speaks to postern-saml with a key of the bus: ask(verb, body) resolves to {code, msg, body}.
export function bench(key = 'identity') {
  const one = caller(key, 'saml', `ipc://${env.POSTERN_RUN_DIR}/saml.rpc`);
  const ask = async (verb, body, options) => {
    const id = one.ask(verb, body, options);
    let answer;
    await until(() => (answer = one.answer(id)), 'an answer of postern-saml', 120000);
    one.got.splice(one.got.findIndex(([first]) => String(first) === id), 1);
    return answer;
  };
  const verify = (idp, xml, over = {}, more = {}) => ask('saml.verify', { metadata: idp.metadata, message: more.message ?? encode(xml), binding: 'post', expect: expected(over), ...more });
  return { ask, verify, stop: one.stop, send: one.ask, answer: one.answer, got: one.got };
}
