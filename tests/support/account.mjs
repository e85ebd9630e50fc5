// Another account on the same system, with an API key of its own; made as an operator makes it.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { api, env, home } from './postern.mjs';

const [program, ...before] = process.env.STORY_CLI?.split(' ') ?? [path.join(home, 'bin/postern')];
const postern = (...args) => JSON.parse(execFileSync(program, [...before, ...args], { encoding: 'utf8', env: { ...env, ...process.env, POSTERN_HOME: home } }));

export function account(name = 'Another account') {
  const { id, owner_id: owner } = postern('account', 'create', name, `${process.pid}-${Math.random().toString(36).slice(2)}@example.test`);
  const { token } = postern('api-key', 'create', id, owner, 'of a story');
  const call = (method, target, body, headers) => api(method, target, body, { Authorization: `Bearer ${token}`, ...headers });
  return {
    id, owner, token, api: call,
    must: async (method, target, body) => {
      const answer = await call(method, target, body), want = method === 'POST' ? 201 : method === 'DELETE' ? 204 : 200;
      if (answer.status !== want) throw new Error(`${method} ${target}: ${answer.status} ${answer.raw}`);
      return answer.body;
    },
  };
}
