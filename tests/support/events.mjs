// An event service and the outbox of a service of the story's own, with a database of their own, beside the system that runs.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { another } from './copies.mjs';
import { edge, env, tail, until } from './postern.mjs';

const PASSWORD = 'of-the-stories-alone';

// A session that stays open: what it locks is locked until it says otherwise.
export function session(url) {
  const child = spawn('psql', [url, '-XAtq'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let out = '', asked = 0;
  child.stdout.setEncoding('utf8').on('data', (part) => { out += part; });
  const start = (text) => child.stdin.write(`${text}\n`);
  const say = async (text) => {
    const end = `done ${++asked}`;
    start(`${text}\n\\echo ${end}`);
    await until(() => out.includes(end), text);
  };
  return { say, start, end: () => child.stdin.end() };
}

// mark: a unique name. Nothing runs before setUp(), nothing is left after tearDown().
export function ownEvents(mark) {
  const run = env.POSTERN_RUN_DIR, health = edge.port + 30, running = [];
  const socket = (name) => `ipc://${run}/${mark}.${name}`;
  const own = env.DATABASE_URL?.replace(/\/[^/?]*(\?.*)?$/, `/${mark}$1`);
  const as = (service) => own?.replace(/\/\/[^@]*@/, `//${mark}_${service}:${PASSWORD}@`);
  const vars = { POSTERN_EVENTS: socket('in'), POSTERN_INTAKE: socket('in'), POSTERN_EVENTS_RPC: socket('rpc') };
  const self = { made: 0, mark, socket, other: health + 1 }; // other: the port where the outbox's service says how it is

  self.url = as;
  self.sql = (text, url = own) => execFileSync('psql', [url, '-Atqc', text], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  self.outbox = () => Number(self.sql('SELECT count(*) FROM identity.outbox'));
  self.logged = () => Number(self.sql('SELECT count(*) FROM events.log'));
  self.metrics = () => fetch(`http://127.0.0.1:${health}/metrics`).then((got) => got.text()).catch(() => '');
  self.metric = async (name) => Number(new RegExp(`^postern_events_${name} (\\d+)`, 'm').exec(await self.metrics())?.[1] ?? -1);
  self.ready = () => fetch(`http://127.0.0.1:${health}/readyz`).then((got) => got.status).catch(() => 0);
  self.begin = (one) => { running.push(one); return one; };
  self.events = (more = {}) => another('events', { ...vars, POSTERN_DATABASE_URL: as('events'), POSTERN_RPC: socket('rpc'), POSTERN_PUB: socket('pub'), POSTERN_HEALTH_PORT: String(health), ...more });
  self.identity = (name, more = {}) => another('identity', { ...vars, POSTERN_DATABASE_URL: as('identity'), POSTERN_RPC: socket(name), POSTERN_HEALTH_PORT: String(health + 1), ...more });
  self.watch = () => tail('', { POSTERN_EVENTS_URL: socket('pub'), POSTERN_EVENTS_RPC: socket('rpc') });
  // Events of 2 KB each, as a service leaves them with its changes.
  self.emit = (count) => {
    self.sql(`INSERT INTO identity.outbox (event) SELECT jsonb_build_object('event_id', 'ev_' || lpad((${self.made} + i)::text, 27, '0'), 'event_type', 'vault_created.v0',
      'event_timestamp', '2026-01-01T00:00:00Z', 'account_id', 'ac_1', 'principal', null, 'object', jsonb_build_object('id', repeat('x', 2000))) FROM generate_series(1, ${count}) i; NOTIFY identity_outbox`);
    self.made += count;
  };
  self.session = () => session(own);
  self.waiting = () => Number(self.sql(`SELECT count(*) FROM pg_stat_activity WHERE datname = '${mark}' AND wait_event_type = 'Lock'`));
  self.setUp = () => {
    self.sql(`CREATE DATABASE ${mark}`, env.DATABASE_URL);
    execFileSync('psql', ['-Xf', fileURLToPath(new URL('../../deploy/database.sql', import.meta.url)), own],
      { env: { ...process.env, POSTERN_ROUTES_PASSWORD: PASSWORD, POSTERN_IDENTITY_PASSWORD: PASSWORD, POSTERN_EVENTS_PASSWORD: PASSWORD }, stdio: 'pipe' });
  };
  self.tearDown = async () => {
    for (const one of running.reverse()) await one.stop();
    self.sql(`DROP DATABASE IF EXISTS ${mark} WITH (FORCE)`, env.DATABASE_URL);
    for (const service of ['routes', 'identity', 'events']) self.sql(`DROP ROLE IF EXISTS ${mark}_${service}`, env.DATABASE_URL);
    for (const name of fs.readdirSync(run)) if (name.startsWith(`${mark}.`)) fs.rmSync(`${run}/${name}`, { force: true });
  };
  return self;
}
