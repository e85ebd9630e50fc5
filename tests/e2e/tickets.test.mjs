// Session tickets: what a client got from one worker every worker of the edge takes, over restarts, too, until its key is gone. Time
// is set: when the file of the keys was written is when they began.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import tls from 'node:tls';
import { ca, edge, elsewhere, endpoint, env, home, must, unique, until as within } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const file = `${home}/edge/ticket.keys`;
const options = { skip: elsewhere, timeout: 300000 };
const PERIOD_S = 12 * 3600, KEYS = 4, CONNECTIONS = 20;
const versions = ['TLSv1.2', 'TLSv1.3'];
const to = await endpoint({ body: 'x' });
const until = (check, what, limit = 60000) => within(check, what, limit); // a check is forty handshakes

// One connection with one request: was its session resumed, and what it got for the next.
const connect = (version, { host = to.host, session } = {}) => new Promise((resolve, reject) => {
  let next, text = '';
  const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca, session, minVersion: version, maxVersion: version });
  socket.on('session', (data) => { next = data; });
  socket.on('secureConnect', () => socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`));
  socket.on('data', (part) => { text += part; });
  socket.on('error', reject);
  let got;
  socket.on('end', () => { // TLS 1.2 has no event where it resumes
    got = { reused: socket.isSessionReused(), ticket: socket.getTLSTicket(), session: next ?? socket.getSession() };
  });
  socket.on('close', () => resolve({ ...got, key: got?.ticket?.subarray(0, 16).toString('hex'), text }));
});
// As many as come to every worker.
const many = (version, session) => Promise.all(Array.from({ length: CONNECTIONS }, () => connect(version, { session }))).then((got) => {
  for (const { text } of got) assert.match(text, /^HTTP\/1.1 200 /);
  return got;
});
const every = (version, session) => many(version, session).then((got) => got.every(({ reused }) => reused));
const none = (version, session) => many(version, session).then((got) => !got.some(({ reused }) => reused));

const content = () => { try { return fs.readFileSync(file).toString('hex'); } catch { return ''; } };
const size = fs.existsSync(file) ? fs.statSync(file).size : 0;
async function age(periods) {
  const before = content(), at = Date.now() / 1000 - periods * PERIOD_S - 60;
  fs.utimesSync(file, at, at);
  await until(() => content() !== before, `keys of ${periods} periods ago are changed`);
}

const pidOf = (name) => { try { return Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8')); } catch { return 0; } };
const status = (what) => fetch(`http://127.0.0.1:${edge.port - 28}/${what}`).then((answer) => answer.text()).catch(() => '');
const served = async () => [...(await status('metrics')).matchAll(/^postern_edge_requests_total\{worker="\d+"\} (\d+)/gm)].map((m) => Number(m[1]));

for (const version of versions) {
  test(`${version}: a session is resumed at every worker, and over the death of the whole edge`, options, async () => {
    const { session, reused } = await connect(version);
    assert.equal(reused, false);
    const before = await served();
    assert.ok(before.length >= 2);
    await until(async () => {
      assert.ok(await every(version, session));
      return (await served()).every((count, i) => count > before[i]);
    }, 'each worker has resumed it');
    const master = pidOf('edge');
    process.kill(-master, 'SIGKILL');
    await until(() => ![0, master].includes(pidOf('edge')) && children(pidOf('edge')).length >= 2, 'a new edge');
    await until(async () => (await status('readyz')).startsWith('ready'), 'it is ready');
    assert.ok(await every(version, session), 'from the first connection on');
  });

  test(`${version}: a session is resumed over two changes of the keys, and not over three`, options, async () => {
    const { session, key } = await connect(version);
    for (let change = 1; change <= 2; change++) {
      await age(1);
      for (let i = 0; i < 3; i++) assert.ok(await every(version, session), `after ${change} changes`);
    }
    const renewed = await until(async () => { // with the same key at every worker
      const got = await many(version, session);
      assert.ok(got.every(({ reused }) => reused));
      return got[0].key !== key && got.every((one) => one.key === got[0].key) && got[0];
    }, 'the client gets another ticket');
    await age(1);
    await until(() => none(version, session), 'every worker has heard that the key is gone');
    assert.ok(await every(version, renewed.session));
  });

  test(`${version}: no connection notices that the keys change`, options, async () => {
    let { session, key } = await connect(version);
    const old = key, changing = age(1);
    for (let changed = 0; changed < CONNECTIONS;) { // with what any worker gave it to any other
      const got = await connect(version, { session });
      assert.equal(got.reused, true);
      session = got.session;
      changed = got.key === old ? 0 : changed + 1;
    }
    await changing;
  });

  test(`${version}: keys of long ago, and of a time that is to come, are none`, options, async () => {
    for (const periods of [KEYS, -KEYS - 1]) {
      const { session } = await connect(version);
      await age(periods);
      await until(() => none(version, session), `none of ${periods} periods ago is left`);
      assert.ok(await until(async () => every(version, (await connect(version)).session), 'sessions are resumed again'));
    }
  });
}

// What is no file of keys: there are new ones at once. In one step each: the edge may look in between.
const overwrite = (bytes, at) => { const to = fs.openSync(file, 'r+'); try { fs.writeSync(to, bytes, 0, bytes.length, at); } finally { fs.closeSync(to); } };
const harms = {
  removed: () => fs.rmSync(file),
  emptied: () => fs.truncateSync(file, 0),
  cut: () => fs.truncateSync(file, size - 1),
  'written behind its end': () => fs.appendFileSync(file, 'x'),
  'changed in one bit': () => overwrite(Buffer.of(fs.readFileSync(file)[size - 20] ^ 1), size - 20),
  "somebody else's bytes": () => overwrite(Buffer.alloc(size, 7), 0),
};
test('a file of keys that was harmed is made anew: handshakes go on in full, and new sessions are resumed', options, async () => {
  const log = `${env.POSTERN_LOG_DIR}/edge.log`;
  for (const [how, harm] of Object.entries(harms)) {
    const old = await Promise.all(versions.map((version) => connect(version))), from = fs.statSync(log).size;
    harm();
    const harmed = content();
    await until(() => content() !== harmed && content().length === 2 * size, `a new file where it was ${how}`);
    await Promise.all(versions.map(async (version, i) => {
      await until(() => none(version, old[i].session), `no older session where it was ${how}`);
      assert.ok(await every(version, (await connect(version)).session));
    }));
    if (!/removed|emptied/.test(how)) await until(() => /ticket.keys" is torn, or sealed with another key/.test(fs.readFileSync(log).subarray(from).toString()), `the log says that it was ${how}`);
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  }
});

// What cannot be trusted with keys. Each is taken away again by what it returns. Where no file is the edge makes one, at any moment.
const put = (make) => { make(`${file}.put`); fs.renameSync(`${file}.put`, file); };
const folder = () => { for (;;) try { fs.rmSync(file, { force: true }); return fs.mkdirSync(file); } catch (error) { if (error.code !== 'EEXIST') throw error; } };
const traps = {
  'others may read it': () => { fs.chmodSync(file, 0o644); return () => fs.chmodSync(file, 0o600); },
  'it has a second name': () => { fs.linkSync(file, `${file}.other`); return () => fs.rmSync(`${file}.other`); },
  'it is a link': () => { fs.renameSync(file, `${file}.other`); put((at) => fs.symlinkSync(`${file}.other`, at)); return () => fs.renameSync(`${file}.other`, file); },
  'it is a folder': () => { folder(); return () => fs.rmdirSync(file); },
  'it is a pipe': () => { put((at) => execFileSync('mkfifo', ['-m', '600', at])); return () => fs.rmSync(file); },
  ...(process.getuid() === 0 ? { "it is root's": () => { const { uid, gid } = fs.statSync(file); fs.chownSync(file, uid ? 0 : 65534, 0); return () => fs.chownSync(file, uid, gid); } } : {}),
};
test('where the file is no safe place for keys there are no tickets, and handshakes go on', options, async () => {
  const ticketless = (version) => many(version).then((got) => got.every(({ ticket }) => !ticket?.length));
  for (const [how, lay] of Object.entries(traps)) {
    const old = await Promise.all(versions.map((version) => connect(version)));
    const before = content(), clear = lay();
    try {
      await Promise.all(versions.map(async (version, i) => {
        await until(() => ticketless(version), `no tickets where ${how}`);
        assert.ok(await none(version, old[i].session), how);
      }));
      if (/name|link|read/.test(how)) assert.equal(content(), before, `nothing is written where ${how}`);
    } finally {
      clear();
    }
    await Promise.all(versions.map((version) => until(async () => every(version, (await connect(version)).session), `sessions are resumed again after ${how}`)));
  }
});

for (const version of versions)
  test(`${version}: a session of a reserved domain without an edge is resumed nowhere else`, options, async () => {
    const [one, other] = [unique('one'), unique('other')];
    for (const domain of [one, other]) await must('POST', '/reserved_domains', { domain });
    const { session, text } = await connect(version, { host: one });
    assert.match(text, /^HTTP\/1.1 404 /);
    assert.equal((await connect(version, { host: one, session })).reused, true);
    for (const host of [other, to.host, ...(env.POSTERN_API_TLS_URL ? [new URL(env.POSTERN_API_TLS_URL).hostname] : [])])
      assert.equal((await connect(version, { host, session })).reused, false, host);
  });
