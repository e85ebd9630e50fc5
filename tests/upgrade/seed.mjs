// Rows of every kind, made through the API of the system in POSTERN_HOME, and a route that an edge answers by itself; prints all that
// the API then shows of them, as {key, host, shown: {path: body}}, with {api} for the system's address.
import { Random } from '../contract/generate.mjs';
import { account } from '../support/account.mjs';
import { api, env, must } from '../support/postern.mjs';
import { Holder } from '../tenants/build.mjs';
import { Tables } from '../tenants/tables.mjs';

const { body: tables } = await api('GET', '/openapi.json');
const holder = new Holder(new Tables(tables), account('Before'), new Random(16));
await holder.build();
const own = holder.account.must, host = 'www.before.example.test';
await own('POST', '/reserved_domains', { domain: host });
const edge = await own('POST', '/edges/https', { hostports: [`${host}:443`] });
const backend = await own('POST', '/backends/http_response', { body: 'made before' });
await own('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } });
await must('GET', '/api_keys'); // of the first account, which deploy/stack made
const shown = Object.fromEntries(Object.entries(await holder.everything()).map(([path, text]) => [path, text.replaceAll(env.POSTERN_API_URL, '{api}')]));
process.stdout.write(`${JSON.stringify({ key: holder.account.token, account: holder.account.id, host, edge: edge.id, backend: backend.id, shown }, null, 1)}\n`);
process.exit(0);
