// What tests/bench/sessions does beside load: people who sign in, the provider where they do, and revocations.
//   sign-ins COUNT URL PROVIDER FILE   people sign in at the route; values of their session cookies, a line each
//   apache PORT URL FILE               one signs in at Apache by a provider on the port; its cookies. Waits for FILE.go
//   revocations COUNT                  ids of sessions, a line each from the standard input, are deleted one after the other
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import readline from 'node:readline';

const [what, ...args] = process.argv.slice(2);
const tls = (name) => ({ key: fs.readFileSync(`${name}.key`), cert: fs.readFileSync(`${name}.pem`) });
const PAGE = { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document', 'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' };
const SESSION = '__Host-postern.session', SIDE_BY_SIDE = 16;
const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
const spread = (ms) => { const sorted = ms.sort((a, b) => a - b); return `p50 ${at(sorted, 0.5).toFixed(2)} ms, p99 ${at(sorted, 0.99).toFixed(2)} ms, most ${sorted.at(-1).toFixed(2)} ms`; };

// One request on a connection that is kept; every host is this machine. jar: host -> name -> value, which the answer changes.
// Who signs in beside others has an address of its own: an edge asks few questions at once for one client.
const agents = new Map();
function visit(url, jar) {
  const { from = '127.0.0.1' } = jar;
  if (!agents.has(from)) agents.set(from, new https.Agent({ keepAlive: true, rejectUnauthorized: false, localAddress: from }));
  const agent = agents.get(from);
  const { hostname, port, host, pathname, search } = new URL(url), cookies = jar.get(host) ?? new Map();
  jar.set(host, cookies);
  return new Promise((resolve, reject) => {
    https.get({ agent, host: '127.0.0.1', port, servername: hostname, path: pathname + search, headers: { Host: host, ...PAGE, Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') } }, (response) => {
      for (const line of response.headers['set-cookie'] ?? []) {
        const [name, value] = line.split(';')[0].split(/=(.*)/s);
        if (value && !line.includes('Max-Age=0')) cookies.set(name, value); else cookies.delete(name);
      }
      let text = '';
      response.setEncoding('utf8').on('data', (part) => { text += part; }).on('error', reject)
        .on('end', () => resolve({ status: response.statusCode, location: response.headers.location && new URL(response.headers.location, url).href, text }));
    }).on('error', reject);
  });
}
// Follows redirects as far as one to where stop says.
async function go(url, jar, stop) {
  for (let hops = 0; hops < 12; hops++) {
    const answer = await visit(url, jar);
    if (!answer.location) throw new Error(`${url} answers ${answer.status}: ${answer.text.slice(0, 300)}`);
    if (stop(answer.location)) return answer.location;
    url = answer.location;
  }
  throw new Error(`redirected for ever: ${url}`);
}

// As github answers: codes are numbers of people, tokens too. What a person would see there is not part of the bench.
function provider(port) {
  const json = (response, value) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
  const server = https.createServer(tls(process.env.STORY_UPSTREAM_TLS), async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    if (request.url.startsWith('/token')) return json(response, { access_token: new URLSearchParams(body).get('code'), token_type: 'bearer', scope: 'read:org,read:user,user:email' });
    const id = Number((request.headers.authorization ?? '').split(' ')[1]), email = `person-${id}@example.test`;
    if (request.url.startsWith('/api/user/emails')) return json(response, [{ email, primary: true, verified: true }]);
    return json(response, { id, login: `person-${id}`, name: `Person ${id}`, email });
  });
  return new Promise((resolve, reject) => server.on('error', reject).listen(port, '127.0.0.1', () => resolve(server)));
}

async function signIns(count, url, base, file) {
  const server = await provider(Number(new URL(base).port)), { host } = new URL(url), values = [], took = [], began = performance.now();
  let next = 1;
  const one = async (lane) => {
    while (next <= count) {
      const number = next++, jar = Object.assign(new Map(), { from: `127.0.0.${10 + lane}` }), since = performance.now();
      const away = new URL(await go(url, jar, (to) => to.startsWith(base))), back = new URL(away.searchParams.get('redirect_uri'));
      back.searchParams.set('code', String(number));
      back.searchParams.set('state', away.searchParams.get('state'));
      await go(back.href, jar, (to) => to === url);
      took.push(performance.now() - since);
      values.push(jar.get(host).get(SESSION));
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, (_, lane) => one(lane)));
  const seconds = (performance.now() - began) / 1000;
  fs.writeFileSync(file, values.map((value) => `${value}\n`).join(''));
  console.log(`  ${count} people, ${SIDE_BY_SIDE} at a time: ${(count / seconds).toFixed(1)}/s, ${spread(took)}`);
  server.closeAllConnections();
  server.close();
}

async function apache(port, url, file) {
  const { oidcProvider } = await import('../support/oidc-provider.mjs');
  const signed = { ...tls(process.env.STORY_UPSTREAM_TLS), ca: fs.readFileSync(`${process.env.STORY_UPSTREAM_TLS}.pem`) };
  const there = await oidcProvider({ port: Number(port), signed, clients: [{ client_id: 'bench', client_secret: 'bench-bench-bench-bench-bench-bench', redirect_uris: [`${url}redirect`] }] });
  fs.writeFileSync(`${file}.ready`, '');
  while (!fs.existsSync(`${file}.go`)) await new Promise((resolve) => setTimeout(resolve, 50));
  const jar = new Map(), back = new URL(`${url}redirect`);
  for (const [name, values] of Object.entries(await there.signIn(await go(url, jar, (to) => to.startsWith(there.issuer))))) back.searchParams.set(name, values[0]);
  await go(back.href, jar, (to) => to === url);
  const cookie = [...jar.get(back.host)].map(([name, value]) => `${name}=${value}`).join('; '), { status } = await visit(url, jar);
  if (status !== 200) throw new Error(`Apache answers ${status} to a session`);
  fs.writeFileSync(file, cookie);
  there.stop();
  fs.rmSync(`${file}.ready`);
}

async function revocations(count) {
  const url = new URL(process.env.POSTERN_API_URL), kept = new http.Agent({ keepAlive: true, maxSockets: 1 }), took = [], edges = {};
  const gone = (id) => new Promise((resolve, reject) => {
    http.request({ host: url.hostname, port: url.port, agent: kept, method: 'DELETE', path: `/app/sessions/${id}`, headers: { Authorization: `Bearer ${process.env.POSTERN_API_KEY}`, 'Service-Version': '2' } }, (response) => {
      response.resume().on('end', () => (response.statusCode === 204 ? resolve(response.headers['postern-edges']) : reject(new Error(`${id}: ${response.statusCode}`))));
    }).on('error', reject).end();
  });
  for await (const id of readline.createInterface({ input: process.stdin })) {
    const since = performance.now(), said = await gone(id);
    took.push(performance.now() - since);
    edges[said] = (edges[said] ?? 0) + 1;
  }
  if (took.length !== Number(count)) throw new Error(`${took.length} of ${count} sessions were there`);
  console.log(`  ${took.length}: ${spread(took)}; Postern-Edges ${Object.entries(edges).map(([said, n]) => `${said}: ${n}`).join(', ')}`);
}

await { 'sign-ins': signIns, apache, revocations }[what](...args);
process.exit();
