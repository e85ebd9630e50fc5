// What the edge finds in one turn of its event loop.
import fs from 'node:fs';
import { workers } from '../model/workers.mjs';
import { until } from './postern.mjs';

// All that these do, one after the other, comes while the edge's workers stand still: they have it in one turn, in this order.
export async function inOneTurn(...acts) {
  const stopped = workers();
  stopped.forEach((pid) => process.kill(pid, 'SIGSTOP'));
  try {
    await until(() => stopped.every((pid) => / \(.*\) T /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'))), 'they stand still');
    for (const act of acts) await act();
  } finally {
    stopped.forEach((pid) => process.kill(pid, 'SIGCONT'));
  }
}
