// The README's tour, and the edge's examples that go on from there, pasted as they stand there but for how long they wait.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { env, home } from '../support/postern.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const beside = 'the story needs a system that deploy/stack started on this machine';
const skip = env.POSTERN_RUN_DIR ? false : beside;

// As it stands in the README, but for the name, which can be reserved once, and for how long is waited for the tail to listen and to
// say what it heard: the README's one and five seconds are a reader's, and none that a busy machine keeps.
const tour = (name) => fs.readFileSync(path.join(root, 'README.md'), 'utf8').match(/## A tour\n[^]*?```sh\n([^]*?)```/)[1]
  .replace(/^timeout 5 (.* tail http_request_complete) &\nsleep 1; (curl .*\/seen); wait \$!$/m, `heard=$(mktemp); $1 >"$heard" & tail=$!
for i in $(seq 100); do sleep 1; $2; ! grep -q /seen "$heard" || break; done; kill $tail; wait $tail; cat "$heard"; rm -f "$heard"`)
  .replaceAll('tour.localhost', name);

// As root: in a shell of the services' user, as the README says.
const shell = process.getuid() ? ['bash'] : ['su', '-s', '/bin/bash', 'postern'];
function paste(name, cwd, settings, more = '') {
  assert.match(tour(name), /^heard=/m, 'what waits in it is as it was');
  const environment = { ...process.env, ...settings };
  for (const [key, value] of Object.entries(environment)) if (value === undefined) delete environment[key];
  const pasted = spawnSync(shell[0], shell.slice(1), { cwd, env: environment, input: tour(name) + more.replaceAll('tour.localhost', name), encoding: 'utf8', timeout: 300000 });
  assert.equal(pasted.stderr.replace(/.*Terminated.*\n/g, '').match(/No such file|not found/), null, pasted.stderr);
  assert.match(pasted.stdout, /HTTP\/2 200/);
  assert.match(pasted.stdout, /x-tour: yes/);
  assert.match(pasted.stdout, /hello from the edge/);
  assert.match(pasted.stdout, new RegExp(`"event_type":"http_request_complete.v0".*${name}`));
  return pasted.stdout;
}

// The example of a section of the edge's README, pasted behind the tour.
const example = (section) => fs.readFileSync(path.join(root, 'services/edge/README.md'), 'utf8').match(new RegExp(`\n## ${section}\n[^]*?\`\`\`sh\n([^]*?)\`\`\``))[1];
// What is asked while the breaker is open is asked within 30 s, where a reader has two.
const breakers = () => {
  const longer = example('Circuit breakers').replace('"tripped_duration":2}', '"tripped_duration":30}').replace('for pause in 0 0 0 3;', 'for pause in 0 0 0 31;');
  assert.match(longer, /"tripped_duration":30\}[^]*for pause in 0 0 0 31;/);
  return longer;
};
test("what the edge's README shows of user_agent_filter, circuit_breaker, webhook_verification and compression works in the shell of the tour", { skip }, () => {
  const said = paste(`tour-${process.pid}-modules.localhost`, root, { POSTERN_HOME: fs.realpathSync(home) }, example('User agents') + breakers() + example('Webhooks') + example('Compression'));
  assert.deepEqual([...said.matchAll(/^webhook (\d+)$/gm)].map(([, status]) => Number(status)), [200, 403]);
  const statuses = Object.fromEntries([...said.matchAll(/^(GoodBot\/1.0|BadBot\/1.0|curl\/8|Mozilla\/5.0) (\d+)$/gm)].map(([, agent, status]) => [agent, Number(status)]));
  assert.deepEqual(Object.keys(statuses).length, 4, said);
  assert.deepEqual([statuses['BadBot/1.0'], statuses['curl/8']], [403, 403]);
  for (const agent of ['GoodBot/1.0', 'Mozilla/5.0']) assert.notEqual(statuses[agent], 403, `${agent} goes on to the backend of the tour`);
  assert.deepEqual([...said.matchAll(/"error_code":"ERR_POSTERN_(904|923)"/g)].map(([, code]) => Number(code)).slice(-4), [904, 904, 923, 904]);
  const sizes = [...said.matchAll(/^(.+): (\d+) bytes$/gm)].map(([, , size]) => Number(size));
  assert.deepEqual([sizes.length, sizes[0], sizes.slice(1).every((size) => size > 10 && size < 100)], [7, 2000, true], said);
});

test("what the edge's README shows of header modules and weighted backends works in the shell of the tour", { skip }, () => {
  const said = paste(`tour-${process.pid}-headers.localhost`, root, { POSTERN_HOME: fs.realpathSync(home) }, example('Headers') + example('Backends that lead to others'));
  assert.match(said, /^x-frame-options: DENY\r?$[^]*"host":"app\.internal"/m);
  assert.match(said, /^ +10 one\n +30 three$/m);
});

test("the README's tour works when pasted: with POSTERN_HOME set", { skip }, () => {
  const state = fs.realpathSync(home); // as the services' user sees it
  paste(`tour-${process.pid}.localhost`, root, { POSTERN_HOME: state });
  paste(`tour-${process.pid}-relative.localhost`, path.dirname(state), { POSTERN_HOME: path.basename(state) });
});

test("the README's tour works when pasted: with var/ in the folder", { skip }, () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-tour-'));
  try {
    fs.chmodSync(folder, 0o755);
    fs.symlinkSync(fs.realpathSync(home), path.join(folder, 'var'));
    paste(`tour-${process.pid}-var.localhost`, folder, { POSTERN_HOME: undefined });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});
