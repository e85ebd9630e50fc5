// A link to the edge that carries little of what comes back, so many bytes a second on each connection; what is sent to the edge passes at
// once. It reads a little each time: who reads much gets a large socket, which the kernel acknowledges in large steps.
import net from 'node:net';
import { edge } from './postern.mjs';

const PIECE = 4096;

// {port, stop(), close()}: where connections for the edge's port are taken, which it sees come from localAddress. stop(): nothing comes back any more.
export async function slowLink({ port, localAddress, rate }) {
  const sockets = new Set(), timers = new Set();
  let stopped = false;
  const keep = (socket, other) => { sockets.add(socket); socket.on('error', () => {}).on('close', () => { sockets.delete(socket); other.destroy(); }); };
  const carry = (near, far, bytes) => { // far reads no more until it is resumed
    near.write(bytes);
    const timer = setTimeout(() => { timers.delete(timer); if (!stopped) far.resume(); }, bytes.length / rate * 1000);
    timers.add(timer);
  };
  const server = net.createServer((near) => {
    const far = net.connect({ host: edge.host, port, localAddress, onread: { buffer: Buffer.alloc(PIECE), callback: (length, buffer) => { carry(near, far, Buffer.from(buffer.subarray(0, length))); return false; } } });
    keep(near, far);
    keep(far, near);
    near.on('data', (bytes) => far.write(bytes));
  });
  await new Promise((resolve, reject) => server.on('error', reject).listen(0, '127.0.0.1', resolve));
  return { port: server.address().port, stop: () => { stopped = true; }, close: () => { server.close(); for (const timer of timers) clearTimeout(timer); for (const socket of sockets) socket.destroy(); } };
}
