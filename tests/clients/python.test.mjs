// The Python client as it is published, of several ages, side by side; where it cannot be installed the story is skipped and says
// why.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { env } from '../support/postern.mjs';
import { account } from '../support/account.mjs';
import { spawned } from './driver.mjs';
import { story } from './every.mjs';

const here = path.dirname(fileURLToPath(import.meta.url)), place = process.env.CLIENTS_DIR || path.resolve(here, '../../build/clients');
const run = (program, args) => execFileSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: 120000 });

// A folder with the client and what it needs; a text says why there is none.
function install(version) {
  const pip = `${place}/python/bin/pip`, dir = `${place}/python-${version}`;
  try {
    if (fs.existsSync(dir)) return { dir };
    if (!fs.existsSync(pip)) run('python3', ['-m', 'venv', '--clear', `${place}/python`]);
    fs.rmSync(`${dir}.part`, { recursive: true, force: true });
    run(pip, ['install', '--quiet', '--disable-pip-version-check', '--retries', '1', '--timeout', '15', '--target', `${dir}.part`, `ngrok-api==${version}`]);
    fs.renameSync(`${dir}.part`, dir);
    return { dir };
  } catch (error) {
    return { why: `the Python client ${version} cannot be installed: ${String(error.stderr || error.message).trim().split('\n').at(-1).slice(0, 200)}` };
  }
}

describe('every method of the Python client', { concurrency: 3 }, () => {
  for (const version of (process.env.CLIENTS_PYTHON ?? '0.8.0 0.12.0 0.19.0').split(' '))
    it(version, { timeout: 600000 }, async (t) => {
      const { dir, why } = install(version);
      if (why) { t.skip(why); return; }
      const driver = await spawned(`${place}/python/bin/python`, [path.join(here, 'driver.py'), env.POSTERN_API_URL], { POSTERN_API_KEY: account('of the Python client').token, PYTHONPATH: dir, PYTHONDONTWRITEBYTECODE: '1' });
      // times are of a type that it cannot send
      await story(`Python ${version}`, { ...driver, times: false });
    });
});
