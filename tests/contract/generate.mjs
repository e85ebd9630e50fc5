// Random bodies from the request schemas of /openapi.json, which come from the tables that check them: valid ones, and
// valid ones with one fault. Rules across fields are not in a schema: `mend` below makes a body keep them.
import crypto from 'node:crypto';

export class Random {
  constructor(seed) { this.state = seed >>> 0 || 1; }
  next() { // mulberry32
    let t = (this.state = (this.state + 0x6d2b79f5) >>> 0);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  below(n) { return Math.floor(this.next() * n); }
  pick(list) { return list[this.below(list.length)]; }
  chance(p) { return this.next() < p; }
}

const letters = 'abcdefghijklmnopqrstuvwxyz';
const text = (r, n, from = letters) => Array.from({ length: n }, () => r.pick([...from])).join('');
const unicode = `${letters}ABC0189 _-./"'\\<>&%é😀ß漢`;
const bytes = (value) => Buffer.byteLength(value);
let serial = 0;
const own = (r) => `${text(r, 6)}${(serial++).toString(36)}`;

// One good and some bad values of each named format.
const saml = (r) => `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://${own(r)}.example"><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></EntityDescriptor>`;
const formats = {
  route_id: [(r) => `edghtsrt_${text(r, 27)}`, ['nonsense', 'edghts_1', 'edghtsrt_']],
  edge_id: [(r) => `edghts_${text(r, 27)}`, ['nonsense', 'edghtsrt_1', 'edghts_']],
  domain: [(r) => `${own(r)}.contract.test`, ['-a.test', 'a..test', 'a b.test', '']],
  hostport: [() => null, ['nonsense', 'a.test:0', 'a.test:70000', ':443']],
  tcp_hostport: [() => null, ['nonsense', ':1']],
  cidr: [(r) => `10.${r.below(256)}.${r.below(256)}.${r.below(256)}/32`, ['10.0.0.1', '10.0.0.1/8', 'x', '10.0.0.0/33']],
  address: [(r) => `${own(r)}.test:${1 + r.below(65535)}`, ['nonsense', 'a.test:0', 'a.test:65536', ':80']],
  match: [(r) => `/${own(r)}`, ['a b', '/%zz', '/a\\b', '/a?b']],
  header: [(r) => `x-${own(r)}`, ['a b', 'é', '', 'a:b']],
  webhook_provider: [(r) => r.pick(['github', 'slack', 'stripe', 'GITLAB']), ['nonsense']],
  audience: [(r) => `https://${own(r)}.example.test/api`, ['', 'a\nb', 'x'.repeat(256)]],
  scope: [(r) => `${own(r)}:read`, ['', 'a b', 'a\tb', 'a"', 'a\\b', 'é']],
  cookie_prefix: [(r) => `${own(r)}.`, ['a b', 'a;', 'a-b']],
  email: [(r) => `${own(r)}@example.test`, ['nonsense', '@a', 'a@']],
  email_domain: [(r) => `${own(r)}.test`, ['a@b', 'a b']],
  slug: [own, ['a b', 'a/b']],
  team: [(r) => `${own(r)}/${own(r)}`, ['nonsense', 'a/b/c']],
  https_url: [(r) => `https://${own(r)}.test/x`, ['http://a.test', 'nonsense', 'https://']],
  endpoint_url: [(r) => `https://${own(r)}.internal${r.pick(['', ':8443'])}`, ['nonsense', 'https://', 'ftp://a.test', 'https://a.test/x', 'tcp://a.test']],
  regex: [(r) => `^${own(r)}.*[0-9]+$`, ['(', '[', '(?=a)', 'a{9999}']],
  saml_metadata: [saml, ['nonsense', '<a/>', '<EntityDescriptor']],
  traffic_policy: [(r) => r.pick(['{"on_http_request":[{"actions":[{"type":"deny"}]}]}', 'on_http_request:\n- actions:\n  - type: deny\n']), ['{', '[1]', 'nonsense']],
  acl: [(r) => r.pick(['*', `bind:${own(r)}.test`]), ['nonsense', 'bind:']],
  label: [own, []],
  rfc3339: [(r) => `20${30 + r.below(60)}-0${1 + r.below(9)}-1${r.below(10)}T0${r.below(10)}:00:00Z`, ['yesterday', '2026-13-01T00:00:00Z']],
  secret_name: [(r) => `${own(r)}/a-b_c.d`, ['a b', 'é']],
  event_format: [(r) => r.pick(['json', 'JSON']), ['xml']],
  event_type: [(r) => r.pick(['api_key_created.v0', 'vault_deleted.v0', 'domain_updated.v0']), ['nonsense']],
  ssh_public_key: [() => {
    const raw = Buffer.from(crypto.generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x, 'base64url');
    const piece = (one) => { const size = Buffer.alloc(4); size.writeUInt32BE(one.length); return Buffer.concat([size, one]); };
    return `ssh-ed25519 ${Buffer.concat([piece(Buffer.from('ssh-ed25519')), piece(raw)]).toString('base64')}`;
  }, ['nonsense', 'ssh-ed25519 AAAA', 'ssh-dss AAAAB3NzaC1kc3M=']],
  arn_iam: [(r) => `arn:aws:iam::1:role/${own(r)}`, ['arn:aws:s3:::a', 'nonsense']],
  arn_firehose: [(r) => `arn:aws:firehose:eu-west-1:1:deliverystream/${own(r)}`, ['arn:aws:s3:::a']],
  arn_kinesis: [(r) => `arn:aws:kinesis:eu-west-1:1:stream/${own(r)}`, ['arn:aws:s3:::a']],
  arn_logs: [(r) => `arn:aws:logs:eu-west-1:1:log-group:${own(r)}`, ['arn:aws:s3:::a']],
};

// Clients send the empty value of these for what their caller left out: it is not taken for one.
const isEmpty = (value) => value === '' || value === 0 || (typeof value === 'object' && value !== null && Object.keys(value).length === 0);
export const isAbsent = (property, value) => Boolean(property?.['x-empty-is-absent']) && isEmpty(value);
// The body without them.
export const given = (schema, body) => Object.fromEntries(Object.entries(body).filter(([name, value]) => !isAbsent(schema.properties[name], value)));

export const plain = (schema) => (schema.anyOf ? { ...schema, ...schema.anyOf[0], anyOf: undefined } : schema);

function string(r, schema) {
  if (schema.enum) return r.pick(schema.enum.filter(Boolean));
  if (schema['x-format']) return formats[schema['x-format']][0](r);
  const max = schema.maxLength ?? 60;
  if (r.chance(0.03)) return 'x'.repeat(max); // the limit itself
  let value = text(r, 1 + r.below(Math.min(max, 30)), unicode);
  while (bytes(value) > max) value = value.slice(0, -1);
  return value || 'x';
}

const number = (r, schema) => (schema.type === 'integer'
  ? r.pick([schema.minimum, schema.maximum, schema.minimum + r.below(Math.min(1000, schema.maximum - schema.minimum + 1))])
  : schema.minimum + r.next() * (schema.maximum - schema.minimum));

function list(r, schema, world) {
  if (schema['x-kinds']) {
    const have = world.ids(schema['x-kinds']);
    const n = Math.min(have.length, Math.max(schema.minItems ?? 0, r.below(Math.min(schema.maxItems ?? 3, 3) + 1)));
    return have.slice(0, n);
  }
  const items = schema.items.type === 'string' ? { ...schema.items, 'x-format': schema['x-format'] } : schema.items;
  const n = Math.max(schema.minItems ?? 0, r.below(Math.min(schema.maxItems ?? 4, 4) + 1));
  const values = Array.from({ length: n }, () => value(r, items, world)).filter((one) => one !== null);
  return values.filter((one, i) => values.indexOf(one) === i);
}

function map(r, schema, world) {
  const out = {};
  if (schema['x-kinds']) {
    for (const id of world.ids(schema['x-kinds']).slice(0, r.below(3))) out[id] = r.below(10001);
    return out;
  }
  for (let i = r.below(Math.min(schema.maxProperties ?? 3, 3) + 1); i > 0; i--) out[schema['x-format'] === 'label' ? own(r) : `x-${own(r)}`] = text(r, 1 + r.below(20));
  return out;
}

export function value(r, given, world) {
  const schema = plain(given);
  if (schema.type === 'string') return schema['x-kinds'] ? world.ids(schema['x-kinds'])[0] ?? null : string(r, schema);
  if (schema.type === 'boolean') return r.chance(0.5);
  if (schema.type === 'integer' || schema.type === 'number') return number(r, schema);
  if (schema.type === 'array') return list(r, schema, world);
  if (schema.type === 'object') return schema.properties ? object(r, schema, world) : map(r, schema, world);
  return null;
}

export function object(r, schema, world, p = 0.5) {
  const out = {};
  for (const [name, property] of Object.entries(schema.properties)) {
    if (!property['x-required'] && !r.chance(p)) continue;
    const one = value(r, property, world);
    if (one !== null && one !== undefined) out[name] = one;
  }
  return out;
}

// Rules that span fields, kind by kind: what a client has to know besides the schema.
const drop = (body, ...names) => { for (const name of names) delete body[name]; };
const aws = (r, auth) => { drop(auth, r.chance(0.5) ? 'role' : 'creds'); auth.role ?? (auth.creds = { aws_access_key_id: 'AKIA', aws_secret_access_key: own(r) }); if (auth.role) drop(auth, 'creds'); };
const period = (r, body) => { if (body.valid_after && body.valid_until && body.valid_until <= body.valid_after) drop(body, 'valid_until'); };
export const mend = {
  tls_certificate: (r, body, world) => { body.certificate_pem = world.pem; body.private_key_pem = world.key; },
  certificate_authority: (r, body, world) => { body.ca_pem = world.pem; },
  ssh_credential: (r, body) => { drop(body, 'owner_id'); },
  ssh_certificate_authority: (r, body) => {
    drop(body, 'private_key_type', 'elliptic_curve', 'key_size');
    Object.assign(body, r.pick([{}, { private_key_type: 'ed25519' }, { private_key_type: 'ecdsa' }, { private_key_type: 'ecdsa', elliptic_curve: 'p521' }]));
  },
  ssh_host_certificate: period,
  ssh_user_certificate: (r, body) => { period(r, body); drop(body, 'critical_options', 'extensions'); },
  https_edge: (r, body) => { body.hostports = []; },
  tls_edge: (r, body) => { body.hostports = []; if (body.tls_termination?.terminate_at === 'upstream') { drop(body, 'mutual_tls'); drop(body.tls_termination, 'min_version'); } },
  tcp_edge: (r, body) => { body.hostports = []; },
  https_edge_route: (r, body) => {
    const auth = ['oauth', 'oidc', 'saml'].filter((name) => body[name]);
    drop(body, ...auth.slice(1));
    if (body.match_type) body.match_type = 'path_prefix'; // whatever of the modules it has already
    if (body.oauth) {
      const provider = r.pick(['github', 'google', 'gitlab', 'amazon']);
      const one = { client_id: own(r), client_secret: own(r), scopes: ['openid'] };
      body.oauth.provider = { [provider]: one };
    }
    if (body.oidc?.bearer_tokens && !body.oidc.bearer_audiences?.length) body.oidc.bearer_audiences = [formats.audience[0](r)];
    if (body.saml) drop(body.saml, 'key_rotation'); // which has to follow what is
    if (body.webhook_verification) body.webhook_verification.secret = own(r);
  },
  http_response_backend: (r, body) => { if (body.status_code) body.status_code = r.pick([200, 201, 404, 418, 503]); drop(body, 'headers'); },
  reserved_domain: (r, body) => { drop(body, 'certificate_management_policy'); },
  agent_ingress: (r, body) => { drop(body, 'certificate_management_policy'); },
  ip_restriction: (r, body) => { body.enforced = false; },
  endpoint: (r, body) => { drop(body, 'type'); body.bindings = ['internal']; },
  credential: (r, body) => { drop(body, 'owner_id'); },
  api_key: (r, body) => { drop(body, 'owner_id'); },
  service_token: (r, body) => { if (!body.edge_ids?.length && !body.route_ids?.length) body.route_ids = [formats.route_id[0](r)]; },
  secret: (r, body, world) => { drop(body, 'vault_name'); body.vault_id = world.ids('vault')[0]; },
  event_destination: (r, body) => {
    const kinds = { datadog: () => ({ api_key: own(r), ddsite: 'datadoghq.com' }), firehose: () => ({ delivery_stream_arn: formats.arn_firehose[0](r), auth: { role: { role_arn: formats.arn_iam[0](r) } } }) };
    const kind = r.pick(Object.keys(kinds));
    const given = body.target[kind];
    body.target = { [kind]: { ...given, ...kinds[kind]() } };
    if (body.target[kind].auth) aws(r, body.target[kind].auth);
  },
  event_subscription: (r, body) => { for (const source of body.sources ?? []) drop(source, 'fields', 'filter'); body.sources = (body.sources ?? []).filter((one, i, all) => all.findIndex((other) => other.type === one.type) === i); },
};

// Every place in a body that a fault can be put into: [holder, name, schema, path, depth].
function* places(schema, body, path = '') {
  for (const [name, property] of Object.entries(schema.properties)) {
    const at = path ? `${path}.${name}` : name;
    yield [body, name, property, at];
    const inner = plain(property);
    if (inner.type === 'object' && inner.properties && body[name]) yield* places(inner, body[name], at);
  }
}

const other = { string: [1, true, {}, []], boolean: ['true', 1, []], integer: ['1', 1.5, true], number: ['1', true, []], array: ['a', {}, 1], object: ['a', [], 1] };

// Put one fault into a good body: {body, code, path, fault}, or null when the place that was drawn has none.
export function spoil(r, schema, good) {
  const body = structuredClone(good);
  const [holder, name, property, path] = r.pick([...places(schema, body)]);
  const kind = plain(property);
  const nested = path.includes('.');
  const faults = {
    type: () => { holder[name] = r.pick(other[kind.type] ?? other.string); return 'ERR_POSTERN_121'; },
    unknown: () => { const extra = `x_${own(r)}`; holder[extra] = 1; return ['ERR_POSTERN_120', nested ? `${path.slice(0, path.lastIndexOf('.'))}.${extra}` : extra]; },
  };
  if (property['x-required'] && name in holder) faults.missing = () => { delete holder[name]; return nested ? property['x-error'] : 'ERR_POSTERN_122'; };
  if (kind.type === 'string' && kind.maxLength && !property['x-kinds'] && kind.maxLength < 70000) faults.long = () => { holder[name] = 'x'.repeat(kind.maxLength + 1); return property['x-error']; };
  if (kind.type === 'string' && kind.enum) faults.enum = () => { holder[name] = 'nonsense'; return property['x-error']; };
  if (kind.type === 'string' && formats[property['x-format']]?.[1].filter(Boolean).length) faults.format = () => { holder[name] = r.pick(formats[property['x-format']][1].filter(Boolean)); return property['x-error']; };
  if (kind.type === 'integer' || kind.type === 'number') faults.range = () => { holder[name] = r.chance(0.5) ? kind.maximum + 1 : isAbsent(property, kind.minimum - 1) ? kind.minimum - 2 : kind.minimum - 1; return property['x-error']; };
  if (kind.type === 'array' && kind.maxItems && kind.maxItems < 300) faults.many = () => { holder[name] = Array.from({ length: kind.maxItems + 1 }, (_, i) => (kind.items.type === 'object' ? {} : `x${i}`)); return property['x-error']; };
  if (kind.type === 'array' && kind.items.type === 'string') faults.item = () => { holder[name] = [...(holder[name] ?? []), 7].slice(-Math.max(1, kind.maxItems ?? 9)); return ['ERR_POSTERN_121', new RegExp(`^${path.replace(/[.[\]]/g, '\\$&')}\\[\\d+\\]$`)]; };
  if (kind.type === 'array' && kind.minItems) faults.few = () => { holder[name] = []; return property['x-error']; };
  if (property['x-kinds'] && kind.type === 'string') faults.reference = () => { holder[name] = `zz_${crypto.randomBytes(14).toString('hex').slice(0, 27)}`; return ['ERR_POSTERN_127', path]; };
  const fault = r.pick(Object.keys(faults));
  const made = faults[fault]();
  const [code, where] = Array.isArray(made) ? made : [made, path];
  return { body, code, path: where, fault };
}
