// Requests to one worker of the edge and not to another: connections are the kernel's to hand out, so they are opened until
// each worker has one, and kept.
import fs from 'node:fs';
import https from 'node:https';
import tls from 'node:tls';
import { ca, edge, env } from '../support/postern.mjs';
import { children } from '../support/processes.mjs';
import { decoded, reachedBy } from './bodies.mjs';
import { headersOf } from './requests.mjs';

const read = (file) => { try { return fs.readFileSync(file, 'utf8'); } catch { return ''; } };
// 0 while there is none, as between an end and the next start
export const pidOf = (name) => Number(read(`${env.POSTERN_RUN_DIR}/${name}.pid`));
export const workers = () => (pidOf('edge') ? children(pidOf('edge')) : []).filter((pid) => /worker process(?! is shutting)/.test(read(`/proc/${pid}/cmdline`)));
export const helpers = () => workers().flatMap(children);

const hex = (port) => port.toString(16).toUpperCase().padStart(4, '0');

// The worker that has the other end of a connection from the local port.
function workerOf(port, pids) {
  const row = fs.readFileSync('/proc/net/tcp', 'utf8').split('\n').map((line) => line.trim().split(/\s+/))
    .find((cells) => cells[1]?.endsWith(`:${hex(edge.port)}`) && cells[2]?.endsWith(`:${hex(port)}`));
  if (!row) return undefined;
  const inode = `socket:[${row[9]}]`;
  return pids.find((pid) => {
    try { return fs.readdirSync(`/proc/${pid}/fd`).some((fd) => { try { return fs.readlinkSync(`/proc/${pid}/fd/${fd}`) === inode; } catch { return false; } }); } catch { return false; }
  });
}

// Whom the model's requests believe: the local authority, and the certificates that its tenants upload.
const trusted = [ca];
export const trust = (pem) => trusted.push(pem);

// One request (requests.mjs) on the agent's connection: {status, headers, body, coding, port}, of a WebSocket {status: 101, headers, reached,
// port}, or {refused: why}.
function request(agent, sent) {
  return new Promise((resolve) => {
    const { host, path, method, body } = sent;
    const one = https.request({ host: edge.host, port: edge.port, servername: host, ca: trusted, path, method, agent, headers: headersOf(sent) }, (response) => {
      const parts = [], port = response.socket.localPort, coding = response.headers['content-encoding'];
      response.on('data', (part) => parts.push(part));
      response.on('error', (error) => resolve({ refused: error.code ?? error.message }));
      response.on('end', () => {
        try {
          resolve({ status: response.statusCode, headers: response.headers, coding, body: decoded(coding, Buffer.concat(parts)).toString(), port });
        } catch (error) { resolve({ refused: `a body that is no ${coding}: ${error.message}` }); }
      });
    });
    one.on('upgrade', async ({ statusCode: status, headers }, socket, first) => {
      const port = socket.localPort;
      try { resolve({ status, headers, reached: await reachedBy(socket, first), port }); } catch (error) { resolve({ refused: `behind 101: ${error.message}` }); }
      socket.destroy();
    });
    one.setTimeout(60000, () => one.destroy(new Error('no answer within a minute')));
    one.on('error', (error) => resolve({ refused: error.code ?? error.message }));
    one.end(body);
  });
}

// One handshake: {fingerprint, names, issuer, port} or {refused: why}. Without ALPN, and closed at once.
function shake(host, version) {
  return new Promise((resolve) => {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca: trusted, minVersion: version, maxVersion: version, rejectUnauthorized: false }, () => {
      const { fingerprint256, subjectaltname, issuer } = socket.getPeerCertificate();
      const got = { fingerprint: fingerprint256, names: subjectaltname, issuer: issuer?.CN, port: socket.localPort };
      resolve({ ...got, close: () => socket.destroy() });
    });
    socket.setTimeout(60000, () => socket.destroy(new Error('no handshake within a minute')));
    socket.on('error', (error) => resolve({ refused: error.code ?? error.message, close: () => socket.destroy() }));
  });
}

export class Workers {
  #agents = new Map(); // "name worker" -> agent
  #pids = workers();

  // After a fault: who lives now. Connections to the others are gone by themselves.
  refresh() { this.#pids = workers(); }
  close() { for (const agent of this.#agents.values()) agent.destroy(); this.#agents.clear(); }

  // Each worker's answer, told with its process id to on, and those of workers that had answered already, too. Where a connection does not
  // outlive its answer, one answer for all, of process 0.
  async ask(sent, on) {
    if (sent.socket) { // its connection is for nothing else
      const agent = new https.Agent({ maxCachedSessions: 0 });
      on(0, await request(agent, sent));
      agent.destroy();
      return;
    }
    const answered = new Set();
    for (const pid of this.#pids) {
      const key = `${sent.host} ${pid}`, agent = this.#agents.get(key);
      if (!agent) continue;
      const got = await request(agent, sent);
      // one that was closed meanwhile is no difference: a new one is asked
      if (got.refused || isLast(got)) { agent.destroy(); this.#agents.delete(key); }
      if (!got.refused) { on(pid, got); answered.add(pid); }
    }
    for (let tries = 0; answered.size < this.#pids.length && tries < 200; tries++) {
      const agent = new https.Agent({ keepAlive: true, maxSockets: 1, maxCachedSessions: 0 }), got = await request(agent, sent);
      const lasts = !got.refused && !isLast(got), pid = lasts ? workerOf(got.port, this.#pids) : 0;
      on(pid ?? 0, got);
      if (!pid || answered.has(pid)) agent.destroy();
      if (pid === 0) break;
      if (!pid || answered.has(pid)) continue;
      answered.add(pid);
      this.#agents.set(`${sent.host} ${pid}`, agent);
    }
  }

  // What a handshake with each worker ends in: [[pid, {fingerprint, names, issuer}]]; [[0, {refused}]] where none is made.
  async handshakes(host, version) {
    const found = new Map();
    for (let tries = 0; found.size < this.#pids.length && tries < 200; tries++) {
      const got = await shake(host, version), pid = got.refused ? 0 : workerOf(got.port, this.#pids);
      got.close();
      if (pid !== undefined) found.set(pid, got);
      if (pid === 0) break;
    }
    return [...found];
  }
}

const isLast = (got) => got.headers.connection === 'close';
