// Providers that share a server, as realms and tenants do: one that takes requests and says nothing keeps nobody from the others. By the verbs that edges call,
// at a copy of postern-identity of the story's own.
import assert from 'node:assert/strict';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { another } from '../support/copies.mjs';
import { gitlab } from '../support/gitlab.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { elsewhere, env, until } from '../support/postern.mjs';
import { seal } from '../support/sealed.mjs';

const options = { skip: elsewhere }, OK = 0, SIGN_IN_UNAVAILABLE = 237;
let count = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');

test('a provider that hangs keeps nobody from another one of the same server', options, async (t) => {
  const server = await gitlab(), mine = account(), socket = `ipc://${env.POSTERN_RUN_DIR}/silent-provider-${process.pid}.rpc`;
  const copy = another('identity', { POSTERN_RPC: socket, POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: server.ca, POSTERN_OUT_CONNECT: '' });
  const bus = caller(edgeKey(), 'identity', socket);
  t.after(async () => { bus.stop(); await copy.stop(); server.stop(); });
  await bus.there();
  let asked = 0;
  server.metadata = (realm, answer) => {
    const issuer = `${server.url}/realms/${realm}`;
    if (realm === 'hangs') return asked++; // is never answered
    return answer({ issuer, authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`, response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['RS256'] });
  };
  const begun = async (id) => { await until(() => bus.answer(id), 'an answer', 90000); return bus.answer(id); };
  // The id of the question that asks the provider of that realm.
  const login = async (realm) => {
    const config = { enabled: true, cookie_prefix: 'postern.', issuer: `${server.url}/realms/${realm}`, client_id: 'x', client_secret: 'y', scopes: [] };
    const sealed = seal({ route: `edghtsrt_${ksuid()}`, account: mine.id, edge: `edghts_${ksuid()}`, module: 'oidc', config });
    const begin = await begun(bus.ask('sign_in.begin', { sealed, host: `app-${ksuid()}.example.test`, target: '/' }));
    assert.equal(begin.code, OK, begin.msg);
    return bus.ask('sign_in.login', { sealed, ticket: new URL(begin.body.location).searchParams.get('t').split('.')[1] });
  };
  const lost = await begun(await login('hangs'));
  assert.equal(lost.code, SIGN_IN_UNAVAILABLE, lost.msg);
  assert.equal(asked, 1);
  for (let i = 0; i < 5; i++) {
    const other = await begun(await login(`one-${i}`));
    assert.equal(other.code, OK, other.msg);
    assert.ok(other.body.location.startsWith(`${server.url}/realms/one-${i}/auth?`));
  }
  // One finds out whether it answers again, and those of other realms do not wait for that one.
  let finding;
  while (asked < 2) {
    finding = await login('hangs');
    await until(() => asked > 1 || bus.answer(finding), 'it is asked again, or refused at once', 90000);
  }
  const other = await begun(await login('two'));
  assert.equal(other.code, OK, other.msg);
  assert.equal((await begun(finding)).code, SIGN_IN_UNAVAILABLE);
});

// A realm whose token endpoint hangs, at a server that others share: codes that nobody made are enough to have it asked.
test('of the requests at a server one URL has a portion, and the others of it are asked on', options, async (t) => {
  const server = await gitlab(), mine = account(), socket = `ipc://${env.POSTERN_RUN_DIR}/url-portion-${process.pid}.rpc`;
  const copy = another('identity', { POSTERN_RPC: socket, POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: server.ca, POSTERN_OUT_CONNECT: '', POSTERN_OUT_ACCOUNT_CALLS: '16' });
  const bus = caller(edgeKey(), 'identity', socket);
  t.after(async () => { bus.stop(); await copy.stop(); server.stop(); });
  await bus.there();
  let open = 0, most = 0;
  server.metadata = (realm, answer) => {
    const issuer = `${server.url}/realms/${realm}`;
    return answer({ issuer, authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`, response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['RS256'] });
  };
  server.other = (request, response) => { // is never answered
    if (request.url !== '/realms/hangs/token') return false;
    most = Math.max(most, ++open);
    response.on('close', () => open--);
    return true;
  };
  const begun = async (id) => { await until(() => bus.answer(id), 'an answer', 90000); return bus.answer(id); };
  const sealedOf = (realm) => seal({ route: `edghtsrt_${ksuid()}`, account: mine.id, edge: `edghts_${ksuid()}`, module: 'oidc', config: { enabled: true, cookie_prefix: 'postern.', issuer: `${server.url}/realms/${realm}`, client_id: 'x', client_secret: 'y', scopes: [] } });
  const login = async (sealed) => {
    const begin = await begun(bus.ask('sign_in.begin', { sealed, host: `app-${ksuid()}.example.test`, target: '/' }));
    return begun(bus.ask('sign_in.login', { sealed, ticket: new URL(begin.body.location).searchParams.get('t').split('.')[1] }));
  };
  const hangs = sealedOf('hangs'), flow = await login(hangs);
  assert.equal(flow.code, OK, flow.msg);
  const state = new URL(flow.body.location).searchParams.get('state');
  const back = Array.from({ length: 20 }, () => bus.ask('sign_in.callback', { sealed: hangs, state, params: { code: ['made-up'], state: [state] }, at: new URL(new URL(flow.body.location).searchParams.get('redirect_uri')).pathname.split('/').at(-1), cookie: flow.body.cookie, ip: '192.0.2.9', user_agent: 'x' }));
  await until(() => most >= 7, 'its portion is asked', 90000);
  const other = await login(sealedOf('answers'));
  assert.equal(other.code, OK, other.msg);
  for (const id of back) assert.equal((await begun(id)).code, SIGN_IN_UNAVAILABLE);
  assert.ok(most < 12, `one URL has had ${most} of the 12`);
});
