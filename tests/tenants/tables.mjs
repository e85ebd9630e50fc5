// What there is to try, as /openapi.json says it, which is made from proto/*.def: kinds, operations, fields. Nothing is listed by hand.
import { plain } from '../contract/generate.mjs';

const schemaOf = (operation) => operation.requestBody?.content['application/json'].schema ?? null;

export class Tables {
  constructor({ paths, components }) {
    this.schemas = components.schemas;
    this.operations = Object.entries(paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) => ({
      id: operation.operationId, kind: operation.tags[0], method: method.toUpperCase(), path, schema: schemaOf(operation),
      params: [...path.matchAll(/\{([a-z_]+)\}/g)].map((one) => one[1]),
      query: (operation.parameters ?? []).filter((one) => one.in === 'query').map((one) => one.name),
    })));
    this.byId = new Map(this.operations.map((one) => [one.id, one]));
    this.kinds = [...new Set(this.operations.filter(({ path }) => path.endsWith('/{id}')).map(({ kind }) => kind))];
    this.collections = new Map(this.kinds.map((kind) => [this.operations.find((one) => one.kind === kind && one.path.endsWith('/{id}')).path.slice(0, -'/{id}'.length), kind]));
  }
  create(kind) { return this.byId.get(`${kind}_create`); }
  modules(kind) { return this.operations.filter((one) => one.kind === kind && one.method === 'PUT'); }
  members(kind) { return this.operations.filter((one) => one.kind === kind && one.schema && one.method === 'POST' && one.params.includes('id')); }
  // The kind whose objects stand at a parameter of a path; null: it is the key of a part of an object.
  at(path, param) { return this.collections.get(path.slice(0, path.indexOf(`/{${param}}`))) ?? null; }
}

// [path of names, property, schema] of every field that holds a value; 0 in the path is the first item of a list of objects.
export function* leaves(schema, path = []) {
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const inside = plain(property), at = [...path, name];
    if (inside.type === 'object' && inside.properties) yield* leaves(inside, at);
    else if (inside.type === 'array' && inside.items.properties) yield* leaves(inside.items, [...at, 0]);
    else yield [at, property, inside];
  }
}

// Does the field hold ids of objects? Of which kinds: those that the table names, or any.
export function refersTo(at, property, inside) {
  const kinds = property['x-kinds'] ?? inside['x-kinds'];
  if (kinds) return kinds.split('|');
  return /_ids?$/.test(String(at.at(-1))) && inside.type !== 'boolean' ? [] : null;
}

export const get = (value, at) => at.reduce((one, name) => one?.[name], value);
// make(schema): what stands around the value where nothing does yet.
export function put(body, schema, at, value, make) {
  let holder = body, within = schema;
  for (const [i, name] of at.slice(0, -1).entries()) {
    within = name === 0 ? within.items : plain(within.properties[name]);
    holder = holder[name] ??= typeof at[i + 1] === 'number' ? [] : make(within);
  }
  holder[at.at(-1)] = value;
  return body;
}
