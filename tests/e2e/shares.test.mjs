// One client does not take the edge's connections away from others: requests that announce a body and never send it hold one each to the
// upstream, 128 in a connection of HTTP/2 (services/edge/http/share.h). A stack of its own with few connections.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ALONE, WAIT, ask, metric, publish, session, skip, stack } from '../support/clients.mjs';
import { until, upstream } from '../support/postern.mjs';

const CONNECTIONS = 512, GREEDY = '127.0.0.9', SESSIONS = 6, STREAMS = 100, BUSY = 'ERR_POSTERN_927';
const ready = stack({ POSTERN_WORKER_CONNECTIONS: String(CONNECTIONS), POSTERN_CLIENT_BODY_TIMEOUT: '10m' }, async ({ call }) => {
  const backend = await upstream();
  return { host: (await publish(call, backend.address)).host, end: () => backend.close() };
});

test('who holds what a client may have is denied more, and nobody else is', { skip, timeout: 300000 }, async () => {
  const there = await ready, { host } = there;
  assert.equal((await ask(ready)).status, 200);
  // ended: of a connection that was idle still when another one's requests needed its place
  const answers = { held: 0, denied: 0, ended: 0 }, sessions = [];
  try {
    for (let i = 0; i < SESSIONS; i++) {
      const greedy = session(there, GREEDY);
      sessions.push(greedy);
      for (let k = 0; k < STREAMS; k++) {
        answers.held++;
        const stream = greedy.request({ ':method': 'POST', ':path': '/', ':authority': host, 'content-length': '1' });
        let page = '', answered = false;
        stream.on('error', () => {}).on('response', () => { answered = true; answers.held--; }).on('close', () => { if (!answered) { answers.held--; answers.ended++; } }).on('data', (part) => { page += part; if (page.includes(BUSY)) { answers.denied++; page = ''; } });
      }
    }
    await until(() => answers.held < CONNECTIONS * ALONE && answers.held + answers.denied + answers.ended === SESSIONS * STREAMS, 'what is beyond its portion is denied', WAIT);
    for (let i = 0; i < 20; i++) assert.equal((await ask(ready)).status, 200, 'another client, meanwhile');
    assert.ok(await metric('requests_over_share_total{worker="0"}') >= answers.denied, 'they are counted');
  } finally { for (const greedy of sessions) greedy.destroy(); }
  await until(async () => (await ask(ready)).status === 200, 'and afterwards', WAIT);
});
