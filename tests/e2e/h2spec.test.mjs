// HTTP/2 as h2spec sees it: the edge fails no case that stock nginx does not fail in the same run. h2spec is a program of Go's:
// where there is none the story is skipped and says why.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { execFileSync, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { go, module, reason } from '../clients/go.mjs';
import { edge, elsewhere, endpoint, through, until, upstream } from '../support/postern.mjs';

const source = path.join(path.dirname(fileURLToPath(import.meta.url)), '../support/h2spec.go');
const NEEDS = ['github.com/summerwind/h2spec@v2.2.1+incompatible', 'golang.org/x/net@v0.17.0', 'golang.org/x/sys@v0.13.0', 'golang.org/x/text@v0.13.0', 'github.com/fatih/color@v1.10.0'];
const TRIES = 3; // a case that takes too long on a busy machine is tried again, with more time
const signed = process.env.STORY_UPSTREAM_TLS;

// h2spec as Go has it: {program}, or {why} there is none.
function install() {
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' });
  } catch {
    return { why: 'there is no go here' };
  }
  const { dir, why } = module('h2spec', ...NEEDS);
  if (why) return { why: `h2spec cannot be had: ${why}` };
  try {
    fs.copyFileSync(source, path.join(dir, 'main.go'));
    go(dir, 'build', '-o', 'h2spec', '.');
    return { program: path.join(dir, 'h2spec') };
  } catch (error) {
    return { why: `h2spec cannot be built: ${reason(error)}` };
  }
}

// Stock nginx in front of an upstream: what it says over HTTP/2 is the measure.
async function nginx(address) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-h2spec-'));
  const port = edge.port - 43 + 171; // of the stack's own, which no other file takes: one that is free may be taken before nginx has it
  const version = /nginx\/([\d.]+)/.exec(execFileSync('/bin/sh', ['-c', '/usr/sbin/nginx -v 2>&1']).toString())[1].split('.').map(Number);
  const own = version[0] > 1 || version[1] > 25 || (version[1] === 25 && version[2] >= 1);
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${dir}/${name};`).join(' ');
  fs.writeFileSync(`${dir}/nginx.conf`, `daemon off; worker_processes 1; pid ${dir}/pid; error_log ${dir}/log;
events { worker_connections 1024; }
http {
  access_log off; ${folders}
  server {
    listen 127.0.0.1:${port} ssl${own ? '' : ' http2'}; ${own ? 'http2 on;' : ''}
    ssl_certificate ${signed}.pem; ssl_certificate_key ${signed}.key;
    location / { proxy_pass http://${address}; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_request_buffering off; }
  }
}`);
  const child = spawn('/usr/sbin/nginx', ['-c', `${dir}/nginx.conf`, '-e', `${dir}/log`], { stdio: 'ignore' });
  await until(() => new Promise((resolve) => { const socket = net.connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); }).on('error', () => resolve(false)); }), 'nginx listens');
  return { port, stop: () => { child.kill('SIGTERM'); fs.rmSync(dir, { recursive: true, force: true }); } };
}

// The cases of sections (all: none is named) that fail, and how many there are: {failed: {case: section}, count}. seconds: that each may take.
async function judge(program, host, port, sections = [], seconds = 2) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-h2spec-')), report = `${dir}/report.xml`;
  const child = spawn(program, [host, String(port), report, ...sections], { stdio: 'ignore', env: { ...process.env, H2SPEC_SECONDS: String(seconds) } });
  await new Promise((resolve) => child.on('close', resolve));
  const xml = fs.readFileSync(report, 'utf8'), failed = {};
  let count = 0;
  fs.rmSync(dir, { recursive: true });
  for (const [, attributes, inside = ''] of xml.matchAll(/<testcase ([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)) {
    const [, section] = /package="([^"]*)"/.exec(attributes), [, name] = /classname="([^"]*)"/.exec(attributes);
    count++;
    if (/<(failure|error)/.test(inside)) failed[`${section}: ${name}`] = section;
  }
  return { failed, count };
}

test('h2spec finds nothing at the edge that it does not find at stock nginx', { skip: elsewhere || (!signed && 'no certificate for localhost'), timeout: 600000 }, async (t) => {
  const { program, why } = install();
  if (why) { t.skip(why); return; }
  const up = await upstream((request, response) => response.end('x'.repeat(1000)));
  const { host } = await endpoint(up.address);
  assert.equal((await through(host)).status, 200);
  const stock = await nginx(up.address);
  const [at, measure] = await Promise.all([judge(program, host, edge.port), judge(program, host, stock.port)]);
  assert.ok(at.count > 100, `${at.count} cases`);
  assert.equal(at.count, measure.count);
  let only = Object.keys(at.failed).filter((name) => !measure.failed[name]);
  for (let i = 1; i < TRIES && only.length; i++) {
    const again = await judge(program, host, edge.port, [...new Set(only.map((name) => at.failed[name]))], 4); // less than the 5 s after which nginx ends by itself what it has closed
    assert.ok(again.count >= only.length, `${again.count} cases`);
    only = only.filter((name) => again.failed[name]);
  }
  t.diagnostic(`${at.count} cases; the edge fails ${Object.keys(at.failed).length}, nginx ${Object.keys(measure.failed).length}`);
  assert.deepEqual(only, []);
  stock.stop();
  await up.close();
});
