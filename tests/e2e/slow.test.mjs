// Requests that keep a worker busy for long, and requests that come again: nobody else waits for them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { api, elsewhere, env, healthUrls, must, unique, until } from '../support/postern.mjs';

const remove = (list) => Promise.all(list.map((one) => must('DELETE', new URL(one.uri).pathname)));
const CREATES = 14;

// What is started at once, and how many of it are not answered yet.
function atOnce(n, start) {
  const state = { pending: n };
  state.answers = Promise.all(Array.from({ length: n }, (_, i) => start(i).finally(() => state.pending--)));
  return state;
}

// On a busy machine some of them run into the request's deadline: the same again.
async function create(path, body) {
  const headers = { 'Idempotency-Key': unique('slow') };
  for (;;) {
    const answer = await api('POST', path, body, headers);
    if (answer.status !== 503) return answer;
  }
}

async function answeredMeanwhile(creates, requests) {
  await until(() => creates.pending < CREATES, 'the first is made', 120000);
  for (const request of requests) assert.equal((await request()).status, 200);
  const left = creates.pending;
  const answers = await creates.answers;
  for (const answer of answers) assert.equal(answer.status, 201, answer.raw);
  assert.ok(left > CREATES / 3, `${left} of ${CREATES} were left`);
  return answers.map((one) => one.body);
}

test('keys are authenticated while many certificate authorities are made', { timeout: 300000 }, async () => {
  const keys = await Promise.all(Array.from({ length: 6 }, () => must('POST', '/api_keys', { description: unique('slow') })));
  const creates = atOnce(CREATES, () => create('/ssh_certificate_authorities', { private_key_type: 'rsa', key_size: 2048 }));
  const made = await answeredMeanwhile(creates, keys.map(({ token }) => () => api('GET', '/api_keys?limit=1', undefined, { Authorization: `Bearer ${token}` })));
  await remove([...made, ...keys]);
});

test('backends are changed while keys for many SAML routes are made', { timeout: 300000 }, async () => {
  const edge = await must('POST', '/edges/https', {}), backend = await must('POST', '/backends/static', { address: 'slow.test:80' });
  const saml = { idp_metadata: '<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example"><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></EntityDescriptor>' };
  const creates = atOnce(CREATES, (i) => create(`/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: `/${i}`, saml }));
  await answeredMeanwhile(creates, Array.from({ length: 6 }, (_, i) => () => api('PATCH', `/backends/static/${backend.id}`, { description: `${i}` })));
  await remove([edge, backend]);
});

// A service that stands still for some seconds finds the same requests several times in its queue.
test('a request that came several times is worked on once', { skip: elsewhere, timeout: 300000 }, async () => {
  const pid = Number(fs.readFileSync(`${env.POSTERN_RUN_DIR}/identity.pid`, 'utf8'));
  const metric = async (port, name) => Number((await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()).match(new RegExp(`^${name} (\\d+)$`, 'm'))?.[1]);
  const ports = healthUrls().map((url) => url.split(':').pop()), port = ports[2];
  const before = await metric(port, 'postern_identity_requests_resent_total');
  const asked = await metric(ports[0], 'postern_gateway_calls_resent_total');
  process.kill(pid, 'SIGSTOP');
  const creates = Array.from({ length: 5 }, () => api('POST', '/vaults', { name: unique('slow') }));
  try {
    await until(async () => await metric(ports[0], 'postern_gateway_calls_resent_total') >= asked + 5, 'the gateway asks again after one second');
  } finally {
    process.kill(pid, 'SIGCONT');
  }
  const made = (await Promise.all(creates)).map((answer) => { assert.equal(answer.status, 201, answer.raw); return answer.body; });
  assert.equal(new Set(made.map((one) => one.id)).size, 5);
  await until(async () => await metric(port, 'postern_identity_requests_resent_total') > before, 'those that came again are counted');
  await remove(made);
});
