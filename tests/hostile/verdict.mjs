// Whether what came of a connection is what the reference allows. Each returns texts that say what is wrong; none: all is well.
import { answer } from './answers.mjs';

// How many answers a client must get, of those requests that are sure to be read; plans say what each is answered.
export function required(requests, end) {
  if (end !== 'wait') return 0;
  let n = 0;
  for (const one of requests) {
    if (!one.complete || one.reached === 'maybe') break;
    n++;
    if (one.after !== 'on') break;
    if (one.route === 'garbled' || one.plan?.want.any || one.plan?.want.bad || one.plan?.early || one.websocket || (one.version === 0 && one.plan)) break;
  }
  return n;
}

// A kept connection of the upstream's may end while a request is on its way: the client gets 502, and where its body was not read yet, the end.
export function atMost({ requests, result: { answers, closed } }) {
  const at = answers.list.findIndex(({ status, mark }, i) => status === 502 && mark === undefined && requests[i]?.route === 'hostile');
  return closed && at >= 0 ? at + 1 : Infinity;
}

export function plan(seed, request) {
  return request.arrives !== 'no' && (request.route === 'plain' || request.route === 'hostile') ? answer(seed, request.method, `${request.host}${request.url}`, request.route === 'plain') : undefined;
}

function wrongAnswer(got, request) {
  const { want, id } = request.plan;
  if (got.mark !== undefined && got.mark !== id && !want.any) return `an answer of another: X-Mark ${got.mark} for ${id}`;
  if (request.websocket || want.any || got.cut) return undefined;
  // the connection that was kept may have ended while the request was on its way; what is not idempotent is not sent again
  if (request.route === 'hostile' && got.status === 502 && got.mark === undefined) return undefined;
  if (want.bad) return want.loose || got.status === 502 ? undefined : `${got.status} for an answer that is none (${request.plan.kind})`;
  if (got.status !== want.status) return `${got.status} for ${want.status} (${request.plan.kind})`;
  return got.body === want.body ? undefined : `another body (${request.plan.kind}): ${JSON.stringify(got.body.slice(0, 80))} for ${JSON.stringify(want.body.slice(0, 80))}`;
}

// The answers of an HTTP/1 connection.
export function answered({ requests, need, end }, { answers, late, connected, error, ms }) {
  const wrong = [];
  if (!connected) return [`no connection: ${error}`];
  if (answers.problem) wrong.push(`an answer that is none: ${answers.problem}`);
  // an answer that breaks before any of it was sent is none at all
  const broke = !late && answers.list.length === need - 1 && requests[need - 1].plan?.want.any;
  if (end === 'wait' && answers.list.length < need && !broke) wrong.push(`${answers.list.length} of ${need} answers, ${late ? `no more within ${ms} ms` : `then the end${error ? ` (${error})` : ''}`}`);
  if (answers.list.length > requests.length) wrong.push(`${answers.list.length} answers to ${requests.length} requests`);
  answers.list.forEach((got, i) => {
    const one = requests[i];
    if (!one || answers.problem) return;
    if (one.arrives === 'yes' && one.plan) { const why = wrongAnswer(got, one); if (why) wrong.push(`answer ${i}: ${why}`); }
    if (one.arrives === 'yes' && one.route === 'fixed' && got.status !== 200) wrong.push(`answer ${i}: ${got.status} of a fixed answer`);
    if (one.arrives === 'yes' && one.route === 'garbled' && got.status !== 502) wrong.push(`answer ${i}: ${got.status} of an upstream without TLS`);
    if (one.arrives === 'no' && got.mark !== undefined) wrong.push(`answer ${i}: an upstream's, to what is refused (${one.why})`);
  });
  return wrong;
}

// Events of one connection: one for each request that was answered, in their order, and at most one for each that could be.
export function evented({ requests, tail }, { answers }, statuses) {
  const got = answers.list.map((one) => one.status);
  if (statuses.length > requests.length + (tail ? 1 : 0)) return [`${statuses.length} events of ${requests.length} requests: ${statuses}`];
  if (got.some((status, i) => status !== statuses[i])) return [`answers ${got} and events ${statuses}`];
  return [];
}

// The same of an HTTP/2 connection: its streams are independent of each other.
export function answeredStreams({ requests, end }, result) {
  const wrong = [];
  if (!result.connected) return [`no connection: ${result.error}`];
  if (result.problem) wrong.push(`an answer that is none: ${result.problem}`);
  if (end === 'wait' && result.late) wrong.push(`no end of all streams within ${result.ms} ms: ${Object.keys(result.statuses).length} of ${requests.length} began, ${result.ended.size} ended`);
  for (const one of requests) {
    const status = result.statuses[one.id], body = Buffer.concat(result.bodies[one.id] ?? []).toString('latin1');
    if (end !== 'wait' || result.late) continue;
    if (!one.plan) { if (status !== ({ fixed: 200, garbled: 502 }[one.route] ?? 404)) wrong.push(`stream ${one.id}: ${status} (${one.route})`); continue; }
    const { want } = one.plan;
    if (want.any) continue;
    if (status === undefined) { wrong.push(`stream ${one.id}: no answer, reset ${result.resets[one.id]}, goaway ${result.goaway} (${one.plan.kind})`); continue; }
    const why = wrongAnswer({ status, body, cut: false }, one);
    if (why) wrong.push(`stream ${one.id}: ${why}`);
  }
  return wrong;
}

export function eventedStreams({ requests, begun, end, loose }, result, statuses) {
  if (!loose && statuses.length > begun) return [`${statuses.length} events of ${begun} requests: ${statuses}`];
  if (end === 'wait' && !result.late && statuses.length !== requests.length) return [`${statuses.length} events of ${requests.length} requests: ${statuses}`];
  const left = [...statuses];
  for (const status of Object.values(result.statuses)) {
    const at = left.indexOf(status);
    if (at < 0) return [`answers ${Object.values(result.statuses)} and events ${statuses}`];
    left.splice(at, 1);
  }
  return [];
}

// The port without TLS sends to HTTPS, to the host that the reference reads, and asks no upstream.
export function redirected({ requests, need, end }, { answers, late, connected, error, ms }) {
  const wrong = [];
  if (!connected) return [`no connection: ${error}`];
  if (answers.problem) wrong.push(`an answer that is none: ${answers.problem}`);
  if (end === 'wait' && answers.list.length < need) wrong.push(`${answers.list.length} of ${need} answers, ${late ? `no more within ${ms} ms` : `then the end${error ? ` (${error})` : ''}`}`);
  if (answers.list.length > requests.length) wrong.push(`${answers.list.length} answers to ${requests.length} requests`);
  answers.list.forEach((got, i) => {
    const one = requests[i], to = got.fields.find(([name]) => name === 'location')?.[1];
    if (answers.problem || !one) return;
    if (to === undefined) { if (got.status < 400 || (one.arrives === 'yes' && one.route)) wrong.push(`answer ${i}: ${got.status} without Location`); return; }
    const m = /^https:\/\/([^/:]+)(?::\d+)?(\/.*)$/.exec(to);
    if (!m || m[1] !== one.host?.replace(/:\d+$/, '') || m[2] !== one.url) wrong.push(`answer ${i}: to ${to} for ${one.host} ${one.url}`);
  });
  return wrong;
}

const same = (a, b) => a.length === b.length && a.every(([name, value], i) => name === b[i].name && value === b[i].value);

const bodies = ({ body, said = [] }) => [body, ...said.filter((n) => n < body.length).map((n) => body.subarray(0, n))];

// What arrived at an upstream under the key of these requests.
export function arrived(requests, arrivals) {
  const wrong = arrivals.flatMap((one) => one.problems);
  const may = requests.filter((one) => one.arrives !== 'no');
  if (arrivals.length && !may.length) return [...wrong, `arrived, but is refused: ${requests.map((one) => one.why)}`];
  // a kept connection that ends without an answer: nginx asks once more, on a new one
  const twice = may.some((one) => one.plan?.close) ? arrivals.filter((one) => !one.first).length : 0;
  if (arrivals.length > may.length + twice) wrong.push(`arrived ${arrivals.length} times, sent ${may.length} times`);
  if (may.some((one) => one.loose)) return wrong; // bytes of it were changed at random
  for (const one of arrivals) {
    const fits = may.some((request) => request.anyBody) ? may : may.filter((request) => (one.whole ? !request.partial && bodies(request).some((body) => body.equals(one.body)) : request.body.subarray(0, one.body.length).equals(one.body)));
    if (!fits.length) { wrong.push(`a body that was not sent: ${one.whole ? 'whole' : 'cut'}, ${one.body.length} bytes ${JSON.stringify(one.body.toString('latin1', 0, 80))} for ${may.map((request) => `${request.body.length}${request.partial ? ' of more' : ''}`)}`); continue; }
    if (!fits.some((request) => same(one.passed, request.passed))) wrong.push(`other fields: ${JSON.stringify(one.passed.slice(0, 60))} for ${JSON.stringify(fits[0].passed.slice(0, 60).map(({ name, value }) => [name, value]))}`);
    if (one.websocket && !fits.some((request) => request.websocket)) wrong.push('an upgrade that nobody asked for');
  }
  return wrong;
}
