// What an edge must answer, said a second time and in the simplest way: no tree, no claims, no revisions. It shares nothing
// with services/edge; where the two differ, one of them is wrong (services/edge/README.md).
import { isOf } from './requests.mjs';

// Networks of the model's rules (tenants.mjs) that contain 127.0.0.1.
export const CONTAIN_US = ['0.0.0.0/0', '127.0.0.0/8', '127.0.0.1/32', '::ffff:127.0.0.0/104'];
export const OTHERS = ['127.0.0.2/32', '128.0.0.0/1', '10.0.0.0/8', '::/0', '::1/128'];

// Modules that the edge cannot enforce: a route with one of them is denied.
export const UNENFORCED = ['traffic_policy'];

// Backends that cannot be asked, and what is answered in their place.
const DEAD = { kind: 'dead', page: { status: 502, code: 904 } };
const NOBODY = { kind: 'nobody', page: { status: 503, code: 903 } }; // a tunnel group, or no member
const NO_MEMBER = { kind: 'nobody', page: { status: 502, code: 904 } }; // of a failover backend

const SHORTEST = 256; // bytes; what is shorter is not encoded
const isWorth = (type) => /^(text\/|application\/json)/.test(type ?? '');

export class Reference {
  domains = new Map(); // id -> {id, account, name, certificate}; certificate: an id, or undefined: one of the local authority
  certificates = new Map(); // id -> {id, account, fingerprint}
  edges = new Map(); // id -> {id, account, hosts: [], locked, version}; locked: it demands client certificates, so nobody gets in
  routes = new Map(); // id -> {id, account, edge, exact, match, modules: {name: document}}
  policies = new Map(); // id -> {id, account, rules: Map of id -> [action, network]}
  restrictions = new Map(); // id -> {id, account, enforced, ip_policy_ids}: of type endpoints
  backends = new Map(); // id -> {id, account, kind, ...document}
  breakers = new Map(); // route's id and its module's values -> {all, failed, open}

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

  // What the modules of the route that serves the path say, or nothing.
  on(name, host, path) {
    const edge = this.edgeOf(host), module = edge && this.routeOf(edge, host, path)?.modules[name];
    return module?.enabled ? module : undefined;
  }

  // What a request (requests.mjs) gets: {any: [what it may be], asks: the breaker that lets it pass, denied: the handshake may be
  // refused instead}; each of any {status, code} of a page, or {status, body, headers, without, seen, unseen, coding, reached}.
  answer(sent) {
    const page = (status, code, more) => ({ any: [{ status, code }], ...more });
    const { host, path } = sent, edge = this.edgeOf(host);
    if (!edge) return page(404, 901, { denied: !this.domainOf(host) });
    if (edge.locked) return page(421, 907, { denied: true });
    const whole = [...this.restrictions.values()].find((one) => one.account === edge.account);
    if (whole?.enforced && !this.admits(whole.ip_policy_ids)) return page(403, 931);
    const route = this.routeOf(edge, host, path);
    if (!route) return page(404, 902);
    const on = (name) => (route.modules[name]?.enabled ? route.modules[name] : undefined);
    const texts = [on('request_headers'), on('response_headers')].flatMap((module) => Object.values(module?.add ?? {}));
    if (UNENFORCED.some(on) || texts.some((text) => text.includes('${'))) return page(503, 908);
    if (!on('backend')) return page(503, 903);
    if (on('ip_restriction') && !this.admits(on('ip_restriction').ip_policy_ids)) return page(403, 930);
    if (on('user_agent_filter') && !this.passes(on('user_agent_filter'), sent.agent)) return page(403, 922);
    const asks = on('circuit_breaker') && this.breaker(route.id, on('circuit_breaker'));
    if (asks?.open) return page(503, 923);
    if (on('webhook_verification') && (sent.socket || !isOf(on('webhook_verification'), sent))) return page(403, 924, { asks });
    return { asks, any: this.turns(this.backends.get(on('backend').id)).map((turn) => this.behind(turn, on, sent)) };
  }

  // Whoever asks comes from 127.0.0.1: of all rules of all policies one allows it, and none denies it.
  admits(ids) {
    const actions = ids.flatMap((id) => [...this.policies.get(id).rules.values()]).filter(([, network]) => CONTAIN_US.includes(network)).map(([action]) => action);
    return actions.includes('allow') && !actions.includes('deny');
  }

  passes({ allow, deny }, agent) {
    const says = (list) => list.some((text) => new RegExp(text).test(agent ?? ''));
    return says(allow) || (Boolean(agent) && !says(deny));
  }

  // Other values begin with a closed breaker; those that a route had before find theirs as it was.
  breaker(id, { enabled, ...rules }) {
    const key = `${id} ${JSON.stringify(rules)}`;
    if (!this.breakers.has(key)) this.breakers.set(key, { rules, all: 0, failed: 0, open: false });
    return this.breakers.get(key);
  }

  // A request got an answer that answer() allowed it. Windows and pauses of the model's breakers are a day long.
  heard(want, got) {
    const breaker = want.asks;
    if (!breaker || [903, 924, 940, 941, 942].includes(codeOf(got))) return; // denied by another module
    breaker.all++;
    if (got.status >= 500) breaker.failed++;
    const { volume_threshold: volume, error_threshold_percentage: share } = breaker.rules;
    breaker.open = breaker.all >= volume && breaker.failed > 0 && breaker.failed / breaker.all >= share;
  }

  // Whom a request to the backend may come to: [static | http_response | what cannot be asked]. Upstreams of the model are always
  // there, or never.
  turns(backend) {
    if (backend.kind === 'static') return [backend.name ? backend : DEAD];
    if (backend.kind === 'tunnel_group') return [NOBODY];
    if (backend.kind === 'http_response') return [backend];
    if (backend.kind === 'weighted') {
      const some = Object.keys(backend.backends).filter((id) => backend.backends[id] > 0).flatMap((id) => this.turns(this.backends.get(id)));
      return some.length ? some : [NOBODY];
    }
    const found = [];
    let left = [NO_MEMBER]; // what was tried last, of those who still look for one
    for (const id of backend.members) {
      const turns = this.turns(this.backends.get(id));
      if (left.length) found.push(...turns.filter(({ page }) => !page));
      left = left.flatMap((before) => turns.filter(({ page }) => page).map((turn) => (turn === DEAD || before === DEAD ? DEAD : NO_MEMBER)));
      left = [...new Set(left)];
    }
    return [...found, ...left];
  }

  behind(turn, on, sent) {
    if (turn.kind === 'nobody') return turn.page;
    if (on('websocket_tcp_converter')) {
      if (!sent.socket) return { status: 400, code: 940 };
      if (sent.socket !== '13') return { status: 426, code: 941 };
      if (turn.kind === 'http_response') return { status: 503, code: 942 };
    }
    if (turn.kind === 'dead') return turn.page;
    const own = turn.kind === 'http_response' ? { 'content-type': 'text/plain', ...turn.headers } : { 'x-upstream': turn.name, 'content-type': turn.type };
    const { remove = [], add = {} } = on('response_headers') ?? {};
    if (on('websocket_tcp_converter')) return { status: 101, headers: { ...add }, without: remove.filter((name) => !(name in add)), reached: turn.name };
    const headers = { ...own };
    for (const name of remove) delete headers[name];
    Object.assign(headers, add);
    const without = remove.filter((name) => !(name in headers)), length = turn.kind === 'http_response' ? turn.body.length : Infinity;
    const answer = { status: turn.status_code ?? 200, headers, without, ...(on('compression') && this.encoded(headers, length, sent)) };
    if (turn.kind === 'http_response') return { ...answer, body: turn.body };
    return { ...answer, ...this.upstream(on('request_headers'), sent) };
  }

  // What the upstream gets of a request.
  upstream({ remove = [], add = {} } = {}, sent) {
    const seen = { 'x-client': 'here', ...(sent.kept && { 'cache-control': 'no-transform' }), ...sent.signature };
    for (const name of remove) delete seen[name];
    for (const [name, value] of Object.entries(add)) seen[name] = seen[name] ? `${seen[name]}, ${value}` : value; // beside what is there
    return { seen, unseen: remove.filter((name) => !(name in add)), method: sent.method, content: sent.body ?? '' };
  }

  // {coding, headers}: by which coding the body comes, if by any, and the headers that change with it.
  encoded(headers, length, sent) {
    if (!isWorth(headers['content-type']) || length < SHORTEST || headers['cache-control'] === 'no-transform' || sent.kept) return undefined;
    const vary = headers.vary ? `${headers.vary}, Accept-Encoding` : 'Accept-Encoding';
    const etag = headers.etag && sent.accepts[1] ? { etag: `W/${headers.etag}` } : {};
    return { coding: sent.accepts[1], headers: { ...headers, vary, ...etag } };
  }
}

const codeOf = (got) => Number(/ERR_POSTERN_(\d+)/.exec(got.body)?.[1]);

// What a report counts of an answer: its page, or whether it is a backend's; its coding.
export const kindsOf = (got) => [got.refused ? 'refused' : codeOf(got) || (got.reached ? 'WebSocket' : 'of a backend'), got.coding].filter(Boolean);

// Why got = {status, headers, body, coding, reached} or {refused} is not what was wanted; undefined when it is.
export function differs(want, got) {
  if (want.denied && got.refused) return undefined;
  if (got.refused) return `no answer: ${got.refused}`;
  const reasons = want.any.map((one) => differsFromOne(one, got));
  return reasons.includes(undefined) ? undefined : [...new Set(reasons)].join(' | ');
}

function differsFromOne(want, got) {
  if (got.status !== want.status) return `status ${got.status} (${codeOf(got)}) for ${want.status} (${want.code})`;
  if (want.code) return codeOf(got) === want.code ? undefined : `code ${codeOf(got)} for ${want.code}`;
  for (const [name, value] of Object.entries(want.headers)) if (got.headers[name] !== value) return `header ${name}: ${got.headers[name]} for ${value}`;
  for (const name of want.without) if (name in got.headers) return `header ${name} is there`;
  if (want.reached) return got.reached === want.reached ? undefined : `upstream ${got.reached} for ${want.reached}`;
  if (got.coding !== want.coding) return `encoded by ${got.coding} for ${want.coding}`;
  if (want.coding && 'content-length' in got.headers) return 'encoded, with Content-Length';
  if (want.body !== undefined && got.body !== want.body) return `body ${JSON.stringify(got.body.slice(0, 80))} for ${JSON.stringify(want.body.slice(0, 80))}`;
  return want.seen && differsAtUpstream(want, parsed(got.body) ?? { headers: {} });
}

function differsAtUpstream(want, sent) {
  for (const [name, value] of Object.entries(want.seen)) if (sent.headers[name] !== value) return `the upstream saw ${name}: ${sent.headers[name]} for ${value}`;
  for (const name of want.unseen) if (name in sent.headers) return `the upstream saw ${name}`;
  if (sent.method !== want.method || sent.body !== want.content) return `the upstream saw ${sent.method} with ${JSON.stringify(sent.body)}`;
  return undefined;
}

// Why a handshake that ended in got = {refused} or {fingerprint, names: 'DNS:a, DNS:b', issuer} is not what was wanted.
export function handshakeDiffers(want, got) {
  if (want.refused || got.refused) return want.refused && got.refused ? undefined : `handshake ${got.refused ?? 'made'} for ${want.refused ? 'none' : 'one'}`;
  if (want.fingerprint) return got.fingerprint === want.fingerprint ? undefined : `certificate of ${got.issuer} (${got.names}), ${got.fingerprint} for ${want.fingerprint}`;
  return got.issuer === 'Postern local authority' && got.names === `DNS:${want.local}` ? undefined : `certificate of ${got.issuer} (${got.names}) for a local one of ${want.local}`;
}

// What an upstream of the model says: its request as JSON. Another backend of a weighted one says what it likes.
function parsed(text) {
  try { const value = JSON.parse(text); return value?.headers ? value : undefined; } catch { return undefined; }
}
