// One client does not take the edge's connections away from others: requests that announce a body and never send it hold one each to the
// upstream, 128 in a connection of HTTP/2 (services/edge/http/share.h). A stack of its own with few connections.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import test from 'node:test';
import tls from 'node:tls';
import { own } from '../support/own.mjs';
import { edge, elsewhere, env, unique, until, upstream } from '../support/postern.mjs';

const skip = elsewhere || (env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine');
const port = edge.port + 1000, CONNECTIONS = 512, GREEDY = '127.0.0.9', SESSIONS = 6, STREAMS = 100, BUSY = 'ERR_POSTERN_927';

test('who holds what a client may have is denied more, and nobody else is', { skip, timeout: 180000 }, async () => {
  await own(async ({ state, run }) => {
    const up = run('up', { settings: { POSTERN_EDGE_WORKERS: '1', POSTERN_WORKER_CONNECTIONS: String(CONNECTIONS) } });
    assert.equal(up.status, 0, up.stderr);
    const vars = Object.fromEntries(fs.readFileSync(`${state}/postern.env`, 'utf8').split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
    const ca = fs.readFileSync(vars.POSTERN_EDGE_CA), backend = await upstream(), host = unique('shares');
    const call = async (path, body) => {
      const got = await fetch(vars.POSTERN_API_URL + path, { method: 'POST', headers: { Authorization: `Bearer ${vars.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      assert.ok(got.ok, `${path}: ${got.status}`);
      return got.json();
    };
    await call('/reserved_domains', { domain: host });
    const { id } = await call('/backends/static', { address: backend.address }), front = await call('/edges/https', { hostports: [`${host}:443`] });
    await call(`/edges/https/${front.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: id } });
    const ask = () => new Promise((resolve, reject) => {
      https.get({ host: edge.host, port, servername: host, ca, path: '/', headers: { Host: host }, agent: false }, (answer) => answer.resume().on('end', () => resolve(answer.statusCode))).on('error', reject);
    });
    assert.equal(await ask(), 200);

    // ended: of a connection that was idle still when another one's requests needed its place
    const answers = { held: 0, denied: 0, ended: 0 }, sessions = [];
    try {
      for (let i = 0; i < SESSIONS; i++) {
        const session = http2.connect(`https://${host}:${port}`, { createConnection: () => tls.connect({ host: edge.host, port, servername: host, ca, localAddress: GREEDY, ALPNProtocols: ['h2'] }) });
        session.on('error', () => {});
        sessions.push(session);
        for (let k = 0; k < STREAMS; k++) {
          answers.held++;
          const stream = session.request({ ':method': 'POST', ':path': '/', ':authority': host, 'content-length': '1' });
          let page = '', answered = false;
          stream.on('error', () => {}).on('response', () => { answered = true; answers.held--; }).on('close', () => { if (!answered) { answers.held--; answers.ended++; } }).on('data', (part) => { page += part; if (page.includes(BUSY)) { answers.denied++; page = ''; } });
        }
      }
      const metric = async () => Number(/^postern_edge_requests_over_share_total\{worker="0"\} (\d+)/m.exec(await fetch(`http://127.0.0.1:${port - 28}/metrics`).then((got) => got.text()))[1]);
      await until(() => answers.held < CONNECTIONS * 0.39 && answers.held + answers.denied + answers.ended === SESSIONS * STREAMS, 'what is beyond its portion is denied', 60000);
      for (let i = 0; i < 20; i++) assert.equal(await ask(), 200, 'another client, meanwhile');
      assert.ok(await metric() >= answers.denied, 'they are counted');
    } finally { for (const session of sessions) session.destroy(); }
    await until(async () => await ask() === 200, 'and afterwards', 30000);
    backend.server.close();
  });
});
