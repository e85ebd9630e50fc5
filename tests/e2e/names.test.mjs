// Names are global: what one account has reserved nobody else can take, narrow or shadow, in whatever order, spelling or kind,
// also when both ask at once. Within an account names may overlap.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { account } from '../support/account.mjs';
import { api, endpoint, env, must, through, unique } from '../support/postern.mjs';

const sql = (text) => execFileSync('psql', [env.DATABASE_URL, '-qAtc', `SET search_path = routes; ${text}`], { encoding: 'utf8' }).trim();
const other = account();
const taken = (answer, what) => {
  assert.equal(answer.status, 409, `${what}: ${answer.raw}`);
  assert.equal(answer.body.error_code, 'ERR_POSTERN_144', what);
  assert.deepEqual(Object.keys(answer.body.details).sort(), ['domain', 'operation_id'], 'and nothing more');
};
const reserve = (who, domain) => who('POST', '/reserved_domains', { domain });
const ingress = (who, domain) => who('POST', '/agent_ingresses', { domain });

test('a name inside another account\'s wildcard, and the traffic that goes there', async () => {
  const corp = unique('corp'), login = `login.${corp}`;
  await endpoint({ body: 'the owner' }, { host: `*.${corp}` });
  assert.equal((await through(login)).body, 'the owner');
  for (const name of [login, `LOGIN.${corp.toUpperCase()}`, `${login}.`, `a.b.${corp}`, `*.${login}`, `*.${corp}`, `*.${corp}.`]) taken(await reserve(other.api, name), name);
  const edge = await other.api('POST', '/edges/https', { hostports: [`${login}:443`] });
  assert.equal(edge.body.error_code, 'ERR_POSTERN_151', edge.raw);
  assert.equal((await through(login)).body, 'the owner');
  assert.equal((await reserve(api, login)).status, 201, 'the account itself may');
  assert.equal((await reserve(other.api, corp)).status, 201, 'a wildcard does not hold the name above it');
});

test('a wildcard over another account\'s name, at any depth', async () => {
  const corp = unique('corp');
  const deep = await must('POST', '/reserved_domains', { domain: `a.b.${corp}` });
  for (const name of [`*.b.${corp}`, `*.${corp}`, `a.b.${corp}`]) taken(await reserve(other.api, name), name);
  for (const name of [`b.${corp}`, `xa.b.${corp}`, `*.a.b.${corp}`, `*.x${corp}`, corp]) assert.equal((await reserve(other.api, name)).status, 201, `${name} is another name`);
  await must('DELETE', `/reserved_domains/${deep.id}`);
  taken(await reserve(api, `*.${corp}`), 'now it is the other way round');
  assert.equal((await reserve(other.api, `*.${corp}`)).status, 201, 'free again');
});

test('agent ingresses hold their domain and what is below it', async () => {
  const zone = unique('zone');
  await must('POST', '/agent_ingresses', { domain: zone });
  for (const name of [zone, `a.${zone}`, `*.${zone}`, `a.b.${zone}`]) {
    taken(await reserve(other.api, name), `${name} as a domain`);
    taken(await ingress(other.api, name), `${name} as an ingress`);
  }
  assert.equal((await ingress(api, zone)).body.error_code, 'ERR_POSTERN_143', 'one\'s own is a duplicate');
  assert.equal((await reserve(api, `a.${zone}`)).status, 201);
  const host = unique('under');
  await must('POST', '/reserved_domains', { domain: `a.${host}` });
  taken(await ingress(other.api, host), 'over a reserved domain');
});

test('of accounts that ask at once one gets the name, whichever way they overlap', async () => {
  for (let round = 0; round < 6; round++) {
    const corp = unique('race');
    const names = [`*.${corp}`, `login.${corp}`, `a.b.${corp}`, `*.b.${corp}`, `*.${corp}`, `login.${corp}`];
    const answers = await Promise.all(names.flatMap((name) => [reserve(api, name), reserve(other.api, name)]));
    const got = [[], []];
    answers.forEach((answer, i) => {
      const name = names[i >> 1];
      if (answer.status === 201) got[i & 1].push(name);
      else assert.ok(['ERR_POSTERN_144', 'ERR_POSTERN_143'].includes(answer.body.error_code), answer.raw);
    });
    const overlap = (a, b) => a === b || (a[0] === '*' && b.endsWith(a.slice(1))) || (b[0] === '*' && a.endsWith(b.slice(1)));
    for (const mine of got[0]) for (const its of got[1]) assert.ok(!overlap(mine, its), `${mine} and ${its}: ${JSON.stringify(got)}`);
    assert.ok(got[0].length + got[1].length > 0);
  }
});

test('what overlapped before names were global stays, and gets no new hostport while the older one is there', async () => {
  const corp = unique('old'), login = `login.${corp}`;
  const its = await other.must('POST', '/reserved_domains', { domain: login });
  sql(`DELETE FROM name_claim WHERE owner_id = '${its.id}'`);
  const mine = await must('POST', '/reserved_domains', { domain: `*.${corp}` });
  assert.equal((await other.must('GET', `/reserved_domains/${its.id}`)).domain, login);
  assert.equal((await other.api('POST', '/edges/https', { hostports: [`${login}:443`] })).body.error_code, 'ERR_POSTERN_151');
  assert.equal((await other.api('PATCH', `/reserved_domains/${its.id}`, { description: 'mine' })).status, 200);
  await must('DELETE', `/reserved_domains/${mine.id}`);
  await other.must('POST', '/edges/https', { hostports: [`${login}:443`] });
  taken(await reserve(api, login), 'held again');
});

// As the answers say it: the sign-in host stands in what SAML asks for.
async function ownHosts() {
  const edge = await must('POST', '/edges/https', {});
  const saml = { idp_metadata: '<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example"><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></EntityDescriptor>' };
  const route = await must('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', saml });
  await must('DELETE', `/edges/https/${edge.id}`);
  return [new URL(route.saml.entity_id).hostname, ...(env.POSTERN_API_TLS_URL ? [new URL(env.POSTERN_API_TLS_URL).hostname] : [])];
}

test('the hosts of the API and of the sign-in endpoints are no account\'s, in any kind', async () => {
  for (const host of await ownHosts()) for (const who of [api, other.api]) {
    const above = host.split('.').slice(1).map((_, i, labels) => labels.slice(i).join('.'));
    const domains = above.filter((one) => one.includes('.'));
    for (const name of [host, host.toUpperCase(), `${host}.`, ...domains.map((one) => `*.${one}`)]) {
      taken(await reserve(who, name), `${name} as a domain`);
      taken(await ingress(who, name), `${name} as an ingress`);
    }
    for (const name of domains) taken(await ingress(who, name), `${name} as an ingress over it`);
    for (const [path, body] of [['/edges/https', { hostports: [`${host}:443`] }], ['/edges/tls', { hostports: [`${host}:443`] }], ['/endpoints', { type: 'cloud', url: `https://${host}`, traffic_policy: '{}' }], ['/endpoints', { type: 'cloud', url: `tls://${host}`, traffic_policy: '{}' }]]) {
      const answer = await who('POST', path, body);
      assert.equal(answer.body.error_code, 'ERR_POSTERN_151', `${path}: ${answer.raw}`);
    }
  }
});

test('whoever has a wildcard over such a host from before has not got the host', async () => {
  for (const host of await ownHosts()) {
    const domain = await must('POST', '/reserved_domains', { domain: `*.${unique('before')}` });
    sql(`UPDATE reserved_domain SET domain = '*.${host.split('.').slice(1).join('.')}' WHERE id = '${domain.id}'`);
    const answer = await api('POST', '/edges/https', { hostports: [`${host}:443`] });
    assert.equal(answer.body.error_code, 'ERR_POSTERN_151', answer.raw);
    await must('DELETE', `/reserved_domains/${domain.id}`);
  }
});

test('a wildcard is over two labels at least: nobody holds a whole top-level domain, in any spelling or kind', async () => {
  const top = unique('top').replaceAll('.', '-');
  for (const who of [api, other.api]) for (const name of [top, `*.${top}`, `*.${top.toUpperCase()}`, `*.${top}.`, '*.localhost']) for (const ask of [reserve, ingress]) {
    const answer = await ask(who, name);
    assert.deepEqual([answer.status, answer.body.error_code], [400, 'ERR_POSTERN_182'], `${name}: ${answer.raw}`);
    assert.match(answer.body.msg, /at least two labels/, name);
  }
  assert.equal((await reserve(other.api, `mine.${top}`)).status, 201, 'what is below is whose it is');
  assert.equal((await reserve(other.api, `*.mine.${top}`)).status, 201);
  assert.equal((await ingress(api, `other.${top}`)).status, 201);
});
