// 201 means live: change a route, request it at once on a random worker and connection.
import assert from 'node:assert/strict';
import https from 'node:https';
import test from 'node:test';
import { api, endpoint, must, through } from '../support/postern.mjs';

const ROUNDS = Number(process.env.LIVE_ROUNDS || 10000);
const CLIENTS = 8;

test(`${ROUNDS} changes are live when they return`, { timeout: 900000 }, async () => {
  const times = [];
  let stale = 0, done = 0;
  const one = async () => {
    const to = await endpoint({ body: 'start' });
    const agents = Array.from({ length: 4 }, () => new https.Agent({ keepAlive: true, maxSockets: 1 }));
    let id = to.route.id;
    for (let i = 0; done < ROUNDS; i++) {
      const path = `/${i}`;
      done++;
      const start = performance.now();
      if (i % 10 === 9) { // create instead of change
        await must('DELETE', `/edges/https/${to.edge.id}/routes/${id}`);
        id = (await must('POST', `/edges/https/${to.edge.id}/routes`, { match: path, match_type: 'exact_path', backend: { backend_id: to.backend.id } })).id;
      } else {
        const answer = await api('PATCH', `/edges/https/${to.edge.id}/routes/${id}`, { match: path, match_type: 'exact_path' });
        assert.equal(answer.status, 200, answer.raw);
        times.push(performance.now() - start);
      }
      const agent = i % 3 ? agents[i % 4] : false; // an old connection of some worker, or a new one
      const got = await through(to.host, path, { agent });
      const old = await through(to.host, `/${i - 1}`, { agent });
      if (got.status !== 200 || old.status !== 404) stale++;
    }
    for (const agent of agents) agent.destroy();
  };
  await Promise.all(Array.from({ length: CLIENTS }, one));
  times.sort((a, b) => a - b);
  console.log(`changes ${done}, stale ${stale}, PATCH p50 ${times[times.length >> 1].toFixed(1)} ms, p99 ${times[Math.floor(times.length * 0.99)].toFixed(1)} ms (${CLIENTS} clients)`);
  assert.equal(stale, 0);
});
