// An edge that is behind, cut off from postern-routes or begun from its state on disk, asks by the sealed module of before. What that says counts at that edge:
// it neither ends a session that newer rules admit, nor says how long one lasts. By the verbs that edges call, at a copy of postern-identity of the story's own.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { another } from '../support/copies.mjs';
import { gitlab } from '../support/gitlab.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { elsewhere, endpoint, env, must, until } from '../support/postern.mjs';
import { seal } from '../support/sealed.mjs';

const skip = elsewhere, OK = 0, SIGN_IN_DENIED = 235, SESSION_GONE = 238, SESSION_STALE = 239, NO_DIGEST = '0'.repeat(64), HOUR = 3600;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
let count = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');

const server = skip ? null : await gitlab(), mine = skip ? null : account(), socket = `ipc://${env.POSTERN_RUN_DIR}/lagging-edge-${process.pid}.rpc`;
const copy = skip ? null : another('identity', { POSTERN_RPC: socket, POSTERN_OAUTH_GITLAB_URL: server.url, POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: server.ca, POSTERN_OUT_CONNECT: '' });
const bus = skip ? null : caller(edgeKey(), 'identity', socket);
test.after(async () => {
  if (skip) return;
  bus.stop();
  await copy.stop();
  server.stop();
});
if (!skip) server.users.nina = { nickname: 'nina', name: 'Nina', email: 'nina@new.test', email_verified: true };

async function ask(verb, body) {
  const id = bus.ask(verb, body);
  await until(() => bus.answer(id), `an answer to ${verb}`, 120000);
  return bus.answer(id);
}
const good = async (verb, body) => { const answer = await ask(verb, body); assert.equal(answer.code, OK, `${verb}: ${answer.msg}`); return answer.body; };

// A route, and its module as postern-routes seals it; revision undefined: a version that knew of none did.
function route() {
  const host = `app-${ksuid()}.example.test`, at = { route: `edghtsrt_${ksuid()}`, account: mine.id, edge: `edghts_${ksuid()}`, module: 'oauth' };
  const rules = (revision, domains, fields = {}, client = 'a client', scopes = []) => seal({ ...at, config: { enabled: true, cookie_prefix: 'postern.', ...(revision ? { revision } : {}), ...fields,
    provider: { gitlab: { client_id: client, client_secret: 'a secret', scopes, email_addresses: [], email_domains: domains } } } });
  return { host, id: at.route, rules };
}
async function signIn({ host, id }, sealed) {
  const { location, nonce } = await good('sign_in.begin', { sealed, host, target: '/' });
  const login = await good('sign_in.login', { sealed, ticket: new URL(location).searchParams.get('t').split('.')[1] });
  const params = server.code('nina', login.location), browser = { ip: '192.0.2.9', user_agent: 'x' };
  const back = await good('sign_in.callback', { sealed, state: params.state[0], params, cookie: login.cookie, ...browser });
  const made = await good('sign_in.redeem', { sealed, code: new URL(back.location).searchParams.get('code'), nonce, host, ...browser });
  return { ...made.session, route: id, hash: crypto.createHash('sha256').update(made.token).digest('hex') };
}
// As an edge asks that has these rules; without them, as one that has the rules of that digest.
const check = ({ hash, route: id }, { sealed, digest = NO_DIGEST }) => ask('session.check', { hash, route: id, digest, last_active_ms: 0, ...(sealed ? { sealed } : {}) });
const shown = async ({ id }) => (await mine.api('GET', `/app/sessions/${id}`)).body;
const isListed = async ({ id }) => (await mine.api('GET', `/app/sessions/${id}`)).status === 200;

test('rules of before refuse at their edge alone whom newer ones admit', { skip }, async () => {
  const to = route(), former = to.rules(1000, ['old.test']), now = to.rules(2000, ['old.test', 'new.test']);
  const nina = await signIn(to, now);
  const lagging = await check(nina, { sealed: former });
  assert.equal(lagging.code, SIGN_IN_DENIED);
  assert.ok(await isListed(nina), 'an edge that is behind ends nothing');
  assert.equal((await check(nina, { digest: nina.digest })).code, OK);
  for (const unknown of [undefined, 1999]) assert.equal((await check(nina, { sealed: to.rules(unknown, ['old.test']) })).code, SIGN_IN_DENIED);
  assert.ok(await isListed(nina), 'nor does one whose rules a version sealed that knew of no order');
  assert.equal((await check(nina, { sealed: to.rules(1000, ['new.test'], {}, 'another client') })).code, SESSION_STALE, 'of a client that its provider knows nothing of');
  assert.ok(await isListed(nina));
  assert.equal((await check(nina, { sealed: to.rules(3000, ['old.test']) })).code, SIGN_IN_DENIED, 'newer ones that refuse her');
  assert.equal(await isListed(nina), false, 'end her session');
});

test('rules of before do not say how long a session lasts', { skip }, async () => {
  const to = route(), long = to.rules(1000, ['new.test']), short = to.rules(2000, ['new.test'], { maximum_duration: HOUR });
  const byFormer = await signIn(to, long), nina = await signIn(to, short), before = await shown(nina);
  assert.notEqual(byFormer.digest, nina.digest);
  const lagging = await check(nina, { sealed: long });
  assert.equal(lagging.code, OK, 'both admit her');
  assert.equal(lagging.body.session.expires_ms, nina.expires_ms, 'for as long as the newer ones say');
  assert.equal(lagging.body.session.digest, byFormer.digest);
  assert.equal((await shown(nina)).expires_at, before.expires_at);
  assert.equal((await check(nina, { digest: nina.digest })).code, OK, 'it is still one that the newer rules have admitted');
  assert.equal((await check(nina, { digest: byFormer.digest })).code, SESSION_STALE, 'and none that the former ones have');
  // The other way round: what those say is over is so at their edge alone.
  const open = await check(nina, { sealed: to.rules(3000, ['new.test']) });
  assert.equal(open.code, OK);
  assert.ok(open.body.session.expires_ms > nina.expires_ms);
  sql(`UPDATE identity.sign_in_session SET created_ms = created_ms - ${2 * HOUR * 1000} WHERE session_id = '${nina.id}'`);
  assert.equal((await check(nina, { sealed: short })).code, SESSION_GONE);
  assert.ok(await isListed(nina));
  assert.equal((await check(nina, { digest: open.body.session.digest })).code, OK);
});

test('of a session that is due an edge that is behind asks nobody', { skip }, async () => {
  const to = route(), fields = { auth_check_interval: HOUR }, former = to.rules(1000, ['new.test', 'old.test'], fields), now = to.rules(2000, ['new.test'], fields);
  const nina = await signIn(to, now), asked = server.asked.length;
  sql(`UPDATE identity.sign_in_session SET due_ms = 1 WHERE session_id = '${nina.id}'`);
  assert.equal((await check(nina, { sealed: former })).code, SESSION_STALE);
  assert.equal(server.asked.length, asked);
  assert.equal((await check(nina, { sealed: now })).code, OK);
  assert.ok(server.asked.length > asked, 'one that is not behind does');
});

test('nor of one that nobody has used since newer rules came: those are to ask, and to say how long it lasts', { skip }, async () => {
  const fields = { auth_check_interval: HOUR }, short = { ...fields, maximum_duration: HOUR };
  const kinds = { 'that is due, by rules that have it last less': [short], 'by rules of another client': [fields, 'another client'], 'by rules that ask for more': [fields, 'a client', ['read_api']] };
  for (const [kind, between] of Object.entries(kinds)) {
    const to = route(), first = to.rules(1000, ['new.test'], fields), lagging = to.rules(2000, ['new.test'], ...between), newest = to.rules(3000, ['new.test'], fields);
    const nina = await signIn(to, first), other = await signIn(to, first), before = await shown(nina);
    assert.equal((await check(other, { sealed: newest })).code, OK, 'the newest rules are known');
    const kept = () => sql(`SELECT digest, rules_revision, expires_ms, checked_ms, source FROM identity.sign_in_session WHERE session_id = '${nina.id}'`), asked = server.asked.length;
    if (between[0] === short) sql(`UPDATE identity.sign_in_session SET due_ms = 1, created_ms = created_ms - ${2 * HOUR * 1000} WHERE session_id = '${nina.id}'`);
    const was = kept();
    server.gone = true; // whatever the provider says to such a question
    try {
      for (let i = 0; i < 2; i++) assert.equal((await check(nina, { sealed: lagging })).code, SESSION_STALE, kind);
    } finally { server.gone = false; }
    assert.ok(await isListed(nina), kind);
    assert.equal(server.asked.length, asked, 'nobody was asked');
    assert.deepEqual([kept(), (await shown(nina)).expires_at], [was, before.expires_at], kind);
    assert.equal((await check(nina, { sealed: newest })).code, OK, kind);
  }
});

// The provider is being asked by these rules when newer ones judge the session: what becomes of both.
async function askedMeanwhile(to, sealed, newer, change) {
  const nina = await signIn(to, sealed);
  let release;
  sql(`UPDATE identity.sign_in_session SET due_ms = 1 WHERE session_id = '${nina.id}'`);
  server.hold = new Promise((resolve) => { release = resolve; });
  const asked = server.asked.length, first = check(nina, { sealed });
  try {
    await until(() => server.asked.length > asked, 'the provider to be asked', 120000);
    sql(`UPDATE identity.sign_in_session SET rules_revision = ${newer} WHERE session_id = '${nina.id}'`);
    await change?.(nina);
  } finally { server.hold = null; release(); }
  return { nina, answer: await first };
}

test('what the provider says ends a session, whatever rules have judged it meanwhile', { skip }, async () => {
  const to = route(), rules = to.rules(1000, ['new.test'], { auth_check_interval: HOUR });
  const { nina, answer } = await askedMeanwhile(to, rules, 2000, () => { server.gone = true; });
  server.gone = false;
  assert.equal(answer.code, SIGN_IN_DENIED, answer.msg);
  assert.equal(await isListed(nina), false, 'its grant was taken back');
});

test('it does not where newer rules ask it for something else, or it is not known what they ask', { skip }, async () => {
  const fields = { auth_check_interval: HOUR };
  for (const isJudged of [true, false]) { // by the newer ones, of another client; or those have been shown, and of its own
    const to = route(), rules = to.rules(1000, ['new.test'], fields), newer = to.rules(2000, ['new.test'], fields, isJudged ? 'another client' : 'a client'), other = await signIn(to, rules);
    try {
      const { nina, answer } = await askedMeanwhile(to, rules, isJudged ? 2000 : 1000, async ({ id }) => {
        if (isJudged) sql(`UPDATE identity.sign_in_session SET source = repeat('0', 64) WHERE session_id = '${id}'`);
        else assert.equal((await check(other, { sealed: newer })).code, OK);
        server.gone = true;
      });
      assert.equal(answer.code, SESSION_STALE, answer.msg);
      assert.ok(await isListed(nina), 'the newer ones have not heard it');
      server.gone = !isJudged;
      assert.equal((await check(nina, { sealed: newer })).code, isJudged ? OK : SIGN_IN_DENIED, 'they ask themselves');
      assert.equal(await isListed(nina), isJudged);
    } finally { server.gone = false; }
  }
});

test('a provider that does not answer rules of before is asked by newer ones all the same', { skip }, async () => {
  const to = route(), fields = { auth_check_interval: HOUR }, newer = to.rules(2000, ['new.test'], fields);
  try {
    const { nina, answer } = await askedMeanwhile(to, to.rules(1000, ['new.test'], fields), 2000, () => { server.down = true; });
    server.down = false;
    assert.equal(answer.code, SESSION_STALE, answer.msg);
    assert.equal((await check(nina, { sealed: newer })).code, OK, 'at once');
  } finally { server.down = false; }
});

test('what rules of before make of that does not, and keeps nobody from asking the provider again', { skip }, async () => {
  const to = route(), fields = { auth_check_interval: HOUR }, newer = to.rules(2000, ['new.test', 'other.test'], fields);
  try {
    const { nina, answer } = await askedMeanwhile(to, to.rules(1000, ['new.test'], fields), 2000, () => { server.users.nina.email = 'nina@other.test'; });
    assert.equal(answer.code, SIGN_IN_DENIED, 'at their edge');
    assert.ok(await isListed(nina));
    assert.equal(sql(`SELECT checking_until_ms FROM identity.sign_in_session WHERE session_id = '${nina.id}'`), '0', 'its turn is over');
    assert.equal((await check(nina, { sealed: newer })).code, OK);
  } finally { server.users.nina.email = 'nina@new.test'; }
});

test('rules that come back are newer ones, whatever was between', { skip }, async () => {
  const to = route(), nina = await signIn(to, to.rules(1000, ['new.test'])), between = to.rules(2000, ['old.test']), back = to.rules(3000, ['new.test']);
  const again = await check(nina, { sealed: back });
  assert.equal(again.code, OK);
  assert.notEqual(again.body.session.digest, nina.digest, 'and are told from those that were before');
  assert.equal((await check(nina, { sealed: between })).code, SIGN_IN_DENIED);
  assert.ok(await isListed(nina));
});

test('a session that nobody has used since newer rules came is ended by none of before', { skip }, async () => {
  for (const isShown of [true, false]) { // to this copy of postern-identity; or a session was judged by them at another one
    const to = route(), first = to.rules(1000, ['new.test']), between = to.rules(2000, ['old.test'], { maximum_duration: HOUR }), back = to.rules(3000, ['new.test']);
    const nina = await signIn(to, first), other = await signIn(to, first), before = await shown(nina);
    if (isShown) assert.equal((await check(other, { sealed: back })).code, OK);
    else sql(`UPDATE identity.sign_in_session SET rules_revision = 3000 WHERE session_id = '${other.id}'`);
    assert.equal((await check(nina, { sealed: between })).code, SIGN_IN_DENIED);
    assert.ok(await isListed(nina), 'they refuse her at their edge alone');
    const short = await check(nina, { sealed: to.rules(2000, ['new.test'], { maximum_duration: HOUR }) });
    assert.equal(short.code, OK);
    assert.ok(short.body.session.expires_ms < nina.expires_ms);
    assert.equal((await shown(nina)).expires_at, before.expires_at, 'and say there alone how long she stays');
    assert.equal((await check(nina, { sealed: back })).code, OK);
    assert.equal((await check(nina, { sealed: to.rules(4000, ['old.test']) })).code, SIGN_IN_DENIED);
    assert.equal(await isListed(nina), false, 'those that are in force end hers');
  }
});

test('each change of a module gives it a higher revision, which the API does not show, and what is no change does not', { skip }, async () => {
  const oauth = { provider: { google: { client_id: 'x', client_secret: 'y', email_domains: ['a.test'] } } };
  const { edge, route: made } = await endpoint({ status_code: 200, body: 'in' }, { oauth }), at = `/edges/https/${edge.id}/routes/${made.id}`;
  const revision = () => Number(sql(`SELECT oauth->>'revision' FROM routes.https_edge_route WHERE id = '${made.id}'`));
  const first = revision();
  assert.ok(first > 0);
  assert.equal(made.oauth.revision, undefined);
  await must('PATCH', at, { description: 'another one' });
  await must('PUT', `${at}/oauth`, oauth);
  assert.equal(revision(), first);
  await must('PUT', `${at}/oauth`, { ...oauth, maximum_duration: HOUR });
  const second = revision();
  assert.ok(second > first);
  await must('PATCH', at, { oauth: { ...oauth, maximum_duration: 2 * HOUR } });
  assert.ok(revision() > second);
});
