// An edge that has fewer workers than before: what those left that are no more is sent by those that are, each event once.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { edge, elsewhere, endpoint, env, home, listening, through, until } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const conf = `${home}/edge/nginx.conf`, FEW = 2, MANY = 5;
const pidOf = (name) => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')); } catch { return 0; } };
const status = (what) => fetch(`http://127.0.0.1:${edge.port - 28}/${what}`).then((answer) => answer.text()).catch(() => '');
const each = async (name) => [...(await status('metrics')).matchAll(new RegExp(`^postern_edge_${name}\\{worker="\\d+"\\} (\\d+)`, 'gm'))].map((row) => Number(row[1]));
const spools = () => fs.readdirSync(`${home}/edge`).filter((name) => /^events\.\d+(\.1)?\.spool$/.test(name) && fs.statSync(`${home}/edge/${name}`).isFile() && fs.statSync(`${home}/edge/${name}`).size > 0);
// what no worker can take over is in nobody's way: worker 1 looks at it, and not at what it has to do with 3 alone
const stranger = `${home}/edge/events.7.spool`, log = `${env.POSTERN_LOG_DIR}/edge.log`;

// A new master with so many workers, by the supervisor.
async function restart(workers, signal) {
  const before = pidOf('edge');
  fs.writeFileSync(conf, fs.readFileSync(conf, 'utf8').replace(/^worker_processes \d+;/m, `worker_processes ${workers};`));
  if (signal === 'SIGKILL') process.kill(-before, signal); else process.kill(before, signal);
  await until(() => ![0, before].includes(pidOf('edge')) && children(pidOf('edge')).length === workers, `an edge with ${workers} workers`, 120000);
  await until(async () => (await status('readyz')).startsWith('ready'), 'it is ready', 120000);
}

for (const [signal, what] of [['SIGTERM', 'in their spools'], ['SIGKILL', 'in memory']])
  test(`an edge with fewer workers than before sends what the others left ${what}`, { skip: elsewhere, timeout: 300000 }, async () => {
    const { host } = await endpoint({ body: 'x' });
    const subscription = await listening('http_request_complete');
    const mine = () => subscription.events.filter((event) => event.object.http.request.url.host === host);
    const from = fs.statSync(log).size;
    let sent = 0;
    const send = async () => { assert.equal((await through(host)).status, 200); sent++; };
    fs.mkdirSync(stranger);
    try {
      await restart(MANY, 'SIGTERM');
      await until(async () => { await send(); return (await each('events_total')).length === MANY; }, 'an edge with many workers');
      await until(() => mine().length === sent, 'its events');
      const events = pidOf('events'), before = await each('events_total');
      process.kill(events, 'SIGSTOP');
      try {
        await until(async () => { await send(); return (await each('events_total')).every((count, i) => count >= before[i] + 5); }, 'events of each worker', 120000);
        await restart(FEW, signal);
        if (signal === 'SIGTERM') await until(() => spools().every((name) => Number(name.split('.')[1]) < FEW), 'those that are no more have nothing left');
      } finally {
        process.kill(events, 'SIGCONT');
      }
      await until(() => mine().length >= sent, `${sent} events, not ${mine().length}`, 120000);
      await until(() => spools().length === 0, 'nothing is left');
      assert.equal(mine().length, sent);
      assert.match(fs.readFileSync(log).subarray(from).toString(), /cannot take over the events that another edge left in "[^"]*events\.7\.spool"/);
      assert.equal(new Set(mine().map((event) => event.event_id)).size, sent, 'each once');
      const lost = await each('events_lost_total'), dropped = await each('events_dropped_total');
      assert.deepEqual([...lost, ...dropped], Array(2 * FEW).fill(0));
    } finally {
      fs.rmdirSync(stranger);
      if (!/^worker_processes 2;/m.test(fs.readFileSync(conf, 'utf8')) || children(pidOf('edge')).length !== FEW) await restart(FEW, 'SIGTERM');
      await subscription.stop();
    }
  });
