// The TypeScript client by reflection, and the clients of other languages behind a process that does the same: services, their
// methods with the fields that these know (null: any), and call(service, method, args) with {result}, {error} or {broken}.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Ngrok } from '../support/postern.mjs';

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
const keys = (value, change) => Array.isArray(value) ? value.map((one) => keys(one, change))
  : value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([name, one]) => [change(name), keys(one, change)])) : value;

// A process that prints its services, and then a line for every line.
export async function spawned(program, args, env) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
  const said = [], waiting = [];
  let end;
  child.stderr.setEncoding('utf8').on('data', (text) => said.push(text));
  const next = () => new Promise((resolve, reject) => { if (end) reject(end); else waiting.push({ resolve, reject }); });
  child.on('error', (error) => said.push(String(error)));
  child.on('close', (code) => {
    end = new Error(`the client's process ended with ${code}: ${said.join('').slice(-2000)}`);
    for (const { reject } of waiting) reject(end);
  });
  child.stdin.on('error', () => { /* its end is told by close */ });
  createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()?.resolve(JSON.parse(line)));
  return {
    services: await next(),
    call: (service, method, given) => { child.stdin.write(`${JSON.stringify({ service, method, args: given })}\n`); return next(); },
    stop: () => child.stdin.end(),
  };
}

// The TypeScript client's names are those of its classes; the others' are those of the interface.
const names = { static: 'static_address' };
function canonical(space, name) {
  const one = snake(name).replace('o_auth', 'oauth');
  if (space === 'backends') return `backends.${names[one.replace('_backends', '')] ?? one.replace('_backends', '')}`;
  if (space === 'edges') return `edges.${one.replace(/^edges_/, '')}`;
  if (space === 'edgeModules') return `edge_modules.${one.replace(/_module$/, '').replace(/^edge_route_/, 'https_edge_route_')}`;
  return one;
}

export function typescript(baseUrl, apiToken) {
  const client = new Ngrok({ baseUrl, apiToken });
  const found = new Map();
  const isService = (one) => one && typeof one === 'object' && typeof one.get === 'function' && Object.getPrototypeOf(one) !== Object.prototype && one !== client.httpClient;
  for (const [name, one] of Object.entries(client)) {
    if (isService(one)) found.set(canonical('', name), one);
    else if (one && Object.getPrototypeOf(one) === Object.prototype) for (const [part, inner] of Object.entries(one)) found.set(canonical(name, part), inner);
  }
  const methods = (service) => Object.getOwnPropertyNames(Object.getPrototypeOf(service)).filter((name) => name !== 'constructor' && !name.startsWith('_'));
  const parameters = (service, method) => /\(([^)]*)\)/.exec(service[method].toString())[1].split(',').map((one) => one.trim()).filter(Boolean);
  const services = Object.fromEntries([...found].map(([name, one]) => [name, Object.fromEntries(methods(one).map((method) => [snake(method), null]))]));
  return {
    services,
    // keys of maps are changed on their way, in both directions, and a list is asked for by its page alone
    maps: false, filters: false,
    call: async (service, method, args) => {
      const one = found.get(service), name = camel(method);
      // a module goes without its frame
      const { module, ...rest } = args;
      const given = keys({ ...rest, ...module }, camel);
      try {
        const result = await one[name](...parameters(one, name).map((parameter) => (parameter === 'arg' ? given : given[parameter])));
        return { result: keys(result, snake) };
      } catch (error) {
        // its deletions read the body that a 204 does not have, and then read what that failed with; what is refused is read well
        if (name.startsWith('delete') && error instanceof SyntaxError && error.stack.includes('onRejected')) return { result: null };
        if (typeof error.statusCode !== 'number') return { broken: String(error.stack ?? JSON.stringify(error)) };
        return { error: { status: error.statusCode, code: error.errorCode, message: error.msg, operation: error.details.get('operationId'), notFound: error.statusCode === 404 } };
      }
    },
    stop: () => {},
  };
}
