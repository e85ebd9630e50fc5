// The eight providers of the module oauth, as small servers that speak what each documents: authorize, token, user and the rest, strictly:
// what is asked wrongly is refused as the real one refuses it. One https server has them all, under /<name>/web, /<name>/api and /<name>/token,
// where the stack of the stories looks for them (POSTERN_OAUTH_<NAME>_URL in the Makefile); Microsoft's web has its tenant /common behind it. What a story may set:
//   providers.github.user     who signs in: {id, login, name, email, verified, teams, organizations, ...}
//   .deny                     the user says no
//   .refuse(path, status)     that path answers so, until refuse(path)
//   .delay                    ms before each answer of token and API
//   .revoke()                 all tokens that were given are worth nothing
//   .grant                    scopes that are granted in place of those that were asked for
// and what it may look at: .counts[path], .asked (every request to token and API), .codes.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';

const s256 = (verifier) => crypto.createHash('sha256').update(verifier).digest('base64url');
const random = () => crypto.randomBytes(24).toString('base64url');

class Refused extends Error {
  constructor(status, body, headers = {}) { super(`refused ${status}`); Object.assign(this, { status, body, headers }); }
}
const need = (holds, status, body) => { if (!holds) throw new Refused(status, body); };

// A page of a list with GitHub's Link.
function page(one, list, request) {
  const url = new URL(request.url, one.origin), size = Number(url.searchParams.get('per_page') ?? 30), n = Number(url.searchParams.get('page') ?? 1);
  const last = Math.max(1, Math.ceil(list.length / size)), at = (number) => { url.searchParams.set('page', number); return url.href; };
  const link = one.link ?? [n < last && `<${at(n + 1)}>; rel="next", <${at(last)}>; rel="last"`, n > 1 && `<${at(1)}>; rel="first", <${at(n - 1)}>; rel="prev"`].filter(Boolean).join(', ');
  return [list.slice((n - 1) * size, n * size), link ? { Link: link } : {}];
}

// RFC 6749 5.2, as most write it; others stand in their rows.
const plain = (error, status = 400) => new Refused(status, { error, error_description: `the ${error}` });
const bearer = { type: 'Bearer', lasts: 3600, refreshes: true, rotates: false, scope: (scopes) => scopes.join(' ') };

const rows = {
  github: {
    ...bearer, type: 'bearer', lasts: 0, refreshes: false, scope: (scopes) => scopes.join(','), pkce: true, authorize: '/login/oauth/authorize', token: '/login/oauth/access_token',
    error: (error) => new Refused(200, { error: { invalid_grant: 'bad_verification_code', invalid_client: 'incorrect_client_credentials' }[error] ?? error }), separator: ' ',
    before(one, request) {
      need(request.headers['user-agent'], 403, { message: 'Request forbidden by administrative rules.' });
      assert.equal(request.headers['x-github-api-version'], '2022-11-28');
    },
    gone: [401, { message: 'Bad credentials', documentation_url: 'https://docs.github.com/rest' }],
    api: {
      '/user': ({ user }) => [{ login: user.login, id: user.id, name: user.name ?? null, email: user.hides ? null : user.email, type: 'User' }],
      '/user/emails': ({ user }, granted) => {
        need(granted.includes('user:email') || granted.includes('user'), 404, { message: 'Not Found' });
        return [[{ email: `${user.login}@users.noreply.github.test`, verified: true, primary: false, visibility: null }, ...(user.email ? [{ email: user.email, verified: user.verified, primary: true, visibility: 'private' }] : [])]];
      },
      '/user/teams': (one, granted, request) => {
        need(granted.includes('read:org'), 403, { message: 'Must have read:org' });
        return page(one, (one.user.teams ?? []).map((team, i) => ({ id: 1000 + i, slug: team.split('/')[1], name: team, organization: { login: team.split('/')[0], id: i } })), request);
      },
      '/user/orgs': (one, granted, request) => page(one, (one.user.organizations ?? []).map((login, i) => ({ login, id: i })), request),
    },
  },
  facebook: {
    ...bearer, type: 'bearer', lasts: 5183944, refreshes: false, scope: null, authorize: '/dialog/oauth', token: '/oauth/access_token', separator: ',',
    error: (error) => new Refused(400, { error: { message: `the ${error}`, type: 'OAuthException', code: error === 'invalid_client' ? 101 : 100, fbtrace_id: 'x' } }),
    grants: { fb_exchange_token: (one, form) => one.tokens.get(form.get('fb_exchange_token')) },
    before(one, request, token) {
      const url = new URL(request.url, one.origin), proof = crypto.createHmac('sha256', one.secretOf(token.client)).update(token.value).digest('hex');
      need(url.searchParams.get('appsecret_proof') === proof, 400, { error: { message: 'Invalid appsecret_proof provided in the API argument', type: 'GraphMethodException', code: 100 } });
    },
    gone: [400, { error: { message: 'Error validating access token', type: 'OAuthException', code: 190, error_subcode: 460 } }],
    api: {
      '/me/permissions': (one, granted, request, token) => [{ data: token.asked.map((permission) => ({ permission, status: granted.includes(permission) ? 'granted' : 'declined' })) }],
      '/me': ({ user }, granted) => [{ id: String(user.id), name: user.name, ...(user.email && granted.includes('email') ? { email: user.email } : {}) }],
    },
  },
  microsoft: {
    ...bearer, tenant: '/common', lasts: 3599, rotates: true, pkce: true, authorize: '/oauth2/v2.0/authorize', token: '/oauth2/v2.0/token', separator: ' ',
    refreshes: (scopes) => scopes.includes('offline_access'), scope: (scopes) => scopes.filter((one) => one !== 'offline_access').map((one) => `https://graph.microsoft.com/${one}`).join(' '),
    error: (error) => new Refused(error === 'invalid_client' ? 401 : 400, { error, error_description: 'AADSTS70008', error_codes: [70008], trace_id: 'x' }),
    gone: [401, { error: { code: 'InvalidAuthenticationToken', message: 'gone' } }],
    api: { '/v1.0/me': ({ user }) => [{ '@odata.context': 'x', id: String(user.id), displayName: user.name, mail: user.email ?? null, userPrincipalName: user.principal ?? user.email ?? 'x@tenant.onmicrosoft.test' }] },
  },
  google: {
    ...bearer, lasts: 3599, pkce: true, authorize: '/o/oauth2/v2/auth', token: '/token', separator: ' ', refreshes: (scopes, query) => query.get('access_type') === 'offline', issuer: true,
    scope: (scopes) => [...scopes, 'openid'].join(' '), error: (error) => plain(error, error === 'invalid_client' ? 401 : 400), gone: [401, { error: 'invalid_request', error_description: 'Invalid Credentials' }],
    api: { '/v1/userinfo': ({ user }) => [{ sub: String(user.id), name: user.name, email: user.email, email_verified: user.verified, hd: 'x' }] },
  },
  linkedin: {
    ...bearer, lasts: 5183999, refreshes: false, authorize: '/oauth/v2/authorization', token: '/oauth/v2/accessToken', separator: ' ', scope: (scopes) => scopes.join(','),
    error: (error) => plain(error === 'invalid_grant' ? 'invalid_request' : error, error === 'invalid_client' ? 401 : 400), denied: 'user_cancelled_authorize',
    gone: [401, { serviceErrorCode: 65601, message: 'The token used in the request has been revoked by the user', status: 401 }],
    api: { '/v2/userinfo': ({ user }) => [{ sub: String(user.id), name: user.name, email: user.email, email_verified: user.verified, locale: 'en-US' }] },
  },
  gitlab: {
    ...bearer, lasts: 7200, rotates: true, pkce: true, authorize: '/oauth/authorize', token: '/oauth/token', separator: ' ', error: (error) => plain(error, error === 'invalid_client' ? 401 : 400),
    gone: [401, { error: 'invalid_token', error_description: 'Token was revoked. You have to re-authorize from the user.' }],
    api: { '/oauth/userinfo': ({ user }) => [{ sub: String(user.id), name: user.name, nickname: user.login, preferred_username: user.login, email: user.email, email_verified: user.verified, groups: user.groups ?? [] }] },
  },
  twitch: {
    ...bearer, type: 'bearer', lasts: 14124, rotates: false, authorize: '/oauth2/authorize', token: '/oauth2/token', separator: ' ', scope: (scopes) => scopes,
    error: (error, what) => new Refused(error === 'invalid_client' ? 403 : 400, { error: 'Bad Request', status: 400, message: what === 'refresh_token' ? 'Invalid refresh token' : 'Invalid authorization code' }),
    before(one, request, token) { need(request.headers['client-id'] === token.client, 401, { error: 'Unauthorized', status: 401, message: 'Client ID and OAuth token do not match' }); },
    gone: [401, { error: 'Unauthorized', status: 401, message: 'Invalid OAuth token' }],
    api: { '/helix/users': ({ user }, granted) => [{ data: [{ id: String(user.id), login: user.login, display_name: user.name, ...(granted.includes('user:read:email') ? { email: user.email } : {}) }] }] },
  },
  amazon: {
    ...bearer, type: 'bearer', lasts: 3600, pkce: true, authorize: '/ap/oa', token: '/auth/o2/token', separator: ' ', scope: null, error: (error) => plain(error, error === 'invalid_client' ? 401 : 400),
    gone: [400, { error: 'invalid_token', error_description: 'gone' }], // as documented: not 401
    api: { '/user/profile': ({ user }) => [{ user_id: String(user.id), name: user.name, email: user.email }] },
  },
};

class Provider {
  constructor(name, origin, clients) {
    Object.assign(this, { name, row: rows[name], origin, base: `${origin}/${name}/`, signIn: `${origin}/${name}/web${rows[name].tenant ?? ''}`, clients, codes: new Map(), tokens: new Map(), refreshes: new Map(), counts: {}, asked: [], refused: {} });
    this.reset();
  }

  reset() {
    Object.assign(this, { user: { id: 583231, login: 'ada', name: 'Ada Lovelace', email: 'ada@good.test', verified: true }, deny: false, delay: 0, grant: null, link: null, counts: {}, asked: [], refused: {} });
    this.revoke();
  }

  refuse(path, status, body = {}, headers = {}) { if (status) this.refused[path] = { status, body, headers }; else delete this.refused[path]; }

  revoke() { for (const kept of [this.codes, this.tokens, this.refreshes]) kept.clear(); }

  secretOf(client) { return this.clients[client]; }

  // The browser's page: the user is signed in there, and agrees or not.
  authorize(url) {
    const query = url.searchParams, to = new URL(query.get('redirect_uri'));
    need(this.clients[query.get('client_id')], 400, 'unknown client');
    need(query.get('response_type') === 'code' && query.get('state') && query.get('scope'), 400, 'bad request');
    need(!this.row.pkce || (query.get('code_challenge_method') === 'S256' && /^[\w-]{43}$/.test(query.get('code_challenge'))), 400, 'no challenge');
    to.searchParams.set('state', query.get('state'));
    if (this.row.issuer) to.searchParams.set('iss', this.signIn);
    if (this.deny) to.searchParams.set('error', this.row.denied ?? 'access_denied');
    else {
      const code = random(), asked = query.get('scope').split(this.row.separator);
      this.codes.set(code, { client: query.get('client_id'), redirect: query.get('redirect_uri'), challenge: query.get('code_challenge'), asked, granted: this.grant ?? asked, query, user: this.user });
      to.searchParams.set('code', code);
    }
    return new Refused(302, '', { Location: to.href });
  }

  issue(grant, again) {
    const value = random(), row = this.row, refreshes = typeof row.refreshes === 'function' ? row.refreshes(grant.asked, grant.query) : row.refreshes;
    this.tokens.set(value, { ...grant, value });
    const answer = { access_token: value, token_type: row.type };
    if (row.lasts) answer.expires_in = row.lasts;
    if (row.scope) answer.scope = row.scope(grant.granted);
    if (refreshes && (!again || row.rotates)) { answer.refresh_token = random(); this.refreshes.set(answer.refresh_token, grant); }
    return answer;
  }

  token(request, body) {
    const form = new URLSearchParams(body), row = this.row, type = form.get('grant_type'), client = form.get('client_id');
    if (request.method !== 'POST' || request.headers['content-type'] !== 'application/x-www-form-urlencoded') throw row.error('invalid_request');
    if (!client || this.clients[client] !== form.get('client_secret')) throw row.error('invalid_client');
    if (type === 'authorization_code') {
      const grant = this.codes.get(form.get('code'));
      this.codes.delete(form.get('code'));
      if (!grant || grant.client !== client || grant.redirect !== form.get('redirect_uri') || (row.pkce && s256(form.get('code_verifier') ?? '') !== grant.challenge)) throw row.error('invalid_grant', 'code');
      return this.issue(grant);
    }
    const grant = type === 'refresh_token' ? this.refreshes.get(form.get('refresh_token')) : row.grants?.[type]?.(this, form);
    if (!grant || grant.client !== client) throw row.error('invalid_grant', type);
    if (row.rotates) this.refreshes.delete(form.get('refresh_token'));
    return this.issue(grant, true);
  }

  answer(request, path) {
    const token = this.tokens.get((request.headers.authorization ?? '').replace(/^Bearer /, ''));
    need(token, ...this.row.gone);
    this.row.before?.(this, request, token);
    need(this.row.api[path], 404, { message: 'Not Found' });
    return this.row.api[path]({ ...this, user: this.user, origin: this.origin }, token.granted, request, token);
  }

  async serve(request, response, part, path, body) {
    this.counts[path] = (this.counts[path] ?? 0) + 1;
    if (part !== 'web' || path !== this.row.authorize) this.asked.push({ path, url: request.url, headers: request.headers, body });
    if (this.delay) await new Promise((done) => { setTimeout(done, this.delay); });
    const told = this.refused[path];
    let status = 200, answer, headers = {};
    try {
      if (told) throw new Refused(told.status, told.body, told.headers);
      if (part === 'web' && path === this.row.authorize) throw this.authorize(new URL(request.url, this.origin));
      if (part === 'token' && path === this.row.token) answer = this.token(request, body);
      else if (part === 'api') [answer, headers = {}] = this.answer(request, path);
      else throw new Refused(404, {});
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      ({ status, body: answer, headers } = error);
    }
    // GitHub answers a form to whoever does not ask for JSON
    const form = this.name === 'github' && part === 'token' && !/json/.test(request.headers.accept ?? '');
    response.writeHead(status, { 'Content-Type': form ? 'application/x-www-form-urlencoded; charset=utf-8' : 'application/json; charset=utf-8', ...headers });
    response.end(typeof answer === 'string' ? answer : form ? new URLSearchParams(answer).toString() : JSON.stringify(answer));
  }
}

// All of them, listening: {github, ..., origin, close()}. clients: {id: secret} that each knows.
export async function oauthProviders({ port, key, cert, clients }) {
  const origin = `https://localhost:${port}`, all = Object.fromEntries(Object.keys(rows).map((name) => [name, new Provider(name, origin, clients)]));
  const server = https.createServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert) }, async (request, response) => {
    const [, name, part, path] = /^\/(\w+)\/(web|api|token)(?:\/common)?(\/[^?]*)/.exec(request.url) ?? [], chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    if (!all[name]) { response.writeHead(404); response.end(); return; }
    await all[name].serve(request, response, part, path, Buffer.concat(chunks).toString()).catch((error) => { response.writeHead(500); response.end(String(error)); });
  });
  await new Promise((done, failed) => { server.on('error', failed); server.listen(port, '127.0.0.1', done); });
  const close = () => new Promise((done) => { server.close(done); server.closeAllConnections(); });
  return Object.assign(all, { origin, close, names: Object.keys(rows), row: rows });
}
