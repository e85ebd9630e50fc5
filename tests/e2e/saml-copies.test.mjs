// Copies of postern-saml: one that is killed, even with messages in its hands, costs nobody his sign-in while there is another one, and one
// that hangs costs time only those who had come to it before that was known. Where none is left the browser gets the page that tries again by itself, the log says why, and the first copy that is back mends it.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { another, settingsOf } from '../support/copies.mjs';
import { edge as front, elsewhere, endpoint, env, home, until, upstream } from '../support/postern.mjs';
import { Browser, PAGE } from '../support/browser.mjs';
import { caller, edgeKey } from '../support/peer.mjs';
import { EMAIL, encode, provider, response, signer } from '../support/saml.mjs';
import { seal } from '../support/sealed.mjs';

const skip = elsewhere || !env.POSTERN_RUN_DIR || !process.env.STORY_UPSTREAM_TLS;
const idp = skip ? null : provider([signer()], `https://idp-copies-${process.pid}.example.com/metadata`);
const unique = () => `_${crypto.randomUUID()}`;
const UNAVAILABLE = 237;
const run = env.POSTERN_RUN_DIR, mark = `saml-copies-${process.pid}`, socket = (name) => `ipc://${run}/${mark}.${name}`;

// A copy of identity with two of postern-saml, and what brings it responses.
function bench(t, { saml = {}, identity: more = {} } = {}) {
  const copies = ['one', 'two'].map((name) => another('saml', { POSTERN_RPC: socket(name), ...saml[name] }));
  const identity = another('identity', { POSTERN_RPC: socket('identity'), POSTERN_SAML_RPC: `${socket('one')},${socket('two')}`, ...more });
  const edge = caller(edgeKey(), 'identity', socket('identity'));
  t.after(async () => {
    edge.stop();
    for (const one of [...copies, identity]) await one.stop();
    for (const name of ['one', 'two', 'identity']) fs.rmSync(`${run}/${mark}.${name}`, { force: true });
  });
  const id = `edghtsrt_${crypto.randomBytes(14).toString('hex').slice(0, 27)}`, url = `${settingsOf('identity').vars.POSTERN_IDP_URL}/saml/${id}`;
  const sealed = seal({ route: id, account: env.POSTERN_ACCOUNT, edge: `edghts_${'0'.repeat(27)}`, module: 'saml', config: { enabled: true, allow_idp_initiated: true, idp_metadata: idp.metadata, nameid_format: EMAIL } });
  const send = () => {
    const xml = response(idp, { id: unique(), response: unique(), to: '', recipient: `${url}/acs`, destination: `${url}/acs`, audience: url });
    return edge.ask('sign_in.callback', { sealed, state: '', at: 'acs', host: 'app.example.test', home: '/', ip: '192.0.2.9', user_agent: 'x', params: { SAMLResponse: [encode(xml)] } });
  };
  const answers = async (sent) => {
    await until(() => sent.every((one) => edge.answer(one)), 'answers', 120000);
    return sent.map((one) => edge.answer(one));
  };
  const signsIn = async (what) => until(async () => (await answers([send()]))[0].code === 0, what, 150000);
  return { copies, identity, send, answers, signsIn };
}

test('a copy that is killed with messages in its hands costs nobody a sign-in, and without any nobody is signed in', { skip, timeout: 900000 }, async (t) => {
  const { copies, send, answers, signsIn } = bench(t);

  await signsIn('all of it to be there');
  copies[0].kill('SIGSTOP'); // so that it surely has some when it is killed
  const sent = Array.from({ length: 6 }, send);
  await copies[0].stop();
  for (const { code, msg } of await answers(sent)) assert.equal(code, 0, msg);
  for (const { code, msg } of await answers(Array.from({ length: 4 }, send))) assert.equal(code, 0, `with one copy: ${msg}`);
  copies[0].start();
  await copies[1].stop();
  await signsIn('the first copy, which is back');
  await copies[0].stop();
  const [{ code, msg }] = await answers([send()]);
  assert.deepEqual([code, /postern-saml gives no verdict/.test(msg)], [UNAVAILABLE, true], msg);
  copies[1].start();
  await signsIn('the second copy, which is back');
});

test('a copy that hangs is asked last: once that is known nobody waits for it, and whoever is there has all of the work', { skip, timeout: 900000 }, async (t) => {
  const ports = [150, 151].map((at) => front.port - 43 + at), BURST = 24;
  const { copies, send, answers, signsIn } = bench(t, { saml: { two: { POSTERN_HEALTH_PORT: String(ports[1]) } }, identity: { POSTERN_HEALTH_PORT: String(ports[0]) } });
  const metric = async (port, name) => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(await fetch(`http://127.0.0.1:${port}/metrics`).then((got) => got.text()))[1]);
  const again = () => metric(ports[0], 'postern_identity_asked_again_total\\{service="saml"\\}'), worked = () => metric(ports[1], 'postern_saml_requests_total');

  await signsIn('all of it to be there');
  copies[0].kill('SIGSTOP');
  for (const known = await again(); await again() === known;) for (const { code, msg } of await answers([send()])) assert.equal(code, 0, msg);
  const before = [await again(), await worked()];
  for (const { code, msg } of await answers(Array.from({ length: BURST }, send))) assert.equal(code, 0, msg);
  const asked = await again() - before[0], done = await worked() - before[1];
  assert.ok(asked < BURST / 4, `${asked} of ${BURST} questions were asked again`);
  assert.ok(done >= BURST, `${done} requests came to the copy that is there`);
});

test('where postern-saml is dead the page tries again by itself, the log says why, and its restart mends it', { skip, timeout: 300000 }, async () => {
  const up = await upstream(), to = await endpoint(up.address, { saml: { idp_metadata: idp.metadata, nameid_format: EMAIL } }), { saml } = to.route;
  const bring = () => {
    const acs = saml.assertion_consumer_service_url, xml = response(idp, { id: unique(), response: unique(), to: '', recipient: acs, destination: acs, audience: saml.entity_id });
    return new Browser().open(acs, { method: 'POST', headers: { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' }, body: new URLSearchParams({ SAMLResponse: encode(xml) }).toString() });
  };
  const log = () => fs.readFileSync(path.join(home, 'log/identity.log'), 'utf8');
  const pid = () => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/saml.pid`, 'utf8')), dead = pid();
  const before = log().length;
  process.kill(dead, 'SIGSTOP'); // whoever ends is started again at once: this one is not
  try {
    const answer = await bring();
    assert.deepEqual([answer.status, /ERR_POSTERN_\d+/.exec(answer.body)?.[0]], [503, 'ERR_POSTERN_953'], answer.body);
    await until(() => /r=SIGN_IN_UNAVAILABLE .*why="postern-saml gives no verdict/.test(log().slice(before)), 'the reason in the log', 120000);
    assert.equal(up.seen.length, 0);
  } finally {
    process.kill(dead, 'SIGKILL');
  }
  await until(async () => pid() !== dead && (await bring()).status === 302, 'sign-ins by the one that was started', 120000);
  await up.close();
});
