// What somebody sends comes back in error texts: whatever its bytes, the answer is an error in JSON that says what is wrong, and
// it is the service's own answer, not the deadline's. Characters of two, three and four bytes, so that every limit of a text
// falls into the middle of one, in every query parameter, path, field name and string field that /openapi.json knows.
import assert from 'node:assert/strict';
import test from 'node:test';
import { api, must, unique } from '../support/postern.mjs';
import { Random, mend, object, plain } from './generate.mjs';
import { world } from './world.mjs';

const CLIENTS = 16;
const characters = ['é', '€', '😀'];
const size = (character) => Buffer.byteLength(character);
// A limit anywhere in these falls behind each of the character's bytes once.
const long = characters.flatMap((character) => Array.from({ length: size(character) }, (_, n) => 'a'.repeat(n) + character.repeat(150)));
const hostile = [...long, 'it\'s "quoted" \\ ', '\u0085\u202e\u2028\ufeff', '\u0001\u001b[31m\n'];

const wellFormed = (answer, context) => {
  assert.equal(typeof answer.body, 'object', `${context}: ${answer.raw.slice(0, 300)}`);
  assert.ok(answer.status >= 400 && answer.status < 500, `${context}: ${answer.raw.slice(0, 300)}`);
  assert.equal(answer.body.status_code, answer.status, context);
  assert.ok(answer.body.msg, `${context}: ${answer.raw}`);
  assert.match(answer.body.details.operation_id, /^op_/, context);
  // eslint-disable-next-line no-control-regex
  assert.ok(!/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\ufffd]/.test(JSON.stringify(answer.body.msg) + Object.entries(answer.body.details).join()), `${context}: ${answer.raw}`);
};
async function all(cases, run, clients = CLIENTS) {
  const failures = [];
  let next = 0;
  await Promise.all(Array.from({ length: clients }, async () => {
    while (next < cases.length && failures.length < 12) await run(cases[next++]).catch((error) => failures.push(error.message));
  }));
  assert.deepEqual(failures, []);
}
const kindsOf = async (here) => {
  const { body: openapi } = await api('GET', '/openapi.json');
  return Object.entries(openapi.paths).filter(([path, item]) => item.post && !path.includes('{id}')).map(([path, item]) => ({
    template: path, path: path.replace('{edge_id}', here.made.https_edge[0].id), name: item.post.tags[0],
    create: item.post.requestBody.content['application/json'].schema,
    list: item.get?.parameters?.filter((one) => one.in === 'query').map((one) => one.name) ?? [],
    one: Object.keys(openapi.paths[`${path}/{id}`] ?? {}),
  }));
};

test('characters of several bytes at every place of a limit, in every query parameter', async () => {
  const kinds = (await kindsOf(await world())).filter((kind) => !kind.template.includes('{'));
  const cases = kinds.flatMap((kind) => ['limit', 'before_id', 'filter', 'nonsense', ...kind.list].flatMap((name) => hostile.map((text) => [kind.path, name, text])));
  for (let n = 0; n <= 420; n++) for (const character of characters) cases.push(['/api_keys', 'limit', '1'.repeat(n) + character], ['/api_keys', 'before_id', 'a'.repeat(n) + character], ['/api_keys', 'filter', `obj.${'a'.repeat(n)}${character}`], ['/api_keys', 'a'.repeat(n) + character, '1']);
  await all(cases, async ([path, name, text]) => {
    const answer = await api('GET', `${path}?${encodeURIComponent(name)}=${encodeURIComponent(text)}`);
    if (answer.status === 200 && ['id', 'url'].includes(name)) return; // nothing has that id
    wellFormed(answer, `${path}?${name}=${text.slice(0, 40)}`);
    assert.notEqual(answer.status, 404, path);
  });
});

test('in names of query parameters', async () => {
  await all(hostile, async (text) => {
    const answer = await api('GET', `/api_keys?${encodeURIComponent(text)}=1`);
    wellFormed(answer, text.slice(0, 40));
    assert.equal(answer.body.error_code, 'ERR_POSTERN_131');
  });
  for (const query of ['limit=%ff', '%ff=1', 'filter=%c3', 'limit=1%00', 'filter=true%00x', 'before_id=%ed%a0%80', 'limit%00x=1']) wellFormed(await api('GET', `/api_keys?${query}`), query);
});

test('in paths: ids, modules, members, and no path at all', async () => {
  const here = await world();
  const kinds = await kindsOf(here);
  const subscription = await must('POST', '/event_subscriptions', { destination_ids: [here.made.event_destination[0].id], sources: [{ type: 'vault_deleted.v0' }] });
  const spelled = [...hostile.map((text) => encodeURIComponent(text)), '%ff', '%c3', '%ed%a0%80', '%f5%80%80%80'];
  const cases = [];
  for (const text of spelled) {
    for (const kind of kinds) for (const method of kind.one) cases.push([method.toUpperCase(), `${kind.path}/${text}`]);
    for (const method of ['GET', 'PUT', 'DELETE']) cases.push([method, `/edges/https/${here.made.https_edge[0].id}/${text}`]);
    for (const method of ['GET', 'PATCH', 'DELETE']) cases.push([method, `/event_subscriptions/${subscription.id}/sources/${text}`]);
    cases.push(['GET', `/${text}`], ['GET', `/edges/https/${text}/routes/${text}`], ['GET', `/vaults/${text}/secrets`], ['GET', `/errors/ERR_POSTERN_${text}`]);
  }
  await all(cases, async ([method, path]) => {
    const body = method === 'PATCH' ? { type: 'vault_deleted.v0', description: '' } : method === 'PUT' ? {} : undefined;
    wellFormed(await api(method, path, body), `${method} ${path.slice(0, 80)}`);
  });
  assert.equal((await must('GET', `/event_subscriptions/${subscription.id}`)).sources.length, 1, 'no source was touched');
});

test('in names of fields, at every depth of a body', async () => {
  const here = await world();
  const r = new Random(7);
  const cases = [];
  for (const kind of await kindsOf(here)) {
    for (const text of hostile) {
      const body = object(r, kind.create, here, 1);
      mend[kind.name]?.(r, body, here);
      const holders = [body];
      for (const [name, property] of Object.entries(kind.create.properties)) {
        const inner = plain(property);
        if (inner.type === 'object' && body[name] && typeof body[name] === 'object') holders.push(body[name]);
      }
      for (const holder of holders) {
        holder[text] = { [text]: 1 };
        cases.push([kind, structuredClone(body), text]);
        delete holder[text];
      }
    }
  }
  await all(cases, async ([kind, body, text]) => {
    const answer = await api('POST', kind.path, body);
    wellFormed(answer, `${kind.name} ${text.slice(0, 40)}`);
    assert.equal(answer.status, 400, answer.raw);
  });
  const many = await api('POST', '/ip_policies', Object.fromEntries(Array.from({ length: 20000 }, (_, i) => [`f${i}`, 1])));
  wellFormed(many, 'twenty thousand names');
  assert.ok(Object.keys(many.body.details).length <= 101, 'a hundred problems and the operation id');
});

test('in values of fields', async () => {
  const here = await world();
  const r = new Random(11);
  const cases = [];
  for (const kind of await kindsOf(here)) {
    const visit = (schema, body, copy) => {
      for (const [name, property] of Object.entries(schema.properties)) {
        const inner = plain(property);
        const put = (value) => { const had = body[name]; body[name] = value; cases.push([kind, structuredClone(copy), name]); if (had === undefined) delete body[name]; else body[name] = had; };
        if (inner.type === 'object' && inner.properties && body[name]) { visit(inner, body[name], copy); continue; }
        for (const text of [r.pick(long.slice(0, 2)), r.pick(long.slice(2, 5)), r.pick(long.slice(5)), hostile.at(-1), hostile.at(-2), hostile.at(-3)]) {
          if (inner.type === 'string') put(text);
          else if (inner.type === 'array') put([text]);
          else if (inner.type === 'object') { put({ [text]: text }); put({ [text]: 1 }); put({ a: text }); }
        }
      }
    };
    const body = object(r, kind.create, here, 1);
    mend[kind.name]?.(r, body, here);
    visit(kind.create, body, body);
  }
  assert.ok(cases.length > 1000, `${cases.length} cases`);
  await all(cases, async ([kind, body, name]) => {
    const answer = await api('POST', kind.path, body);
    if (answer.status === 201) await must('DELETE', new URL(answer.body.uri).pathname);
    else wellFormed(answer, `${kind.name}.${name}`);
  });
});

test('bodies that are nested more deeply than services take are refused at once, with the depth', async () => {
  const nested = (n, open, close) => `{"description":${open.repeat(n - 1)}1${close.repeat(n - 1)}}`;
  for (const [open, close] of [['[', ']'], ['{"a":', '}']]) {
    for (const depth of [32, 33, 34, 40, 100, 2000, 3000, 100000]) {
      const answer = await api('POST', '/ip_policies', nested(depth, open, close));
      wellFormed(answer, `${depth} of ${open}`);
      assert.equal(answer.body.error_code, 'ERR_POSTERN_116', answer.raw);
      assert.match(answer.body.msg, /nested too deeply: the limit is 31/);
    }
    for (const depth of [2, 30, 31]) {
      const answer = await api('POST', '/ip_policies', nested(depth, open, close));
      wellFormed(answer, `${depth} of ${open}`);
      assert.equal(answer.body.error_code, 'ERR_POSTERN_121', answer.raw);
    }
  }
});

test('a page that no frame of the bus could take ends before its limit', async () => {
  const mark = unique('large');
  const traffic_policy = `{"on_http_request":[{"name":"${'\\\\'.repeat(65000)}"}]}`; // twice as long again in JSON
  const made = [];
  await all(Array.from({ length: 70 }, (_, i) => i), async (i) => { made.push(await must('POST', '/endpoints', { url: `https://a${i}.${mark}.internal`, bindings: ['internal'], metadata: mark, traffic_policy })); }, 2);
  const seen = [];
  let page = await must('GET', `/endpoints?limit=100&filter=${encodeURIComponent(`obj.metadata == "${mark}"`)}`);
  assert.ok(page.endpoints.length < 70, `${page.endpoints.length} of them in one page`);
  for (;;) {
    seen.push(...page.endpoints.map((one) => one.id));
    if (!page.next_page_uri) break;
    const next = new URL(page.next_page_uri);
    page = await must('GET', next.pathname + next.search);
  }
  assert.deepEqual([...seen].sort(), made.map((one) => one.id).sort());
  await all(made, (one) => must('DELETE', `/endpoints/${one.id}`));
});
