// Event destinations, subscriptions and their sources: every operation, field, reference and delete rule.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { api, client, endpoint, listening, must, through, unique, until } from '../support/postern.mjs';

const refused = async (code, field, method, where, body) => {
  const answer = await api(method, where, body);
  assert.equal(answer.body.error_code, `ERR_POSTERN_${code}`, `${method} ${where} ${JSON.stringify(body)}: ${answer.raw}`);
  if (field) assert.ok(Object.keys(answer.body.details).some((key) => key.includes(field)), `${field} in ${answer.raw}`);
};
const datadog = (more = {}) => ({ datadog: { api_key: 'very secret', ddsite: 'datadoghq.com', ...more } });
const creds = { creds: { aws_access_key_id: 'AKIA', aws_secret_access_key: 'hush' } };
const arns = { firehose: ['delivery_stream_arn', 'arn:aws:firehose:us-east-1:123:deliverystream/a'], kinesis: ['stream_arn', 'arn:aws:kinesis:us-east-1:123:stream/a'], cloudwatch_logs: ['log_group_arn', 'arn:aws:logs:us-east-1:123:log-group:a:*'] };
const azure = { tenant_id: 't', client_id: 'c', client_secret: 's', logs_ingestion_uri: 'https://a.ingest.example', data_collection_rule_id: 'dcr-1', data_collection_stream_name: 'Custom-a' };

test('destinations: five targets, one at a time, whose kind stays and whose secrets never leave', async () => {
  const other = await must('POST', '/event_destinations', { format: 'json', target: datadog() });
  const events = await listening('event_destination', () => must('PATCH', `/event_destinations/${other.id}`, { description: unique('probe') }));
  await must('DELETE', `/event_destinations/${other.id}`);
  const made = await must('POST', '/event_destinations', { description: 'd', metadata: 'm', format: 'JSON', target: datadog({ ddtags: 'a:b', service: 'x' }) });
  assert.match(made.id, /^ed_[0-9A-Za-z]{27}$/);
  assert.equal(made.format, 'json');
  assert.deepEqual(made.target, { firehose: null, kinesis: null, cloudwatch_logs: null, azure_logs_ingestion: null, datadog: { api_key: '', ddtags: 'a:b', service: 'x', ddsite: 'datadoghq.com' } });
  assert.deepEqual(await must('GET', `/event_destinations/${made.id}`), made);
  for (const [kind, [field, arn]] of Object.entries(arns)) {
    const role = await must('POST', '/event_destinations', { format: 'json', target: { [kind]: { auth: { role: { role_arn: 'arn:aws:iam::123:role/a' } }, [field]: arn } } });
    assert.deepEqual(role.target[kind], { auth: { role: { role_arn: 'arn:aws:iam::123:role/a' }, creds: null }, [field]: arn });
    const key = await must('PATCH', `/event_destinations/${role.id}`, { target: { [kind]: { auth: creds, [field]: arn } } });
    assert.equal(key.target[kind].auth.creds.aws_secret_access_key, '');
    await must('PATCH', `/event_destinations/${role.id}`, { target: { [kind]: { auth: { creds: { aws_access_key_id: 'AKIB', aws_secret_access_key: '' } }, [field]: arn } } });
    await refused(204, 'auth', 'POST', '/event_destinations', { format: 'json', target: { [kind]: { auth: { ...creds, role: { role_arn: 'arn:aws:iam::1:role/a' } }, [field]: arn } } });
    await refused(204, 'auth', 'POST', '/event_destinations', { format: 'json', target: { [kind]: { auth: {}, [field]: arn } } });
    await refused(204, field, 'POST', '/event_destinations', { format: 'json', target: { [kind]: { auth: creds, [field]: 'arn:aws:s3:::a' } } });
    await refused(204, 'secret', 'POST', '/event_destinations', { format: 'json', target: { [kind]: { auth: { creds: { aws_access_key_id: 'AKIA' } }, [field]: arn } } });
    await must('DELETE', `/event_destinations/${role.id}`);
  }
  const logs = await must('POST', '/event_destinations', { format: 'json', target: { azure_logs_ingestion: azure } });
  assert.deepEqual(logs.target.azure_logs_ingestion, { ...azure, client_secret: '' });
  for (const field of Object.keys(azure)) await refused(204, field, 'POST', '/event_destinations', { format: 'json', target: { azure_logs_ingestion: { ...azure, [field]: '' } } });

  await refused(205, 'target', 'PATCH', `/event_destinations/${made.id}`, { target: { azure_logs_ingestion: azure } });
  await refused(204, 'target', 'POST', '/event_destinations', { format: 'json', target: { ...datadog(), azure_logs_ingestion: azure } });
  await refused(204, 'target', 'POST', '/event_destinations', { format: 'json', target: {} });
  await refused(122, 'target', 'POST', '/event_destinations', { format: 'json' });
  await refused(203, 'format', 'POST', '/event_destinations', { format: 'xml', target: datadog() });
  await refused(204, 'api_key', 'POST', '/event_destinations', { format: 'json', target: datadog({ api_key: undefined }) });
  await refused(120, 'nonsense', 'POST', '/event_destinations', { format: 'json', target: datadog({ nonsense: 1 }) });
  const kept = await must('PATCH', `/event_destinations/${made.id}`, { description: '', target: datadog({ api_key: '' }) });
  assert.deepEqual([kept.description, kept.metadata, kept.target.datadog.ddtags], ['', 'm', null], 'the target is replaced whole, its secret kept');
  await until(() => events.events.some((event) => event.event_type === 'event_destination_updated.v0' && event.object.id === made.id), 'the audit event');
  await events.stop();
  assert.ok(!JSON.stringify(events.events).includes('secret'.padStart(11, 'very ')), 'no secret in an event');
});

test('subscriptions and sources, with the official client', async () => {
  const ngrok = client();
  const to = await must('POST', '/event_destinations', { format: 'json', target: datadog() });
  const made = await ngrok.eventSubscriptions.create({ description: 'd', metadata: 'm', sources: [{ type: 'ip_policy_created.v0' }], destinationIds: [to.id] });
  assert.match(made.id, /^esb_/);
  assert.deepEqual(made.destinations, [{ id: to.id, uri: to.uri }]);
  assert.deepEqual(made.sources, [{ type: 'ip_policy_created.v0', uri: `${made.uri}/sources/ip_policy_created.v0`, fields: null, filter: null }]);
  assert.deepEqual(await ngrok.eventSubscriptions.get(made.id), made);
  assert.equal((await api('DELETE', `/event_destinations/${to.id}`)).body.error_code, 'ERR_POSTERN_142', 'in use');

  const added = await ngrok.eventSources.create({ subscriptionId: made.id, type: 'api_key_deleted.v0' });
  assert.equal(added.uri, `${made.uri}/sources/api_key_deleted.v0`);
  assert.deepEqual(await ngrok.eventSources.get({ subscriptionId: made.id, type: 'api_key_deleted.v0' }), added);
  assert.deepEqual(await ngrok.eventSources.update({ subscriptionId: made.id, type: 'api_key_deleted.v0' }), added, 'an update may be empty');
  const listed = await ngrok.eventSources.list({ subscriptionId: made.id });
  assert.deepEqual(listed, { sources: [made.sources[0], added], uri: `${made.uri}/sources` });
  await ngrok.eventSources.delete({ subscriptionId: made.id, type: 'api_key_deleted.v0' }).catch((error) => assert.equal(error.name, 'SyntaxError', 'the client fails on its own 204'));
  const where = `/event_subscriptions/${made.id}/sources`;
  assert.equal((await api('GET', `${where}/api_key_deleted.v0`)).status, 404);
  assert.equal((await api('DELETE', `${where}/api_key_deleted.v0`)).status, 404);

  const traffic = { type: 'http_request_complete.v0', fields: ['http.response.status_code', 'conn.client_ip'], filter: 'ev.conn.server_name == "a.example" && ev.conn.server_port in [443, 8443]' };
  assert.deepEqual(await must('POST', where, traffic), { ...traffic, uri: `${made.uri}/sources/${traffic.type}` });
  const changed = await must('PATCH', `${where}/${traffic.type}`, { fields: ['conn.start_ts'], filter: 'ev.conn.client_ip.matches("^10[.]")' });
  assert.deepEqual([changed.fields, changed.filter], [['conn.start_ts'], 'ev.conn.client_ip.matches("^10[.]")']);
  assert.deepEqual((await must('PATCH', `${where}/${traffic.type}`, { fields: ['conn.client_ip'] })).filter, changed.filter, 'absent is unchanged');

  await refused(207, 'sources', 'POST', where, traffic);
  await refused(207, 'sources', 'POST', '/event_subscriptions', { sources: [{ type: 'vault_created.v0' }, { type: 'vault_created.v0' }] });
  await refused(206, 'type', 'POST', where, { type: 'nonsense.v0' });
  await refused(206, 'type', 'POST', where, { type: 'ip_policy_created' });
  await refused(122, 'type', 'POST', where, {});
  await refused(126, 'type', 'PATCH', `${where}/${traffic.type}`, { type: 'vault_created.v0' });
  await refused(208, 'fields', 'POST', where, { type: 'tcp_connection_closed.v0', fields: [] });
  await refused(208, 'fields', 'POST', where, { type: 'tcp_connection_closed.v0', fields: ['http.request.method'] });
  await refused(208, 'fields', 'POST', where, { type: 'vault_created.v0', fields: ['id'] });
  await refused(209, 'filter', 'POST', where, { type: 'vault_created.v0', filter: 'true' });
  for (const filter of ['ev.http.request.method == "get"', 'obj.id == "a"', 'ev.conn.client_ip ==', 'ev.conn.client_ip', 'principal == "a"', 'frob(ev.conn.client_ip)'])
    await refused(209, 'filter', 'PATCH', `${where}/${traffic.type}`, { filter });
  await refused(128, 'destination_ids', 'PATCH', `/event_subscriptions/${made.id}`, { destination_ids: [`ed_${'0'.repeat(27)}`] });
  await refused(127, 'destination_ids', 'PATCH', `/event_subscriptions/${made.id}`, { destination_ids: [made.id] });
  assert.equal((await api('GET', `${where}/${traffic.type}/more`)).status, 404);
  assert.equal((await api('PUT', where, {})).status, 405);

  const cleared = await must('PATCH', `/event_subscriptions/${made.id}`, { sources: [], destination_ids: [], metadata: '' });
  assert.deepEqual([cleared.destinations, cleared.metadata, cleared.description], [[], '', 'd']);
  assert.equal(cleared.sources.length, 2, 'the Python client sends an empty list of sources with every update');
  for (const { type } of cleared.sources) await must('DELETE', `${where}/${type}`);
  assert.deepEqual((await must('GET', `/event_subscriptions/${made.id}`)).sources, []);
  await must('DELETE', `/event_destinations/${to.id}`);
  await must('DELETE', `/event_subscriptions/${made.id}`);
  assert.equal((await api('GET', where)).status, 404);
});

test('a traffic event has the fields that proto/events.def says', async () => {
  const text = fs.readFileSync(path.join(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '../../proto/events.def'), 'utf8');
  const part = text.split('TRAFFIC("http_request_complete.v0"')[1].split('TRAFFIC(')[0];
  const rows = [...part.matchAll(/^FIELD\(HTTP,\s*\w+,\s*"([^"]+)",\s*(\w+)/gm)].map(([, name, type]) => [name, type]);
  const maps = rows.filter(([, type]) => type.endsWith('MAP')).map(([name]) => name);
  const events = await listening('http_request_complete');
  const to = await endpoint({ body: 'x' });
  await through(to.host, '/fields?a=b');
  const event = await until(() => events.events.find((one) => one.object.http.request.url.host === to.host), 'the event');
  const names = [];
  const walk = (value, name) => {
    if (value && typeof value === 'object' && !Array.isArray(value) && !maps.includes(name)) for (const key of Object.keys(value)) walk(value[key], name ? `${name}.${key}` : key);
    else names.push(name);
  };
  walk(event.object, '');
  await events.stop();
  assert.deepEqual(names.sort(), rows.map(([name]) => name).sort());
});

test('a request sent again with its key does nothing and gets the same answer, also for items of a list', async () => {
  const key = (what) => ({ 'Idempotency-Key': `${what}-${process.pid}-${Date.now()}` });
  const twice = async (method, where, body) => {
    const headers = key(method), first = await api(method, where, body, headers), second = await api(method, where, body, headers);
    assert.equal(first.status, { POST: 201, PATCH: 200, DELETE: 204 }[method], first.raw);
    assert.deepEqual([second.status, second.body], [first.status, first.body]);
    return [first, headers];
  };
  const destination = await must('POST', '/event_destinations', { format: 'json', target: datadog() });
  const subscription = await must('POST', '/event_subscriptions', { destination_ids: [destination.id] });
  const sources = `/event_subscriptions/${subscription.id}/sources`;
  await twice('POST', sources, { type: 'api_key_created.v0' });
  assert.equal((await must('GET', sources)).sources.length, 1);
  await twice('PATCH', `${sources}/api_key_created.v0`, {});
  await twice('DELETE', `${sources}/api_key_created.v0`);
  assert.deepEqual((await must('GET', sources)).sources, []);
  const [, headers] = await twice('PATCH', `/event_subscriptions/${subscription.id}`, { description: 'once' });
  assert.equal((await api('DELETE', `/event_subscriptions/${subscription.id}`, undefined, headers)).body.error_code, 'ERR_POSTERN_230', 'the key of another operation');
  await twice('DELETE', `/event_subscriptions/${subscription.id}`);
  await must('DELETE', `/event_destinations/${destination.id}`);
});
