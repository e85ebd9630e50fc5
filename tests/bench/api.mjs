// The latency of API changes, with edges that acknowledge and without, next to a bare single-row commit on the same
// PostgreSQL: node api.mjs [changes]. Prints figures; asserts nothing.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { api, env, must } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';

const count = Number(process.argv[2] || 1000);
const pidOf = (name) => Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8'));
const at = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
const show = (what, clients, times, s) => {
  times.sort((a, b) => a - b);
  console.log(`${what.padEnd(34)} ${String(clients).padStart(2)} clients  p50 ${at(times, 0.5).toFixed(2)} ms  p99 ${at(times, 0.99).toFixed(2)} ms  ${(times.length / s).toFixed(0)}/s`);
};

async function changes(what, clients, edges) {
  const backends = await Promise.all(Array.from({ length: clients }, () => must('POST', '/backends/http_response', { body: 'x' })));
  const times = [];
  let left = count, wrong = 0;
  const start = performance.now();
  await Promise.all(backends.map(async ({ id }) => {
    while (left-- > 0) {
      const one = performance.now();
      const answer = await api('PATCH', `/backends/http_response/${id}`, { body: `x${left}` });
      times.push(performance.now() - one);
      if (!edges(answer.headers['postern-edges'])) wrong++;
    }
  }));
  show(what, clients, times, (performance.now() - start) / 1000);
  if (wrong) console.log(`  ${wrong} answers came with another number of edges`);
}

function commits(clients) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-bench-'));
  const bin = `/usr/lib/postgresql/${fs.readdirSync('/usr/lib/postgresql').sort().pop()}/bin/pgbench`;
  const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qc', text]);
  sql('CREATE TABLE IF NOT EXISTS public.bench_row (id int PRIMARY KEY, n int); INSERT INTO public.bench_row SELECT i, 0 FROM generate_series(0, 63) i ON CONFLICT DO NOTHING');
  fs.writeFileSync(`${dir}/one.sql`, 'UPDATE public.bench_row SET n = n + 1 WHERE id = :client_id;\n');
  const start = performance.now();
  execFileSync(bin, ['-n', '-M', 'prepared', '-c', clients, '-t', Math.ceil(count / clients), '-f', `${dir}/one.sql`, '-l', `--log-prefix=${dir}/log`, env.DATABASE_URL], { stdio: 'ignore' });
  const s = (performance.now() - start) / 1000;
  const times = fs.readdirSync(dir).filter((name) => name.startsWith('log')).flatMap((name) => fs.readFileSync(`${dir}/${name}`, 'utf8').trim().split('\n').map((row) => Number(row.split(' ')[2]) / 1000));
  show('bare single-row commit', clients, times, s);
  sql('DROP TABLE public.bench_row');
  fs.rmSync(dir, { recursive: true });
}

for (const clients of [1, 8]) {
  commits(clients);
  await changes('API change, edges acknowledge', clients, (edges) => edges && !edges.startsWith('0/'));
  // stopped, not killed: the supervisor would start it again
  const stopped = children(pidOf('edge'));
  for (const pid of stopped) process.kill(pid, 'SIGSTOP');
  try {
    while ((await api('POST', '/backends/http_response', { body: 'x' })).headers['postern-edges'] !== '0/0') await new Promise((resolve) => setTimeout(resolve, 200));
    await changes('API change, no edge', clients, (edges) => edges === '0/0');
  } finally {
    for (const pid of stopped) process.kill(pid, 'SIGCONT');
  }
}
process.exit(0);
