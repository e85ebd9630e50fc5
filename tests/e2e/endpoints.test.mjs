// Endpoints of edges and of type cloud, tunnels, agent ingresses, whose key this is, and kinds that are left out.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { execFileSync } from 'node:child_process';
import { api, client, elsewhere, env, listening, must, through, unique, until } from '../support/postern.mjs';

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = routes; ${text}`], { encoding: 'utf8' }).trim();
const policy = '{"on_http_request": [{"actions": [{"type": "deny"}]}]}';
async function refused(code, field, method, path, body) {
  const answer = await api(method, path, body);
  assert.equal(answer.body.error_code, `ERR_POSTERN_${code}`, `${method} ${path} ${JSON.stringify(body)}: ${answer.raw}`);
  if (field) assert.ok(field in answer.body.details, answer.raw);
  return answer;
}

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
});

test('endpoints of type cloud: every operation', async () => {
  const ngrok = client(), host = unique('cloud'), second = unique('cloud'), sub = await listening();
  const domain = await must('POST', '/reserved_domains', { domain: host });
  const more = await must('POST', '/reserved_domains', { domain: second });
  const made = await must('POST', '/endpoints', { url: `https://${host}`, type: 'cloud', traffic_policy: policy, description: 'd', metadata: 'm', bindings: ['public'] });
  const read = await must('GET', `/endpoints/${made.id}`);
  assert.deepEqual(read, {
    id: made.id, uri: `${env.POSTERN_API_URL}/endpoints/${made.id}`, created_at: read.created_at, updated_at: read.created_at, region: '', public_url: `https://${host}`, url: `https://${host}`,
    proto: 'https', scheme: 'https', hostport: `${host}:443`, host, port: 443, type: 'cloud', metadata: 'm', description: 'd', domain: { id: domain.id, uri: domain.uri }, tcp_addr: null,
    tunnel: null, edge: null, upstream_url: '', upstream_protocol: '', principal: read.principal, traffic_policy: policy, bindings: ['public'], tunnel_session: null, name: '', pooling_enabled: false,
  });
  assert.match(read.principal.id, /^usr_/);
  assert.equal((await ngrok.endpoints.get(made.id)).publicUrl, read.public_url);

  // the edge has it at once, and lets nothing through while it cannot enforce the policy
  const denied = await through(host, '/', { headers: { Accept: 'application/json' } });
  assert.equal(denied.status, 503);
  assert.match(denied.body, /ERR_POSTERN_908/);

  const updated = await must('PATCH', `/endpoints/${made.id}`, { id: made.id, description: '', metadata: 'n', traffic_policy: 'on_tcp_connect: []\n' });
  assert.deepEqual([updated.description, updated.metadata, updated.traffic_policy, updated.url], ['', 'n', 'on_tcp_connect: []\n', `https://${host}`]);
  await must('PATCH', `/endpoints/${made.id}`, { url: `HTTPS://${second.toUpperCase()}.:443/` });
  const moved = await must('GET', `/endpoints/${made.id}`);
  assert.deepEqual([moved.url, moved.host, moved.domain.id], [`https://${second}`, second, more.id]);
  assert.equal((await through(second)).status, 503);
  assert.equal((await through(host)).status, 404, 'nobody is at the old name');
  await must('DELETE', `/reserved_domains/${domain.id}`);
  await refused(142, null, 'DELETE', `/reserved_domains/${more.id}`);
  assert.deepEqual((await must('GET', `/endpoints?filter=${encodeURIComponent(`obj.type == "cloud" && obj.metadata == "n" && obj.url == "https://${second}"`)}`)).endpoints.map(({ id }) => id), [made.id]);

  const key = { 'Idempotency-Key': unique('gone') };
  assert.equal((await api('DELETE', `/endpoints/${made.id}`, undefined, key)).status, 204);
  assert.equal((await api('DELETE', `/endpoints/${made.id}`, undefined, key)).status, 204, 'the same request again');
  await refused(140, null, 'DELETE', `/endpoints/${made.id}`);
  assert.equal((await through(second)).status, 404);
  await must('DELETE', `/reserved_domains/${more.id}`);
  const events = await until(() => { const mine = sub.events.filter(({ object }) => object?.id === made.id); return mine.length === 4 && mine; }, 'the audit events');
  assert.deepEqual(events.map(({ event_type: type }) => type), ['created', 'updated', 'updated', 'deleted'].map((what) => `endpoint_${what}.v0`));
  assert.deepEqual(events[0].object, read);
  await sub.close?.();
});

test('urls and names of endpoints', async () => {
  const host = unique('url'), domain = await must('POST', '/reserved_domains', { domain: host }), addr = await must('POST', '/reserved_addrs', {});
  const edge = await must('POST', '/edges/https', {});
  const wanted = (url, more) => ({ url, traffic_policy: policy, ...more });
  for (const [code, field, body] of [
    [122, 'url', { traffic_policy: policy }], [122, 'traffic_policy', { url: `https://${host}` }], [179, 'traffic_policy', { url: `https://${host}`, traffic_policy: '{' }],
    ...['', 'x', host, `ftp://${host}`, `//${host}`, 'https://', 'https:///', `https://${host}/path`, `https://${host}?q`, `https://u@${host}`, `https://${host}:0`, `https://${host}:65536`, `https://${host}:`, 'https://a..b', `https://-${host}`,
      `tcp://${host}`, `https://${host}:8443`, `http://${host}:443`, `tls://${host}:80`, `https://${'a'.repeat(250)}.test`, 'https://name.internal'].map((url) => [211, 'url', wanted(url)]),
    [211, 'url', wanted(`https://${host}`, { bindings: ['internal'] })],
    [151, 'url', wanted('https://nobody.example.test')], [151, 'url', wanted('tcp://localhost:1')], [151, 'url', wanted(`tcp://${host}:443`)],
    [210, 'type', wanted(`https://${host}`, { type: 'edge' })], [210, 'type', wanted(`https://${host}`, { type: 'ephemeral' })],
    [121, 'bindings', wanted(`https://${host}`, { bindings: [] })], [121, 'bindings', wanted(`https://${host}`, { bindings: ['public', 'internal'] })], [121, 'bindings[0]', wanted(`https://${host}`, { bindings: ['kubernetes'] })],
    [123, 'description', wanted(`https://${host}`, { description: 'x'.repeat(256) })], [124, 'metadata', wanted(`https://${host}`, { metadata: 'x'.repeat(4097) })],
    [120, 'hostport', wanted(`https://${host}`, { hostport: 'a:1' })],
  ]) await refused(code, field, 'POST', '/endpoints', body);

  const made = [];
  for (const [url, scheme, port, more] of [[`http://${host}`, 'http', 80], [`tls://${host}:443`, 'tls', 443], [`tcp://${addr.addr}`, 'tcp', Number(addr.addr.split(':')[1])], ['https://name.internal:8443', 'https', 8443, { bindings: ['internal'] }]]) {
    const one = await must('POST', '/endpoints', wanted(url, more));
    assert.deepEqual([one.url, one.public_url, one.scheme, one.proto, one.port, one.tcp_addr?.id ?? null], [url, url, scheme, scheme, port, scheme === 'tcp' ? addr.id : null]);
    made.push(one);
  }
  assert.equal((await through('name.internal', '/', { servername: host, headers: { Host: 'name.internal' } })).status, 404, 'an internal name is not served');
  await refused(142, null, 'DELETE', `/reserved_addrs/${addr.id}`);
  await refused(126, 'url', 'PATCH', `/endpoints/${made[0].id}`, { url: `tls://${host}:443` });
  await refused(125, null, 'PATCH', `/endpoints/${made[0].id}`, {});
  await refused(126, 'type', 'PATCH', `/endpoints/${made[0].id}`, { type: 'edge' });
  assert.equal((await must('PATCH', `/endpoints/${made[0].id}`, { type: 'cloud' })).type, 'cloud', 'as it is');
  await refused(143, 'url', 'POST', '/endpoints', wanted(`https://${host}`));
  await refused(143, 'hostports', 'PATCH', `/edges/https/${edge.id}`, { hostports: [`${host}:443`] });
  for (const { id } of made) await must('DELETE', `/endpoints/${id}`);

  await must('PATCH', `/edges/https/${edge.id}`, { hostports: [`${host}:443`] });
  const [own] = (await must('GET', `/endpoints?url=${encodeURIComponent(`https://${host}`)}`)).endpoints;
  await refused(210, 'type', 'PATCH', `/endpoints/${own.id}`, { description: 'x' });
  await refused(210, null, 'DELETE', `/endpoints/${own.id}`);
  assert.deepEqual(await must('GET', `/endpoints/${own.id}`), own);
  await refused(143, 'url', 'POST', '/endpoints', wanted(`https://${host}`));
  await must('DELETE', `/edges/https/${edge.id}`);
  await must('DELETE', `/reserved_domains/${domain.id}`);
  await must('DELETE', `/reserved_addrs/${addr.id}`);
});

test('endpoints that pool share a URL, all of them or none', async () => {
  const host = unique('pool'), domain = await must('POST', '/reserved_domains', { domain: host });
  const edge = await must('POST', '/edges/https', {});
  const body = (pooling_enabled) => ({ url: `https://${host}`, traffic_policy: policy, pooling_enabled });
  // whoever comes first decides: under a race, too, all that are there agree
  const made = (await Promise.all(Array.from({ length: 24 }, (_, i) => api('POST', '/endpoints', body(i % 2 === 0))))).filter(({ status }) => status === 201).map((answer) => answer.body);
  assert.ok(made.length === 1 || made.length === 12, `${made.length} are there`);
  assert.equal(new Set(made.map((one) => one.pooling_enabled)).size, 1);
  for (const { id } of made) await must('DELETE', `/endpoints/${id}`);
  assert.equal((await through(host)).status, 404);

  const first = await must('POST', '/endpoints', body(true)), second = await must('POST', '/endpoints', body(true));
  await refused(212, 'pooling_enabled', 'POST', '/endpoints', body(false));
  await refused(212, 'pooling_enabled', 'PATCH', `/endpoints/${first.id}`, { pooling_enabled: false });
  await refused(212, 'hostports[0]', 'PATCH', `/edges/https/${edge.id}`, { hostports: [`${host}:443`] });
  await must('DELETE', `/endpoints/${second.id}`);
  assert.equal((await through(host)).status, 503, 'the first is there still');
  assert.equal((await must('PATCH', `/endpoints/${first.id}`, { pooling_enabled: false })).pooling_enabled, false);
  await refused(212, 'pooling_enabled', 'POST', '/endpoints', body(true));
  await must('DELETE', `/endpoints/${first.id}`);
  assert.equal((await through(host)).status, 404);
  await must('DELETE', `/edges/https/${edge.id}`);
  await must('DELETE', `/reserved_domains/${domain.id}`);
});

test('tunnels and their sessions: list and get, with the official client', { skip: elsewhere }, async () => {
  const ngrok = client(), account = env.POSTERN_ACCOUNT, tail = String(Date.now()).padStart(27, '0');
  const session = `ts_${tail}`, tunnel = `tn_${tail}`, group = await must('POST', '/backends/tunnel_group', { labels: { app: 'x' } });
  await refused(140, null, 'GET', `/tunnels/${tunnel}`);
  // their rows are written as an agent's connection will write them
  sql(`INSERT INTO tunnel_session VALUES ('${session}', '${account}', '3.5.0', 'cr_${'0'.repeat(27)}', '192.0.2.9', 'meta', 'linux', '', '2026-01-02T03:04:05Z', 'ngrok/2');
       INSERT INTO tunnel VALUES ('${tunnel}', '${account}', '', '2026-01-02T03:04:06Z', 'm', '', '', '${session}', NULL, '{"app": "x"}', '["${group.id}"]', 'http://localhost:80'),
                                 ('tn_${'1'.repeat(27)}', 'someone_else', '', '2026-01-02T03:04:06Z', 'm', '', '', '${session}', NULL, '{}', '[]', 'x')`);
  try {
    const uri = (path) => `${env.POSTERN_API_URL}${path}`;
    assert.deepEqual(await must('GET', `/tunnels/${tunnel}`), {
      id: tunnel, uri: uri(`/tunnels/${tunnel}`), public_url: '', started_at: '2026-01-02T03:04:06Z', metadata: 'm', proto: '', region: '', tunnel_session: { id: session, uri: uri(`/tunnel_sessions/${session}`) },
      endpoint: null, labels: { app: 'x' }, backends: [{ id: group.id, uri: group.uri }], forwards_to: 'http://localhost:80',
    });
    assert.deepEqual(await must('GET', `/tunnel_sessions/${session}`), {
      id: session, uri: uri(`/tunnel_sessions/${session}`), agent_version: '3.5.0', credential: { id: `cr_${'0'.repeat(27)}`, uri: uri(`/credentials/cr_${'0'.repeat(27)}`) }, ip: '192.0.2.9', metadata: 'meta', os: 'linux', region: '',
      started_at: '2026-01-02T03:04:05Z', transport: 'ngrok/2',
    });
    // an edge cannot take what an agent serves, and can when it has ended
    const [web, addr] = [await must('POST', '/reserved_domains', { domain: unique('agent') }), await must('POST', '/reserved_addrs', {})];
    for (const [url, path, hostport] of [[`https://${web.domain}`, '/edges/https', `${web.domain}:443`], [`tls://${web.domain}:443`, '/edges/tls', `${web.domain}:443`], [`tcp://${addr.addr}`, '/edges/tcp', addr.addr]]) {
      sql(`UPDATE tunnel SET public_url = '${url}' WHERE account_id = 'someone_else'`);
      const answer = await refused(215, 'hostports[0]', 'POST', path, { hostports: [hostport] });
      assert.equal(answer.status, 409);
      const empty = await must('POST', path, {});
      await refused(215, 'hostports[0]', 'PATCH', `${path}/${empty.id}`, { hostports: [hostport] });
      sql("UPDATE tunnel SET public_url = '' WHERE account_id = 'someone_else'");
      assert.deepEqual((await must('PATCH', `${path}/${empty.id}`, { hostports: [hostport] })).hostports, [hostport]);
      await must('DELETE', `${path}/${empty.id}`);
    }
    await must('DELETE', `/reserved_domains/${web.id}`);
    await must('DELETE', `/reserved_addrs/${addr.id}`);
    const listed = [];
    for await (const one of await ngrok.tunnels.list()) listed.push(one.id);
    assert.deepEqual(listed, [tunnel], 'and nobody else\'s');
    assert.equal((await ngrok.tunnelSessions.get(session)).agentVersion, '3.5.0');
    assert.deepEqual((await must('GET', `/tunnel_sessions?filter=${encodeURIComponent('obj.ip == "192.0.2.9" && obj.os == "linux"')}`)).tunnel_sessions.map(({ id }) => id), [session]);
    assert.deepEqual((await must('GET', '/tunnel_sessions?filter=obj.os%3D%3D%22plan9%22')).tunnel_sessions, []);
    for (const path of ['/tunnels', `/tunnels/${tunnel}`, `/tunnel_sessions/${session}`]) assert.equal((await api('DELETE', path)).status, 405);
    for (const what of ['restart', 'stop', 'update']) {
      // the agent is not there: nothing else is to be told of it
      await refused(214, 'id', 'POST', `/tunnel_sessions/${session}/${what}`, {});
      await refused(214, 'id', 'POST', `/tunnel_sessions/${session}/${what}`, { id: session });
      await refused(140, null, 'POST', `/tunnel_sessions/ts_${'0'.repeat(27)}/${what}`, {});
      assert.equal((await api('GET', `/tunnel_sessions/${session}/${what}`)).status, 405);
      await assert.rejects(ngrok.tunnelSessions[what](what === 'update' ? { id: session } : session), (error) => error.errorCode === 'ERR_POSTERN_214');
    }
    assert.equal((await api('POST', `/tunnel_sessions/${session}/explode`, {})).status, 404);
    assert.equal((await api('POST', `/tunnels/${tunnel}/stop`, {})).status, 404);
  } finally {
    sql(`DELETE FROM tunnel_session WHERE id = '${session}'`);
    await must('DELETE', `/backends/tunnel_group/${group.id}`);
  }
  assert.deepEqual(await must('GET', '/tunnels'), { tunnels: [], uri: `${env.POSTERN_API_URL}/tunnels`, next_page_uri: null });
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
  for (const query of ['id=a,,b', `id=${Array.from({ length: 101 }, () => 'x').join(',')}`, 'host=x']) {
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

test('kinds that are left out say so, and services/gateway/README.md lists them', async () => {
  const rows = [...fs.readFileSync(new URL('../../proto/left_out.def', import.meta.url), 'utf8').matchAll(/^LEFT_OUT\("([^"]+)",\s+"([^"]+)"\)/gm)];
  const readme = fs.readFileSync(new URL('../../services/gateway/README.md', import.meta.url), 'utf8');
  assert.ok(rows.length >= 3);
  for (const [, path, reason, pattern = path] of rows) {
    if (path.endsWith('*')) {
      assert.equal((await api('GET', path.slice(0, -2))).body.error_code, undefined, 'the name alone is not meant');
      for (const rest of ['api_keys', 'configs']) rows.push([null, path.replace('*', rest), reason, path]);
      continue;
    }
    for (const where of path.startsWith('*') ? [`/edges/tcp/x${path.slice(1)}`, `/tunnel_sessions/ts_${'0'.repeat(27)}${path.slice(1)}`] : [path, `${path}/x_${'0'.repeat(27)}`]) {
      const answer = await api('GET', where);
      assert.equal(answer.status, 404);
      assert.equal(answer.body.error_code, 'ERR_POSTERN_118');
      assert.equal(answer.body.msg, reason);
      assert.equal(answer.body.details.path, where);
    }
    assert.ok(readme.includes(`\`${pattern}\``) && readme.includes(reason), `${path} in services/gateway/README.md`);
  }
  assert.equal((await api('GET', '/abuse_reportsx')).body.error_code, undefined);
});
