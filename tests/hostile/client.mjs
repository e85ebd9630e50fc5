// A client of one HTTP/1 connection: sends bytes as they were cut, and reads the answers strictly.
import net from 'node:net';
import tls from 'node:tls';
import { ca, edge } from '../support/postern.mjs';

const session = {}; // the last ticket: a full handshake each time would be most of the work
export const secureContext = tls.createSecureContext({ ca });

export const LIMIT_MS = Number(process.env.HOSTILE_LIMIT_MS || 60000);

const QUIET_MS = 40;

// By which an upstream would steer the edge.
const STEERING = new Set(['redirect', 'expires', 'limit-rate', 'buffering', 'charset'].map((what) => `x-accel-${what}`));

// Reads answers; methodOf(i) is the method that the i-th answers.
export class Answers {
  #rest = Buffer.alloc(0);
  #one;
  list = []; problem; interim = 0;
  constructor(methodOf) { this.methodOf = methodOf; this.state = 'head'; }

  push(part) {
    this.#rest = this.#rest.length ? Buffer.concat([this.#rest, part]) : part;
    while (!this.problem && this.#step());
  }
  // The connection has ended.
  end() {
    if (this.problem) return;
    if (this.state === 'close') this.#done();
    else if (this.#one) { this.#one.cut = true; this.list.push(this.#one); this.#one = undefined; } else if (this.#rest.length && !/^HTTP\/1\.1 /.test(this.#rest.toString('latin1', 0, 9))) this.#wrong('bytes that are no answer');
  }
  #wrong(what) { this.problem = `${what}: ${JSON.stringify(this.#rest.toString('latin1', 0, 300))}`; return false; }
  #take(n) { const part = this.#rest.subarray(0, n); this.#rest = this.#rest.subarray(n); return part; }
  #body(part) { this.#one.parts.push(part); }
  #done() {
    this.#one.body = Buffer.concat(this.#one.parts).toString('latin1');
    this.list.push(this.#one);
    this.#one = undefined;
    this.state = 'head';
  }

  #step() {
    if (this.#rest.length === 0) return false;
    switch (this.state) {
      case 'head': return this.#head();
      case 'length': {
        const part = this.#take(this.left);
        this.left -= part.length;
        this.#body(part);
        if (this.left === 0) this.#done();
        return true;
      }
      case 'size': {
        const end = this.#rest.indexOf('\r\n');
        if (end < 0) return this.#rest.length > 20 ? this.#wrong('no size of a chunk') : false;
        const text = this.#rest.toString('latin1', 0, end);
        if (!/^[0-9a-f]{1,8}$/.test(text)) return this.#wrong('a size that is none');
        this.#take(end + 2);
        this.left = parseInt(text, 16);
        this.state = this.left ? 'chunk' : 'last';
        return true;
      }
      case 'chunk': {
        const part = this.#take(this.left);
        this.left -= part.length;
        this.#body(part);
        if (this.left === 0) this.state = 'between';
        return true;
      }
      case 'between': case 'last':
        if (this.#rest.length < 2) return false;
        if (this.#rest.toString('latin1', 0, 2) !== '\r\n') return this.#wrong('no end of a chunk');
        this.#take(2);
        if (this.state === 'between') this.state = 'size'; else this.#done();
        return true;
      default: this.#body(this.#take(this.#rest.length)); return false;
    }
  }

  #head() {
    const end = this.#rest.indexOf('\r\n\r\n');
    if (end < 0) return this.#rest.length > 300000 ? this.#wrong('no end of a head') : false;
    const lines = this.#rest.toString('latin1', 0, end).split('\r\n');
    const m = /^HTTP\/1\.1 ([1-5]\d\d)( [\t\x20-\x7e\x80-\xff]*)?$/.exec(lines[0]);
    if (!m) return this.#wrong('no status line');
    const status = Number(m[1]), fields = [];
    for (const text of lines.slice(1)) {
      const field = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/.exec(text);
      if (!field) return this.#wrong(`a field that is none, ${JSON.stringify(text.slice(0, 100))}`);
      fields.push([field[1].toLowerCase(), field[2]]);
    }
    this.#take(end + 4);
    const all = (name) => fields.filter(([key]) => key === name).map(([, value]) => value);
    if (fields.some(([name]) => STEERING.has(name))) return this.#wrong('X-Accel');
    if (status < 200 && status !== 101) { this.interim++; return true; }
    const method = this.methodOf(this.list.length);
    this.#one = { status, fields, parts: [], body: '', mark: all('x-mark')[0], head: method === 'HEAD' };
    const length = all('content-length'), coding = all('transfer-encoding');
    if (length.length + coding.length > 1 || length.some((value) => !/^[0-9]+$/.test(value)) || coding.some((value) => value !== 'chunked')) return this.#wrong('framing');
    if (status === 101) this.state = 'close';
    else if (method === 'HEAD' || status === 204 || status === 304) this.#done();
    else if (coding.length) this.state = 'size';
    else if (length.length) { this.left = Number(length[0]); this.state = 'length'; if (this.left === 0) this.#done(); } else if (all('connection').join() !== 'close') return this.#wrong('no end of a body');
    else this.state = 'close';
    return true;
  }
}

// Writes all pieces but the last: [where it ends, milliseconds until the next]. Resolves with what is left, or with nothing when isOver.
export async function writePieces(socket, bytes, cuts, isOver) {
  let at = 0;
  for (const [to, ms] of cuts) {
    if (to > at) socket.write(bytes.subarray(at, to));
    at = Math.max(at, to);
    await new Promise((next) => (ms ? setTimeout(next, ms) : setImmediate(next)));
    if (isOver()) return undefined;
  }
  return bytes.subarray(at);
}

// Sends; resolves with {answers, sent, connected, closed, late, error, ms}. need: so many answers must come, more may, as long as they do.
export function send(name, { bytes, cuts, end, plainly }, methodOf, need, most) {
  return new Promise((resolve) => {
    const answers = new Answers(methodOf), result = { answers, sent: false, started: Date.now() };
    const socket = plainly ? net.connect({ host: edge.plainHost, port: edge.plainPort }) : tls.connect({ host: edge.host, port: edge.port, servername: name, secureContext, session: session.ticket, ALPNProtocols: ['http/1.1'] });
    let over = false, quiet, timer = setTimeout(() => { result.late = true; finish(); }, LIMIT_MS);
    const finish = () => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      clearTimeout(quiet);
      answers.end();
      socket.destroy();
      result.ms = Date.now() - result.started;
      resolve(result);
    };
    const check = () => {
      if (answers.problem) return finish();
      if (!result.sent || end !== 'wait' || answers.list.length < need) return undefined;
      if (answers.list.length >= most) return finish();
      clearTimeout(quiet);
      quiet = setTimeout(finish, QUIET_MS);
      return undefined;
    };
    socket.setNoDelay(true);
    socket.on('session', (ticket) => { session.ticket = ticket; });
    socket.on('error', (error) => { result.error = error.code ?? error.message; });
    socket.on('close', () => { result.closed = true; finish(); });
    socket.on('data', (part) => { answers.push(part); check(); });
    socket.on(plainly ? 'connect' : 'secureConnect', async () => {
      result.connected = true;
      const rest = await writePieces(socket, bytes, cuts, () => over);
      if (!rest) return;
      if (end === 'half') socket.end(rest, () => { result.sent = true; });
      else socket.write(rest, () => {
        result.sent = true;
        if (end === 'abort') finish();
        else if (!over) { clearTimeout(timer); timer = setTimeout(() => { result.late = true; finish(); }, LIMIT_MS); check(); }
      });
    });
  });
}
