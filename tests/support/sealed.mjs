// What postern-routes seals for postern-identity and edges carry: under the master key of the running system (seal.c).
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { home } from './postern.mjs';

let program;
function built() {
  if (!program) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-seal-'));
    program = path.join(dir, 'seal');
    execFileSync('cc', ['-O1', fileURLToPath(new URL('seal.c', import.meta.url)), '-o', program, '-lsodium'], { stdio: 'inherit' });
    process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));
  }
  return program;
}

export const seal = (value, key = path.join(home, 'master.key')) =>
  execFileSync(built(), [key, 'module of a sign-in'], { input: typeof value === 'string' ? value : JSON.stringify(value), encoding: 'utf8' }).trim();
