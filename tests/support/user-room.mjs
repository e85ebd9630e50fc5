// Accounts at their limits of users and sessions: sign-ins by the verbs that edges call, at a copy of postern-identity of the story's own, which has a limit of its own.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import http from 'node:http';
import test from 'node:test';
import { account } from './account.mjs';
import { another } from './copies.mjs';
import { gitlab } from './gitlab.mjs';
import { caller, edgeKey } from './peer.mjs';
import { edge as traffic, env, until } from './postern.mjs';
import { seal } from './sealed.mjs';

const OK = 0, PORT = traffic.port - 43 + 152;
let count = 0;
export const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');
export const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
export const place = () => ({ host: `app-${ksuid()}.example.test`, route: `edghtsrt_${ksuid()}`, edge: `edghts_${ksuid()}` });
// Sessions that were used last so many minutes ago.
export const idle = (minutes, ...list) => sql(`UPDATE application_session SET last_active = now() - interval '${minutes} min' WHERE id IN (${list.map(({ session }) => `'${session.id}'`).join()})`);
// A transaction of somebody else, which has done what the text says and has its locks until the end: {blocks(): does somebody wait for it? waiting(): how many wait for it, or for who does? end()}
export async function holding(text) {
  const child = spawn('psql', [env.DATABASE_URL, '-qAt'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (more) => { out += more; });
  child.stdin.write(`SET search_path = identity; BEGIN; ${text}; SELECT 'pid=' || pg_backend_pid();\n`);
  const pid = await until(() => /pid=(\d+)/.exec(out)?.[1], 'the transaction has its locks', 120000);
  const waiting = () => Number(sql(`WITH RECURSIVE edge AS MATERIALIZED (SELECT pid, unnest(pg_blocking_pids(pid)) AS behind FROM pg_locks WHERE NOT granted),
    waiting AS (SELECT pid FROM edge WHERE behind = ${pid} UNION SELECT edge.pid FROM edge JOIN waiting ON edge.behind = waiting.pid) SELECT count(*) FROM waiting`));
  return { blocks: () => waiting() > 0, waiting, end: () => new Promise((resolve) => { child.on('close', resolve); child.stdin.end('COMMIT;\n'); }) };
}
// Of the copy; -1: it does not answer.
export const metric = (name) => new Promise((resolve) => {
  http.get({ host: '127.0.0.1', port: PORT, path: '/metrics', agent: false }, (answer) => {
    let text = '';
    answer.setEncoding('utf8').on('data', (more) => { text += more; }).on('end', () => resolve(Number(new RegExp(`^postern_identity_${name}_total (\\d+)`, 'm').exec(text)?.[1] ?? -1)));
  }).on('error', () => resolve(-1));
});

/* The copy, with a limit and other settings, in an account of its own. It tidies when a story says so, and ends with the story:
 * {mine: the account, provider, ask(verb, words), start(limit, settings), stop(), anew(limit, settings): in another account, prove(sub, place) -> what redeem() takes: a sign-in up to its code, redeem() -> {code, msg, route, token, session, hash},
 *  signIn(sub), signInAll(...subs): all are good, users() -> names, alive(list) -> are these sessions good} */
export async function userRoom(limit) {
  const provider = await gitlab(), socket = `ipc://${env.POSTERN_RUN_DIR}/user-room-${process.pid}.rpc`, self = { mine: account(), provider };
  let copy;
  self.start = (most, changed = {}) => {
    copy = another('identity', { POSTERN_RPC: socket, POSTERN_HEALTH_PORT: String(PORT), POSTERN_OAUTH_GITLAB_URL: provider.url, POSTERN_OUT_ALLOWED: '127.0.0.1 ::1', POSTERN_OUT_CA: provider.ca, POSTERN_OUT_CONNECT: '', POSTERN_OBJECT_LIMIT: String(most), POSTERN_SIGN_IN_TIDY_SECONDS: '86400', ...changed });
  };
  self.stop = () => copy.stop();
  self.start(limit);
  const bus = caller(edgeKey(), 'identity', socket);
  test.before(() => bus.there());
  test.after(async () => { bus.stop(); await self.stop(); provider.stop(); });
  self.anew = async (most, changed) => {
    await self.stop();
    self.mine = account();
    self.start(most, changed);
    await until(async () => await metric('sessions_ended_for_room') === 0, 'it is there', 120000);
  };
  self.ask = async (verb, body) => {
    const id = bus.ask(verb, body);
    await until(() => bus.answer(id), `an answer to ${verb}`, 120000);
    return bus.answer(id);
  };
  self.prove = async (sub, { host, route, edge } = place()) => {
    provider.users[sub] ??= { nickname: sub, name: sub, email: `${sub}@example.test`, email_verified: true };
    const sealed = seal({ route, account: self.mine.id, edge, module: 'oauth', config: { enabled: true, cookie_prefix: 'postern.', provider: { gitlab: { client_id: 'a client', client_secret: 'a secret', scopes: [], email_addresses: [], email_domains: [] } } } });
    const browser = { ip: '192.0.2.9', user_agent: 'x' };
    const begin = await self.ask('sign_in.begin', { sealed, host, target: '/' });
    const login = await self.ask('sign_in.login', { sealed, ticket: new URL(begin.body.location).searchParams.get('t').split('.')[1] });
    const params = provider.code(sub, login.body.location);
    const back = await self.ask('sign_in.callback', { sealed, state: params.state[0], params, cookie: login.body.cookie, ...browser });
    assert.equal(back.code, OK, back.msg);
    return { route, words: { sealed, code: new URL(back.body.location).searchParams.get('code'), nonce: begin.body.nonce, host, ...browser } };
  };
  self.redeem = async ({ route, words }) => {
    const { code, body, msg } = await self.ask('sign_in.redeem', words);
    return { code, msg, route, token: body?.token, session: body?.session, hash: body && crypto.createHash('sha256').update(body.token).digest('hex') };
  };
  self.signIn = async (sub) => self.redeem(await self.prove(sub));
  self.signInAll = async (...subs) => {
    const all = [];
    for (const sub of subs) {
      all.push(await self.signIn(sub));
      assert.equal(all.at(-1).code, OK, all.at(-1).msg);
    }
    return all;
  };
  self.users = async () => (await self.mine.must('GET', '/app/users?limit=100')).application_users.map(({ provider_user_id: id }) => id).sort();
  self.alive = (list) => Promise.all(list.map(async ({ hash, route, session }) => (await self.ask('session.check', { hash, route, digest: session.digest })).code === OK));
  return self;
}
