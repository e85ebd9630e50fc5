// Signing in at the edge with OpenID Connect, at npm's oidc-provider: what a person sees and what the upstream learns, over HTTP/1.1 and
// HTTP/2, until the session is revoked. How tokens are judged is the story of tests/e2e/sign-in-oidc.test.mjs.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { api, ca, edge, elsewhere, endpoint, env, listed, must, through, until, upstream } from '../support/postern.mjs';
import { Browser } from '../support/browser.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', IDP = `https://idp.localhost:${edge.port}`;
const callback = (issuer) => `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback };
const authority = process.env.STORY_UPSTREAM_TLS;
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const provider = skip ? null : await oidcProvider({ port: edge.port - 43 + 98, clients: [CLIENT], signed });
test.after(() => provider?.stop());

const oidc = (fields = {}) => ({ issuer: provider.issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile', 'groups'], ...fields });
async function guarded(fields = {}) {
  const up = await upstream((request, response) => response.end(JSON.stringify(request.headers)));
  return { up, to: await endpoint(up.address, { oidc: oidc(fields) }) };
}
async function signedIn(to, sub = 'alice', path = '/') {
  const browser = new Browser();
  const away = await browser.go(`https://${to.host}:${edge.port}${path}`, { stop: (location) => location.startsWith(provider.issuer) });
  const asked = new URL(away.headers.location), params = await provider.signIn(asked.href, sub), back = new URL(callback(provider.issuer));
  for (const [name, values] of Object.entries(params)) back.searchParams.set(name, values[0]);
  const last = await browser.go(back.href);
  return { browser, asked, last, value: browser.cookies.get(`${to.host}:${edge.port}`)?.get(SESSION) };
}

test('a person signs in at an issuer, and the upstream learns who it is', { skip }, async () => {
  const { up, to } = await guarded();
  const { asked, last, value } = await signedIn(to, 'alice', '/deep?x=1');
  assert.deepEqual([last.status, last.url], [200, `https://${to.host}:${edge.port}/deep?x=1`]);
  assert.deepEqual(['response_type', 'client_id', 'redirect_uri', 'code_challenge_method'].map((name) => asked.searchParams.get(name)), ['code', 'postern', callback(provider.issuer), 'S256']);
  const headers = JSON.parse(last.body);
  assert.deepEqual([headers['ngrok-auth-user-id'], headers['ngrok-auth-user-email'], headers['ngrok-auth-user-name'], headers['postern-auth-user-groups'], headers.cookie], ['alice', 'alice@example.test', 'Alice Liddell', 'staff,admins', undefined]);
  const users = (await listed('/app/users')).filter(({ identity_provider: by }) => by.url === provider.issuer);
  assert.deepEqual(users.map(({ provider_user_id: id, email }) => [id, email]), [['alice', 'alice@example.test']]);
  assert.equal((await through(to.host, '/', { headers: { 'Sec-Fetch-Mode': 'cors' } })).status, 401);
  assert.equal((await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status, 200);
  await up.close();
});

test('over HTTP/2 a session is found in every spelling of its cookies, and ends on all connections at once', { skip }, async () => {
  const { up, to } = await guarded();
  const { value } = await signedIn(to, 'bob');
  const session = http2.connect(`https://${to.host}:${edge.port}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] }) });
  const ask = (cookie) => new Promise((resolve, reject) => {
    const stream = session.request({ ':path': '/', ':authority': `${to.host}:${edge.port}`, cookie });
    stream.on('response', (headers) => resolve(headers[':status'])).on('error', reject).resume();
  });
  try {
    assert.deepEqual(await Promise.all([ask(`${SESSION}=${value}`), ask([`a=b`, `${SESSION}=${value}`, 'c=d']), ask(`x; ;${SESSION}=${value}; y=`), ask(`${SESSION}=${value}; ${SESSION}=${value}`), ask(`${SESSION}=${value}x`)]), [200, 200, 200, 401, 401]);
    const bob = (await listed('/app/users')).find(({ identity_provider: by, provider_user_id: id }) => by.url === provider.issuer && id === 'bob');
    const gone = await api('DELETE', `/app/users/${bob.id}`);
    assert.deepEqual([gone.status, ...new Set(gone.headers['postern-edges'].split('/'))], [204, gone.headers['postern-edges'].split('/')[0]]);
    assert.deepEqual(new Set(await Promise.all(Array.from({ length: 100 }, () => ask(`${SESSION}=${value}`)))), new Set([401]));
  } finally { session.destroy(); }
  assert.equal((await signedIn(to, 'bob')).last.status, 200, 'who signs in again is there again');
  await up.close();
});

test('who is deleted while a sign-in of theirs is under way has to begin anew', { skip }, async () => {
  const { up, to } = await guarded(), sub = 'bob', bring = new URL(callback(provider.issuer)), browser = new Browser();
  const users = async () => (await listed('/app/users')).filter(({ identity_provider: by, provider_user_id: id }) => by.url === provider.issuer && id === sub);
  await signedIn(to, sub);
  const away = await browser.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(provider.issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, sub))) bring.searchParams.set(name, values[0]);
  await must('DELETE', `/app/users/${(await users())[0].id}`);
  assert.equal((await browser.go(bring.href)).status, 400, 'the provider let them in before');
  assert.deepEqual([browser.cookies.get(`${to.host}:${edge.port}`)?.get(SESSION), await users()], [undefined, []]);
  assert.equal((await signedIn(to, sub)).last.status, 200);
  await must('DELETE', `/app/users/${(await users())[0].id}`);
  await up.close();
});

test('an issuer in a private or link-local network is not asked, and the log alone says why', { skip }, async () => {
  const log = `${env.POSTERN_LOG_DIR}/identity.log`;
  for (const [at, why] of [['10.1.2.3', '10.1.2.3 is of a private network, and POSTERN_OUT_ALLOWED does not have it'], ['192.168.0.1', '192.168.0.1 is of a private network, and POSTERN_OUT_ALLOWED does not have it'],
    ['[fd12::1]', 'fd12::1 is of a private network, and POSTERN_OUT_ALLOWED does not have it'], ['169.254.169.254', '169.254.169.254 is a link-local, '], ['127.0.0.1:1', '127.0.0.1 is a loopback address that POSTERN_OUT_ALLOWED does not have']]) {
    const from = fs.statSync(log).size, { up, to } = await guarded({ issuer: `https://${at}` });
    const last = await new Browser().go(`https://${to.host}:${edge.port}/`);
    assert.equal(last.status, 503, at);
    assert.match(last.body, /ERR_POSTERN_953/);
    assert.doesNotMatch(last.body, /private network|link-local|OUT_ALLOWED/);
    const line = await until(() => fs.readFileSync(log, 'utf8').slice(from).match(/^.* warn identity no request for account ac_\w+ goes to .*$/gm)?.find((one) => one.includes(` goes to '${at}'`)), 'the log says why');
    assert.ok(line.includes(` goes to '${at}': ${why}`), line);
    await up.close();
  }
});

test('an issuer that is down lets nobody in, and nobody who is in out', { skip }, async () => {
  const { up, to } = await guarded();
  const { value } = await signedIn(to);
  provider.down = true;
  try {
    const other = await guarded({ client_id: 'another' }); // nothing is known of it yet but the issuer
    assert.equal((await through(to.host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status, 200);
    const browser = new Browser();
    const away = await browser.go(`https://${other.to.host}:${edge.port}/`, { stop: (location) => location.startsWith(provider.issuer) });
    assert.ok([302, 503].includes(away.status), `${away.status} ${away.url}`);
    await other.up.close();
  } finally { provider.down = false; }
  await up.close();
});

// A hostile account's issuer sends a browser on to an honest provider, with the client and the challenge of a flow that the attacker began at
// another account's route, and hopes to be brought the code (RFC 9700 4.4).
test('a code is brought to no provider but the one whose callback it came to', { skip }, async () => {
  const evil = await oidcProvider({ port: edge.port - 43 + 97, clients: [CLIENT], signed });
  try {
    const { up, to } = await guarded(), trap = await guarded({ issuer: evil.issuer });
    const attacker = new Browser(), victim = new Browser();
    const asked = new URL((await attacker.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(provider.issuer) })).headers.location);
    const lured = new URL((await victim.go(`https://${trap.to.host}:${edge.port}/`, { stop: (location) => location.startsWith(evil.issuer) })).headers.location);
    asked.searchParams.set('state', lured.searchParams.get('state'));
    const { code, state, iss } = await provider.signIn(asked.href, 'alice');
    const calls = { ...evil.calls };
    for (const place of [callback(provider.issuer), `${IDP}/oauth2/callback`]) {
      const back = new URL(place);
      back.searchParams.set('code', code[0]);
      back.searchParams.set('state', state[0]);
      const answer = await victim.go(back.href);
      assert.deepEqual([answer.status, /ERR_POSTERN_\d+/.exec(answer.body)?.[0]], [400, 'ERR_POSTERN_952'], place);
    }
    assert.deepEqual(evil.calls, calls, 'evil was told nothing');
    assert.equal(trap.up.seen.length, 0);
    // where the honest provider says who it is, its word is asked for as well
    assert.deepEqual(iss, [provider.issuer]);
    await up.close();
    await trap.up.close();
  } finally { evil.stop(); }
});
