// What generated bodies refer to: one or two of each kind that others name.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { must as own, unique } from '../support/postern.mjs';

// must: of the account that they are for.
export async function world(must = own) {
  const dir = fs.mkdtempSync('/tmp/postern-contract-');
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30', '-subj', '/CN=contract', '-keyout', `${dir}/key`, '-out', `${dir}/cert`], { stdio: 'ignore' });
  const pem = fs.readFileSync(`${dir}/cert`, 'utf8');
  const made = {
    static_backend: [await must('POST', '/backends/static', { address: 'contract.test:80' })],
    ip_policy: [await must('POST', '/ip_policies', {}), await must('POST', '/ip_policies', {})],
    certificate_authority: [await must('POST', '/certificate_authorities', { ca_pem: pem })],
    vault: [await must('POST', '/vaults', { name: unique('contract') })],
    event_destination: [await must('POST', '/event_destinations', { format: 'json', target: { datadog: { api_key: 'a', ddsite: 'datadoghq.com' } } })],
    https_edge: [await must('POST', '/edges/https', {})],
    ssh_certificate_authority: [await must('POST', '/ssh_certificate_authorities', {})],
  };
  return { made, pem, key: fs.readFileSync(`${dir}/key`, 'utf8'), ids: (kinds) => kinds.split('|').flatMap((kind) => made[kind] ?? []).map((one) => one.id) };
}
