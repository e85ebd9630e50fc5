// Starts further copies of the running system's services, with the same settings, as processes of the story's own.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { env } from './postern.mjs';

export const settingsOf = (name) => {
  const pid = fs.readFileSync(`${env.POSTERN_RUN_DIR}/${name}.pid`, 'utf8').trim();
  return {
    program: fs.readlinkSync(`/proc/${pid}/exe`),
    vars: Object.fromEntries(fs.readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter((row) => row.includes('=')).map((row) => [row.slice(0, row.indexOf('=')), row.slice(row.indexOf('=') + 1)])),
  };
};

// {pid, stop(), kill(signal)}; start() begins it again under the same settings after a kill. It ends with the story, however that ends:
// it would go on with the database of the next system in this place.
let count = 0;
export function another(name, changed) {
  const { program, vars } = settingsOf(name);
  const self = { pid: 0, child: null };
  const log = `${env.POSTERN_RUN_DIR}/another-${process.pid}-${count++}.log`; // the one in vars is taken, and would be taken away
  process.on('exit', () => fs.rmSync(log, { force: true }));
  self.start = () => {
    self.child = spawn('setpriv', ['--pdeathsig', 'KILL', program], { env: { ...vars, POSTERN_HEALTH_PORT: '0', POSTERN_CONFIG_LOG: `ipc://${log}`, ...changed }, stdio: 'ignore' });
    self.pid = self.child.pid;
  };
  self.kill = (signal) => process.kill(self.pid, signal);
  self.stop = () => new Promise((resolve) => {
    if (self.child.exitCode !== null || self.child.signalCode) return resolve();
    self.child.on('exit', resolve);
    self.child.kill('SIGKILL');
  });
  self.start();
  return self;
}

// The API at another gateway's port: like api() of postern.mjs, on keep-alive connections; and its metrics, at its health port.
export function apiAt(port, health) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  const ask = (method, target, body, headers = {}) => new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const request = http.request({
      host: '127.0.0.1', port, method, path: target, agent,
      headers: {
        Authorization: `Bearer ${env.POSTERN_API_KEY}`, 'Service-Version': '2',
        ...(text === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }), ...headers,
      },
    }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        const raw = Buffer.concat(parts).toString();
        let parsed = raw;
        try { parsed = JSON.parse(raw); } catch { /* not JSON: as it is */ }
        resolve({ status: response.statusCode, headers: response.headers, body: parsed, raw });
      });
    });
    request.on('error', reject);
    request.end(text);
  });
  // A gateway's metric; rows of several labels together.
  const metric = async (name) => [...(await fetch(`http://127.0.0.1:${health}/metrics`).then((got) => got.text())).matchAll(new RegExp(`^postern_gateway_${name}(?:\\{[^}]*\\})? (\\d+)`, 'gm'))].reduce((sum, row) => sum + Number(row[1]), 0);
  return { ask, metric, close: () => agent.destroy() };
}
