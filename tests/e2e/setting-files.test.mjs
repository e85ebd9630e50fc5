// A setting that names a file which cannot be read, or has nothing of its kind.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { notStarted, own } from '../support/own.mjs';
import { env } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';

test('a file that a setting names is judged at the start, and refused with the setting', { skip, timeout: 300000 }, () => own(async ({ folder, ...stack }) => {
  fs.writeFileSync(`${folder}/empty`, '');
  for (const file of ['absent', 'empty'].map((name) => path.join(folder, name))) {
    const upstream = stack.run('up', { settings: { POSTERN_UPSTREAM_CA: file } });
    assert.equal(upstream.status, 1, upstream.stderr);
    assert.ok(upstream.stderr.startsWith(`error: POSTERN_UPSTREAM_CA: '${file}' `), upstream.stderr);
  }
  const { status, stderr } = stack.run('up', { settings: { POSTERN_OUT_CA: `${folder}/empty` } });
  assert.equal(status, 1, stderr);
  assert.ok(stderr.includes(`POSTERN_OUT_CA (postern_out_ca): "${folder}/empty" holds no certificate in PEM form: `), stderr);
  assert.match(stderr, /\nerror: the edge does not load: nothing was started\n$/);
  notStarted(stack, { POSTERN_PLACE_CITIES: `${folder}/empty` }, 'identity', /POSTERN_PLACE_CITIES, POSTERN_PLACE_NETWORKS: '.*\/empty' is no MaxMind DB/);
  assert.deepEqual(stack.left(), []);
}));
