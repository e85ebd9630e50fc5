// The second account's tries, and what may be seen in an answer: the same bytes whether an object is the first account's, was
// deleted, or never was, once the operation and the ids that were asked for are left out; and nothing of the first account's.
import { marksIn, run } from './marks.mjs';

const VARY = new Set(['date', 'postern-operation-id', 'ngrok-operation-id', 'keep-alive']);

// The account, whose requests are sent again under their key where a part of a busy machine did not answer in time.
let sent = 0;
export function patient(account) {
  const call = async (method, target, body, headers = {}) => {
    const all = method === 'GET' || method === 'HEAD' ? headers : { 'Idempotency-Key': `${run}-${sent++}`, ...headers };
    for (let turn = 0; ; turn++) {
      const answer = await account.api(method, target, body, all);
      if (answer.status !== 503 || turn === 10) return answer;
    }
  };
  const must = async (method, target, body) => {
    const answer = await call(method, target, body), want = { POST: 201, DELETE: 204 }[method] ?? 200;
    if (answer.status !== want) throw new Error(`${method} ${target}: ${answer.status} ${answer.raw}`);
    return answer.body;
  };
  return { ...account, api: call, must };
}

const plainly = (text) => text.replace(/%[0-7][0-9a-f]/gi, (one) => String.fromCharCode(parseInt(one.slice(1), 16)));

// names: what was asked for, which is said again
export function said(answer, names) {
  let text = `${answer.status} ${JSON.stringify(Object.entries(answer.headers).filter(([name]) => !VARY.has(name)))} ${answer.raw.replace(/"operation_id":"[^"]*"/, '')}`;
  for (const one of [...names, ...names.flatMap(marksIn)]) text = text.replaceAll(JSON.stringify(one).slice(1, -1), '<>').replaceAll(encodeURIComponent(one), '<>').replaceAll(plainly(one), '<>');
  return text;
}

export class Prober {
  constructor(account, victim) {
    Object.assign(this, { account, differences: [], sorts: new Set(), requests: 0, sent: new Set(), foreign: new Set() });
    for (const answer of victim) for (const one of marksIn(answer)) this.foreign.add(one);
  }
  // One of a sort tells enough.
  fail(text) {
    const sort = text.replace(/[^a-z_. ].*/s, '');
    if (!this.sorts.has(sort)) this.differences.push(text);
    this.sorts.add(sort);
  }
  // One request; what it says of the first account's that nobody ever sent is a leak.
  async send(method, path, body, headers = {}) {
    const sent = `${plainly(path)} ${body === undefined ? '' : JSON.stringify(body)} ${JSON.stringify(headers)}`;
    for (const one of marksIn(sent)) this.sent.add(one);
    const answer = await this.account.api(method, path, body, headers);
    this.requests++;
    if (answer.status >= 500) this.fail(`${method} ${path}: ${answer.status} ${answer.raw}`);
    for (const one of marksIn(answer.raw)) if (this.foreign.has(one) && !this.sent.has(one)) this.fail(`${method} ${path} shows ${one} of the first account: ${answer.raw.slice(0, 400)}`);
    return answer;
  }
  // ask(value) for the first account's, one that never was, and a deleted one; the answers.
  async alike(what, values, ask, { refused = true } = {}) {
    const answers = [];
    for (const value of values) answers.push(await ask(value));
    const names = (value) => (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string');
    const texts = answers.map((answer, i) => (answer.status < 300 && !refused ? `${answer.status}` : said(answer, names(values[i]))));
    texts.forEach((text, i) => { if (text !== texts[0]) this.fail(`${what}: ${JSON.stringify(values[0])} is told from ${JSON.stringify(values[i])}:\n  ${texts[0].slice(0, 600)}\n  ${text.slice(0, 600)}`); });
    if (refused && answers[0].status < 400) this.fail(`${what} with ${JSON.stringify(values[0])} was accepted: ${answers[0].raw.slice(0, 300)}`);
    return answers;
  }
}

// Jobs of one lane one after another, lanes side by side.
export async function inLanes(lanes, width) {
  const waiting = [...lanes];
  await Promise.all(Array.from({ length: width }, async () => { while (waiting.length) for (const job of waiting.shift()) await job(); }));
}
