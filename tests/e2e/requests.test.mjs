// What the edge makes of a request's host, and of requests in forms that few clients use.
import assert from 'node:assert/strict';
import test from 'node:test';
import { endpoint, raw, through, upstream } from '../support/postern.mjs';

const up = await upstream();
const to = await endpoint(up.address);
const { host } = to;
const status = (text) => Number((/^HTTP\/1\.[01] (\d+)/.exec(text) ?? [])[1] ?? 0);
test.after(() => up.close());

// RFC 9112 3.2.2: the target names the host; only HTTP/1.1 needs a Host beside it.
for (const version of ['HTTP/1.0', 'HTTP/1.00'])
  for (const scheme of ['https', 'http'])
    test(`absolute form without Host: ${scheme} ${version}`, async () => {
      up.seen.length = 0;
      const text = await raw(host, `GET ${scheme}://${host}/abs ${version}\r\n\r\n`);
      assert.equal(status(text), 200, text);
      assert.equal(up.seen.length, 1);
      assert.equal(up.seen[0].url, '/abs');
      assert.equal(up.seen[0].headers.host, host);
      assert.equal(up.seen[0].headers['x-forwarded-host'], host);
      assert.equal((await through(host)).status, 200, 'and the worker serves on');
    });

for (const target of [`https://HOST/`, 'http://HOST/', '/', 'https://nobody.example.test/'])
  test(`HTTP/0.9 has no headers and is refused: ${target}`, async () => {
    up.seen.length = 0;
    const text = await raw(host, `GET ${target.replace('HOST', host)}\r\n`);
    assert.equal(status(text), 505, text);
    assert.match(text, /ERR_POSTERN_915/);
    assert.equal(up.seen.length, 0);
    assert.equal((await through(host)).status, 200, 'and the worker serves on');
  });
