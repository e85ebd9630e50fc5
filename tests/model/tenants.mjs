// Random changes by several accounts through the API, each told to the reference when the API has answered that it is made.
import { account } from '../support/account.mjs';
import { env, api } from '../support/postern.mjs';
import { CONTAIN_US, OTHERS } from './reference.mjs';
import { draw, HOOKS, SIGNATURES } from './requests.mjs';

const PATHS = ['/', '/a', '/a/', '/ab', '/a/b', '/a/b/c', '/x', '/x/1', '/nowhere'];
const MATCHES = ['/', '/a', '/a/', '/a/b', '/x'];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Tenants {
  counts = { made: 0, refused: 0, again: 0 };
  revision = 0; // of the newest change that was answered
  whole = true; // the newest answer came after all workers that live had it

  constructor(random, reference, upstreams, workers, suffix) {
    Object.assign(this, { random, reference, upstreams, workers, suffix });
    this.accounts = [{ id: env.POSTERN_ACCOUNT, api }, account('model b'), account('model c')];
    this.names = Array.from({ length: 6 }, (_, i) => `h${i}.${suffix}`).concat(`*.w.${suffix}`, `p.w.${suffix}`);
    this.hosts = this.names.slice(0, 6).concat(`p.w.${suffix}`, `q.w.${suffix}`);
    this.serial = 0;
  }

  // Once, whatever happens to services meanwhile: a change that nothing was confirmed of is sent again under its key.
  async #call(who, method, target, body) {
    const key = { 'Idempotency-Key': `model-${this.suffix}-${this.serial++}` };
    for (let tries = 0; tries < 600; tries++) {
      const answer = await who.api(method, target, body, key).catch(() => ({ status: 503, headers: {} }));
      if (answer.status !== 503 && answer.status !== 429) {
        if (answer.status >= 500) throw new Error(`${method} ${target}: ${answer.raw}`);
        this.counts[answer.status < 300 ? 'made' : 'refused']++;
        if (answer.status < 300 && answer.headers['postern-revision']) {
          const [acknowledged, live] = answer.headers['postern-edges'].split('/').map(Number);
          this.revision = Number(answer.headers['postern-revision']);
          this.whole = acknowledged === live && live === this.workers;
        }
        return answer.status < 300 ? answer.body || {} : undefined;
      }
      this.counts.again++;
      await sleep(50);
    }
    throw new Error(`${method} ${target}: the API does not come back`);
  }

  #mine(map, who, fits = () => true) { return this.random.of([...map.values()].filter((one) => one.account === who.id && fits(one))); }

  #headers(removable) {
    const { random } = this;
    const add = {}, remove = [];
    if (random.chance(0.6)) add[`x-add-${random.below(2)}`] = random.chance(0.05) ? 'of ${conn.client_ip}' : `v${this.serial}`;
    if (random.chance(0.1)) add['cache-control'] = 'no-transform';
    if (random.chance(0.4)) remove.push(random.of(removable));
    return { enabled: random.chance(0.8), add, remove };
  }

  // Module -> [the share of routes that have it, a document of it, or nothing where what it names is missing].
  #modules = {
    backend: [1, (who) => {
      const backend = this.#mine(this.reference.backends, who);
      return backend && { enabled: this.random.chance(0.93), backend_id: backend.id };
    }],
    request_headers: [0.3, () => this.#headers(['x-client', 'x-of', ...SIGNATURES])],
    response_headers: [0.3, () => this.#headers(['x-of', 'x-upstream', 'content-type'])],
    user_agent_filter: [0.12, () => ({
      enabled: this.random.chance(0.8), allow: this.random.chance(0.4) ? [this.random.of(['^Model/', 'other', '^$'])] : [], deny: this.random.of([[], ['Model'], ['bot', '/1$'], ['bot']]) })],
    ip_restriction: [0.15, (who) => {
      const ip_policy_ids = this.#policies(who);
      return ip_policy_ids && { enabled: this.random.chance(0.8), ip_policy_ids };
    }],
    compression: [0.35, () => ({ enabled: this.random.chance(0.8) })],
    // windows and pauses longer than the model: nothing of a breaker depends on the time
    circuit_breaker: [0.25, () => ({
      enabled: this.random.chance(0.8), tripped_duration: 86400, rolling_window: 86400, num_buckets: this.random.of([4, 10]),
      volume_threshold: this.random.of([0, 3, 8]), error_threshold_percentage: this.random.of([0, 0.5, 1]) })],
    webhook_verification: [0.12, () => ({ enabled: this.random.chance(0.8), ...this.random.of(HOOKS) })],
    websocket_tcp_converter: [0.15, () => ({ enabled: this.random.chance(0.8) })],
    traffic_policy: [0.04, () => ({ enabled: this.random.chance(0.4), value: '{"on_http_request":[]}' })],
  };

  #shares = Object.fromEntries(Object.entries(this.#modules).map(([name, [share]]) => [name, share + 0.1]));

  #module(who, name) { return this.#modules[name][1](who); }

  // Some of what a route may have.
  #some(who) {
    const names = Object.keys(this.#modules).filter((name) => this.random.chance(this.#modules[name][0]));
    return Object.fromEntries(names.map((name) => [name, this.#module(who, name)]).filter(([, document]) => document));
  }

  #policies(who) {
    const some = [this.#mine(this.reference.policies, who), this.#mine(this.reference.policies, who)].filter(Boolean).map(({ id }) => id);
    return some.length ? [...new Set(some)] : undefined;
  }

  #match(edge) {
    const { random } = this, host = random.chance(0.4) ? random.of(edge.hosts.filter((name) => name[0] !== '*').concat(this.hosts[0])) : '';
    return { match: host && random.chance(0.3) ? host : host + random.of(MATCHES), match_type: random.of(['exact_path', 'path_prefix']) };
  }

  static #stored = (modules) => Object.fromEntries(Object.entries(modules).map(([name, module]) => [name, name === 'backend' ? { enabled: module.enabled, id: module.backend_id } : module]));

  #backend(who, kind) {
    const { random, upstreams } = this;
    if (kind === 'tunnel_group') return { api: { labels: { model: `${this.serial}` } } };
    if (kind === 'static') {
      if (random.chance(0.25)) return { api: { address: '127.0.0.1:1' }, known: { name: undefined } }; // where nobody listens
      const { address, name, type } = random.of(upstreams);
      return { api: { address }, known: { name, type } };
    }
    if (kind === 'http_response') {
      const some = { 'x-of': `${this.serial}`, 'content-type': 'image/png', etag: `"${this.serial}"`, vary: 'Origin' };
      const headers = Object.fromEntries(Object.entries(some).filter(([name]) => random.chance(name === 'content-type' ? 0.1 : 0.3)));
      const answer = { body: `b${this.serial}${random.chance(0.5) ? '.'.repeat(300) : ''}`, status_code: random.of([200, 200, 201, 404, 418, 500, 503]), headers };
      return { api: answer, known: answer };
    }
    const members = [...this.reference.backends.values()].filter((one) => one.account === who.id && ['static', 'http_response', 'tunnel_group', ...(kind === 'failover' ? ['weighted'] : [])].includes(one.kind));
    if (!members.length) return undefined;
    const backends = Object.fromEntries(Array.from({ length: 1 + random.below(3) }, () => [random.of(members).id, random.below(4)]));
    return kind === 'weighted' ? { api: { backends }, known: { backends } } : { api: { backends: Object.keys(backends) }, known: { members: Object.keys(backends) } };
  }

  // Each: one change; true when one could be tried.
  #changes = {
    make_domain: [4, async (who) => {
      const name = this.random.of(this.names), certificate = this.random.chance(0.3) ? this.#mine(this.reference.certificates, who) : undefined;
      const made = await this.#call(who, 'POST', '/reserved_domains', { domain: name, ...(certificate && { certificate_id: certificate.id }) });
      if (made) this.reference.domains.set(made.id, { id: made.id, account: who.id, name, certificate: certificate?.id });
      return true;
    }],
    certify_domain: [3, async (who) => {
      const domain = this.#mine(this.reference.domains, who), certificate = this.random.chance(0.7) ? this.#mine(this.reference.certificates, who) : undefined;
      if (domain && await this.#call(who, 'PATCH', `/reserved_domains/${domain.id}`, { certificate_id: certificate?.id ?? null })) domain.certificate = certificate?.id;
      return domain;
    }],
    make_certificate: [1.5, async (who) => {
      const pair = this.random.of(this.pairs);
      const made = await this.#call(who, 'POST', '/tls_certificates', { certificate_pem: pair.certificate, private_key_pem: pair.key });
      if (made) this.reference.certificates.set(made.id, { id: made.id, account: who.id, fingerprint: pair.fingerprint });
      return true;
    }],
    drop_certificate: [1, async (who) => {
      const certificate = this.#mine(this.reference.certificates, who);
      if (certificate && await this.#call(who, 'DELETE', `/tls_certificates/${certificate.id}`)) this.reference.certificates.delete(certificate.id);
      return certificate;
    }],
    drop_domain: [1, async (who) => {
      const domain = this.#mine(this.reference.domains, who);
      if (domain && await this.#call(who, 'DELETE', `/reserved_domains/${domain.id}`)) this.reference.domains.delete(domain.id);
      return domain;
    }],
    make_edge: [3, async (who) => {
      const hosts = this.#hosts(who), made = hosts && await this.#call(who, 'POST', '/edges/https', { hostports: hosts.map((name) => `${name}:443`) });
      if (made) this.reference.edges.set(made.id, { id: made.id, account: who.id, hosts, locked: false });
      return hosts;
    }],
    move_edge: [3, async (who) => {
      const edge = this.#mine(this.reference.edges, who), hosts = edge && this.#hosts(who);
      if (hosts && await this.#call(who, 'PATCH', `/edges/https/${edge.id}`, { hostports: hosts.map((name) => `${name}:443`) })) edge.hosts = hosts;
      return hosts;
    }],
    lock_edge: [1, async (who) => {
      const edge = this.#mine(this.reference.edges, who);
      if (!edge) return false;
      who.authority ??= (await this.#call(who, 'POST', '/certificate_authorities', { ca_pem: this.authority })).id;
      const target = `/edges/https/${edge.id}/mutual_tls`;
      const done = edge.locked ? await this.#call(who, 'DELETE', target)
        : await this.#call(who, 'PUT', target, { certificate_authority_ids: [who.authority] });
      if (done) edge.locked = !edge.locked;
      return true;
    }],
    tighten_edge: [1, async (who) => {
      const edge = this.#mine(this.reference.edges, who), version = this.random.of(['1.2', '1.3']);
      if (edge && await this.#call(who, 'PUT', `/edges/https/${edge.id}/tls_termination`, { min_version: version })) edge.version = version;
      return edge;
    }],
    drop_edge: [1, async (who) => {
      const edge = this.#mine(this.reference.edges, who);
      if (!edge || !await this.#call(who, 'DELETE', `/edges/https/${edge.id}`)) return edge;
      this.reference.edges.delete(edge.id);
      for (const route of this.reference.routes.values()) if (route.edge === edge.id) this.reference.routes.delete(route.id);
      return true;
    }],
    make_backend: [5, async (who) => {
      const kind = this.random.weighed({ http_response: 6, static: 6, weighted: 3, failover: 5, tunnel_group: 0.5 }), backend = this.#backend(who, kind);
      const made = backend && await this.#call(who, 'POST', `/backends/${kind}`, backend.api);
      if (made) this.reference.backends.set(made.id, { id: made.id, account: who.id, kind, ...backend.known });
      return backend;
    }],
    change_backend: [6, async (who) => {
      const old = this.#mine(this.reference.backends, who), backend = old && this.#backend(who, old.kind);
      if (backend && await this.#call(who, 'PATCH', `/backends/${old.kind}/${old.id}`, backend.api)) Object.assign(old, backend.known);
      return backend;
    }],
    describe_backend: [2, async (who) => {
      const backend = this.#mine(this.reference.backends, who);
      if (backend) await this.#call(who, 'PATCH', `/backends/${backend.kind}/${backend.id}`, { description: `d${this.serial}` });
      return backend;
    }],
    drop_backend: [3, async (who) => {
      const backend = this.#mine(this.reference.backends, who);
      if (backend && await this.#call(who, 'DELETE', `/backends/${backend.kind}/${backend.id}`)) this.reference.backends.delete(backend.id);
      return backend;
    }],
    make_policy: [1.5, async (who) => {
      const made = await this.#call(who, 'POST', '/ip_policies', {});
      if (made) this.reference.policies.set(made.id, { id: made.id, account: who.id, rules: new Map() });
      return true;
    }],
    make_rule: [5, async (who) => {
      const policy = this.#mine(this.reference.policies, who), cidr = this.#network(), action = this.random.chance(0.75) ? 'allow' : 'deny';
      const made = policy && await this.#call(who, 'POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr, action });
      if (made) policy.rules.set(made.id, [action, cidr]);
      return policy;
    }],
    change_rule: [2, async (who) => {
      const policy = this.#mine(this.reference.policies, who, ({ rules }) => rules.size), cidr = this.#network();
      if (!policy) return false;
      const id = this.random.of([...policy.rules.keys()]);
      if (await this.#call(who, 'PATCH', `/ip_policy_rules/${id}`, { cidr })) policy.rules.get(id)[1] = cidr;
      return true;
    }],
    drop_rule: [2, async (who) => {
      const policy = this.#mine(this.reference.policies, who, ({ rules }) => rules.size);
      if (!policy) return false;
      const id = this.random.of([...policy.rules.keys()]);
      if (await this.#call(who, 'DELETE', `/ip_policy_rules/${id}`)) policy.rules.delete(id);
      return true;
    }],
    drop_policy: [1, async (who) => {
      const policy = this.#mine(this.reference.policies, who);
      if (policy && await this.#call(who, 'DELETE', `/ip_policies/${policy.id}`)) this.reference.policies.delete(policy.id);
      return policy;
    }],
    make_route: [14, async (who) => {
      const edge = this.#mine(this.reference.edges, who);
      if (!edge) return false;
      const where = this.#match(edge), modules = this.#some(who);
      const made = await this.#call(who, 'POST', `/edges/https/${edge.id}/routes`, { ...where, ...modules });
      if (made) this.reference.routes.set(made.id, { id: made.id, account: who.id, edge: edge.id, exact: where.match_type === 'exact_path', match: where.match, modules: Tenants.#stored(modules) });
      return true;
    }],
    move_route: [12, async (who) => {
      const route = this.#mine(this.reference.routes, who);
      if (!route) return false;
      const where = this.#match(this.reference.edges.get(route.edge));
      if (await this.#call(who, 'PATCH', `/edges/https/${route.edge}/routes/${route.id}`, where)) Object.assign(route, { exact: where.match_type === 'exact_path', match: where.match });
      return true;
    }],
    change_module: [18, async (who) => {
      const route = this.#mine(this.reference.routes, who), name = this.random.weighed(this.#shares);
      const module = route && this.#module(who, name), target = route && `/edges/https/${route.edge}/routes/${route.id}/${name}`;
      if (module && await this.#call(who, 'PUT', target, module)) Object.assign(route.modules, Tenants.#stored({ [name]: module }));
      return module;
    }],
    drop_module: [6, async (who) => {
      const route = this.#mine(this.reference.routes, who), name = route && this.random.of(Object.keys(route.modules));
      if (name && await this.#call(who, 'DELETE', `/edges/https/${route.edge}/routes/${route.id}/${name}`)) delete route.modules[name];
      return name;
    }],
    // what is not given stays, and what is given is replaced whole
    change_modules: [5, async (who) => {
      const route = this.#mine(this.reference.routes, who), modules = route && this.#some(who);
      if (modules && await this.#call(who, 'PATCH', `/edges/https/${route.edge}/routes/${route.id}`, modules)) Object.assign(route.modules, Tenants.#stored(modules));
      return modules;
    }],
    // the same values, on or off
    switch_module: [5, async (who) => {
      const route = this.#mine(this.reference.routes, who), name = route && this.random.of(Object.keys(route.modules).filter((one) => one !== 'backend'));
      if (!name) return false;
      const module = { ...route.modules[name], enabled: !route.modules[name].enabled };
      if (await this.#call(who, 'PUT', `/edges/https/${route.edge}/routes/${route.id}/${name}`, module)) route.modules[name] = module;
      return true;
    }],
    make_restriction: [1.5, async (who) => {
      const restriction = { enforced: this.random.chance(0.4), ip_policy_ids: this.#policies(who) };
      const made = restriction.ip_policy_ids && await this.#call(who, 'POST', '/ip_restrictions', { type: 'endpoints', ...restriction });
      if (made) this.reference.restrictions.set(made.id, { id: made.id, account: who.id, ...restriction });
      return restriction.ip_policy_ids;
    }],
    change_restriction: [3, async (who) => {
      const restriction = this.#mine(this.reference.restrictions, who);
      const change = this.random.chance(0.5) ? { enforced: this.random.chance(0.4) } : { ip_policy_ids: this.#policies(who) };
      if (restriction && await this.#call(who, 'PATCH', `/ip_restrictions/${restriction.id}`, change)) Object.assign(restriction, change);
      return restriction;
    }],
    drop_restriction: [3, async (who) => {
      const restriction = this.#mine(this.reference.restrictions, who);
      if (restriction && await this.#call(who, 'DELETE', `/ip_restrictions/${restriction.id}`)) this.reference.restrictions.delete(restriction.id);
      return restriction;
    }],
    drop_route: [8, async (who) => {
      const route = this.#mine(this.reference.routes, who);
      if (route && await this.#call(who, 'DELETE', `/edges/https/${route.edge}/routes/${route.id}`)) this.reference.routes.delete(route.id);
      return route;
    }],
  };

  #network() { return this.random.of(this.random.chance(0.6) ? CONTAIN_US : OTHERS); }

  #hosts(who) {
    const own = [...this.reference.domains.values()].filter((one) => one.account === who.id).map((one) => one.name);
    if (!own.length) return undefined;
    const count = 1 + this.random.below(Math.min(3, own.length));
    return [...new Set(Array.from({ length: count }, () => this.random.of(own)))];
  }

  // One change by somebody; its name, for the report.
  async change() {
    const weights = Object.fromEntries(Object.entries(this.#changes).map(([name, [weight]]) => [name, weight]));
    for (;;) {
      const who = this.random.of(this.accounts), name = this.random.weighed(weights);
      if (await this.#changes[name][1](who)) return `${name} by ${this.accounts.indexOf(who)}`;
    }
  }

  // Mostly where something is served, and often where the last one was: breakers count.
  sample() {
    const { random } = this, place = () => ({ host: random.of(this.hosts), path: random.of(PATHS) });
    const serves = ({ host, path }) => this.reference.on('backend', host, path);
    if (!this.last || !serves(this.last) || random.chance(0.6)) this.last = [place(), place(), place(), place()].find(serves) ?? place();
    return draw(random, this.reference, this.last.host, this.last.path);
  }
  handshake() { return { host: this.random.of(this.hosts), version: this.random.of(['TLSv1.2', 'TLSv1.3']) }; }
  everything() { return this.hosts.flatMap((host) => PATHS.map((path) => draw(this.random, this.reference, host, path))); }

  async removeAll() {
    const { reference } = this;
    const remove = async (map, target) => {
      for (const one of [...map.values()]) {
        if (target(one) && await this.#call(this.accounts.find((who) => who.id === one.account), 'DELETE', target(one))) map.delete(one.id);
      }
    };
    await remove(reference.restrictions, ({ id }) => `/ip_restrictions/${id}`);
    await remove(reference.edges, (edge) => `/edges/https/${edge.id}`);
    reference.routes.clear();
    for (const which of ['failover', 'weighted']) await remove(reference.backends, ({ kind, id }) => (kind === which ? `/backends/${kind}/${id}` : undefined));
    await remove(reference.backends, ({ kind, id }) => `/backends/${kind}/${id}`);
    await remove(reference.policies, (policy) => `/ip_policies/${policy.id}`);
    await remove(reference.domains, (domain) => `/reserved_domains/${domain.id}`);
    await remove(reference.certificates, (certificate) => `/tls_certificates/${certificate.id}`);
  }
}
