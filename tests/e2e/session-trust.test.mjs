// How long an edge trusts a session that it cannot ask for: until POSTERN_SESSION_TRUST is over, or the session is due, whichever comes first.
// Then there is a page that tries again by itself, and streams end; when identity is back all goes on, and nobody was logged out.
// The stories of the first kind have a stack of their own with a short trust: they run there as a process of its own, which INSIDE says,
// because what stories share knows one stack.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { own } from '../support/own.mjs';
import { Browser, github } from '../support/browser.mjs';
import { ca, edge, elsewhere, endpoint, env, everyWorker, healthUrls, listed, must, through, until, upstream, WebSocket } from '../support/postern.mjs';

const skip = elsewhere || !process.env.STORY_UPSTREAM_TLS, INSIDE = process.env.SESSION_TRUST_INSIDE, SESSION = '__Host-postern.session', UNAVAILABLE = 'ERR_POSTERN_953';
const limit = 240000, options = { skip, timeout: 2 * limit };
const begin = () => github(Number(new URL(process.env.POSTERN_OAUTH_GITHUB_URL.split(' ')[0]).port));
let provider = skip ? null : await begin();
test.after(() => provider?.close());

const pid = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const metrics = () => fetch(`http://${healthUrls().at(-1)}/metrics`).then((got) => got.text());
const sum = (text, name) => [...text.matchAll(new RegExp(`^postern_edge_${name}[{ ].*?(\\d+)$`, 'gm'))].reduce((all, [, n]) => all + Number(n), 0);
const inTouch = () => until(async () => { const all = [...(await metrics()).matchAll(/^postern_edge_session_log_current\{.*\} (\d)/gm)]; return all.length && all.every(([, now]) => now === '1'); }, 'every worker is in touch', limit);
const PAGE = { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate' };

// A route where somebody has signed in, whose session is in use; an upstream that also takes WebSockets.
async function guarded(t, more) {
  const up = await upstream((request, response) => response.end('upstream')), open = new Set();
  up.server.on('upgrade', (request, socket) => {
    const accept = crypto.createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    open.add(socket);
    socket.on('error', () => {}).on('end', () => socket.end()).on('close', () => open.delete(socket)).resume();
  });
  t.after(() => { for (const socket of open) socket.destroy(); return up.close(); });
  const to = await endpoint(up.address, { oauth: { provider: { github: {} }, ...more } }), browser = new Browser();
  provider.who = { id: 31, login: 'ada', name: 'Ada', email: 'ada@example.test' };
  assert.equal((await browser.go(`https://${to.host}:${edge.port}/`)).status, 200);
  const value = browser.cookies.get(`${to.host}:${edge.port}`).get(SESSION);
  return { up, value, get: () => through(to.host, '/', { headers: { ...PAGE, Cookie: `${SESSION}=${value}` } }),
    socket: () => new Promise((resolve, reject) => {
      const ws = new WebSocket(`wss://${to.host}:${edge.port}/ws`, { ca, servername: to.host, headers: { Cookie: `${SESSION}=${value}` }, lookup: (host, how, done) => done(null, [{ address: edge.host, family: 4 }]) });
      ws.on('open', () => resolve(ws)).on('error', reject);
    }) };
}
const retries = (answer) => answer.status === 503 && answer.body.includes(UNAVAILABLE) && answer.body.includes('http-equiv="refresh"');
// Newer rules than this edge's have judged the session, at another edge; the provider was to be asked for it long ago. Without postern-routes: it would say that there are none.
const judgeElsewhere = ({ value }) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `UPDATE identity.sign_in_session s SET rules_revision = rules_revision + 1000000, digest = repeat('0', 64), due_ms = 1
  FROM identity.application_session a WHERE a.id = s.session_id AND a.token_hash = '${crypto.createHash('sha256').update(value).digest('hex')}' RETURNING 1`], { encoding: 'utf8' }).trim();
// While one of the processes stands still.
async function without(name, story) {
  const one = pid(name);
  process.kill(one, 'SIGSTOP');
  try { await story(); } finally { process.kill(one, 'SIGCONT'); }
}

if (INSIDE) {
  test('with identity away a session goes on while it is trusted, then nobody gets in, streams end, and all come back', options, async (t) => {
    const { up, get, socket } = await guarded(t);
    const ws = await socket();
    await everyWorker(() => Promise.all(Array.from({ length: 8 }, get)));
    await inTouch();
    const before = await metrics();
    let passed = 0, reached;
    await without('identity', async () => {
      await until(async () => {
        const answer = await get();
        if (answer.status === 200) passed++;
        else assert.ok(retries(answer), `${answer.status} ${answer.body}`);
        return answer.status !== 200;
      }, 'the end of its trust', limit);
      reached = up.seen.length;
      await until(() => ws.readyState === WebSocket.CLOSED, 'the end of the stream', limit);
      for (let i = 0; i < 4; i++) assert.ok(retries(await get()), 'nobody is let in any more');
      assert.equal(up.seen.length, reached, 'nothing of that goes upstream');
    });
    assert.ok(passed > 0, 'it went on for a while');
    assert.ok(sum(await metrics(), 'module_admitted_trusted_total') > sum(before, 'module_admitted_trusted_total'), 'by trust');
    await until(async () => (await get()).status === 200, 'it comes back by itself, with the same cookie', limit);
    (await socket()).terminate();
  });

  test('a stream at an edge that is behind ends when identity could not say for as long as a session is trusted that its session is good', options, async (t) => {
    const due = await guarded(t, { auth_check_interval: 3 }), other = await guarded(t), streams = [await due.socket(), await other.socket()];
    await without('routes', async () => {
      assert.equal(judgeElsewhere(due), '1');
      await until(() => streams[0].readyState === WebSocket.CLOSED, 'the end of the stream whose session is due', limit);
      assert.ok(retries(await due.get()));
    });
    assert.equal(streams[1].readyState, WebSocket.OPEN, 'nothing has to be asked of the other one');
    streams[1].terminate();
  });

  test('an edge that hears nothing of the session log asks identity before it admits', options, async (t) => {
    const { get } = await guarded(t), file = `${fs.realpathSync(process.env.POSTERN_HOME)}/edge/nginx.conf`, conf = fs.readFileSync(file, 'utf8'), old = pid('edge');
    const cut = conf.replace(/postern_session_log [^;]+;/, `postern_session_log ipc://${env.POSTERN_RUN_DIR}/nobody.log;`);
    assert.notEqual(cut, conf);
    fs.writeFileSync(file, cut);
    process.kill(old, 'SIGTERM');
    await until(() => pid('edge') !== old && fs.existsSync(`/proc/${pid('edge')}`), 'another edge', limit);
    await until(async () => (await get()).status === 200, 'it serves', limit);
    const before = await metrics();
    assert.equal(sum(before, 'session_log_current'), 0);
    for (let i = 0; i < 6; i++) assert.equal((await get()).status, 200);
    const now = await metrics();
    assert.equal(sum(now, 'module_admitted_asked_total') - sum(before, 'module_admitted_asked_total'), 6);
    assert.equal(sum(now, 'module_admitted_cached_total'), 0);
    // Of each stream identity is asked each second without the rules, and with them once it wants them: who is behind is told nothing then.
    const behind = await guarded(t), stream = await behind.socket();
    await without('routes', async () => {
      assert.equal(judgeElsewhere(behind), '1');
      await until(() => stream.readyState === WebSocket.CLOSED, 'the end of a stream that newer rules have judged', limit);
      assert.ok(retries(await behind.get()));
    });
    assert.equal((await get()).status, 200);
    const list = await listed('/app/sessions');
    for (const { id } of list) await must('DELETE', `/app/sessions/${id}`);
    assert.notEqual((await get()).status, 200, 'what is revoked is over, though no log says so');
  });
} else {
  test('an edge whose trust is short', options, () => own(async ({ state, run }) => {
    const up = run('up');
    assert.equal(up.status, 0, up.stdout + up.stderr);
    provider.close(); // the story there has it
    const inside = spawn(process.execPath, ['--test', '--test-reporter=spec', fileURLToPath(import.meta.url)], { env: { ...process.env, NODE_TEST_CONTEXT: undefined, SESSION_TRUST_INSIDE: '1', POSTERN_HOME: state }, stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    inside.stdout.on('data', (part) => { said += part; });
    const code = await new Promise((resolve) => { inside.on('close', resolve); });
    provider = await begin();
    assert.equal(code, 0, said);
  }, { also: { POSTERN_SESSION_TRUST: '15s' } })); // longer than an edge waits for an answer of identity

  test('a session that is due while identity is away waits, however long others are trusted, and goes on when it is back', options, async (t) => {
    const due = await guarded(t, { auth_check_interval: 2 }), other = await guarded(t);
    const ws = await other.socket();
    await everyWorker(() => Promise.all(Array.from({ length: 8 }, other.get)));
    await inTouch();
    await without('identity', async () => {
      await until(async () => {
        const answer = await due.get();
        assert.ok(answer.status === 200 || retries(answer), `${answer.status} ${answer.body}`);
        return answer.status !== 200;
      }, 'it is due', limit);
      const reached = due.up.seen.length;
      for (let i = 0; i < 2; i++) assert.ok(retries(await due.get()));
      assert.equal(due.up.seen.length, reached);
      assert.equal((await other.get()).status, 200, 'the other one is trusted');
      assert.equal(ws.readyState, WebSocket.OPEN);
    });
    await until(async () => (await due.get()).status === 200, 'it comes back by itself', limit);
    assert.equal((await other.get()).status, 200);
    ws.terminate();
  });

  test('with the config log away nothing changes for who has signed in', options, async (t) => {
    const { get, socket } = await guarded(t), ws = await socket();
    await without('routes', async () => {
      for (let i = 0; i < 20; i++) assert.equal((await get()).status, 200);
      assert.equal(ws.readyState, WebSocket.OPEN);
    });
    ws.terminate();
  });
}
