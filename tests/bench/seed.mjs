// Many routes through the API, 1,000 an edge: node seed.mjs COUNT BACKEND
import http from 'node:http';

const [count, backend] = [Number(process.argv[2]), process.argv[3]];
const url = new URL(process.env.POSTERN_API_URL);
const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
const post = (path, body) => new Promise((resolve, reject) => {
  const text = JSON.stringify(body);
  const request = http.request({ host: url.hostname, port: url.port, method: 'POST', path, agent,
    headers: { Authorization: `Bearer ${process.env.POSTERN_API_KEY}`, 'Service-Version': '2', 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) } }, (response) => {
    let got = '';
    response.on('data', (part) => { got += part; });
    response.on('end', () => (response.statusCode === 201 ? resolve(JSON.parse(got)) : reject(new Error(got))));
  });
  request.on('error', reject);
  request.end(text);
});

const start = performance.now();
let next = 0, edge;
const jobs = [];
for (let e = 0; e * 1000 < count; e++) jobs.push(e);
for (const e of jobs) {
  const host = `h${Date.now().toString(36)}${e}.example.test`;
  await post('/reserved_domains', { domain: host });
  edge = await post('/edges/https', { hostports: [`${host}:443`] });
  const todo = Math.min(1000, count - e * 1000);
  let i = 0;
  const worker = async () => {
    while (i < todo) {
      const mine = i++;
      await post(`/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: `/service/${e}/route/${mine}/`, backend: { backend_id: backend } });
      next++;
    }
  };
  await Promise.all(Array.from({ length: 32 }, worker));
}
const s = (performance.now() - start) / 1000;
console.log(`made ${next} routes in ${s.toFixed(1)} s, ${(next / s).toFixed(0)}/s`);
