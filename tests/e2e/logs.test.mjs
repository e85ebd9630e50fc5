// Logs stay as small as the settings say, and lose no line on the way.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { env, home, until } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const rotate = (dir, bytes, old) => spawnSync(path.join(home, 'bin/postern'), ['rotate-logs', dir, String(bytes), String(old)], { encoding: 'utf8' });
const folder = (name) => { const dir = path.join(home, `story-${name}-${process.pid}`); fs.mkdirSync(dir); return dir; };
const sizes = (dir) => Object.fromEntries(fs.readdirSync(dir).sort().map((name) => [name, fs.statSync(path.join(dir, name)).size]));

test('a writer that only appends loses no line and has none twice', { skip, timeout: 280000 }, async () => {
  const dir = folder('lines'), log = path.join(dir, 'busy.log');
  // it goes on until there were some rotations, however long each takes
  const writer = spawn('bash', ['-c', 'i=0; while [ $i -lt 60000 ] || [ ! -e "$0.enough" ]; do i=$((i + 1)); echo "line $i of a service that has much to say"; done >>"$0"; echo $i', log]);
  let ended = false, said = '';
  writer.stdout.on('data', (part) => { said += part; });
  writer.on('close', () => { ended = true; });
  let rounds = 0;
  await until(() => fs.existsSync(log), 'a log');
  while (!ended) { assert.equal(rotate(dir, 20000, 1000).stderr, ''); if (++rounds === 10) fs.writeFileSync(`${log}.enough`, ''); await new Promise((resolve) => setTimeout(resolve, 1)); }
  const names = fs.readdirSync(dir).filter((name) => /^busy\.log\.\d+$/.test(name)).sort((a, b) => Number(b.slice(9)) - Number(a.slice(9)));
  const all = [...names, 'busy.log'].map((name) => fs.readFileSync(path.join(dir, name), 'utf8')).join('').trimEnd().split('\n');
  const lines = Number(said);
  assert.ok(lines >= 60000, said);
  assert.equal(all.length, lines);
  all.forEach((line, i) => assert.equal(line, `line ${i + 1} of a service that has much to say`));
  assert.ok(names.length > 5, `${names.length} files`);
  fs.rmSync(dir, { recursive: true });
});

test('as many old logs as are asked for stay, and nothing else is touched', { skip }, () => {
  const dir = folder('old'), write = (name, text) => fs.appendFileSync(path.join(dir, name), text);
  const outside = path.join(home, `story-outside-${process.pid}`);
  fs.writeFileSync(outside, 'x'.repeat(50000));
  fs.symlinkSync(outside, path.join(dir, 'link.log'));
  write('small.log', 'x'.repeat(9000));
  write('other.txt', 'x'.repeat(50000));
  for (let i = 0; i < 6; i++) {
    write('big.log', String(i).repeat(20000));
    const { status, stderr } = rotate(dir, 10000, 3);
    assert.equal(status, 1, 'a link is no log');
    assert.match(stderr, /^error: cannot rotate .*link\.log: /);
  }
  const now = sizes(dir);
  assert.deepEqual(Object.keys(now), ['big.log', 'big.log.1', 'big.log.2', 'big.log.3', 'link.log', 'other.txt', 'small.log']);
  assert.ok(now['big.log'] <= 10000);
  assert.match(fs.readFileSync(path.join(dir, 'big.log.1'), 'utf8'), /^4*5+$/);
  assert.equal(fs.statSync(outside).size, 50000);
  assert.equal(now['small.log'], 9000);
  fs.rmSync(dir, { recursive: true });
  fs.rmSync(outside);
});

test('logs of the running system are rotated', { skip, timeout: 280000 }, async () => {
  const log = path.join(home, 'log/demo.log'), first = `${log}.1`;
  const before = fs.existsSync(first) ? fs.statSync(first).ino : 0;
  fs.appendFileSync(log, `${'a line of a story\n'.repeat(1000000)}`);
  await until(() => fs.statSync(log).size < 16 << 20, 'a small log', 120000);
  assert.notEqual(fs.statSync(first).ino, before);
  assert.ok(fs.statSync(first).size > 16 << 20);
});
