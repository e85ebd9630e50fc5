// What goes through the edge: routing, modules, streams, TLS, error pages, events.
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import https from 'node:https';
import http from 'node:http';
import net from 'node:net';
import test from 'node:test';
import tls from 'node:tls';
import {
  WebSocket, api, ca, edge, elsewhere, endpoint, listening, must, raw, tcpUpstream, through, unique, until, upstream,
} from '../support/postern.mjs';

const answer = (body, extra = {}) => must('POST', '/backends/http_response', { body, ...extra });
const addRoute = async (to, match, match_type, body, modules = {}) =>
  must('POST', `/edges/https/${to.edge.id}/routes`, { match, match_type, backend: { backend_id: (await answer(body)).id }, ...modules });

test('exact_beats_prefix_longer_beats_shorter_host_beats_none', async () => {
  const to = await endpoint({ body: 'root' });
  await addRoute(to, '/a', 'path_prefix', 'a');
  await addRoute(to, '/a/b', 'path_prefix', 'ab');
  await addRoute(to, '/a/b/c', 'exact_path', 'abc');
  await addRoute(to, `${to.host}/a/b/d`, 'path_prefix', 'host-abd');
  const want = { '/': 'root', '/x': 'root', '/a': 'a', '/ab': 'a', '/a/b': 'ab', '/a/bx': 'ab', '/a/b/c': 'abc', '/a/b/cc': 'ab', '/a/b/d/e': 'host-abd', '/a?x=/a/b/c': 'a' };
  for (const [path, body] of Object.entries(want)) assert.equal((await through(to.host, path)).body, body, path);
});

test('wildcard_domains_serve_their_children', async () => {
  const parent = unique('wild');
  await must('POST', '/reserved_domains', { domain: `*.${parent}` });
  const front = await must('POST', '/edges/https', { hostports: [`*.${parent}:443`] });
  await must('POST', `/edges/https/${front.id}/routes`, { match: '/', match_type: 'path_prefix', backend: { backend_id: (await answer('any')).id } });
  assert.equal((await through(`a.${parent}`)).body, 'any');
});

test('a_changed_backend_is_live_when_the_change_returns', async () => {
  const one = await upstream((q, s) => s.end('one')), two = await upstream((q, s) => s.end('two'));
  const to = await endpoint(one.address);
  for (let i = 0; i < 25; i++) {
    const [now, name] = i % 2 ? [one, 'one'] : [two, 'two'];
    await must('PATCH', `/backends/static/${to.backend.id}`, { address: now.address });
    assert.equal((await through(to.host)).body, name);
  }
  await one.close();
  await two.close();
});

test('replies_say_which_edges_have_the_revision', async () => {
  const { headers } = await api('POST', '/backends/static', { address: '127.0.0.1:1' });
  assert.match(headers['postern-revision'], /^\d+$/);
  const [acknowledged, live] = headers['postern-edges'].split('/').map(Number);
  assert.ok(live >= 1);
  assert.equal(acknowledged, live);
});

test('forwarded_headers_are_the_edges_own', { skip: elsewhere }, async () => {
  const up = await upstream();
  const to = await endpoint(up.address);
  const { headers } = JSON.parse((await through(to.host, '/')).body);
  assert.equal(headers['x-forwarded-for'], '127.0.0.1');
  assert.equal(headers['x-forwarded-proto'], 'https');
  assert.equal(headers['x-forwarded-host'], to.host);
  assert.equal(headers.host, to.host);
  await up.close();
});

test('class_forwarded_spoofing_ghsa_7x63_xv5r_3p2x', { skip: elsewhere }, async () => {
  const up = await upstream();
  const to = await endpoint(up.address);
  await through(to.host, '/', { headers: { 'X-Forwarded-For': '10.9.8.7', 'x-forwarded-proto': 'http', 'X-FORWARDED-HOST': 'evil.test' } });
  assert.deepEqual(up.seen[0].rawHeaders.filter((h) => /evil|10\.9/.test(h)), []);
  assert.equal(up.seen[0].headers['x-forwarded-for'], '127.0.0.1');
  await up.close();
});

test('class_identity_headers_cve_2025_64484', async () => {
  const up = await upstream();
  const to = await endpoint(up.address);
  const names = ['Postern-Auth-User-Id', 'postern_auth_user_id', 'POSTERN-AUTH-USER-EMAIL', 'X-Ngrok-User', 'X_Ngrok_User', 'ngrok-auth-user-id', 'Ngrok-Mtls-Subject-Cn'];
  const lines = names.flatMap((name) => [`${name}: forged`, `${name}: again`]).join('\r\n');
  await raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\n${lines}\r\nConnection: close\r\n\r\n`);
  assert.equal(up.seen.length, 1);
  assert.ok(!JSON.stringify(up.seen[0].rawHeaders).match(/forged|again/), JSON.stringify(up.seen[0].rawHeaders));
  await up.close();
});

test('class_connection_header_strip_cve_2024_45410', async () => {
  const up = await upstream();
  const to = await endpoint(up.address);
  await raw(to.host, `GET / HTTP/1.1\r\nHost: ${to.host}\r\nConnection: close, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, Host\r\n\r\n`);
  for (const name of ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'host']) assert.ok(up.seen[0].headers[name], name);
  await up.close();
});

test('request_and_response_headers_are_edited', async () => {
  const up = await upstream((q, s, body) => { s.setHeader('X-Powered-By', 'secret'); s.setHeader('Content-Type', 'text/plain'); s.end(JSON.stringify(q.headers)); });
  const to = await endpoint(up.address, {
    request_headers: { add: { 'X-New': 'v', Host: 'inner.test' }, remove: ['X-Old', 'host'] },
    response_headers: { add: { 'X-Out': 'w' }, remove: ['x-powered-by'] },
  });
  const { headers, body } = await through(to.host, '/', { headers: { 'x-old': '1', 'X-OLD': '2', 'X-Keep': '3' } });
  const got = JSON.parse(body);
  assert.equal(got['x-new'], 'v');
  assert.equal(got.host, 'inner.test');
  assert.equal(got['x-old'], undefined);
  assert.equal(got['x-keep'], '3');
  assert.equal(headers['x-out'], 'w');
  assert.equal(headers['x-powered-by'], undefined);
  await up.close();
});

test('http_response_backend_answers_itself', async () => {
  const to = await endpoint({ body: '<p>hi</p>', status_code: 418, headers: { 'Content-Type': 'text/html', 'X-Tea': 'pot' } });
  const got = await through(to.host);
  assert.equal(got.status, 418);
  assert.equal(got.body, '<p>hi</p>');
  assert.equal(got.headers['content-type'], 'text/html');
  assert.equal(got.headers['x-tea'], 'pot');
});

for (const [module, config] of Object.entries({
  traffic_policy: { value: '{}' },
  // of a module that is enforced, what is not: expressions
  request_headers: { add: { 'X-Ip': '${conn.client_ip}' } }, response_headers: { add: { 'X-One': '1', 'X-Ip': 'from ${.conn.client_ip}' } },
}))
  test(`fail_closed: ${module} that cannot be enforced answers 503 and the upstream hears nothing`, async () => {
    const up = await upstream();
    const to = await endpoint(up.address, { [module]: config });
    const got = await through(to.host);
    assert.equal(got.status, 503);
    assert.equal(JSON.parse(got.body).error_code, 'ERR_POSTERN_908');
    assert.equal(up.seen.length, 0);
    await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { [module]: { ...config, enabled: false } });
    assert.equal((await through(to.host)).status, 200, 'a module that is off does not count');
    await up.close();
  });

test('streams_flow_both_ways_while_open', async () => {
  const up = await tcpUpstream((socket) => {
    let got = '';
    socket.on('data', (part) => {
      if (!got) socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n');
      got += part;
      if (got.includes('later')) socket.write('6\r\nsecond\r\n0\r\n\r\n');
    });
    socket.on('error', () => {});
  });
  const to = await endpoint(up.address);
  const request = https.request({ host: edge.host, port: edge.port, servername: to.host, ca, method: 'POST', headers: { Host: to.host, 'Transfer-Encoding': 'chunked' }, agent: false });
  request.write('hello');
  const response = await new Promise((resolve, reject) => { request.on('response', resolve); request.on('error', reject); });
  let text = '', ended = false;
  response.on('data', (part) => { text += part; });
  response.on('end', () => { ended = true; });
  await until(() => text === 'first', 'the response begins while the request is open');
  request.end('later');
  await until(() => ended, 'the end');
  assert.equal(text, 'firstsecond');
  up.server.close();
});

test('a_3_megabyte_body_arrives_whole', async () => {
  const up = await upstream((q, s, body) => s.end(String(body.length)));
  const to = await endpoint(up.address);
  assert.equal((await through(to.host, '/', { method: 'POST', body: Buffer.alloc(3 << 20, 'x') })).body, String(3 << 20));
  await up.close();
});

test('http2_requests_are_served', async () => {
  const up = await upstream();
  const to = await endpoint(up.address);
  const session = http2.connect(`https://${to.host}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: to.host, ca, ALPNProtocols: ['h2'] }) });
  const get = (path) => new Promise((resolve, reject) => {
    const stream = session.request({ ':path': path, ':authority': to.host });
    let status, text = '';
    stream.on('response', (headers) => { status = headers[':status']; });
    stream.on('data', (part) => { text += part; });
    stream.on('end', () => resolve({ status, text }));
    stream.on('error', reject);
  });
  const got = await Promise.all(Array.from({ length: 20 }, (_, i) => get(`/${i}`)));
  assert.ok(got.every((one, i) => one.status === 200 && JSON.parse(one.text).url === `/${i}`));
  session.close();
  await up.close();
});

test('websockets_pass_through', async () => {
  const { createRequire } = await import('node:module');
  const require = createRequire(new URL('package.json', import.meta.url));
  const { WebSocketServer } = require('ws');
  const up = await upstream();
  new WebSocketServer({ server: up.server }).on('connection', (socket) => socket.on('message', (data) => socket.send(`echo ${data}`)));
  const to = await endpoint(up.address);
  const socket = new WebSocket(`wss://${edge.host}:${edge.port}/chat`, { servername: to.host, ca, headers: { Host: to.host } });
  const got = await new Promise((resolve, reject) => { socket.on('open', () => socket.send('hi')); socket.on('message', (data) => resolve(String(data))); socket.on('error', reject); });
  assert.equal(got, 'echo hi');
  // a change of something else leaves it open
  await must('PATCH', `/edges/https/${to.edge.id}/routes/${to.route.id}`, { description: 'changed' });
  const again = await new Promise((resolve) => { socket.on('message', (data) => resolve(String(data))); socket.send('still'); });
  assert.equal(again, 'echo still');
  socket.close();
  up.server.closeAllConnections();
  await up.close();
});

test('plain_http_redirects_known_hosts_to_https', async () => {
  const to = await endpoint({ body: 'x' });
  const get = (host) => new Promise((resolve, reject) => http.get({ host: edge.plainHost, port: edge.plainPort, path: '/a/../b?c=d', headers: { Host: host }, agent: false }, (r) => { r.resume(); resolve(r); }).on('error', reject));
  const known = await get(to.host);
  assert.equal(known.statusCode, 301);
  assert.equal(known.headers.location, `https://${to.host}:${edge.port}/b?c=d`);
  assert.equal((await get('nobody.example.test')).statusCode, 404);
});

test('error_pages_are_html_or_json_by_accept', async () => {
  const to = await endpoint({ body: 'x' }, { match: '/only' });
  const json = await through(to.host, '/none', { headers: { Accept: 'application/json' } });
  assert.equal(json.status, 404);
  assert.equal(JSON.parse(json.body).error_code, 'ERR_POSTERN_902');
  assert.equal(JSON.parse(json.body).details.request_id, json.headers['postern-request-id']);
  const html = await through(to.host, '/none<script>', { headers: { Accept: 'text/html,*/*' } });
  assert.match(html.headers['content-type'], /text\/html/);
  assert.ok(!html.body.includes('script>'));
});

test('error_codes_name_what_failed', async () => {
  const closed = await upstream();
  const address = closed.address;
  await closed.close();
  const refused = await endpoint(address);
  assert.equal(JSON.parse((await through(refused.host)).body).error_code, 'ERR_POSTERN_904');
  const nothing = await must('POST', '/reserved_domains', { domain: unique('bare') });
  const bare = await must('POST', '/edges/https', { hostports: [`${nothing.domain}:443`] });
  assert.equal(JSON.parse((await through(nothing.domain)).body).error_code, 'ERR_POSTERN_902');
  await must('POST', `/edges/https/${bare.id}/routes`, { match: '/', match_type: 'path_prefix' });
  assert.equal(JSON.parse((await through(nothing.domain)).body).error_code, 'ERR_POSTERN_903');
  const garbage = await tcpUpstream((socket) => socket.end('nonsense\r\n\r\n'));
  const bad = await endpoint(garbage.address);
  assert.equal((await through(bad.host)).status, 502);
  await garbage.close();
  const broken = await endpoint('nobody.invalid:80');
  assert.equal(JSON.parse((await through(broken.host)).body).error_code, 'ERR_POSTERN_904');
});

test('names_of_backends_are_resolved_before_the_change_returns', { skip: elsewhere }, async () => {
  const up = await upstream();
  const to = await endpoint(`localhost:${up.port}`);
  assert.equal((await through(to.host)).status, 200);
  await up.close();
});

test('class_upstream_tls_is_verified', { skip: elsewhere }, async () => {
  const { execFileSync } = await import('node:child_process');
  const fs = await import('node:fs');
  const dir = fs.mkdtempSync('/tmp/postern-up-');
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', `${dir}/k`, '-out', `${dir}/c`], { stdio: 'ignore' });
  const up = await upstream(undefined, { key: fs.readFileSync(`${dir}/k`), cert: fs.readFileSync(`${dir}/c`) });
  const backend = await must('POST', '/backends/static', { address: `localhost:${up.port}`, tls: { enabled: true } });
  const to = await endpoint(backend);
  const got = await through(to.host);
  assert.equal(got.status, 502);
  assert.equal(JSON.parse(got.body).error_code, 'ERR_POSTERN_906');
  assert.equal(up.seen.length, 0);
  await up.close();
});

test('a certificate of a known authority for another name is no better than one of an unknown authority', { skip: elsewhere || !process.env.STORY_UPSTREAM_TLS }, async () => {
  const fs = await import('node:fs'), at = process.env.STORY_UPSTREAM_TLS;
  const up = await upstream(undefined, { key: fs.readFileSync(`${at}.key`), cert: fs.readFileSync(`${at}.pem`) });
  const to = await endpoint(await must('POST', '/backends/static', { address: `127.0.0.1:${up.port}`, tls: { enabled: true } }));
  const got = await through(to.host);
  assert.deepEqual([got.status, JSON.parse(got.body).error_code, up.seen.length], [502, 'ERR_POSTERN_906', 0]);
  await must('PATCH', `/backends/static/${to.backend.id}`, { address: `localhost:${up.port}` });
  assert.equal((await through(to.host)).status, 200);
  await up.close();
  assert.equal(JSON.parse((await through(to.host)).body).error_code, 'ERR_POSTERN_904', 'nobody listens: that is not its certificate');
});

test('class_plaintext_before_upstream_tls_cve_2026_1642', async () => {
  const up = await tcpUpstream((socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'); socket.on('error', () => {}); });
  const backend = await must('POST', '/backends/static', { address: up.address, tls: { enabled: true } });
  const to = await endpoint(backend);
  const got = await through(to.host);
  assert.equal(got.status, 502);
  assert.ok(!got.body.includes('evil'));
  await up.close();
});

test('class_sni_and_host_must_agree_trap_14', async () => {
  const a = await endpoint({ body: 'a' }), b = await endpoint({ body: 'b' });
  const got = await through(b.host, '/', { servername: a.host });
  assert.equal(got.status, 421);
  assert.equal(JSON.parse(got.body).error_code, 'ERR_POSTERN_907');
});

test('two_names_of_one_edge_share_a_connection', async () => {
  const a = await endpoint({ body: 'a' });
  const name = unique('second');
  await must('POST', '/reserved_domains', { domain: name });
  await must('PATCH', `/edges/https/${a.edge.id}`, { hostports: [`${a.host}:443`, `${name}:443`] });
  assert.equal((await through(name, '/', { servername: a.host })).status, 200);
});

test('class_trailing_dot_host_cve_2022_23632', async () => {
  const strict = await endpoint({ body: 'strict' }, { edgeFields: { tls_termination: { min_version: '1.3' } } });
  for (const [sni, host] of [[strict.host, strict.host], [strict.host.toUpperCase(), strict.host.toUpperCase()], [strict.host, `${strict.host}.`], [strict.host, `${strict.host}:443`]])
    assert.equal((await through(host, '/', { servername: sni })).body, 'strict', `${sni} ${host}`);
  for (const sni of [strict.host, strict.host.toUpperCase()])
    await assert.rejects(through(strict.host, '/', { servername: sni, tls: { maxVersion: 'TLSv1.2' } }), sni);
});

for (const version of ['TLSv1.2', 'TLSv1.3'])
  test(`class_ticket_of_another_edge_cve_2025_23419_${version}`, async () => {
    const a = await endpoint({ body: 'a' }), b = await endpoint({ body: 'b' });
    const connect = (servername, session) => new Promise((resolve, reject) => {
      let ticket, reused;
      const socket = tls.connect({ host: edge.host, port: edge.port, servername, ca, session, minVersion: version, maxVersion: version });
      socket.on('session', (data) => { ticket = data; });
      socket.on('secureConnect', () => { reused = socket.isSessionReused(); }).on('secureConnect', () => socket.write(`GET / HTTP/1.1\r\nHost: ${servername}\r\nConnection: close\r\n\r\n`));
      socket.on('error', reject);
      socket.on('data', () => {});
      socket.on('close', () => resolve({ ticket, reused }));
    });
    const first = await connect(a.host);
    assert.ok(first.ticket, 'a ticket was issued');
    assert.equal((await connect(a.host, first.ticket)).reused, true, 'it resumes where it came from');
    assert.equal((await connect(b.host, first.ticket)).reused, false, 'and nowhere else');
  });

test('class_keepalive_pool_is_blind_to_no_identity_trap_19', async () => {
  // one address as plain and as TLS: the plain connection must not serve the TLS backend
  const up = await upstream();
  const plain = await endpoint(up.address);
  for (let i = 0; i < 8; i++) assert.equal((await through(plain.host)).status, 200);
  const backend = await must('POST', '/backends/static', { address: up.address, tls: { enabled: true } });
  const secure = await endpoint(backend);
  for (let i = 0; i < 8; i++) assert.equal((await through(secure.host)).status, 502);
  await up.close();
});

test('every_worker_takes_connections_trap_25', { skip: elsewhere }, async () => {
  const to = await endpoint({ body: 'x' });
  for (let i = 0; i < 60; i++) await through(to.host);
  const status = await fetch(`http://127.0.0.1:${edge.port - 28}/metrics`).then((r) => r.text());
  const counts = [...status.matchAll(/postern_edge_requests_total\{worker="\d+"\} (\d+)/g)].map((m) => Number(m[1]));
  assert.ok(counts.length >= 2 && counts.every((n) => n > 0), String(counts));
});

test('events_tell_of_every_request', { skip: elsewhere }, async () => {
  const up = await upstream((q, s) => { s.setHeader('Set-Cookie', 'session=canary'); s.setHeader('X-Two', ['a', 'B']); s.end('four'); });
  const to = await endpoint(up.address, { match: '/ev' });
  const sub = await listening('http_request_complete');
  await through(to.host, '/ev/ent?q=1', { servername: to.host.toUpperCase(), method: 'POST', body: 'abc', headers: { 'User-Agent': 'Story/1', Authorization: 'Bearer canary', 'X-Mixed': 'CaSe' } });
  await through(to.host, '/nowhere');
  const mine = () => sub.events.filter((event) => event.object.http.request.url.host === to.host);
  await until(() => mine().length === 2, 'two events');
  const [event, missed] = mine().sort((a, b) => a.object.http.response.status_code - b.object.http.response.status_code);
  assert.match(event.event_id, /^ev_[0-9A-Za-z]{27}$/);
  assert.equal(event.event_type, 'http_request_complete.v0');
  assert.equal(event.principal, null);
  assert.match(event.account_id, /^ac_/);
  const { http: h, conn, tls: t } = event.object;
  assert.equal(h.request.method, 'post');
  assert.equal(h.request.body_length, 3);
  assert.equal(h.request.url.path, '/ev/ent');
  assert.equal(h.request.url.query, 'q=1');
  assert.equal(h.request.url.raw, `https://${to.host}/ev/ent?q=1`);
  assert.equal(h.request.user_agent, 'Story/1');
  assert.deepEqual(h.request.headers['X-Mixed'], ['case']);
  assert.equal(h.request.headers['X-Forwarded-For'], undefined, 'the client sent none');
  assert.deepEqual(h.response.headers['X-Two'], ['a', 'b']);
  assert.equal(h.response.status_code, 200);
  assert.equal(h.response.body_length, 4);
  assert.equal(conn.client_ip, '127.0.0.1');
  assert.equal(conn.server_name, to.host, 'in lower case');
  assert.equal(t.version, 'TLSv1.3');
  assert.ok(!JSON.stringify(event).includes('canary'), 'credentials stay out of events');
  assert.equal(missed.object.http.response.status_code, 404);
  assert.equal(event.object.circuit_breaker.decision, 'invalid');
  await sub.stop();
  await up.close();
});

test('audit_events_follow_every_change_and_mask_secrets', async () => {
  const sub = await listening('');
  const front = await must('POST', '/edges/https', { description: 'audited' });
  const route = await must('POST', `/edges/https/${front.id}/routes`, { match: '/', match_type: 'path_prefix', webhook_verification: { provider: 'github', secret: 'canary-secret' } });
  await must('PATCH', `/edges/https/${front.id}`, { description: 'changed' });
  await must('DELETE', `/edges/https/${front.id}`);
  const key = await must('POST', '/api_keys', { description: 'audited' });
  const mine = () => sub.events.filter((event) => [front.id, route.id, key.id].includes(event.object?.id));
  await until(() => mine().length === 6, 'six audit events');
  assert.deepEqual(mine().map((event) => event.event_type).sort(), ['api_key_created.v0', 'https_edge_created.v0', 'https_edge_deleted.v0',
    'https_edge_route_created.v0', 'https_edge_route_deleted.v0', 'https_edge_updated.v0']);
  const all = JSON.stringify(mine());
  assert.ok(!all.includes('canary-secret') && !all.includes(key.token));
  const made = mine().find((event) => event.event_type === 'https_edge_created.v0');
  assert.match(made.principal.id, /^usr_/);
  assert.equal(made.principal.source, 'API');
  assert.match(made.principal.credential.id, /^ak_/);
  assert.deepEqual(made.object, { ...front });
  await sub.stop();
});
