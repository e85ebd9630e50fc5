// One account's objects, rich: of every kind one that stays and one that was deleted, every module and member set, each change
// under an Idempotency-Key that the other account uses for the same change. And what traffic its host answers.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mend, object } from '../contract/generate.mjs';
import { world } from '../contract/world.mjs';
import { env, upstream } from '../support/postern.mjs';
import { mark, markAll, run } from './marks.mjs';

const sql = (schema, text) => execFileSync('psql', [env.DATABASE_URL, '-v', 'ON_ERROR_STOP=1', '-qAtc', `SET search_path = ${schema}; ${text}`], { encoding: 'utf8' }).trim();
let ids = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(ids++).toString(36)}`.padStart(27, '0');

// Kinds that only agents and sign-ins make: their rows, as those will write them. A kind that can neither be made through the API
// nor has a row here fails the run.
const rows = {
  application_user: (a, id) => sql('identity', `INSERT INTO object (id, account_id, kind) VALUES ('${id}', '${a.id}', 'application_user');
    INSERT INTO application_user VALUES ('${id}', '${a.id}', now(), '{"name": "${mark()}", "url": "https://idp.example"}', '${mark()}', '${mark()}', '${mark()}@example.test', '${mark()}', now(), now())`),
  application_session: (a, id, made) => sql('identity', `INSERT INTO object (id, account_id, kind, parent_id) VALUES ('${id}', '${a.id}', 'application_session', '${made.application_user}');
    INSERT INTO application_session VALUES ('${id}', '${a.id}', now(), 'https://${mark()}.test', '{"user_agent": {"raw": "${mark()}", "browser_name": "x", "browser_version": "1", "device_type": "desktop", "os_name": "x", "os_version": ""}, "ip_address": "192.0.2.7", "location": null}', '${made.application_user}', now(), now() + interval '1 day', NULL, '${made.https_edge}', '${made.https_edge_route}')`),
  tunnel_session: (a, id, made) => sql('routes', `INSERT INTO tunnel_session VALUES ('${id}', '${a.id}', '3.5.0', '${made.credential}', '192.0.2.9', '${mark()}', 'linux', '', now(), 'ngrok/2')`),
  tunnel: (a, id, made) => sql('routes', `INSERT INTO tunnel VALUES ('${id}', '${a.id}', 'https://${mark()}.test', now(), '${mark()}', 'https', '', '${made.tunnel_session}', '${made.endpoint}', '{"app": "${mark()}"}', '["${made.tunnel_group_backend}"]', 'http://${mark()}:80')`),
};
const forget = { application_user: 'identity', application_session: 'identity', tunnel: 'routes', tunnel_session: 'routes' };

export class Holder {
  // account: of tests/support/account.mjs; r: what draws
  constructor(tables, account, r) {
    Object.assign(this, { tables, account, r, objects: {}, sent: {}, gone: {}, goneSent: {}, done: [], answers: [] });
  }
  id(kind) { return kind === 'user' ? this.account.owner : this.objects[kind]?.id; }
  // The path with this account's own objects, but for those in given.
  path(operation, given = {}) {
    return operation.path.replace(/\{([a-z_]+)\}/g, (whole, name) => given[name] ?? this.at(operation, name));
  }
  at(operation, name) {
    const kind = this.tables.at(operation.path, name);
    if (kind === 'https_edge' && operation.kind !== 'https_edge') return this.edge;
    if (kind) return this.id(kind);
    const list = this.objects[operation.kind]?.[operation.path.split('/').at(-2)];
    assert.ok(list?.length, `${operation.id}: nothing is known for {${name}}`);
    return list[0][name];
  }
  body(kind, schema, p) {
    const body = markAll(schema, object(this.r, schema, this.here, p));
    mend[kind]?.(this.r, body, this.here);
    return body;
  }
  moduleBody(operation, p) {
    const name = operation.path.split('/').at(-1), whole = { [name]: markAll(operation.schema, object(this.r, operation.schema, this.here, p)) };
    mend[operation.kind]?.(this.r, whole, this.here);
    return whole[name];
  }
  // A change under a key that is the same for both accounts.
  async change(label, method, path, body) {
    const headers = { 'Idempotency-Key': `${run}-${label}` }, answer = await this.account.api(method, path, body, headers);
    this.answers.push(answer);
    if (answer.status < 300) this.done.push({ label, method, path, body, headers, answer });
    return answer;
  }
  async create(kind, label, p) {
    const operation = this.tables.create(kind), body = this.body(kind, operation.schema, p);
    await this.names(kind, body, label);
    for (const { path } of this.tables.members(kind)) body[path.split('/').at(-1)]?.splice(1); // room for others
    const answer = await this.change(`${label}-${kind}`, 'POST', this.path(operation), body);
    assert.equal(answer.status, 201, `${kind} ${JSON.stringify(body).slice(0, 2000)}: ${answer.raw}`);
    return { object: answer.body, body };
  }
  // Hostports and URLs are of names that the account has.
  async names(kind, body, label) {
    const has = (format) => Object.entries(this.tables.create(kind).schema.properties).find(([, one]) => one['x-format'] === format)?.[0];
    const [web, tcp, secret] = [has('hostport'), has('tcp_hostport'), has('secret_name') && 'vault_name' in this.tables.create(kind).schema.properties];
    if (web) body[web] = [`${(await this.account.must('POST', '/reserved_domains', { domain: `${mark()}.tenants.test` })).domain}:443`];
    if (tcp) body[tcp] = [(await this.account.must('POST', '/reserved_addrs', {})).addr];
    if (!secret) return;
    this.vault = await this.account.must('POST', '/vaults', { name: mark() });
    this.vaultName = body.vault_name = this.vault.name;
    delete body.vault_id;
  }

  async build() {
    const { tables, account } = this;
    this.here = await world(account.must);
    this.edge = this.here.made.https_edge[0].id;
    const kinds = tables.kinds.filter((kind) => tables.create(kind));
    for (const kind of kinds) {
      await this.twin(kind);
      const { object: made, body } = await this.create(kind, 'stays', 1);
      this.objects[kind] = made;
      this.sent[kind] = body;
    }
    for (const kind of kinds) await this.parts(kind);
    await this.others();
    for (const kind of tables.kinds) {
      assert.ok(this.objects[kind], `${kind}: no way to make one is known`);
      this.objects[kind] = await account.must('GET', this.path(tables.byId.get(`${kind}_get`), { id: this.id(kind) }));
    }
    await this.front();
    this.byPrefix = new Map(Object.values(this.objects).map(({ id }) => [id.replace(/_[^_]*$/, ''), id]));
    this.byPrefix.set('edghts', this.edge);
    return this;
  }
  // Another one, deleted.
  async twin(kind) {
    const { object: twin, body } = await this.create(kind, 'goes', 1);
    this.gone[kind] = twin.id;
    this.goneSent[kind] = body;
    const removed = this.tables.byId.get(`${kind}_delete`);
    assert.equal((await this.change(`deleted-${kind}`, 'DELETE', this.path(removed, { id: twin.id }))).status, 204, kind);
    if (kind === 'secret') await this.account.must('DELETE', `/vaults/${this.vault.id}`);
  }
  async parts(kind) {
    for (const operation of this.tables.modules(kind)) {
      const body = this.moduleBody(operation, 1), path = this.path(operation);
      let answer = await this.change(operation.id, 'PUT', path, body);
      if (answer.status === 400) answer = await this.change(operation.id, 'PUT', path, { ...body, enabled: false }); // it excludes another one
      assert.equal(answer.status, 200, `${operation.id} ${JSON.stringify(body).slice(0, 2000)}: ${answer.raw}`);
      this.sent[operation.id] = body;
    }
    for (const operation of this.tables.members(kind)) {
      for (let turn = 0; ; turn++) {
        const body = object(this.r, operation.schema, this.here, 0), answer = await this.change(operation.id, 'POST', this.path(operation), body);
        if (answer.status === 201) break;
        assert.ok(turn < 50, `${operation.id}: ${answer.raw}`); // it has that key already
      }
    }
    const update = this.tables.byId.get(`${kind}_update`);
    if (update?.schema.properties.metadata) {
      const answer = await this.change(update.id, 'PATCH', this.path(update), { metadata: mark() });
      assert.equal(answer.status, 200, `${update.id}: ${answer.raw}`);
    }
  }
  async others() {
    const made = Object.fromEntries(Object.entries(this.objects).map(([kind, one]) => [kind, one.id]));
    made.https_edge = this.edge;
    for (const kind of this.tables.kinds.filter((one) => !this.tables.create(one) && rows[one]).sort((a, b) => Object.keys(rows).indexOf(a) - Object.keys(rows).indexOf(b))) {
      const { prefix } = this.prefix(kind);
      for (const stays of [false, true]) {
        const id = `${prefix}_${ksuid()}`;
        rows[kind](this.account, id, made);
        if (stays) { made[kind] = id; this.objects[kind] = { id }; continue; }
        sql(forget[kind], `DELETE FROM ${forget[kind] === 'identity' ? 'object' : kind} WHERE id = '${id}'`);
        this.gone[kind] = id;
      }
    }
  }
  prefix(kind) { return { prefix: { application_user: 'app_user', application_session: 'app_sess', tunnel_session: 'ts', tunnel: 'tn' }[kind] }; }
  // A host that is answered.
  async front() {
    const { must } = this.account;
    this.up = await upstream((request, response) => response.end(JSON.stringify([this.account.id, request.url])));
    this.host = `www.${mark()}.tenants.test`;
    this.domain = await must('POST', '/reserved_domains', { domain: this.host });
    const edge = await must('POST', '/edges/https', { hostports: [`${this.host}:443`] });
    const backend = await must('POST', '/backends/static', { address: this.up.address });
    await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
    const freed = await must('POST', '/reserved_domains', { domain: `www.${mark()}.tenants.test` });
    await must('DELETE', `/reserved_domains/${freed.id}`);
    this.freed = freed.domain;
  }
  // Everything that the account can read, as text.
  async everything() {
    const out = {};
    for (const operation of this.tables.operations.filter((one) => one.method === 'GET')) {
      if (!operation.params.length && operation.kind !== 'self') {
        for (let at = operation.path; at;) {
          const answer = await this.account.api('GET', at);
          assert.equal(answer.status, 200, `${at}: ${answer.raw}`);
          out[at] = answer.raw;
          at = answer.body.next_page_uri && new URL(answer.body.next_page_uri).pathname + new URL(answer.body.next_page_uri).search;
        }
      } else if (operation.params.length) {
        const path = this.path(operation), answer = await this.account.api('GET', path);
        out[path] = `${answer.status} ${answer.headers.etag} ${answer.raw.replace(/"operation_id":"[^"]*"/, '')}`;
      }
    }
    return out;
  }
}
