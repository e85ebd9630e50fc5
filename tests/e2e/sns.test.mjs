// webhook_verification of Amazon SNS: the message names the certificate of its signer, which the edge fetches. Messages here are signed
// with node's crypto; their certificates are of the authority that the stack trusts for what it asks for (POSTERN_OUT_CA), and lie on
// servers of the story's own, to which connections for SNS's names are sent (POSTERN_OUT_CONNECT).
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { execFileSync } from 'node:child_process';
import MessageValidator from 'sns-validator';
import { api, ca, edge, elsewhere, endpoint, env, listening, must, through, until, upstream } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const authority = process.env.STORY_UPSTREAM_TLS;
const skip = elsewhere || !authority;
const base = edge.port - 43, DENIED = 'ERR_POSTERN_924', FOR_NOW = 'ERR_POSTERN_908';
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-sns-'));
test.after(() => fs.rmSync(folder, { recursive: true, force: true }));

// ---- certificates ----

let serial = 0;
const openssl = (...args) => execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
const rsa = (bits = 2048) => crypto.generateKeyPairSync('rsa', { modulusLength: bits }), ec = () => crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
const root = authority && { pem: fs.readFileSync(`${authority}.pem`, 'utf8'), key: fs.readFileSync(`${authority}.key`, 'utf8') };
const pemOf = (pair) => pair.privateKey.export({ type: 'pkcs8', format: 'pem' });

// A certificate of a key pair: names are its DNS names, days from now until when (negative: it has expired), issuer {pem, key}; none: its own.
function certify(pair, names, { days = 30, issuer = root, authority: is = false, also = [] } = {}) {
  const file = path.join(folder, `c${serial++}`);
  fs.writeFileSync(`${file}.key`, pemOf(pair));
  fs.writeFileSync(`${file}.ext`, [`subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`, `basicConstraints=critical,CA:${is}`, ...also].join('\n'));
  openssl('req', '-new', '-key', `${file}.key`, '-subj', `/CN=${names[0]}`, '-out', `${file}.csr`);
  if (issuer) fs.writeFileSync(`${file}.ca`, issuer.pem), fs.writeFileSync(`${file}.cakey`, issuer.key);
  openssl('x509', '-req', '-in', `${file}.csr`, ...(issuer ? ['-CA', `${file}.ca`, '-CAkey', `${file}.cakey`] : ['-signkey', `${file}.key`]), '-set_serial', String(1000 + serial), '-days', String(days), '-extfile', `${file}.ext`, '-out', `${file}.pem`);
  return fs.readFileSync(`${file}.pem`, 'utf8');
}

// ---- where they lie ----

const HOST = (n) => `sns.st-story-${n}.amazonaws.com`;
const lies = new Map(), asked = []; // path -> text, or a function of the response; what was asked for
const held = new Set();
const answer = (request, response) => {
  asked.push(request.url);
  const what = lies.get(request.url);
  if (typeof what === 'function') return what(response);
  response.writeHead(what === undefined ? 404 : 200);
  response.end(what ?? 'no such thing');
};
let good, signer;
const up = await upstream();
const connections = { count: 0 };
up.server.on('connection', () => { connections.count++; });
test.after(() => up.close());

let servers = [], to, sub;
test.before(async () => {
  if (skip) return;
  const pair = ec(), contexts = {
    [HOST(1)]: certify(pair, [HOST(1)]), [HOST(2)]: certify(pair, [HOST(2)], { issuer: null }),
    [HOST(3)]: certify(pair, ['sns.elsewhere.amazonaws.com']), [HOST(4)]: certify(pair, [HOST(4)], { days: -1 }),
  };
  const secure = https.createServer({ key: pemOf(pair), cert: contexts[HOST(1)], SNICallback: (name, done) => done(null, tls.createSecureContext({ key: pemOf(pair), cert: contexts[name] })) }, answer);
  const plain = http.createServer(answer);
  servers = [secure, plain];
  await Promise.all([new Promise((resolve) => secure.listen(base + 97, '127.0.0.1', resolve)), new Promise((resolve) => plain.listen(base + 98, '127.0.0.1', resolve))]);
  signer = rsa();
  good = certify(signer, ['sns.amazonaws.com']);
  to = await endpoint(up.address, { webhook_verification: { provider: 'sns' } });
  sub = await listening('http_request_complete');
});
test.after(() => { for (const server of servers) { server.closeAllConnections(); server.close(); } });

let files = 0;
// A URL at which this lies, that nobody has asked for.
function lying(what, n = 1) {
  const name = `/SimpleNotificationService-${process.pid}f${files++}.pem`;
  lies.set(name, what);
  return `https://${HOST(n)}${name}`;
}
const pathOf = (url) => new URL(url).pathname;

// ---- messages ----

const SIGNED = { Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'], other: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'] };
const contentOf = (message) => (SIGNED[message.Type] ?? SIGNED.other).filter((name) => name in message).map((name) => `${name}\n${message[name]}\n`).join('');
function message(type, url, { version = '1', at = Date.now(), key = signer.privateKey, ...fields } = {}) {
  const told = {
    Type: type, MessageId: crypto.randomUUID(), TopicArn: 'arn:aws:sns:eu-west-1:123456789012:story', Message: '{"text":"grüße, \\"you\\" 🎉\\n"}',
    Timestamp: new Date(at).toISOString(), SignatureVersion: version, SigningCertURL: url,
    ...(type === 'Notification' ? { UnsubscribeURL: `https://${HOST(1)}/?Action=Unsubscribe` } : { Token: 'f'.repeat(64), SubscribeURL: `https://${HOST(1)}/?Action=ConfirmSubscription&Token=f` }),
    ...fields,
  };
  told.Signature ??= crypto.sign(version === '1' ? 'sha1' : 'sha256', Buffer.from(contentOf(told)), key).toString('base64');
  return told;
}
const post = (body, headers = {}, options = {}) => through((options.where ?? to).host, '/hook', { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body, null, 2), headers: { 'Content-Type': 'text/plain; charset=UTF-8', ...headers }, ...options });

// The answer of an edge that has the certificate: on a machine that is busy it may not come in time, and is asked for again.
async function settled(...args) {
  let got;
  await until(async () => { got = await post(...args); return got.status !== 503; }, 'the certificate is there');
  return got;
}

async function passes(body, headers, what = JSON.stringify(body)) {
  up.seen.length = 0;
  const got = await settled(body, headers);
  assert.equal(got.status, 200, `${what}: ${got.body}`);
  assert.equal(up.seen.length, 1, what);
  assert.equal(up.seen[0].body.toString(), typeof body === 'string' ? body : JSON.stringify(body, null, 2));
}
async function denied(body, headers, what = JSON.stringify(body), [status, code] = [403, DENIED]) {
  up.seen.length = 0;
  const before = connections.count, got = await (status === 503 ? post : settled)(body, headers);
  assert.equal(got.status, status, `${what}: ${got.body}`);
  assert.equal(JSON.parse(got.body).error_code, code, what);
  assert.deepEqual([up.seen.length, connections.count], [0, before], what);
}

// What AWS's library says of a message. Its own request for the certificate is answered from what lies here.
const library = (told) => new Promise((resolve) => {
  const get = https.get;
  https.get = (url, then) => {
    const what = lies.get(new URL(url).pathname), response = new (class extends http.IncomingMessage {})(new net.Socket());
    response.statusCode = typeof what === 'string' ? 200 : 404;
    then(response);
    response.push(typeof what === 'string' ? what : '');
    response.push(null);
    return { on() {} };
  };
  new MessageValidator().validate(told, (error) => { https.get = get; resolve(!error); });
});

// ---- what passes ----

test('messages of each type and version pass as they came, and their certificate is fetched once a worker', { skip }, async () => {
  const url = lying(good);
  for (const version of ['1', '2'])
    for (const type of ['Notification', 'SubscriptionConfirmation', 'UnsubscribeConfirmation'])
      for (const fields of type === 'Notification' ? [{}, { Subject: 'a "subject"' }, { Message: '' }, { Message: 'x'.repeat(200_000) }] : [{}]) {
        const told = message(type, url, { version, ...fields });
        await passes(told, { 'x-amz-sns-message-type': type });
        await passes(JSON.stringify(told).replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`), {}, 'escaped');
        if (type !== 'UnsubscribeConfirmation') assert.ok(await library({ ...told }), 'the library says so, too'); // it leaves out the token of this type
      }
  const times = asked.filter((at) => at === pathOf(url)).length;
  assert.ok(times >= 1 && times <= Number(process.env.POSTERN_EDGE_WORKERS ?? 2), `${times} times`);
});

test('a subscription is the application\'s to confirm: nobody here visits its URL', { skip }, async () => {
  asked.length = 0;
  await passes(message('SubscriptionConfirmation', lying(good)));
  await denied({ ...message('SubscriptionConfirmation', lying(good)), Token: 'another' });
  assert.ok(asked.every((at) => at.endsWith('.pem')), asked.join(' '));
});

// ---- what does not: the library agrees ----

test('the library and the edge agree on what was signed, and on each change of it', { skip }, async () => {
  const url = lying(good), stranger = rsa(), swap = (text) => (text[0] === 'a' ? 'b' : 'a') + text.slice(1);
  for (const version of ['1', '2'])
    for (const type of ['Notification', 'SubscriptionConfirmation']) {
      const told = message(type, url, { version, Subject: type === 'Notification' ? 'hello' : undefined });
      const mutants = [['as signed', told]];
      for (const name of Object.keys(told).filter((each) => told[each] !== undefined)) {
        const rest = { ...told };
        delete rest[name];
        mutants.push([`without ${name}`, rest]);
        mutants.push([`${name} changed`, { ...told, [name]: swap(told[name]) }]);
        mutants.push([`${name} longer`, { ...told, [name]: `${told[name]}x` }]);
        mutants.push([`${name} empty`, { ...told, [name]: '' }]);
      }
      for (const other of ['0', '3', '12', '1 ', 'SHA256', version === '1' ? '2' : '1']) mutants.push([`version ${other}`, { ...told, SignatureVersion: other }]);
      mutants.push(['of a stranger\'s key', message(type, url, { version, key: stranger.privateKey })]);
      mutants.push(['lines moved between fields', { ...told, Message: `${told.Message}\nMessageId\n${told.MessageId}`, MessageId: 'x' }]);
      for (const [what, mutant] of mutants) {
        const body = JSON.parse(JSON.stringify(mutant)), says = await library({ ...body });
        if (what === 'Signature longer') await denied(body, {}, what); // what stands behind the base64 is nothing to the library
        else await (says ? passes : denied)(body, {}, `${version} ${type} ${what}: the library says ${says}`);
      }
    }
});

test('what a second decoder could read another way is denied', { skip }, async () => {
  const told = message('Notification', lying(good)), text = JSON.stringify(told), with_ = (member) => `${text.slice(0, -1)},${member}}`;
  await passes(text);
  await passes(with_('"MessageAttributes":{"a":{"Type":"String","Value":"b"}},"more":[1,-2.5e3,true,null]'));
  for (const bad of [
    with_('"Message":"another"'), with_('"message":"another"'), with_('"MESSAGE":"another"'), with_('"Me\\u0073sage":"another"'), with_('"Me\u017f\u017fage":"another"'), with_('"to\u212aen":"x"'),
    with_('"Token":"nobody signed it"'), with_('"SubscribeURL":"https://example.test/"'), with_('"signingcerturl":"x"'),
    `${text}{}`, `${text}x`, `[${text}]`, ` ${text.slice(0, -1)}`, text.slice(0, -1), `\ufeff${text}`, with_('"a":01'), with_('"a":{"b":}'), with_('"a":"\n"'), with_('"a":"\\x"'), with_('"a":"\\ud800"x'), with_('"a":NaN'), `${text.slice(0, -1)},}`,
    with_(`"a":${'['.repeat(40)}${']'.repeat(40)}`), text.replace(JSON.stringify(told.Message), '7'), text.replace('"Notification"', '["Notification"]'), '', '{}', 'null', '"x"', 'Message=x',
  ]) await denied(bad, {}, bad.slice(0, 60));
  await denied(Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from(',"a":"'), Buffer.from([0xff]), Buffer.from('"}')]).toString('latin1'), {}, 'no UTF-8');
  for (const type of ['SubscriptionConfirmation', 'notification', '']) await denied(text, { 'x-amz-sns-message-type': type }, `the header says ${type}`);
  const put_ = await through(to.host, '/hook', { method: 'PUT', body: text });
  assert.equal(put_.status, 403);
});

test('a certificate\'s URL has one spelling, and others are not asked for', { skip }, async () => {
  const url = lying(good), at = pathOf(url);
  asked.length = 0;
  for (const bad of [`http://${HOST(1)}${at}`, `https://${HOST(1)}:443${at}`, `https://${HOST(1)}.${at}`, `https://user@${HOST(1)}${at}`, `https://sns.amazonaws.com@${HOST(1)}${at}`, `https://${HOST(1).toUpperCase()}${at}`, `HTTPS://${HOST(1)}${at}`,
    `https://${HOST(1)}.evil.test${at}`, `https://sns.evil.com.amazonaws.com.evil${at}`, `https://sns.evil.com/.amazonaws.com${at}`, `https://evilsns.st-story-1.amazonaws.com${at}`, `https://st-story-1.amazonaws.com${at}`, `https://sns.st-story-1.s3.amazonaws.com${at}`,
    `https://s3.amazonaws.com${at}`, `https://127.0.0.1:${base + 97}${at}`, `https://sns.störy.amazonaws.com${at}`, `https://${HOST(1)}/..${at}`, `https://${HOST(1)}/%2e${at}`, `https://${HOST(1)}${at}?x=1`, `https://${HOST(1)}${at}?x=.pem`, `https://${HOST(1)}${at}#.pem`,
    `https://${HOST(1)}/?Action=x&y=.pem`, `https://${HOST(1)}/a${at}`, `https://${HOST(1)}/${at}`, `https://${HOST(1)}${at.replace('.pem', '.crt')}`, `https://${HOST(1)}${at}\\`, `https://${HOST(1)}\\${at}`, ` ${url}`, `${url} `, `${url}\0`, `//${HOST(1)}${at}`, at, '', `https://${HOST(1)}/${'a'.repeat(250)}.pem`])
    await denied(message('Notification', bad), {}, bad);
  assert.deepEqual(asked, []);
  await passes(message('Notification', url));
});

test('a message may be an hour old, or as far ahead', { skip }, async () => {
  const url = lying(good), hour = 3600_000;
  for (const [apart, is] of [[-hour + 60_000, true], [hour - 60_000, true], [-hour - 10_000, false], [hour + 60_000, false]])
    await (is ? passes : denied)(message('Notification', url, { at: Date.now() + apart }), {}, `${apart} ms`);
  for (const Timestamp of ['', '1700000000', 'now', new Date().toISOString().replace('Z', ''), `${new Date().toISOString()} `]) await denied(message('Notification', url, { Timestamp }), {}, Timestamp);
});

// ---- certificates that are not good ----

test('a certificate that no authority vouches for, or that is not the signer\'s, denies', { skip }, async () => {
  const own = certify(signer, ['sns.amazonaws.com'], { issuer: null }), stranger = rsa(), strangers = { pem: certify(stranger, ['an authority'], { issuer: null, authority: true }), key: pemOf(stranger) };
  const weak = rsa(1024), curve = ec(), of = (names, more) => certify(signer, names, more);
  const bad = {
    'has expired': of(['sns.amazonaws.com'], { days: -1 }), 'is its own': own, 'is of an authority that nobody knows': of(['sns.amazonaws.com'], { issuer: strangers }),
    'comes with its unknown authority': of(['sns.amazonaws.com'], { issuer: strangers }) + strangers.pem, 'has another name': of(['www.example.test']), 'has the name of another region': of(['sns.st-story-2.amazonaws.com']), 'is of a neighbour': of(['sqs.amazonaws.com']),
    'has a wildcard': of(['*.amazonaws.com']), 'is of the other partition': of(['sns.amazonaws.com.cn']), 'is an authority': of(['sns.amazonaws.com'], { authority: true }), 'is for clients': of(['sns.amazonaws.com'], { also: ['extendedKeyUsage=clientAuth'] }),
    'has a short key': certify(weak, ['sns.amazonaws.com']), 'has another kind of key': certify(curve, ['sns.amazonaws.com']), 'is the issuer\'s, before the signer\'s': root.pem + good,
    'is nothing': '', 'is no certificate': 'hello', 'is a key': pemOf(signer), 'is cut': good.slice(0, 300), 'is too large': `${good}${'x'.repeat(40_000)}`,
    'is not there': undefined, 'is not for us': (response) => { response.writeHead(403); response.end(); },
    'is somewhere else': (response) => { response.writeHead(302, { Location: lying(good) }); response.end(good); },
    'never ends': (response) => { response.writeHead(200, { 'Content-Length': 50_000_000 }); response.write(good); },
  };
  for (const [what, pem] of Object.entries(bad)) {
    const url = lying(pem);
    await denied(message('Notification', url), {}, `it ${what}`);
    const before = asked.length;
    await denied(message('Notification', url), {}, `it ${what}, again`);
    await denied(message('Notification', url), {}, `it ${what}, again`);
    assert.ok(asked.length <= before + 1, `${what}: a worker remembers it`);
  }
});

test('signers have the name of the service, or of the region of their URL', { skip }, async () => {
  for (const name of ['sns.amazonaws.com', HOST(1), 'sns-signing.st-story-1.amazonaws.com', 'sns-st-story-1.amazonaws.com']) await passes(message('Notification', lying(certify(signer, [name]))), {}, name);
});

test('an issuer that is not known is fetched where the certificate says, and counts only where an authority has signed it', { skip }, async () => {
  const middle = rsa(), stranger = rsa(), strangers = { pem: certify(stranger, ['stranger'], { issuer: null, authority: true }), key: pemOf(stranger) };
  const names = { good: certify(middle, ['middle'], { authority: true }), bad: certify(middle, ['middle'], { issuer: strangers, authority: true }), junk: 'hello' };
  const leaf = (at) => certify(signer, ['sns.amazonaws.com'], { issuer: { pem: names.good, key: pemOf(middle) }, also: at ? [`authorityInfoAccess=caIssuers;URI:${at}`] : [] });
  const der = openssl('x509', '-in', (fs.writeFileSync(path.join(folder, 'middle.pem'), names.good), 'middle.pem'), '-outform', 'DER', '-out', 'middle.der') + '';
  lies.set('/middle.cer', (response) => { response.writeHead(200); response.end(fs.readFileSync(path.join(folder, 'middle.der'))); });
  lies.set('/middle.pem', names.good);
  lies.set('/bad.cer', names.bad);
  lies.set('/junk.cer', names.junk);
  assert.equal(der, '');
  for (const at of ['middle.cer', 'middle.pem']) await passes(message('Notification', lying(leaf(`http://issuer.example.test/${at}`))), {}, at);
  await passes(message('Notification', lying(leaf() + names.good)), {}, 'beside it');
  for (const at of ['bad.cer', 'junk.cer', 'nothing.cer']) await denied(message('Notification', lying(leaf(`http://issuer.example.test/${at}`))), {}, at);
  for (const at of [undefined, `http://127.0.0.1:${base + 98}/middle.cer`, 'ldap://issuer.example.test/middle.cer', 'file:///etc/passwd']) await denied(message('Notification', lying(leaf(at))), {}, at ?? 'it does not say');
});

test('what cannot be had at the moment is denied so that SNS sends again', { skip }, async () => {
  const quick = { 'a server in trouble': lying((response) => { response.writeHead(500); response.end(); }), 'a server that is busy': lying((response) => { response.writeHead(429); response.end(); }), 'a connection that breaks': lying((response) => response.destroy()),
    'a server that vouches for itself': lying(good, 2), 'a server of another name': lying(good, 3), 'a server whose certificate has expired': lying(good, 4), 'nobody there': lying(good, 5), 'no such host': lying(good, 6) };
  for (const [what, url] of Object.entries(quick)) await denied(message('Notification', url), {}, what, [503, FOR_NOW]);
  const url = lying((response) => { held.add(response); });
  await denied(message('Notification', url), {}, 'no answer', [503, FOR_NOW]);
  lies.set(pathOf(url), good);
  await until(async () => (await post(message('Notification', url))).status === 200, 'it is tried again', 120000);
});

// ---- waiting ----

test('a hundred requests wait for one certificate, which is fetched once a worker; all pass', { skip }, async () => {
  const url = lying((response) => { held.add(response); }), name = pathOf(url);
  const all = Array.from({ length: 100 }, () => post(message('Notification', url)));
  await until(() => asked.includes(name), 'it is asked for');
  const answers = setInterval(() => { for (const response of held) response.end(good); held.clear(); }, 20);
  assert.deepEqual([...new Set((await Promise.all(all)).map((got) => got.status))], [200]);
  clearInterval(answers);
  assert.ok(asked.filter((at) => at === name).length <= Number(process.env.POSTERN_EDGE_WORKERS ?? 2));
});

test('one account has a few certificates under way: others\' requests are not held up', { skip }, async () => {
  let open = 0, peak = 0; // under way at a time: those that are given up make room for others, which begin then on a slow machine
  const slow = Array.from({ length: 12 }, () => lying((response) => { held.add(response); peak = Math.max(peak, ++open); response.on('close', () => { open--; }); }));
  const got = await Promise.all(slow.map((url) => post(message('Notification', url))));
  for (const response of held) response.destroy();
  held.clear();
  assert.deepEqual([...new Set(got.map(({ status }) => status))], [503]);
  const most = 4 * Number(process.env.POSTERN_EDGE_WORKERS ?? 2);
  assert.ok(peak >= 1 && peak <= most, `${peak} of at most ${most}`);
});

const count = async (name) => Number(new RegExp(`^postern_edge_module_${name}_total\\{module="webhook_verification"\\} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text()))[1]);

// A request that waits for a certificate.
async function waiting(where) {
  const url = lying((response) => { held.add(response); }), body = JSON.stringify(message('Notification', url)), socket = tls.connect({ host: edge.host, port: edge.port, servername: where.host, ca });
  let text = '';
  socket.on('data', (part) => { text += part; });
  socket.on('error', () => {});
  await new Promise((resolve) => socket.on('secureConnect', resolve));
  socket.write(`POST /hook HTTP/1.1\r\nHost: ${where.host}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  await until(() => asked.includes(pathOf(url)), 'it is asked for');
  return { socket, said: (pattern) => until(() => pattern.exec(text), `${pattern}`) };
}
const letGo = () => { for (const response of held) response.end(good); held.clear(); };

test('while it waits a client may leave, and a change of the provider ends it', { skip }, async () => {
  up.seen.length = 0;
  const one = await endpoint(up.address, { webhook_verification: { provider: 'sns' } }), aborted = await count('aborted'), first = await waiting(one);
  first.socket.destroy();
  await until(async () => await count('aborted') > aborted, 'its end');
  letGo();
  const second = await waiting(one);
  await must('PUT', `/edges/https/${one.edge.id}/routes/${one.route.id}/webhook_verification`, { provider: 'github', secret: 's' });
  await second.said(/^HTTP\/1.1 503[^]*ERR_POSTERN_925/);
  letGo();
  second.socket.destroy();
  assert.equal(up.seen.length, 0);
});

test('a program that fetches and hangs is ended, and another takes its place', { skip: skip || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine'), timeout: 300000 }, async () => {
  const descendants = (pids) => { const next = children(pids); return next.length ? [...next, ...descendants(next)] : []; };
  const programs = () => descendants(Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/edge.pid`, 'utf8'))).filter((pid) => {
    try { return path.basename(fs.readlinkSync(`/proc/${pid}/exe`)) === 'postern-fetch'; } catch { return false; }
  });
  const signed = () => post(message('Notification', lying(good)));
  await until(async () => (await signed()).status === 200, 'it fetches');
  const hung = programs();
  assert.ok(hung.length > 0);
  for (const pid of hung) process.kill(pid, 'SIGSTOP');
  await until(async () => { await signed(); return !programs().some((pid) => hung.includes(pid)); }, 'they are ended', 120000);
  await until(async () => (await signed()).status === 200, 'another fetches');
});

// ---- what is said of it ----

test('event, page, metrics and log say what was decided', { skip }, async () => {
  const one = await endpoint(up.address, { webhook_verification: { provider: 'sns' } });
  const before = await Promise.all(['verified', 'mismatched', 'untrusted', 'unreached'].map(count));
  const url = lying(good), told = message('Notification', url);
  assert.equal((await post(told, {}, { where: one })).status, 200);
  const page = await post({ ...told, Message: 'another' }, { Accept: 'text/html' }, { where: one });
  assert.match(page.body, new RegExp(`<code>${DENIED}</code>`));
  assert.equal((await post(message('Notification', lying(certify(signer, ['www.example.test']))), {}, { where: one })).status, 403);
  assert.equal((await post(message('Notification', lying(good, 2)), {}, { where: one })).status, 503);
  const mine = () => sub.events.filter((event) => event.object.conn.server_name === one.host).map(({ object }) => object);
  await until(() => mine().length === 4, 'their events');
  const [allowed, ...blocked] = mine().sort((a, b) => a.http.response.status_code - b.http.response.status_code); // those of two workers come in any order
  assert.deepEqual([allowed.webhook_verification.decision, allowed.denied.module], ['allow', '']);
  for (const event of blocked) assert.deepEqual([event.webhook_verification.decision, event.denied], ['block', { module: 'webhook_verification', route_id: one.route.id }]);
  assert.deepEqual(blocked.map((event) => event.http.response.status_code), [403, 403, 503]);
  assert.deepEqual(await Promise.all(['verified', 'mismatched', 'untrusted', 'unreached'].map(count)), before.map((n) => n + 1));
  const log = fs.readFileSync(`${env.POSTERN_LOG_DIR}/edge.log`, 'utf8');
  assert.match(log, /postern-fetch no certificate of a signer from https:\/\/sns\.st-story-1\.amazonaws\.com\/\S+ for account \S+: its names are not the signer's/);
  assert.ok(!log.includes(told.Signature));
});

test('the API takes sns without a secret', { skip }, async () => {
  const at = `/edges/https/${to.edge.id}/routes/${to.route.id}/webhook_verification`;
  const refused = await api('PUT', at, { provider: 'sns', secret: 's' });
  assert.deepEqual([refused.status, refused.body.error_code], [400, 'ERR_POSTERN_168']);
  await must('PUT', at, { provider: 'SNS' });
  await passes(message('Notification', lying(good)));
});

test('a program that fetches and dies takes what it was asked for along; its successor is asked again', { skip }, async () => {
  const url = lying((response) => { held.add(response); }), name = pathOf(url), before = asked.length;
  const got = post(message('Notification', url));
  await until(() => asked.slice(before).includes(name), 'it is asked for');
  const began = fs.readFileSync(`${env.POSTERN_LOG_DIR}/edge.log`, 'utf8').length;
  const fetchers = fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).filter((pid) => { try { return fs.readlinkSync(`/proc/${pid}/exe`) === `${process.env.POSTERN_HOME}/bin/postern-fetch`; } catch { return false; } });
  assert.ok(fetchers.length >= 1);
  for (const pid of fetchers) process.kill(Number(pid), 'SIGKILL');
  assert.equal((await got).status, 503);
  assert.match(fs.readFileSync(`${env.POSTERN_LOG_DIR}/edge.log`, 'utf8').slice(began), /the program that fetches certificates has ended/);
  held.clear();
  lies.set(name, good);
  await until(async () => (await post(message('Notification', url))).status === 200, 'it passes');
});
