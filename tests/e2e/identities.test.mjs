// Identities and their sessions, with the official client: list, get, delete. Their rows are written as sign-in writes them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { api, client, env, listening, must, until } from '../support/postern.mjs';

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = identity; ${text}`], { encoding: 'utf8' }).trim();
const taken = (deleted) => deleted.catch((error) => assert.equal(error.name, 'SyntaxError', 'the client fails on its own 204'));
let count = 0;
const ksuid = () => `${Date.now().toString(36)}${process.pid.toString(36)}${(count++).toString(36)}`.replace(/[^0-9a-z]/g, '').padStart(27, '0');

function addUser(account = env.POSTERN_ACCOUNT) {
  const id = `app_user_${ksuid()}`;
  sql(`INSERT INTO object (id, account_id, kind) VALUES ('${id}', '${account}', 'application_user');
       INSERT INTO application_user VALUES ('${id}', '${account}', '2026-01-02T03:04:05Z', '{"name": "Google", "url": "https://accounts.google.com"}', '1234', 'ada', 'ada@example.test', 'Ada', '2026-01-03T03:04:05Z', '2026-01-04T03:04:05Z')`);
  return id;
}

function addSession(user, edge, location = '{"country_code": "GB", "latitude": 51.5, "longitude": -0.1, "lat_long_radius_km": 20}') {
  const id = `app_sess_${ksuid()}`;
  sql(`INSERT INTO object (id, account_id, kind, parent_id) VALUES ('${id}', '${env.POSTERN_ACCOUNT}', 'application_session', '${user}');
       INSERT INTO application_session VALUES ('${id}', '${env.POSTERN_ACCOUNT}', '2026-01-02T03:04:05Z', 'https://app.example.test', '{"user_agent": {"raw": "Mozilla/5.0", "browser_name": "Firefox", "browser_version": "140", "device_type": "desktop", "os_name": "Linux", "os_version": ""}, "ip_address": "192.0.2.7", "location": ${location}}', '${user}', '2026-01-03T03:04:05Z', '2026-02-02T03:04:05Z', NULL, '${edge}', NULL)`);
  return id;
}

test('identities: list, get, and a delete that takes the sessions along', async () => {
  const ngrok = client(), sub = await listening();
  const edge = await must('POST', '/edges/https', {});
  const user = addUser(), sessions = [addSession(user, edge.id), addSession(user, edge.id, 'null')];
  assert.deepEqual(await must('GET', `/app/users/${user}`), {
    id: user, uri: `${env.POSTERN_API_URL}/app/users/${user}`, created_at: '2026-01-02T03:04:05Z',
    identity_provider: { name: 'Google', url: 'https://accounts.google.com' }, provider_user_id: '1234',
    username: 'ada', email: 'ada@example.test', name: 'Ada', last_active: '2026-01-03T03:04:05Z', last_login: '2026-01-04T03:04:05Z',
  });
  const one = await ngrok.applicationUsers.get(user);
  assert.equal(one.identityProvider.name, 'Google');
  assert.ok((await ngrok.applicationUsers.list()).some(({ id }) => id === user));
  assert.deepEqual(await must('GET', `/app/sessions/${sessions[0]}`), {
    id: sessions[0], uri: `${env.POSTERN_API_URL}/app/sessions/${sessions[0]}`, created_at: '2026-01-02T03:04:05Z',
    public_url: 'https://app.example.test',
    browser_session: {
      user_agent: { raw: 'Mozilla/5.0', browser_name: 'Firefox', browser_version: '140', device_type: 'desktop', os_name: 'Linux', os_version: '' },
      ip_address: '192.0.2.7', location: { country_code: 'GB', latitude: 51.5, longitude: -0.1, lat_long_radius_km: 20 },
    },
    application_user: { id: user, uri: `${env.POSTERN_API_URL}/app/users/${user}` },
    last_active: '2026-01-03T03:04:05Z', expires_at: '2026-02-02T03:04:05Z', endpoint: null,
    edge: { id: edge.id, uri: edge.uri }, route: null,
  });
  assert.equal((await must('GET', `/app/sessions/${sessions[1]}`)).browser_session.location, null);
  const listed = await ngrok.applicationSessions.list();
  assert.deepEqual(sessions.map((id) => listed.some((session) => session.id === id)), [true, true]);

  await taken(ngrok.applicationSessions.delete(sessions[1])); // one session
  assert.equal((await api('GET', `/app/sessions/${sessions[1]}`)).status, 404);
  assert.equal((await api('GET', `/app/users/${user}`)).status, 200);
  const more = addSession(user, edge.id);
  await taken(ngrok.applicationUsers.delete(user)); // and the user with all others
  for (const path of [`/app/users/${user}`, `/app/sessions/${sessions[0]}`, `/app/sessions/${more}`]) assert.equal((await api('GET', path)).status, 404);
  assert.equal((await api('DELETE', `/app/users/${user}`)).status, 404);
  const gone = () => sub.events.filter(({ event_type: type }) => /^application_.*_deleted.v0$/.test(type)).map(({ object }) => object.id);
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
    ['GET', '/app/users?limit=101', 400], ['GET', '/app/users?filter=true', 400], ['GET', '/app/users?before_id=app_sess_x', 400],
  ]) {
    const answer = await api(method, path, method === 'GET' || method === 'DELETE' ? undefined : {});
    assert.equal(answer.status, status, `${method} ${path}: ${answer.raw}`);
  }
  const other = `ac_${ksuid()}`; // of another account: as if it were not there
  sql(`INSERT INTO account (id, name) VALUES ('${other}', 'other')`);
  const theirs = addUser(other);
  assert.equal((await api('GET', `/app/users/${theirs}`)).status, 404);
  assert.equal((await api('DELETE', `/app/users/${theirs}`)).status, 404);
  assert.ok(!(await must('GET', '/app/users')).application_users.some(({ id }) => id === theirs));
  for (const id of users) await must('DELETE', `/app/users/${id}`);
});
