// Debian's simplesamlphp as an identity provider: PHP's own server runs its pages with settings of a folder that is thrown away. Nothing of the
// machine is changed, and no web server of the system runs. Its pages are at https://simplesamlphp.example.com, where only There goes.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { until } from './postern.mjs';
import { EMAIL } from './saml.mjs';

const PAGES = '/usr/share/simplesamlphp/www', BINDING = 'urn:oasis:names:tc:SAML:2.0:bindings:';
export const HOST = 'simplesamlphp.example.com', BASE = `https://${HOST}/simplesaml`, IDP = `${BASE}/saml2/idp`, ENTITY = `https://${HOST}/metadata`;

// Why the story cannot run here; false: it can.
export const missing = (() => {
  if (!fs.existsSync(PAGES)) return 'Debian\'s simplesamlphp is not installed: Debian 13 has no such package';
  try { execFileSync('php', ['-r', 'exit(class_exists("DOMDocument") && function_exists("mb_strlen") ? 0 : 1);'], { stdio: 'ignore' }); return false; } catch { return 'php-cli with its xml and mbstring is not installed'; }
})();

// A value as PHP writes it: texts, numbers, true and false, lists, {name: value}.
const php = (value) => (typeof value === 'string' ? `'${value.replace(/[\\']/g, '\\$&')}'` : typeof value !== 'object' ? String(value)
  : `[${(Array.isArray(value) ? value.map(php) : Object.entries(value).map(([name, one]) => `${php(name)} => ${php(one)}`)).join(', ')}]`);

async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

// users: {"name:password": {attribute: [values]}}; signer: as of support/saml.mjs.
export async function simplesamlphp({ users, signer }) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-simplesamlphp-')), at = (...parts) => path.join(dir, ...parts);
  for (const name of ['config', 'metadata', 'cert', 'log', 'data', 'tmp', 'sessions', 'www']) fs.mkdirSync(at(name));
  fs.symlinkSync(PAGES, at('www/simplesaml'));
  fs.writeFileSync(at('cert/key.pem'), signer.key);
  fs.writeFileSync(at('cert/cert.pem'), signer.pem);
  fs.writeFileSync(at('config/authsources.php'), `<?php $config = ['people' => ['exampleauth:UserPass'] + ${php(users)}];`);
  // What it does and whom it knows, for the next request on. hosted: of the provider, over these; sps: metadata of service providers, XML; config: of its config.php.
  const configure = ({ hosted = {}, sps = [], config = {} } = {}) => {
    sps.forEach((xml, i) => fs.writeFileSync(at(`metadata/sp${i}.xml`), xml));
    fs.writeFileSync(at('metadata/saml20-idp-hosted.php'), `<?php $metadata = ${php({ [ENTITY]: { host: '__DEFAULT__', privatekey: 'key.pem', certificate: 'cert.pem', auth: 'people', 'sign.logout': true, 'validate.logout': true, 'validate.authnrequest': true,
      SingleSignOnServiceBinding: ['HTTP-Redirect', 'HTTP-POST'].map((name) => BINDING + name), SingleLogoutServiceBinding: ['HTTP-Redirect', 'HTTP-POST'].map((name) => BINDING + name),
      NameIDFormat: EMAIL, authproc: [{ class: 'saml:AttributeNameID', attribute: 'mail', Format: EMAIL }], ...hosted } })};`);
    fs.writeFileSync(at('config/config.php'), `<?php $config = ${php({ baseurlpath: `${BASE}/`, certdir: `${at('cert')}/`, loggingdir: `${at('log')}/`, datadir: `${at('data')}/`, tempdir: at('tmp'), metadatadir: at('metadata'),
      technicalcontact_name: 'nobody', technicalcontact_email: 'nobody@example.test', timezone: 'UTC', secretsalt: 'of a story and no other', 'auth.adminpassword': 'of a story and no other', 'admin.checkforupdates': false, 'trusted.url.domains': [],
      showerrors: true, errorreporting: false, 'logging.handler': 'file', 'logging.logfile': 'log', 'enable.saml20-idp': true, 'module.enable': { exampleauth: true, core: true, saml: true }, 'session.phpsession.savepath': at('sessions'), 'store.type': 'phpsession',
      'authproc.idp': [], 'language.available': ['en'], 'language.default': 'en', 'metadata.sources': [{ type: 'flatfile' }, ...sps.map((_, i) => ({ type: 'xml', file: at(`metadata/sp${i}.xml`) }))], ...config })};`);
  };
  configure();
  let port, child;
  // Without the cache of what PHP has read: that looks only every two seconds whether a file of ours is another one.
  const start = async () => {
    port = await freePort();
    child = spawn('php', ['-d', 'display_errors=0', '-d', 'opcache.enable=0', '-S', `127.0.0.1:${port}`, '-t', at('www')], { env: { ...process.env, SIMPLESAMLPHP_CONFIG_DIR: at('config') }, stdio: 'ignore' });
  };
  await start();
  process.on('exit', () => child.kill());
  const there = () => new There(port);
  await until(async () => {
    if (child.exitCode !== null) await start(); // somebody has taken the port meanwhile
    return (await there().open(`${IDP}/metadata.php`)).status === 200;
  }, 'simplesamlphp answers', 120000);
  return {
    configure, there,
    metadata: async () => (await there().open(`${IDP}/metadata.php`)).body,
    log: () => { try { return fs.readFileSync(at('log/log'), 'utf8'); } catch { return ''; } },
    stop: () => new Promise((resolve) => { child.on('close', () => { fs.rmSync(dir, { recursive: true, force: true }); resolve(); }); child.kill('SIGKILL'); }),
  };
}

const plain = (text) => text.replace(/&#0*39;/g, "'").replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
// A page's form: {action, fields} of its hidden fields.
export function formOf(page) {
  const action = /<form[^>]* action="([^"]*)"/.exec(page)?.[1];
  return action === undefined ? null : { action: plain(action), fields: Object.fromEntries([...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(([, name, value]) => [name, plain(value)])) };
}

// A browser there, with its cookies.
class There {
  cookies = new Map();
  constructor(port) { this.port = port; }
  open(url, fields) {
    const { host, pathname, search } = new URL(url), body = fields && new URLSearchParams(fields).toString();
    if (host !== HOST) throw new Error(`${url} is not there`);
    return new Promise((resolve, reject) => {
      const headers = { Host: HOST, Cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; '), ...(fields ? { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': Buffer.byteLength(body) } : {}) };
      http.request({ host: '127.0.0.1', port: this.port, method: fields ? 'POST' : 'GET', path: pathname + search, headers, agent: false }, (answer) => {
        let text = '';
        for (const line of answer.headers['set-cookie'] ?? []) { const [, name, value] = /^([^=]+)=([^;]*)/.exec(line); this.cookies.set(name, value); }
        answer.setEncoding('utf8').on('data', (part) => { text += part; }).on('end', () => resolve({ url, status: answer.statusCode, headers: answer.headers, body: text })).on('error', reject);
      }).on('error', reject).end(body);
    });
  }
  // Follows redirects as long as they stay there: the last answer.
  async go(url, fields) {
    let answer = await this.open(url, fields);
    for (let n = 0; [302, 303].includes(answer.status) && new URL(answer.headers.location, url).host === HOST; n++) {
      if (n === 10) throw new Error(`redirected for ever: ${answer.headers.location}`);
      answer = await this.open(new URL(answer.headers.location, url).href);
    }
    return answer;
  }
  // The same, and whoever is asked for a name and password gives these.
  async signIn(url, fields, username = 'ada', password = 'secret') {
    const page = await this.go(url, fields);
    if (!page.body.includes('name="password"')) return page;
    const state = plain(/name="AuthState" value="([^"]*)"/.exec(page.body)[1]);
    return this.go(page.url.split('?')[0], { AuthState: state, username, password });
  }
}
