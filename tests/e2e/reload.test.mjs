// An edge is replaced, not reloaded: what a HUP asks for is refused, and changes nothing.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import https from 'node:https';
import test from 'node:test';
import { ca, edge, elsewhere, endpoint, env, listening, through, until, upstream } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const pidOf = (name) => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')); } catch { return 0; } };
const status = (what) => fetch(`http://127.0.0.1:${edge.port - 28}/${what}`).then((answer) => answer.text()).catch(() => '');
const lost = async () => [...(await status('metrics')).matchAll(/^postern_edge_events_(?:lost|dropped)_total\{worker="\d+"\} (\d+)/gm)].reduce((sum, row) => sum + Number(row[1]), 0);

// An answer that goes on for as long as the story says.
const streams = [];
const up = await upstream((request, response) => {
  if (request.url !== '/stream') return response.end('ok');
  streams.push(response);
  response.write('begin ');
});

function stream(host) {
  const self = { text: '', ended: false };
  const request = https.request({ host: edge.host, port: edge.port, servername: host, ca, path: '/stream', headers: { Host: host }, agent: false }, (response) => {
    response.setEncoding('utf8').on('data', (part) => { self.text += part; });
    response.on('close', () => { self.ended = true; });
  });
  request.on('error', () => { self.ended = true; });
  request.end();
  return self;
}

function traffic(host) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 8 });
  const state = { made: 0, failed: [], on: true };
  const one = async () => {
    while (state.on) {
      try { const got = await through(host, '/', { agent }); if (got.status !== 200) state.failed.push(got.status); } catch (error) { state.failed.push(error.code ?? error.message); }
      state.made++;
    }
  };
  const all = Array.from({ length: 8 }, one);
  state.stop = async () => { state.on = false; await Promise.all(all); agent.destroy(); return state.made; };
  return state;
}

test('an edge that is told to reload goes on as it is: no request, stream or event is lost, and the log says what to do', { skip: elsewhere, timeout: 300000 }, async () => {
  const { host } = await endpoint(up.address);
  const subscription = await listening('http_request_complete');
  const mine = () => subscription.events.filter((event) => event.object.http.request.url.host === host);
  const log = `${env.POSTERN_LOG_DIR}/edge.log`, from = fs.statSync(log).size;
  const told = () => fs.readFileSync(log).subarray(from).toString().split('an edge is not reloaded, it goes on as it is').length - 1;
  const master = pidOf('edge'), workers = children(master), before = await lost();
  const open = stream(host);
  await until(() => open.text === 'begin ', 'the stream');
  const load = traffic(host);
  for (let round = 1; round <= 3; round++) {
    const made = load.made;
    await until(() => load.made > made + 50, 'traffic');
    process.kill(master, 'SIGHUP');
    await until(() => told() === round, 'the log says that there is no reload');
    streams[0].write(`${round} `);
    await until(() => open.text.endsWith(`${round} `), 'the stream goes on');
    assert.deepEqual(children(master), workers, 'with the same workers');
  }
  const made = await load.stop();
  assert.deepEqual(load.failed, []);
  assert.ok(!open.ended);
  streams[0].end();
  await until(() => open.ended, 'the stream ends when its server says so');
  assert.equal(open.text, 'begin 1 2 3 ');
  await until(() => mine().length >= made + 1, `${made + 1} events`);
  assert.equal(new Set(mine().map((event) => event.event_id)).size, made + 1, 'each once');
  assert.equal(await lost(), before);

  // A worker that is started now has the configuration that the others have.
  process.kill(workers[0], 'SIGKILL');
  await until(() => { const now = children(master); return now.length === workers.length && !now.includes(workers[0]); }, 'another worker');
  await until(async () => (await status('readyz')).startsWith('ready'), 'it is ready');
  const after = traffic(host);
  await until(() => after.made > 200, 'traffic');
  const more = await after.stop();
  assert.deepEqual(after.failed, []);
  await until(() => mine().length >= made + 1 + more, 'its events');
  assert.equal(mine().length, made + 1 + more);
  await subscription.stop();
});
