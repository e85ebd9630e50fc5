// Signed SAML responses, changed: postern-saml accepts none that lasso refuses, and what it says of those that it accepts is what was
// signed. SAML_MUTANTS of them; SAML_SEED repeats the changes that a run printed.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { Random } from '../model/random.mjs';
import { env } from '../support/postern.mjs';
import * as S from '../support/saml.mjs';
import { mutate } from './mutate.mjs';

const MUTANTS = Number(process.env.SAML_MUTANTS || 1500), SEED = Number(process.env.SAML_SEED || Math.floor(Math.random() * 2 ** 32));
const AT_ONCE = 8, ROUND = 500; // of one base: it is accepted for five minutes
const MESSAGE = 241, READER = 242;
const PYTHON = '/usr/bin/python3'; // Debian's, which has Debian's packages
const lasso = (() => { try { execFileSync(PYTHON, ['-c', 'import lasso'], { stdio: 'ignore' }); return true; } catch { return false; } })();
const here = env.POSTERN_RUN_DIR && fs.existsSync(`${env.POSTERN_RUN_DIR}/saml.rpc`);
const skip = !here ? 'the story needs a system that deploy/stack started on this machine' : !lasso && 'python3-lasso is not installed';

// {judge(xml), stop()}: what lasso says of a message, as lasso_verdict.py prints it; null: it ended over it.
function judge(idp) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'postern-lasso-')), sp = S.signer(), waiting = [];
  fs.writeFileSync(`${dir}/sp.xml`, `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${S.AUDIENCE}"><md:SPSSODescriptor protocolSupportEnumeration="${S.NS.protocol}">`
    + `<md:AssertionConsumerService index="0" isDefault="true" Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="${S.ACS}"/></md:SPSSODescriptor></md:EntityDescriptor>`);
  fs.writeFileSync(`${dir}/sp.key`, sp.key);
  fs.writeFileSync(`${dir}/idp.xml`, idp.metadata);
  let child;
  const start = () => {
    child = spawn(PYTHON, [fileURLToPath(new URL('lasso_verdict.py', import.meta.url)), `${dir}/sp.xml`, `${dir}/sp.key`, `${dir}/idp.xml`], { stdio: ['pipe', 'pipe', 'ignore'] });
    child.stdin.on('error', () => {});
    readline.createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()(line));
    child.on('exit', () => { for (const one of waiting.splice(0)) one(null); if (child) start(); });
  };
  start();
  return {
    judge: (xml) => new Promise((resolve) => { waiting.push(resolve); child.stdin.write(`${S.encode(xml)}\n`); }),
    stop: () => { const last = child; child = null; last.kill(); fs.rmSync(dir, { recursive: true }); },
  };
}

test(`${MUTANTS} changed responses, seed ${SEED}`, { skip, timeout: 24 * 3600 * 1000 }, async () => {
  const random = new Random(SEED), idp = S.provider([S.signer(), S.signer()]), bench = S.bench(), other = judge(idp);
  const count = { accepted: 0, refused: 0, same: 0, 'without an Issuer': 0, 'lasso ended': 0 };
  const asked = (xml) => bench.verify(idp, xml).catch(() => bench.verify(idp, xml)); // on a busy machine a message's time can be over
  const one = async (base, which) => {
    const { xml, done } = mutate(random, base);
    if (xml === base) { count.same++; return; }
    const said = await asked(xml), repeat = () => `seed ${SEED}, ${which}, ${done.join(' and ')}: ${S.encode(xml)}`;
    if (said.code) {
      assert.ok([MESSAGE, READER].includes(said.code), `${said.code} ${said.msg}: ${repeat()}`);
      count.refused++;
      return;
    }
    count.accepted++;
    assert.deepEqual([said.body.name_id, said.body.issuer, said.body.session_index, said.body.attributes], ['user@example.test', idp.entity, '_session1', { groups: ['staff', 'admins'], email: ['user@example.test'] }], repeat());
    const verdict = await other.judge(xml);
    if (verdict === null) count['lasso ended']++;
    // An unsigned response need not say whose it is (SAML Profiles 4.1.4.2); lasso finds the provider by nothing else.
    else if (verdict.includes('ServerProviderNotFound') && which === 'assertion' && !/^\s*<[\w:]*Response\b[^>]*>\s*<[\w:]*Issuer\b/.test(xml)) count['without an Issuer']++;
    else assert.match(verdict, /^accepted /, `lasso: ${verdict}: ${repeat()}`);
  };
  try {
    for (let left = MUTANTS; left > 0; left -= ROUND) {
      for (const which of ['assertion', 'response', 'both']) {
        const base = S.response(idp, {}, { which, by: idp.signers[random.below(2)] });
        assert.equal((await asked(base)).code, 0);
        assert.match(await other.judge(base), /^accepted /, `lasso refuses a response with a signed ${which}`);
        for (let some = Math.ceil(Math.min(left, ROUND) / 3); some > 0; some -= AT_ONCE) await Promise.all(Array.from({ length: Math.min(some, AT_ONCE) }, () => one(base, which)));
      }
    }
  } finally {
    other.stop();
    bench.stop();
  }
  console.log(`seed ${SEED}: ${Object.entries(count).map(([what, number]) => `${number} ${what}`).join(', ')}`);
  assert.ok(count.accepted > 0 && count.refused > 0, 'both kinds were there');
});
