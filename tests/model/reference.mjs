// What an edge must answer, said a second time and in the simplest way: no tree, no claims, no revisions. It shares nothing
// with services/edge; where the two differ, one of them is wrong (services/edge/README.md, "Matching").
export const AGENT = 'Model/1'; // of every request

// Networks of the model's rules (tenants.mjs) that contain 127.0.0.1.
export const CONTAIN_US = ['0.0.0.0/0', '127.0.0.0/8', '127.0.0.1/32', '::ffff:127.0.0.0/104'];
export const OTHERS = ['127.0.0.2/32', '128.0.0.0/1', '10.0.0.0/8', '::/0', '::1/128'];

export class Reference {
  domains = new Map(); // id -> {id, account, name, certificate}; certificate: an id, or undefined: one of the local authority
  certificates = new Map(); // id -> {id, account, fingerprint}
  edges = new Map(); // id -> {id, account, hosts: [], locked, version}; locked: it demands client certificates, so nobody gets in
  routes = new Map(); // id -> {id, account, edge, exact, match, modules: {name: document}}
  policies = new Map(); // id -> {id, account, rules: Map of id -> [action, network]}
  backends = new Map(); // id -> {id, account, kind, ...document}

  // The edge whose hostport is the host, else the one with a wildcard over its first label.
  edgeOf(host) {
    const has = (name) => [...this.edges.values()].find((edge) => edge.hosts.includes(name));
    return has(host) ?? has(host.replace(/^[^.]+/, '*'));
  }

  // The domain whose certificate a handshake for the name gets.
  domainOf(host) {
    const of = (name) => [...this.domains.values()].find((domain) => domain.name === name);
    return of(host) ?? of(host.replace(/^[^.]+/, '*'));
  }

  // {refused} | {fingerprint} | {local: the name that the local authority signed}
  handshake(host, version) {
    const domain = this.domainOf(host), edge = this.edgeOf(host);
    if (!domain || edge?.locked || (edge?.version === '1.3' && version === 'TLSv1.2')) return { refused: true };
    const own = this.certificates.get(domain.certificate);
    return own ? { fingerprint: own.fingerprint } : { local: domain.name };
  }

  routeOf(edge, host, path) {
    const found = [...this.routes.values()].filter((route) => route.edge === edge.id).map((route) => {
      const slash = route.match.indexOf('/');
      const name = slash < 0 ? route.match : route.match.slice(0, slash);
      let rest = slash < 0 ? '' : route.match.slice(slash);
      if (rest === '' && route.exact) rest = '/'; // a host alone and the host with / are one match
      const fits = (name === '' || name === host) && (route.exact ? path === rest : path.startsWith(rest));
      return { route, fits, rank: [name !== '', route.exact, rest.length] };
    }).filter((one) => one.fits);
    found.sort((a, b) => b.rank[0] - a.rank[0] || b.rank[1] - a.rank[1] || b.rank[2] - a.rank[2]);
    return found[0]?.route;
  }

  // {denied} | {status, code} | {any: [what it may be]}; each of the latter {status, body, headers, without, seen, unseen}.
  answer(host, path) {
    const edge = this.edgeOf(host);
    if (!edge) return this.domainOf(host) ? { status: 404, code: 901 } : { denied: true, status: 404, code: 901 };
    if (edge.locked) return { denied: true, status: 421, code: 907 };
    const route = this.routeOf(edge, host, path);
    if (!route) return { status: 404, code: 902 };
    const on = (name) => (route.modules[name]?.enabled ? route.modules[name] : undefined);
    const texts = [on('request_headers'), on('response_headers')].flatMap((module) => Object.values(module?.add ?? {}));
    if (texts.some((text) => text.includes('${'))) return { status: 503, code: 908 };
    if (!on('backend')) return { status: 503, code: 903 };
    if (on('ip_restriction') && !this.admits(on('ip_restriction').ip_policy_ids)) return { status: 403, code: 930 };
    const says = (list) => (on('user_agent_filter')?.[list] ?? []).some((text) => new RegExp(text).test(AGENT));
    if (says('deny') && !says('allow')) return { status: 403, code: 922 };
    return this.behind(this.backends.get(on('backend').id), on('request_headers'), on('response_headers'));
  }

  // Whoever asks comes from 127.0.0.1: of all rules of all policies one allows it, and none denies it.
  admits(ids) {
    const actions = ids.flatMap((id) => [...this.policies.get(id).rules.values()]).filter(([, network]) => CONTAIN_US.includes(network)).map(([action]) => action);
    return actions.includes('allow') && !actions.includes('deny');
  }

  behind(backend, request, response) {
    if (backend.kind === 'weighted') {
      return { any: Object.keys(backend.backends).filter((id) => backend.backends[id] > 0)
        .flatMap((id) => this.behind(this.backends.get(id), request, response).any) };
    }
    if (backend.kind === 'failover') return this.behind(this.backends.get(backend.members[0]), request, response); // upstreams of the model are always there
    const headers = { ...(backend.kind === 'http_response' ? backend.headers : { 'x-upstream': backend.name }) };
    for (const name of response?.remove ?? []) delete headers[name];
    Object.assign(headers, response?.add);
    const without = (response?.remove ?? []).filter((name) => !(name in headers));
    if (backend.kind === 'http_response') return { any: [{ status: backend.status_code, body: backend.body, headers, without }] };
    const seen = { 'x-client': 'here' };
    for (const name of request?.remove ?? []) delete seen[name];
    const unseen = (request?.remove ?? []).filter((name) => !(name in (request?.add ?? {})));
    return { any: [{ status: 200, headers, without, seen: { ...seen, ...request?.add }, unseen }] };
  }
}

// Why got = {status, headers, body} is not what was wanted; undefined when it is.
export function differs(want, got) {
  if (want.denied && got.refused) return undefined;
  if (got.refused) return `no answer: ${got.refused}`;
  if (!want.any) {
    const code = /ERR_POSTERN_(\d+)/.exec(got.body)?.[1];
    if (got.status !== want.status) return `${got.status} (${code}) for ${want.status} (${want.code ?? 'any'})`;
    return want.code && Number(code) !== want.code ? `code ${code} for ${want.code}` : undefined;
  }
  const reasons = want.any.map((one) => differsFromOne(one, got));
  return reasons.includes(undefined) ? undefined : reasons.join(' | ');
}

function differsFromOne(want, got) {
  if (got.status !== want.status) return `status ${got.status} for ${want.status}`;
  if (want.body !== undefined && got.body !== want.body) return `body ${JSON.stringify(got.body.slice(0, 80))} for ${JSON.stringify(want.body)}`;
  for (const [name, value] of Object.entries(want.headers)) if (got.headers[name] !== value) return `header ${name}: ${got.headers[name]} for ${value}`;
  for (const name of want.without) if (name in got.headers) return `header ${name} is there`;
  if (!want.seen) return undefined;
  const sent = parsed(got.body);
  if (!sent) return `body ${JSON.stringify(got.body.slice(0, 80))} for the headers that the upstream saw`;
  for (const [name, value] of Object.entries(want.seen)) if (sent[name] !== value) return `the upstream saw ${name}: ${sent[name]} for ${value}`;
  for (const name of want.unseen) if (name in sent) return `the upstream saw ${name}`;
  return undefined;
}

// Why a handshake that ended in got = {refused} or {fingerprint, names: 'DNS:a, DNS:b', issuer} is not what was wanted.
export function handshakeDiffers(want, got) {
  if (want.refused || got.refused) return want.refused && got.refused ? undefined : `handshake ${got.refused ?? 'made'} for ${want.refused ? 'none' : 'one'}`;
  if (want.fingerprint) return got.fingerprint === want.fingerprint ? undefined : `certificate of ${got.issuer} (${got.names}), ${got.fingerprint} for ${want.fingerprint}`;
  return got.issuer === 'Postern local authority' && got.names === `DNS:${want.local}` ? undefined : `certificate of ${got.issuer} (${got.names}) for a local one of ${want.local}`;
}

// What an upstream of the model says: its request's headers as JSON. Another backend of a weighted one says what it likes.
function parsed(text) {
  try { const value = JSON.parse(text); return value && typeof value === 'object' ? value : undefined; } catch { return undefined; }
}
