// What edges serve as endpoints, agent ingresses, whose key this is, and kinds that are left out.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { api, client, env, must, unique } from '../support/postern.mjs';

test('endpoints are what edges serve', async () => {
  const host = unique('ep'), second = unique('ep');
  const domain = await must('POST', '/reserved_domains', { domain: host });
  const more = await must('POST', '/reserved_domains', { domain: second });
  const addr = await must('POST', '/reserved_addrs', {});
  const edge = await must('POST', '/edges/https', { hostports: [`${host}:443`] });
  const tcp = await must('POST', '/edges/tcp', { hostports: [addr.addr] });
  const tls = await must('POST', '/edges/tls', { hostports: [`${second}:443`] });
  const of = async (id) => (await must('GET', '/endpoints')).endpoints.filter((one) => one.edge.id === id);
  const [one] = await of(edge.id);
  assert.match(one.id, /^ep_[0-9A-Za-z]{27}$/);
  assert.deepEqual(one, {
    id: one.id, uri: `${env.POSTERN_API_URL}/endpoints/${one.id}`, created_at: one.created_at, updated_at: one.created_at, region: '', public_url: `https://${host}`, url: `https://${host}`,
    proto: 'https', scheme: 'https', hostport: `${host}:443`, host, port: 443, type: 'edge', metadata: '', description: '', domain: { id: domain.id, uri: domain.uri }, tcp_addr: null,
    tunnel: null, edge: { id: edge.id, uri: edge.uri }, upstream_url: '', upstream_protocol: '', principal: one.principal, traffic_policy: '', bindings: ['public'], tunnel_session: null, name: '', pooling_enabled: false,
  });
  assert.match(one.principal.id, /^usr_/);
  assert.deepEqual(await must('GET', `/endpoints/${one.id}`), one);
  assert.equal((await client().endpoints.get(one.id)).publicUrl, one.public_url);
  const [address] = await of(tcp.id);
  assert.deepEqual([address.public_url, address.tcp_addr.id, address.domain, address.port], [`tcp://${addr.addr}`, addr.id, null, Number(addr.addr.split(':')[1])]);
  assert.equal((await of(tls.id))[0].public_url, `tls://${second}:443`);
  const filtered = await must('GET', `/endpoints?filter=${encodeURIComponent(`obj.url == "https://${host}" && obj.type == "edge" && obj.binding == "public" && !obj.pooling_enabled && obj.principal.id != null && obj.scheme in ["https"]`)}`);
  assert.deepEqual(filtered.endpoints, [one]);

  await must('PATCH', `/edges/https/${edge.id}`, { description: 'changed' });
  assert.deepEqual(await of(edge.id), [one], 'stays what it is');
  await must('DELETE', `/edges/tls/${tls.id}`);
  await must('PATCH', `/edges/https/${edge.id}`, { hostports: [`${host}:443`, `${second}:443`] });
  assert.deepEqual((await of(edge.id)).map((each) => each.host).sort(), [host, second].sort());
  await must('PATCH', `/edges/https/${edge.id}`, { hostports: [`${second}:443`] });
  assert.equal((await api('GET', `/endpoints/${one.id}`)).status, 404);
  assert.equal((await of(edge.id))[0].domain.id, more.id);
  await must('DELETE', `/edges/https/${edge.id}`);
  assert.deepEqual(await of(edge.id), []);
  for (const method of ['POST', 'PATCH', 'DELETE']) assert.equal((await api(method, method === 'POST' ? '/endpoints' : `/endpoints/${one.id}`, method === 'DELETE' ? undefined : {})).status, 405, 'only edges make them');
});

test('endpoints by id and by url', async () => {
  const hosts = Array.from({ length: 3 }, () => unique('by-id')), domains = [];
  for (const domain of hosts) domains.push(await must('POST', '/reserved_domains', { domain }));
  const edge = await must('POST', '/edges/https', { hostports: hosts.map((host) => `${host}:443`) });
  const list = async (query) => (await must('GET', `/endpoints?${query}`)).endpoints;
  const all = await list(hosts.map((host) => `url=${encodeURIComponent(`https://${host}`)}`).join('&'));
  assert.deepEqual(all.map(({ host }) => host).sort(), [...hosts].sort());
  assert.deepEqual((await list(`id=${all[0].id}`)).map(({ id }) => id), [all[0].id]);
  assert.deepEqual((await list(`id=${all[0].id},${all[2].id}`)).map(({ id }) => id), [all[0].id, all[2].id]);
  assert.deepEqual((await list(`id=${all[0].id}&id=${all[1].id}&url=${encodeURIComponent(all[1].url)}`)).map(({ id }) => id), [all[1].id], 'both must hold');
  assert.deepEqual(await list('url=https://nowhere.example.test'), []);
  assert.deepEqual(await list(`id=${all[0].id}&filter=${encodeURIComponent('obj.type == "cloud"')}`), []);
  const page = await must('GET', `/endpoints?limit=1&${all.map(({ id }) => `id=${id}`).join('&')}&url=${encodeURIComponent(all[0].url)}&url=${encodeURIComponent(all[1].url)}`);
  const next = new URL(page.next_page_uri);
  assert.deepEqual(next.searchParams.getAll('id').sort(), all.map(({ id }) => id).sort());
  assert.equal(next.searchParams.getAll('url').length, 2);
  assert.deepEqual((await must('GET', next.pathname + next.search)).endpoints.map(({ id }) => id), [all[1].id]);
  for (const query of ['id=', 'id=a,,b', `id=${Array.from({ length: 101 }, () => 'x').join(',')}`, 'host=x']) {
    const answer = await api('GET', `/endpoints?${query}`);
    assert.equal(answer.status, 400, query);
    assert.ok(answer.body.error_code, answer.raw);
  }
  assert.equal((await api('GET', '/edges/https?id=x')).status, 400, 'other lists do not know it');
  await must('DELETE', `/edges/https/${edge.id}`);
  for (const { id } of domains) await must('DELETE', `/reserved_domains/${id}`);
});

test('agent ingresses', async () => {
  const domain = unique('agents');
  const made = await must('POST', '/agent_ingresses', { domain, description: 'd', metadata: 'm' });
  assert.match(made.id, /^agin_/);
  assert.deepEqual([made.domain, made.ns_targets, made.region_domains, made.certificate_management_policy, made.certificate_management_status], [domain, [], [], null, null]);
  assert.deepEqual(await must('GET', `/agent_ingresses/${made.id}`), made);
  assert.equal((await must('PATCH', `/agent_ingresses/${made.id}`, { description: '' })).description, '');
  assert.deepEqual((await must('GET', `/agent_ingresses?filter=${encodeURIComponent(`obj.domain == "${domain}"`)}`)).ingresses.map((one) => one.id), [made.id]);
  for (const [code, field, method, path, body] of [
    [143, 'domain', 'POST', '/agent_ingresses', { domain }], [182, 'domain', 'POST', '/agent_ingresses', { domain: 'no domain' }], [122, 'domain', 'POST', '/agent_ingresses', {}],
    [126, 'domain', 'PATCH', `/agent_ingresses/${made.id}`, { domain: unique('x') }],
    [186, 'certificate_management_policy', 'POST', '/agent_ingresses', { domain: unique('x'), certificate_management_policy: { authority: 'letsencrypt' } }],
  ]) {
    const answer = await api(method, path, body);
    assert.equal(answer.body.error_code, `ERR_POSTERN_${code}`, answer.raw);
    assert.ok(field in answer.body.details, answer.raw);
  }
  await must('DELETE', `/agent_ingresses/${made.id}`);
  assert.equal((await api('GET', `/agent_ingresses/${made.id}`)).status, 404);
});

test('self and root', async () => {
  const self = await must('GET', '/self');
  assert.equal(self.account.id, env.POSTERN_ACCOUNT);
  assert.equal(self.account.name, 'First account');
  assert.match(self.account.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assert.equal(self.user, 'admin@example.test');
  assert.equal(self.api_key.token, null);
  assert.deepEqual(await must('GET', `/api_keys/${self.api_key.id}`), self.api_key);
  assert.equal((await api('GET', '/self', undefined, { Authorization: 'Bearer nonsense' })).status, 401);
  assert.equal((await api('POST', '/self', {})).status, 404);
  const root = await must('GET', '/');
  for (const uri of Object.values(root.subresource_uris)) await must('GET', new URL(uri).pathname);
});

test('kinds that are left out say so, and the README lists them', async () => {
  const rows = [...fs.readFileSync(new URL('../../proto/left_out.def', import.meta.url), 'utf8').matchAll(/^LEFT_OUT\("([^"]+)",\s+"([^"]+)"\)/gm)];
  const readme = fs.readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
  assert.ok(rows.length >= 5);
  for (const [, path, reason] of rows) {
    for (const where of path.startsWith('*') ? [`/edges/tcp/x${path.slice(1)}`] : [path, `${path}/x_${'0'.repeat(27)}`]) {
      const answer = await api('GET', where);
      assert.equal(answer.status, 404);
      assert.equal(answer.body.error_code, 'ERR_POSTERN_118');
      assert.equal(answer.body.msg, reason);
      assert.equal(answer.body.details.path, where);
    }
    assert.ok(readme.includes(`\`${path}\``) && readme.includes(reason), `${path} in the README`);
  }
  assert.equal((await api('GET', '/tunnelsx')).body.error_code, undefined);
});
