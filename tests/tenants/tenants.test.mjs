// Two accounts. What the first one has, the second one tries everything on that the tables know: every kind, operation, field that
// refers to something, name, filter and header. It is refused, and cannot tell what is there from what is not; afterwards everything
// of the first is as it was. TENANTS_SEED repeats the choices that a run printed, TENANTS_ROUNDS makes more of them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { Random, mend, object, plain } from '../contract/generate.mjs';
import { account } from '../support/account.mjs';
import { api, elsewhere, env, listening, through, until } from '../support/postern.mjs';
import { Holder } from './build.mjs';
import { Prober, inLanes, patient } from './compare.mjs';
import { mark, marksIn, never } from './marks.mjs';
import { Tables, get, leaves, put, refersTo } from './tables.mjs';

const SEED = Number(process.env.TENANTS_SEED || Math.floor(Math.random() * 2 ** 32));
const ROUNDS = Number(process.env.TENANTS_ROUNDS || 1);
const WIDTH = 8; // connections

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', text], { encoding: 'utf8', maxBuffer: 1 << 28 }).trim();
const lanesOf = (jobs) => [...Map.groupBy ? Map.groupBy(jobs, (job) => job.lane).values() : jobs.reduce((map, job) => map.set(job.lane, [...(map.get(job.lane) ?? []), job]), new Map()).values()].map((list) => list.map((job) => job.run));
const pick = (r, list) => list[r.below(list.length)];

// A name is held on the whole server: that somebody has it can be seen where one is claimed, and nothing else.
const CLAIMS = new Set(['reserved_domain.domain', 'agent_ingress.domain']);
const TAKEN = 'ERR_POSTERN_144';

// Where two texts part.
function around(one = '', other = '') {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return `${one.slice(Math.max(0, at - 80), at + 200)} | ${other.slice(Math.max(0, at - 80), at + 200)}`;
}

// Other ways to write an id in a path.
const spellings = [
  (id) => [...id].map((c) => `%${c.charCodeAt(0).toString(16)}`).join(''), (id) => id.replace('_', '%5f'), (id) => `${id}%20`, (id) => `${id}%00`, (id) => `%20${id}`,
  (id) => id.toUpperCase(), (id) => id.toLowerCase(), (id) => `${id}%27`, (id) => `${id}%25`, (id) => id.replace(/.$/, '_'),
];

class Attack {
  constructor(tables, first, second, prober, r) {
    Object.assign(this, { tables, first, second, prober, r, tried: new Set(), references: new Set(), fields: new Set(), counts: { paths: 0, references: 0, fields: 0, names: 0, lists: 0 } });
  }
  // [the first account's, one that never was, a deleted one]
  ids(kind) {
    const id = this.first.id(kind);
    return [id, never(id), this.first.gone[kind] ?? never(id, 'b')];
  }
  // Headers that say something about the first account's object.
  headers(operation) {
    const etag = this.first.etags[operation.kind] ?? '"x"';
    const given = pick(this.r, [{}, {}, { 'If-Match': etag }, { 'If-Match': '*' }, { 'If-None-Match': etag }, { 'Idempotency-Key': `k${mark()}` }, { Origin: 'https://a.test' }]);
    return operation.method === 'GET' && given['Idempotency-Key'] ? {} : given;
  }

  // ---- paths: all that name an object, each parameter the first account's or the second's own ----
  *pathJobs() {
    for (const operation of this.tables.operations.filter((one) => one.params.length)) {
      const n = operation.params.length;
      for (let mask = 1; mask < 1 << n; mask++) {
        const foreign = operation.params.filter((_, i) => mask & (1 << i));
        if (!foreign.some((name) => this.tables.at(operation.path, name))) continue; // the key of a part of its own object
        const body = operation.schema ? pick(this.r, [{}, this.validBody(operation)]) : undefined, headers = this.headers(operation);
        const lane = `${operation.id} ${mask}`, values = foreign.map((name) => this.values(operation, name));
        yield { lane, run: () => this.tryPath(operation, foreign, values, body, headers) };
        if (foreign.length > 1) continue;
        const spell = pick(this.r, spellings), kind = pick(this.r, this.tables.kinds);
        yield { lane, run: () => this.tryPath(operation, foreign, [values[0].map(spell)], body, headers) };
        if (foreign[0] === 'id') yield { lane, run: () => this.tryPath(operation, foreign, [this.ids(kind)], body, headers) }; // mostly of another kind
      }
    }
  }
  values(operation, name) {
    const kind = this.tables.at(operation.path, name);
    if (!kind) return [this.first.at(operation, name), mark()];
    return kind === 'https_edge' && operation.kind !== kind ? [this.first.edge, never(this.first.edge), this.first.gone[kind]] : this.ids(kind);
  }
  async tryPath(operation, foreign, values, body, headers) {
    const { second, prober } = this;
    const combinations = values.reduce((all, three) => all.flatMap((one) => three.map((value) => [...one, value])), [[]]);
    const methods = operation.method === 'GET' ? ['GET', 'HEAD'] : [operation.method];
    for (const method of methods) {
      const answers = await prober.alike(`${operation.id} ${method} ${foreign} ${JSON.stringify(headers)} ${JSON.stringify(body)?.slice(0, 200)}`, combinations,
        (given) => prober.send(method, second.path(operation, Object.fromEntries(foreign.map((name, i) => [name, given[i]]))), body, headers));
      if (answers[0].status !== 404 && !(body && answers[0].status === 400)) prober.fail(`${operation.id} ${foreign}: ${answers[0].status} ${answers[0].raw.slice(0, 300)}`);
    }
    if (foreign.length === operation.params.length) this.tried.add(operation.id);
    this.counts.paths += combinations.length * methods.length;
  }
  validBody(operation) {
    const { second } = this;
    return operation.method === 'PUT' ? second.moduleBody(operation, 0.5) : operation.params.includes('id') ? object(this.r, operation.schema, second.here, 0.3) : second.body(operation.kind, operation.schema, 0.3);
  }

  // ---- bodies: every field that refers to something ----
  // A body of the second account's own, with the value at that place; the same but for the value.
  bodyWith(operation, base, at, value) {
    return put(structuredClone(base), operation.schema, at, value, (schema) => object(new Random(3), schema, this.second.here, 0));
  }
  base(operation) {
    if (operation.method === 'PATCH') return {};
    if (operation.method === 'PUT') return this.second.moduleBody(operation, 0);
    if (operation.params.includes('id')) return object(this.r, operation.schema, this.second.here, 0);
    return this.second.body(operation.kind, operation.schema, 0);
  }
  inShape(inside, id, own) {
    if (inside.type === 'array') return own && this.r.chance(0.5) ? [own, id] : [id];
    return inside.type === 'object' ? { ...(own && this.r.chance(0.5) ? { [own]: 1 } : {}), [id]: 1 } : id;
  }
  async sendBody(operation, body) {
    const answer = await this.prober.send(operation.method, this.second.path(operation), body);
    if (answer.status === 201) { // the next one may want the same name
      const made = answer.body.uri && new URL(answer.body.uri).pathname;
      if (made) await this.second.account.api('DELETE', made);
    }
    return answer;
  }
  *referenceJobs() {
    for (const operation of this.tables.operations.filter((one) => one.schema)) for (const [at, property, inside] of leaves(operation.schema)) {
      const named = refersTo(at, property, inside);
      if (!named) continue;
      const any = named.length === 0, all = [...this.tables.kinds, 'user']; // its name says that it refers, the table not to what
      const kinds = !any ? named.filter((kind) => this.first.id(kind)) : inside.maxLength <= 64 ? all : [pick(this.r, all)];
      this.references.add(`${operation.id} ${at.join('.')}`);
      const others = this.tables.kinds.filter((kind) => !kinds.includes(kind));
      for (const kind of [...kinds, ...(others.length ? [pick(this.r, others)] : [])]) {
        const base = this.base(operation), own = named.includes(kind) ? this.second.id(kind) : null;
        const shape = JSON.stringify(this.inShape(inside, 'ID', own)), spell = (id) => JSON.parse(shape.replace('"ID"', JSON.stringify(id)));
        yield { lane: operation.kind, run: async () => {
          await this.prober.alike(`${operation.id} ${at.join('.')} of ${kind}`, this.ids(kind), (id) => this.sendBody(operation, this.bodyWith(operation, base, at, spell(id))), { refused: !any });
          this.counts.references++;
        } };
      }
    }
  }

  // ---- values: every field, with what the first account has there ----
  *fieldJobs() {
    for (const operation of this.tables.operations.filter((one) => one.schema)) for (const [at, property, inside] of leaves(operation.schema)) {
      if (refersTo(at, property, inside) || ['boolean', 'integer', 'number'].includes(inside.type) || inside.enum) continue;
      const source = operation.method === 'PUT' ? operation.id : operation.kind;
      const value = get(this.first.sent[source], at) ?? undefined, gone = operation.method === 'PUT' ? undefined : get(this.first.goneSent[source], at);
      const id = `${operation.kind}.${at.join('.')}`;
      this.fields.add(`${operation.id} ${at.join('.')}`);
      const base = this.base(operation), kind = inside.type === 'string' && this.r.chance(0.3) ? pick(this.r, this.tables.kinds) : null;
      yield { lane: operation.kind, run: async () => {
        const { prober } = this, text = JSON.stringify(value);
        const ask = (one) => this.sendBody(operation, this.bodyWith(operation, base, at, one));
        if (value !== undefined && marksIn(text).length) {
          const values = [value, JSON.parse(never(text)), gone].filter((one) => one !== undefined);
          const answers = await prober.alike(`${operation.id} ${at.join('.')}`, CLAIMS.has(id) ? values.slice(1) : values, ask, { refused: false });
          if (CLAIMS.has(id)) this.claimed(id, await ask(value), value, answers[0].status);
          this.counts.fields++;
        }
        if (kind) await prober.alike(`${operation.id} ${at.join('.')} with the id of ${kind}`, this.ids(kind), ask, { refused: false }); // any id in a text
      } };
    }
  }
  claimed(id, answer, name, free) {
    if (answer.status === 201) { if (free === 201) this.prober.fail(`${id}: ${name} of the first account was given away`); return; }
    const { error_code: code, msg, details } = answer.body;
    if (code !== TAKEN || marksIn(`${msg}${JSON.stringify({ ...details, operation_id: undefined })}`).length) this.prober.fail(`${id}: more than that the name is taken: ${answer.raw}`);
  }

  // ---- names: the first account's host in every form, wherever a form fits ----
  // One after another: what one of them claims is free again for the next.
  *nameJobs() {
    const forms = { // [form, is it held where its host is]
      domain: [[(host) => host, true], [(host) => host.replace(/^www/, '*'), true], [(host) => `sub.${host}`], [(host) => host.replace(/^www\./, '')]],
      hostport: [[(host) => `${host}:443`], [(host) => `sub.${host}:443`]], tcp_hostport: [[(host) => `${host}:443`]],
      endpoint_url: [[(host) => `https://${host}`], [(host) => `tls://${host}:443`], [(host) => `http://${host}`]],
      address: [[(host) => `${host}:443`]], acl: [[(host) => `bind:${host}`]],
    };
    for (const operation of this.tables.operations.filter((one) => one.schema)) for (const [at, property, inside] of leaves(operation.schema)) {
      const base = this.base(operation);
      for (const [form, held] of forms[property['x-format']] ?? []) yield { lane: 'names', run: async () => {
        const { prober, first } = this, id = `${operation.kind}.${at.join('.')}`, hosts = [first.host, never(first.host), first.freed];
        if (property['x-format'] === 'endpoint_url') base.bindings = ['public'];
        const ask = (name) => this.sendBody(operation, this.bodyWith(operation, base, at, inside.type === 'array' ? [name] : name));
        const names = hosts.map((host) => form(host)), what = `${operation.id} ${at.join('.')} as ${names[0]}`;
        const [other] = await prober.alike(what, CLAIMS.has(id) ? names.slice(1) : names, ask, { refused: false });
        if (CLAIMS.has(id)) this.claimed(id, await ask(names[0]), names[0], held ? other.status : 0);
        this.counts.names++;
      } };
      if (property['x-format'] === 'tcp_hostport') yield { lane: 'names', run: async () => {
        const taken = this.first.objects.reserved_addr.addr, free = taken.replace(/\d+$/, (port) => '65535'.slice(0, port.length));
        await this.prober.alike(`${operation.id} ${at.join('.')} as ${taken}`, [taken, free], (one) => this.sendBody(operation, this.bodyWith(operation, base, at, [one])));
        this.counts.names++;
      } };
    }
  }

  // ---- whole bodies: what the first account could make, the second can, with references to its own ----
  *wholeJobs() {
    for (const kind of this.tables.kinds.filter((one) => this.tables.create(one))) yield { lane: 'names', run: async () => {
      const { first, second, prober } = this, operation = this.tables.create(kind);
      const once = (name, value) => (Array.isArray(value) ? value.filter((one, i) => typeof one !== 'string' || value.indexOf(one) === i) : value);
      const mine = (id) => second.byPrefix.get(id.replace(/_[^_]*$/, '')) ?? second.account.owner;
      const body = JSON.parse(JSON.stringify(first.sent[kind]).replace(/\b[a-z]+(?:_[a-z]+)*_[0-9A-Za-z]{27}\b/g, mine).replaceAll(first.vaultName, second.vaultName), once);
      for (const [at, property] of leaves(operation.schema)) if (/hostport$/.test(property['x-format']) && body[at[0]]) body[at[0]] = [];
      if (kind === 'ip_restriction') await second.account.must('DELETE', second.path(this.tables.byId.get(`${kind}_delete`))); // one of a type
      const answer = await this.sendBody(operation, body), claims = [...CLAIMS].some((one) => one.startsWith(`${kind}.`));
      if (answer.status !== 201 && !(claims && answer.body.error_code === TAKEN)) prober.fail(`${kind}: what the first account could make is refused: ${answer.raw.slice(0, 400)}`);
      if (kind === 'ip_restriction') second.objects[kind] = await second.account.must('POST', operation.path, second.body(kind, operation.schema, 0));
      this.tried.add(operation.id);
    } };
  }

  // ---- lists: pages, parameters, filters ----
  *listJobs() {
    for (const operation of this.tables.operations.filter((one) => one.query.includes('limit'))) {
      const { kind } = operation, limit = 1 + this.r.below(100), step = 1 + this.r.below(3);
      yield { lane: operation.id, run: async () => {
        const { prober } = this, ids = this.ids(kind), path = this.second.path(operation);
        const ask = (query) => prober.send('GET', `${path}?${query}`);
        await prober.alike(`${operation.id} before_id`, ids.slice(0, 2), (id) => ask(`before_id=${id}&limit=${limit}`), { refused: false });
        for (const name of operation.query.filter((one) => !['limit', 'before_id', 'filter'].includes(one))) {
          const value = this.first.objects[kind][name];
          await this.empty(operation, `${operation.id} ${name}`, [value, never(value)], (one) => ask(`${name}=${encodeURIComponent(one)}`));
        }
        if (operation.query.includes('filter')) await this.tryFilters(operation, ids, (filter) => ask(`limit=100&filter=${encodeURIComponent(filter)}`));
        await this.tryPages(operation, path, step);
        this.counts.lists++;
        if (!operation.params.length) this.tried.add(operation.id);
      } };
    }
  }
  // All answered with the same empty page, or all refused alike.
  async empty(operation, what, values, ask) {
    const answers = await this.prober.alike(what, values, ask, { refused: false });
    for (const answer of answers) if (answer.status === 200 && Object.values(answer.body).find(Array.isArray).length) this.prober.fail(`${what} found something: ${answer.raw.slice(0, 300)}`);
  }
  async tryFilters(operation, ids, ask) {
    const { prober } = this, quote = JSON.stringify, first = this.first.objects[operation.kind];
    for (const spell of [(id) => `obj.id == ${quote(id)}`, (id) => `obj.id in [${quote(id)}]`, (id) => `obj.id.startsWith(${quote(id.slice(0, -1))})`, (id) => `!(obj.id != ${quote(id)})`]) await this.empty(operation, `${operation.id} filter`, ids, (id) => ask(spell(id)));
    for (const spell of [(id) => `true || obj.id == ${quote(id)}`, (id) => `obj.id == ${quote(id)} || obj.id != ""`, (id) => `obj.id != ${quote(id)}`]) this.own(operation, await ask(spell(ids[0])));
    for (const [name, value] of Object.entries(first)) {
      if (name === 'id' || typeof value !== 'string' || !marksIn(value).length || value.length > 2000) continue;
      await this.empty(operation, `${operation.id} filter by ${name}`, [value, never(value)], (one) => ask(`obj.${name} == ${quote(one)}`));
    }
    for (const forbidden of ['account_id', 'token_hash', 'local_key_sealed', 'private_key_pem', 'value', 'place']) {
      const answer = await ask(`obj.${forbidden} != ""`);
      if (answer.status !== 400 && !(forbidden in first)) prober.fail(`${operation.id}: a filter may use ${forbidden}: ${answer.raw.slice(0, 200)}`);
    }
  }
  own(operation, answer) {
    if (answer.status !== 200) { this.prober.fail(`${operation.id}: ${answer.raw.slice(0, 300)}`); return; }
    for (const one of Object.values(answer.body).find(Array.isArray)) if (this.prober.foreign.has(one.id)) this.prober.fail(`${operation.id} lists ${one.id}`);
  }
  async tryPages(operation, path, step) {
    for (let at = `${path}?limit=${step}`, pages = 0; at && pages < 20; pages++) {
      const answer = await this.prober.send('GET', at);
      this.own(operation, answer);
      at = answer.body.next_page_uri && new URL(answer.body.next_page_uri).pathname + new URL(answer.body.next_page_uri).search;
    }
  }

  // ---- words of answers, sent as if they were fields ----
  *readOnlyJobs() {
    for (const operation of this.tables.operations.filter((one) => one.schema && ['POST', 'PATCH'].includes(one.method) && this.tables.byId.get(`${one.kind}_get`) && !one.params.some((name) => !this.tables.at(one.path, name)))) {
      const base = this.base(operation);
      yield { lane: operation.kind, run: async () => {
        const shown = Object.keys(this.tables.schemas[operation.kind].properties).filter((name) => !(name in operation.schema.properties));
        for (const name of [...shown, 'account_id', 'account', 'parent_id', 'object_id', 'subscription_id', 'edge_id']) {
          const value = name === 'account_id' || name === 'account' ? this.first.account.id : this.first.objects[operation.kind][name] ?? this.first.id(operation.kind);
          const text = JSON.stringify(value);
          const answers = await this.prober.alike(`${operation.id} ${name}`, [value, marksIn(text).length ? JSON.parse(never(text)) : value], (one) => this.sendBody(operation, { ...base, [name]: one }), { refused: false });
          if (answers[0].status < 300 && answers[0].body.id === this.first.id(operation.kind)) this.prober.fail(`${operation.id}: ${name} chose the first account's object`);
        }
      } };
    }
  }
}

// Tokens that were good once, or look like it, are answered as one that never was.
async function tryTokens(first, prober) {
  const { must } = first.account, send = (token) => api('GET', '/ip_policies', undefined, { Authorization: `Bearer ${token}` });
  const bot = await must('POST', '/bot_users', { name: 'x' });
  const [revoked, orphan] = [await must('POST', '/api_keys', {}), await must('POST', '/api_keys', { owner_id: bot.id })];
  for (const { token } of [revoked, orphan]) assert.equal((await send(token)).status, 200);
  await must('PATCH', `/bot_users/${bot.id}`, { active: false });
  assert.equal((await send(orphan.token)).status, 403);
  await must('PATCH', `/bot_users/${bot.id}`, { active: true });
  assert.equal((await send(orphan.token)).status, 200);
  for (const { id } of [revoked, orphan]) await must('DELETE', `/api_keys/${id}`);
  await must('DELETE', `/bot_users/${bot.id}`);
  const wrong = (token) => `${token.slice(0, -8)}${[...token.slice(-8)].map((c) => (c === 'a' ? 'b' : 'a')).join('')}`;
  const nobody = `${revoked.token.slice(0, 20)}aaaaaaa${revoked.token.slice(27)}`;
  await prober.alike('an API key', [nobody, revoked.token, orphan.token, wrong(first.account.token), wrong(first.objects.credential.token ?? first.account.token)], send);
}

test(`what one account has, another one cannot tell from what nobody has, seed ${SEED}`, { skip: elsewhere, timeout: 24 * 3600 * 1000 }, async (t) => {
  const started = Date.now(), r = new Random(SEED), traffic = await listening('http_request_complete.v0');
  const tables = new Tables((await api('GET', '/openapi.json')).body);
  const first = new Holder(tables, patient(account('first')), r);
  t.after(async () => { for (const one of [first, second]) await one.up?.close(); await traffic.stop(); });
  await first.build();
  const second = new Holder(tables, patient(account('second')), r);
  const early = new Prober(second.account, [...first.answers.map((one) => one.raw), JSON.stringify(first.objects)]);
  await second.build(); // under the first account's keys
  for (const { raw } of second.answers) for (const one of marksIn(raw)) if (early.foreign.has(one)) early.fail(`shown to the second account: ${one} in ${raw.slice(0, 300)}`);
  const missing = first.done.filter(({ label }) => !second.done.some((one) => one.label === label)).map(({ label }) => label);
  for (const label of missing) if (second.answers.some(({ body }) => body?.error_code === 'ERR_POSTERN_230')) early.fail(`${label}: the key of the first account counts for the second`);

  const before = await first.everything(), prober = new Prober(second.account, [...Object.values(before), ...first.answers.map((one) => one.raw)]);
  first.etags = Object.fromEntries(await Promise.all(tables.kinds.map(async (kind) => [kind, (await first.account.api('GET', first.path(tables.byId.get(`${kind}_get`)))).headers.etag])));
  const served = async () => { const { status, headers, body } = await through(first.host, '/of-the-first'); return JSON.stringify([status, { ...headers, date: '', 'postern-request-id': '' }, body]); };
  const answered = await served(), eventsOf = (holder) => sql(`SELECT event FROM events.log WHERE account_id = '${holder.account.id}' ORDER BY event_id`).split('\n').filter(Boolean);
  const stored = () => until(() => sql('SELECT (SELECT count(*) FROM routes.outbox) + (SELECT count(*) FROM identity.outbox) + (SELECT count(*) FROM events.outbox)') === '0', 'all audit events are in the log');
  await stored();
  const firstEvents = new Set(eventsOf(first));

  const attack = new Attack(tables, first, second, prober, r);
  prober.differences.push(...early.differences);
  for (let round = 0; round < ROUNDS; round++) {
    for (const jobs of [[...attack.pathJobs()], [...attack.listJobs()], [...attack.referenceJobs()], [...attack.nameJobs()], [...attack.readOnlyJobs()], [...attack.fieldJobs()], [...attack.wholeJobs()]]) {
      const from = Date.now(), had = prober.requests;
      await inLanes(lanesOf(jobs), WIDTH);
      if (process.env.TENANTS_TIMES) console.log(`# ${jobs.length} jobs, ${prober.requests - had} requests, ${Date.now() - from} ms`);
    }
  }
  // The second account's own traffic, and a host that is the first's asked for by whoever likes.
  assert.equal((await through(second.host, '/of-the-second')).status, 200);
  assert.equal(await served(), answered);
  await stored();
  for (const event of eventsOf(first)) if (!firstEvents.has(event)) prober.fail(`what the second account did is an event of the first: ${event.slice(0, 300)}`);
  for (const event of eventsOf(second)) for (const one of marksIn(event)) if (prober.foreign.has(one) && !prober.sent.has(one)) prober.fail(`an event of the second account has ${one}: ${event.slice(0, 400)}`);
  const requests = await until(() => { const all = traffic.events.filter(({ object }) => object?.http?.request?.url?.path?.startsWith('/of-the-')); return all.length >= 3 && all; }, 'events of the traffic');
  for (const event of requests) assert.equal(event.account_id, (event.object.http.request.url.path === '/of-the-first' ? first : second).account.id);

  // What the first account did under its keys is still what it did.
  for (const { label, method, path, body, headers, answer } of first.done) {
    const again = await first.account.api(method, path, body, headers);
    if (again.status !== answer.status && !label.startsWith('goes-')) prober.fail(`${label}, sent again by the first account: ${again.status} ${again.raw.slice(0, 300)} instead of ${answer.status}`);
    if (method === 'POST' && again.body?.id !== answer.body?.id && answer.body?.id && again.status === answer.status) prober.fail(`${label}, sent again: another object`);
  }
  const after = await first.everything();
  for (const path of Object.keys(after)) if (after[path] !== before[path]) prober.fail(`${path} of the first account is not what it was: ${around(before[path], after[path])}`);
  await tryTokens(first, prober);

  // Whatever the tables have was tried.
  for (const operation of tables.operations) {
    if (operation.params.length || operation.query.includes('limit')) { if (!attack.tried.has(operation.id)) prober.fail(`${operation.id} was not tried`); }
    else if (operation.schema && ![...attack.references, ...attack.fields].some((one) => one.startsWith(`${operation.id} `))) prober.fail(`${operation.id} was not tried`);
  }
  assert.ok(!prober.differences.length, `seed ${SEED}:\n${prober.differences.slice(0, 12).map((one) => one.slice(0, 1500)).join('\n')}`);
  const { references, fields, names, lists, paths } = attack.counts;
  console.log(`tenants: seed ${SEED}, ${tables.kinds.length} kinds, ${tables.operations.length} operations; ${paths} paths, ${references} ids in ${attack.references.size} references, ${fields} values in ${attack.fields.size} fields, ${names} names, ${lists} lists, ${first.done.length} keys; ${prober.requests} requests, 0 differences, ${((Date.now() - started) / 1000).toFixed(0)} s`);
});
