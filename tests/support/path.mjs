// A proxy between two programs that can fail silently, like a firewall that drops a flow or an address that moves: existing connections
// carry nothing any more and are not closed, new connections work.
import net from 'node:net';

// listen and connect: a Unix socket's file or a port of this machine; 0: any free port, returned as port.
// open(): number of connections that carry bytes. die(): existing connections silently stop carrying bytes. cut(): they are closed.
// deafen(n): each passes only n more pieces on to the server; replies still arrive. hold(): new connections wait until release().
// rate: bytes a second from the server, over all connections together; carried(): bytes that came from it.
export async function path(listen, connect, rate = Infinity) {
  const pairs = [];
  let waiting = null, carried = 0;
  const line = rate === Infinity ? null : slowly(rate);
  const join = (near) => {
    const far = net.connect(connect), pair = { near, far, dead: false, left: Infinity };
    pairs.push(pair);
    for (const [from, to] of [[near, far], [far, near]]) {
      from.on('data', (bytes) => { if (from === far) carried += bytes.length; if (pair.dead) return; if (from === far && line) line.carry(far, near, bytes); else if (from === far || pair.left-- > 0) to.write(bytes); });
      from.on('error', () => {});
      from.on('close', () => { if (!pair.dead) to.destroy(); });
    }
  };
  const server = net.createServer((near) => {
    if (!waiting) return join(near);
    near.on('error', () => {});
    waiting.push(near);
  });
  await new Promise((resolve, reject) => { server.on('error', reject); typeof listen === 'number' ? server.listen(listen, '127.0.0.1', resolve) : server.listen(listen, resolve); });
  return {
    port: server.address().port,
    open: () => pairs.filter((pair) => !pair.dead && !pair.near.destroyed).length,
    cut: () => { for (const pair of pairs) { pair.near.destroy(); pair.far.destroy(); } },
    deafen: (pieces) => { for (const pair of pairs) pair.left = pieces; },
    hold: () => { waiting = []; },
    release: () => { const all = waiting; waiting = null; for (const near of all) if (!near.destroyed) join(near); },
    carried: () => carried,
    die: () => { for (const pair of pairs) pair.dead = true; },
    close: () => { server.close(); line?.end(); for (const pair of pairs) { pair.near.destroy(); pair.far.destroy(); } },
  };
}

// Connections take turns, a piece each; the rest of what one sends waits.
function slowly(rate) {
  const queues = new Map();
  let budget = 0, last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    budget = Math.min(budget + rate * (now - last) / 1000, rate / 10);
    last = now;
    for (let moved = true; moved && budget > 0;) {
      moved = false;
      for (const [from, { to, parts }] of queues) {
        const part = parts.shift();
        if (!part) { from.resume(); continue; }
        const piece = part.subarray(0, 4096);
        if (part.length > piece.length) parts.unshift(part.subarray(piece.length));
        to.write(piece);
        budget -= piece.length;
        moved = true;
      }
    }
  }, 5);
  return {
    carry: (from, to, bytes) => {
      if (!queues.has(from)) { queues.set(from, { to, parts: [] }); from.on('close', () => queues.delete(from)); }
      queues.get(from).parts.push(bytes);
      from.pause();
    },
    end: () => clearInterval(timer),
  };
}
