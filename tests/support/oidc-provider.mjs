// npm's oidc-provider as an identity provider of a story: over TLS, with a certificate of an authority of its own, on a port that is given or free.
// Nobody clicks: whoever comes signs in as `account` (or as the account that the browser's cookie `account` names) and consents.
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import dns from 'node:dns';
import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';

// Like every package of stories, from tests/e2e.
const { default: Provider, errors } = await import(createRequire(new URL('../e2e/', import.meta.url)).resolve('oidc-provider'));

const PLACES = { '/.well-known/openid-configuration': 'discovery', '/auth': 'auth', '/token': 'token', '/me': 'userinfo', '/jwks': 'jwks', '/session/end': 'logout' };

// A certificate of localhost by an authority that nobody else trusts.
function certificate(dir) {
  const openssl = (...args) => execFileSync('openssl', args, { cwd: dir, stdio: 'ignore' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl('req', '-x509', ...key, '-days', '9', '-subj', '/CN=Test authority of identity providers', '-keyout', 'ca.key', '-out', 'ca.pem');
  openssl('req', ...key, '-subj', '/CN=localhost', '-keyout', 'key.pem', '-out', 'request.pem');
  fs.writeFileSync(`${dir}/names`, 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
  openssl('x509', '-req', '-in', 'request.pem', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '9', '-extfile', 'names', '-out', 'cert.pem');
  return { key: fs.readFileSync(`${dir}/key.pem`), cert: fs.readFileSync(`${dir}/cert.pem`), ca: fs.readFileSync(`${dir}/ca.pem`) };
}

// A private key for an algorithm, as a JWK.
export function signingKey(alg = 'RS256') {
  const curve = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' }[alg];
  const pair = alg === 'EdDSA' ? crypto.generateKeyPairSync('ed25519') : curve ? crypto.generateKeyPairSync('ec', { namedCurve: curve }) : crypto.generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...pair.privateKey.export({ format: 'jwk' }), use: 'sig', alg, kid: crypto.randomUUID() };
}

// An issuer on a given port is the same in story after story, and postern-identity keeps its keys.
function keptKey(port, algorithm) {
  const file = `${process.env.STORY_UPSTREAM_TLS}.${port}.${algorithm}.jwk`;
  if (!fs.existsSync(file)) fs.writeFileSync(file, JSON.stringify(signingKey(algorithm)), { mode: 0o600 });
  return JSON.parse(fs.readFileSync(file, 'utf8'));
}

/* {port, realm: path behind the issuer's port, "/x", with keys of its own, apis: audiences that programs get JWTs for, clients: oidc-provider's client metadata, algorithm of ID tokens, accessTokenSeconds, trusts: PEM of who signed the certificates of back-channel logout's receivers,
 * signed: {key, cert, ca} of localhost, where it is not to make a certificate}
 * -> {issuer, ca: path of its authority, accounts: sub -> claims, account: who signs in next, refuse: consent is refused, calls: {discovery, auth, token, userinfo, jwks, logout, person: it is asked something}, given: answers with tokens,
 *     down: 503 for all, or the status that it is, delayMs, hold: promise that answers wait for, told: what became of its logout tokens, signIn(url, sub, jar) -> {name: [values]}, signOut(url, jar) -> URL,
 *     sign(claims, header, key), publicKey(), programToken(client, api) -> a JWT, rotate(), revoke(sub), stop()} */
export async function oidcProvider({ port = 0, realm = '', apis = [], clients, algorithm = 'RS256', accessTokenSeconds = 3600, trusts, signed }) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-oidc-'));
  fs.chmodSync(dir, 0o755);
  const tls = signed ?? certificate(dir);
  const accounts = {
    alice: { name: 'Alice Liddell', preferred_username: 'alice', email: 'alice@example.test', email_verified: true, groups: ['staff', 'admins'] },
    bob: { name: 'Bob Dodgson', preferred_username: 'bob', email: 'bob@other.test', email_verified: false, groups: ['staff'] },
  };
  const self = { accounts, ca: `${dir}/ca.pem`, account: 'alice', refuse: false, down: false, delayMs: 0, hold: null, calls: {}, given: [], told: [] };
  const cookieKeys = [crypto.randomUUID()], tokens = new Map();
  let keys = [port && !realm ? keptKey(port, algorithm) : signingKey(algorithm)], provider, answer;

  const configuration = () => ({
    clients: clients.map((client) => ({ grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], id_token_signed_response_alg: algorithm, ...client, redirect_uris: [typeof client.redirect_uris === 'function' ? client.redirect_uris(self.issuer) : client.redirect_uris].flat() })),
    jwks: { keys },
    cookies: { keys: cookieKeys },
    scopes: ['openid', 'offline_access'],
    claims: { openid: ['sub', 'sid'], email: ['email', 'email_verified'], profile: ['name', 'preferred_username'], groups: ['groups'] },
    findAccount: (_, sub) => accounts[sub] && { accountId: sub, claims: () => ({ sub, ...accounts[sub] }) },
    features: {
      ...(apis.length && {
        clientCredentials: { enabled: true },
        resourceIndicators: { enabled: true, defaultResource: () => undefined, getResourceServerInfo: (_, resource) => {
          if (!apis.includes(resource)) throw new errors.InvalidTarget();
          return { audience: resource, scope: '', accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt: { sign: { alg: algorithm } } };
        } },
      }),
      devInteractions: { enabled: false }, userinfo: { enabled: true }, backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true, logoutSource: (ctx, form) => { ctx.body = `<!doctype html>${form.replace('</form>', '<input type="hidden" name="logout" value="yes"/></form>')}<script>document.forms[0].submit()</script>`; } },
    },
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    ttl: { AccessToken: accessTokenSeconds, AuthorizationCode: 60, IdToken: 3600, RefreshToken: 86400, Interaction: 600, Session: 86400, Grant: 86400 },
    httpOptions: () => ({ agent: new https.Agent({ ca: trusts }), dnsLookup: (host, options, done) => dns.lookup(host.endsWith('.localhost') ? 'localhost' : host, options, done), signal: AbortSignal.timeout(20000) }),
  });
  const renew = () => {
    provider = new Provider(self.issuer, configuration());
    provider.on('grant.success', (ctx) => { const { Grant } = ctx.oidc.entities; if (Grant) tokens.set(Grant.jti, Grant.accountId); self.given.push(ctx.body); });
    provider.on('backchannel.success', (_, client, sub, sid) => self.told.push({ sub, sid }));
    provider.on('backchannel.error', (_, error, client, sub, sid) => self.told.push({ sub, sid, error: String(error) }));
    answer = provider.callback();
  };

  // What a person would click.
  async function interact(request, response) {
    const { prompt, params, grantId } = await provider.interactionDetails(request, response);
    const sub = /(?:^|; *)account=(\w+)/.exec(request.headers.cookie ?? '')?.[1] ?? self.account;
    if (self.refuse) return provider.interactionFinished(request, response, { error: 'access_denied', error_description: 'nobody consents' });
    if (prompt.name === 'login') return provider.interactionFinished(request, response, { login: { accountId: sub } });
    const { session } = await provider.interactionDetails(request, response);
    const grant = (grantId && await provider.Grant.find(grantId)) || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
  }

  const server = https.createServer({ key: tls.key, cert: tls.cert }, async (request, response) => {
    if (realm && request.url.startsWith(`${realm}/`)) { request.originalUrl = request.url; request.url = request.url.slice(realm.length); }
    const place = PLACES[new URL(request.url, 'https://localhost').pathname];
    if (place) self.calls[place] = (self.calls[place] ?? 0) + 1;
    if (request.url.startsWith('/interaction/')) self.calls.person = (self.calls.person ?? 0) + 1;
    if (self.delayMs) await new Promise((resolve) => setTimeout(resolve, self.delayMs));
    await self.hold;
    if (self.down) return response.writeHead(self.down === true ? 503 : self.down, { 'Content-Type': 'application/json' }).end('{}');
    if (!request.url.startsWith('/interaction/')) return answer(request, response);
    return interact(request, response).catch((error) => response.writeHead(500).end(String(error)));
  });
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  self.port = server.address().port;
  self.issuer = `https://localhost:${self.port}${realm}`;
  renew();

  // One request of a browser with these cookies, which the answer changes.
  const visit = (at, jar, form) => new Promise((resolve, reject) => {
    const body = form && new URLSearchParams(form).toString();
    const request = https.request(at, { ca: tls.ca, method: form ? 'POST' : 'GET', headers: { Cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; '), ...(form ? { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': body.length } : {}) } }, (response) => {
      let text = '';
      response.on('data', (part) => { text += part; });
      response.on('end', () => {
        for (const cookie of response.headers['set-cookie'] ?? []) { const [name, value] = cookie.split(';')[0].split(/=(.*)/s); if (value) jar.set(name, value); else jar.delete(name); }
        resolve({ status: response.statusCode, location: response.headers.location, text });
      });
    });
    request.on('error', reject).end(body);
  });
  const said = ({ status, text }, at) => new Error(`the provider answers ${status} to ${at}: ${text.replace(/<style>.*<.style>|<[^>]*>/gs, ' ').replace(/\s+/g, ' ').slice(-300)}`);

  // As a browser does: follows the sign-in as that account, as far as where it leaves the provider. What it brings back: {name: [values]}.
  // jar: the browser's cookies at the provider, which keep it signed in there.
  self.signIn = async (url, sub = self.account, jar = new Map()) => {
    jar.set('account', sub);
    for (let at = url, hops = 0; hops < 12; hops++) {
      const answer = await visit(at, jar);
      if (!answer.location) throw said(answer, at);
      const next = new URL(answer.location, at);
      if (next.origin !== new URL(self.issuer).origin) {
        const params = {};
        for (const [name, value] of next.searchParams) (params[name] ??= []).push(value);
        return params;
      }
      at = next.href;
    }
    throw new Error('the provider sends the browser around in a circle');
  };
  // The same with the provider's page of a sign-out, where the person says yes: where it sends the browser then.
  self.signOut = async (url, jar = new Map()) => {
    const page = await visit(url, jar), xsrf = /name="xsrf" value="(\w+)"/.exec(page.text)?.[1];
    if (!xsrf) throw said(page, url);
    const answer = await visit(/action="([^"]+)"/.exec(page.text)[1], jar, { xsrf, logout: 'yes' });
    if (!answer.location) throw said(answer, url);
    return answer.location;
  };
  self.kid = () => keys[0].kid;
  self.publicKey = () => crypto.createPublicKey({ key: keys[0], format: 'jwk' });
  // What a program gets by its own credentials (RFC 6749 4.4), for one of the apis (RFC 8707).
  self.programToken = async ({ client_id, client_secret }, resource) => {
    const answer = await visit(`${self.issuer}/token`, new Map(), { grant_type: 'client_credentials', client_id, client_secret, resource });
    if (answer.status !== 200) throw said(answer, 'a program');
    return JSON.parse(answer.text).access_token;
  };
  // A token of these claims, as the provider signs them.
  self.sign = (claims, header = {}, key = keys[0]) => {
    const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const text = `${part({ alg: key.alg, kid: key.kid, ...header })}.${part(claims)}`;
    return `${text}.${crypto.sign('sha256', Buffer.from(text), { key: crypto.createPrivateKey({ key, format: 'jwk' }), dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  };
  // The next tokens are signed with a new key; the old one is gone from the key set.
  self.rotate = () => { keys = [signingKey(algorithm)]; renew(); };
  // The account's grants are gone: its refresh tokens and access tokens with them.
  self.revoke = async (sub) => {
    for (const [id, owner] of tokens) {
      if (owner !== sub) continue;
      await Promise.all([provider.RefreshToken, provider.AccessToken].map((kind) => kind.revokeByGrantId(id)));
      await (await provider.Grant.find(id))?.destroy();
      tokens.delete(id);
    }
  };
  self.stop = () => { server.closeAllConnections(); server.close(); fs.rmSync(dir, { recursive: true, force: true }); };
  return self;
}
