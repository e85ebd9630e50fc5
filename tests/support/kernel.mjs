// What the kernel of this machine has of connections to an upstream, by /proc/net/tcp.
import fs from 'node:fs';

export const ESTABLISHED = '01', FIN_WAIT_1 = '04', CLOSE_WAIT = '08';
const LISTEN = '0A';

// {upstreamSide, edgeSide, inKernel} of connections to that port: both sides are [{state, unsent, unread}], inKernel the bytes of requests there.
export function socketsOf(port) {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  // The kernel lists sockets a page at a time, and lists some twice when others come and go meanwhile.
  const rows = (column) => {
    const found = fs.readFileSync('/proc/net/tcp', 'latin1').split('\n').map((line) => line.trim().split(/\s+/)).filter((words) => words[column]?.endsWith(suffix) && words[3] !== LISTEN);
    return [...new Map(found.map((words) => [`${words[1]} ${words[2]}`, words])).values()].map(({ 3: state, 4: queues }) => ({ state, unsent: parseInt(queues.split(':')[0], 16), unread: parseInt(queues.split(':')[1], 16) }));
  };
  const upstreamSide = () => rows(1), edgeSide = () => rows(2), inKernel = () => edgeSide().reduce((sum, { unsent }) => sum + unsent, 0) + upstreamSide().reduce((sum, { unread }) => sum + unread, 0);
  return { upstreamSide, edgeSide, inKernel };
}
