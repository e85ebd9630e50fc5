// Programs at a route with OpenID Connect: a JWT of its issuer lets in where the module says so, for the audiences that it names and by its
// rules. Whatever else has the scheme Bearer there is refused, never goes upstream, and is in no event and no log.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import tls from 'node:tls';
import { Browser } from '../support/browser.mjs';
import { oidcProvider, signingKey } from '../support/oidc-provider.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { api, ca, edge, elsewhere, endpoint, env, forgetUsers, home, listening, must, raw, through, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const API = 'https://api.story.test', SESSION = '__Host-postern.session', IDP = `https://idp.localhost:${edge.port}`;
const authority = process.env.STORY_UPSTREAM_TLS, port = edge.port - 43 + 98;
const callback = (issuer) => `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
const CLIENT = { client_id: 'postern', client_secret: 'a secret of the story', redirect_uris: callback };
const ROBOT = { client_id: 'robot', client_secret: 'the robot of the story', redirect_uris: [], response_types: [], grant_types: ['client_credentials'], token_endpoint_auth_method: 'client_secret_post' };
const signed = skip ? null : { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) };
const provider = skip ? null : await oidcProvider({ port, apis: [API, 'https://other.story.test'], clients: [CLIENT, ROBOT], signed });
const sub = skip ? null : await listening('http_request_complete');
test.after(async () => { if (provider) await forgetUsers(provider.issuer); provider?.stop(); });

const oidc = (fields) => ({ issuer: provider.issuer, client_id: CLIENT.client_id, client_secret: CLIENT.client_secret, scopes: ['email', 'profile', 'groups'], bearer_tokens: true, bearer_audiences: ['https://unused.story.test', API], ...fields });
async function guarded(fields) {
  const up = await upstream((request, response) => response.end(JSON.stringify(request.headers)));
  return { up, to: await endpoint(up.address, { oidc: oidc(fields) }) };
}
const put = ({ edge: { id }, route }, fields) => must('PUT', `/edges/https/${id}/routes/${route.id}/oidc`, oidc(fields));
const now = () => Math.floor(Date.now() / 1000);
const claims = (more) => ({ iss: provider.issuer, aud: API, sub: 'worker', client_id: 'worker', exp: now() + 300, iat: now(), jti: crypto.randomUUID(), ...more });
const jwt = (more = {}, header = {}, key) => provider.sign(claims(more), { typ: 'at+jwt', ...header }, key);
const bearer = (token, headers = {}) => ({ headers: { Authorization: `Bearer ${token}`, ...headers } });
const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const status = async (to, token, headers) => (await through(to.host, '/', bearer(token, headers))).status;
async function admits(to, token, headers) {
  const answer = await through(to.host, '/', bearer(token, headers));
  assert.equal(answer.status, 200, answer.body);
  return JSON.parse(answer.body);
}
async function refuses({ to, up }, token, what, headers) {
  const before = up.seen.length, answer = await through(to.host, '/', bearer(token, headers));
  assert.deepEqual([answer.status, answer.headers['www-authenticate'], answer.headers.location], [401, 'Bearer realm="service", error="invalid_token"', undefined], what);
  assert.equal(up.seen.length, before, `${what}: nothing goes upstream`);
}
async function signedIn(to, who) {
  const browser = new Browser(), back = new URL(callback(provider.issuer));
  const away = await browser.go(`https://${to.host}:${edge.port}/`, { stop: (location) => location.startsWith(provider.issuer) });
  for (const [name, values] of Object.entries(await provider.signIn(away.headers.location, who))) back.searchParams.set(name, values[0]);
  assert.equal((await browser.go(back.href)).status, 200);
  return `${SESSION}=${browser.cookies.get(`${to.host}:${edge.port}`).get(SESSION)}`;
}

test('a program that got a JWT by its credentials is let in, and the upstream learns who it is, and not the token', { skip }, async () => {
  const { to, up } = await guarded();
  const token = await provider.programToken(ROBOT, API), header = JSON.parse(Buffer.from(token.split('.')[0], 'base64url'));
  assert.equal(header.typ, 'at+jwt');
  const seen = new Set();
  for (let n = 0; n < 12; n++) {
    const got = await admits(to, token, { 'Ngrok-Auth-User-Id': 'forged', 'Postern-Auth-User-Id': 'forged', 'Postern-Auth-User-Jwt': 'a.b.c' });
    assert.deepEqual([got['ngrok-auth-user-id'], got['postern-auth-user-name'], got.authorization], ['robot', 'robot', undefined]);
    assert.match(got['postern-auth-user-id'], /^bearer_[0-9a-f]{32}$/);
    seen.add(got['postern-auth-user-id']);
    const told = JSON.parse(Buffer.from(got['postern-auth-user-jwt'].split('.')[1], 'base64url'));
    assert.deepEqual([told.iss, told.aud, told.sub, told.sid], [IDP, to.route.id, got['postern-auth-user-id'], undefined]);
    assert.ok(told.exp <= JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).exp, 'it lasts no longer than the token');
  }
  assert.equal(seen.size, 1);
  assert.equal((await through(to.host, '/', { method: 'POST', body: 'x', ...bearer(token) })).status, 200);
  await refuses({ to, up }, await provider.programToken(ROBOT, 'https://other.story.test'), 'a token for another API');
  await up.close();
});

test('a JWT that is known costs no question, and nobody is asked for keys again', { skip }, async () => {
  const { to, up } = await guarded(), token = jwt();
  const asks = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_module_(?:jwt_)?asks_total\{[^}]*module="oidc"[^}]*\} (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
  for (let n = 0; n < 40; n++) await admits(to, token); // each worker has the word of it for upstreams
  const before = await asks(), { jwks } = provider.calls;
  await Promise.all(Array.from({ length: 60 }, () => admits(to, token)));
  assert.deepEqual([await asks(), provider.calls.jwks], [before, jwks]);
  await up.close();
});

// Each is a good token but for one thing.
const hmac = (secret) => () => {
  const text = `${part({ typ: 'at+jwt', alg: 'HS256', kid: provider.kid() })}.${part(claims())}`;
  return `${text}.${crypto.createHmac('sha256', secret()).update(text).digest('base64url')}`;
};
const DENIED = {
  'alg none, with a signature': () => jwt({}, { alg: 'none' }),
  'alg none, without one': () => `${part({ typ: 'at+jwt', alg: 'none' })}.${part(claims())}.`,
  'alg none in another spelling': () => jwt({}, { alg: 'nOnE' }),
  'HS256 with the public key in PEM': hmac(() => provider.publicKey().export({ type: 'spki', format: 'pem' })),
  'HS256 with the public key in DER': hmac(() => provider.publicKey().export({ type: 'spki', format: 'der' })),
  'HS256 with the client secret': hmac(() => CLIENT.client_secret),
  'another issuer': () => jwt({ iss: 'https://evil.story.test' }),
  'the issuer with a slash': () => jwt({ iss: `${provider.issuer}/` }),
  'no issuer': () => jwt({ iss: undefined }),
  'another audience': () => jwt({ aud: 'https://other.story.test' }),
  'an audience that begins like the route\'s': () => jwt({ aud: `${API}/` }),
  'no audience': () => jwt({ aud: undefined }),
  'an ID token': () => provider.sign({ ...claims({ aud: CLIENT.client_id, nonce: 'n' }) }, { typ: 'JWT' }),
  'expired': () => jwt({ exp: now() - 1 }),
  'of the future': () => jwt({ nbf: now() + 3600 }),
  'issued in the future': () => jwt({ iat: now() + 3600 }),
  'no exp': () => jwt({ exp: undefined }),
  'an exp that is text': () => jwt({ exp: String(now() + 300) }),
  'nobody\'s': () => jwt({ sub: undefined }),
  'another key': () => jwt({}, { kid: provider.kid() }, signingKey()),
  'another key, which the header brings along': () => { const key = signingKey(); return jwt({}, { kid: provider.kid(), jwk: { kty: key.kty, n: key.n, e: key.e } }, key); },
  'a critical extension': () => jwt({}, { crit: ['b64'], b64: true }),
  'a logout token': () => jwt({ events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }),
  'a typ of other tokens': () => jwt({}, { typ: 'logout+jwt' }),
  'bound to a key that is not shown': () => jwt({ cnf: { jkt: 'x' } }),
  'oversized': () => jwt({ pad: 'x'.repeat(8192) }),
  'no JWT': () => 'opaque',
  'a service token\'s shape': () => `postern_${'0'.repeat(27)}_${'0'.repeat(21)}`,
};
// These name a key that may be new: where the key set was asked for a moment ago, nobody can tell.
const UNKNOWN = {
  'a kid that is a path': () => jwt({}, { kid: '../../../../dev/null' }),
  'a kid that is a URL': () => jwt({}, { kid: 'https://evil.story.test/key', jku: 'https://evil.story.test/keys', x5u: 'https://evil.story.test/chain' }),
};
test('what is wrong with a token in any way is refused', { skip, timeout: 300000 }, async (t) => {
  const { to, up } = await guarded();
  await admits(to, jwt());
  for (const [what, make] of Object.entries(DENIED)) await t.test(what, () => refuses({ to, up }, make(), what));
  for (const [what, make] of Object.entries(UNKNOWN)) await t.test(what, async () => {
    const before = up.seen.length, answer = await through(to.host, '/', bearer(make()));
    assert.ok([401, 503].includes(answer.status), `${what}: ${answer.status} ${answer.body}`);
    assert.equal(up.seen.length, before, `${what}: nothing goes upstream`);
  });
  await t.test('a good one with a signature that is changed', () => { const good = jwt(); return refuses({ to, up }, good.slice(0, -10) + (good.at(-10) === 'A' ? 'B' : 'A') + good.slice(-9), 'changed'); });
  await t.test('two headers', async () => {
    const before = up.seen.length, good = jwt();
    for (const lines of [[good, 'a.b.c'], ['a.b.c', good], [good, good]])
      assert.match(await raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\n${lines.map((one) => `Authorization: Bearer ${one}\r\n`).join('')}Connection: close\r\n\r\n`), /^HTTP\/1\.1 400 /);
    await refuses({ to, up }, `${good}, Bearer ${good}`, 'two in one header');
    assert.equal(up.seen.length, before);
  });
  await t.test('a page is not sent away to sign in either', () => refuses({ to, up }, 'a.b.c', 'a navigation', { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }));
  await t.test('who brings nothing is told what there is', async () => {
    const answer = await through(to.host, '/');
    assert.deepEqual([answer.status, answer.headers['www-authenticate']], [401, 'Postern-Session realm="sign-in", Bearer realm="service"']);
  });
  await admits(to, jwt());
  await up.close();
});

test('an ID token is let in where the client is named as an audience', { skip }, async () => {
  const { to, up } = await guarded({ bearer_audiences: [CLIENT.client_id] });
  await admits(to, provider.sign(claims({ aud: CLIENT.client_id, nonce: 'n' }), { typ: 'JWT' }));
  await refuses({ to, up }, jwt(), 'what was for the API');
  await up.close();
});

test('the rules of the route are those of programs, too', { skip, timeout: 280000 }, async () => {
  const { to, up } = await guarded({ groups: ['robots'] });
  const denied = async (token) => {
    const before = up.seen.length;
    for (let n = 0; n < 3; n++) { // asked for, and remembered
      const answer = await through(to.host, '/', bearer(token));
      assert.deepEqual([answer.status, answer.headers['www-authenticate'], /ERR_POSTERN_\d+/.exec(answer.body)?.[0]], [403, 'Bearer realm="service", error="insufficient_scope"', 'ERR_POSTERN_951']);
    }
    assert.equal(up.seen.length, before);
  };
  await denied(jwt());
  await denied(jwt({ groups: ['robot', 'Robots'] }));
  const got = await admits(to, jwt({ groups: ['robots', 'all'], name: 'Robbie', email: 'r@example.test' }));
  assert.deepEqual([got['postern-auth-user-groups'], got['postern-auth-user-name'], got['postern-auth-user-email'], got['postern-auth-user-email-unverified']], ['robots,all', 'Robbie', undefined, 'r@example.test']);
  assert.equal((await admits(to, jwt({ groups: ['robots'], email: 'r@example.test', email_verified: true })))['postern-auth-user-email'], 'r@example.test');
  await put(to, { email_domains: ['example.test'] });
  await denied(jwt({ email: 'r@example.test' }));
  await denied(jwt({ email: 'r@other.test', email_verified: true }));
  await admits(to, jwt({ email: 'r@example.test', email_verified: true }));
  await put(to, { email_addresses: ['r@example.test'] });
  await denied(jwt({ email: 's@example.test', email_verified: true }));
  await admits(to, jwt({ email: 'r@example.test', email_verified: true }));
  await up.close();
});

test('without the field, without a module, and after a change nothing is remembered', { skip, timeout: 280000 }, async () => {
  const off = await guarded({ bearer_tokens: false }), { to, up } = await guarded(), token = jwt();
  const answer = await through(off.to.host, '/', bearer(token));
  assert.deepEqual([answer.status, answer.headers['www-authenticate'], off.up.seen.length], [401, 'Postern-Session realm="sign-in"', 0]);
  const plain = await endpoint(off.up.address);
  assert.equal(JSON.parse((await through(plain.host, '/', bearer(token))).body).authorization, `Bearer ${token}`, 'a route without a module does not look at it');
  for (const fields of [{ bearer_audiences: ['https://other.story.test'] }, { groups: ['nobody'] }, { bearer_tokens: false }, { client_id: 'another' }, { issuer: `https://localhost:${port + 1}` }]) {
    assert.deepEqual(new Set(await Promise.all(Array.from({ length: 20 }, () => status(to, token)))), new Set([200]));
    await put(to, fields);
    const seen = up.seen.length, after = new Set(await Promise.all(Array.from({ length: 20 }, () => status(to, token))));
    if (fields.client_id) assert.deepEqual([...after], [200], 'it is good still');
    else assert.deepEqual([up.seen.length, after.has(200)], [seen, false], JSON.stringify(fields));
    await put(to, {});
  }
  await off.up.close();
  await up.close();
});

test('a token beside a session decides alone, and goes upstream nowhere', { skip }, async () => {
  const { to, up } = await guarded(), Cookie = await signedIn(to, 'alice');
  assert.equal((await through(to.host, '/', { headers: { Cookie } })).status, 200);
  assert.equal((await admits(to, jwt(), { Cookie }))['ngrok-auth-user-id'], 'worker');
  for (const bad of ['a.b.c', 'opaque', jwt({ exp: now() - 1 }), `${jwt()}x`]) await refuses({ to, up }, bad, 'with a session', { Cookie });
  await refuses({ to, up }, jwt({ exp: now() - 1 }), 'with a forged cookie', { Cookie: `${SESSION}=${'A'.repeat(43)}` });
  const basic = JSON.parse((await through(to.host, '/', { headers: { Cookie, Authorization: 'Basic YTpi' } })).body);
  assert.deepEqual([basic.authorization, basic['ngrok-auth-user-id']], ['Basic YTpi', 'alice'], 'other schemes are the application\'s');
  await up.close();
});

test('a stream that a token began ends with the token\'s rules, and at its exp', { skip, timeout: 280000 }, async () => {
  const { to, up } = await guarded();
  up.server.removeAllListeners('upgrade');
  const open = new Set();
  up.server.on('upgrade', (request, socket) => {
    const accept = crypto.createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    open.add(socket.on('error', () => {}).resume());
  });
  const begin = async (token) => {
    const one = { text: '', closed: false }, socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
    socket.on('data', (part) => { one.text += part; }).on('close', () => { one.closed = true; }).on('error', () => {});
    socket.write(`GET / HTTP/1.1\r\nHost: ${to.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${crypto.randomBytes(16).toString('base64')}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    await until(() => one.text.startsWith('HTTP/1.1 101'), 'the stream is open');
    return one;
  };
  const short = await begin(jwt({ exp: now() + 40 })), long = await begin(jwt());
  await until(() => short.closed, 'the token is over', 120000);
  assert.equal(long.closed, false);
  await put(to, { bearer_audiences: ['https://other.story.test'] });
  await until(() => long.closed, 'its audience is none any more');
  for (const one of open) one.destroy();
  await up.close();
});

test('many programs of one address at once, also after a change of the module: each waits for its turn, and none is turned away', { skip, timeout: 280000 }, async () => {
  const { to, up } = await guarded(), tokens = Array.from({ length: 60 }, (_, n) => jwt({ sub: `worker${n}` }));
  for (const fields of [null, { maximum_duration: 86400 }]) {
    if (fields) await put(to, fields);
    const answers = await Promise.all(tokens.map((token) => status(to, token)));
    assert.deepEqual([...new Set(answers)], [200], `${answers.filter((one) => one !== 200).length} of them`);
  }
  await up.close();
});

test('tokens that are made up take no room from those that are known', { skip, timeout: 280000 }, async () => {
  const { to, up } = await guarded(), token = jwt();
  await admits(to, token);
  const made = Array.from({ length: 200 }, (_, n) => jwt({ jti: String(n) }, {}).replace(/.{20}$/, crypto.randomBytes(15).toString('base64url')));
  const flood = Promise.all(made.map((one) => status(to, one))), good = await Promise.all(Array.from({ length: 40 }, () => status(to, token)));
  assert.deepEqual(new Set(good), new Set([200]));
  assert.ok((await flood).every((one) => one === 401 || one === 503));
  assert.equal(up.seen.length, 41);
  await up.close();
});

test('what would let in tokens of any audience is not stored', { skip }, async () => {
  const { to, up } = await guarded();
  const at = `/edges/https/${to.edge.id}/routes/${to.route.id}/oidc`;
  for (const [fields, code, field] of [
    [{ bearer_audiences: [] }, 122, 'bearer_audiences'], [{ bearer_audiences: undefined }, 122, 'bearer_audiences'], [{ bearer_audiences: [''] }, 121, 'bearer_audiences'],
    [{ bearer_audiences: ['a\nb'] }, 121, 'bearer_audiences'], [{ bearer_audiences: ['x'.repeat(256)] }, 121, 'bearer_audiences'], [{ bearer_tokens: 'yes' }, 121, 'bearer_tokens'],
  ]) {
    const answer = await api('PUT', at, oidc(fields));
    assert.deepEqual([answer.status, answer.body.error_code], [400, `ERR_POSTERN_${code}`], answer.raw);
    assert.match(answer.raw, new RegExp(field));
  }
  await up.close();
});

test('identity is asked by edges alone, and believes the sealed module alone', { skip }, async () => {
  const bus = caller(edgeKey(), 'identity', `ipc://${env.POSTERN_RUN_DIR}/identity.rpc`);
  try {
    for (const verb of ['bearer_token.check', 'bearer_token.vouch']) {
      for (const [body, code] of [[{}, 122], [{ token: 'a.b.c' }, 122], [{ token: 'a.b.c', sealed: 'nonsense' }, 121], [{ sealed: 'nonsense' }, 121]]) {
        const id = bus.ask(verb, body);
        assert.equal((await until(() => bus.answer(id), `an answer to ${verb}`)).code, code, `${verb} ${JSON.stringify(body)}`);
      }
    }
  } finally { bus.stop(); }
});

test('a refused token leaves its reason in the log of identity, under the id that the answer has, and nothing of itself', { skip, timeout: 280000 }, async () => {
  const { to, up } = await guarded();
  const lines = (id) => fs.readdirSync(`${home}/log`).filter((name) => name.startsWith('identity')).flatMap((name) => fs.readFileSync(`${home}/log/${name}`, 'latin1').split('\n')).filter((line) => line.includes(id));
  // There are so many lines a minute of an account, and other stories' tokens may have had them: then the next minute's are waited for.
  const refusal = (more) => until(async () => {
    const token = jwt({ ...more, sub: `hidden-${crypto.randomUUID()}` }), answer = await through(to.host, '/', bearer(token)), id = answer.headers['postern-request-id'];
    assert.equal(answer.status, 401);
    assert.match(id, /^req_[0-9a-f]{32}$/);
    for (let n = 0; n < 20 && !lines(id).length; n++) await new Promise((resolve) => setTimeout(resolve, 100));
    const [line] = lines(id);
    return line && { line, id, token };
  }, 'a line of a refusal', 150000);
  for (const [why, more] of [["its aud is none of the route's", { aud: 'https://other.story.test' }], ['its iss is another issuer', { iss: 'https://evil.story.test' }], ['it has expired', { exp: now() - 5 }]]) {
    const { line, id, token } = await refusal(more), { sub: whose } = JSON.parse(Buffer.from(token.split('.')[1], 'base64url'));
    assert.match(line, new RegExp(`verb=bearer_token\\.check req=${id}\\.\\d+ r=SESSION_GONE `));
    assert.ok(line.includes(`: ${why}"`), line);
    for (const part of [whose, 'other.story', 'evil.story', ...token.split('.').map((text) => text.slice(0, 40))]) assert.ok(!line.includes(part), line);
  }
  await up.close();
});

test('no event and no log has a token, and events say who it was', { skip }, async () => {
  const { to, up } = await guarded(), good = jwt(), bad = jwt({ exp: now() - 1 });
  sub.events.length = 0;
  const id = (await admits(to, good))['postern-auth-user-id'];
  await through(to.host, '/bad', bearer(bad));
  const mine = (path) => sub.events.find((event) => event.object.http.request.url.path === path && JSON.stringify(event).includes(to.host)); // not late ones of other stories
  await until(() => mine('/') && mine('/bad'), 'events');
  const { object } = mine('/');
  assert.deepEqual([object.oauth.decision, object.oauth.user.id, object.oauth.user.name], ['allow', id, 'worker']);
  const secrets = [good, bad].map((token) => token.split('.')[2].slice(0, 40));
  const files = fs.readdirSync(`${home}/log`).map((name) => [name, fs.readFileSync(`${home}/log/${name}`, 'latin1')]);
  for (const secret of secrets) for (const [where, text] of [['events', JSON.stringify(sub.events)], ...files]) assert.ok(!text.includes(secret), where);
  await up.close();
});
