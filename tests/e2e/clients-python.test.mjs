// The Python client as it is published, of three ages, in environments of its own. What it does stands in clients.py beside this
// file; where it cannot be installed the story is skipped and says why.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { env, unique } from '../support/postern.mjs';

const script = path.join(path.dirname(fileURLToPath(import.meta.url)), 'clients.py');

// The interpreter of an environment with the client in it; a text says why there is none.
function install(version) {
  const dir = fs.mkdtempSync(path.join(process.env.TMPDIR ?? '/tmp', 'postern-python-'));
  const run = (program, args) => execFileSync(program, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: 60000 });
  try {
    run('python3', ['-m', 'venv', dir]);
    run(`${dir}/bin/pip`, ['install', '--quiet', '--disable-pip-version-check', '--retries', '1', '--timeout', '15', `ngrok-api==${version}`]);
    return { dir };
  } catch (error) {
    fs.rmSync(dir, { recursive: true, force: true });
    return { why: `the Python client ${version} cannot be installed: ${String(error.stderr || error.message).trim().split('\n').at(-1).slice(0, 200)}` };
  }
}

for (const version of ['0.8.0', '0.12.0', '0.19.0'])
  test(`the Python client ${version}`, { timeout: 280000 }, (t) => {
    const { dir, why } = install(version);
    if (why) { t.skip(why); return; }
    try {
      const said = execFileSync(`${dir}/bin/python`, [script, env.POSTERN_API_URL, unique('python')], { env: { ...process.env, POSTERN_API_KEY: env.POSTERN_API_KEY }, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
      const { methods, calls } = JSON.parse(said);
      assert.ok(methods >= 120 && calls >= methods, said);
      console.log(`# ${version}: ${methods} methods, ${calls} calls`);
    } catch (error) {
      throw new Error(`${error.message}\n${error.stdout ?? ''}${error.stderr ?? ''}`, { cause: error });
    } finally {
      fs.rmSync(dir, { recursive: true, force: true });
    }
  });
