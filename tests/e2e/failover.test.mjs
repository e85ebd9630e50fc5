// Failover backends: members in order, from one that cannot be dialled to the next, and never once a byte of the request was sent. And
// what is known of dead members, shares of weighted backends, and upstreams that are killed under load.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';
import { createRequire } from 'node:module';
import test from 'node:test';
import { api, ca, client, edge, elsewhere, endpoint, env, home, listening, must, storyHost, tcpUpstream, through, until, upstream, WebSocket } from '../support/postern.mjs';

const HOST = process.env.STORY_HOST || '127.0.0.1', signed = process.env.STORY_UPSTREAM_TLS;
const base = Number(new URL(env.POSTERN_API_URL).port);
const sub = await listening('http_request_complete');
const metrics = () => fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text());
const counter = async (name) => Number(new RegExp(`^postern_edge_module_${name}_total\\{module="backend"\\} (\\d+)`, 'm').exec(await metrics())[1]);
const isDown = async (id) => (await metrics()).includes(`postern_edge_member_down{backend="${id}"} 1`);
const code = (got) => /ERR_POSTERN_\d+/.exec(got.body)?.[0];
const make = (kind, body) => must('POST', `/backends/${kind}`, body);
const at = (address, more) => make('static', { address, ...more }).then(({ id }) => id);
const failover = async (...backends) => endpoint(await make('failover', { backends }));
const order = (to, ...backends) => must('PATCH', `/backends/failover/${to.backend.id}`, { backends });
const named = (name, options) => upstream((request, response, body) => response.end(`${name} ${request.method} ${request.url} ${body.length}`), options);
const called = (host) => new Promise((resolve, reject) => { // a call of gRPC
  const session = http2.connect(`https://${host}`, { host: edge.host, port: edge.port, servername: host, ca });
  const stream = session.request({ ':method': 'POST', ':authority': host, ':path': '/a.A/B', 'content-type': 'application/grpc', te: 'trailers' });
  const got = { status: 0, headers: {} };
  session.on('error', reject);
  stream.on('response', (headers) => { got.status = headers[':status']; got.headers = headers; }).on('data', () => {}).on('error', () => {});
  stream.on('close', () => { session.close(); resolve(got); });
  stream.end(Buffer.alloc(5));
});
const pem = () => ({ key: fs.readFileSync(`${signed}.key`), cert: fs.readFileSync(`${signed}.pem`) });

const DIALS = 5000; // ms, as POSTERN_CONNECT_TIMEOUT has it

// A port where nobody listens.
async function closedPort() {
  const up = await upstream();
  await up.close();
  return up.address;
}

const local = (name, options, done) => (options.all ? done(null, [{ address: edge.host, family: 4 }]) : done(null, edge.host, 4));

// An upstream of WebSockets that say what they hear, and a WebSocket to it.
const { WebSocketServer } = createRequire(new URL('package.json', import.meta.url))('ws');
async function echoing() {
  const server = new WebSocketServer({ port: 0, host: HOST });
  server.on('connection', (socket) => socket.on('message', (text) => socket.send(`echo ${text}`)));
  await new Promise((resolve) => server.on('listening', resolve));
  return { address: `${HOST}:${server.address().port}`, close: () => server.close() };
}
async function upgraded({ host }) {
  const socket = new WebSocket(`wss://${host}:${edge.port}/`, { ca, servername: host, lookup: local });
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject));
  return socket.on('error', () => {}).on('close', () => { socket.gone = true; });
}
const heard = (socket) => new Promise((resolve, reject) => {
  socket.once('message', (text) => resolve(String(text))).once('close', () => reject(new Error('it ended')));
  socket.send('x');
});

// Of each kind of member one: what makes it, and what it answers or why it cannot be reached.
const up = await named('plain'), secure = signed && !elsewhere ? await named('secure', pem()) : undefined;
const silent = await tcpUpstream((socket) => socket.resume());
const KINDS = {
  plain: () => at(up.address),
  refused: async () => at(await closedPort()),
  nameless: () => at('nobody.invalid:80'),
  'not tls': () => at(up.address, { tls: { enabled: true } }),
  fixed: () => make('http_response', { body: 'fixed', status_code: 201, headers: { 'X-Fixed': 'yes' } }).then(({ id }) => id),
  tunnels: () => make('tunnel_group', { labels: { app: 'none' } }).then(({ id }) => id),
  'shares of nobody': () => make('weighted', {}).then(({ id }) => id),
  'shares of plain': async () => (await make('weighted', { backends: { [await at(up.address)]: 3 } })).id,
  'shares of refused': async () => (await make('weighted', { backends: { [await at(await closedPort())]: 3 } })).id,
  'shares of fixed': async () => (await make('weighted', { backends: { [await make('http_response', { body: 'shared' }).then(({ id }) => id)]: 1 } })).id,
  ...(elsewhere ? {} : { denied: () => at(`localhost:${base}`) }),
  ...(secure ? { secure: () => at(`localhost:${secure.port}`, { tls: { enabled: true } }), 'other name': () => at(`127.0.0.1:${secure.port}`, { tls: { enabled: true } }) } : {}),
};
const answers = { plain: [200, 'plain GET /x 0'], secure: [200, 'secure GET /x 0'], fixed: [201, 'fixed'], 'shares of plain': [200, 'plain GET /x 0'], 'shares of fixed': [200, 'shared'] };

for (const [members, who, error] of [
  ...Object.keys(KINDS).filter((one) => !(one in answers)).map((one) => [[one, 'plain'], 'plain']),
  [['plain', 'refused'], 'plain'],
  [['refused', 'secure'], 'secure'],
  [['secure', 'plain'], 'secure'],
  [['not tls', 'other name', 'refused', 'secure', 'plain'], 'secure'],
  [['other name', 'refused', 'shares of refused', 'plain'], 'plain'],
  [['refused', 'fixed'], 'fixed'],
  [['fixed', 'plain'], 'fixed'],
  [['nameless', 'tunnels', 'fixed', 'plain'], 'fixed'],
  [['not tls', 'shares of fixed'], 'shares of fixed'],
  [['refused', 'shares of plain'], 'shares of plain'],
  [[], undefined, [503, 'ERR_POSTERN_903']],
  [['refused'], undefined, [502, 'ERR_POSTERN_904']],
  [['nameless', 'tunnels', 'shares of nobody'], undefined, [502, 'ERR_POSTERN_904']],
  [['refused', 'not tls'], undefined, [502, 'ERR_POSTERN_906']],
  [['not tls', 'refused'], undefined, [502, 'ERR_POSTERN_904']],
  [['refused', 'other name'], undefined, [502, 'ERR_POSTERN_906']],
  [['other name', 'refused'], undefined, [502, 'ERR_POSTERN_904']],
])
  test(`[${members.join(', ')}]: ${who ? `${who} answers` : `nobody does: ${error.join(' ')}`}`, { skip: members.some((one) => !(one in KINDS)) && 'needs upstreams beside the system' }, async () => {
    const ids = [];
    for (const one of members) ids.push(await KINDS[one]());
    const to = await failover(...ids);
    const want = (method, body) => answers[who].map((one) => (typeof one === 'string' ? one.replace('GET', method).replace(/0$/, body) : one));
    for (let i = 0; i < 3; i++) {   // both where nothing is known of the members and where it is
      const got = await through(to.host, '/x');
      assert.deepEqual([got.status, who ? got.body : code(got)], who ? want('GET', 0) : error, got.body);
      if (who === 'fixed') assert.equal(got.headers['x-fixed'], 'yes');
    }
    if (!who) return;
    const long = await through(to.host, '/x', { method: 'POST', body: 'b'.repeat(300000), headers: { 'Transfer-Encoding': 'chunked' } });
    assert.deepEqual([long.status, long.body], want('POST', 300000));
    const head = await through(to.host, '/x', { method: 'HEAD' });
    assert.deepEqual([head.status, head.body], [answers[who][0], '']);
    const session = http2.connect(`https://${to.host}:${edge.port}`, { ca, servername: to.host, lookup: local });
    const request = session.request({ ':path': '/x', ':method': 'PUT', ':authority': to.host });
    let body = '', status;
    request.on('response', (headers) => { status = headers[':status']; }).setEncoding('utf8').on('data', (part) => { body += part; });
    await new Promise((resolve, reject) => request.on('error', reject).on('end', resolve).end('twelve bytes'));
    session.close();
    assert.deepEqual([status, body], want('PUT', 12));
  });

test('a member whose TLS handshake never ends is passed to the next, too', { timeout: 280000 }, async () => {
  const to = await failover(await at(silent.address, { tls: { enabled: true } }), await at(up.address));
  assert.equal((await through(to.host, '/x')).body, 'plain GET /x 0');
});

test('an upgrade goes to the member that can be dialled', async () => {
  const server = await echoing(), socket = await upgraded(await failover(await at(await closedPort()), await at(server.address)));
  assert.equal(await heard(socket), 'echo x');
  socket.terminate();
  server.close();
});

test('no status moves a request on, nor does anything once it was sent', async () => {
  const other = await named('other');
  for (const [what, first, want] of [
    ['503', await upstream((request, response) => { response.statusCode = 503; response.end('busy'); }), [503, 'busy']],
    ['reads and closes', await tcpUpstream((socket) => socket.once('data', () => socket.destroy())), [502]],
    ['answers nonsense', await tcpUpstream((socket) => socket.once('data', () => socket.end('nonsense\r\n\r\n'))), [502]],
    ['breaks off in the head', await tcpUpstream((socket) => socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nX-Half: '))), [502]],
  ])
    for (const method of ['GET', 'POST', 'PUT']) {
      const to = await failover(await at(first.address), await at(other.address));
      const got = await through(to.host, '/x', { method, body: method === 'GET' ? undefined : 'b' });
      assert.equal(got.status, want[0], `${what} ${method}`);
      if (want[1]) assert.equal(got.body, want[1]);
      assert.equal(other.seen.length, 0, `${what} ${method}`);
    }
  await other.close();
});

test('a member that speaks before it is asked, and closes, was reached: nothing of it meets the answer of another', { timeout: 280000 }, async () => {
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  const speaks = async (bytes) => (await tcpUpstream((socket) => socket.end(bytes))).address;
  const other = await named('other');
  const calls = http2.createServer((request, response) => { response.writeHead(200, { 'content-type': 'application/grpc', 'grpc-status': '0' }); response.end(); });
  await new Promise((resolve) => calls.listen(0, storyHost, resolve));
  for (const bytes of [settings, 'HTTP/1.1 200 OK\r\nX-Stolen: ', 'HTTP/1.1 103 Early Hints\r\nX-Stolen: a\r\n\r\n', 'nonsense'])
    for (const grpc of [false, true]) {
      const to = await failover(await at(await speaks(bytes)), await at(grpc ? `${storyHost}:${calls.address().port}` : other.address));
      for (let i = 0; i < 20; i++) {
        const got = await (grpc ? called(to.host) : through(to.host, '/x'));
        assert.ok([200, 502].includes(got.status), `${got.status}`);
        assert.equal(got.headers['x-stolen'], undefined);
        if (got.status === 200 && !grpc) assert.match(got.body, /^other/);
      }
    }
  await other.close();
  calls.close();
});

// Serves one request of each connection and closes it when the next one has come.
const closesKept = async () => {
  const seen = [];
  const server = await tcpUpstream((socket) => {
    let n = 0;
    socket.on('data', (part) => {
      seen.push(part.toString('latin1').split(' ')[0]);
      if (++n === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst'); else socket.destroy();
    });
  });
  return { ...server, seen };
};

for (const backend of ['a static backend', 'a failover backend'])
  test(`a kept connection that the upstream closes: ${backend} is asked again for what is idempotent, and no POST is sent twice`, async () => {
    const other = await named('other');
    for (const [method, status, requests] of [['GET', 200, ['GET', 'GET', 'GET']], ['POST', 502, ['GET', 'POST']], ['PATCH', 502, ['GET', 'PATCH']], ['DELETE', 200, ['GET', 'DELETE', 'DELETE']]]) {
      const first = await closesKept();
      const to = backend === 'a static backend' ? await endpoint(first.address) : await failover(await at(first.address), await at(other.address));
      const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });   // one worker
      assert.equal((await through(to.host, '/', { agent })).body, 'first');
      const got = await through(to.host, '/', { agent, method });
      assert.equal(got.status, status, method);
      assert.deepEqual(first.seen, requests);
      assert.equal(other.seen.length, 0, 'the next member is asked for nothing that was sent');
      agent.destroy();
      await first.close();
    }
    await other.close();
  });

test('events and kept connections are those of the member that answered', async () => {
  const mineOnly = await named('mine'), { host } = await failover(await at(await closedPort()), await at(mineOnly.address));
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  for (let i = 0; i < 3; i++) assert.equal((await through(host, `/${i}`, { agent })).status, 200);
  const mine = () => sub.events.filter(({ object }) => object.http.request.url.host === host);
  await until(() => mine().length === 3, 'events');
  const reused = mine().sort((a, b) => (a.object.http.request.url.path < b.object.http.request.url.path ? -1 : 1)).map(({ object }) => object.backend.connection_reused);
  assert.deepEqual(reused, [false, true, true]);
  agent.destroy();
  await mineOnly.close();
  const fixed = await failover(await at(await closedPort()), (await make('http_response', { body: 'x' })).id);
  assert.equal((await through(fixed.host)).status, 200);
  const [event] = await until(() => { const all = sub.events.filter(({ object }) => object.http.request.url.host === fixed.host); return all.length && all; }, 'its event');
  assert.deepEqual([event.object.backend.connection_reused, event.object.http.response.status_code, event.object.denied.module], [false, 200, '']);
});

test('a dead member is not dialled for each request, and is found again when it is back', { skip: elsewhere, timeout: 280000 }, async () => {
  const first = await named('first'), second = await named('second');
  const id = await at(first.address), to = await failover(id, await at(second.address));
  assert.match((await through(to.host)).body, /^first/);
  await first.close();
  await until(async () => /^second/.test((await through(to.host)).body), 'the second member');
  assert.ok(await isDown(id));
  const before = [await counter('failed_over'), await counter('passed_over'), await counter('trials')];
  for (let i = 0; i < 200; i++) assert.match((await through(to.host)).body, /^second/);
  const dials = (await counter('failed_over')) - before[0], passed = (await counter('passed_over')) - before[1];
  assert.equal(dials + passed, 200);
  assert.equal(dials, (await counter('trials')) - before[2], 'each dial is a trial');
  assert.ok(passed > dials, `${dials} dials`);
  await new Promise((resolve) => first.server.listen(first.port, HOST, resolve));
  await until(async () => /^first/.test((await through(to.host)).body), 'the first member', 60000);
  assert.ok(!(await isDown(id)));
  await first.close();
  await second.close();
});

test('members that are all down are tried all the same, in order', async () => {
  const first = await named('first'), second = await named('second');
  const to = await failover(await at(first.address), await at(second.address));
  await first.close();
  await second.close();
  for (let i = 0; i < 6; i++) assert.equal(code(await through(to.host)), 'ERR_POSTERN_904');
  await new Promise((resolve) => second.server.listen(second.port, HOST, resolve));
  assert.match((await through(to.host)).body, /^second/, 'no back-off keeps the only one away');
  await second.close();
});

test('a change of the members is in force when it returns', async () => {
  const [one, two, three] = [await named('one'), await named('two'), await named('three')];
  const [first, second, third] = [await at(one.address), await at(two.address), await at(three.address)];
  const to = await failover(first, second);
  const says = async (name) => { for (let i = 0; i < 4; i++) assert.match((await through(to.host)).body, new RegExp(`^${name} `)); };
  await says('one');
  await order(to, second, first);
  await says('two');
  await order(to, await at(await closedPort()), third, second);
  await says('three');
  await must('PATCH', `/backends/static/${third}`, { address: one.address });
  await says('one');
  await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { backend: { backend_id: second } });
  await must('DELETE', `/backends/failover/${to.backend.id}`);
  await says('two');
  for (const each of [one, two, three]) await each.close();
});

test('a change while a member is being dialled', { timeout: 280000 }, async () => {
  const other = await named('other'), three = await named('three');
  const third = await at(three.address);
  // What becomes of a request that is being dialled to a member that never ends its handshake, with another one behind it, when it is changed
  // meanwhile: an edge dials for 5 s, and who is too slow for that does it again.
  const changed = async (change) => {
    for (;;) {
      let dialled = false;
      const server = await tcpUpstream((socket) => { dialled = true; socket.resume(); });
      const ids = [await at(server.address, { tls: { enabled: true } }), await at(other.address)], to = await failover(...ids), begun = Date.now();
      const answer = through(to.host, '/x', { method: 'POST', body: 'body' });
      await until(() => dialled, 'a dial');
      await change(to, ids);
      const inTime = Date.now() - begun < DIALS, got = await answer;
      await server.close();
      if (inTime) return { to, got };
    }
  };
  const [kept, gone, ended, taken] = await Promise.all([
    changed((to, ids) => order(to, ids[0], third)),
    changed(async (to, ids) => { await order(to, ids[0], third); await must('DELETE', `/backends/static/${ids[1]}`); }),
    changed(async (to, ids) => { await order(to, third); await must('DELETE', `/backends/static/${ids[0]}`); }),
    changed((to) => must('DELETE', `/edges/https/${to.edge.id}/routes/${to.route.id}/backend`)),
  ]);
  const got = [kept, gone, ended, taken].map((one) => one.got);
  assert.deepEqual([got[0].status, got[0].body], [200, 'other POST /x 4'], 'the members are those that it met');
  assert.deepEqual([got[1].status, code(got[1])], [502, 'ERR_POSTERN_906'], 'but one that is gone is not dialled');
  assert.deepEqual([got[2].status, code(got[2])], [503, 'ERR_POSTERN_903'], 'the backend that it is at is gone');
  assert.deepEqual([got[3].status, code(got[3])], [503, 'ERR_POSTERN_903'], 'its route leads nowhere');
  for (const { to } of [kept, gone, ended]) assert.equal((await through(to.host, '/x')).body, 'three GET /x 0');
  for (const one of [other, three]) await one.close();
});

test('upgraded streams stay while one of the members leads there, whatever the order, and end when none does', { timeout: 280000 }, async () => {
  const server = await echoing(), target = await at(server.address), dead = await at(await closedPort()), other = await at(up.address);
  const direct = await failover(dead, target), one = await upgraded(direct);
  const weighted = await make('weighted', { backends: { [target]: 1 } }), nested = await failover(dead, weighted.id), two = await upgraded(nested);
  for (const [what, change] of [
    ['another order', () => order(direct, target, dead)],
    ['a member before it', () => order(direct, other, target, dead)],
    ['by a share', () => order(direct, other, weighted.id)],
    ['both', () => order(direct, weighted.id, target)],
  ]) {
    await change();
    assert.equal(await heard(one), 'echo x', what);
    assert.equal(await heard(two), 'echo x', what);
  }
  await must('PATCH', `/backends/weighted/${weighted.id}`, { backends: { [other]: 1 } });
  await until(() => two.gone, 'the share of the nested one is another\'s');
  await heard(one);
  await order(direct, other, dead);
  await until(() => one.gone, 'no member leads there');
  server.close();
});

test('an upgraded stream that another member leads to by now ends when that one leads elsewhere', { timeout: 280000 }, async () => {
  const server = await echoing(), target = await at(server.address), other = await at(up.address);
  const shares = async (backend) => (await make('weighted', { backends: { [backend]: 1 } })).id;
  const lead = (id, backend) => must('PATCH', `/backends/weighted/${id}`, { backends: { [backend]: 1 } });
  // [the members, by names; the member that the stream goes by, and what takes it over]
  for (const [what, members, changes] of [
    ['two weighted members', ({ a, b }) => [a, b], [({ a }) => lead(a, other), ({ b }) => lead(b, other)]],
    ['a member of its own, and then a weighted one', ({ a }) => [target, a], [({ a, to }) => order(to, a, other), ({ a }) => lead(a, other)]],
    ['a member that comes later', ({ a }) => [a], [({ a, b, to }) => order(to, a, b), ({ a }) => lead(a, other), ({ b }) => lead(b, other)]],
    ['the weighted one without the failover one', ({ a, b }) => [a, b],
      [({ b, to }) => must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { backend: { backend_id: b } }), ({ b }) => lead(b, other)]],
  ]) {
    const ids = { a: await shares(target), b: await shares(target) }, to = await failover(...members(ids)), socket = await upgraded(to);
    for (const change of changes.slice(0, -1)) {
      await change({ ...ids, to });
      assert.equal(await heard(socket), 'echo x', what);
    }
    await changes.at(-1)({ ...ids, to });
    await until(() => socket.gone, what);
  }
  server.close();
});

test('a member that was passed over is dialled as it is by then, and not at all when it is gone', { skip: elsewhere, timeout: 280000 }, async () => {
  const other = await named('other');
  for (const [what, change, want] of [
    ['another address', (id) => must('PATCH', `/backends/static/${id}`, { address: other.address }), [200, undefined]],
    ['deleted', async (id, silent, ...all) => { for (const each of all) await order(each, silent); await must('DELETE', `/backends/static/${id}`); }, [502, 'ERR_POSTERN_906']],
  ])
    for (let met = false; !met;) {   // its back-off may be over before the request comes, and the second member is dialled for so long only
      let dialled = false;
      const server = await tcpUpstream((socket) => { dialled = true; socket.resume(); });
      const dead = await at(await closedPort()), never = await at(server.address, { tls: { enabled: true } }), to = await failover(dead, never);
      const alone = await failover(dead);
      assert.equal(code(await through(alone.host)), 'ERR_POSTERN_904');
      const before = await counter('passed_over'), begun = Date.now(), answer = through(to.host, '/x');
      await until(() => dialled, 'a dial of the second member');
      met = (await counter('passed_over')) > before;
      await change(dead, never, to, alone);
      met &&= Date.now() - begun < DIALS;
      const got = await answer;
      if (met) assert.deepEqual([got.status, code(got)], want, what);
      await server.close();
    }
  await other.close();
});

test('a request dials so many members and no more, in one line of the log, and none is left out for ever', { skip: elsewhere, timeout: 280000 }, async () => {
  const MOST = 16, dead = [], live = await named('live'), fixed = await make('http_response', { body: 'sorry' });
  const lines = (host, level) => fs.readFileSync(`${home}/log/edge.log`, 'utf8').split('\n').filter((line) => line.includes(`[${level}]`) && line.includes(`host: "${host}"`));
  for (let i = 0; i < 99; i++) dead.push(await at(await closedPort()));
  const none = await failover(...dead), some = await failover(...dead.slice(0, 60), await at(live.address), ...dead.slice(60)), sorry = await failover(...dead, fixed.id);
  assert.equal((await through(sorry.host)).body, 'sorry', 'what answers by itself does so behind a hundred that are dead');
  for (let i = 1; i <= 10; i++) {
    const before = await counter('failed_over');
    assert.equal(code(await through(none.host)), 'ERR_POSTERN_904');
    assert.ok((await counter('failed_over')) - before < MOST, `${(await counter('failed_over')) - before} steps`);
    assert.equal(lines(none.host, 'error').length, i);
    assert.match(lines(none.host, 'error')[i - 1], /no member of backend bkdfo_\S+ was reached: 16 dialled/);
  }
  await until(async () => (await through(some.host)).body.startsWith('live'), 'the one that lives');
  for (let i = 0; i < 10; i++) assert.match((await through(some.host)).body, /^live/);
  await live.close();
  await until(async () => (await through(some.host)).status === 502, 'it is gone');
  await new Promise((resolve) => live.server.listen(live.port, HOST, resolve));
  await until(async () => (await through(some.host)).body.startsWith('live'), 'it is back', 120000);
  await live.close();
});

test('the scheme of a call is that of the member that it goes to', { skip: !secure && 'needs upstreams beside the system', timeout: 280000 }, async () => {
  const schemes = [], open = [];
  const serve = async (make, options) => {
    const server = make(options ?? {});
    server.on('stream', (stream, headers) => { schemes.push(headers[':scheme'], headers[':authority']); stream.respond({ 'content-type': 'application/grpc', 'grpc-status': '0' }); stream.end(); });
    server.on('session', (session) => open.push(session));
    await new Promise((resolve) => server.listen(0, HOST, resolve));
    return { server, port: server.address().port };
  };
  const plain = await serve(http2.createServer), tls = await serve(http2.createSecureServer, pem());
  const toPlain = await at(`${HOST}:${plain.port}`), toTls = await at(`localhost:${tls.port}`, { tls: { enabled: true } }), dead = await at(await closedPort()), deadTls = await at(up.address, { tls: { enabled: true } });
  for (const [members, scheme] of [[[toPlain], 'http'], [[toTls], 'https'], [[dead, toTls], 'https'], [[deadTls, toPlain], 'http'], [[deadTls, toTls], 'https'], [[dead, deadTls, toPlain, toTls], 'http']]) {
    const to = await failover(...members);
    for (let i = 0; i < 3; i++) {
      assert.equal((await called(to.host)).status, 200);
      assert.deepEqual(schemes.splice(0), [scheme, to.host], `${members.indexOf(toTls)}`);
    }
  }
  for (const session of open) session.destroy();
  for (const { server } of [plain, tls]) server.close();
});

test('a change by a version that tells edges nothing is told by this one', { skip: elsewhere, timeout: 280000 }, async () => {
  const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8' }).trim();
  const one = (await make('http_response', { body: 'one' })).id, two = (await make('http_response', { body: 'two' })).id;
  const to = await failover(one, two);
  assert.equal((await through(to.host)).body, 'one');
  sql(`UPDATE routes.failover_backend SET backends = '["${two}", "${one}"]' WHERE id = '${to.backend.id}'`);
  await until(async () => (await through(to.host)).body === 'two', 'it is found', 120000);
  assert.equal(sql(`SELECT published = backends FROM routes.failover_backend WHERE id = '${to.backend.id}'`), 't');
});

test('no failover backend is another\'s member', async () => {
  const { backend } = await failover(await at(up.address));
  for (const [kind, backends] of [['failover', [backend.id]], ['weighted', { [backend.id]: 1 }]])
    assert.equal((await api('POST', `/backends/${kind}`, { backends })).body.error_code, 'ERR_POSTERN_189', kind);
  assert.equal((await client().backends.failoverBackends.get(backend.id)).id, backend.id);
});

// ---- shares ----

test('shares are exact, over all workers together, and so they are after each change', { timeout: 280000 }, async () => {
  const ids = [];
  for (const body of ['a', 'b', 'c', 'd']) ids.push((await make('http_response', { body })).id);
  const to = await endpoint(await make('weighted', { backends: { [ids[0]]: 1 } }));
  const workers = async () => [...(await metrics()).matchAll(/^postern_edge_requests_total\{worker="\d+"\} (\d+)/gm)].map((one) => Number(one[1]));
  const before = elsewhere ? [] : await workers();
  for (const weights of [[1, 1], [5, 3, 2], [10000, 1, 1, 1], [1, 2, 4, 8], [0, 7, 0, 1]]) {
    await must('PATCH', `/backends/weighted/${to.backend.id}`, { backends: Object.fromEntries(weights.map((weight, i) => [ids[i], weight])) });
    const counts = { a: 0, b: 0, c: 0, d: 0 }, sum = weights.reduce((a, b) => a + b), N = 120;
    const off = (n) => Math.max(...weights.map((weight, i) => Math.abs(counts['abcd'[i]] - weight / sum * n)));
    for (let n = 1; n <= N / 2; n++) {
      counts[(await through(to.host)).body]++;
      assert.ok(off(n) <= weights.length, `${JSON.stringify(counts)} of ${n} by ${weights}`);
    }
    await Promise.all(Array.from({ length: N / 2 }, async () => { counts[(await through(to.host)).body]++; }));
    assert.ok(off(N) <= weights.length, `${JSON.stringify(counts)} of ${N} by ${weights}`);
  }
  if (!elsewhere) assert.ok((await workers()).every((n, i) => n > before[i]), 'each worker had some');
});

test('the share of a member that is not there answers 503, and the others keep theirs', { skip: elsewhere }, async () => {
  const one = await make('http_response', { body: 'one' }), group = await make('tunnel_group', { labels: { app: 'x' } });
  const to = await endpoint(await make('weighted', { backends: { [one.id]: 3, [group.id]: 1 } }));
  const got = [];
  for (let i = 0; i < 40; i++) got.push(await through(to.host));
  assert.deepEqual([got.filter(({ body }) => body === 'one').length, got.filter((each) => code(each) === 'ERR_POSTERN_903').length], [30, 10]);
});

// ---- load ----

// An upstream in a process of its own, which can be killed.
async function process_(name) {
  const child = spawn(process.execPath, ['-e', `const server = require('http').createServer((q, s) => { q.resume(); q.on('end', () => setTimeout(() => s.end('${name}'), 3)); });
    server.keepAliveTimeout = 60000; server.listen(0, '${HOST}', () => console.log(server.address().port));`], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await new Promise((resolve) => child.stdout.once('data', (text) => resolve(Number(text))));
  const gone = new Promise((resolve) => child.on('exit', resolve));
  return { address: `${HOST}:${port}`, kill: async () => { child.kill('SIGKILL'); await gone; } };
}

test('an upstream that is killed under load takes none along but the requests that it has', { skip: elsewhere, timeout: 280000 }, async () => {
  const first = await process_('first'), second = await process_('second');
  const to = await failover(await at(first.address), await at(second.address));
  const agent = new https.Agent({ keepAlive: true, maxSockets: 16, servername: to.host });
  const begun = [], results = [];
  let dead = Infinity, stop = false;
  const clients = Array.from({ length: 16 }, async (_, i) => {
    while (!stop) {
      const number = begun.length, method = (i + number) % 3 ? 'GET' : 'POST';
      begun.push(method);
      const got = await through(to.host, '/', { agent, method, body: method === 'POST' ? 'body' : undefined }).catch((error) => ({ status: 0, body: error.message }));
      results.push({ number, method, status: got.status, body: got.body, late: number >= dead });
    }
  });
  await until(() => results.length > 300, 'load', 120000);
  assert.ok(results.every(({ status, body }) => status === 200 && body === 'first'));
  await first.kill();
  dead = begun.length;   // all that begin from here on find it dead
  const had = results.length;
  await until(() => results.length > had + 300, 'load goes on', 120000);
  stop = true;
  await Promise.all(clients);
  const failed = results.filter(({ status }) => status !== 200);
  assert.deepEqual(failed.filter(({ late }) => late), [], 'nothing that came later fails');
  assert.ok(failed.length <= 32, `${failed.length} failed`);   // what a client had there, and what it sent while the kernel was closing the connections
  assert.ok(results.filter(({ late }) => late).every(({ body }) => body === 'second'));
  agent.destroy();
  await second.kill();
});

test('afterwards', async () => { for (const one of [up, secure, silent]) await one?.close(); });
