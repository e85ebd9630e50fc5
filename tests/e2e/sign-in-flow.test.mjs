// A whole sign-in by the verbs that edges call, at a provider that speaks as GitLab does, and what it must not be led to: of another
// browser, another route, twice, too late, by rules that do not admit. The copy of postern-identity is the story's own.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import test from 'node:test';
import { another } from '../support/copies.mjs';
import { gitlab } from '../support/gitlab.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { api, elsewhere, env, listening, must, until } from '../support/postern.mjs';
import { seal } from '../support/sealed.mjs';

const options = { skip: elsewhere }, LIMIT = 5;
const CODE = { STATE: 233, CODE: 234, DENIED: 235, PROVIDER: 236, UNAVAILABLE: 237, GONE: 238, STALE: 239 };
const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
let count = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');
const hex = (text) => crypto.createHash('sha256').update(text).digest('hex');
const person = () => { const sub = `${ksuid()}`; provider.users[sub] = { nickname: 'ada', name: 'Ada Lovelace', email: `ada-${sub}@example.test`, email_verified: true }; return sub; };

let provider, copy, edge;
if (!elsewhere) {
  provider = await gitlab();
  const socket = `ipc://${env.POSTERN_RUN_DIR}/sign-in-${process.pid}.rpc`;
  copy = another('identity', { POSTERN_RPC: socket, POSTERN_OAUTH_GITLAB_URL: provider.url, POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: provider.ca, POSTERN_OUT_CONNECT: '', POSTERN_USER_SESSIONS: String(LIMIT) });
  edge = caller(edgeKey(), 'identity', socket);
  test.before(() => edge.there());
  test.after(async () => { edge.stop(); await copy.stop(); provider.stop(); });
}
async function ask(verb, body, more) {
  const id = edge.ask(verb, body, more);
  await until(() => edge.answer(id), `an answer to ${verb}`);
  return edge.answer(id);
}

// A route's module, sealed; others: another configuration of the same route.
function module(changed = {}, more = {}) {
  const route = `edghtsrt_${ksuid()}`, edgeId = `edghts_${ksuid()}`;
  const sealed = (provider = {}, fields = {}) => seal({ route, account: env.POSTERN_ACCOUNT, edge: edgeId, module: 'oauth', config: {
    enabled: true, options_passthrough: false, cookie_prefix: 'postern.', inactivity_timeout: 0, maximum_duration: 0, auth_check_interval: 0, ...more, ...fields,
    provider: { gitlab: { client_id: 'a client', client_secret: 'canary-client-secret', scopes: [], email_addresses: [], email_domains: [], ...changed, ...provider } } } });
  return { route, edge: edgeId, host: `app-${ksuid()}.example.test`, sealed: sealed(), with: sealed };
}

async function begun(at, { target = '/deep?q=1', nonce, force } = {}) {
  const begin = await ask('sign_in.begin', { sealed: at.sealed, host: at.host, target, ...(nonce && { nonce }), ...(force && { force }) });
  assert.equal(begin.code, 0, begin.msg);
  const url = new URL(begin.body.location);
  assert.equal(url.origin + url.pathname, `${env.POSTERN_IDP_URL ?? url.origin}/login`);
  const [route, ticket] = url.searchParams.get('t').split('.');
  assert.equal(route, at.route);
  const login = await ask('sign_in.login', { sealed: at.sealed, ticket });
  assert.equal(login.code, 0, login.msg);
  return { at, nonce: begin.body.nonce, ticket, url: login.body.location, cookie: login.body.cookie };
}
const back = (flow, params, changed = {}) => ask('sign_in.callback', { sealed: flow.at.sealed, state: params.state?.[0] ?? '', params, cookie: flow.cookie, ip: '192.0.2.9', user_agent: FIREFOX, ...changed });
const redeem = (flow, code, changed = {}) => ask('sign_in.redeem', { sealed: flow.at.sealed, code, nonce: flow.nonce, host: flow.at.host, ip: '192.0.2.9', user_agent: FIREFOX, ...changed });
async function proven(at, sub, more) {
  const flow = await begun(at, more), answer = await back(flow, provider.code(sub, flow.url));
  assert.equal(answer.code, 0, answer.msg);
  const url = new URL(answer.body.location);
  assert.equal(url.origin + url.pathname, `https://${at.host}/auth/done`);
  return { ...flow, code: url.searchParams.get('code') };
}
async function signedIn(at, sub, changed) {
  const flow = await proven(at, sub), answer = await redeem(flow, flow.code, changed);
  assert.equal(answer.code, 0, answer.msg);
  return { ...answer.body, hash: hex(answer.body.token), at };
}
const check = ({ hash, at, session }, more = {}) => ask('session.check', { hash, route: at.route, digest: session.digest, ...more });
const due = (session) => sql(`UPDATE sign_in_session SET due_ms = 1 WHERE session_id = '${session.session.id}'`);

test('somebody signs in: the provider vouches, the code becomes a session, and the API shows both', options, async () => {
  const at = module(), sub = person(), sub2 = await listening();
  const flow = await begun(at), asked = new URL(flow.url).searchParams;
  assert.equal(new URL(flow.url).origin, provider.url);
  assert.equal(asked.get('client_id'), 'a client');
  assert.equal(asked.get('response_type'), 'code');
  assert.equal(asked.get('code_challenge_method'), 'S256');
  assert.match(asked.get('state'), new RegExp(`^${at.route}\\.[\\w-]{22}$`));
  assert.match(asked.get('redirect_uri'), /\/oauth2\/callback$/);
  assert.ok(flow.cookie.length <= 3800);
  const rows = sql('SELECT count(*) FROM sign_in_code');
  const answer = await back(flow, provider.code(sub, flow.url));
  assert.equal(answer.code, 0, answer.msg);
  assert.equal(Number(sql('SELECT count(*) FROM sign_in_code')), Number(rows) + 1);
  const { code, body } = await redeem(flow, new URL(answer.body.location).searchParams.get('code'));
  assert.equal(code, 0);
  assert.match(body.token, /^[\w-]{43}$/);
  assert.equal(body.target, '/deep?q=1');
  const { session } = body, user = await must('GET', `/app/users/${session.user}`), shown = await must('GET', `/app/sessions/${session.id}`);
  assert.deepEqual([session.route, session.provider_user_id, session.email, session.name], [at.route, sub, provider.users[sub].email, 'Ada Lovelace']);
  assert.equal(session.expires_ms - session.created_ms, 90 * 86400000, 'no maximum of the module');
  assert.deepEqual([session.due_ms, session.inactivity_ms], [0, 0]);
  assert.deepEqual([user.identity_provider.name, user.provider_user_id, user.username, user.email, user.name], ['gitlab', sub, 'ada', provider.users[sub].email, 'Ada Lovelace']);
  assert.equal(shown.public_url, `https://${at.host}`);
  assert.equal(shown.application_user.id, session.user);
  assert.deepEqual([shown.route.id, shown.edge.id, shown.endpoint], [at.route, at.edge, null]);
  assert.deepEqual(shown.browser_session, { user_agent: { raw: FIREFOX, browser_name: 'Firefox', browser_version: '140.0', device_type: 'desktop', os_name: 'Linux', os_version: '' }, ip_address: '192.0.2.9', location: null, network: null });
  await until(() => sub2.events.some(({ object }) => object?.id === session.id), 'its event');
  for (const [type, id] of [['application_user_created.v0', session.user], ['application_session_created.v0', session.id]]) {
    const event = sub2.events.find(({ object }) => object?.id === id);
    assert.equal(event.event_type, type);
    assert.deepEqual(event.principal, { id: session.user, subject: provider.users[sub].email, source: 'SIGN_IN', credential: null });
  }
  await sub2.stop();
  assert.equal((await check({ hash: hex(body.token), at, session })).code, 0);
  assert.equal((await check({ hash: hex(body.token), at: { route: `edghtsrt_${ksuid()}` }, session })).code, CODE.GONE, 'cookie of route A on B (CVE-2017-6807)');
});

test('who signs in again is the same user, as the provider describes him now; the old session of the browser ends', options, async () => {
  const at = module(), sub = person(), first = await signedIn(at, sub);
  provider.users[sub].name = 'Countess Lovelace';
  const other = await signedIn(module(), sub, { old: first.token });
  assert.equal((await check(first)).code, 0, 'another route ends nothing');
  const second = await signedIn(at, sub, { old: first.token });
  assert.equal(second.session.user, first.session.user);
  assert.equal(other.session.user, first.session.user);
  assert.notEqual(second.token, first.token);
  assert.equal((await check(first)).code, CODE.GONE);
  assert.equal((await must('GET', `/app/users/${first.session.user}`)).name, 'Countess Lovelace');
  await must('DELETE', `/app/users/${first.session.user}`);
  for (const one of [second, other]) assert.equal((await check(one)).code, CODE.GONE);
  assert.notEqual((await signedIn(at, sub)).session.user, first.session.user, 'a new record');
});

test('a code is redeemed once, by its browser, at its host, for its route, in time', options, async () => {
  const at = module(), sub = person(), other = module();
  for (const [what, changed] of Object.entries({ 'another browser': { nonce: crypto.randomBytes(32).toString('base64url') }, 'no nonce': { nonce: '' }, 'another host': { host: 'evil.example.test' }, 'another port': { host: `${at.host}:444` }, 'another route': { sealed: other.sealed } })) {
    const flow = await proven(at, sub);
    assert.equal((await redeem(flow, flow.code, changed)).code, CODE.CODE, what);
    assert.equal((await redeem(flow, flow.code)).code, CODE.CODE, `${what}: it is gone all the same`);
  }
  const late = await proven(at, sub);
  sql(`UPDATE sign_in_code SET expires_at = now() - interval '1 ms' WHERE code_hash = decode('${hex(late.code.slice('postern-'.length))}', 'hex')`);
  assert.equal((await redeem(late, late.code)).code, CODE.CODE);
  const twice = await proven(at, sub), both = await Promise.all([redeem(twice, twice.code), redeem(twice, twice.code), redeem(twice, twice.code)]);
  assert.deepEqual(both.map(({ code }) => code).sort(), [0, CODE.CODE, CODE.CODE]);
});

test('an answer of the provider counts for the browser, the flow and the route that asked for it, once', options, async () => {
  const at = module(), sub = person(), flow = await begun(at), stranger = await begun(at), elsewhere_ = await begun(module());
  const params = provider.code(sub, flow.url), state = params.state[0];
  for (const [what, changed] of Object.entries({
    'no cookie': { cookie: undefined }, 'another browser': { cookie: stranger.cookie }, 'a cookie of another route': { cookie: elsewhere_.cookie }, 'a ticket': { cookie: flow.ticket },
    'another state': { state: new URL(stranger.url).searchParams.get('state') }, 'no state': { state: '' }, 'another route': { sealed: elsewhere_.at.sealed },
    'the state on another route': { sealed: elsewhere_.at.sealed, state: `${elsewhere_.at.route}${state.slice(state.indexOf('.'))}` }, 'a turned cookie': { cookie: `${flow.cookie.slice(0, -1)}${flow.cookie.endsWith('A') ? 'B' : 'A'}` },
  })) {
    const body = { ...changed };
    if ('cookie' in body && body.cookie === undefined) body.cookie = '';
    assert.equal((await back(flow, params, body)).code, CODE.STATE, what);
  }
  const answer = await back(flow, params);
  assert.equal(answer.code, 0, answer.msg);
  assert.equal((await back(flow, params, { cookie: '' })).code, CODE.STATE, 'without its cookie');
  assert.equal((await back(flow, params)).code, CODE.PROVIDER, 'and an old cookie brings no second code');
  assert.equal((await ask('sign_in.login', { sealed: elsewhere_.at.sealed, ticket: flow.ticket })).code, CODE.STATE, 'a ticket of another route');
  assert.equal((await ask('sign_in.login', { sealed: at.sealed, ticket: flow.cookie })).code, CODE.STATE);
});

test('two tabs sign in side by side, each with a cookie of its own', options, async () => {
  const at = module(), sub = person(), one = await begun(at, { target: '/one' }), two = await begun(at, { target: '/two', nonce: one.nonce }), three = await begun(at, { target: '/three' });
  assert.equal(two.nonce, one.nonce);
  assert.equal((await back({ ...one, cookie: two.cookie }, provider.code(sub, one.url))).code, CODE.STATE, 'another flow\'s');
  const first = await back(one, provider.code(sub, one.url)), second = await back(two, provider.code(sub, two.url)), third = await back(three, provider.code(sub, three.url));
  const codeOf = (answer) => new URL(answer.body.location).searchParams.get('code');
  for (const [answer, target] of [[first, '/one'], [second, '/two']]) assert.equal((await redeem(one, codeOf(answer))).body.target, target);
  // a browser that began at once has several nonces, and shows them all
  assert.equal((await redeem(three, codeOf(third), { nonce: [one.nonce, three.nonce] })).body.target, '/three');
  const fourth = await proven(at, sub);
  assert.equal((await redeem(fourth, fourth.code, { nonce: [one.nonce, three.nonce] })).code, CODE.CODE, 'of another browser');
});

test('a target of another host, or of the sign-in itself, becomes the root', options, async () => {
  const sub = person();
  for (const target of ['//evil.example.test', '/\\evil.example.test', 'https://evil.example.test/', '/.//evil.example.test', '/auth/logout', `/${'x'.repeat(2048)}`, '/x\r\ny']) {
    const flow = await begun(module(), { target }), answer = await back(flow, provider.code(sub, flow.url));
    assert.equal((await redeem(flow, new URL(answer.body.location).searchParams.get('code'))).body.target, '/', target);
  }
});

test('whom the rules do not admit gets no code, and none is redeemed when the rules have changed', options, async () => {
  const at = module({ email_domains: ['other.test'] }), sub = person(), flow = await begun(at), before = sql('SELECT count(*) FROM sign_in_code');
  const denied = await back(flow, provider.code(sub, flow.url));
  assert.equal(denied.code, CODE.DENIED);
  assert.ok(denied.msg.length > 10 && !denied.msg.includes('other.test'), denied.msg);
  assert.equal(sql('SELECT count(*) FROM sign_in_code'), before);
  const open = module(), later = await proven(open, sub);
  assert.equal((await redeem(later, later.code, { sealed: open.with({ email_domains: ['other.test'] }) })).code, CODE.DENIED);
  assert.equal((await redeem(later, later.code)).code, CODE.CODE, 'and it is gone');
});

test('what a provider said is nothing to the route once that has another provider, or asks it otherwise', options, async () => {
  const sub = person(), at = module(), metadata = { enabled: true, idp_metadata: '<x/>', cookie_prefix: 'postern.', options_passthrough: false, maximum_duration: 0, inactivity_timeout: 0 };
  const others = { 'another client': at.with({ client_id: 'another client' }), 'more scopes': at.with({ scopes: ['read_api'] }),
    oidc: seal({ route: at.route, account: env.POSTERN_ACCOUNT, edge: at.edge, module: 'oidc', config: { enabled: true, issuer: 'https://issuer.test', client_id: 'x', client_secret: 'y', scopes: [] } }),
    saml: seal({ route: at.route, account: env.POSTERN_ACCOUNT, edge: at.edge, module: 'saml', config: metadata }) };
  for (const [what, sealed] of Object.entries(others)) {
    const flow = await proven(at, sub);
    assert.equal((await redeem(flow, flow.code, { sealed })).code, CODE.CODE, what);
    assert.equal((await redeem(flow, flow.code)).code, CODE.CODE, `${what}: it is gone all the same`);
  }
  const flow = await proven(at, sub);
  assert.equal((await redeem(flow, flow.code, { sealed: at.with({ email_domains: ['example.test'] }, { cookie_prefix: 'x.', maximum_duration: 3600 }) })).code, 0, 'other rules and times are no other question');
});

test('a user who is deleted has no sign-in that the provider vouched for before, and may sign in anew', options, async () => {
  const sub = person(), at = module(), first = await signedIn(at, sub), pending = await proven(at, sub), flow = await begun(at);
  await must('DELETE', `/app/users/${first.session.user}`);
  assert.equal((await redeem(pending, pending.code)).code, CODE.CODE);
  assert.equal((await api('GET', `/app/users?filter=${encodeURIComponent(`obj.provider_user_id == "${sub}"`)}`)).body.application_users.length, 0);
  const answer = await back(flow, provider.code(sub, flow.url)); // asked after the deletion
  const { code, body } = await redeem(flow, new URL(answer.body.location).searchParams.get('code'));
  assert.equal(code, 0);
  assert.notEqual(body.session.user, first.session.user, 'a new record');
});

test('that somebody was deleted is remembered as long as what was said before can be brought: a day', options, async () => {
  const names = ['a day', 'longer'].map((what) => `story ${what} ${ksuid()}`);
  sql(`INSERT INTO sign_in_ended VALUES ('${names[0]}', now() - interval '25 h'), ('${names[1]}', now() - interval '27 h')`);
  const kept = () => sql(`SELECT person_hash FROM sign_in_ended WHERE person_hash LIKE 'story %'`);
  await until(() => kept() === names[0], 'the older one is forgotten', 120000);
  sql(`DELETE FROM sign_in_ended WHERE person_hash LIKE 'story %'`);
});

test('a deletion and sign-ins of its user at the same time: none of them is a session behind it', options, async () => {
  const sub = person(), at = module();
  for (let i = 0; i < 10; i++) {
    const { session } = await signedIn(at, sub), flows = await Promise.all([proven(at, sub), proven(at, sub)]);
    const [deleted, ...made] = await Promise.all([api('DELETE', `/app/users/${session.user}`), ...flows.map((flow) => redeem(flow, flow.code))]);
    assert.equal(deleted.status, 204);
    for (const { code, body } of made) if (!code) assert.equal((await check({ hash: hex(body.token), at, session: body.session })).code, CODE.GONE);
  }
});

test('a provider that refuses, and one that does not answer, are told apart', options, async () => {
  const at = module(), flow = await begun(at), params = provider.code(person(), flow.url);
  assert.equal((await back(flow, { ...params, code: ['forged'] })).code, CODE.PROVIDER);
  assert.equal((await back(flow, { error: ['access_denied'], state: params.state })).code, CODE.PROVIDER);
  assert.equal((await back(flow, { state: params.state })).code, CODE.PROVIDER);
  provider.down = true;
  try { assert.equal((await back(flow, params)).code, CODE.UNAVAILABLE); } finally { provider.down = false; }
  assert.equal((await back(flow, params)).code, 0, 'the flow is not lost');
});

test('while a provider keeps many waiting, nobody else waits: no worker is held', options, async () => {
  const at = module(), sub = person(), known = await signedIn(module(), sub), flows = [];
  for (let i = 0; i < 40; i++) flows.push(await begun(at));
  let release;
  provider.hold = new Promise((resolve) => { release = resolve; });
  const before = provider.asked.length, waiting = flows.map((flow) => back(flow, provider.code(sub, flow.url)));
  try {
    await until(() => provider.asked.length >= before + 7, 'as many requests as one URL of a server may have by itself');
    // at once: a request has 10 s, and then others have its place
    assert.deepEqual((await Promise.all(Array.from({ length: 20 }, () => check(known)))).map(({ code }) => code), Array(20).fill(0));
    assert.equal(provider.asked.length, before + 7, 'and no more');
  } finally { provider.hold = null; release(); }
  assert.deepEqual([...new Set((await Promise.all(waiting)).map(({ code }) => code))], [0]);
});

test('250 checks at once of a session that is due ask the provider once', options, async () => {
  const at = module({}, { auth_check_interval: 3600 }), session = await signedIn(at, person());
  assert.equal(session.session.due_ms, session.session.checked_ms + 3600000);
  due(session);
  assert.equal((await check(session)).code, CODE.STALE, 'with the rules, please');
  const before = provider.asked.length, answers = await Promise.all(Array.from({ length: 250 }, () => check(session, { sealed: at.sealed })));
  assert.deepEqual([...new Set(answers.map(({ code }) => code))], [0]);
  assert.ok(provider.asked.filter((path, i) => i >= before && path === '/oauth/token').length <= 1, provider.asked.slice(before).join(' '));
  assert.equal(provider.asked.slice(before).filter((path) => path === '/oauth/userinfo').length, 1);
  assert.ok(answers[0].body.session.due_ms > Date.now());
});

test('rules that changed are applied to sessions: who is not admitted any more is out', options, async () => {
  const at = module(), sub = person(), session = await signedIn(at, sub), sub2 = await listening();
  const narrow = at.with({ email_addresses: ['grace@example.test'] }), wide = at.with({ email_addresses: [provider.users[sub].email] });
  assert.equal((await check(session, { digest: hex('other rules') })).code, CODE.STALE);
  const kept = await check(session, { digest: hex('other rules'), sealed: wide });
  assert.equal(kept.code, 0, kept.msg);
  assert.notEqual(kept.body.session.digest, session.session.digest);
  const denied = await check({ ...session, session: kept.body.session }, { digest: hex('narrow rules'), sealed: narrow });
  assert.equal(denied.code, CODE.DENIED);
  assert.equal((await check(session)).code, CODE.GONE);
  const { principal } = await until(() => sub2.events.find(({ object, event_type: type }) => object?.id === session.session.id && type === 'application_session_deleted.v0'), 'its event'); // that it was made may be told late, too
  assert.equal(principal.source, 'RULES');
  await sub2.stop();
});

test('a session is of the name that its cookie was set under: by another prefix it is none, and an edge that is behind ends it not', options, async () => {
  const at = module(), session = await signedIn(at, person()), other = at.with({}, { cookie_prefix: 'x.' }), place = () => sql(`SELECT counts_at FROM sign_in_session WHERE session_id = '${session.session.id}'`);
  assert.equal(place(), `${at.route} oauth  postern. ${at.host}`);
  assert.equal((await check(session, { digest: hex('other rules'), sealed: other })).code, CODE.GONE);
  assert.equal((await check(session, { digest: hex('other rules'), sealed: at.with({}, { cookie_prefix: '' }) })).code, 0, 'the same name');
  sql(`UPDATE sign_in_session SET counts_at = NULL WHERE session_id = '${session.session.id}'`); // as a version before noted it
  assert.equal((await check(session, { digest: hex('other rules'), sealed: other })).code, 0, 'nobody can say by which name it was');
  assert.equal(place(), `${at.route} oauth  x. ${at.host}`, 'that is known from now on');
  assert.equal((await check(session, { digest: hex('other rules'), sealed: at.sealed })).code, CODE.GONE);
  assert.equal((await api('GET', `/app/sessions/${session.session.id}`)).status, 200);
});

test('a session is of the host where it was made: shown at another one it is none, and goes on', options, async () => {
  const at = module({}, { auth_check_interval: 3600 }), session = await signedIn(at, person()), asked = provider.asked.length;
  due(session);
  for (const host of [`other-${at.host}`, at.host.slice(1), 'x', '']) for (const more of [{}, { sealed: at.sealed }, { sealed: at.with({ email_domains: ['nobody.example.test'] }), digest: hex('other rules') }])
    assert.equal((await check(session, { host, ...more })).code, CODE.GONE, host);
  assert.equal(provider.asked.length, asked, 'nobody is asked for it');
  for (const host of [at.host, `${at.host}:8443`]) assert.equal((await check(session, { host, sealed: at.sealed })).code, 0, host);
  sql(`UPDATE sign_in_session SET counts_at = NULL, place = NULL WHERE session_id = '${session.session.id}'`); // of a version before: the API shows its host
  assert.equal((await check(session, { host: `other-${at.host}` })).code, CODE.GONE);
  assert.equal((await check(session, {})).code, 0, 'an edge of a version before');
});

test('a grant that the provider took back ends the session; a provider that is down ends none, and is left alone for a while', options, async () => {
  const at = module({}, { auth_check_interval: 3600 }), one = await signedIn(at, person()), other = await signedIn(at, person());
  due(one);
  due(other);
  provider.down = true;
  try {
    for (let from = 0, more = 0; ;) { // the while is one of 5 s: where the machine has stood still for that long, nothing is known, and the question is put again
      again(one);
      from = Date.now();
      assert.equal((await check(one, { sealed: at.sealed })).code, CODE.UNAVAILABLE);
      const before = provider.asked.length;
      assert.equal((await check(one, { sealed: at.sealed })).code, CODE.UNAVAILABLE);
      more = provider.asked.length - before;
      if (Date.now() - from > 5000) continue;
      assert.equal(more, 0);
      break;
    }
  } finally { provider.down = false; }
  assert.equal((await api('GET', `/app/sessions/${one.session.id}`)).status, 200);
  provider.gone = true;
  try { assert.equal((await check(other, { sealed: at.sealed })).code, CODE.DENIED); } finally { provider.gone = false; }
  assert.equal((await check(other)).code, CODE.GONE);
});

// A session of a module that asks again, which is due, and may be asked at once.
const again = (session) => sql(`UPDATE sign_in_session SET due_ms = 1, retry_ms = 0, checking_until_ms = 0 WHERE session_id = '${session.session.id}'`);

test('a refresh token that the provider has rotated outlives whatever goes wrong behind it', options, async () => {
  const at = module({}, { auth_check_interval: 3600 }), session = await signedIn(at, person()), { refused } = provider;
  const broken = { 503: [503, {}], 429: [429, {}], 'no user': [200, []], 'a redirect': [302, {}], 404: [404, {}] };
  for (const [what, user] of Object.entries(broken)) {
    again(session);
    provider.user = user;
    try { assert.ok([CODE.UNAVAILABLE].includes((await check(session, { sealed: at.sealed })).code), what); } finally { provider.user = null; }
    again(session);
    const { code, msg } = await check(session, { sealed: at.sealed });
    assert.equal(code, 0, `${what}: ${msg}`);
  }
  again(session);
  provider.token = { access_token: '' };
  try { assert.equal((await check(session, { sealed: at.sealed })).code, CODE.UNAVAILABLE); } finally { provider.token = {}; }
  again(session);
  assert.equal((await check(session, { sealed: at.sealed })).code, 0, 'an answer whose other token is none');
  assert.equal(provider.refused, refused);
});

test('nor is it lost when whoever asked has given up, or the database does not answer', options, async () => {
  const at = module({}, { auth_check_interval: 3600 }), session = await signedIn(at, person()), held = { sealed: at.sealed, hash: session.hash, route: at.route, digest: session.session.digest };
  const { refused } = provider, tokens = () => sql(`SELECT tokens FROM sign_in_session WHERE session_id = '${session.session.id}'`);
  let release, before = tokens(), asked = provider.asked.length;
  again(session);
  provider.holdUser = new Promise((resolve) => { release = resolve; });
  try {
    edge.ask('session.check', held, { left: 30000 });
    await until(() => tokens() !== before, 'the new token is there before anything else is asked');
    await until(() => provider.asked.slice(asked).includes('/oauth/userinfo'), 'and the request goes on');
  } finally { provider.holdUser = null; release(); }
  await until(() => sql(`SELECT checked_ms FROM sign_in_session WHERE session_id = '${session.session.id}'`) !== String(session.session.checked_ms), 'it ends');

  // Nobody can read or write sessions while the provider answers.
  again(session);
  before = tokens();
  asked = provider.asked.length;
  provider.hold = new Promise((resolve) => { release = resolve; });
  const locker = spawn('psql', [env.DATABASE_URL, '-qAt'], { stdio: ['pipe', 'pipe', 'ignore'] });
  try {
    const id = edge.ask('session.check', held, { left: 20000 });
    await until(() => provider.asked.length > asked, 'the token endpoint is asked');
    locker.stdin.write("BEGIN; LOCK TABLE identity.sign_in_session IN ACCESS EXCLUSIVE MODE; SELECT 'locked';\n");
    await new Promise((resolve) => locker.stdout.once('data', resolve));
    provider.hold = null;
    release();
    await until(() => edge.answer(id), 'it gives up');
    assert.equal(edge.answer(id).code, 503, 'MAINTENANCE');
  } finally {
    provider.hold = null;
    release();
    locker.stdin.end('ROLLBACK;\n');
    await new Promise((resolve) => locker.on('exit', resolve));
  }
  again(session);
  const { code, msg } = await check(session, { sealed: at.sealed });
  assert.equal(code, 0, msg);
  assert.equal(provider.refused, refused, 'and was not sent again');
});

test('rules that change are applied to what the provider said last, and it is asked only where it was not asked for that, or not lately', options, async () => {
  const at = module({}, { auth_check_interval: 3600 }), sub = person(), session = await signedIn(at, sub), email = provider.users[sub].email;
  const now = async (sealed, was = session) => check(was, { digest: hex(String(Math.random())), sealed });
  const before = provider.asked.length;
  for (const sealed of [at.with({ email_addresses: [email] }), at.with({ client_secret: 'another' }), at.with({}, { maximum_duration: 7200, inactivity_timeout: 900 }), at.with({}, { auth_check_interval: 0 })])
    assert.equal((await now(sealed)).code, 0);
  assert.equal(provider.asked.length, before, 'nobody is asked');
  assert.equal((await now(at.with({}, { auth_check_interval: 600 }))).body.session.due_ms, session.session.checked_ms + 600000, 'from when it vouched');
  for (const sealed of [at.with({ client_id: 'another client' }), at.with({ scopes: ['read_user'] })]) {
    const asked = provider.asked.length;
    assert.equal((await now(sealed)).code, 0);
    assert.ok(provider.asked.length > asked);
  }
  sql(`UPDATE sign_in_session SET checked_ms = checked_ms - 3600000, retry_ms = 0 WHERE session_id = '${session.session.id}'`);
  const asked = provider.asked.length;
  assert.equal((await now(at.with({ email_addresses: [email] }))).code, 0);
  assert.ok(provider.asked.length > asked, 'its word is too old');
  sql(`UPDATE sign_in_session SET claims = NULL WHERE session_id = '${session.session.id}'`);
  const older = provider.asked.length;
  assert.equal((await now(at.with({ email_addresses: [email, 'x@example.test'] }))).code, 0);
  assert.ok(provider.asked.length > older, 'a session of an older version');
  const end = provider.asked.length;
  assert.equal((await now(at.with({ email_addresses: ['grace@example.test'] }))).code, CODE.DENIED);
  assert.equal(provider.asked.length, end);
  assert.equal((await check(session)).code, CODE.GONE);
});

test('what one session was told of an address says nothing of what another was told', options, async () => {
  const at = module({ email_domains: ['example.test'] }), sub = person(), session = await signedIn(at, sub), mine = provider.users[sub].email;
  provider.users[sub] = { ...provider.users[sub], email: `boss-${ksuid()}@example.test`, email_verified: false };
  await signedIn(module(), sub);
  const { code, body } = await check(session);
  assert.equal(code, 0);
  assert.equal(body.session.email, mine, 'not the address that nobody verified');
  assert.equal((await check(session, { digest: hex('x'), sealed: at.with({ email_domains: [], email_addresses: [provider.users[sub].email] }) })).code, CODE.DENIED);
});

test('shorter times reach sessions that exist, and end those that are over by them', options, async () => {
  const at = module(), session = await signedIn(at, person()), other = await signedIn(at, person()), idle = await signedIn(at, person());
  const shorter = at.with({}, { maximum_duration: 3600, inactivity_timeout: 900 });
  const { body } = await check(session, { digest: hex('x'), sealed: shorter });
  assert.deepEqual([body.session.expires_ms - body.session.created_ms, body.session.inactivity_ms], [3600000, 900000]);
  assert.equal(Date.parse((await must('GET', `/app/sessions/${session.session.id}`)).expires_at), Math.floor(body.session.expires_ms / 1000) * 1000);
  const longer = await check({ ...session, session: body.session }, { digest: hex('y'), sealed: at.with({}, { maximum_duration: 7200 }) });
  assert.deepEqual([longer.body.session.expires_ms - longer.body.session.created_ms, longer.body.session.inactivity_ms], [7200000, 0]);
  sql(`UPDATE sign_in_session SET created_ms = created_ms - 3600001 WHERE session_id = '${other.session.id}'`);
  sql(`UPDATE sign_in_session SET last_active_ms = last_active_ms - 900001 WHERE session_id = '${idle.session.id}'`);
  for (const one of [other, idle]) {
    assert.equal((await check(one, { digest: hex('x'), sealed: shorter })).code, CODE.GONE);
    assert.equal((await api('GET', `/app/sessions/${one.session.id}`)).status, 404);
  }
});

test('a person at a provider of one name is not the person of another, at whatever URL', options, async () => {
  const sub = person(), at = module({}, { auth_check_interval: 3600 }), other = `app_user_${ksuid()}`;
  sql(`INSERT INTO object (id, account_id, kind) VALUES ('${other}', '${env.POSTERN_ACCOUNT}', 'application_user');
       INSERT INTO application_user (id, account_id, created_at, identity_provider, provider_user_id, username, email, name, last_active, last_login, provider_url)
         VALUES ('${other}', '${env.POSTERN_ACCOUNT}', now(), '{"name": "oidc", "url": "${provider.url}"}', '${sub}', 'ada', 'x@example.test', 'Ada', now(), now(), '${provider.url}')`);
  const session = await signedIn(at, sub);
  assert.notEqual(session.session.user, other);
  assert.equal((await signedIn(at, sub)).session.user, session.session.user);
  again(session);
  const { code, msg } = await check(session, { sealed: at.sealed });
  assert.equal(code, 0, msg);
  assert.equal((await must('GET', `/app/users/${other}`)).email, 'x@example.test');
});

test('a user has so many sessions, and a new sign-in ends the oldest beyond them', options, async () => {
  const at = module(), sub = person(), all = [];
  for (let i = 0; i < LIMIT + 2; i++) all.push(await signedIn(at, sub));
  assert.deepEqual(await Promise.all(all.map(async (one) => (await check(one)).code)), [CODE.GONE, CODE.GONE, ...Array(LIMIT).fill(0)]);
  const other = await signedIn(at, person());
  assert.equal((await check(other)).code, 0);
});

test('no token, code or secret of a sign-in stands in the database in clear', options, async () => {
  const flow = await proven(module(), person()), session = await signedIn(module(), person());
  const all = execFileSync('pg_dump', ['--data-only', '--schema=identity', env.DATABASE_URL], { encoding: 'utf8', maxBuffer: 1 << 28 });
  assert.ok(all.includes(session.session.id));
  for (const secret of [...['client-secret', 'access', 'refresh', 'code'].map((what) => `canary-${what}`), session.token, flow.code, flow.nonce]) assert.ok(!all.includes(secret), secret);
});

test('a copy that stops while sign-ins wait for a provider stops, and says so to who waits', options, async () => {
  const at = module(), flow = await begun(at);
  let release;
  provider.hold = new Promise((resolve) => { release = resolve; });
  try {
    const before = provider.asked.length, waiting = back(flow, provider.code(person(), flow.url));
    await until(() => provider.asked.length > before, 'the provider is asked');
    const ended = new Promise((resolve) => copy.child.on('exit', (code, signal) => resolve([code, signal])));
    copy.kill('SIGTERM');
    assert.equal((await waiting).code, 503, 'MAINTENANCE');
    assert.deepEqual(await ended, [0, null]);
  } finally { provider.hold = null; release(); }
});
