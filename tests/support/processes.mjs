// Processes of the system under test, as an operator would look for them.
import { execFileSync } from 'node:child_process';

// The children of a process, or of several: none where there is none at the moment, as between a worker's end and the next one's start.
export function children(pids) {
  const list = [pids].flat().filter(Boolean).join(',');
  if (!list) return [];
  try {
    return execFileSync('pgrep', ['-P', list], { encoding: 'utf8' }).trim().split('\n').map(Number);
  } catch (error) {
    if (error.status === 1) return []; // nothing found
    throw error;
  }
}
