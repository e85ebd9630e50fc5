// A database of postern-routes that is put back from a backup has modules of lower revisions than those by which sessions were judged since. Such rules are in force, and not
// those of an edge that is behind: whoever is signed in goes on by them, or is refused by them. By the verbs that edges call, at a copy of postern-identity of the story's own.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { another } from '../support/copies.mjs';
import { gitlab } from '../support/gitlab.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { elsewhere, endpoint, env, must, until } from '../support/postern.mjs';
import { seal } from '../support/sealed.mjs';

const skip = elsewhere, OK = 0, SIGN_IN_DENIED = 235, SESSION_STALE = 239, NO_DIGEST = '0'.repeat(64), HOUR = 3600;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-restored-')), dump = path.join(folder, 'dump');
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
const backup = () => execFileSync('pg_dump', ['-Fc', '-n', 'routes', '-f', dump, env.DATABASE_URL]);
const restore = () => execFileSync('pg_restore', ['--clean', '--if-exists', '-1', '-n', 'routes', '-d', env.DATABASE_URL, dump]);
const server = skip ? null : await gitlab(), socket = `ipc://${env.POSTERN_RUN_DIR}/restored-modules-${process.pid}.rpc`;
const start = () => another('identity', { POSTERN_RPC: socket, POSTERN_OAUTH_GITLAB_URL: server.url, POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: server.ca, POSTERN_OUT_CONNECT: '' });
let copy = skip ? null : start();
const bus = skip ? null : caller(edgeKey(), 'identity', socket);
if (!skip) server.users.nina = { nickname: 'nina', name: 'Nina', email: 'nina@new.test', email_verified: true };
test.before(() => bus?.there());
test.after(async () => {
  fs.rmSync(folder, { recursive: true });
  if (skip) return;
  bus.stop();
  await copy.stop();
  server.stop();
});

async function ask(verb, body) {
  const id = bus.ask(verb, body);
  await until(() => bus.answer(id), `an answer to ${verb}`, 120000);
  return bus.answer(id);
}
const good = async (verb, body) => { const answer = await ask(verb, body); assert.equal(answer.code, OK, `${verb}: ${answer.msg}`); return answer.body; };

// A route whose module admits these domains: {host, id, put(domains): a change, rules(): as postern-routes has it now, sealed}
async function place(domains) {
  const fields = { auth_check_interval: HOUR }, gitlabOf = (list) => ({ gitlab: { client_id: 'a client', client_secret: 'a secret', email_domains: list } });
  const { host, edge, route } = await endpoint({ body: 'in' }, { oauth: { ...fields, provider: gitlabOf(domains) } });
  const stored = () => JSON.parse(sql(`SELECT oauth FROM routes.https_edge_route WHERE id = '${route.id}'`));
  const rules = () => {
    const { revision, made_id: made, provider: { gitlab: { email_domains: list } } } = stored();
    return seal({ route: route.id, account: env.POSTERN_ACCOUNT, edge: edge.id, module: 'oauth', config: { enabled: true, cookie_prefix: 'postern.', made_id: made, revision, ...fields,
      provider: { gitlab: { client_id: 'a client', client_secret: 'a secret', scopes: [], email_addresses: [], email_domains: list } } } });
  };
  return { host, id: route.id, rules, put: (list) => must('PUT', `/edges/https/${edge.id}/routes/${route.id}/oauth`, { ...fields, provider: gitlabOf(list) }) };
}
async function signIn({ host, id, rules }) {
  const sealed = rules();
  const { location, nonce } = await good('sign_in.begin', { sealed, host, target: '/' });
  const login = await good('sign_in.login', { sealed, ticket: new URL(location).searchParams.get('t').split('.')[1] });
  const params = server.code('nina', login.location), browser = { ip: '192.0.2.9', user_agent: 'x' };
  const back = await good('sign_in.callback', { sealed, state: params.state[0], params, cookie: login.cookie, ...browser });
  const made = await good('sign_in.redeem', { sealed, code: new URL(back.location).searchParams.get('code'), nonce, host, ...browser });
  return { ...made.session, route: id, hash: crypto.createHash('sha256').update(made.token).digest('hex') };
}
const check = ({ hash, route }, sealed) => ask('session.check', { hash, route, digest: NO_DIGEST, last_active_ms: 0, sealed });
const isDue = (...list) => sql(`UPDATE identity.sign_in_session SET due_ms = 1 WHERE session_id IN (${list.map(({ id }) => `'${id}'`).join()})`);

for (const isFresh of [false, true])
  test(`who signed in by rules that were lost goes on by those in force, which ${isFresh ? 'a copy' : 'the copy'} that ${isFresh ? 'begins' : 'has heard of the lost ones'} learns of`, { skip, timeout: 300000 }, async () => {
    const to = await place(['old.test', 'new.test']), before = await signIn(to);
    backup();
    for (let i = 0; i < 3; i++) await to.put(['new.test', `${i}.test`]);
    const lost = to.rules(), since = await signIn(to);
    assert.equal((await check(before, lost)).code, OK, 'judged by them');
    restore();
    const next = await signIn(to);
    isDue(before, since, next);
    if (isFresh) {
      await copy.stop();
      copy = start();
      await bus.there();
    }
    const answers = [];
    for (const one of [since, before, next]) answers.push((await check(one, to.rules())).code);
    assert.deepEqual(answers, [OK, OK, OK]);
    // Whom the next change refuses is out, and rules of before that change are behind.
    const former = to.rules();
    await to.put(['old.test']);
    assert.equal((await check(before, to.rules())).code, SIGN_IN_DENIED);
    isDue(since);
    assert.equal((await check(since, former)).code, SESSION_STALE, 'of an edge that is behind');
    assert.equal((await check(since, to.rules())).code, SIGN_IN_DENIED);
  });

test('whom the rules in force refuse is refused', { skip, timeout: 300000 }, async () => {
  const to = await place(['old.test']);
  backup();
  await to.put(['new.test']);
  const nina = await signIn(to);
  restore();
  isDue(nina);
  assert.equal((await check(nina, to.rules())).code, SIGN_IN_DENIED);
});
