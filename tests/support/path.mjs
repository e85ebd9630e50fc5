// A path between two programs that can die without a word, as with a firewall that forgot the flow or an address that moved: what was
// connected carries nothing any more and is not closed, new connections work.
import net from 'node:net';

// listen and connect: a Unix socket's file or a port of this machine; 0: any, which is then port. open(): connections that carry bytes;
// die(): those that there are do not from now on; who sends into one is not told. cut(): they are closed. deafen(n): of what is
// sent over each only n pieces more arrive; answers do. hold(): new ones have to wait until release().
export async function path(listen, connect) {
  const pairs = [];
  let waiting = null;
  const join = (near) => {
    const far = net.connect(connect), pair = { near, far, dead: false, left: Infinity };
    pairs.push(pair);
    for (const [from, to] of [[near, far], [far, near]]) {
      from.on('data', (bytes) => { if (!pair.dead && (from === far || pair.left-- > 0)) to.write(bytes); });
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
    die: () => { for (const pair of pairs) pair.dead = true; },
    close: () => { server.close(); for (const pair of pairs) { pair.near.destroy(); pair.far.destroy(); } },
  };
}
