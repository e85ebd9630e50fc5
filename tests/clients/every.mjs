// Everything that a client can call, whatever its language: every kind is made with the least and with all, read back, listed over
// more than one page, updated field by field, deleted, and not found after. A client is what driver.mjs says; which methods it has
// it says itself, so that one that is not called is a failure, and so is one that is called and does not do what is asked.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import os from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { unique } from '../support/postern.mjs';

// Methods that cannot succeed, with the error that they get; everything else must.
const MODULE_GONE = 'the module has become traffic_policy';
const LEFT_OUT = {
  'edge_modules.https_edge_route_policy': [118, MODULE_GONE],
  'edge_modules.tcp_edge_policy': [118, MODULE_GONE],
  'edge_modules.tls_edge_policy': [118, MODULE_GONE],
  abuse_reports: [118, 'reports go to the operator of a hosted service'],
  kubernetes_operators: [118, 'the operator connects as an agent'],
  ai_gateway_api_keys: [118, 'a hosted service of its own'],
  ai_gateway_provider_keys: [118, 'a hosted service of its own'],
};
// Objects that no client makes: their lists are empty and asking for one says that there is none.
const NOT_MADE = {
  tunnels: 'agents make them', tunnel_sessions: 'agents make them',
  application_users: 'people who sign in make them', application_sessions: 'people who sign in make them',
};
// Sent and never shown.
const UNSEEN = new Set(['private_key_pem', 'value', 'private_key_type', 'elliptic_curve', 'key_size', 'api_key', 'client_secret', 'secret']);
// Sent empty they are chosen by the server.
const CHOSEN = new Set(['valid_after', 'valid_until']);
const VOLATILE = new Set(['updated_at', 'last_updated_by', 'token']);

const empty = (value) => value === undefined || value === null || value === '' || value === false || value === 0
  || (typeof value === 'object' && Object.values(value).every(empty));
const plural = (name) => name.replace(/y_ids$/, 'ies').replace(/_ids$/, 's');
const loose = (name) => name.replace(/[-_]/g, '').toLowerCase();

// Where what was sent under a name is shown, and as what.
function shown(name, value, result) {
  if (name in result) return result[name];
  if (name === 'name' && 'domain' in result) return result.domain;
  if (name.endsWith('_ids') && Array.isArray(value)) return result[plural(name)];
  return name.endsWith('_id') ? result[name.replace(/_id$/, '')] : undefined;
}

// Is what was sent in what came back? Texts of times and references are told in more words than they are sent.
function says(got, sent) {
  if (empty(sent)) return empty(got) || got === 'edge';
  if (Array.isArray(sent)) return Array.isArray(got) && got.length === sent.length && sent.every((one, i) => says(got[i], one));
  if (sent && typeof sent === 'object') return Boolean(got) && Object.entries(sent).every(([name, one]) => (UNSEEN.has(name) && empty(got[name])) || says(at(got, name, one), one));
  if (got && typeof got === 'object') return got.id === sent;
  return got === sent || String(got).toLowerCase() === String(sent).toLowerCase() || Date.parse(got) === Date.parse(sent);
}
function at(got, name, value) {
  const there = shown(name, value, got);
  return there !== undefined ? there : Object.entries(got).find(([other]) => loose(other) === loose(name))?.[1];
}
const steady = (result) => Object.fromEntries(Object.entries(result).filter(([name]) => !VOLATILE.has(name)));

export function pem(name) {
  const place = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-clients-'));
  try {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30', '-subj', '/CN=clients.test', '-addext', `subjectAltName=DNS:${name}`,
      '-keyout', `${place}/key`, '-out', `${place}/pem`], { stdio: 'ignore' });
    return [fs.readFileSync(`${place}/pem`, 'utf8'), fs.readFileSync(`${place}/key`, 'utf8')];
  } finally {
    fs.rmSync(place, { recursive: true });
  }
}

class Run {
  constructor(driver) {
    Object.assign(this, { driver, services: driver.services, called: new Set(), failures: [], calls: 0, busy: 0, made: [] });
  }

  fail(where, what) { this.failures.push(`${where}: ${what}`); }
  has(service, method) { return Boolean(this.services[service]?.[method] !== undefined); }
  takes(service, method, name) { return this.services[service][method] === null || this.services[service][method].includes(name); }
  // The part of what is said that this age of the client knows.
  known(service, method, args) {
    const all = { ...args };
    if ('domain' in all && !this.takes(service, method, 'domain')) all.name = all.domain;
    return Object.fromEntries(Object.entries(all).filter(([name]) => this.takes(service, method, name)));
  }

  // code: the error that must come, as the client's own class says it. Undefined is the answer to one that failed.
  async call(service, method, args, code) {
    if (!this.has(service, method)) return undefined;
    const where = `${service}.${method}`, given = this.known(service, method, args);
    this.called.add(where);
    this.calls++;
    const { result, error, broken } = await this.patient(service, method, given);
    const told = `${where} ${JSON.stringify(given).slice(0, 300)}`;
    if (broken) { this.fail(told, `the client broke: ${broken}`); return undefined; }
    if (error) {
      const right = [code].flat().some((one) => error.code === `ERR_POSTERN_${one}`) && error.message?.length > 5 && /^op_/.test(error.operation) && error.notFound === (error.status === 404);
      if (!right) this.fail(told, `${JSON.stringify(error)}${code ? `, where ${code} must come` : ''}`);
      return undefined;
    }
    if (code) this.fail(told, `${code} must come, not ${JSON.stringify(result)?.slice(0, 300)}`);
    return result ?? null;
  }

  // A busy machine answers 503, which says to ask again. What was done all the same is not found by a second deletion.
  async patient(service, method, given) {
    for (let tries = 1; ; tries++) {
      const answer = await this.driver.call(service, method, given);
      const busy = answer.error?.status === 503 || /Server failed with 503/.test(answer.broken);
      if (!busy || tries === 10) return tries > 1 && method.startsWith('delete') && answer.error?.notFound ? { result: null } : answer;
      this.busy++;
      await new Promise((resolve) => setTimeout(resolve, 200 * tries));
    }
  }

  sent(where, args, result) {
    for (const [name, value] of Object.entries(args))
      if (!(UNSEEN.has(name) && empty(result[name])) && !(CHOSEN.has(name) && empty(value)) && !['id', 'edge_id', 'subscription_id'].includes(name) && !says(at(result, name, value), value)) this.fail(where, `${name} was sent as ${JSON.stringify(value)} and is ${JSON.stringify(at(result, name, value))}`);
  }

  same(where, was, is, but = {}) {
    const changed = new Set(Object.entries(but).flatMap(([name]) => [name, name.replace(/_id$/, ''), plural(name)]));
    for (const name of new Set([...Object.keys(was), ...Object.keys(is)])) {
      if (VOLATILE.has(name) || changed.has(name)) continue;
      if (!isDeepStrictEqual(was[name], is[name])) this.fail(where, `${name} was ${JSON.stringify(was[name])} and is ${JSON.stringify(is[name])}`);
    }
  }

  // One object from its making on. ids: what its path has beside its own id.
  async make(service, args, ids = {}) {
    const result = await this.call(service, 'create', { ...ids, ...args });
    if (!result) return null;
    this.sent(`${service}.create`, this.known(service, 'create', args), result);
    const got = await this.call(service, 'get', { ...ids, id: result.id });
    if (got) this.same(`${service}.get after create`, result, got);
    this.made.push([service, { ...ids, id: result.id }]);
    return result;
  }

  // Pages of one object and a page of all say the same, each object once and the new ones among them.
  async pages(service, wanted, method = 'list', args = {}) {
    if (!this.has(service, method)) return;
    const single = await this.call(service, method, { ...args, limit: '1' }), whole = await this.call(service, method, { ...args, limit: '100' });
    if (!single || !whole) return;
    const ids = single.map(({ id }) => id);
    if (!isDeepStrictEqual(single, whole)) this.fail(`${service}.${method}`, `${ids} page by page, ${whole.map(({ id }) => id)} in one`);
    if (new Set(ids).size !== ids.length || ids.length < 2 || !wanted.every((id) => ids.includes(id))) this.fail(`${service}.${method}`, `${wanted} are not each once in ${ids}`);
  }

  async update(service, was, ids, change) {
    const given = this.known(service, 'update', change);
    if (Object.keys(given).length !== Object.keys(change).length) return was; // this age does not know the field
    const where = `${service}.update of ${Object.keys(change)}`;
    const result = await this.call(service, 'update', { ...ids, ...given });
    if (!result) return was;
    this.sent(where, given, result);
    this.same(where, was, result, given);
    const got = await this.call(service, 'get', ids);
    if (got) this.same(`${where}, read`, result, got);
    return got ?? result;
  }

  // least and most: what two objects of a kind are made with. changes: updates, each of which must change nothing else.
  async life(service, least, most = least, changes = [], nothing = undefined) {
    if (!this.services[service]) return null;
    const ids = (one) => ({ id: one.id });
    const first = await this.make(service, least), second = await this.make(service, most);
    if (!first || !second) return null;
    await this.pages(service, [first.id, second.id]);
    if (this.has(service, 'update')) {
      let is = await this.call(service, 'get', ids(second));
      const again = await this.call(service, 'update', ids(second), nothing);
      if (again) this.same(`${service}.update of nothing`, is, again);
      const texts = this.takes(service, 'update', 'description') && 'description' in is ? [{ description: 'changed' }, { metadata: 'changed as well' }] : [];
      for (const change of [...texts, ...changes]) is = await this.update(service, is, ids(second), change);
    }
    return first;
  }

  // A module: nothing, one value, another that replaces the whole of it, and nothing again.
  async module(name, ids, value, other, incomplete) {
    const service = `edge_modules.${name}`;
    if (!this.services[service] || LEFT_OUT[service]) return;
    await this.call(service, 'delete', ids);
    if (incomplete) await this.call(service, 'replace', { ...ids, module: {} }, incomplete);
    for (const module of [value, other]) {
      const result = await this.call(service, 'replace', { ...ids, module });
      if (!result) continue;
      this.sent(`${service}.replace`, module, result);
      const got = await this.call(service, 'get', ids);
      if (got) this.same(`${service}.get`, result, got);
    }
    await this.call(service, 'delete', ids);
    await this.call(service, 'get', ids, 140);
    await this.call(service, 'delete', ids);
  }

  async remove(service, ids) {
    await this.call(service, 'delete', ids);
    await this.call(service, 'get', ids, 140);
    await this.call(service, 'update', { ...ids, description: 'never', name: 'never' }, 140);
    await this.call(service, 'delete', ids, 140);
  }
}

async function modules(run, { edge, route, tcp, tls, response, policy, authority }) {
  const restriction = [{ ip_policy_ids: [policy.id] }, { enabled: false, ip_policy_ids: [policy.id] }, 162];
  const traffic = [{ value: '{"on_tcp_connect":[]}' }, { enabled: false, value: 'on_tcp_connect: []' }, 179];
  const mutual = [{ certificate_authority_ids: [authority.id] }, { enabled: false, certificate_authority_ids: [authority.id] }, 163];
  const backend = [{ backend_id: response.id }, { enabled: false, backend_id: response.id }, 122];
  const metadata = '<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://a.test"></EntityDescriptor>';
  const oidc = { issuer: 'https://a.test', client_id: 'a', client_secret: 'b' };
  const rows = {
    backend, ip_restriction: restriction,
    request_headers: [{ add: { 'x-a': 'b' } }, { remove: ['x-a'] }], response_headers: [{ remove: ['x-a'] }, { add: { 'x-a': 'b' } }],
    compression: [{ enabled: true }, { enabled: false }],
    circuit_breaker: [{ error_threshold_percentage: 0.5, tripped_duration: 20 }, { error_threshold_percentage: 0.25, volume_threshold: 7 }, 161],
    webhook_verification: [{ provider: 'github', secret: 's' }, { provider: 'slack', secret: 't' }, 167],
    oauth: [{ provider: { google: {} } }, { provider: { github: { client_id: 'a', client_secret: 'b', scopes: ['user:email', 'read:user', 'read:org'], teams: ['a/b'] } }, maximum_duration: 60 }, [121, 169]],
    saml: [{ idp_metadata: metadata }, { idp_metadata: metadata, force_authn: true, authorized_groups: ['a'] }, 177],
    oidc: [oidc, { ...oidc, client_id: 'c', scopes: ['openid', 'email'], inactivity_timeout: 60 }, 176],
    websocket_tcp_converter: [{ enabled: true }, { enabled: false }], user_agent_filter: [{ deny: ['x'] }, { allow: ['y'] }],
    traffic_policy: [{ value: '{"on_http_request":[]}' }, { enabled: false, value: 'on_http_response: []' }, 179],
  };
  const at = { edge_id: edge.id, id: route.id };
  for (const [name, row] of Object.entries(rows)) await run.module(`https_edge_route_${name}`, at, ...row);
  for (const [prefix, { id }, own] of [
    ['https_edge', edge, { mutual_tls: mutual, tls_termination: [{ min_version: '1.3' }, { min_version: '1.2' }] }],
    ['tcp_edge', tcp, { backend, ip_restriction: restriction, traffic_policy: traffic }],
    ['tls_edge', tls, { backend, ip_restriction: restriction, mutual_tls: mutual, traffic_policy: traffic, tls_termination: [{ min_version: '1.3' }, { terminate_at: 'upstream' }] }]])
    for (const [name, row] of Object.entries(own)) await run.module(`${prefix}_${name}`, { id }, ...row);
}

async function sources(run, subscription) {
  const service = 'event_sources', at = (type) => ({ subscription_id: subscription.id, type });
  if (!run.services[service]) return;
  const listed = async () => {
    const list = await run.call(service, 'list', { subscription_id: subscription.id });
    return (Array.isArray(list) ? list : list?.sources ?? []).map(({ type }) => type).sort();
  };
  const before = await listed();
  for (const type of ['http_request_complete.v0', 'api_key_created.v0']) {
    const made = await run.call(service, 'create', at(type));
    if (!made) continue;
    for (const again of [await run.call(service, 'get', at(type)), await run.call(service, 'update', at(type))]) if (again) run.same(`${service} of ${type}`, made, again);
  }
  const types = ['api_key_created.v0', 'http_request_complete.v0', ...before].sort();
  if (!isDeepStrictEqual(await listed(), types)) run.fail(`${service}.list`, `is not ${types}`);
  await run.call(service, 'delete', at('api_key_created.v0'));
  await run.call(service, 'get', at('api_key_created.v0'), 140);
  if (!isDeepStrictEqual(await listed(), types.slice(1))) run.fail(`${service}.list`, `is not ${types.slice(1)} after a deletion`);
}

async function edges(run, { address, host, response, policy, authority }) {
  const edge = await run.life('edges.https', {}, { hostports: [`${host}:443`], tls_termination: { min_version: '1.3' } }, [{ mutual_tls: { certificate_authority_ids: [authority.id] } }, { hostports: [`other.${host}:443`] }, { tls_termination: { min_version: '1.2' } }]);
  const tcp = await run.life('edges.tcp', {}, { hostports: [address.addr] }, [{ ip_restriction: { ip_policy_ids: [policy.id] } }, { backend: { backend_id: response.id } }]);
  const tls = await run.life('edges.tls', {}, { hostports: [`tls.${host}:443`] }, [{ mutual_tls: { certificate_authority_ids: [authority.id] } }, { tls_termination: { terminate_at: 'edge', min_version: '1.3' } }]);
  const service = 'edges.https_routes', at = { edge_id: edge.id };
  const route = await run.make(service, { match_type: 'path_prefix', match: '/', backend: { backend_id: response.id } }, at);
  const other = await run.make(service, { match_type: 'exact_path', match: '/a', description: 'a', metadata: 'b', compression: { enabled: true }, request_headers: { add: { 'x-a': 'b' } } }, at);
  let is = await run.call(service, 'get', { ...at, id: other.id });
  for (const change of [{}, { match: '/b' }, { response_headers: { remove: ['x-b'] } }, { compression: { enabled: false } }]) is = await run.update(service, is, { ...at, id: other.id }, change);
  const whole = await run.call('edges.https', 'get', { id: edge.id });
  if (!isDeepStrictEqual(whole?.routes?.map(({ id }) => id).sort(), [route.id, other.id].sort())) run.fail('edges.https.get', `has other routes: ${JSON.stringify(whole?.routes)}`);
  await modules(run, { edge, route, tcp, tls, response, policy, authority });
}

async function endpoints(run, host) {
  const service = 'endpoints', internal = `https://${host.split('.')[0]}.internal`;
  if (run.has(service, 'create')) {
    await run.life(service, { url: internal, type: 'cloud', traffic_policy: '{"on_http_request":[]}', bindings: ['internal'] },
      { url: internal.replace('.internal', '2.internal'), type: 'cloud', traffic_policy: '{"on_http_request":[]}', bindings: ['internal'], description: 'a', metadata: 'b' },
      [{ traffic_policy: '{"on_http_response":[]}' }], 125);
  }
  await run.pages(service, []);
  const [one, other] = await run.call(service, 'list', { limit: '100' }) ?? [];
  if (!one) return;
  const got = await run.call(service, 'get', { id: one.id });
  if (got) run.same('endpoints.get', one, got);
  if (run.takes(service, 'list', 'id') && run.driver.filters !== false) {
    const found = await run.call(service, 'list', { id: [one.id, other.id] });
    if (!isDeepStrictEqual(found?.map(({ id }) => id).sort(), [one.id, other.id].sort())) run.fail('endpoints.list by id', JSON.stringify(found));
  }
}

async function all(run) {
  const { driver } = run, host = unique('clients'), [chain, key] = pem(host), [otherChain] = pem('authority.test');
  const texts = { description: 'a', metadata: 'b' };
  const certificate = await run.life('tls_certificates', { certificate_pem: chain, private_key_pem: key }, { certificate_pem: chain, private_key_pem: key, ...texts });
  const domain = await run.life('reserved_domains', { domain: host }, { domain: `tls.${host}`, ...texts }, [{ certificate_id: certificate.id }], 125);
  await run.make('reserved_domains', { domain: `other.${host}` });
  const address = await run.life('reserved_addrs', {}, texts, [], 125);
  await run.life('backends.static_address', { address: 'a.test:80' }, { address: 'a.test:443', tls: { enabled: true }, ...texts }, [{ address: 'b.test:444' }, ...(driver.empties === false ? [] : [{ tls: { enabled: false } }])]);
  const response = await run.life('backends.http_response', {}, { body: 'b', headers: { 'x-a': 'b' }, status_code: 201, ...texts }, [{ body: 'c' }, { status_code: 202 }, { headers: { 'x-c': 'd' } }]);
  const other = await run.make('backends.http_response', { body: 'other' });
  const weights = (...all) => (driver.maps === false ? {} : Object.fromEntries(all));
  const weighted = await run.life('backends.weighted', { backends: weights([response.id, 1]) }, { backends: weights([response.id, 1], [other.id, 2]), ...texts }, [{ backends: weights([other.id, 9]) }]);
  await run.life('backends.failover', { backends: [response.id] }, { backends: [response.id, weighted?.id ?? other.id], ...texts }, [{ backends: [other.id, response.id] }]);
  await run.life('backends.tunnel_group', { labels: { app: 'x' } }, { labels: { app: 'x', dc: 'y' }, ...texts }, [{ labels: { app: 'z' } }]);
  const policy = await run.life('ip_policies', {}, texts, [], 125);
  await run.life('ip_policy_rules', { cidr: '192.0.2.0/24', ip_policy_id: policy.id, action: 'allow' }, { cidr: '2001:db8::/32', ip_policy_id: policy.id, action: 'deny', ...texts }, [{ cidr: '198.51.100.0/24' }], 125);
  await run.life('ip_restrictions', { type: 'endpoints', ip_policy_ids: [policy.id] }, { type: 'dashboard', ip_policy_ids: [policy.id], ...texts });
  await run.life('agent_ingresses', { domain: `agents.${host}` }, { domain: `more.agents.${host}`, ...texts });
  await run.life('api_keys', {}, texts);
  for (const kind of ['bot_users', 'service_users']) await run.life(kind, { name: 'one' }, { name: 'another', active: false }, [{ name: 'changed' }, { active: true }]);
  await run.life('credentials', {}, { acl: ['bind:x'], ...texts }, [{ acl: ['bind:y', 'bind:z'] }], 125);
  const authority = await run.life('certificate_authorities', { ca_pem: otherChain }, { ca_pem: otherChain, ...texts });
  const ssh = await run.life('ssh_certificate_authorities', {}, { private_key_type: 'ecdsa', elliptic_curve: 'p384', ...texts });
  await run.life('ssh_credentials', { public_key: ssh.public_key }, { public_key: (await run.make('ssh_certificate_authorities', {})).public_key, acl: ['bind:x'], ...texts }, [{ acl: ['bind:y'] }]);
  // the Python client says times as a type that it cannot send, and sends them empty
  const times = driver.times === false ? { valid_after: '', valid_until: '' } : { valid_after: '2030-01-01T00:00:00Z', valid_until: '2031-01-01T00:00:00Z' };
  const signed = { ssh_certificate_authority_id: ssh.id, public_key: ssh.public_key };
  await run.life('ssh_host_certificates', { ...signed, ...(driver.times === false && times) }, { ...signed, principals: ['a.test'], ...times, ...texts });
  await run.life('ssh_user_certificates', { ...signed, ...(driver.times === false && times) }, { ...signed, principals: ['a'], extensions: { 'permit-pty': '' }, critical_options: { 'force-command': 'true' }, ...times, ...texts });
  const vault = await run.life('vaults', { name: host }, { name: `other.${host}`, ...texts });
  if (vault) {
    const by = run.takes('secrets', 'create', 'vault_id') ? { vault_id: vault.id } : { vault_name: host };
    const secret = await run.life('secrets', { name: 'a', value: 'v', ...by }, { name: 'b', value: 'w', ...by, ...texts }, [{ value: 'changed' }]);
    if (secret && run.has('vaults', 'get_secrets_by_vault')) {
      const found = await run.call('vaults', 'get_secrets_by_vault', { id: vault.id, limit: '100' });
      if ((Array.isArray(found) ? found : found?.secrets)?.length !== 2) run.fail('vaults.get_secrets_by_vault', JSON.stringify(found));
    }
  }
  const stream = (name) => ({ firehose: { auth: { role: { role_arn: 'arn:aws:iam::123456789012:role/a' } }, delivery_stream_arn: `arn:aws:firehose:us-east-1:123456789012:deliverystream/${name}` } });
  const destination = await run.life('event_destinations', { format: 'json', target: stream('a') }, { format: 'json', target: stream('b'), ...texts }, [{ target: stream('c') }]);
  if (driver.datadog !== false) await run.life('event_destinations', ...['a', 'b'].map((key) => ({ format: 'json', target: { datadog: { api_key: key, ddsite: 'datadoghq.com' } } })), [{ target: { datadog: { api_key: 'c', ddsite: 'datadoghq.eu' } } }]);
  const subscription = await run.life('event_subscriptions', { sources: [{ type: 'vault_created.v0' }] }, { sources: [{ type: 'vault_created.v0' }], destination_ids: [destination.id], ...texts }, [...(driver.empties === false ? [] : [{ destination_ids: [] }]), { sources: [{ type: 'api_key_created.v0' }] }]);
  await sources(run, subscription);
  await edges(run, { address, host, response, policy, authority });
  await endpoints(run, host);

  // what is taken off a domain; certificates of an ACME authority are refused where the server has no account there
  const at = { id: domain.id };
  if (run.takes('reserved_domains', 'update', 'certificate_id')) await run.update('reserved_domains', await run.call('reserved_domains', 'get', at), at, { certificate_id: certificate.id });
  await run.call('reserved_domains', 'delete_certificate', at);
  if (run.takes('reserved_domains', 'update', 'certificate_management_policy')) await run.call('reserved_domains', 'update', { ...at, certificate_management_policy: { authority: 'letsencrypt', private_key_type: 'rsa' } }, 186);
  await run.call('reserved_domains', 'delete_certificate_management_policy', at);
  const bare = await run.call('reserved_domains', 'get', at);
  if (!empty(bare?.certificate) || !empty(bare?.certificate_management_policy)) run.fail('reserved_domains.delete_certificate', `left ${JSON.stringify(bare)}`);

  for (const [service, [code, why]] of Object.entries(LEFT_OUT))
    for (const method of Object.keys(run.services[service] ?? {}))
      await run.call(service, method, { edge_id: `edghts_${'0'.repeat(27)}`, id: 'x', module: {}, urls: ['https://a.test'], description: why, region: 'us', deployment: {}, features: [] }, code);
  for (const service of Object.keys(NOT_MADE).filter((name) => run.services[name]))
    for (const method of Object.keys(run.services[service])) {
      const listed = await run.call(service, method, method === 'list' ? {} : { id: 'nothing' }, method === 'list' ? undefined : 146);
      if (method === 'list' && !isDeepStrictEqual(listed, [])) run.fail(`${service}.list`, `is ${JSON.stringify(listed)}`);
    }

  // what refers to others goes first: backwards as it was made
  for (const [service, ids] of run.made.reverse()) await run.remove(service, ids);
}

// The story of one client: no failure, no method forgotten, one line of figures.
export async function story(name, driver) {
  const run = new Run(driver), methods = Object.entries(driver.services).flatMap(([service, own]) => Object.keys(own).map((method) => `${service}.${method}`));
  try {
    await all(run);
    const forgotten = methods.filter((method) => !run.called.has(method));
    if (forgotten.length) run.fail('never called', forgotten.join(' '));
  } catch (error) { // an object that was to be worked with is not there: why stands before it
    run.failures.push(String(error.stack));
  } finally {
    driver.stop();
  }
  assert.ok(run.failures.length === 0, `${run.failures.length} failures in ${run.calls} calls:\n${run.failures.slice(0, 40).join('\n')}`);
  assert.equal(run.called.size, methods.length);
  console.log(`# ${name}: ${methods.length} methods of ${Object.keys(driver.services).length} services, all called, ${run.calls} calls${run.busy ? `, ${run.busy} of them again after a 503` : ''}`);
}
