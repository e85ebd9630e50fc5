// Every limit that /openapi.json tells of a field that can be written: the value at the edge is accepted and comes back, the
// one past it is refused with the field's code. One body for each, with nothing else in it than what must be there.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { api, must, unique } from '../support/postern.mjs';
import { Random, isAbsent, mend, object, plain } from './generate.mjs';
import { world } from './world.mjs';

// [path of names, property, schema] of all that have limits.
function* limited(schema, path = []) {
  for (const [name, property] of Object.entries(schema.properties)) {
    const kind = plain(property), at = [...path, name];
    if (kind.type === 'object' && kind.properties) yield* limited(kind, at);
    else if (kind.type === 'string' && kind.maxLength && !kind.enum && !property['x-kinds']) yield [at, property, kind];
    else if (kind.type === 'integer' || kind.type === 'number') yield [at, property, kind];
    else if (kind.type === 'array' && kind.maxItems) yield [at, property, kind];
    else if (kind.type === 'object' && kind.maxProperties) yield [at, property, kind];
  }
}

// The longest value of a format that has at most n bytes: formats have rules of their own, which may bound them further.
const fill = (n, start, end = '') => start + 'a'.repeat(n - start.length - end.length) + end;
const name253 = `${Array.from({ length: 3 }, () => 'a'.repeat(63)).join('.')}.${'b'.repeat(61)}`;
const metadata = ['<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://', '.example"><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></EntityDescriptor>'];
const longest = {
  match: (n) => fill(n, '/'),
  cookie_prefix: (n) => fill(n, '', '.'),
  saml_metadata: (n) => fill(n, ...metadata),
  https_url: (n) => fill(n, 'https://a.test/'),
  traffic_policy: (n) => fill(n, '{"on_http_request":[{"name":"', '"}]}'),
  address: () => `${name253}:65535`,
  domain: () => name253,
  endpoint_url: () => `tls://${name253.slice(0, 244)}.internal:8443`,
  cidr: () => '2001:db8:1111:2222:3333:4444:5555:6666/128',
  secret_name: (n) => fill(n, ''),
  webhook_provider: () => 'github',
  event_format: () => 'json',
  arn_iam: (n) => fill(n, 'arn:aws:iam::1:role/'),
  arn_firehose: (n) => fill(n, 'arn:aws:firehose:eu-west-1:1:deliverystream/'),
  arn_kinesis: (n) => fill(n, 'arn:aws:kinesis:eu-west-1:1:stream/'),
  arn_logs: (n) => fill(n, 'arn:aws:logs:eu-west-1:1:log-group:'),
};

// Many different items of a format.
const item = {
  route_id: (i) => `edghtsrt_${String(i).padStart(27, '0')}`,
  edge_id: (i) => `edghts_${String(i).padStart(27, '0')}`,
  email: (i) => `a${i}@example.test`,
  email_domain: (i) => `a${i}.test`,
  team: (i) => `org/team${i}`,
  regex: (i) => `^x${i}$`,
  header: (i) => `x-h${i}`,
  acl: (i) => `bind:a${i}.test`,
};
const several = (n, make) => Array.from({ length: n }, (_, i) => make(i));

// The objects that lists of references at their limit need, made when they are first asked for.
const made = {};
const makers = {
  static_backend: () => ['/backends/static', { address: 'limit.test:80' }],
  ip_policy: () => ['/ip_policies', {}],
  certificate_authority: (here) => ['/certificate_authorities', { ca_pem: here.pem }],
  event_destination: () => ['/event_destinations', { format: 'json', target: { datadog: { api_key: 'a', ddsite: 'datadoghq.com' } } }],
  hostport: () => ['/reserved_domains', { domain: unique('limit') }],
  tcp_hostport: () => ['/reserved_addrs', {}],
};
async function names(what, n, here) {
  const list = (made[what] ??= []);
  while (list.length < n) list.push(await must('POST', ...makers[what](here)));
  return list.slice(0, n).map((one) => (what === 'hostport' ? `${one.domain}:443` : what === 'tcp_hostport' ? one.addr : one.id));
}

async function strings(kind, property, n, here) {
  const what = property['x-kinds']?.split('|')[0] ?? property['x-format'];
  return makers[what] ? names(what, n, here) : several(n, item[what] ?? ((i) => `x${i}`));
}

const edges = {
  string: (kind, property) => {
    const n = kind.maxLength, format = property['x-format'];
    return format
      ? { good: [longest[format]?.(n)].filter(Boolean), bad: ['x'.repeat(n + 1)] }
      : { good: ['x'.repeat(n), 'é'.repeat(n / 2)], bad: ['x'.repeat(n + 1), `${'é'.repeat(n / 2)}${n % 2 ? 'é' : 'x'}`] };
  },
  integer: (kind, property) => ({ good: [kind.minimum, kind.maximum], bad: [kind.minimum - (isAbsent(property, kind.minimum - 1) ? 2 : 1), kind.maximum + 1] }),
  number: (kind) => ({ good: [kind.minimum, kind.maximum], bad: [kind.minimum - 0.001, kind.maximum + 0.001] }),
  array: async (kind, property, here) => {
    const n = kind.maxItems;
    if (kind.items.type === 'object') return { good: kind.items.properties.value ? [several(n, (i) => ({ value: `v${i}` }))] : [], bad: [several(n + 1, () => ({}))] };
    if (kind.items.enum) return { good: [kind.items.enum.slice(-n)], bad: [several(n + 1, () => kind.items.enum[0])] };
    const all = await strings(kind, property, n + 1, here);
    return { good: [all.slice(1), ...(property['x-format'] || property['x-kinds'] ? [] : [['x'.repeat(kind.items.maxLength ?? 1)]])], bad: [all] };
  },
  object: async (kind, property, here) => {
    const all = await strings(kind, property, kind.maxProperties + 1, here);
    const map = (list) => Object.fromEntries(list.map((name) => [name, property['x-kinds'] ? 1 : 'v']));
    return { good: [map(all.slice(1))], bad: [map(all)] };
  },
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
const parsed = ['ca_pem', 'certificate_pem', 'private_key_pem', 'owner_id', 'vault_name', 'public_key', 'critical_options', 'extensions', 'sources'];

// A body with this value, and what must stand beside it.
function bodyWith(kind, path, value, here) {
  const r = new Random(1); // the same whoever asks first
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
  if (path.at(-1) === 'key_size') { body.private_key_type = 'rsa'; delete body.elliptic_curve; }
  holder[path.at(-1)] = value;
  return body;
}

test('every limit at its edge and one past it', { timeout: 600000 }, async () => {
  const { body: openapi } = await api('GET', '/openapi.json');
  const here = await world();
  const counts = { limits: 0, accepted: 0, refused: 0 }, failures = [], jobs = [];
  for (const [path, item] of Object.entries(openapi.paths)) {
    if (!item.post || path.includes('{id}')) continue;
    const kind = { name: item.post.tags[0], path: path.replace('{edge_id}', here.made.https_edge[0].id), create: item.post.requestBody.content['application/json'].schema };
    for (const [at, property, schema] of limited(kind.create)) jobs.push({ kind, at, property, ...(await edges[schema.type](schema, property, here)) });
  }

  async function accepted({ kind, at }, value) {
    const answer = await api('POST', kind.path, bodyWith(kind, at, value, here));
    if (answer.status !== 201) { failures.push(`${kind.name} ${at.join('.')} at its limit: ${answer.raw.slice(0, 300)}`); return; }
    const got = at.reduce((one, name) => one?.[name], answer.body);
    if (got !== undefined && got !== '' && !isDeepStrictEqual(got, value)) failures.push(`${kind.name} ${at.join('.')} came back as ${JSON.stringify(got).slice(0, 80)}`);
    await must('DELETE', new URL(answer.body.uri).pathname);
    counts.accepted++;
  }
  async function refused({ kind, at, property }, value) {
    const answer = await api('POST', kind.path, bodyWith(kind, at, value, here));
    if (answer.status !== 400 || answer.body.error_code !== property['x-error'] || !Object.keys(answer.body.details).some((key) => key.startsWith(at.join('.'))))
      failures.push(`${kind.name} ${at.join('.')} past its limit, ${property['x-error']} expected: ${answer.status} ${answer.raw.slice(0, 300)}`);
    counts.refused++;
  }
  // one at a time of a kind, and of the edges, which want the same hostports
  const lane = (job) => (job.kind.name.endsWith('_edge') ? 'edge' : job.kind.name);
  const lanes = [...new Set(jobs.map(lane))].map((name) => jobs.filter((job) => lane(job) === name));
  await Promise.all(lanes.map(async (list) => {
    for (const job of list) {
      counts.limits++;
      for (const value of parsed.includes(job.at.at(-1)) ? [] : job.good) await accepted(job, value);
      for (const value of job.bad) await refused(job, value);
    }
  }));
  for (const one of Object.values(made).flat()) await must('DELETE', new URL(one.uri).pathname);
  assert.deepEqual(failures, []);
  assert.ok(counts.limits >= 180, `${counts.limits} limits`);
  console.log(`# ${JSON.stringify(counts)}`);
});
