// Many requests at once with a session that is due: the provider is asked once. While it is slow, or does not answer, sessions that are not due
// are as good as before.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { Browser } from '../support/browser.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';
import { ca, edge, elsewhere, endpoint, forgetUsers, must, through, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', CONNECTIONS = 10, STREAMS = 50, PEOPLE = 40;
const authority = process.env.STORY_UPSTREAM_TLS, port = edge.port - 43 + 98, issuer = `https://localhost:${port}`;
const callback = `https://idp.localhost:${edge.port}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback };
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const provider = skip ? null : await oidcProvider({ port, clients: [CLIENT], signed });
const up = skip ? null : await upstream((request, response) => response.end('upstream'));
test.after(async () => { if (provider) await forgetUsers(issuer); provider?.stop(); await up?.close(); });

const oidc = (fields) => ({ issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile'], ...fields });
async function signedIn(to, sub) {
  const browser = new Browser(), back = new URL(callback);
  const away = await browser.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, sub))) back.searchParams.set(name, values[0]);
  assert.equal((await browser.go(back.href)).status, 200);
  return browser.cookies.get(`${to.host}:${edge.port}`).get(SESSION);
}
const get = (to, value) => through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } });
// What the provider said for other scopes than the route's is said for no others: all sessions of the route are due.
const makeDue = (to) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oidc`, oidc({ scopes: ['email'] }));

// Connections over which requests are sent all at once; answers: their status codes.
async function crowd(to, value) {
  const sessions = await Promise.all(Array.from({ length: CONNECTIONS }, () => new Promise((resolve, reject) => {
    const session = http2.connect(`https://${to.host}:${edge.port}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] }) });
    session.on('connect', () => resolve(session)).on('error', reject);
  })));
  const ask = (session) => new Promise((resolve, reject) => {
    const stream = session.request({ ':path': '/', ':authority': `${to.host}:${edge.port}`, cookie: `${SESSION}=${value}` });
    stream.on('response', (headers) => resolve(headers[':status'])).on('error', reject).resume();
  });
  const answers = Promise.all(sessions.flatMap((session) => Array.from({ length: STREAMS }, () => ask(session))));
  return { answers, close: () => { for (const session of sessions) session.destroy(); } };
}

test('500 requests at once with a session that is due are one call to the provider', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), value = await signedIn(to, 'alice');
  await makeDue(to);
  const before = { ...provider.calls };
  let release;
  provider.hold = new Promise((resolve) => { release = resolve; });
  const many = await crowd(to, value);
  try {
    await until(() => provider.calls.token === before.token + 1, 'the call');
    provider.hold = null;
    release();
    assert.deepEqual(new Set(await many.answers), new Set([200]));
  } finally { many.close(); }
  assert.equal(provider.calls.token, before.token + 1);
});

test('a change of the module makes many be asked for at once: each waits for its turn, and nobody is turned away', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), people = [];
  for (let i = 0; i < PEOPLE; i++) people.push(await signedIn(to, 'alice'));
  const put = (fields) => must('PUT', `/edges/https/${to.edge.id}/routes/${to.route.id}/oidc`, oidc(fields));
  for (const [what, fields] of [['other times', { maximum_duration: 86400 }], ['another scope', { scopes: ['email'] }]]) {
    await put(fields);
    const answers = await Promise.all(people.map((value) => get(to, value)));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200], what);
  }
});

test('while the provider is slow, and while it does not answer, who is not due is admitted', { skip }, async () => {
  const to = await endpoint(up.address, { oidc: oidc() }), alice = await signedIn(to, 'alice'), bob = await signedIn(to, 'bob');
  await makeDue(to);
  assert.equal((await get(to, alice)).status, 200, 'checked, so not due again');
  const before = { ...provider.calls };
  let release;
  provider.hold = new Promise((resolve) => { release = resolve; });
  const slow = get(to, bob);
  await until(() => provider.calls.token === before.token + 1, 'the call');
  assert.deepEqual((await Promise.all(Array.from({ length: 20 }, () => get(to, alice)))).map(({ status }) => status), Array(20).fill(200)); // at once: the call has 10 s
  provider.down = true;
  provider.hold = null;
  release();
  assert.deepEqual([(await slow).status, (await get(to, bob)).status], [503, 503], 'nobody says whether he may enter');
  for (let i = 0; i < 20; i++) assert.equal((await get(to, alice)).status, 200);
  assert.equal(provider.calls.token, before.token + 1, 'a provider that does not answer is left alone for a while');
  provider.down = false;
  await until(async () => (await get(to, bob)).status === 200, 'nobody was logged out');
});
