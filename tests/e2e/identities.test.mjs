// Identities and their sessions, with the official client: list, get, delete. Their rows are written as sign-in writes them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { api, client, env, listed as listedAll, listening, must, until } from '../support/postern.mjs';

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
const taken = (deleted) => deleted.catch((error) => assert.equal(error.name, 'SyntaxError', 'the client fails on its own 204'));
let count = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');

function addUser(account = env.POSTERN_ACCOUNT, { provider = 'Google', email = 'ada@example.test' } = {}) {
  const id = `app_user_${ksuid()}`;
  sql(`INSERT INTO object (id, account_id, kind) VALUES ('${id}', '${account}', 'application_user');
       INSERT INTO application_user VALUES ('${id}', '${account}', '2026-01-02T03:04:05Z', '{"name": "${provider}", "url": "https://accounts.google.com"}', '1234', 'ada', '${email}', 'Ada', '2026-01-03T03:04:05Z', '2026-01-04T03:04:05Z')`);
  return id;
}

function addSession(user, edge, { route = null, url = 'https://app.example.test', active = '2026-01-03T03:04:05Z', expires = '2126-02-02T03:04:05Z', network = null, location = '{"country_code": "GB", "latitude": 51.5, "longitude": -0.1, "lat_long_radius_km": 20}' } = {}) {
  const id = `app_sess_${ksuid()}`;
  sql(`INSERT INTO object (id, account_id, kind, parent_id) VALUES ('${id}', '${env.POSTERN_ACCOUNT}', 'application_session', '${user}');
       INSERT INTO application_session VALUES ('${id}', '${env.POSTERN_ACCOUNT}', '2026-01-02T03:04:05Z', '${url}', '{"user_agent": {"raw": "Mozilla/5.0", "browser_name": "Firefox", "browser_version": "140", "device_type": "desktop", "os_name": "Linux", "os_version": ""}, "ip_address": "192.0.2.7", "location": ${location}${network ? `, "network": ${network}` : ''}}', '${user}', '${active}', '${expires}', NULL, '${edge}', ${route ? `'${route}'` : 'NULL'})`);
  return id;
}

test('identities: list, get, and a delete that takes the sessions along', async () => {
  const ngrok = client(), sub = await listening();
  const edge = await must('POST', '/edges/https', {});
  const user = addUser(), sessions = [addSession(user, edge.id), addSession(user, edge.id, { location: 'null', network: '{"as_number": 64500, "organization": "Example"}' })];
  assert.deepEqual(await must('GET', `/app/users/${user}`), {
    id: user, uri: `${env.POSTERN_API_URL}/app/users/${user}`, created_at: '2026-01-02T03:04:05Z',
    identity_provider: { name: 'Google', url: 'https://accounts.google.com' }, provider_user_id: '1234',
    username: 'ada', email: 'ada@example.test', name: 'Ada', last_active: '2026-01-03T03:04:05Z', last_login: '2026-01-04T03:04:05Z',
    endpoints: [{ public_url: 'https://app.example.test', endpoint: null, edge: { id: edge.id, uri: edge.uri }, route: null, last_active: '2026-01-03T03:04:05Z' }],
  });
  const one = await ngrok.applicationUsers.get(user);
  assert.equal(one.identityProvider.name, 'Google');
  assert.ok((await ngrok.applicationUsers.list()).some(({ id }) => id === user));
  assert.deepEqual(await must('GET', `/app/sessions/${sessions[0]}`), {
    id: sessions[0], uri: `${env.POSTERN_API_URL}/app/sessions/${sessions[0]}`, created_at: '2026-01-02T03:04:05Z',
    public_url: 'https://app.example.test',
    browser_session: {
      user_agent: { raw: 'Mozilla/5.0', browser_name: 'Firefox', browser_version: '140', device_type: 'desktop', os_name: 'Linux', os_version: '' },
      ip_address: '192.0.2.7', location: { country_code: 'GB', latitude: 51.5, longitude: -0.1, lat_long_radius_km: 20 }, network: null,
    },
    application_user: { id: user, uri: `${env.POSTERN_API_URL}/app/users/${user}` },
    last_active: '2026-01-03T03:04:05Z', expires_at: '2126-02-02T03:04:05Z', endpoint: null,
    edge: { id: edge.id, uri: edge.uri }, route: null,
  });
  const other = (await must('GET', `/app/sessions/${sessions[1]}`)).browser_session;
  assert.deepEqual([other.location, other.network], [null, { as_number: 64500, organization: 'Example' }]);
  const listed = await ngrok.applicationSessions.list();
  assert.deepEqual(sessions.map((id) => listed.some((session) => session.id === id)), [true, true]);

  await taken(ngrok.applicationSessions.delete(sessions[1])); // one session
  assert.equal((await api('GET', `/app/sessions/${sessions[1]}`)).status, 404);
  assert.equal((await api('GET', `/app/users/${user}`)).status, 200);
  const more = addSession(user, edge.id);
  await taken(ngrok.applicationUsers.delete(user)); // and the user with all others
  for (const path of [`/app/users/${user}`, `/app/sessions/${sessions[0]}`, `/app/sessions/${more}`]) assert.equal((await api('GET', path)).status, 404);
  assert.equal((await api('DELETE', `/app/users/${user}`)).status, 404);
  // of this user and its sessions: what a file before has deleted may be told only now
  const gone = () => sub.events.filter(({ event_type: type, object }) => /^application_.*_deleted.v0$/.test(type) && [object.id, object.application_user?.id].includes(user)).map(({ object }) => object.id);
  await until(() => gone().length >= 4, 'an event for each');
  assert.deepEqual(gone().sort(), [...sessions, more, user].sort());
  assert.equal(sub.events.find(({ object }) => object?.id === user).event_type, 'application_user_deleted.v0');
  await sub.stop();
  await must('DELETE', `/edges/https/${edge.id}`);
});

test('identities: paging, and what may not be done', async () => {
  const users = Array.from({ length: 3 }, () => addUser());
  const page = await must('GET', '/app/users?limit=2');
  assert.equal(page.application_users.length, 2);
  assert.equal(page.uri, `${env.POSTERN_API_URL}/app/users`);
  assert.ok(page.next_page_uri);
  for (const [method, path, status] of [
    ['POST', '/app/users', 405], ['PATCH', `/app/users/${users[0]}`, 405], ['POST', '/app/sessions', 405], ['PATCH', `/app/sessions/app_sess_${ksuid()}`, 405],
    ['GET', `/app/users/app_user_${ksuid()}`, 404], ['DELETE', `/app/sessions/app_sess_${ksuid()}`, 404], ['GET', `/app/users/app_sess_${ksuid()}`, 404],
    ['GET', '/app/users?limit=101', 400], ['GET', '/app/users?filter=obj.token=="x"', 400], ['GET', '/app/users?before_id=app_sess_x', 400],
  ]) {
    const answer = await api(method, path, method === 'GET' || method === 'DELETE' ? undefined : {});
    assert.equal(answer.status, status, `${method} ${path}: ${answer.raw}`);
  }
  const other = `ac_${ksuid()}`; // of another account: as if it were not there
  sql(`INSERT INTO account (id, name) VALUES ('${other}', 'other')`);
  const theirs = addUser(other);
  assert.equal((await api('GET', `/app/users/${theirs}`)).status, 404);
  assert.equal((await api('DELETE', `/app/users/${theirs}`)).status, 404);
  assert.ok(!(await listedAll('/app/users')).some(({ id }) => id === theirs));
  for (const id of users) await must('DELETE', `/app/users/${id}`);
});

test('identities: a session that is over is not shown, is deleted by itself, and its endpoint is none of the user', async () => {
  const edge = await must('POST', '/edges/https', {}), route = await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/' });
  const user = addUser();
  const live = addSession(user, edge.id, { route: route.id, active: '2026-01-05T00:00:00Z' });
  addSession(user, edge.id, { route: route.id, active: '2026-01-06T00:00:00Z' });
  addSession(user, edge.id, { url: 'https://more.example.test', active: '2026-01-04T00:00:00Z' });
  const over = addSession(user, edge.id, { url: 'https://over.example.test', expires: '2026-02-02T03:04:05Z' });
  assert.equal((await api('GET', `/app/sessions/${over}`)).status, 404);
  const ended = addSession(user, edge.id, { url: 'https://over.example.test', expires: '2026-02-02T03:04:05Z' });
  await api('DELETE', `/app/sessions/${ended}`); // 204, or 404 where it was tidied away already
  assert.equal(sql(`SELECT count(*) FROM object WHERE id = '${ended}'`), '0');
  const listed = (await must('GET', `/app/sessions?filter=${encodeURIComponent(`obj.edge.id == "${edge.id}"`)}`)).application_sessions.map(({ id }) => id);
  assert.deepEqual([listed.includes(live), listed.includes(over)], [true, false]);
  const at = { endpoint: null, edge: { id: edge.id, uri: edge.uri } };
  const endpoints = [
    { public_url: 'https://app.example.test', ...at, route: { id: route.id, uri: route.uri }, last_active: '2026-01-06T00:00:00Z' },
    { public_url: 'https://more.example.test', ...at, route: null, last_active: '2026-01-04T00:00:00Z' },
  ];
  assert.deepEqual((await must('GET', `/app/users/${user}`)).endpoints, endpoints);
  assert.deepEqual((await listedAll('/app/users')).find(({ id }) => id === user).endpoints, endpoints);
  assert.deepEqual((await must('GET', `/app/sessions/${live}`)).route, { id: route.id, uri: route.uri });
  await until(() => sql(`SELECT count(*) FROM object WHERE id = '${over}'`) === '0', 'its row is deleted', 120000);
  assert.equal(sql(`SELECT count(*) FROM application_session WHERE application_user_id = '${user}'`), '3');
  for (let n = 0; n < 30; n++) addSession(user, edge.id, { url: `https://more-${n}.example.test`, active: '2026-01-07T00:00:00Z' });
  assert.equal((await must('GET', `/app/users/${user}`)).endpoints.length, 20);
  await must('DELETE', `/app/users/${user}`);
  await must('DELETE', `/edges/https/${edge.id}`);
});

test('identities: lists are filtered by provider, user, e-mail, name, id, edge and route, with an index', async () => {
  const edge = await must('POST', '/edges/https', {}), route = await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/' });
  const email = `${ksuid()}@example.test`, provider = `P${ksuid()}`, ada = addUser(undefined, { provider, email }), bob = addUser(undefined, { provider: 'Other' });
  const sessions = [addSession(ada, edge.id, { route: route.id }), addSession(bob, edge.id)];
  // enough others for an index to be worth it
  sql(`INSERT INTO object (id, account_id, kind) SELECT 'app_user_' || lpad(n::text, 27, '0'), '${env.POSTERN_ACCOUNT}', 'application_user' FROM generate_series(1, 2000) n;
       INSERT INTO application_user SELECT 'app_user_' || lpad(n::text, 27, '0'), '${env.POSTERN_ACCOUNT}', now(), '{"name": "Many", "url": "u"}', n::text, n::text, n || '@many.test', n::text, now(), now() FROM generate_series(1, 2000) n;
       INSERT INTO object (id, account_id, kind, parent_id) SELECT 'app_sess_' || lpad(n::text, 27, '0'), '${env.POSTERN_ACCOUNT}', 'application_session', 'app_user_' || lpad(n::text, 27, '0') FROM generate_series(1, 2000) n;
       INSERT INTO application_session SELECT 'app_sess_' || lpad(n::text, 27, '0'), '${env.POSTERN_ACCOUNT}', now(), 'https://many.test', '{}', 'app_user_' || lpad(n::text, 27, '0'), now(), now() + interval '1 day', NULL, 'edghts_' || n, 'edghtsrt_' || n FROM generate_series(1, 2000) n;
       ANALYZE application_user; ANALYZE application_session`);
  const scans = () => Object.fromEntries(sql("SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE schemaname = 'identity' AND relname LIKE 'application_%'").split('\n').map((row) => row.split('|')));
  const before = scans(), indexes = [];
  for (const [path, filter, ids, index] of [
    ['users', `obj.identity_provider.name == '${provider}'`, [ada], 'application_user_by_provider'],
    ['users', `obj.email == '${email}'`, [ada], 'application_user_by_email'],
    ['users', `'${email}' == obj.email && obj.name == 'Ada'`, [ada]],
    ['users', `obj.id == '${ada}'`, [ada]],
    ['users', `obj.provider_user_id == '1234' && obj.id >= '${ada}' && !(obj.email == 'x')`, [bob, ada]],
    ['users', `obj.username == '1711'`, [`app_user_${'1711'.padStart(27, '0')}`], 'application_user_by_username'],
    ['users', `obj.name == '1711'`, [`app_user_${'1711'.padStart(27, '0')}`], 'application_user_by_name'],
    ['users', `obj.email.contains('${email.slice(10, 30)}')`, [ada]],
    ['sessions', `obj.application_user.id == '${ada}'`, [sessions[0]], 'application_session_by_user'],
    ['sessions', `obj.edge.id == '${edge.id}'`, [sessions[1], sessions[0]], 'application_session_by_edge'],
    ['sessions', `obj.route.id == '${route.id}'`, [sessions[0]], 'application_session_by_route'],
    ['sessions', `obj.edge.id == '${edge.id}' && obj.route == null`, [sessions[1]]],
    ['sessions', `obj.edge.id == '${edge.id}' && !(obj.route.id == '${route.id}')`, [sessions[1]]],
    ['sessions', `obj.expires_at > timestamp(time.now).add("2d") && obj.edge.id == '${edge.id}'`, [sessions[1], sessions[0]]],
  ]) {
    const page = await must('GET', `/app/${path}?filter=${encodeURIComponent(filter)}`);
    assert.deepEqual(page[`application_${path}`].map(({ id }) => id), ids, filter);
    if (index) indexes.push(index);
  }
  await until(() => { const after = scans(); return indexes.every((index) => Number(after[index]) > Number(before[index])); }, 'each index is used');
  for (const path of ['/app/users?filter=obj.identity_provider == "x"', '/app/users?filter=obj.endpoints == "x"', '/app/sessions?filter=obj.browser_session.ip_address == "x"'])
    assert.equal((await api('GET', encodeURI(path))).body.error_code, 'ERR_POSTERN_135', path);
  sql("DELETE FROM object WHERE id <= 'app_user_' || lpad('2000', 27, '0') AND kind = 'application_user'");
  for (const id of [ada, bob]) await must('DELETE', `/app/users/${id}`);
  await must('DELETE', `/edges/https/${edge.id}`);
});

test('a user with a session that is over is deleted, with those that are not', async () => {
  const edge = await must('POST', '/edges/https', {});
  const user = addUser(), live = addSession(user, edge.id), over = addSession(user, edge.id, { expires: new Date(Date.now() - 1000).toISOString() });
  assert.equal((await api('DELETE', `/app/users/${user}`)).status, 204);
  for (const id of [user, live, over]) assert.equal(sql(`SELECT count(*) FROM object WHERE id = '${id}'`), '0', id);
});
