// Every limit that /openapi.json tells of a field that can be written: the value at the edge is accepted and comes back, the
// one past it is refused with the field's code. One body for each, with nothing else in it than what must be there.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { api, must } from '../support/postern.mjs';
import { Random, mend, object, plain } from './generate.mjs';
import { world } from './world.mjs';

const r = new Random(1);

// [path of names, schema] of all that have limits. Formats have rules of their own, which bound them further.
function* limited(schema, path = []) {
  for (const [name, property] of Object.entries(schema.properties)) {
    const kind = plain(property), at = [...path, name];
    if (kind.type === 'object' && kind.properties) yield* limited(kind, at);
    else if (kind.type === 'string' && kind.maxLength && !kind.enum && !property['x-format'] && !property['x-kinds']) yield [at, property, kind];
    else if (kind.type === 'integer' || kind.type === 'number') yield [at, property, kind];
    else if (kind.type === 'array' && kind.maxItems && kind.items.type === 'string' && !property['x-format'] && !property['x-kinds']) yield [at, property, kind];
  }
}

const edges = {
  string: (kind) => ({ good: ['x'.repeat(kind.maxLength), 'é'.repeat(kind.maxLength / 2)], bad: ['x'.repeat(kind.maxLength + 1), `${'é'.repeat(kind.maxLength / 2)}${kind.maxLength % 2 ? 'é' : 'x'}`] }),
  integer: (kind) => ({ good: [kind.minimum, kind.maximum], bad: [kind.minimum - 1, kind.maximum + 1] }),
  number: (kind) => ({ good: [kind.minimum, kind.maximum], bad: [kind.minimum - 0.001, kind.maximum + 0.001] }),
  array: (kind) => ({
    good: [Array.from({ length: kind.maxItems }, (_, i) => `x${i}`), ['x'.repeat(kind.items.maxLength ?? 1)]],
    bad: [Array.from({ length: kind.maxItems + 1 }, (_, i) => `x${i}`)],
  }),
};

// Of these objects exactly one member may be there; what it cannot be without stands here.
const auth = (path) => (path.includes('creds') ? { creds: { aws_access_key_id: 'AKIA', aws_secret_access_key: 'x' } } : { role: { role_arn: 'arn:aws:iam::1:role/x' } });
const alone = {
  'oauth.provider': () => ({ client_id: 'a', client_secret: 'b', scopes: ['openid'] }),
  target: (path) => ({
    datadog: { api_key: 'a', ddsite: 'datadoghq.com' },
    firehose: { delivery_stream_arn: 'arn:aws:firehose:eu-west-1:1:deliverystream/x', auth: auth(path) },
    kinesis: { stream_arn: 'arn:aws:kinesis:eu-west-1:1:stream/x', auth: auth(path) },
    cloudwatch_logs: { log_group_arn: 'arn:aws:logs:eu-west-1:1:log-group:x', auth: auth(path) },
    azure_logs_ingestion: { client_secret: 'x' },
  })[path[1]] ?? {},
};

// Only what they parse to, or name, is accepted: past the limit they are refused all the same.
const parsed = ['ca_pem', 'certificate_pem', 'private_key_pem', 'owner_id', 'vault_name'];

// A body with this value, and what must stand beside it.
function bodyWith(kind, path, value, here) {
  const body = object(r, kind.create, here, 0);
  let holder = body, schema = kind.create;
  if (path.length > 1) body[path[0]] ??= object(r, plain(schema.properties[path[0]]), here, 0);
  mend[kind.name]?.(r, body, here);
  path.slice(0, -1).forEach((name, i) => {
    const inside = plain(schema.properties[name]), rule = alone[path.slice(0, i).join('.')];
    if (rule) for (const other of Object.keys(holder)) delete holder[other];
    holder[name] ??= { ...object(r, inside, here, 0), ...rule?.(path) };
    holder = holder[name];
    schema = inside;
  });
  if (path.at(-1) === 'key_size') body.private_key_type = 'rsa';
  holder[path.at(-1)] = value;
  return body;
}

test('every limit at its edge and one past it', { timeout: 600000 }, async () => {
  const { body: openapi } = await api('GET', '/openapi.json');
  const here = await world();
  const counts = { limits: 0, accepted: 0, refused: 0 }, failures = [];
  for (const [path, item] of Object.entries(openapi.paths)) {
    if (!item.post || path.includes('{id}')) continue;
    const kind = { name: item.post.tags[0], path: path.replace('{edge_id}', here.made.https_edge[0].id), create: item.post.requestBody.content['application/json'].schema };
    for (const [at, property, schema] of limited(kind.create)) {
      const { good, bad } = edges[schema.type](schema);
      counts.limits++;
      for (const value of parsed.includes(at.at(-1)) ? [] : good) {
        const answer = await api('POST', kind.path, bodyWith(kind, at, value, here));
        if (answer.status !== 201) { failures.push(`${kind.name} ${at.join('.')} at its limit: ${answer.raw.slice(0, 300)}`); continue; }
        const got = at.reduce((one, name) => one?.[name], answer.body);
        if (got !== undefined && got !== '' && !isDeepStrictEqual(got, value)) failures.push(`${kind.name} ${at.join('.')} came back as ${JSON.stringify(got).slice(0, 80)}`);
        await must('DELETE', new URL(answer.body.uri).pathname);
        counts.accepted++;
      }
      for (const value of bad) {
        const answer = await api('POST', kind.path, bodyWith(kind, at, value, here));
        if (answer.status !== 400 || answer.body.error_code !== property['x-error'] || !Object.keys(answer.body.details).some((key) => key.startsWith(at.join('.'))))
          failures.push(`${kind.name} ${at.join('.')} past its limit, ${property['x-error']} expected: ${answer.status} ${answer.raw.slice(0, 300)}`);
        counts.refused++;
      }
    }
  }
  assert.deepEqual(failures, []);
  assert.ok(counts.limits >= 120, `${counts.limits} limits`);
  console.log(`# ${JSON.stringify(counts)}`);
});
