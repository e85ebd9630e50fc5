// Two accounts: whatever can refer to an object, in a body or a path, with an id of the other account's, is answered as if there
// were no such object: the same status and the same text but for the id. Generated from /openapi.json.
import assert from 'node:assert/strict';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { api } from '../support/postern.mjs';
import { Random, mend, object, plain } from './generate.mjs';
import { world } from './world.mjs';

// An id of that kind, in the right shape, that nothing has.
const nothing = (id) => `${id.slice(0, -8)}${[...id.slice(-8)].map((c) => (c === 'a' ? 'b' : 'a')).join('')}`;

// [path of names, property, schema] of all that refer to objects.
function* references(schema, path = []) {
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const kind = plain(property), at = [...path, name];
    if (property['x-kinds'] || kind['x-kinds']) yield [at, (property['x-kinds'] ?? kind['x-kinds']).split('|'), kind];
    else if (name === 'owner_id') yield [at, ['bot_user', 'service_user', 'user'], kind];
    else if (kind.type === 'object' && kind.properties) yield* references(kind, at);
  }
}

const inShape = (kind, id) => (kind.type === 'array' ? [id] : kind.type === 'object' ? { [id]: 1 } : id);

// What answers say when the id and the operation are left out.
const said = (answer, id) => `${answer.status} ${answer.raw.replace(/"operation_id":"[^"]*"/, '').replaceAll(id, 'ID')}`;

// One object of each kind that can be made.
async function oneOfEach(creates, here, call) {
  const made = {};
  for (const [kind, { path, schema }] of creates) {
    const r = new Random(7), body = object(r, schema, here, 0);
    mend[kind]?.(r, body, here);
    const answer = await call('POST', path.replace('{edge_id}', here.made.https_edge[0].id), body);
    assert.equal(answer.status, 201, `${kind} ${JSON.stringify(body)}: ${answer.raw}`);
    made[kind] = answer.body;
  }
  made.user = { id: made.api_key.owner_id };
  return made;
}

test('an id of another account is answered as one that does not exist', { timeout: 600000 }, async () => {
  const { paths } = (await api('GET', '/openapi.json')).body;
  const first = account(), other = account(); // neither is the one that other stories use: what is made here stays
  const bodyOf = (operation) => operation.requestBody?.content['application/json'].schema;
  const creates = new Map(Object.entries(paths).filter(([path, item]) => item.post && bodyOf(item.post) && !path.includes('{id}') && !/\{(?!edge_id)/.test(path)).map(([path, item]) => [item.post.tags[0], { path, schema: bodyOf(item.post) }]));
  const theirs = await world(other.must);
  const a = await oneOfEach(creates, await world(first.must), first.api), b = await oneOfEach(creates, theirs, other.api);
  const differences = [], counts = { bodies: 0, paths: 0 }, others = [];

  async function same(what, id, send) {
    const [real, none] = [await send(id), await send(nothing(id))];
    if (said(real, id) !== said(none, nothing(id))) differences.push(`${what}:\n  ${said(real, id)}\n  ${said(none, nothing(id))}`);
    if (real.status < 400) differences.push(`${what} with ${id} was accepted: ${real.raw}`);
    return `${real.status} ${real.body?.error_code}`;
  }
  const edgeOf = (made) => new URL(made.https_edge_route.uri).pathname.split('/')[3];
  const fill = (path, made, kind) => path.replace('{id}', made[kind]?.id).replace('{edge_id}', edgeOf(made));

  for (const [path, item] of Object.entries(paths)) for (const [method, operation] of Object.entries(item)) {
    const kind = operation.tags[0], schema = bodyOf(operation), verb = method.toUpperCase();
    for (const [at, kinds, inside] of schema ? references(schema) : []) for (const target of kinds) {
      if (!a[target] || (path.includes('{id}') && !b[kind])) continue;
      const what = `${verb} ${path} ${at.join('.')} of ${target}`;
      const code = await same(what, a[target].id, (one) => {
        const r = new Random(3), body = method === 'patch' ? {} : object(r, schema, theirs, 0);
        if (method === 'post') mend[kind]?.(r, body, theirs);
        let holder = body, within = schema;
        for (const name of at.slice(0, -1)) {
          within = plain(within.properties[name]);
          holder = holder[name] ??= object(r, within, theirs, 0);
        }
        holder[at.at(-1)] = inShape(inside, one);
        return other.api(verb, fill(path, b, kind), body);
      });
      counts.bodies++;
      if (code !== '400 ERR_POSTERN_128') others.push(`${what}: ${code}`);
    }
    for (const name of path.match(/\{[a-z_]+\}/g) ?? []) {
      const target = name === '{id}' ? kind : name === '{edge_id}' ? 'https_edge' : [...creates.keys()].find((one) => one.endsWith(name.slice(1, -4)));
      const id = name === '{edge_id}' ? edgeOf(a) : a[target]?.id;
      if (!id) continue;
      counts.paths++;
      const code = await same(`${verb} ${path} with ${name} of ${target}`, id, (one) => {
        const body = schema ? (method === 'patch' ? { description: 'x' } : object(new Random(3), schema, theirs, 0)) : undefined;
        return other.api(verb, fill(path.replace(name, one), name === '{edge_id}' ? a : b, kind), body);
      });
      if (!code.startsWith('404 ')) others.push(`${verb} ${path} with ${name} of ${target}: ${code}`);
    }
  }
  assert.deepEqual(differences, []);
  assert.deepEqual(others, [], 'all of them are about the object, not about what else is in the request');
  assert.ok(counts.bodies >= 80 && counts.paths >= 150, JSON.stringify(counts));
});
