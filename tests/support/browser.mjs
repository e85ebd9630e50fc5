// A browser as far as signing in goes: cookies by host, redirects, and headers of navigations. Connections for every host but localhost
// go to the edge.
import crypto from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import { ca, edge } from './postern.mjs';

const authority = process.env.STORY_UPSTREAM_TLS;
export const PAGE = { Accept: 'text/html,application/xhtml+xml', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document', 'Sec-Fetch-Site': 'none' };

export function ask(url, { method = 'GET', headers = {}, body } = {}) {
  const { hostname, port, pathname, search, host } = new URL(url);
  const local = hostname === 'localhost';
  return new Promise((resolve, reject) => {
    const request = https.request({
      host: local ? '127.0.0.1' : edge.host, port: local ? port : edge.port, servername: hostname, agent: false, method, path: pathname + search,
      ca: local ? fs.readFileSync(`${authority}.pem`) : ca, headers: { Host: host, ...headers, ...(body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) }) },
    }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => resolve({ url, status: response.statusCode, headers: response.headers, body: Buffer.concat(parts).toString() }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

export class Browser {
  cookies = new Map(); // host -> name -> value
  visited = [];        // answers, in their order
  cookie(host) { return [...this.cookies.get(host) ?? []].map(([name, value]) => `${name}=${value}`).join('; '); }
  // One request, whose answer's cookies are kept.
  async open(url, { method, headers = PAGE, body } = {}) {
    const { host } = new URL(url), cookie = this.cookie(host);
    const answer = await ask(url, { method, body, headers: { ...headers, ...(cookie ? { Cookie: cookie } : {}) } });
    this.keep(answer);
    this.visited.push(answer);
    return answer;
  }
  keep(answer) {
    const { host } = new URL(answer.url);
    for (const line of answer.headers['set-cookie'] ?? []) {
      const [pair, ...attributes] = line.split('; '), at = pair.indexOf('=');
      if (!this.cookies.has(host)) this.cookies.set(host, new Map());
      if (attributes.includes('Max-Age=0')) this.cookies.get(host).delete(pair.slice(0, at));
      else this.cookies.get(host).set(pair.slice(0, at), pair.slice(at + 1));
    }
  }
  // Follows redirects, and stops before one for which stop is true.
  async go(url, { stop = () => false, ...options } = {}) {
    let answer = await this.open(url, options);
    for (let n = 0; answer.status === 302 && !stop(answer.headers.location); n++) {
      if (n === 10) throw new Error(`redirected for ever: ${answer.headers.location}`);
      answer = await this.open(answer.headers.location);
    }
    return answer;
  }
}

// GitHub, as the module oauth speaks to it: whoever comes is signed in as github.who, by codes that can be used once; tokens: those it gave out.
export async function github(port) {
  const codes = new Map(), tokens = new Map(), self = { who: null, asked: [], down: false, tokens };
  const server = https.createServer({ key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`) }, async (request, response) => {
    const url = new URL(request.url.replace(/^\/github\/(web|api|token)/, ''), `https://localhost:${port}`);
    const json = (status, value) => { response.writeHead(status, { 'Content-Type': 'application/json' }); response.end(JSON.stringify(value)); };
    let body = '';
    for await (const part of request) body += part;
    self.asked.push(url.pathname);
    if (self.down) return json(500, {});
    if (url.pathname === '/login/oauth/authorize') {
      const code = crypto.randomBytes(12).toString('hex'), back = new URL(url.searchParams.get('redirect_uri'));
      codes.set(code, { who: self.who, challenge: url.searchParams.get('code_challenge') });
      back.searchParams.set('code', code);
      back.searchParams.set('state', url.searchParams.get('state'));
      response.writeHead(302, { Location: back.href });
      return response.end();
    }
    if (url.pathname === '/login/oauth/access_token') {
      const form = new URLSearchParams(body), known = codes.get(form.get('code'));
      codes.delete(form.get('code'));
      if (!known || crypto.createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url') !== known.challenge) return json(200, { error: 'bad_verification_code' });
      const token = `gho_${crypto.randomBytes(12).toString('hex')}`;
      tokens.set(token, known.who);
      return json(200, { access_token: token, token_type: 'bearer', scope: 'read:org,read:user,user:email' });
    }
    const who = tokens.get((request.headers.authorization ?? '').split(' ')[1]);
    if (!who) return json(401, {});
    if (url.pathname === '/user') return json(200, { id: who.id, login: who.login, name: who.name, email: who.email });
    if (url.pathname === '/user/emails') return json(200, [{ email: who.email, primary: true, verified: true }]);
    return json(404, {});
  });
  await new Promise((resolve, reject) => { server.on('error', reject); server.listen(port, '127.0.0.1', resolve); });
  return Object.assign(self, { close: () => { server.closeAllConnections(); server.close(); } });
}
