// A second stack beside the one that stories run against, in a folder and on ports of its own; removed when the story ends, and when the
// file's process ended before that by whoever runs the files (tests/support/stories), which finds it by its name in STORY_STACKS.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { edge } from './postern.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const base = edge.port - 43;

// story({folder, state, run, left}): run('up') is deploy/stack up for it; left() lists the processes that have its name.
export async function own(story, { made, also = {} } = {}) {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'postern-own-')));
  const noted = process.env.STORY_STACKS && path.join(process.env.STORY_STACKS, path.basename(folder));
  if (noted) fs.writeFileSync(noted, folder);
  fs.chmodSync(folder, 0o755);
  const state = path.join(folder, 'var');
  const run = (command, { settings = {}, cwd = root } = {}) => spawnSync(path.join(root, 'deploy/stack'), [command], {
    env: { ...process.env, POSTERN_HOME: state, POSTERN_PORT_BASE: String(base + 1000), ...also, ...settings }, cwd, encoding: 'utf8', timeout: 280000 }); // of what hangs: a start is given up after a minute, by itself
  const left = () => fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid).filter((pid) => {
    try { return fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`POSTERN_HOME=${state}\0`) && !/\) Z /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8')); } catch { return false; }
  });
  try {
    made?.(state);
    await story({ folder, state, run, left });
  } finally {
    run('wipe');
    fs.rmSync(folder, { recursive: true, force: true });
    if (noted) fs.rmSync(noted, { force: true });
  }
}

// up with these settings: the program of that name says so, and up has not waited for something to get ready that cannot.
export const notStarted = ({ run, left }, settings, name, said) => {
  const { status, signal, stderr } = run('up', { settings });
  assert.deepEqual([status, signal], [1, null], stderr);
  assert.match(stderr, said);
  assert.match(stderr, new RegExp(`\nerror: (${name}) does not start: its log is .*/var/log/\\1\\.log\n$`));
  assert.doesNotMatch(stderr, /not ready after a minute/);
  assert.deepEqual(left(), []);
};
