// What every story needs: the running system's addresses, raw HTTP to the API and through the edge,
// upstreams of the story's own, and names that no other story uses.
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const home = process.env.POSTERN_HOME || path.join(root, 'var');
export const env = Object.fromEntries(
  fs.readFileSync(path.join(home, 'postern.env'), 'utf8').split('\n')
    .filter((line) => line.includes('='))
    .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
export const ca = fs.readFileSync(env.POSTERN_EDGE_CA);
const [edgeHost, edgePort] = env.POSTERN_EDGE_HTTPS.split(':');
const [plainHost, plainPort] = env.POSTERN_EDGE_HTTP.split(':');
// host:port of each health port, in the order of proto/services.def, the edge's last.
export const healthUrls = (vars = env) => vars.POSTERN_HEALTH_URLS.split(',').map((item) => item.slice(item.indexOf('=') + 1));
export const edge = { host: edgeHost, port: Number(edgePort), plainHost, plainPort: Number(plainPort) };

const require = createRequire(path.join(root, 'tests/e2e/package.json'));
export const { Ngrok } = require('@ngrok/ngrok-api');
export const WebSocket = require('ws');
export const client = () => new Ngrok({ baseUrl: env.POSTERN_API_URL, apiToken: env.POSTERN_API_KEY });

// A socket that a story left open must not keep the runner waiting, once all has been done that is to be done after the stories: what is cut off
// there is found by the next file.
if (process.env.NODE_TEST_CONTEXT) {
  const { after } = test;
  let left = 0;
  test.after = (hook, options) => { left++; return after(async () => { try { await hook(); } finally { left--; } }, options); };
  after(() => {
    const end = Date.now() + 60000; // a hook that failed has those behind it left out
    const look = setInterval(() => { if (left && Date.now() < end) return; clearInterval(look); setTimeout(() => process.exit(), 1000).unref(); }, 100).unref();
  });
}

let count = 0;
export const unique = (prefix) =>
  `${prefix}-${process.pid}-${Date.now().toString(36)}-${count++}.example.test`;

// Raw API call: {status, headers, body}. headers with undefined are left out.
export function api(method, target, body, headers = {}) {
  const text = body === undefined ? undefined : typeof body === 'string' || Buffer.isBuffer(body)
    ? body : JSON.stringify(body);
  const all = {
    Authorization: `Bearer ${env.POSTERN_API_KEY}`,
    'Service-Version': '2',
    ...(text === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
    ...headers,
  };
  for (const key of Object.keys(all)) if (all[key] === undefined) delete all[key];
  return new Promise((resolve, reject) => {
    const url = new URL(env.POSTERN_API_URL);
    const request = http.request({ host: url.hostname, port: url.port, method, path: target, headers: all }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
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
}

export async function must(method, target, body, status) {
  const answer = await api(method, target, body);
  const want = status ?? (method === 'POST' ? 201 : method === 'DELETE' ? 204 : 200);
  if (answer.status !== want) throw new Error(`${method} ${target}: ${answer.status} ${answer.raw}`);
  return answer.body;
}

// One request through the edge: {status, headers, body, socket}.
export function through(host, target = '/', options = {}) {
  return new Promise((resolve, reject) => {
    const request = https.request({
      host: edge.host, port: edge.port, servername: options.servername ?? host, ca,
      path: target, method: options.method ?? 'GET', headers: { Host: host, ...options.headers },
      agent: options.agent ?? false, ...options.tls,
    }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => resolve({
        status: response.statusCode, headers: response.headers, rawHeaders: response.rawHeaders,
        body: Buffer.concat(parts).toString(),
      }));
    });
    request.on('error', reject);
    request.end(options.body);
  });
}

// Is the last answer of a connection there to its end? One that ends with the connection is not.
function isWhole(text) {
  for (let at = 0; ;) {
    const end = text.indexOf('\r\n\r\n', at);
    if (end < 0) return false;
    const head = text.slice(at, end), status = Number(head.split(' ')[1]), length = /^content-length: (\d+)/im.exec(head)?.[1];
    if (status === 101) return true; // what follows is no answer
    if (/^transfer-encoding: chunked/im.test(head)) {
      const last = text.indexOf('\r\n0\r\n\r\n', end + 2);
      if (last < 0) return false;
      at = last + 7;
    } else if (status < 200 || status === 204 || status === 304) at = end + 4;
    else if (length === undefined || text.length < end + 4 + Number(length)) return false;
    else at = end + 4 + Number(length);
    if (at === text.length) return status !== 100;
  }
}

// Bytes as they are over TLS; resolves with everything the edge answered, until it closes the connection or says nothing more for `wait` ms behind
// a whole answer. limit: ms for each part of an answer, however slow the machine is; less only where there may be no answer at all.
export function raw(servername, bytes, { wait = 1500, limit = 60000, tlsOptions = {} } = {}) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername, ca, ...tlsOptions });
    const parts = [], said = () => Buffer.concat(parts).toString('latin1'), end = () => socket.destroy();
    let timer = setTimeout(end, limit);
    socket.on('secureConnect', () => socket.write(bytes));
    socket.on('data', (part) => {
      parts.push(part);
      clearTimeout(timer);
      timer = setTimeout(end, isWhole(said()) ? wait : limit);
    });
    socket.on('error', (error) => (parts.length ? undefined : reject(error)));
    socket.on('close', () => { clearTimeout(timer); resolve(said()); });
  });
}

// Where upstreams of stories listen: an edge in a container reaches another address of this machine.
export const storyHost = process.env.STORY_HOST || '127.0.0.1';
// Why a story is skipped that is about this machine's own addresses and ports; false where the system runs beside it.
export const elsewhere = process.env.STORY_HOST ? 'the system runs behind other addresses than the story' : false;

// An upstream of the story's own; handler(request, response, body). Records what arrives.
export async function upstream(handler, tlsOptions) {
  const seen = [];
  const listener = (request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      seen.push({ method: request.method, url: request.url, headers: request.headers, rawHeaders: request.rawHeaders, body });
      if (handler) handler(request, response, body);
      else response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, body: body.toString() }));
    });
  };
  const server = tlsOptions ? https.createServer(tlsOptions, listener) : http.createServer(listener);
  server.keepAliveTimeout = 60000;
  await new Promise((resolve) => server.listen(0, storyHost, resolve));
  return {
    server, seen, address: `${storyHost}:${server.address().port}`, port: server.address().port,
    close: () => new Promise((resolve) => { server.closeAllConnections(); server.close(resolve); }),
  };
}

export async function tcpUpstream(onSocket) {
  const sockets = new Set();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    onSocket(socket);
  });
  await new Promise((resolve) => server.listen(0, storyHost, resolve));
  return {
    server, address: `${storyHost}:${server.address().port}`,
    close: () => new Promise((resolve) => { for (const socket of sockets) socket.destroy(); server.close(resolve); }),
  };
}

// Domain, edge and one route for a host; returns their objects.
export async function endpoint(backend, { match = '/', match_type = 'path_prefix', host = unique('story'), edgeFields = {}, ...modules } = {}) {
  const domain = await must('POST', '/reserved_domains', { domain: host });
  const front = await must('POST', '/edges/https', { hostports: [`${host}:443`], ...edgeFields });
  const where = typeof backend === 'string'
    ? await must('POST', '/backends/static', { address: backend })
    : backend.id ? backend : await must('POST', '/backends/http_response', backend);
  const route = await must('POST', `/edges/https/${front.id}/routes`,
    { match_type, match, backend: { backend_id: where.id }, ...modules });
  return { host, domain, edge: front, backend: where, route };
}

// All objects of a list, page by page: other stories leave theirs behind.
export async function listed(target) {
  const all = [];
  for (let next = `${target}?limit=100`; next;) {
    const page = await must('GET', next), { pathname, search } = new URL(page.next_page_uri ?? 'x:', env.POSTERN_API_URL);
    all.push(...Object.values(page).find(Array.isArray));
    next = page.next_page_uri && pathname + search;
  }
  return all;
}

// Nobody has signed in at that provider.
export async function forgetUsers(url) {
  for (const { id } of (await listed('/app/users')).filter(({ identity_provider: by }) => by.url === url)) await must('DELETE', `/app/users/${id}`);
}

// Events from the PUB socket, through the command line; STORY_TAIL is how to call it elsewhere than in this system's bin.
// said: lines of its standard error.
export function tail(topic = '', vars = {}) {
  const [program, ...args] = process.env.STORY_TAIL?.split(' ') ?? [path.join(home, 'bin/postern'), 'tail'];
  const child = spawn(program, [...args, topic], { env: { ...process.env, POSTERN_HOME: home, ...vars } });
  process.on('exit', () => child.kill()); // a subscriber waits for the next stack: without events it would not notice that nobody reads
  const events = [], said = [];
  const lines = (stream, take) => {
    let rest = '';
    stream.setEncoding('utf8').on('data', (part) => {
      const all = (rest + part).split('\n');
      rest = all.pop();
      for (const line of all) take(line);
    });
  };
  lines(child.stdout, (line) => events.push(JSON.parse(line)));
  lines(child.stderr, (line) => said.push(line));
  let ended = false;
  child.on('close', () => { ended = true; });
  return { events, said, child, stop: () => new Promise((resolve) => { if (ended) return resolve(); child.on('close', resolve); child.kill('SIGTERM'); }) };
}

// ask() makes requests on connections of their own, again and again until each worker of the edge has had one: connections are the kernel's to hand out,
// and it may give all of them to one.
export async function everyWorker(ask) {
  const served = async () => [...(await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((got) => got.text())).matchAll(/^postern_edge_requests_total\{worker="\d+"\} (\d+)/gm)].map(([, n]) => Number(n));
  const before = await served();
  for (let round = 1; round <= 200; round++) {
    await ask();
    const now = await served(); // which may count itself, one of each round
    if (now.length === before.length && now.every((n, i) => n - before[i] > round)) return;
  }
  throw new Error('one worker of the edge gets no requests');
}

// limit: less than the minute after which an edge ends by itself what nobody takes or sends.
export async function until(check, what, limit = 40000) {
  const end = Date.now() + limit;
  for (;;) {
    let value, cause;
    try {
      value = await check();
    } catch (error) {
      cause = error; // what is asked may be away for a moment, as a worker is that was killed
    }
    if (value) return value;
    if (Date.now() > end) throw new Error(`never happened: ${what}`, { cause });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// A tail whose subscription is in force, as the first event that it got shows: a program that has just been started hears nothing yet, inside a
// container for seconds, and of traffic the edges must have heard that somebody listens. probe: makes an event of the topic each time it is called.
export async function listening(topic = '', probe) {
  const subscription = tail(topic);
  const { host } = probe ? {} : await listening.probe();
  await until(async () => {
    await (probe ? probe() : through(host, '/probe'));
    return subscription.events.length > 0;
  }, 'first event', 120000);
  return subscription;
}
listening.probe = async () => (listening.made ??= await endpoint({ body: 'probe' }));
