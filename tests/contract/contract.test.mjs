// For every kind that can be created: random valid bodies are accepted and come back as they were sent, in the answer, from
// GET and after PATCH; bodies with one fault are refused with that fault's code and field. CONTRACT_CASES says how many,
// CONTRACT_SEED which.
import assert from 'node:assert/strict';
import test from 'node:test';
import { api, must } from '../support/postern.mjs';
import { Random, given, isAbsent, mend, object, spoil } from './generate.mjs';
import { world } from './world.mjs';

const total = Number(process.env.CONTRACT_CASES ?? 4000);
const seed = Number(process.env.CONTRACT_SEED ?? Date.now() % 1e9);
const CLIENTS = 16;

// Does the answer say what was sent? References are written as ids and read as {id, uri}.
function echoed(sent, got, path = '') {
  for (const [name, value] of Object.entries(sent)) {
    const at = `${path}.${name}`;
    if (['value', 'private_key_pem', 'private_key_type', 'elliptic_curve', 'key_size'].includes(name) && !(name in got)) continue; // write-only
    if (['api_key', 'aws_secret_access_key', 'client_secret'].includes(name) && got[name] === '') continue; // nor a target's
    if (name.endsWith('_ids') && !(name in got)) {
      assert.deepEqual(got[name.replace('_policy_ids', '_policies').replace('_authority_ids', '_authorities').replace('_ids', 's')].map((one) => one.id), value, at);
    } else if (name.endsWith('_id') && !(name in got)) {
      assert.equal(got[name.slice(0, -3)].id, value, at);
    } else if (name === 'format') {
      assert.equal(got[name], value.toLowerCase(), at);
    } else if (Array.isArray(value) && value.some((one) => typeof one === 'object')) {
      value.forEach((one, i) => echoed(one, got[name][i], `${at}[${i}]`));
    } else if (value && typeof value === 'object' && !Array.isArray(value) && got[name]) {
      echoed(value, got[name], at);
    } else {
      assert.deepEqual(got[name], value, at);
    }
  }
}

test(`${total} generated bodies, seed ${seed}`, { timeout: 3600000 }, async () => {
  const { body: openapi } = await api('GET', '/openapi.json');
  const here = await world();
  const kinds = Object.entries(openapi.paths).filter(([path, item]) => item.post && !path.includes('{id}'))
    .map(([path, item]) => ({
      path: path.replace('{edge_id}', here.made.https_edge[0].id), name: item.post.tags[0],
      create: item.post.requestBody.content['application/json'].schema,
      update: openapi.paths[`${path}/{id}`]?.patch?.requestBody.content['application/json'].schema,
    }));
  assert.ok(kinds.length >= 28, `${kinds.length} kinds`);
  const counts = { accepted: 0, refused: 0, faults: {} };
  const failures = []; // a dozen, so that one run tells more than one thing
  let next = 0;

  async function one(number) {
    const r = new Random(seed * 1000003 + number);
    const kind = kinds[number % kinds.length];
    const make = () => { const body = object(r, kind.create, here); mend[kind.name]?.(r, body, here); return body; };
    const body = make();
    const context = () => `seed ${seed} case ${number} ${kind.name} ${JSON.stringify(body).slice(0, 1500)}`;
    if (number % 5 || (kind.name === 'ip_restriction')) {
      const bad = spoil(r, kind.create, body);
      const answer = await api('POST', kind.path, bad.body);
      const told = `${bad.fault} at ${bad.path}: ${answer.raw}\n${JSON.stringify(bad.body).slice(0, 1500)}\n${context()}`;
      assert.equal(answer.status, 400, told);
      assert.equal(answer.body.error_code, bad.code, told);
      assert.ok(Object.keys(answer.body.details).some((key) => (bad.path.test ? bad.path.test(key) : key === bad.path)), told);
      counts.refused++;
      counts.faults[bad.fault] = (counts.faults[bad.fault] ?? 0) + 1;
      return;
    }
    const answer = await api('POST', kind.path, body);
    assert.equal(answer.status, 201, `${answer.raw}\n${context()}`);
    try {
      echoed(given(kind.create, body), answer.body);
      const where = new URL(answer.body.uri).pathname;
      const read = await must('GET', where);
      echoed(given(kind.create, body), read);
      if (kind.update) {
        const again = make();
        const patch = Object.fromEntries(Object.entries(again).filter(([name]) => name in kind.update.properties && name !== 'target' && !(kind.name === 'https_edge_route' && ['oauth', 'oidc', 'saml'].includes(name))));
        if (kind.name === 'tls_edge') { delete patch.tls_termination; delete patch.mutual_tls; }
        if (Object.keys(given(kind.update, patch)).length) {
          const changed = await must('PATCH', where, patch);
          echoed(given(kind.update, patch), changed);
          for (const [name, value] of Object.entries(patch)) if (isAbsent(kind.update.properties[name], value)) assert.deepEqual(changed[name], read[name], `.${name} as it was`);
        }
      }
      await must('DELETE', where);
    } catch (error) {
      throw new Error(`${error.message}\n${answer.raw}\n${context()}`, { cause: error });
    }
    counts.accepted++;
  }
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    while (next < total && failures.length < 12) await one(next++).catch((error) => failures.push(error.message));
  }));
  assert.deepEqual(failures, []);
  console.log(`# ${JSON.stringify(counts)}`);
  assert.equal(counts.accepted + counts.refused, total);
});
