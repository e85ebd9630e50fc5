// An OpenID provider that signs out many people at once, while an edge is slow to acknowledge that their sessions are over, and one that does not wait for answers:
// whom a logout token names is signed out all the same.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import { Browser, ask } from '../support/browser.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';
import { edgeKey, peer } from '../support/peer.mjs';
import { api, ca, edge, elsewhere, endpoint, env, forgetUsers, home, through, unique, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS || (env.POSTERN_RUN_DIR ? false : 'deploy/stack did not start the system');
const SESSION = '__Host-postern.session', IDP = `idp.localhost:${edge.port}`, SLOW = 1000, SIGN = 100; // milliseconds
const authority = process.env.STORY_UPSTREAM_TLS, port = edge.port - 43 + 98, issuer = `https://localhost:${port}`;
const callback = () => `https://${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAt'], { input: `SET search_path = identity; ${text}`, encoding: 'utf8' }).trim();
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const up = skip ? null : await upstream((request, response) => response.end('upstream'));
const oidc = { issuer, client_id: 'burst', client_secret: 'a secret of the story', scopes: ['email'] };
const to = skip ? null : await endpoint(up.address, { oidc });
const provider = skip ? null : await oidcProvider({ port, signed, trusts: ca, clients: [{ client_id: 'burst', client_secret: 'a secret of the story', redirect_uris: callback }] });
test.after(async () => { if (provider) await forgetUsers(issuer); provider?.stop(); await up?.close(); });

async function signedIn(sub, host = to.host) {
  const browser = new Browser(), back = new URL(callback());
  const away = await browser.go(`https://${host}:${edge.port}/`, { stop: (location) => location.startsWith(issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, sub))) back.searchParams.set(name, values[0]);
  const last = await browser.go(back.href);
  assert.equal(last.status, 200, last.body);
  return browser.cookies.get(`${host}:${edge.port}`).get(SESSION);
}
const stays = async (value, host = to.host) => (await through(host, '/', { headers: { Cookie: `${SESSION}=${value}` } })).status === 200;
const ksuid = (n) => `${process.pid.toString(36)}${Date.now().toString(36)}${n.toString(36).padStart(4, '0')}`.padStart(27, '0');

// So many others who are signed in as she is, each with a session: {sub, id}. Their rows are hers, but for ids, subs and cookies.
function othersLike(value, count) {
  const others = Array.from({ length: count }, (_, i) => ({ sub: `one-of-many-${process.pid}-${Date.now()}-${i}`, user: `app_user_${ksuid(i)}`, id: `app_sess_${ksuid(i)}`, hash: crypto.randomBytes(32).toString('hex') }));
  const hers = crypto.createHash('sha256').update(value).digest('hex'), session = `(SELECT id FROM application_session WHERE token_hash = '${hers}')`, user = `(SELECT application_user_id FROM application_session WHERE token_hash = '${hers}')`;
  const copy = (table, where, changed) => `INSERT INTO ${table} SELECT (jsonb_populate_record(t, ${changed})).* FROM ${table} t, jsonb_to_recordset('${JSON.stringify(others)}') AS o(sub text, "user" text, id text, hash text) WHERE t.${where};`;
  sql(copy('object', `id = ${user}`, `jsonb_build_object('id', o.user)`)
    + copy('application_user', `id = ${user}`, `jsonb_build_object('id', o.user, 'provider_user_id', o.sub)`)
    + copy('object', `id = ${session}`, `jsonb_build_object('id', o.id, 'parent_id', o.user)`)
    + copy('application_session', `id = ${session}`, `jsonb_build_object('id', o.id, 'application_user_id', o.user, 'token_hash', o.hash)`)
    + copy('sign_in_session', `session_id = ${session}`, `jsonb_build_object('session_id', o.id, 'provider_hash', '')`));
  return others;
}
const left = (people) => Number(sql(`SELECT count(*) FROM application_session WHERE id IN (${people.map(({ id }) => `'${id}'`)})`));

const now = () => Math.floor(Date.now() / 1000);
const token = (sub) => provider.sign({ iss: issuer, aud: 'burst', iat: now(), exp: now() + 600, jti: crypto.randomUUID(), sub, events: { 'http://schemas.openid.net/event/backchannel-logout': {} } });
const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }, form = (sub) => `logout_token=${token(sub)}`;
const place = (route = to.route) => `/backchannel/${route.id}`;
const logout = (body, route = to.route) => ask(`https://${IDP}${place(route)}`, { method: 'POST', body, headers: FORM });

// story(): while one more worker of an edge is there, which acknowledges each end of sessions SLOW ms after it has heard of it. value: a session that is copied.
async function besideSlow(value, story) {
  const one = peer(edgeKey(), 'identity', `ipc://${env.POSTERN_RUN_DIR}/session.log`), name = `${edgeKey().slice('edge@'.length)}/77`, heard = [];
  let read = 0, newest = '0', inForce = '0', log = '-';
  const hello = () => one.send('hello', log, inForce, name, '1');
  const timer = setInterval(() => {
    for (; read < one.got.length; read++) {
      const [word, id, , revision] = one.got[read].map(String);
      if (word === 'who' || (word === 'beat' && revision !== newest)) hello(); // it was given up, and counts again
      if (word === 'delta' || word === 'end') { [log, newest] = [id, revision]; heard.push({ revision, due: Date.now() + (inForce === '0' ? 0 : SLOW) }); }
    }
    while (heard.length && heard[0].due <= Date.now()) inForce = heard.shift().revision;
    one.send('ack', inForce, log);
  }, SIGN);
  hello();
  try {
    await until(() => inForce !== '0', 'it has heard of the sessions');
    await until(async () => (await api('DELETE', `/app/sessions/${othersLike(value, 1)[0].id}`)).headers['postern-edges'] === '3/3', 'answers wait for it', 120000);
    await story();
  } finally {
    clearInterval(timer);
    one.send('bye');
    await until(async () => (await api('DELETE', `/app/sessions/${othersLike(spare, 1)[0].id}`)).headers['postern-edges'] === '2/2', 'it is gone', 120000);
    one.stop();
  }
}

const spare = skip ? '' : await signedIn('bob'); // until the last story
test('a hundred people whom a provider signs out at once are all signed out, however slowly an edge acknowledges it', { skip, timeout: 300000 }, async () => {
  const alice = await signedIn('alice'), people = othersLike(alice, 99), forms = [...people.map(({ sub }) => sub), 'alice'].map(form);
  await besideSlow(spare, async () => {
    const answers = await Promise.all(forms.map((body) => logout(body)));
    assert.deepEqual(answers.filter(({ status }) => status !== 200).map(({ status, body }) => [status, body]), []);
  });
  assert.deepEqual([left(people), await stays(alice)], [0, false]);
});

test('whom a token names that waits is signed out also when its provider has left meanwhile', { skip, timeout: 300000 }, async () => {
  const alice = await signedIn('alice'), people = othersLike(alice, 25), forms = people.map(({ sub }) => form(sub)), bob = people.pop(), bobs = forms.pop(), body = form('alice');
  await besideSlow(spare, async () => {
    const before = forms.map((body) => logout(body)); // two at a time of each worker have their turn
    await Promise.race(before);
    // over HTTP/1.1: nothing comes of it any more
    const gone = tls.connect({ host: edge.host, port: edge.port, servername: 'idp.localhost', ca }, () => gone.end([`POST ${place()} HTTP/1.1`, `Host: ${IDP}`, ...Object.entries(FORM).map((pair) => pair.join(': ')), `Content-Length: ${body.length}`, '', body].join('\r\n')));
    gone.on('error', () => {}).resume();
    // over HTTP/2: the stream is reset once the edge has read all of it, and then the connection ends
    const session = http2.connect(`https://${IDP}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: 'idp.localhost', ca, ALPNProtocols: ['h2'] }) });
    const stream = session.on('error', () => {}).request({ ':method': 'POST', ':path': place(), ...FORM, 'Content-Length': bobs.length }).on('error', () => {});
    stream.end(bobs);
    await new Promise((resolve) => stream.on('finish', resolve));
    await new Promise((resolve, reject) => session.ping((error) => (error ? reject(error) : resolve())));
    stream.close(http2.constants.NGHTTP2_CANCEL);
    await new Promise((resolve) => stream.on('close', resolve));
    session.destroy();
    await until(async () => left([bob]) === 0 && !await stays(alice), 'they are signed out', 120000);
    gone.destroy();
    assert.deepEqual((await Promise.all(before)).filter(({ status }) => status !== 200), []);
  });
  assert.equal(left(people), 0);
});

// A route of another account, whose people sign in at the same provider.
async function ofAnotherAccount() {
  const postern = (...args) => JSON.parse(execFileSync(`${home}/bin/postern`, args, { env: { ...process.env, POSTERN_HOME: home }, encoding: 'utf8' }));
  const account = postern('account', 'create', 'burst', `burst-${process.pid}@example.test`), host = unique('burst');
  const headers = { Authorization: `Bearer ${postern('api-key', 'create', account.id, account.owner_id).token}` };
  const make = async (path, body) => { const got = await api('POST', path, body, headers); assert.equal(got.status, 201, JSON.stringify(got.body)); return got.body; };
  await make('/reserved_domains', { domain: host });
  const front = await make('/edges/https', { hostports: [`${host}:443`] }), backend = await make('/backends/static', { address: up.address });
  return { host, route: await make(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id }, oidc }) };
}
test('of accounts that have one provider, none has another wait until all of its people are signed out', { skip, timeout: 300000 }, async () => {
  const PEOPLE = 40, alice = await signedIn('alice'), people = othersLike(alice, PEOPLE), forms = people.map(({ sub }) => form(sub)), other = await ofAnotherAccount(), bob = await signedIn('bob', other.host);
  const order = [], note = (whose) => ({ status }) => order.push(`${whose} ${status}`);
  await besideSlow(spare, async () => {
    const many = forms.map((body) => logout(body).then(note('many')));
    await Promise.race(many);
    await Promise.all([...many, logout(form('bob'), other.route).then(note('bob'))]);
  });
  assert.deepEqual([order.filter((one) => one === 'many 200').length, left(people), await stays(bob, other.host)], [PEOPLE, 0, false]);
  assert.ok(order.indexOf('bob 200') < PEOPLE / 2, order.join());
});

// So many more sessions of the one whose it is.
function moreLike(value, count) {
  const session = `(SELECT id FROM application_session WHERE token_hash = '${crypto.createHash('sha256').update(value).digest('hex')}')`, id = `'app_sess_' || lpad('${ksuid(0).slice(-20)}' || i, 27, '0')`;
  const copy = (table, where, changed) => `INSERT INTO ${table} SELECT (jsonb_populate_record(t, jsonb_build_object(${changed}))).* FROM ${table} t, generate_series(1, ${count}) i WHERE t.${where};`;
  sql(copy('object', `id = ${session}`, `'id', ${id}`) + copy('application_session', `id = ${session}`, `'id', ${id}, 'token_hash', encode(sha256((${id})::bytea), 'hex')`)
    + copy('sign_in_session', `session_id = ${session}`, `'session_id', ${id}, 'provider_hash', ''`));
}
test('while a token ends very many sessions, others have their turn', { skip, timeout: 300000 }, async () => {
  const SESSIONS = 1500, many = 'bob', crowd = spare, alice = await signedIn('alice'), order = [];
  const theirs = () => Number(sql(`SELECT count(*) FROM application_session s JOIN application_user u ON u.id = s.application_user_id WHERE u.provider_url = '${issuer}' AND u.provider_user_id = '${many}'`));
  moreLike(crowd, SESSIONS);
  const first = logout(form(many)).then(({ status }) => order.push(`many ${status}`));
  await until(() => theirs() <= SESSIONS - 100, 'some of them have ended', 120000);
  await Promise.all([first, logout(form('alice')).then(({ status }) => order.push(`alice ${status}`))]);
  assert.deepEqual([order, theirs(), await stays(alice), await stays(crowd)], [['alice 200', 'many 200'], 0, false, false]);
});
