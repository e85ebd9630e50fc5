// Secrets that are looked for afterwards wherever they must not be: every field that the tables seal, every token that is shown once,
// and all that passes while somebody signs in. Not one of them stands in a log, an event, a page, the metrics, a list of the API that
// does not show it, or in clear in a file, those of PostgreSQL among them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { account } from '../support/account.mjs';
import { Browser, github } from '../support/browser.mjs';
import { oidcProvider } from '../support/oidc-provider.mjs';
import { api, ca, edge, elsewhere, endpoint, env, forgetUsers, healthUrls, home, listening, through, until, upstream } from '../support/postern.mjs';
import { Random } from '../contract/generate.mjs';
import { Holder } from '../tenants/build.mjs';
import { Tables, get, leaves } from '../tenants/tables.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const IDP = `https://idp.localhost:${edge.port}`, authority = process.env.STORY_UPSTREAM_TLS;

// The fields that the tables seal, by their names: those of nested objects, and those of each kind.
function sealed() {
  const names = (file) => {
    const text = fs.readFileSync(path.join(root, 'proto', file), 'utf8');
    return [...text.matchAll(/^(?:FIELD\((\w+),[^,]*,[^,]*\bSEALED\b|SECRET\((\w+), ")/gm)].map(([, one, other]) => one ?? other);
  };
  const kinds = fs.readdirSync(path.join(root, 'proto/kinds')).filter((file) => file.endsWith('.def'));
  return { nested: new Set(names('types.def')), of: new Map(kinds.map((file) => [file.slice(0, -'.def'.length), new Set(names(`kinds/${file}`))])) };
}

class Canaries {
  values = new Map(); // secret -> what it is
  add(what, value) {
    if (typeof value !== 'string' || value.length < 12) throw new Error(`${what}: ${value} is too short to be looked for`);
    this.values.set(value, what);
  }
  // As it is, in hexadecimal digits, percent-encoded, and in base64 wherever it begins, whatever stands before and behind it.
  spellings(value) {
    const bytes = Buffer.from(value), all = new Set([value, bytes.toString('hex'), encodeURIComponent(value)]);
    for (let shift = 0; shift < 3; shift++) {
      const whole = Buffer.concat([Buffer.alloc(shift), bytes]), rest = whole.length % 3;
      for (let next = 0; next < (rest ? 256 : 1); next += rest === 1 ? 16 : 64) { // the bits of the next byte that share a character with it
        const text = Buffer.concat([whole, Buffer.from(rest ? [next, 0] : [])]).toString('base64').slice(shift && shift + 1, Math.ceil(whole.length * 8 / 6));
        for (const form of [text, text.replaceAll('+', '-').replaceAll('/', '_')]) all.add(form);
      }
    }
    return [...all];
  }
  patterns() { return [...this.values.keys()].flatMap((value) => this.spellings(value)); }
  // Which of them stand in a text.
  in(text) { return [...this.values].filter(([value]) => this.spellings(value).some((one) => text.includes(one))).map(([, what]) => what); }
}

// What an account has of secrets: fields of all kinds and modules, as the tables say, and tokens that were shown once.
async function secretsOf(holder, canaries) {
  const { nested, of } = sealed(), found = new Set();
  await holder.build();
  for (const [name, body] of [...Object.entries(holder.sent), ...Object.entries(holder.goneSent)]) {
    const operation = holder.tables.byId.get(name) ?? holder.tables.create(name);
    for (const [at] of leaves(operation.schema)) {
      const field = at.at(-1), value = get(body, at);
      if (typeof value !== 'string' || value.length < 12 || !((at.length > 1 || operation.method === 'PUT' ? nested : of.get(operation.kind))?.has(field))) continue;
      found.add(field);
      // of a key its longest line: that is what turns up in any form of it
      canaries.add(`${name} ${at.join('.')}`, value.includes('\n') ? value.split('\n').sort((a, b) => b.length - a.length)[0] : value);
    }
  }
  for (const { body, label } of holder.answers.map(({ body }, i) => ({ body, label: i }))) if (body?.token) canaries.add(`token ${body.id ?? label}`, body.token);
  return found;
}

const param = (url, name) => new URL(url).searchParams.get(name);
// All that is secret in the answers that a browser got: cookies, tickets, states and codes.
function passed(browser, canaries, who) {
  for (const jar of browser.cookies.values()) for (const [name, value] of jar) canaries.add(`${who} cookie ${name}`, value);
  for (const { headers } of browser.visited) {
    for (const line of headers['set-cookie'] ?? []) { const [, name, value] = /^([^=]+)=([^;]*)/.exec(line); if (value) canaries.add(`${who} cookie ${name}`, value); }
    for (const name of ['t', 'state', 'code', 'nonce']) if (headers.location && param(headers.location, name)) canaries.add(`${who} ${name}`, param(headers.location, name));
  }
}

// Every file below a folder that has one of the patterns, by grep: PostgreSQL's files are large, and not text.
function filesWith(folders, patterns) {
  const list = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'postern-canaries-')), 'patterns');
  fs.writeFileSync(list, `${patterns.join('\n')}\n`, { mode: 0o600 });
  try {
    return execFileSync('grep', ['-rlaF', '--devices=skip', '-f', list, ...folders], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LC_ALL: 'C' } }).trim().split('\n');
  } catch (error) {
    if (error.status === 1) return [];
    // a checkpoint takes files away that were listed a moment before
    if (error.status === 2 && error.stderr.trim().split('\n').every((line) => /: No such file or directory$/.test(line))) return error.stdout.trim().split('\n').filter(Boolean);
    throw error;
  } finally { fs.rmSync(path.dirname(list), { recursive: true }); }
}

test('no secret turns up where it must not', { skip, timeout: 280000 }, async () => {
  const canaries = new Canaries(), traffic = await listening(), up = await upstream((request, response) => response.end('served'));
  const tables = new Tables(await (await fetch(`${env.POSTERN_API_URL}/openapi.json`)).json());
  const holder = new Holder(tables, account('Canaries'), new Random(19));
  const found = await secretsOf(holder, canaries), { nested, of } = sealed();
  canaries.add('API key', holder.account.token);
  const hook = crypto.randomBytes(16).toString('hex'), hooked = await endpoint(up.address, { webhook_verification: { provider: 'gitlab', secret: hook } });
  canaries.add('webhook_verification.secret', hook);
  found.add('secret');
  const target = { // of destinations: one for each name of a secret
    aws_secret_access_key: (it) => ({ kinesis: { auth: { creds: { aws_access_key_id: 'AKIA', aws_secret_access_key: it } }, stream_arn: 'arn:aws:kinesis:eu-west-1:1:stream/a' } }),
    client_secret: (it) => ({ azure_logs_ingestion: { tenant_id: 't', client_id: 'c', client_secret: it, logs_ingestion_uri: 'https://a.ingest.example', data_collection_rule_id: 'dcr-1', data_collection_stream_name: 'Custom-a' } }),
    api_key: (it) => ({ datadog: { api_key: it, ddsite: 'datadoghq.com' } }),
  };
  for (const [name, around] of Object.entries(target)) {
    const it = crypto.randomBytes(20).toString('hex');
    await holder.account.must('POST', '/event_destinations', { format: 'json', target: around(it) });
    canaries.add(`event_destination ${name}`, it);
    found.add(name);
  }
  for (const name of [...nested, ...[...of.values()].flatMap((names) => [...names])]) {
    if (!['private_key_pem', 'request_signing_key_pem', 'encryption_key_pem', 'other_request_signing_key_pem', 'other_encryption_key_pem'].includes(name)) assert.ok(found.has(name), `${name} is sealed, and the story has none`);
  }

  // Somebody signs in at GitHub, and at an issuer; all that is secret goes through the edge.
  const provider = await github(edge.port - 43 + 96), given = [];
  provider.who = { id: 19, login: 'canary', name: 'A Canary', email: 'canary@example.test' };
  const to = await endpoint(up.address, { oauth: { provider: { github: {} } } }), browser = new Browser();
  assert.equal((await browser.go(`https://${to.host}:${edge.port}/`)).status, 200);
  passed(browser, canaries, 'GitHub');
  for (const token of provider.tokens.keys()) canaries.add('access token of GitHub', token);
  const callback = (issuer) => `${IDP}/oauth2/callback/${crypto.createHash('sha256').update(issuer).digest('hex').slice(0, 24)}`;
  const client = { client_id: 'postern', client_secret: crypto.randomBytes(24).toString('hex'), redirect_uris: callback };
  const issuer = await oidcProvider({ port: edge.port - 43 + 98, clients: [client], signed: { key: fs.readFileSync(`${authority}.key`), cert: fs.readFileSync(`${authority}.pem`), ca: fs.readFileSync(`${authority}.pem`) } });
  const at = await endpoint(up.address, { oidc: { issuer: issuer.issuer, client_id: client.client_id, client_secret: client.client_secret, scopes: ['email', 'offline_access'] } }), other = new Browser();
  canaries.add('client secret of a module in use', client.client_secret);
  const away = await other.go(`https://${at.host}:${edge.port}/`, { stop: (location) => location.startsWith(issuer.issuer) }), back = new URL(callback(issuer.issuer));
  for (const [name, values] of Object.entries(await issuer.signIn(away.headers.location, 'alice'))) back.searchParams.set(name, values[0]);
  canaries.add('code of the issuer', back.searchParams.get('code'));
  assert.equal((await other.go(back.href)).status, 200);
  passed(other, canaries, 'issuer');
  for (const { access_token: access, refresh_token: refresh, id_token: id } of issuer.given) for (const token of [access, refresh, id.slice(-40)]) canaries.add('token of the issuer', token);

  // What is wrong goes to logs and pages sooner than what is right: wrong routes, methods, hosts, and codes that are not good any more.
  const used = [...browser.visited, ...other.visited].filter(({ url }) => /code=|state=|[?&]t=/.test(url)).map(({ url }) => url);
  assert.ok(used.length >= 5);
  for (const url of used) for (const method of ['GET', 'POST', 'PUT']) given.push(await browser.open(url, { method, ...(method === 'GET' ? {} : { body: '' }) }));
  const cookies = [...browser.cookies.get(`${to.host}:${edge.port}`)].map(([name, value]) => `${name}=${value}`).join('; ');
  for (const target of ['/', '/auth/none', '/%zz', `/${'x'.repeat(9000)}`]) given.push(await through(to.host, target, { headers: { Cookie: cookies } }));
  given.push(await through(`none.${to.host}`, '/', { servername: to.host, headers: { Cookie: cookies } }));
  for (const value of [hook, `${hook}x`]) given.push(await through(hooked.host, '/', { method: 'POST', body: value, headers: { 'X-Gitlab-Token': value } }));
  for (const target of ['/api_keys', '/none', '/edges/https?filter=x']) given.push(await api('GET', target, undefined, { Authorization: `Bearer ${holder.account.token}` }));

  const everything = await holder.everything();
  const shown = /^https_edge_route.*[. ](secret|client_secret)$/; // to who may change them, as the interface has it
  const open = new Canaries();
  for (const [value, what] of canaries.values) if (!shown.test(what)) open.add(what, value);
  for (const [target, text] of Object.entries(everything)) assert.deepEqual(open.in(text), [], target);
  for (const one of given) {
    const { location, ...headers } = one.headers; // a redirect carries what is next
    headers['set-cookie'] = undefined;
    assert.deepEqual(canaries.in(`${one.body} ${JSON.stringify(headers)}`), [], `${one.url} ${one.status}`);
  }

  await until(() => JSON.stringify(traffic.events).includes(to.host), 'events');
  await new Promise((resolve) => setTimeout(resolve, 1500)); // logs and events are written behind the answers
  assert.deepEqual(canaries.in(JSON.stringify(traffic.events)), []);
  for (const url of healthUrls().map((one) => `http://${one}/metrics`)) assert.deepEqual(canaries.in(await (await fetch(url)).text()), [], url);
  execFileSync('psql', [env.DATABASE_URL, '-qAtc', 'CHECKPOINT']);
  assert.ok(filesWith([home], [to.host]).length >= 3, 'what is no secret is found: in the log, the database and the edge\'s memory');
  const files = filesWith([home], canaries.patterns());
  assert.deepEqual(files.map((file) => [path.relative(home, file), canaries.in(fs.readFileSync(file, 'latin1'))]), []);
  for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    let line = '';
    try { line = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8'); } catch { continue; }
    assert.deepEqual(canaries.in(line), [], 'who may see processes sees their arguments');
  }
  await traffic.stop();
  for (const url of [issuer.issuer, `https://localhost:${edge.port - 43 + 96}/github/web`]) await forgetUsers(url); // other files sign in there, too
  provider.close();
  await issuer.stop();
  await up.close();
});
