// webhook_verification: per provider what it signs passes, and nothing else reaches the upstream. The signatures here are made by
// node's crypto from what the providers' documentation says, and by their own libraries where there are some.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import tls from 'node:tls';
import * as octokit from '@octokit/webhooks-methods';
import hygraph from '@hygraph/utils';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import twilio from 'twilio';
import { api, ca, edge, elsewhere, endpoint, env, home, listening, must, raw, through, until, upstream } from '../support/postern.mjs';

const DENIED = 'ERR_POSTERN_924', TOO_LARGE = 'ERR_POSTERN_926', LIMIT = 1024 * 1024;
const up = await upstream();
const connections = { count: 0 };
up.server.on('connection', () => { connections.count++; });
const sub = await listening('http_request_complete');
test.after(() => up.close());
const to = await endpoint(up.address, { webhook_verification: { provider: 'github', secret: 's' } });
const at = (where) => `/edges/https/${where.edge.id}/routes/${where.route.id}/webhook_verification`;
const put = (provider, secret, where = to) => must('PUT', at(where), { provider, secret });
const count = async (name) => Number(new RegExp(`^postern_edge_module_${name}_total\\{module="webhook_verification"\\} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text()))[1]);

const mac = (algorithm, key, text, encoding) => crypto.createHmac(algorithm, key).update(text).digest(encoding);
const seconds = () => Math.floor(Date.now() / 1000);
const FORM = 'application/x-www-form-urlencoded';
const url = ({ path }) => `https://${to.host}${path}`;

// The usual schemes; each gives what signs: (secret, request) => headers. request.at is when, in seconds.
const plain = (header, algorithm, encoding, prefix = '') => ({ sign: (secret, { body }) => ({ [header]: prefix + mac(algorithm, secret, body, encoding) }) });
const inHeader = (header, name, tolerance) => ({ tolerance, sign: (secret, { body, at: t }) => ({ [header]: `${name[0]}=${t},${name[1]}=${mac('sha256', secret, `${t}.${body}`, 'hex')}` }) });
const beside = (header, time, version, tolerance) => ({ tolerance, sign: (secret, { body, at: t }) => ({ [time]: String(t), [header]: `${version}=${mac('sha256', secret, `${version}:${t}:${body}`, 'hex')}` }) });
const standard = (prefix, tolerance = 300) => ({
  secret: `whsec_${crypto.randomBytes(24).toString('base64')}`, other: `whsec_${crypto.randomBytes(24).toString('base64')}`, tolerance,
  sign: (secret, { body, at: t }) => ({ [`${prefix}-id`]: 'msg_1', [`${prefix}-timestamp`]: String(t), [`${prefix}-signature`]: `v1,${mac('sha256', Buffer.from(secret.slice(6), 'base64'), `msg_1.${t}.${body}`, 'base64')}` }),
});
const hub = plain('X-Hub-Signature', 'sha256', 'hex', 'sha256='), meta = plain('X-Hub-Signature-256', 'sha256', 'hex', 'sha256=');
const ec = () => crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
const [pair, stranger] = [ec(), ec()];
const publicOf = ({ publicKey }) => publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
const sorted = (body) => [...new URLSearchParams(body)].sort(([a], [b]) => (a < b ? -1 : 1));

const providers = {
  aftership: plain('aftership-hmac-sha256', 'sha256', 'base64'),
  airship: { tolerance: 180, sign: (secret, { body, at: t }) => ({ 'X-UA-TIMESTAMP': String(t), 'X-UA-SIGNATURE': mac('sha256', secret, `${t}:${body}`, 'hex') }) },
  alchemy: plain('X-Alchemy-Signature', 'sha256', 'hex'),
  autodesk: plain('x-adsk-signature', 'sha1', 'hex', 'sha1hash='),
  bitbucket: hub,
  bolt: plain('X-Bolt-Hmac-Sha256', 'sha256', 'base64'),
  box: { tolerance: 600, sign: (secret, { body, at: t }) => {
    const time = new Date(t * 1000 - 7 * 3600_000).toISOString().replace('.000Z', '-07:00');
    return { 'BOX-DELIVERY-TIMESTAMP': time, 'BOX-SIGNATURE-VERSION': '1', 'BOX-SIGNATURE-ALGORITHM': 'HmacSHA256', 'BOX-SIGNATURE-PRIMARY': mac('sha256', secret, body + time, 'base64') };
  } },
  brex: standard('Webhook'),
  buildkite: { tolerance: 180, sign: (secret, { body, at: t }) => ({ 'X-Buildkite-Signature': `timestamp=${t},signature=${mac('sha256', secret, `${t}.${body}`, 'hex')}` }) },
  calendly: inHeader('Calendly-Webhook-Signature', ['t', 'v1'], 180),
  castle: plain('X-Castle-Signature', 'sha256', 'base64'),
  chargify: { ...plain('X-Chargify-Webhook-Signature-Hmac-Sha-256', 'sha256', 'hex'), type: FORM, body: 'event=test&payload[a]=b' },
  circleci: plain('circleci-signature', 'sha256', 'hex', 'v1='),
  clearbit: plain('X-Request-Signature', 'sha1', 'hex', 'sha1='),
  clerk: standard('svix'),
  coinbase: plain('X-CC-Webhook-Signature', 'sha256', 'hex'),
  contentful: { tolerance: 30, path: '/hook/a b?x=1 2&y=/'.replaceAll(' ', '%20'), sign: (secret, { body, at: t, method, path }) => {
    const headers = { 'x-contentful-signed-headers': 'x-contentful-signed-headers,x-contentful-timestamp,x-contentful-topic', 'x-contentful-timestamp': String(t * 1000), 'x-contentful-topic': 'a.b' };
    const [before, query] = path.split('?');
    const list = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => `${name}:${value}`).join(';');
    const escaped = [...query].map((c) => (/[A-Za-z0-9\-_.!~*'()]/.test(c) ? c : `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)).join('');
    return { ...headers, 'x-contentful-signature': mac('sha256', secret, [method, encodeURI(`${before}?${escaped}`), list, body].join('\n'), 'hex') };
  } },
  docusign: plain('X-DocuSign-Signature-2', 'sha256', 'base64'),
  dropbox: plain('X-Dropbox-Signature', 'sha256', 'hex'),
  facebook_graph_api: meta,
  facebook_messenger: meta,
  frameio: beside('X-Frameio-Signature', 'X-Frameio-Request-Timestamp', 'v0', 300),
  github: meta,
  gitlab: { unbound: true, sign: (secret) => ({ 'X-Gitlab-Token': secret }) },
  go1: inHeader('Go1-Signature', ['t', 'v1'], 60),
  graphcms: { tolerance: 180, body: '{"a":"\\u00e9 \\"x\\"\\n","b":"é"}\n', sign: (secret, { body, at: t }) => ({
    'gcms-signature': `sign=${mac('sha256', secret, JSON.stringify({ Body: body, EnvironmentName: 'master', TimeStamp: t * 1000 }), 'base64')}, env=master, t=${t * 1000}`,
  }) },
  heroku: plain('Heroku-Webhook-Hmac-SHA256', 'sha256', 'base64'),
  hostedhooks: inHeader('Hostedhooks-Signature', ['t', 's'], 180),
  hubspot: { tolerance: 300, path: '/hook?a=%3A%2f%25', sign: (secret, request) => ({
    'X-HubSpot-Request-Timestamp': String(request.at * 1000),
    'X-HubSpot-Signature-v3': mac('sha256', secret, request.method + url(request).replace('%3A', ':').replace('%2f', '/') + request.body + request.at * 1000, 'base64'),
  }) },
  instagram: meta,
  intercom: plain('X-Hub-Signature', 'sha1', 'hex', 'sha1='),
  jira: hub,
  launch_darkly: plain('X-LD-Signature', 'sha256', 'hex'),
  linear: { tolerance: 60, body: (t) => JSON.stringify({ action: 'create', webhookTimestamp: t * 1000 }), ...plain('Linear-Signature', 'sha256', 'hex') },
  mailchimp: { type: FORM, body: 'mandrill_events=%5B%7B%22event%22%3A%22send%22%7D%5D', sign: (secret, request) => ({ 'X-Mandrill-Signature': mac('sha1', secret, url(request) + sorted(request.body).flat().join(''), 'base64') }) },
  mailgun: { tolerance: 180, inBody: true, body: (t, secret) => JSON.stringify({ signature: { token: 'c0ffee', timestamp: String(t), signature: mac('sha256', secret, `${t}c0ffee`, 'hex') }, 'event-data': {} }), sign: () => ({}) },
  microsoft_teams: { secret: crypto.randomBytes(32).toString('base64'), other: crypto.randomBytes(32).toString('base64'), sign: (secret, { body }) => ({ Authorization: `HMAC ${mac('sha256', Buffer.from(secret, 'base64'), body, 'base64')}` }) },
  modern_treasury: plain('X-Signature', 'sha256', 'hex'),
  mongodb: plain('X-MMS-Signature', 'sha1', 'base64'),
  mux: inHeader('Mux-Signature', ['t', 'v1'], 300),
  orb: { tolerance: 300, sign: (secret, { body, at: t }) => {
    const time = new Date(t * 1000).toISOString().replace('Z', '');
    return { 'X-Orb-Timestamp': time, 'X-Orb-Signature': `v1=${mac('sha256', secret, `v1:${time}:${body}`, 'hex')}` };
  } },
  pagerduty: plain('X-PagerDuty-Signature', 'sha256', 'hex', 'v1='),
  pinwheel: beside('x-pinwheel-signature', 'x-timestamp', 'v2', 180),
  plivo: { type: FORM, path: '/hook?b=2&a=1%201', body: 'To=%2B49&From=1', sign: (secret, request) => {
    const [base, query] = url(request).split('?');
    const text = `${base}?${sorted(query).map(([name, value]) => `${name}=${value}`).join('&')}.${sorted(request.body).flat().join('')}.12345`;
    return { 'X-Plivo-Signature-V3-Nonce': '12345', 'X-Plivo-Signature-V3': mac('sha256', secret, text, 'base64') };
  } },
  pusher: plain('X-Pusher-Signature', 'sha256', 'hex'),
  sendgrid: { secret: publicOf(pair), other: publicOf(stranger), tolerance: 180, body: '[{"event":"open"}]\r\n', sign: (secret, { body, at: t }) => ({
    'X-Twilio-Email-Event-Webhook-Timestamp': String(t),
    'X-Twilio-Email-Event-Webhook-Signature': crypto.sign('sha256', Buffer.from(t + body), secret === publicOf(pair) ? pair.privateKey : stranger.privateKey).toString('base64'),
  }) },
  sentry: plain('Sentry-Hook-Signature', 'sha256', 'hex'),
  shopify: plain('X-Shopify-Hmac-Sha256', 'sha256', 'base64'),
  signal_sciences: plain('X-SigSci-Signature', 'sha256', 'hex'),
  slack: beside('X-Slack-Signature', 'X-Slack-Request-Timestamp', 'v0', 300),
  sonatype: plain('X-Nexus-Webhook-Signature', 'sha1', 'hex'),
  square: { sign: (secret, request) => ({ 'x-square-hmacsha256-signature': mac('sha256', secret, url(request) + request.body, 'base64') }) },
  stripe: inHeader('Stripe-Signature', ['t', 'v1'], 300),
  svix: standard('svix'),
  terraform: plain('X-TFE-Notification-Signature', 'sha512', 'hex'),
  tiktok: inHeader('TikTok-Signature', ['t', 's'], 180),
  trendmicro_conformity: plain('X-Conformity-Signature', 'sha256', 'hex'),
  twilio: { type: FORM, path: '/hook?a=1', body: 'To=%2B1+2&From=%2B2&Body=hi&Body=hi', sign: (secret, request) => ({ 'X-Twilio-Signature': twilio.getExpectedTwilioSignature(secret, url(request), { To: '+1 2', From: '+2', Body: 'hi', ...request.changed }) }) },
  twitter: plain('x-twitter-webhooks-signature', 'sha256', 'base64', 'sha256='),
  typeform: plain('Typeform-Signature', 'sha256', 'base64', 'sha256='),
  vmware: { unbound: true, secret: 'user::pass::word', other: 'user::pass', sign: (secret) => ({ Authorization: `Basic ${Buffer.from(secret.replace('::', ':')).toString('base64')}` }) },
  webex: plain('X-Spark-Signature', 'sha1', 'hex'),
  whatsapp: meta,
  worldline: plain('X-GCS-Signature', 'sha256', 'base64'),
  xero: { ...plain('x-xero-signature', 'sha256', 'base64'), status: 401, body: '{"events":[{"a":1}]}' },
  zendesk: { tolerance: 180, sign: (secret, { body, at: t }) => {
    const time = new Date(t * 1000).toISOString();
    return { 'X-Zendesk-Webhook-Signature-Timestamp': time, 'X-Zendesk-Webhook-Signature': mac('sha256', secret, time + body, 'base64') };
  } },
  zoom: beside('x-zm-signature', 'x-zm-request-timestamp', 'v0', 180),
};

const requestOf = (row, t, secret) => ({ method: 'POST', path: row.path ?? '/hook', at: t, body: typeof row.body === 'function' ? row.body(t, secret) : row.body ?? '{"hello":"wörld"}' });
const ask = (row, request, headers) => through(to.host, request.path, { method: request.method, body: request.body, headers: { 'Content-Type': row.type ?? 'application/json', ...headers } });
const swap = (text, i) => text.slice(0, i) + (text[i] === 'A' || text[i] === 'a' ? 'b' : /[0-9]/.test(text[i]) ? String((Number(text[i]) + 1) % 10) : 'a') + text.slice(i + 1);

async function passes(row, request, headers, what) {
  up.seen.length = 0;
  const got = await ask(row, request, headers);
  assert.equal(got.status, 200, `${what}: ${got.body}`);
  assert.equal(up.seen.length, 1, what);
  assert.equal(up.seen[0].body.toString(), request.body, what);
}

async function denied(row, request, headers, what) {
  up.seen.length = 0;
  const before = connections.count, got = await ask(row, request, headers);
  assert.equal(got.status, row.status ?? 403, `${what}: ${got.body}`);
  if (row.status) assert.equal(got.body, '');
  else assert.equal(JSON.parse(got.body).error_code, DENIED, what);
  assert.deepEqual([up.seen.length, connections.count], [0, before], what);
}

for (const [provider, row] of Object.entries(providers))
  test(`${provider}: what it signs passes, and nothing else`, async () => {
    const secret = row.secret ?? 'a5ecret-of-its-own', other = row.other ?? 'a5ecret-of-its-owm';
    await put(provider, secret);
    const t = seconds(), request = requestOf(row, t, secret), headers = row.sign(secret, request);
    await passes(row, request, headers, 'as signed');
    for (const [name, value] of Object.entries(headers)) {
      const changes = { 'one character changed': swap(value, Math.floor(value.length / 2)), 'the first changed': swap(value, 0), cut: value.slice(0, -1), longer: `${value}0`, empty: '', 'not there': undefined };
      for (const [change, changed] of Object.entries(changes)) {
        const all = { ...headers, [name]: changed };
        if (changed === undefined) delete all[name];
        await denied(row, request, all, `${name} ${change}`);
      }
    }
    if (!row.unbound && !row.inBody) {
      await denied(row, { ...request, body: swap(request.body, 3) }, headers, 'the body changed');
      await denied(row, { ...request, body: request.body.slice(0, -1) }, headers, 'the body cut');
      await denied(row, { ...request, body: '' }, headers, 'the body empty');
    }
    const theirs = row.inBody ? requestOf(row, t, other) : request;
    await denied(row, theirs, row.sign(other, theirs), 'signed with another secret');
    for (const [apart, good] of row.tolerance ? [[-row.tolerance + 20, true], [row.tolerance - 5, true], [-row.tolerance - 5, false], [row.tolerance + 20, false]] : []) {
      const then = requestOf(row, seconds() + apart, secret);
      await (good ? passes : denied)(row, then, row.sign(secret, then), `signed ${apart} seconds from now`);
    }
  });

const ROWS = fs.readFileSync(new URL('../../proto/webhook_providers.def', import.meta.url), 'utf8');
test('signatures that are wrong leave no line of level alert in the log', { skip: elsewhere }, () => {
  assert.doesNotMatch(fs.readFileSync(`${env.POSTERN_LOG_DIR}/edge.log`, 'utf8'), /stale global SSL error/);
});

test('the tables here and in the README have every provider that the API takes', async () => {
  const refused = ['orbit'], all = [...new Set([...ROWS.matchAll(/^PROVIDER\("(\w+)"/gm)].map(([, name]) => name))].sort();
  const section = fs.readFileSync(new URL('../../services/edge/README.md', import.meta.url), 'utf8').match(/\n## Webhooks\n[^]*?\n## /)[0];
  assert.deepEqual(Object.keys(providers).concat(refused, 'sns').sort(), all); // tests/e2e/sns.test.mjs
  assert.deepEqual([...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name).concat(refused).sort(), all);

  for (const provider of Object.keys(providers)) await put(provider.toUpperCase(), providers[provider].secret ?? 's');
  for (const provider of refused) assert.equal((await api('PUT', at(to), { provider, secret: 's' })).body.error_code, 'ERR_POSTERN_219');
});

// ---- what official and well-kept libraries sign, and that they refuse what the edge refuses ----

test('github: @octokit/webhooks-methods signs', async () => {
  await put('github', 'it is');
  const request = requestOf({}, 0), signature = await octokit.sign('it is', request.body);
  await passes({}, request, { 'X-Hub-Signature-256': signature }, 'signed by it');
  for (const mutant of [signature.toUpperCase(), signature.slice(7), signature.slice(0, -2), swap(signature, 20), 'sha256=']) {
    assert.equal(await octokit.verify('it is', request.body, mutant).catch(() => false), false, mutant);
    await denied({}, request, { 'X-Hub-Signature-256': mutant }, mutant);
  }
});

test('class_webhooks_cve_2024_21491: svix takes whole signatures only, by either name of its headers; standardwebhooks signs', async () => {
  const secret = providers.svix.secret, hook = new Webhook(secret), request = requestOf({}, 0), now = new Date();
  await put('svix', secret);
  const signature = hook.sign('msg_2', now, request.body), old = new Webhook(providers.svix.other).sign('msg_2', now, request.body);
  for (const prefix of ['svix', 'webhook'])
    for (const [list, good] of [[signature, true], [`${old} ${signature}`, true], [`v1a,AAAA ${signature} v2,x`, true], [old, false], [signature.slice(0, 10), false], ['v1,', false], ['', false],
      [`v2,${signature.slice(3)}`, false], [signature.slice(3), false], [`${signature}=`, false], [Array(16).fill(old).join(' '), false], [`${Array(16).fill(old).join(' ')} ${signature}`, false]]) {
      const headers = { [`${prefix}-id`]: 'msg_2', [`${prefix}-timestamp`]: String(Math.floor(now / 1000)), [`${prefix}-signature`]: list };
      await (good ? passes : denied)({}, request, headers, `${prefix}: ${list}`);
    }
});

test('stripe: its library signs, several signatures in one header', async () => {
  const stripe = new Stripe('sk_test_x'), secret = 'whsec_test', request = requestOf({ body: '{"id":"evt_1","object":"event"}' }, 0);
  await put('stripe', secret);
  const signed = stripe.webhooks.generateTestHeaderString({ payload: request.body, secret });
  const [time, good] = signed.split(',');
  const verifies = (header) => { try { return !!stripe.webhooks.constructEvent(request.body, header, secret); } catch { return false; } };
  for (const header of [signed, `${time},v1=${'0'.repeat(64)},${good}`, `${time},${good},v0=abc`, `${good},${time}`, `${time},v0=${good.slice(3)}`, `${time}`, good, `${time},${good.toUpperCase()}`, `${time},${good.slice(0, -1)}`, `t=,${good}`, `t=x,${good}`])
    await (verifies(header) ? passes : denied)({}, request, { 'Stripe-Signature': header }, header);
});

test('graphcms: its library verifies what passes, and not what does not', async () => {
  await put('graphcms', 'sec');
  const row = providers.graphcms, request = requestOf(row, seconds()), signature = row.sign('sec', request)['gcms-signature'];
  assert.equal(hygraph.verifyWebhookSignature({ rawPayload: request.body, signature, secret: 'sec' }), true);
  await passes(row, request, { 'gcms-signature': signature }, signature);
  const mutant = signature.replace('master', 'other');
  assert.equal(hygraph.verifyWebhookSignature({ rawPayload: request.body, signature: mutant, secret: 'sec' }), false);
  await denied(row, request, { 'gcms-signature': mutant }, mutant);
});

test('twilio: a JSON body by its digest in the URL, a GET, and a port that the URL names or not', async () => {
  await put('twilio', 'token');
  const body = '{"a":1}', digest = crypto.createHash('sha256').update(body).digest('hex'), path = `/hook?bodySHA256=${digest}`;
  const request = { method: 'POST', path, body }, headers = { 'X-Twilio-Signature': twilio.getExpectedTwilioSignature('token', url(request), {}) };
  assert.equal(twilio.validateRequestWithBody('token', headers['X-Twilio-Signature'], url(request), body), true);
  await passes({}, request, headers, 'JSON');
  await denied({}, { ...request, body: '{"a":2}' }, headers, 'another body');
  await denied({}, { ...request, body: '' }, headers, 'no body');
  await denied({ type: FORM }, { ...request, body: '&' }, headers, 'a form without fields');
  const get = { method: 'GET', path: '/hook?From=1', body: '' };
  await passes({}, get, { 'X-Twilio-Signature': twilio.getExpectedTwilioSignature('token', url(get), {}) }, 'GET');
  await denied({}, { ...get, path: '/hook?From=2' }, { 'X-Twilio-Signature': twilio.getExpectedTwilioSignature('token', url(get), {}) }, 'another query');
  for (const named of [to.host, `${to.host}:8443`])
    await passes({}, get, { Host: `${to.host}:8443`, 'X-Twilio-Signature': twilio.getExpectedTwilioSignature('token', `https://${named}${get.path}`, {}) }, named);
});

test('keys that are being replaced: box, bolt and docusign send a signature for each', async () => {
  const request = requestOf({}, 0), of = (secret) => mac('sha256', secret, request.body, 'base64');
  await put('bolt', 'new');
  await passes({}, request, { 'X-Bolt-Hmac-Sha256': of('old'), 'X-Bolt-Hmac-Sha256-Pending': of('new') }, 'the second');
  await put('docusign', 'new');
  await passes({}, request, { 'X-DocuSign-Signature-1': of('old'), 'X-DocuSign-Signature-8': of('new') }, 'the eighth');
  await denied({}, request, { 'X-DocuSign-Signature-9': of('new') }, 'the ninth');
  const { 'BOX-SIGNATURE-PRIMARY': signature, ...rest } = providers.box.sign('new', { body: request.body, at: seconds() });
  await put('box', 'new');
  await passes({}, request, { ...rest, 'BOX-SIGNATURE-PRIMARY': of('old'), 'BOX-SIGNATURE-SECONDARY': signature }, 'the secondary');
});

// ---- handshakes ----

test('handshakes are answered by the edge, and the upstream hears nothing', async () => {
  up.seen.length = 0;
  const get = (path, headers = {}, method = 'GET') => through(to.host, path, { method, headers });
  await put('twitter', 'consumer');
  let got = await get('/hook?crc_token=aGk%2B-_%3D');
  assert.deepEqual([got.status, JSON.parse(got.body)], [200, { response_token: `sha256=${mac('sha256', 'consumer', 'aGk+-_=', 'base64')}` }]);
  for (const path of ['/hook?crc_token=%7B%22a%22%3A1%7D', '/hook?crc_token=', '/hook?crc_token=a&crc_token=b', '/hook', `/hook?crc_token=${'a'.repeat(600)}`]) assert.equal((await get(path)).status, 403, path);
  await denied({}, { method: 'POST', path: '/hook', body: 'aGk' }, { 'x-twitter-webhooks-signature': `sha256=${mac('sha256', 'consumer', 'aGk', 'base64')}` }, 'what an answer has signed is no webhook');
  await put('worldline', 's');
  got = await get('/hook', { 'X-GCS-Webhooks-Endpoint-Verification': '4d7a-b2' });
  assert.deepEqual([got.status, got.body, got.headers['content-type'], got.headers['x-content-type-options']], [200, '4d7a-b2', 'text/plain', 'nosniff']);
  assert.equal((await get('/hook', { 'X-GCS-Webhooks-Endpoint-Verification': '<script>' })).status, 403);
  await put('dropbox', 's');
  got = await get('/hook?challenge=abc123');
  assert.deepEqual([got.status, got.body], [200, 'abc123']);
  assert.equal((await get('/hook?challenge=%3Cscript%3E')).status, 403);
  await put('intercom', 's');
  assert.equal((await get('/hook', {}, 'HEAD')).status, 200);
  await put('xero', 's');
  const intent = '{"events":[],"firstEventSequence":0,"entropy":"x"}';
  got = await ask({}, { method: 'POST', path: '/hook', body: intent }, { 'x-xero-signature': mac('sha256', 's', intent, 'base64') });
  assert.deepEqual([got.status, got.body], [200, '']);
  got = await ask({}, { method: 'POST', path: '/hook', body: intent }, { 'x-xero-signature': mac('sha256', 'x', intent, 'base64') });
  assert.deepEqual([got.status, got.body], [401, '']);
  await put('zoom', 's');
  const check = (plainToken) => ({ method: 'POST', path: '/hook', at: seconds(), body: JSON.stringify({ payload: { plainToken }, event_ts: 1, event: 'endpoint.url_validation' }) });
  let request = check('qgg8vlvZRS6UYooatFL8Aw');
  got = await ask({}, request, providers.zoom.sign('s', request));
  assert.deepEqual([got.status, JSON.parse(got.body)], [200, { plainToken: 'qgg8vlvZRS6UYooatFL8Aw', encryptedToken: mac('sha256', 's', 'qgg8vlvZRS6UYooatFL8Aw', 'hex') }]);
  assert.equal((await ask({}, request, providers.zoom.sign('x', request))).status, 403);
  assert.equal(up.seen.length, 0);
  request = check('v0:1:{}');
  await passes({}, request, providers.zoom.sign('s', request), 'what the edge would not sign is for the upstream');
});

// ---- the body, whichever way it comes ----

const signed = (body, secret = 's') => ({ 'X-Hub-Signature-256': `sha256=${mac('sha256', secret, body, 'hex')}` });
async function sent(body, headers, { chunks, expect } = {}) {
  const head = `POST /hook HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close\r\n${expect ? 'Expect: 100-continue\r\n' : ''}${Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')}`;
  const framed = chunks ? Buffer.concat([...chunks.map((part) => Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')])), Buffer.from('0\r\n\r\n')]) : body;
  return raw(to.host, Buffer.concat([Buffer.from(`${head}${chunks ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`}\r\n\r\n`), framed]), { wait: 5000 });
}
const pieces = (body, size) => Array.from({ length: Math.ceil(body.length / size) }, (_, i) => body.subarray(i * size, (i + 1) * size));

test('a body of any length up to the limit, by length and in chunks, arrives as it was sent', async () => {
  await put('github', 's');
  for (const length of [0, 1, 1000, 32 * 1024, 100_001, LIMIT - 1, LIMIT])
    for (const size of [undefined, Math.max(1, Math.floor(length / 3)), 8000]) {
      const body = crypto.randomBytes(length);
      up.seen.length = 0;
      assert.match(await sent(body, signed(body), size ? { chunks: pieces(body, size) } : {}), /^HTTP\/1.1 200/, `${length} ${size}`);
      assert.ok(up.seen[0].body.equals(body), `${length} ${size}`);
    }
  const body = crypto.randomBytes(5000);
  up.seen.length = 0;
  assert.match(await sent(body, signed(body), { chunks: pieces(body, 1) }), /^HTTP\/1.1 200/, 'chunks of a byte');
  assert.ok(up.seen[0].body.equals(body));
  up.seen.length = 0;
  assert.match(await sent(body, signed(body, 'another'), { chunks: pieces(body, 1) }), /^HTTP\/1.1 403/);
  assert.match(await sent(body, signed(body), { expect: true }), /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200/);
  assert.ok(up.seen[0].body.equals(body));
});

test('a body over the limit is denied with a code of its own', async () => {
  await put('github', 's');
  const body = crypto.randomBytes(LIMIT + 1), before = connections.count, large = elsewhere || await count('too_large');
  up.seen.length = 0;
  for (const options of [{}, { chunks: pieces(body, 8000) }, { chunks: [body] }]) {
    const got = await sent(body, signed(body), options);
    assert.match(got, /^HTTP\/1.1 413/);
    assert.ok(got.includes(TOO_LARGE));
  }
  assert.deepEqual([up.seen.length, connections.count], [0, before]);
  if (!elsewhere) assert.equal(await count('too_large'), large + 3);
});

test('who goes on with a body that was too long is not heard for long, and keeps no room', { timeout: 300000 }, async () => {
  await put('github', 's');
  let answer = '';
  const part = Buffer.alloc(65536, 'x'), socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, allowHalfOpen: true });
  socket.on('error', () => {}).on('data', (text) => { answer += text; });
  socket.write(`POST /on HTTP/1.1\r\nHost: ${to.host}\r\nX-Hub-Signature-256: sha256=${'0'.repeat(64)}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  for (let i = 0; i < 17; i++) socket.write(`10000\r\n${part}\r\n`);
  await until(() => answer, 'its answer', 120000);
  assert.match(answer, /^HTTP\/1.1 413/);
  const more = setInterval(() => socket.write('1\r\nx\r\n'), 1000);
  try { await until(() => socket.destroyed, 'the edge ends the connection, long before the 300 s of others', 90000); } finally { clearInterval(more); socket.destroy(); }
});

// POSTs whose signature is none, with so many bytes of the body that they announce.
const waiting = async (n, bytes) => {
  const got = { denied: 0, sockets: [] }, part = Buffer.alloc(bytes, 'x');
  for (let i = 0; i < n; i++) {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
    let page = '', told = false;
    socket.on('error', () => {}).on('data', (text) => { page += text; if (!told && page.includes('ERR_POSTERN_908')) { told = true; got.denied++; } });
    socket.write(`POST /${i} HTTP/1.1\r\nHost: ${to.host}\r\nX-Hub-Signature-256: sha256=${'0'.repeat(64)}\r\nContent-Length: ${LIMIT}\r\n\r\n`);
    socket.write(part);
    got.sockets.push(socket);
  }
  await Promise.all(got.sockets.map((socket) => new Promise((resolve) => { if (socket.bytesWritten) resolve(); else socket.once('secureConnect', resolve); })));
  return got;
};

test('bodies that wait have a bound, which is free again when they end', { skip: elsewhere, timeout: 300000 }, async () => {
  await put('github', 's');
  const before = await count('no_room');
  // more than one account has room for in each of two workers; the end of none comes
  const got = await waiting(150, LIMIT - 1);
  await until(() => got.denied >= 150 - 2 * 33, 'those beyond the bound are denied');
  await until(async () => await count('no_room') === before + got.denied, 'each of them is counted, and told so');
  for (const socket of got.sockets) socket.destroy();
  const body = crypto.randomBytes(LIMIT);
  await until(async () => (await sent(body, signed(body))).startsWith('HTTP/1.1 200'), 'there is room again');
});

test('who announces bodies and sends none keeps nobody out', { skip: elsewhere, timeout: 300000 }, async () => {
  await put('github', 's');
  const got = await waiting(320, 1), body = crypto.randomBytes(100_000);
  for (let i = 0; i < 20; i++) assert.match(await sent(body, signed(body)), /^HTTP\/1.1 200/);
  assert.equal(got.denied, 0);
  for (const socket of got.sockets) socket.destroy();
});

test('who fills the room of its address keeps out nobody at another', { skip: elsewhere, timeout: 300000 }, async () => {
  await put('github', 's');
  const before = await count('no_room'), got = await waiting(150, LIMIT - 1), body = crypto.randomBytes(LIMIT);
  // 16 MiB, two for each byte, in each of two workers: nothing of the account's room is left where an address may have all of it
  await until(() => got.denied >= 150 - 2 * 33, 'no address has more');
  for (let i = 0; i < 8; i++) {
    let answer = '';
    const socket = tls.connect({ host: edge.host, port: edge.port, localAddress: '127.0.0.9', servername: to.host, ca });
    socket.on('error', () => {}).on('data', (text) => { answer += text; });
    socket.write(`POST /hook HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close\r\n${Object.entries(signed(body)).map(([name, value]) => `${name}: ${value}\r\n`).join('')}Content-Length: ${body.length}\r\n\r\n`);
    socket.write(body);
    await until(() => answer, 'its answer');
    assert.match(answer, /^HTTP\/1.1 200/);
    socket.destroy();
  }
  assert.ok(await count('no_room') > before);
  for (const socket of got.sockets) socket.destroy();
});

test('a body in very many pieces is denied', { skip: elsewhere, timeout: 300000 }, async () => {
  await put('github', 's');
  let answer = '';
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
  socket.on('error', () => {}).on('data', (text) => { answer += text; });
  socket.setNoDelay(true);
  socket.write(`POST / HTTP/1.1\r\nHost: ${to.host}\r\nX-Hub-Signature-256: sha256=${'0'.repeat(64)}\r\nContent-Length: ${LIMIT}\r\n\r\n`);
  // A piece is what the edge reads at once: it needs time between two bytes, and some are read together all the same.
  for (let i = 0; i < LIMIT - 1 && !answer && !socket.destroyed; i++) {
    socket.write('x');
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await until(() => answer, 'its answer');
  assert.match(answer, /^HTTP\/1.1 413/);
  socket.destroy();
});

test('no other text has the same signature: ids with a point, times with a zero or without a zone, upgrades', async () => {
  // svix: the id takes the place of the time, and of a part of the body
  const key = crypto.randomBytes(24), secret = `whsec_${key.toString('base64')}`, t = seconds();
  await put('svix', secret);
  const text = `msg_1.1000000000.{"name":"x.${t}.{\\"role\\":1}`, signature = `v1,${mac('sha256', key, text, 'base64')}`;
  const tail = Buffer.from(text.slice(text.indexOf(`${t}.`) + `${t}.`.length));
  up.seen.length = 0;
  assert.match(await sent(tail, { 'svix-id': 'msg_1.1000000000.{"name":"x', 'svix-timestamp': String(t), 'svix-signature': signature }), /^HTTP\/1.1 403/);
  // HubSpot: a zero of the body becomes the time's
  await put('hubspot', 's');
  const ms = String(Date.now());
  const hub3 = mac('sha256', 's', `POST${url({ path: '/hook' })}amount=100${ms}`, 'base64');
  assert.match(await sent(Buffer.from('amount=10'), { 'X-HubSpot-Signature-v3': hub3, 'X-HubSpot-Request-Timestamp': `0${ms}` }), /^HTTP\/1.1 403/);
  // Zendesk: the zone becomes the body's
  await put('zendesk', 's');
  const iso = new Date().toISOString().slice(0, 19);
  assert.match(await sent(Buffer.from('Zadmin=0'), { 'X-Zendesk-Webhook-Signature': mac('sha256', 's', `${iso}Zadmin=0`, 'base64'), 'X-Zendesk-Webhook-Signature-Timestamp': iso }), /^HTTP\/1.1 403/);
  await put('github', 's');
  const body = Buffer.from('x');
  assert.match(await raw(to.host, `GET /hook HTTP/1.1\r\nHost: ${to.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Hub-Signature-256: sha256=${mac('sha256', 's', body, 'hex')}\r\nContent-Length: 1\r\n\r\nx`), /^HTTP\/1.1 403/);
  assert.equal(up.seen.length, 0);
});

test('chunks whose framing is larger than the body may be are denied, too', async () => {
  await put('github', 's');
  const body = crypto.randomBytes(600_000);
  up.seen.length = 0;
  const got = await sent(body, signed(body), { chunks: pieces(body, 1) });
  assert.match(got, /^HTTP\/1.1 413/);
  assert.ok(got.includes(TOO_LARGE));
  assert.equal(up.seen.length, 0);
});

test('the framing of chunks takes room as the body does, and no part of a body gets to a disk', { skip: elsewhere, timeout: 300000 }, async () => {
  await put('github', 's');
  const begin = `POST / HTTP/1.1\r\nHost: ${to.host}\r\nX-Hub-Signature-256: sha256=${'0'.repeat(64)}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const sockets = [], MANY = 40;
  let denied = 0;
  for (let i = 0; i < MANY; i++) {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca });
    let page = '', told = false;
    socket.on('error', () => {}).on('data', (text) => { page += text; if (!told && page.includes('ERR_POSTERN_908')) { told = true; denied++; } });
    socket.write(begin);
    socket.write(`1;${'e'.repeat(2 << 20)}`); // no byte of a body, and all of its buffer
    sockets.push(socket);
  }
  await until(() => denied >= MANY - 2 * 8, 'an address has room for eight in each worker');
  for (const socket of sockets) socket.destroy();
  const files = [], watch = fs.watch(`${home}/edge/body`, (_, name) => files.push(name));
  const chunk = `1;${'e'.repeat(200)}\r\nS\r\n`;
  assert.match(await raw(to.host, Buffer.from(`${begin}${chunk.repeat(11_500)}0\r\n\r\n`), { wait: 10000 }), /^HTTP\/1.1 413/);
  watch.close();
  assert.deepEqual(files, []);
});

test('HTTP/2: with length and without, in frames, at the limit and over it', async () => {
  await put('github', 's');
  const session = http2.connect(`https://${edge.host}:${edge.port}`, { ca, servername: to.host });
  const post = (body, headers, { length = true } = {}) => new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':path': '/hook', ':authority': to.host, ...(length ? { 'content-length': body.length } : {}), ...headers });
    let status, text = '';
    stream.on('response', (head) => { status = head[':status']; });
    stream.on('data', (part) => { text += part; });
    stream.on('end', () => resolve({ status, text }));
    stream.on('error', (error) => (status ? resolve({ status, text }) : reject(error)));
    for (const part of pieces(body, 5000)) stream.write(part);
    stream.end();
  });
  for (const size of [0, 10, 70_000, LIMIT])
    for (const length of [true, false]) {
      const body = crypto.randomBytes(size);
      up.seen.length = 0;
      assert.equal((await post(body, signed(body), { length })).status, 200, `${size} ${length}`);
      assert.ok(up.seen[0].body.equals(body), `${size} ${length}`);
      assert.equal((await post(body, signed(body, 'x'), { length })).status, 403);
      assert.equal(up.seen.length, 1);
    }
  const body = crypto.randomBytes(LIMIT + 1);
  for (const length of [true, false]) assert.equal((await post(body, signed(body), { length })).status, 413);
  assert.equal(up.seen.length, 1);
  session.close();
});

// A request whose body does not come: what is suspended until then.
async function halfway(where, headers) {
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: where.host, ca });
  let text = '';
  socket.on('data', (part) => { text += part; });
  socket.on('error', () => {});
  await new Promise((resolve) => socket.on('secureConnect', resolve));
  const before = elsewhere || await count('suspended');
  socket.write(`POST /hook HTTP/1.1\r\nHost: ${where.host}\r\nContent-Length: 10\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n01234`);
  await until(async () => elsewhere || await count('suspended') > before, 'it waits');
  return { socket, said: (pattern) => until(() => pattern.exec(text), `${pattern}`) };
}

test('while a body is awaited: other secrets end the request, other modules do not, a client may leave', { skip: elsewhere }, async () => {
  const one = await endpoint(up.address, { webhook_verification: { provider: 'github', secret: 's' } }), headers = signed('0123456789');
  up.seen.length = 0;
  const first = await halfway(one, headers);
  await must('PATCH', `/edges/https/${one.edge.id}/routes/${one.route.id}`, { response_headers: { add: { 'x-a': 'b' } } });
  first.socket.write('56789');
  await first.said(/^HTTP\/1.1 200/);
  assert.equal(up.seen[0].body.toString(), '0123456789');
  first.socket.destroy();
  const second = await halfway(one, headers);
  await put('github', 'another', one);
  await second.said(/^HTTP\/1.1 503[^]*ERR_POSTERN_925/);
  second.socket.destroy();
  const aborted = await count('aborted'), third = await halfway(one, headers);
  third.socket.destroy();
  await until(async () => await count('aborted') > aborted, 'its end');
  assert.equal(up.seen.length, 1);
});

test('a module that is put on ends what was not verified, and leaves what was', { skip: elsewhere }, async () => {
  const held = [], slow = await upstream((request, response) => { held.push(response); });
  const one = await endpoint(slow.address), path = { method: 'POST', body: 'b' };
  const unverified = through(one.host, '/', path);
  await until(() => held.length === 1, 'it is upstream');
  await put('github', 's', one);
  assert.deepEqual([(await unverified).status], [503]);
  const verified = through(one.host, '/', { ...path, headers: signed('b') });
  await until(() => held.length === 2, 'it is upstream');
  await put('github', 'another', one);
  held[1].end('done');
  assert.equal((await verified).body, 'done');
  await slow.close();
});

test('what says enough in its head is denied without its body', async () => {
  await put('slack', 's');
  for (const headers of [{}, { 'X-Slack-Signature': 'v0=00', 'X-Slack-Request-Timestamp': '1' }]) {
    const got = await raw(to.host, `POST / HTTP/1.1\r\nHost: ${to.host}\r\nContent-Length: 100\r\n${Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`, { wait: 1000 });
    assert.match(got, /^HTTP\/1.1 403/);
  }
});

test('headers that are there twice: signatures may be, times may not', async () => {
  await put('slack', 's');
  const t = seconds(), body = 'x', { 'X-Slack-Signature': signature } = providers.slack.sign('s', { at: t, body });
  const post = (...lines) => raw(to.host, `POST / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close\r\nContent-Length: 1\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n${body}`);
  assert.match(await post(`X-Slack-Signature: ${signature}`, `X-Slack-Request-Timestamp: ${t}`), /^HTTP\/1.1 200/);
  assert.match(await post(`X-Slack-Signature: ${signature}`, `X-Slack-Request-Timestamp: ${t}`, `X-Slack-Request-Timestamp: ${t}`), /^HTTP\/1.1 403/);
  assert.match(await post(`X-Slack-Signature: ${signature}`, `X-Slack-Request-Timestamp: ${t}`, 'Connection: X-Slack-Signature'), /^HTTP\/1.1 (403|400)/);
});

// ---- what is said of it ----

test('event, page and metrics say what was decided, and no secret', { skip: elsewhere }, async () => {
  const events = async (host, n) => { await until(() => sub.events.filter((event) => event.object.conn.server_name === host).length === n, 'its events'); return sub.events.filter((event) => event.object.conn.server_name === host).map(({ object }) => object); };
  const one = await endpoint(up.address, { webhook_verification: { provider: 'gitlab', secret: 'canary-of-webhooks' } });
  const before = [await count('denied'), await count('mismatched'), await count('verified')];
  assert.equal((await through(one.host, '/', { headers: { 'X-Gitlab-Token': 'canary-of-webhooks' } })).status, 200);
  const page = await through(one.host, '/', { headers: { 'X-Gitlab-Token': 'canary-of-others', Accept: 'text/html' } });
  assert.match(page.body, new RegExp(`<code>${DENIED}</code>`));
  const [good, bad] = (await events(one.host, 2)).sort((a, b) => a.http.response.status_code - b.http.response.status_code); // those of two workers come in any order
  assert.deepEqual([good.webhook_verification.decision, good.denied.module], ['allow', '']);
  assert.deepEqual([bad.webhook_verification.decision, bad.denied], ['block', { module: 'webhook_verification', route_id: one.route.id }]);
  assert.ok(!JSON.stringify([good, bad]).includes('canary-of'));
  assert.ok(!fs.readFileSync(`${env.POSTERN_LOG_DIR}/edge.log`, 'utf8').includes('canary-of'));
  assert.deepEqual([await count('denied'), await count('mismatched'), await count('verified')], before.map((n) => n + 1));
  await must('PUT', at(one), { enabled: false, provider: 'gitlab', secret: 'x' });
  assert.equal((await through(one.host, '/')).status, 200);
  assert.equal((await events(one.host, 3))[2].webhook_verification.decision, 'invalid');
});

test('a change is in force when it is answered', async () => {
  for (let i = 0; i < 10; i++) {
    await put('github', `secret ${i}`);
    await passes({}, { method: 'POST', path: '/', body: 'b' }, signed('b', `secret ${i}`), `${i}`);
    await denied({}, { method: 'POST', path: '/', body: 'b' }, signed('b', `secret ${i - 1}`), `${i}`);
  }
});
