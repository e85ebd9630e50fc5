// An upstream that reads requests strictly and by itself, and answers as answers.mjs says. What an edge must not send to it is in
// arrival.problems; behind: bytes that came before their request's answer, where there must be none.
import net from 'node:net';
import { answer } from './answers.mjs';
import { isClaim } from './reference.mjs';

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function readHead(text) {
  const problems = [], lines = text.split('\r\n'), [, method, url, version] = /^(\S+) (\S+) (HTTP\/1\.[01])$/.exec(lines[0]) ?? [];
  if (!method) problems.push('no request line');
  if (version === 'HTTP/1.0') problems.push('HTTP/1.0');
  if (/[^\x21-\x7e]/.test(url ?? '')) {
    const path = url.split('?')[0];
    if (/[^\x21-\x7e]/.test(path)) problems.push('a byte that no path has');
    else if (/[\0-\x20\x7f]/.test(url)) problems.push('a byte that no query has');
  }
  if (url && !url.startsWith('/')) problems.push('no origin form');
  const fields = [];
  for (const line of lines.slice(1)) {
    const colon = line.indexOf(':'), name = line.slice(0, Math.max(colon, 0)), value = line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, '');
    if (!TOKEN.test(name)) problems.push(`no field: ${JSON.stringify(line.slice(0, 100))}`);
    if (/[\0-\x08\x0a-\x1f\x7f]/.test(line)) problems.push(`a control character: ${JSON.stringify(line.slice(0, 100))}`);
    fields.push([name.toLowerCase(), value]);
  }
  return { method, url, fields, problems };
}

// What frames it, and what is the edge's to say.
function judge(one, ofEdge) {
  const all = (name) => one.fields.filter(([key]) => key === name).map(([, value]) => value);
  const must = (what, good) => { if (!good) one.problems.push(what); };
  const [length, coding] = [all('content-length'), all('transfer-encoding')];
  must('twice a length or coding', length.length + coding.length <= 1);
  must('a length that is none', length.every((value) => /^[0-9]{1,19}$/.test(value)));
  must('a coding that is not chunked', coding.every((value) => value === 'chunked'));
  one.chunked = coding.length > 0;
  one.length = length.length ? Number(length[0]) : 0;
  one.host = all('host')[0] ?? '';
  must('not one host', all('host').length === 1);
  must('another x-forwarded-for', all('x-forwarded-for').join() === ofEdge.address);
  must('another x-forwarded-proto', all('x-forwarded-proto').join() === 'https');
  must('another x-forwarded-host', all('x-forwarded-host').join() === one.host);
  for (const name of ['te', 'trailer', 'keep-alive', 'proxy-connection', 'expect', 'http2-settings']) must(`a field of the connection: ${name}`, !all(name).length);
  must('not one id', all('postern-request-id').length === 1 && /^req_[0-9a-f]{32}$/.test(all('postern-request-id')[0]));
  must('not one trace', all('traceparent').length === 1 && /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01$/.test(all('traceparent')[0]));
  one.websocket = all('upgrade').join() === 'websocket' && all('connection').join() === 'upgrade';
  must('connection or upgrade', one.websocket || (!all('upgrade').length && ['', 'close'].includes(all('connection').join())));
  for (const [name] of one.fields) if (!name.startsWith('x-forwarded-') && name !== 'postern-request-id' && isClaim(name)) one.problems.push(`a claim: ${name}`);
  const own = new Set(['host', 'content-length', 'transfer-encoding', 'connection', 'upgrade', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'postern-request-id', 'traceparent']);
  one.passed = one.fields.filter(([name]) => !own.has(name));
  one.key = `${one.method} ${one.host} ${one.url}`;
}

class Reader {
  #rest = Buffer.alloc(0);
  #one;
  constructor(socket, up) { Object.assign(this, { socket, up, served: 0, body: [], left: 0, state: 'head' }); }

  push(part) {
    this.#rest = this.#rest.length ? Buffer.concat([this.#rest, part]) : part;
    while (this.#rest.length && this.state !== 'over' && this.#step());
  }
  #take(n) { const part = this.#rest.subarray(0, n); this.#rest = this.#rest.subarray(n); return part; }
  #line() {
    const end = this.#rest.indexOf('\r\n');
    return end < 0 ? undefined : this.#take(end + 2).toString('latin1', 0, end);
  }
  #wrong(what) { (this.#one ?? this.up.begin({ key: '?', fields: [], problems: [], passed: [] })).problems.push(`${what}: ${JSON.stringify(this.#rest.toString('latin1', 0, 200))}`); this.state = 'over'; return false; }

  #step() {
    switch (this.state) {
      case 'head': {
        const end = this.#rest.indexOf('\r\n\r\n');
        if (end < 0) return false;
        this.#one = readHead(this.#take(end + 4).toString('latin1', 0, end));
        judge(this.#one, this.up.ofEdge);
        Object.assign(this.#one, { first: this.served === 0, whole: false, body: Buffer.alloc(0) });
        this.up.begin(this.#one);
        this.body = [];
        this.left = this.#one.length;
        this.state = this.#one.chunked ? 'size' : 'length';
        this.#headCame();
        if (this.state === 'length' && this.left === 0) this.#end();
        return true;
      }
      case 'length': {
        const part = this.#take(this.left);
        this.body.push(part);
        this.left -= part.length;
        this.#one.body = this.body.length === 1 ? this.body[0] : Buffer.concat(this.body);
        if (this.left === 0) this.#end();
        return true;
      }
      case 'size': {
        const text = this.#line();
        if (text === undefined) return this.#rest.length > 20 ? this.#wrong('no size of a chunk') : false;
        if (!/^[0-9a-f]{1,8}$/.test(text)) return this.#wrong(`a size of a chunk ${JSON.stringify(text)}`);
        this.left = parseInt(text, 16);
        this.state = this.left ? 'chunk' : 'last';
        return true;
      }
      case 'chunk': {
        const part = this.#take(this.left);
        this.body.push(part);
        this.left -= part.length;
        if (this.left === 0) this.state = 'between';
        this.#one.body = Buffer.concat(this.body);
        return true;
      }
      case 'between': case 'last': {
        if (this.#rest.length < 2) return false;
        if (this.#take(2).toString('latin1') !== '\r\n') return this.#wrong('no end of a chunk');
        if (this.state === 'between') { this.state = 'size'; return true; }
        this.#end();
        return true;
      }
      case 'answering': return false; // the edge may know before we do that an answer is over
      case 'tunnel': this.#rest = Buffer.alloc(0); return false;
      default: return false;
    }
  }

  #headCame() {
    const one = this.#one;
    one.plan = this.up.planOf(one);
    if (one.plan.early) this.#answer(one.plan);
  }
  #end() {
    const one = this.#one;
    one.whole = true;
    this.served++;
    if (this.#rest.length && !one.plan.early) { this.#wrong('bytes behind a request'); return; }
    if (one.plan.early) { this.state = one.answered ? 'head' : 'answering'; return; }
    this.state = 'answering';
    this.#answer(one.plan);
  }
  async #answer(plan) {
    const { socket } = this, one = this.#one;
    for (const [bytes, ms] of plan.parts) {
      if (socket.destroyed) return;
      socket.write(bytes);
      if (ms) await new Promise((resolve) => setTimeout(resolve, ms)); else if (plan.parts.length > 1) await new Promise(setImmediate);
    }
    one.answered = true;
    if (plan.reset) { socket.resetAndDestroy(); this.state = 'over'; return; }
    if (plan.close) { socket.end(); this.state = 'over'; return; }
    if (one.plan.kind === 'websocket') { this.state = 'tunnel'; return; }
    if (this.state === 'answering') { this.state = 'head'; this.push(Buffer.alloc(0)); }
  }
}

// {port, close, arrivals}: of all that came, in order; begin(arrival) is called for each.
export async function strict({ seed, address, begin, isPlain }) {
  const sockets = new Set();
  const up = { ofEdge: { address }, begin, planOf: (one) => answer(seed, one.method, `${one.host}${one.url}`, isPlain(one.url ?? '')) };
  const server = net.createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    const reader = new Reader(socket, up);
    socket.on('data', (part) => reader.push(part)).on('close', () => sockets.delete(socket)).on('error', () => {});
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', 4096, resolve));
  return { port: server.address().port, sockets, close: () => new Promise((resolve) => { for (const socket of sockets) socket.destroy(); server.close(resolve); }) };
}

// An upstream that should speak TLS, and says something else.
export async function garbled(random) {
  const sockets = new Set(), server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket)).resume();
    const say = () => {
      const n = random.below(80), bytes = random.of([
        () => Buffer.alloc(0), () => Buffer.from(Array.from({ length: n }, () => random.below(256))), () => Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'),
        () => Buffer.concat([Buffer.from([22, 3, 3, 0, n]), Buffer.from(Array.from({ length: n }, () => random.below(256)))]), () => Buffer.from([21, 3, 3, 0, 2, random.below(3), random.below(256)]),
        () => Buffer.concat([Buffer.from([22, 3, 3, 0, 90, 2, 0, 0, 86, 3, 3]), Buffer.from(Array.from({ length: 84 }, () => random.below(256)))]), () => Buffer.from([22, 3, 3, 255, 255, 2, 0]), () => Buffer.from([23, 3, 3, 0, 1, 0]),
      ])();
      socket.end(bytes);
    };
    if (random.chance(0.3)) say(); else socket.once('data', say); // before the hello, too
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: server.address().port, close: () => new Promise((resolve) => { for (const socket of sockets) socket.destroy(); server.close(resolve); }) };
}
