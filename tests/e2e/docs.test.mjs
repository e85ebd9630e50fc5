// GET /docs: the reference from the server's own description, with nothing from another host.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { api, elsewhere, env, healthUrls } from '../support/postern.mjs';

test('the viewer and its files', async () => {
  const open = { Authorization: undefined, 'Service-Version': undefined };
  const page = await api('GET', '/docs', undefined, open);
  assert.equal(page.status, 200);
  assert.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  assert.match(page.headers['content-security-policy'], /default-src 'none'.*connect-src 'self'/);
  const files = [...page.raw.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path).filter((path) => path !== 'data:,');
  assert.equal(files.length, 3);
  for (const path of files) {
    const file = await api('GET', path, undefined, open);
    assert.equal(file.status, 200, path);
    assert.ok(file.raw.length > 100 && /^text\/(css|javascript)/.test(file.headers['content-type']), path);
  }
  for (const path of ['/docs/', '/docs/nonsense', '/docs/../docs', '/docs/swagger-ui.css/x']) assert.notEqual((await api('GET', path, undefined, open)).status, 200, path);
});

let browser;
try { browser = execFileSync('sh', ['-c', 'command -v chromium']).toString().trim(); } catch { /* skipped, and says so */ }
test('a browser shows every kind', { skip: browser ? false : 'chromium is not installed', timeout: 280000 }, () => {
  const page = execFileSync(browser, ['--headless', '--no-sandbox', '--disable-gpu', '--virtual-time-budget=20000', '--dump-dom', `${env.POSTERN_API_URL}/docs`], { stdio: ['ignore', 'pipe', 'ignore'], timeout: 240000, maxBuffer: 1 << 27 }).toString();
  for (const kind of ['https_edge_route', 'event_subscription', 'secret', 'ssh_user_certificate', 'endpoint']) assert.ok(page.includes(`operations-tag-${kind}`), kind);
});

test('proto/README.md explains every error code as the server does', async () => {
  const rows = [...fs.readFileSync(new URL('../../proto/errors.def', import.meta.url), 'utf8').matchAll(/^OUTCOME\(\w+,\s*(\d+),\s*(\d+),\s*"\w+",\s*"(.*)"\)/gm)];
  const readme = fs.readFileSync(new URL('../../proto/README.md', import.meta.url), 'utf8');
  assert.ok(rows.length > 100);
  for (const [, code, status, text] of rows) {
    assert.ok(readme.includes(`| ${code} | ${status} | ${text} |`), `${code} in proto/README.md`);
    assert.equal((await api('GET', `/errors/ERR_POSTERN_${code}`)).body.msg, text);
  }
});

// By its whole name, `postern_<service>_rest`, or, in a list, by `_rest` with two words at least or `_rest_` for `_rest_total`.
test('every metric is explained in a README', { skip: elsewhere }, async () => {
  const root = new URL('../../', import.meta.url).pathname;
  const folders = ['', 'common', 'deploy', 'proto', 'services', ...fs.readdirSync(path.join(root, 'services')).map((name) => `services/${name}`)];
  const pages = folders.map((folder) => path.join(root, folder, 'README.md')).filter((page) => fs.existsSync(page)).map((page) => fs.readFileSync(page, 'utf8'));
  const words = new Set(pages.join('\n').match(/(?<=`)(postern_|_)[a-z<>_]+(?=[`{])/g));
  const isExplained = (name) => {
    const rests = [...name.matchAll(/_(?=[a-z]+_[a-z])/g)].map(({ index }) => name.slice(index));
    return [name, name.replace(/^postern_[a-z]+_/, 'postern_<service>_'), ...rests, ...rests.map((rest) => rest.replace(/_total$/, '_'))].some((word) => words.has(word));
  };
  for (const url of healthUrls()) {
    const names = new Set((await (await fetch(`http://${url}/metrics`)).text()).match(/^postern_[a-z_]+/gm));
    assert.ok(names.size > 5, url);
    assert.deepEqual([...names].filter((name) => !isExplained(name)), [], `metrics of ${url}`);
  }
});
