// Sign-ins with OpenID Connect by the verbs that edges call, at npm's oidc-provider: every algorithm of ID tokens, keys that change, a provider
// that is down, what it says later. What hostile tokens do is in the unit tests (tests/unit/test_oidc_token.c). The copy of postern-identity is the story's own.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { another } from '../support/copies.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { elsewhere, env, must, until } from '../support/postern.mjs';
import { seal } from '../support/sealed.mjs';

const options = { skip: elsewhere };
const CODE = { PROVIDER: 236, UNAVAILABLE: 237, DENIED: 235, GONE: 238, STALE: 239 };
const hex = (text) => crypto.createHash('sha256').update(text).digest('hex');
const place = (issuer) => hex(issuer).slice(0, 24);
const CLIENT = { client_id: 'postern', client_secret: 'canary-client-secret:+%/', redirect_uris: (issuer) => `https://idp.example.test/oauth2/callback/${place(issuer)}` };
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
let count = 0;
const ksuid = () => `oidc${Date.now().toString(36)}${(count++).toString(36)}`.padStart(27, '0');

const providers = {};
let copy, edge, authorities;
if (!elsewhere) {
  for (const algorithm of ALGORITHMS) {
    const method = algorithm === 'PS256' ? 'client_secret_post' : 'client_secret_basic';
    providers[algorithm] = await oidcProvider({ algorithm, clients: [{ ...CLIENT, token_endpoint_auth_method: method }] });
  }
  authorities = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-authorities-'));
  fs.chmodSync(authorities, 0o755);
  fs.writeFileSync(`${authorities}/all.pem`, Object.values(providers).map(({ ca }) => fs.readFileSync(ca)).join(''));
  const socket = `ipc://${env.POSTERN_RUN_DIR}/oidc-${process.pid}.rpc`;
  copy = another('identity', { POSTERN_RPC: socket, POSTERN_IDP_URL: 'https://idp.example.test', POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: `${authorities}/all.pem`, POSTERN_OUT_CONNECT: '' });
  edge = caller(edgeKey(), 'identity', socket);
  test.before(() => edge.there());
  test.after(async () => {
    edge.stop();
    await copy.stop();
    for (const provider of Object.values(providers)) provider.stop();
    fs.rmSync(authorities, { recursive: true });
  });
}
async function ask(verb, body) {
  const id = edge.ask(verb, body);
  await until(() => edge.answer(id), `an answer to ${verb}`);
  return edge.answer(id);
}

function module(provider, changed = {}) {
  const route = `edghtsrt_${ksuid()}`;
  const sealed = (fields = {}) => seal({ route, account: env.POSTERN_ACCOUNT, edge: `edghts_${ksuid()}`, module: 'oidc', config: {
    enabled: true, options_passthrough: false, cookie_prefix: '', inactivity_timeout: 0, maximum_duration: 0, issuer: provider.issuer,
    client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile', 'groups'], ...changed, ...fields } });
  return { route, host: `app-${ksuid()}.example.test`, sealed: sealed(), with: sealed, provider };
}
async function begun(at, more = {}) {
  const begin = await ask('sign_in.begin', { sealed: at.sealed, host: at.host, target: '/deep', ...more });
  assert.equal(begin.code, 0, begin.msg);
  const ticket = new URL(begin.body.location).searchParams.get('t').split('.')[1];
  return { at, nonce: begin.body.nonce, login: await ask('sign_in.login', { sealed: at.sealed, ticket }) };
}
const back = ({ at, login }, params) => ask('sign_in.callback', { sealed: at.sealed, state: params.state[0], params, at: place(at.provider.issuer), cookie: login.body.cookie, ip: '192.0.2.9', user_agent: 'story' });
async function signedIn(at, sub) {
  const flow = await begun(at);
  assert.equal(flow.login.code, 0, flow.login.msg);
  const answer = await back(flow, await at.provider.signIn(flow.login.body.location, sub));
  assert.equal(answer.code, 0, answer.msg);
  const redeemed = await ask('sign_in.redeem', { sealed: at.sealed, code: new URL(answer.body.location).searchParams.get('code'), nonce: flow.nonce, host: at.host, ip: '192.0.2.9', user_agent: 'story' });
  assert.equal(redeemed.code, 0, redeemed.msg);
  return redeemed.body;
}

test('somebody signs in, whatever algorithm the provider signs with, and the API shows who it is', options, async () => {
  for (const algorithm of ALGORITHMS) {
    const at = module(providers[algorithm]), { session } = await signedIn(at, 'alice');
    assert.deepEqual([session.provider_user_id, session.email, session.name, session.groups], ['alice', 'alice@example.test', 'Alice Liddell', ['staff', 'admins']], algorithm);
    const user = await must('GET', `/app/users/${session.user}`);
    assert.deepEqual([user.identity_provider.name, user.identity_provider.url, user.username], ['oidc', at.provider.issuer, 'alice']);
  }
});

test('metadata and keys are asked for once, and keys again when the provider has changed them, at most once a minute', options, async () => {
  const provider = providers.ES256, at = module(provider);
  await signedIn(at, 'alice');
  const before = { ...provider.calls };
  await signedIn(at, 'bob');
  assert.equal(provider.calls.discovery, before.discovery);
  assert.equal(provider.calls.jwks, before.jwks);
  provider.rotate();
  const flow = await begun(at), answer = await back(flow, await provider.signIn(flow.login.body.location));
  // Within the minute after they were fetched, which a slow machine may have spent.
  if (answer.code) assert.match(answer.msg, /cannot be fetched anew now/);
  assert.equal(provider.calls.jwks, before.jwks + (answer.code ? 0 : 1));
});

test('a sign-in that the person refuses, and a provider that is down, are told apart', options, async () => {
  const provider = providers.RS256, at = module(provider), flow = await begun(at);
  provider.refuse = true;
  const refused = await back(flow, await provider.signIn(flow.login.body.location));
  provider.refuse = false;
  assert.ok([CODE.DENIED, CODE.PROVIDER].includes(refused.code), refused.msg);
  assert.match(refused.msg, /access_denied/);
  const again = await begun(at), params = await provider.signIn(again.login.body.location);
  provider.down = true;
  try { assert.equal((await back(again, params)).code, CODE.UNAVAILABLE); } finally { provider.down = false; }
  assert.equal((await back(again, params)).code, 0);
});

test('who is to be somebody else is asked to sign in, and an issuer of another spelling is refused', options, async () => {
  const provider = providers.RS256, forced = await begun(module(provider), { force: true });
  assert.equal(new URL(forced.login.body.location).searchParams.get('prompt'), 'login');
  const { login } = await begun(module(provider, { issuer: `${provider.issuer}/` }));
  assert.equal(login.code, CODE.PROVIDER);
  assert.match(login.msg, /another issuer/);
  for (const params of [{ iss: ['https://evil.example.test'] }, { iss: undefined }]) {
    const flow = await begun(module(provider)), brought = await provider.signIn(flow.login.body.location), mixed = { ...brought, ...params };
    if (!mixed.iss) delete mixed.iss;
    const answer = await back(flow, mixed);
    assert.equal(answer.code, CODE.PROVIDER);
    assert.match(answer.msg, /iss/);
  }
});

test('a session that another client was granted ends with the client, whatever its tokens are good for', options, async () => {
  const at = module(providers.ES384), { token, session } = await signedIn(at, 'alice'), before = { ...providers.ES384.calls };
  const ended = await ask('session.check', { hash: hex(token), route: at.route, digest: 'e'.repeat(64), sealed: at.with({ client_id: 'another' }) });
  assert.equal(ended.code, CODE.DENIED, ended.msg);
  assert.match(ended.msg, /another client/);
  assert.deepEqual(providers.ES384.calls, before, 'the provider is not asked');
  assert.equal((await ask('session.check', { hash: hex(token), route: at.route, digest: session.digest })).code, CODE.GONE);
});

test('a session whose rules have changed is as good as what the provider says now; a grant that is revoked ends it', options, async () => {
  const provider = providers.EdDSA, at = module(provider), { token, session } = await signedIn(at, 'bob');
  const check = (more) => ask('session.check', { hash: hex(token), route: at.route, digest: session.digest, ...more });
  const changed = { digest: 'f'.repeat(64), sealed: at.with({ scopes: ['email', 'profile', 'groups', 'offline_access'] }) };
  assert.equal((await check()).code, 0);
  assert.equal((await check({ digest: changed.digest })).code, CODE.STALE);
  const before = provider.calls.token;
  provider.accounts.bob.name = 'Robert Dodgson';
  const renewed = await check(changed);
  assert.equal(renewed.code, 0, renewed.msg);
  assert.equal(renewed.body.session.name, 'Robert Dodgson');
  assert.equal(provider.calls.token, before + 1);
  await provider.revoke('bob');
  sql(`UPDATE sign_in_session SET due_ms = 1 WHERE session_id = '${session.id}'`);
  const ended = await check({ digest: renewed.body.session.digest, sealed: changed.sealed });
  assert.equal(ended.code, CODE.DENIED, ended.msg);
});
