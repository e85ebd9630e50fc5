// Texts by which one account's data is known wherever it turns up, and values of the same shape that nobody has.
import { plain } from '../contract/generate.mjs';

const RUN = `tn${process.pid.toString(36)}${Date.now().toString(36)}`.replace(/[^0-9a-z]/g, '');
const MARK = new RegExp(`${RUN}q\\d{7}`, 'g');
const ID = /\b[a-z]+(?:_[a-z]+)*_[0-9A-Za-z]{27}\b/g;
let count = 1000000;

export const run = RUN;
export const mark = () => `${RUN}q${count++}`;
export const marksIn = (text) => [...(text.match(MARK) ?? []), ...(text.match(ID) ?? [])];

// An id of that kind, in the right shape, that nothing has: it stands beside the real one in every order.
const neverId = (id, turn) => `${id.slice(0, -8)}${[...id.slice(-8)].map((c) => (c === turn ? 'Z' : turn)).join('')}`;
export const never = (text, turn = 'a') => text.replace(MARK, () => mark()).replace(ID, (id) => neverId(id, turn));

// Every text that has no rule of its own becomes a mark; what is kept apart by its name gets one into that.
export function markAll(schema, body) {
  for (const [name, property] of Object.entries(schema.properties)) {
    const inside = plain(property), format = property['x-format'];
    if (body[name] === undefined || property['x-kinds'] || inside.enum) continue;
    if (inside.properties) markAll(inside, body[name]);
    else if (inside.items?.properties) for (const item of body[name]) markAll(inside.items, item);
    else if (inside.type === 'string' && (inside.maxLength ?? 99) >= RUN.length + 8) {
      if (!format || format === 'secret_name') body[name] = mark();
      else if (format === 'domain') body[name] = `${mark()}.tenants.test`;
      else if (format === 'endpoint_url') body[name] = `https://${mark()}.internal`;
    }
  }
  return body;
}
