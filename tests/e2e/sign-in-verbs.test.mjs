// The verbs of a sign-in, asked over the bus with an edge's key: what is foreign, late, forged or too large is refused, and nothing
// is stored for it. Sessions are written as redeem writes them where a story is about what comes after.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import test from 'node:test';
import { caller, edgeKey } from '../support/peer.mjs';
import { api, elsewhere, env, listening, must, until } from '../support/postern.mjs';
import { seal } from '../support/sealed.mjs';

const options = { skip: elsewhere };
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
const CODE = { INVALID_FIELD: 121, REQUIRED_MISSING: 122, BODY_TOO_LARGE: 117, DENIED: 190, SIGN_IN_STATE: 233, SIGN_IN_CODE: 234, SIGN_IN_UNAVAILABLE: 237, SESSION_GONE: 238, SESSION_STALE: 239 };
let count = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');
const token = () => crypto.randomBytes(32).toString('base64url');
const hex = (text) => crypto.createHash('sha256').update(text).digest('hex');
const route = () => `edghtsrt_${ksuid()}`;
const sealedOf = (module, config, at = route()) => ({ at, sealed: seal({ route: at, account: env.POSTERN_ACCOUNT, edge: `edghts_${ksuid()}`, module, config }) });
const none = { enabled: true };

let edge;
async function ask(verb, body, more) {
  edge ??= caller(edgeKey(), 'identity', `ipc://${env.POSTERN_RUN_DIR}/identity.rpc`);
  const id = edge.ask(verb, body, more);
  await until(() => edge.answer(id), `an answer to ${verb}`);
  return edge.answer(id);
}
test.after(() => edge?.stop());

// A session as redeem writes it, of a new user; times in ms from now.
function addSession({ at = route(), account = env.POSTERN_ACCOUNT, user = `app_user_${ksuid()}`, digest = hex('rules'), ends = 3600000, module = 'oidc', inactivity = 0, due = 0, active = 0 } = {}) {
  const now = Date.now(), id = `app_sess_${ksuid()}`, value = token(), hash = hex(value);
  sql(`INSERT INTO object (id, account_id, kind) VALUES ('${user}', '${account}', 'application_user') ON CONFLICT DO NOTHING;
       INSERT INTO application_user VALUES ('${user}', '${account}', '2026-01-02T03:04:05Z', '{"name": "oidc", "url": "https://issuer.test"}', '${user}', 'ada', 'ada@example.test', 'Ada', '2026-01-03T03:04:05Z', '2026-01-04T03:04:05Z', 'https://issuer.test') ON CONFLICT DO NOTHING;
       INSERT INTO object (id, account_id, kind, parent_id) VALUES ('${id}', '${account}', 'application_session', '${user}');
       INSERT INTO application_session (id, account_id, created_at, public_url, browser_session, application_user_id, last_active, expires_at, route_id, token_hash) VALUES ('${id}', '${account}', '2026-01-02T03:04:05Z', 'https://app.example.test', '{"user_agent": {"raw": "", "browser_name": "", "browser_version": "", "device_type": "", "os_name": "", "os_version": ""}, "ip_address": "192.0.2.7", "location": null}', '${user}', '2026-01-03T03:04:05Z', '2126-02-02T03:04:05Z', '${at}', '${hash}');
       INSERT INTO sign_in_session (session_id, module, digest, groups, email_verified, tokens, created_ms, expires_ms, inactivity_ms, last_active_ms, checked_ms, due_ms)
         VALUES ('${id}', '${module}', '${digest}', '["staff"]', true, '', ${now}, ${now + ends}, ${inactivity}, ${now + active}, ${now}, ${due ? now + due : 0})`);
  return { id, user, at, value, hash, digest, now };
}
const check = (session, more = {}) => ask('session.check', { hash: session.hash, route: session.at, digest: session.digest, ...more });

test('a sign-in by a module that cannot be signed in by is refused, and nothing is stored', options, async () => {
  const { sealed } = sealedOf('no_such_module', none), codes = sql('SELECT count(*) FROM sign_in_code');
  const answer = await ask('sign_in.begin', { sealed, host: 'app.example.test', target: '/' });
  assert.equal(answer.code, CODE.SIGN_IN_UNAVAILABLE);
  assert.match(answer.msg, /cannot sign anybody in by the module no_such_module/);
  assert.equal(sql('SELECT count(*) FROM sign_in_code'), codes);
});

test('what postern-routes did not seal opens nothing', options, async () => {
  const { sealed } = sealedOf('oidc', none);
  const turned = (at) => sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1);
  const bodies = { 'sign_in.begin': { host: 'app.example.test' }, 'sign_in.login': { ticket: 'x' }, 'sign_in.callback': { state: 'x', params: {} }, 'sign_in.redeem': { code: token(), nonce: token(), host: 'a' } };
  for (const [verb, body] of Object.entries(bodies)) {
    assert.equal((await ask(verb, body)).code, CODE.REQUIRED_MISSING, verb);
    for (const wrong of ['', 'x', '{}', sealed.slice(1), sealed.slice(0, -4), turned(0), turned(40), turned(sealed.length - 9), seal('{}'), seal({ route: 1 })])
      assert.equal((await ask(verb, { ...body, sealed: wrong })).code, CODE.INVALID_FIELD, `${verb} ${wrong.slice(0, 20)}`);
  }
});

test('a code that nobody made is no code, whatever it looks like', options, async () => {
  const { sealed } = sealedOf('oidc', none);
  for (const code of [token(), '', 'x', token().slice(1), `${token()}=`, "' OR true --", 5, null]) {
    const answer = await ask('sign_in.redeem', { sealed, code, nonce: token(), host: 'app.example.test', ip: '192.0.2.1', user_agent: 'x' });
    assert.equal(answer.code, CODE.SIGN_IN_CODE, String(code));
  }
});

test('a request has room for the metadata of SAML, and no more; another verb has none', options, async () => {
  const { sealed } = sealedOf('no_such_module', { idp_metadata: 'x'.repeat(262144) });
  assert.equal((await ask('sign_in.begin', { sealed, host: 'a' })).code, CODE.SIGN_IN_UNAVAILABLE);
  assert.equal((await ask('sign_in.begin', { sealed, host: 'a', target: 'x'.repeat(200000) })).code, CODE.BODY_TOO_LARGE);
  assert.equal((await ask('session.touch', { sessions: 'x'.repeat(70000) })).code, CODE.BODY_TOO_LARGE);
});

test('with an edge\'s key nobody calls what is not for edges, nor the gateway what is', options, async () => {
  for (const verb of ['account.create', 'api_key.authenticate', 'self.get', 'sign_in.tidy', 'application_session.delete', 'application_user.list', 'vault.list'])
    assert.equal((await ask(verb, {}, { account: env.POSTERN_ACCOUNT })).code, CODE.DENIED, verb);
  const gateway = caller('gateway', 'identity', `ipc://${env.POSTERN_RUN_DIR}/identity.rpc`);
  try {
    for (const verb of ['sign_in.begin', 'sign_in.redeem', 'session.check', 'session.end']) {
      const id = gateway.ask(verb, {});
      await until(() => gateway.answer(id), verb);
      assert.equal(gateway.answer(id).code, CODE.DENIED, verb);
    }
  } finally { gateway.stop(); }
});

test('a session is told to the edge of its route, and to no other', options, async () => {
  const session = addSession({ due: 600000, inactivity: 900000 });
  const { code, body } = await check(session);
  assert.equal(code, 0);
  assert.deepEqual(body.session, {
    id: session.id, user: session.user, route: session.at, digest: session.digest, provider_user_id: session.user, name: 'Ada', email: 'ada@example.test', groups: ['staff'],
    created_ms: session.now, expires_ms: session.now + 3600000, due_ms: session.now + 600000, inactivity_ms: 900000, last_active_ms: session.now, checked_ms: session.now,
  });
  assert.equal((await check(session, { route: route() })).code, CODE.SESSION_GONE);
  assert.equal((await check(session, { hash: hex('x') })).code, CODE.SESSION_GONE);
  for (const wrong of [{ hash: 'x' }, { hash: session.hash.toUpperCase() }, { route: 'x' }, { digest: '' }, { digest: 5 }, { hash: null }])
    assert.equal((await check(session, wrong)).code, CODE.INVALID_FIELD, JSON.stringify(wrong));
});

test('a session that is due, or was admitted by other rules, is checked with the rules as they are', options, async () => {
  const due = addSession({ due: -1, module: 'no_such_module' }), other = addSession();
  assert.equal((await check(due)).code, CODE.SESSION_STALE);
  assert.equal((await check(other, { digest: hex('other rules') })).code, CODE.SESSION_STALE);
  const foreign = sealedOf('no_such_module', none);
  assert.equal((await check(due, { sealed: foreign.sealed })).code, CODE.SESSION_GONE, "another route's rules");
  const account = seal({ route: due.at, account: 'ac_other', edge: 'edghts_x', module: 'no_such_module', config: none });
  assert.equal((await check(due, { sealed: account })).code, CODE.SESSION_GONE, "another account's");
  const { sealed } = sealedOf('no_such_module', none, due.at);
  assert.equal((await check(due, { sealed })).code, CODE.SIGN_IN_UNAVAILABLE);
  assert.equal((await check(due, { sealed: seal('{}') })).code, CODE.INVALID_FIELD);
  for (const [module, config] of [['oidc', none], ['no_such_module', { ...none, made_id: 'made_2' }]])
    assert.equal((await check(due, { sealed: sealedOf(module, config, due.at).sealed })).code, CODE.SESSION_GONE, 'of a module that the route had before');
});

test('a host that is no text is refused, and one that is another or too long is not the session\'s', options, async () => {
  const session = addSession();
  for (const host of [5, null, true, {}, [], ['app.example.test'], { host: 'app.example.test' }]) {
    const { code, msg } = await check(session, { host });
    assert.equal(code, CODE.INVALID_FIELD, JSON.stringify(host));
    assert.match(msg, /host/);
  }
  for (const host of ['', ' ', 'x'.repeat(255), 'x'.repeat(256), 'x'.repeat(60000), 'other.example.test', "' OR true --", 'a\nb'])
    assert.equal((await check(session, { host })).code, CODE.SESSION_GONE, host.slice(0, 20));
  assert.equal((await check(session)).code, 0, 'it is there');
});

test('a module whose revision is none is older than every other, and one beyond all numbers is none', options, async () => {
  const session = addSession({ module: 'no_such_module' });
  sql(`UPDATE sign_in_session SET rules_revision = 5 WHERE session_id = '${session.id}'`);
  const sealed = (revision) => seal(`{"route": "${session.at}", "account": "${env.POSTERN_ACCOUNT}", "edge": "edghts_x", "module": "no_such_module", "config": {"enabled": true${revision === undefined ? '' : `, "revision": ${revision}`}}}`);
  const asked = async (revision) => (await check(session, { digest: hex('other rules'), sealed: sealed(revision) })).code;
  for (const revision of [undefined, '4', '0', '-1', '-9223372036854775808', '"7"', 'null', 'true', '[7]', '{}', '7.5', '1e300']) assert.equal(await asked(revision), CODE.SESSION_STALE, revision);
  for (const revision of ['9223372036854775808', '-9223372036854775809', '9'.repeat(5000), '1e999']) assert.equal(await asked(revision), CODE.INVALID_FIELD, revision);
  for (const revision of ['5', '9223372036854775807']) assert.equal(await asked(revision), CODE.SIGN_IN_UNAVAILABLE, 'a newer one is asked by');
  assert.equal((await check(session)).code, 0, 'none of them has ended it');
});

test('a session is over when it ends, or was not used for too long, as its edge and others have seen', options, async () => {
  assert.equal((await check(addSession({ ends: -1 }))).code, CODE.SESSION_GONE);
  const idle = addSession({ inactivity: 60000, active: -60001 });
  assert.equal((await check(idle)).code, CODE.SESSION_GONE);
  const seen = await check(idle, { last_active_ms: Date.now() - 1000 });
  assert.equal(seen.code, 0, 'its edge knows better');
  const future = await check(idle, { last_active_ms: Date.now() + 1e9 });
  assert.ok(future.body.session.last_active_ms <= Date.now(), 'but not of the future');
});

test('touches keep the newest of what edges have seen, and nothing of the future', options, async () => {
  const one = addSession({ active: -500000 }), other = addSession({ active: -500000 }), at = Date.now() - 1000;
  const touch = (sessions) => ask('session.touch', { sessions });
  assert.equal((await touch([{ hash: one.hash, last_active_ms: at }, { hash: one.hash, last_active_ms: at - 5 }, { hash: other.hash, last_active_ms: at + 1e9 }, { hash: hex('nobody'), last_active_ms: at }])).code, 0);
  assert.equal((await check(one)).body.session.last_active_ms, at);
  assert.ok((await check(other)).body.session.last_active_ms <= Date.now());
  assert.equal((await touch([{ hash: one.hash, last_active_ms: at - 400000 }])).code, 0);
  assert.equal((await check(one)).body.session.last_active_ms, at, 'never back');
  const shown = (await must('GET', `/app/sessions/${one.id}`)).last_active;
  assert.equal(Date.parse(shown), Math.floor(at / 1000) * 1000);
  assert.equal((await must('GET', `/app/users/${one.user}`)).last_active, shown);
  for (const wrong of [undefined, {}, [{}], [{ hash: 'x', last_active_ms: 1 }], [{ hash: one.hash }], [{ hash: one.hash, last_active_ms: 'x' }], Array.from({ length: 513 }, () => ({ hash: one.hash, last_active_ms: 1 }))])
    assert.equal((await ask('session.touch', wrong === undefined ? {} : { sessions: wrong })).code, CODE.INVALID_FIELD, JSON.stringify(wrong)?.slice(0, 50));
  assert.equal((await touch(Array.from({ length: 512 }, () => ({ hash: one.hash, last_active_ms: at })))).code, 0);
});

test('sign-out ends a session for its own route only, once, and says who did it', options, async () => {
  const session = addSession(), sub = await listening();
  const end = (more = {}) => ask('session.end', { hash: session.hash, route: session.at, ...more });
  assert.equal((await end({ route: route() })).code, 0);
  assert.equal((await check(session)).code, 0, 'another route ends nothing');
  const first = await end();
  assert.deepEqual([first.code, first.body], [0, { ended: true, gone: false }]);
  assert.equal((await check(session)).code, CODE.SESSION_GONE);
  assert.equal((await api('GET', `/app/sessions/${session.id}`)).status, 404);
  assert.equal((await api('GET', `/app/users/${session.user}`)).status, 200);
  const again = await end();
  assert.deepEqual([again.code, again.body], [0, { ended: true, gone: true }], 'again');
  assert.ok(again.edges.live > 0 && again.edges.live === again.edges.acked, 'and in force at every edge, as the first was');
  assert.deepEqual((await end({ hash: 'f'.repeat(64) })).body, { ended: true, gone: true }, "what is nobody's");
  await until(() => sub.events.some(({ object }) => object?.id === session.id), 'its event');
  const event = sub.events.find(({ object }) => object?.id === session.id);
  assert.equal(event.event_type, 'application_session_deleted.v0');
  assert.deepEqual(event.principal, { id: session.user, subject: 'ada@example.test', source: 'SIGN_OUT', credential: null });
  await sub.stop();
});

test('a session or user that the API deletes is gone at once', options, async () => {
  const one = addSession(), other = addSession({ user: one.user });
  await must('DELETE', `/app/sessions/${one.id}`);
  assert.equal((await check(one)).code, CODE.SESSION_GONE);
  assert.equal((await check(other)).code, 0);
  await must('DELETE', `/app/users/${other.user}`);
  assert.equal((await check(other)).code, CODE.SESSION_GONE);
});

test("a session's id stands for its user, in that account", options, async () => {
  const session = addSession(), other = `ac_${ksuid()}`;
  sql(`INSERT INTO account (id, name) VALUES ('${other}', 'other')`);
  const theirs = addSession({ account: other });
  assert.equal((await must('GET', `/app/users/${session.id}`)).id, session.user);
  assert.equal((await api('GET', `/app/users/${theirs.id}`)).status, 404);
  assert.equal((await api('DELETE', `/app/users/${theirs.id}`)).status, 404);
  assert.equal((await check(theirs)).code, 0);
  await must('DELETE', `/app/users/${session.id}`);
  assert.equal((await api('GET', `/app/users/${session.user}`)).status, 404);
  assert.equal((await check(session)).code, CODE.SESSION_GONE);
});
