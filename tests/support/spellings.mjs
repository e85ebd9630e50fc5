// Paths in spellings without end: what an edge matches is what arrives. Two files of stories have half of them each, because on a crowded machine all of
// them take minutes.
import assert from 'node:assert/strict';
import tls from 'node:tls';
import { ca, edge, endpoint, must, upstream } from './postern.mjs';

const PIECES = ['/', '//', '.', '..', '%2e', '%2E', '%2f', '%5c', 'a', '%61', 'admin', '%61dmin', 'health', '%68ealth', ';', ';x', '%3b', '~', '%7e', '%c3%a9', '%c0%ae', '+', '%', '%00', '?', '%3f'];
const statusOf = (text) => Number((/^HTTP\/1\.[01] (\d+)/.exec(text) ?? [])[1] ?? 0);

// Pipelined, because this is about decisions, not about connections.
function pipeline(host, targets) {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: edge.host, port: edge.port, servername: host, ca });
    const statuses = [];
    let rest = '';
    socket.on('secureConnect', () => socket.write(targets.map((target, i) => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nX-N: ${i}\r\n\r\n`).join('')));
    socket.on('error', reject);
    socket.on('close', () => resolve(statuses));
    socket.on('data', (part) => {
      rest += part.toString('latin1');
      for (;;) {
        const end = rest.indexOf('\r\n\r\n');
        if (end < 0) return;
        const head = rest.slice(0, end), chunked = /transfer-encoding: chunked/i.test(head), length = Number((/content-length: (\d+)/i.exec(head) ?? [])[1] ?? 0);
        let body;
        if (chunked) {
          const stop = rest.indexOf('0\r\n\r\n', end + 4);
          if (stop < 0) return;
          body = rest.slice(end + 4, stop).replace(/^[0-9a-f]+\r\n/i, '').replace(/\r\n$/, '');
          rest = rest.slice(stop + 5);
        } else {
          if (rest.length < end + 4 + length) return;
          body = rest.slice(end + 4, end + 4 + length);
          rest = rest.slice(end + 4 + length);
        }
        statuses.push([statusOf(head), body]);
        if (statuses.length === targets.length) socket.end();
      }
    });
  });
}

// rounds of 2,000 spellings, which follow from the seed.
export async function spellings(seed, rounds) {
  const answering = (word) => (request, response) => { request.resume(); response.setHeader('Content-Length', 5 + request.url.length); response.end(`${word} ${request.url}`); };
  const open = await upstream(), closed = await upstream(), to = await endpoint(open.address), { id } = await must('POST', '/backends/static', { address: closed.address });
  for (const [match, match_type] of [['/admin', 'path_prefix'], ['/health', 'exact_path']]) await must('POST', `/edges/https/${to.edge.id}/routes`, { match, match_type, backend: { backend_id: id } });
  for (const [up, word] of [[open, 'open'], [closed, 'priv']]) up.server.removeAllListeners('request').on('request', answering(word)); // nothing of them is kept
  let refused = 0, served = 0;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const spelling = () => { let path = '/'; for (let i = 0; i < 1 + random(7); i++) path += PIECES[random(PIECES.length)]; return path; };
  const batch = async () => {
    const targets = Array.from({ length: 250 }, spelling);
    // a refusal may close the connection: what is left goes on another
    for (let at = 0; at < targets.length;) {
      const got = await pipeline(to.host, targets.slice(at));
      assert.ok(got.length > 0, `no answer to ${targets[at]}`);
      got.forEach(([status, body], i) => {
        const target = targets[at + i];
        if (status !== 200) { assert.equal(status, 400, target); refused++; return; }
        const url = body.slice(5), path = url.split('?')[0];
        assert.ok(!/(^|\/)\.\.?(\/|$)|\/\/|%2e|%7e|%6[18]/i.test(path), `${target} arrived as ${url}`);
        assert.equal(body.slice(0, 4), path.startsWith('/admin') || path === '/health' ? 'priv' : 'open', `${target} as ${url}`);
        served++;
      });
      at += got.length;
    }
  };
  for (let i = 0; i < rounds; i++) await Promise.all(Array.from({ length: 8 }, batch));
  assert.equal(refused + served, rounds * 2000);
  assert.ok(served > rounds * 400 && refused > rounds * 400, `${served} served, ${refused} refused`);
  for (const up of [open, closed]) await up.close();
}
