// More tabs that sign in side by side than flows have places: each comes to a page of the route, by itself, and nobody goes round for ever.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import test from 'node:test';
import zlib from 'node:zlib';
import { edge, elsewhere, endpoint, listed, must, upstream } from '../support/postern.mjs';
import { ask, Browser, github, PAGE } from '../support/browser.mjs';
import { EMAIL, encode, provider, response, signer } from '../support/saml.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS;
const SESSION = '__Host-postern.session', FLOW = '__Host-postern.login.', FAILED = 'ERR_POSTERN_952';
const FORM = { ...PAGE, 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'cross-site' };
const hub = skip ? null : await github(edge.port - 43 + 96), idp = skip ? null : provider([signer()], `https://idp-${process.pid}.example.com/tabs`);
test.after(() => hub?.close());

const oauth = { provider: { github: { email_domains: ['example.test'] } } };
const saml = { idp_metadata: idp?.metadata, nameid_format: EMAIL };
const at = (to, path = '/') => `https://${to.host}:${edge.port}${path}`;
const hostOf = (to) => new URL(at(to)).host;
const code = (answer) => /ERR_POSTERN_\d+/.exec(answer.body)?.[0];
const onward = (answer) => /<meta http-equiv="refresh" content="(?:2|4|8|16);url=([^"]+)">/.exec(answer.body)?.[1];

async function guarded(fields) {
  const up = await upstream((request, response) => response.end(request.url));
  if (hub) hub.who = { id: 1001, login: 'ada', name: 'Ada', email: 'ada@example.test' };
  return { to: await endpoint(up.address, fields), close: () => up.close() };
}
// What a browser asks for next: SAML's provider answers with a form for the route's ACS.
function next(to, location) {
  const url = new URL(location), request = url.searchParams.get('SAMLRequest');
  if (!request) return { url: location };
  const { assertion_consumer_service_url: acs, entity_id: audience } = to.route.saml, id = / ID="([^"]+)"/.exec(zlib.inflateRawSync(Buffer.from(request, 'base64')).toString())[1];
  const xml = response(idp, { id: `_${crypto.randomUUID()}`, response: `_${crypto.randomUUID()}`, to: id, recipient: acs, destination: acs, audience });
  return { url: acs, method: 'POST', headers: FORM, body: new URLSearchParams({ SAMLResponse: encode(xml), RelayState: url.searchParams.get('RelayState') }).toString() };
}
// All tabs one step on: their requests have the cookies of this moment. A page that goes on by itself has done so by the next step, and one for
// which there is no room yet (503) is asked for again.
async function step(browser, to, tabs) {
  const going = tabs.filter(({ end }) => !end);
  const answers = await Promise.all(going.map(({ asks: { url, headers = PAGE, ...more } }) => {
    const cookie = browser.cookie(new URL(url).host);
    return ask(url, { ...more, headers: { ...headers, ...(cookie ? { Cookie: cookie } : {}) } });
  }));
  for (const [i, answer] of answers.entries()) {
    const tab = going[i];
    browser.keep(answer);
    if (answer.status === 302) tab.asks = next(to, answer.headers.location);
    else if (onward(answer)) Object.assign(tab, { asks: { url: onward(answer) }, waited: tab.waited + 1 });
    else if (answer.status === 503) tab.busy += 1;
    else tab.end = answer;
  }
}
async function toTheEnd(browser, to, count) {
  const tabs = Array.from({ length: count }, (_, i) => ({ own: at(to, `/tab${i}`), asks: { url: at(to, `/tab${i}`) }, waited: 0, busy: 0 }));
  for (let n = 0; n < 60 && tabs.some(({ end }) => !end); n++) await step(browser, to, tabs);
  for (const { own, end } of tabs) {
    assert.equal(end?.status, 200, `${own}: ${end?.status} at ${end?.url}: ${end?.body}`);
    assert.ok([own, at(to)].includes(end.url), `${own} came to ${end.url}`);
  }
  return { own: tabs.filter(({ own, end }) => own === end.url).length, waited: tabs.reduce((sum, { waited, busy }) => sum + waited + busy, 0) };
}

for (const [name, fields] of Object.entries({ oauth: { oauth }, saml: { saml } })) {
  test(`twelve tabs that reload at once all come to pages of the route, whether or not it has signed them in before: ${name}`, { skip }, async () => {
    const { to, close } = await guarded(fields), browser = new Browser();
    const first = await toTheEnd(browser, to, 12);
    assert.ok(first.own >= 1 && (first.own === 12 || first.waited > 0), JSON.stringify(first)); // how many have a place is a matter of what came when
    // overnight its session ends, and the cookie stays
    for (const { id } of (await listed('/app/sessions')).filter(({ route }) => route?.id === to.route.id)) await must('DELETE', `/app/sessions/${id}`);
    assert.ok(browser.cookies.get(hostOf(to)).has(SESSION));
    const second = await toTheEnd(browser, to, 12);
    assert.ok(second.own >= 1, JSON.stringify(second));
    await close();
  });
}

test('a tab whose flow made room for others signs the person in all the same', { skip }, async () => {
  const { to, close } = await guarded({ oauth, match: '/app' }), browser = new Browser(), began = [];
  for (let i = 0; i < 9; i++) began.push(await browser.go(at(to, `/app/tab${i}`), { stop: (location) => location.includes('/login/oauth/authorize') }));
  const host = new URL(began[0].url).host, state = (answer) => new URL(answer.headers.location).searchParams.get('state').split('.')[1];
  const flows = [...browser.cookies.get(host)].filter(([cookie]) => cookie.startsWith(FLOW)).map(([, value]) => value.slice(0, 6));
  const lost = began.filter((answer) => !flows.includes(state(answer).slice(0, 6)));
  assert.equal(lost.length, 1);
  const page = await browser.go(lost[0].headers.location); // this is where the password is given
  assert.deepEqual([page.status, code(page), onward(page)], [400, FAILED, at(to, '/app')]);
  const last = await browser.go(onward(page));
  assert.deepEqual([last.status, last.url], [200, at(to, '/app')]);
  await close();
});

test('a browser that loses its flows again and again goes round a few times, and then stays where it is', { skip }, async () => {
  const { to, close } = await guarded({ oauth }), browser = new Browser();
  let answer, rounds = 0, url = at(to, '/x');
  for (; url && rounds < 20; rounds++) {
    for (answer = { status: 302, headers: { location: url } }; answer.status === 302; ) {
      answer = await browser.open(answer.headers.location);
      for (const [host, cookies] of browser.cookies) if (host !== hostOf(to)) cookies.clear();
    }
    assert.deepEqual([answer.status, code(answer)], [400, FAILED]);
    url = onward(answer);
  }
  assert.equal(rounds, 6);
  assert.match(answer.body, /href="[^"]+\/auth\/authn">Sign in again</);
  await close();
});

test('no page goes on by itself but one that is opened, by a browser that has begun a sign-in here', { skip }, async () => {
  const { to, close } = await guarded({ oauth }), browser = new Browser();
  const stranger = await ask(at(to, '/auth/done'), { headers: PAGE });
  assert.deepEqual([stranger.status, code(stranger), onward(stranger), stranger.headers['set-cookie']], [400, FAILED, undefined, undefined]);
  await browser.open(at(to));
  const cases = { 'a frame': [{ ...PAGE, 'Sec-Fetch-Dest': 'iframe' }], 'a script': [{ Accept: '*/*', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }], 'a form': [PAGE, { method: 'POST', body: '' }] };
  for (const [what, [headers, more]] of Object.entries(cases)) {
    const answer = await browser.open(at(to, '/auth/done'), { headers, ...more });
    assert.deepEqual([answer.status, code(answer), onward(answer), answer.headers['set-cookie']], [400, FAILED, undefined, undefined], what);
  }
  const page = await browser.open(at(to, '/auth/done'));
  assert.deepEqual([page.status, code(page), onward(page)], [400, FAILED, at(to)]);
  await close();
});
