// The Go client as Go's modules have it: the versions that CLIENTS_GO names, else the newest that is to be had and that this Go
// builds. Where there is none the story is skipped and says why.
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { env } from '../support/postern.mjs';
import { account } from '../support/account.mjs';
import { spawned } from './driver.mjs';
import { story } from './every.mjs';
import { install } from './go.mjs';

const versions = process.env.CLIENTS_GO ? process.env.CLIENTS_GO.split(' ').map((version) => [version]) : [['v9.0.0', 'v7.8.0', 'v5.4.1']];

// The first of them that can be had.
function first(choice) {
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' });
  } catch {
    return { why: 'there is no go here' };
  }
  const whys = [];
  for (const version of choice) {
    const { program, why } = install(version);
    if (program) return { program, version };
    whys.push(why);
  }
  return { why: whys.join('; ') };
}

for (const choice of versions)
  test(`every method of the Go client ${choice.join(', or else ')}`, { timeout: 900000 }, async (t) => {
    const { program, version, why } = first(choice);
    if (why) { t.skip(why); return; }
    const driver = await spawned(program, [env.POSTERN_API_URL], { POSTERN_API_KEY: account('of the Go client').token });
    // an empty list or object is not sent; v4 is older than one of the targets
    await story(`Go ${version}`, { ...driver, empties: false, datadog: !version.startsWith('v4') });
  });
