// Writes MaxMind DBs (version 2.0 of the format): mmdb({ '192.0.2.0/24': { country: { iso_code: 'DE' } } }). Whole numbers are unsigned,
// others are doubles: real(1) is one, too.
import net from 'node:net';

export const real = (value) => ({ real: value });
const natural = (value, size) => ({ natural: value, size });

const head = (type, size) => {
  const [code, more] = size < 29 ? [size, []] : size < 285 ? [29, [size - 29]] : [30, [(size - 285) >> 8, (size - 285) & 255]];
  return Buffer.from(type < 8 ? [type << 5 | code, ...more] : [code, type - 7, ...more]);
};

function encode(value) {
  if (typeof value === 'string') return Buffer.concat([head(2, Buffer.byteLength(value)), Buffer.from(value)]);
  if (typeof value === 'number' && Number.isInteger(value)) return encode(natural(value, 4));
  if (value?.size) { const bytes = Buffer.alloc(8); bytes.writeBigUInt64BE(BigInt(value.natural)); return Buffer.concat([head({ 2: 5, 4: 6, 8: 9 }[value.size], value.size), bytes.subarray(8 - value.size)]); }
  if (typeof value === 'number' || 'real' in value) { const bytes = Buffer.alloc(8); bytes.writeDoubleBE(value.real ?? value); return Buffer.concat([head(3, 8), bytes]); }
  if (Array.isArray(value)) return Buffer.concat([head(11, value.length), ...value.map(encode)]);
  return Buffer.concat([head(7, Object.keys(value).length), ...Object.entries(value).flatMap((pair) => pair.map(encode))]);
}

// The bits of a network of either version, in a tree of IPv6.
function bitsOf(network) {
  const [address, length] = network.split('/');
  if (net.isIPv4(address)) return '0'.repeat(96) + address.split('.').map((n) => Number(n).toString(2).padStart(8, '0')).join('').slice(0, Number(length));
  const [before, after = ''] = address.split('::'), left = before.split(':').filter(Boolean), right = after.split(':').filter(Boolean);
  const groups = address.includes('::') ? [...left, ...Array(8 - left.length - right.length).fill('0'), ...right] : left;
  return groups.map((group) => parseInt(group, 16).toString(2).padStart(16, '0')).join('').slice(0, Number(length));
}

export function mmdb(networks, type = 'Test') {
  const nodes = [[null, null]], data = [];
  let used = 0;
  for (const [network, value] of Object.entries(networks)) {
    const bits = bitsOf(network), bytes = encode(value);
    let node = 0;
    for (const bit of bits.slice(0, -1)) { nodes[node][bit] ??= nodes.push([null, null]) - 1; node = nodes[node][bit]; }
    nodes[node][bits.at(-1)] = { at: used };
    data.push(bytes); used += bytes.length;
  }
  const tree = Buffer.alloc(nodes.length * 8);
  nodes.forEach((pair, i) => pair.forEach((record, side) => tree.writeUInt32BE(record === null ? nodes.length : record.at === undefined ? record : nodes.length + 16 + record.at, i * 8 + side * 4)));
  const metadata = { node_count: nodes.length, record_size: natural(32, 2), ip_version: natural(6, 2),
    binary_format_major_version: natural(2, 2), binary_format_minor_version: natural(0, 2), build_epoch: natural(1, 8), database_type: type, languages: ['en'], description: {} };
  return Buffer.concat([tree, Buffer.alloc(16), ...data, Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1'), encode(metadata)]);
}
