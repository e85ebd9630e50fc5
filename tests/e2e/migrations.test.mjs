// A service whose migration fails says which one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { settingsOf } from '../support/copies.mjs';
import { ownEvents } from '../support/events.mjs';
import { env } from '../support/postern.mjs';

const skip = env.POSTERN_RUN_DIR ? false : 'the story needs a system that deploy/stack started on this machine';
const own = ownEvents(`migrations${process.pid}`);

test.before(() => skip || own.setUp());
test.after(() => skip || own.tearDown());

test('a migration that fails is named, with its schema', { skip, timeout: 280000 }, () => {
  own.sql(`SET ROLE ${own.mark}_events; CREATE TABLE events.log (something text)`); // its place is taken
  const { program, vars } = settingsOf('events');
  const { status, stdout, stderr } = spawnSync(program, { encoding: 'utf8', timeout: 120000,
    env: { ...vars, POSTERN_HEALTH_PORT: '0', POSTERN_DATABASE_URL: own.url('events'), POSTERN_RPC: own.socket('rpc'), POSTERN_PUB: own.socket('pub'), POSTERN_INTAKE: own.socket('in') } });
  assert.notEqual(status, 0);
  assert.match(stdout + stderr, /migration events\/0001_events of schema \S*events: SQL failed, SQLSTATE 42P07/);
});
