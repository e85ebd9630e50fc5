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

// Times and durations at and beyond the ends of PostgreSQL's, of 64 bits and of the expression's own limits.
function* hostileFilters() {
  const times = ['time.now', 'timestamp(time.now)', 'obj.created_at', 'timestamp(obj.created_at)', 'timestamp("2026-01-02T03:04:05Z")', 'timestamp("1970-01-01T00:00:00Z")', 'timestamp("9999-12-31T23:59:59.999999Z")',
    'timestamp("0000-01-01T00:00:00Z")', 'timestamp("0001-01-01T00:00:00Z")', 'timestamp("10000-01-01T00:00:00Z")', 'timestamp("294277-01-01T00:00:00Z")', 'timestamp("-4713-01-01T00:00:00Z")', 'timestamp("infinity")',
    'timestamp("2026-01-02T03:04:05+23:59")', 'timestamp("9999-12-31T23:59:59-23:59")', 'timestamp("1970-01-01T00:00:00+00:01")', 'timestamp(0)', 'timestamp(9223372036854775807)', 'timestamp("")', 'timestamp("2026-02-30T00:00:00Z")'];
  const shifts = ['0s', '1s', '7d', '24855d', '700000d', '1460001d', '2000000d', '3650000d', '3652500d', '3652501d', '106751991167d', '2147483648s', '9223372036854775807s', '9223372036854775808s', '99999999999999999999999d', '1d'.repeat(300), '-1d', '1.5d', 'PT1H', '', 'infinity'];
  for (const time of times) {
    yield `obj.created_at > ${time}`;
    for (const shift of shifts) for (const way of ['add', 'subtract']) {
      yield `obj.created_at > ${time}.${way}("${shift}")`;
      yield `obj.created_at <= ${time}.${way}(duration("${shift}")).${way}("${shift}")`;
    }
  }
  yield `obj.created_at > time.now${'.subtract("3652500d")'.repeat(60)}`;
  yield `obj.created_at > time.now${'.subtract("700000d").add("700000d")'.repeat(15)}`;
  yield '(time.now + duration("1h")).add("1h") > time.now';
  yield '[time.now][0].add("1h") > time.now';
  yield 'timestamp(dyn("x")).add("1h") > time.now';
  for (const number of ['9223372036854775807', '9223372036854775808', '-9223372036854775808', '18446744073709551615u', '18446744073709551616u', '1e308', '1e309', '-1e308', '5e-324', '0x7fffffffffffffff', '0xffffffffffffffffff', '9'.repeat(400)]) {
    yield `size(obj.description) < ${number}`;
    yield `size(obj.description) == ${number}`;
  }
  for (const text of ['\\u0000', 'a\\u0000b', '\\x00', '\\000', '\\ud800', '\\U00110000', '%', '_', '\\\\', '\\\\%', 'a'.repeat(3000), '\u00e9'.repeat(900), '\\n\\t\\r', '\u202e', '\u{1f600}', "' OR 1=1 --"])
    for (const way of ['contains', 'startsWith', 'endsWith']) {
      yield `obj.description.${way}("${text}")`;
      yield `obj.metadata == "${text}" || obj.id in ["${text}"]`;
    }
  yield `${'!'.repeat(60)}true`;
  yield `${'('.repeat(60)}true${')'.repeat(60)}`;
  yield `${'!'.repeat(3000)}true`;
  yield `${'('.repeat(2000)}true${')'.repeat(2000)}`;
  yield Array.from({ length: 300 }, () => 'true').join(' && ');
  yield Array.from({ length: 200 }, () => 'obj.id == null').join(' || ');
  yield `obj.id in [${Array.from({ length: 900 }, () => '""').join(',')}]`;
  yield `"${'a'.repeat(4090)}`;
}

test('no filter is more than PostgreSQL can compute', { timeout: 300000 }, async () => {
  await must('POST', '/ip_policies', { description: unique('hostile') });
  const wrong = [];
  let accepted = 0, refusals = 0;
  for (const filter of hostileFilters()) {
    const answer = await api('GET', `/ip_policies?limit=1&filter=${encodeURIComponent(filter)}`);
    if (answer.status === 200) accepted++;
    else if (answer.status === 400 && answer.body.error_code === 'ERR_POSTERN_135' && /^at byte \d+: /.test(answer.body.details.filter)) refusals++;
    else wrong.push(`${filter.slice(0, 100)}: ${answer.status} ${answer.raw.slice(0, 200)}`);
  }
  assert.deepEqual(wrong, []);
  assert.ok(accepted > 100 && refusals > 100, `${accepted} accepted, ${refusals} refused`);
  await refused('/ip_policies', 'obj.created_at > timestamp(time.now).subtract("3650000d")', 'at byte 36: a time is from year 1 to 9999');
});

test('every field of every list that has filters can be asked for, as what it is', async () => {
  const { paths, components } = (await api('GET', '/openapi.json')).body;
  const whole = (schema) => (schema.$ref ? components.schemas[schema.$ref.split('/').at(-1)] : schema);
  const tries = ['== "a"', '== null', '> "a"', '== true', '.contains("a")', '> timestamp(time.now)', '.add("1d") < time.now', '.size() > 3', '== ["a"]'];
  const wrong = [];
  let fields = 0;
  for (const [path, item] of Object.entries(paths)) {
    if (path.includes('{') || !item.get?.parameters?.some((one) => one.name === 'filter')) continue;
    const list = Object.values(whole(item.get.responses['200'].content['application/json'].schema).properties).find((one) => one.type === 'array');
    for (const name of Object.keys(whole(list.items).properties)) for (const field of [name, `${name}.id`, `${name}_id`]) {
      fields++;
      for (const one of [...tries.map((rest) => `obj.${field}${rest.startsWith('.') ? rest : ` ${rest}`}`), `"a" in obj.${field}`, `obj.${field}`]) {
        const answer = await api('GET', `${path}?limit=1&filter=${encodeURIComponent(one)}`);
        if (answer.status !== 200 && answer.body.error_code !== 'ERR_POSTERN_135') wrong.push(`${path} ${one}: ${answer.raw}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(fields > 100, `${fields} fields`);
});

test('a filter in several lines, with tabs and a comment, is the filter that it says', async () => {
  const description = 'a\tb\nc\rd\x7f';
  const policy = await must('POST', '/ip_policies', { description });
  const own = `obj.id == "${policy.id}"`;
  for (const filter of [`${own}\n\t&& obj.description != ""`, `${own} // this one\r\n&& true`, `${own} && obj.description == """${description}"""`, `${own} && obj.description == "a\tb\\nc\\rd\x7f"`])
    assert.deepEqual((await list('/ip_policies', filter)).ip_policies.map((one) => one.id), [policy.id], filter);
  for (const filter of ['obj.description == "a%00b"', 'true%00', '%00']) {
    const answer = await api('GET', `/ip_policies?filter=${filter.replaceAll('"', '%22').replaceAll(' ', '+')}`);
    assert.equal(answer.body.error_code, 'ERR_POSTERN_130', answer.raw);
  }
  assert.equal((await list('/ip_policies', `${own} && obj.description != "%00"`)).ip_policies.length, 1, 'a text of three characters');
  assert.equal((await api('GET', '/ip_policies?limit=1%0A')).body.error_code, 'ERR_POSTERN_134');
});
