// An identity provider that speaks as GitLab does (its row in proto/oauth_providers.def), over TLS, on a port of the story's own.
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';

// {port, url, ca: path of its authority, users: sub -> claims, asked: [paths], down, gone, hold: promise that answers wait for, holdUser: the same for those behind the token's,
//  user: [status, body] in place of the user, token: fields over those of a token's answer, metadata(realm, answer): what issuers below /realms/ say, other(request, response): true where it sees to the request itself, refused: refresh tokens that were no good, code(sub, authorization URL), stop()}
export async function gitlab() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-provider-'));
  fs.chmodSync(dir, 0o755);
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '9', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost',
    '-keyout', `${dir}/key.pem`, '-out', `${dir}/ca.pem`], { stdio: 'ignore' });
  const self = { users: {}, asked: [], ca: `${dir}/ca.pem`, down: false, gone: false, hold: null, holdUser: null, user: null, token: {}, metadata: null, other: null, refused: 0 };
  const codes = new Map(), access = new Map(), refresh = new Map();
  const tokens = (sub) => {
    const made = { access_token: `canary-access-${crypto.randomUUID()}`, refresh_token: `canary-refresh-${crypto.randomUUID()}`, token_type: 'Bearer', expires_in: 7200, scope: 'openid profile email' };
    access.set(made.access_token, sub);
    refresh.set(made.refresh_token, sub);
    return made;
  };
  // As the browser does: signs in as that user, and is sent back with these parameters.
  self.code = (sub, url) => {
    const asked = new URL(url).searchParams, code = `canary-code-${crypto.randomUUID()}`;
    codes.set(code, { sub, challenge: asked.get('code_challenge'), redirect: asked.get('redirect_uri') });
    return { code: [code], state: [asked.get('state')] };
  };
  const grant = (form) => {
    if (self.gone) return null;
    if (form.get('grant_type') === 'refresh_token') {
      const sub = refresh.get(form.get('refresh_token'));
      refresh.delete(form.get('refresh_token'));
      return sub && tokens(sub);
    }
    const known = codes.get(form.get('code'));
    codes.delete(form.get('code'));
    const challenge = crypto.createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
    return known && known.challenge === challenge && known.redirect === form.get('redirect_uri') ? tokens(known.sub) : null;
  };
  const server = https.createServer({ key: fs.readFileSync(`${dir}/key.pem`), cert: fs.readFileSync(`${dir}/ca.pem`) }, async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    self.asked.push(new URL(request.url, 'https://localhost').pathname);
    await self.hold;
    const say = (status, value) => response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
    if (self.down) return say(503, {});
    if (self.other?.(request, response)) return undefined;
    const realm = /^\/realms\/([^/]+)\/\.well-known\/openid-configuration$/.exec(request.url);
    if (realm && self.metadata) return self.metadata(realm[1], (value) => say(200, value));
    if (request.url.startsWith('/oauth/token')) {
      const made = grant(new URLSearchParams(text));
      if (!made && text.includes('grant_type=refresh_token')) self.refused++;
      return made ? say(200, { ...made, ...self.token }) : say(400, { error: 'invalid_grant' });
    }
    await self.holdUser;
    if (self.user) return say(...self.user);
    const sub = access.get(String(request.headers.authorization ?? '').replace(/^Bearer /i, ''));
    return sub && !self.gone ? say(200, { sub, ...self.users[sub] }) : say(401, { error: 'invalid_token' });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  self.port = server.address().port;
  self.url = `https://localhost:${self.port}`;
  self.stop = () => { server.closeAllConnections(); server.close(); fs.rmSync(dir, { recursive: true, force: true }); };
  return self;
}
