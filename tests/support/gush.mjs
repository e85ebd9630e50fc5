// An upstream in a process of its own, for more connections than one process may have: it reads nothing, and says its address to
// the process that forked it. Each message to it is the MiB that it sends on each connection, or 0; it answers {open, taken}:
// connections, and bytes that their peers took.
import { randomBytes } from 'node:crypto';
import net from 'node:net';

const sockets = new Set(), piece = randomBytes(1 << 20);
const server = net.createServer({ pauseOnConnect: true }, (socket) => {
  sockets.add(socket);
  socket.on('error', () => {});
  socket.on('close', () => sockets.delete(socket));
});
server.listen(0, '127.0.0.1', () => process.send(`127.0.0.1:${server.address().port}`));
process.on('message', (mib) => {
  for (const socket of sockets) for (let i = 0; i < mib; i++) socket.write(piece);
  process.send({ open: sockets.size, taken: [...sockets].reduce((n, socket) => n + socket.bytesWritten - socket.writableLength, 0) });
});
process.on('disconnect', () => process.exit());
