// List filters: CEL over obj, through the API and into SQL.
import assert from 'node:assert/strict';
import test from 'node:test';
import { api, must, unique } from '../support/postern.mjs';

const list = async (path, filter, extra = '') => must('GET', `${path}?filter=${encodeURIComponent(filter)}${extra}`);
const refused = async (path, filter, says) => {
  const answer = await api('GET', `${path}?filter=${encodeURIComponent(filter)}`);
  assert.equal(answer.status, 400, `${filter}: ${answer.raw}`);
  assert.equal(answer.body.error_code, 'ERR_POSTERN_135', answer.raw);
  assert.ok(answer.body.details.filter.includes(says), answer.raw);
};

test('what a filter says is what a list has', async () => {
  const mark = unique('f');
  const made = [];
  for (const [i, text] of ['alpha', 'beta', `it's "quoted" \\ é😀`, ''].entries()) made.push(await must('POST', '/ip_policies', { description: text, metadata: `${mark}/${i}` }));
  const ids = async (filter) => (await list('/ip_policies', `obj.metadata.startsWith("${mark}") && (${filter})`)).ip_policies.map((one) => made.findIndex((m) => m.id === one.id)).sort();
  const cases = [
    ['true', [0, 1, 2, 3]],
    ['false', []],
    ['obj.description == "alpha"', [0]],
    ['obj.description != "alpha"', [1, 2, 3]],
    ['obj.description == ""', [3]],
    ['!(obj.description == "")', [0, 1, 2]],
    ['obj.description == null', []],
    ['obj.description in ["alpha", "beta", "gamma"]', [0, 1]],
    ['obj.description > "alpha" && obj.description < "c"', [1]],
    ['obj.description.contains("😀")', [2]],
    [String.raw`obj.description == "it's \"quoted\" \\ \u00e9\U0001F600"`, [2]],
    ['obj.description.endsWith("ta") || obj.description.contains("%")', [1]],
    ['size(obj.description) > 4', [0, 2]],
    [`obj.id == "${made[1].id}"`, [1]],
    [`obj.id in ["${made[0].id}", "${made[3].id}", "ipp_nonsense"]`, [0, 3]],
    ['obj.created_at > timestamp("2020-01-01T00:00:00Z") && obj.created_at < timestamp(time.now).add("1h")', [0, 1, 2, 3]],
    ['obj.created_at < timestamp(time.now).subtract("7d")', []],
    [`obj.created_at == timestamp("${made[2].created_at}") && obj.id == "${made[2].id}"`, [2]],
    [Array.from({ length: 33 }, () => 'obj.description == "beta"').join(' || '), [1]],
  ];
  for (const [filter, want] of cases) assert.deepEqual(await ids(filter), want, filter);

  const page = await list('/ip_policies', `obj.metadata.startsWith("${mark}")`, '&limit=3');
  assert.equal(page.ip_policies.length, 3);
  const next = new URL(page.next_page_uri);
  assert.equal(next.searchParams.get('filter'), `obj.metadata.startsWith("${mark}")`, 'the next page keeps the filter');
  const rest = await must('GET', next.pathname + next.search);
  assert.deepEqual(rest.ip_policies.map((one) => one.id), [made[0].id]);
  assert.equal(rest.next_page_uri, null);
});

test('references, lists and columns of each kind', async () => {
  const policy = await must('POST', '/ip_policies', {});
  const rule = await must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'deny' });
  await must('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: '198.51.100.0/24', action: 'allow' });
  assert.deepEqual((await list('/ip_policy_rules', `obj.ip_policy.id == "${policy.id}" && obj.action == "deny"`)).ip_policy_rules.map((one) => one.id), [rule.id]);
  const credential = await must('POST', '/credentials', { acl: ['bind:filtered.example'] });
  assert.deepEqual((await list('/credentials', '"bind:filtered.example" in obj.acl')).credentials.map((one) => one.id), [credential.id]);
  assert.ok((await list('/credentials', 'size(obj.acl) == 0')).credentials.every((one) => one.acl.length === 0));
  const domain = await must('POST', '/reserved_domains', { domain: unique('filter') });
  assert.deepEqual((await list('/reserved_domains', `obj.domain == "${domain.domain}" && obj.certificate == null && obj.acme_challenge_cname_target == null`)).reserved_domains.map((one) => one.id), [domain.id]);
  assert.ok((await list('/api_keys', 'obj.owner_id.size() > 3')).keys.length >= 1);
  await list('/service_users', 'obj.created_at < timestamp(time.now)');
  await list('/tls_certificates', 'obj.not_after > timestamp(time.now) && obj.subject_common_name != ""');
  await list('/event_destinations', 'obj.description == "x"');
});

test('a filter sees the fields that it may and this account only', async () => {
  for (const field of ['token', 'token_hash', 'account_id', 'nonsense', 'description.length']) await refused('/api_keys', `obj.${field} == "a"`, field === 'description.length' ? 'has no field' : 'there is no variable');
  for (const filter of ["obj.description == 'a') OR (1=1", "obj.description == 'a'; DROP TABLE api_key", 'obj.description == "$1"', "' OR ''='"]) {
    const answer = await api('GET', `/api_keys?filter=${encodeURIComponent(filter)}`);
    assert.ok([200, 400].includes(answer.status), answer.raw);
    if (answer.status === 200) assert.deepEqual(answer.body.keys, []);
  }
  for (const [filter, says] of [
    ['obj.description ==', 'ends too early'], ['obj.description = "a"', 'no place here'], ['obj.description.matches("a")', 'not available'],
    ['obj.description == "a" ? true : false', '?:'], ['obj.metadata[0] == "a"', 'has no items'], ['size(obj.description) * 2 > 1', 'arithmetic'],
    ['obj.id.contains("a")', 'ids'], ['obj.created_at > "2026-01-01T00:00:00Z"', 'does not take'], ['obj.created_at > timestamp("x")', 'RFC 3339'],
    ['"a"', 'must be true or false'], ['('.repeat(100), 'nested'],
  ]) await refused('/api_keys', filter, says);
  assert.equal((await api('GET', `/api_keys?filter=${encodeURIComponent('true && '.repeat(600) + 'true')}`)).status, 400);
  assert.equal((await api('GET', '/api_keys?filter=%ff')).status, 400);
  assert.equal((await api('GET', '/api_keys?filter=true&filter=true')).body.error_code, 'ERR_POSTERN_132');
  assert.equal((await api('GET', '/api_keys?filter=')).status, 200, 'empty is none');
  for (const path of ['/edges/https', '/backends/static', '/bot_users']) assert.equal((await api('GET', `${path}?filter=true`)).body.error_code, 'ERR_POSTERN_131', path);
  assert.equal((await api('GET', '/openapi.json')).body.paths['/api_keys'].get.parameters.some((one) => one.name === 'filter'), true);
});
