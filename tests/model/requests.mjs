// The requests of the model: random ones, and what each is. How it is answered is the reference's to say.
import crypto from 'node:crypto';

// What a client accepts, and the coding that it gets: said here one by one, so that there is no second parser to be wrong.
const ACCEPTS = [
  [undefined, undefined], ['identity', undefined], ['snappy', undefined], ['identity, gzip;q=0.5', undefined],
  ['gzip', 'gzip'], ['gzip, deflate, br, zstd', 'zstd'], ['br;q=0.5, gzip', 'gzip'], ['deflate, gzip;q=0.9, identity;q=0.5', 'deflate'],
  ['*', 'gzip'], ['gzip;q=0, *;q=0.5', 'deflate'], ['x-gzip;q=0.2, deflate;q=0.1', 'gzip'], ['br, br;q=0, deflate;q=0.2', 'deflate'],
  ['gzip;q=2, br;q=0.3', 'br'], ['br;q=0.5, zstd;q=0.5', 'zstd'],
];

const AGENTS = ['Model/1', 'Model/1', 'Model/1', 'bot/2', '', undefined];
const SOCKETS = ['13', '13', '13', '8'];

// Providers of webhooks: [the headers of a signature of the body at a time; what they name: the time, the body].
const mac = (secret, text) => crypto.createHmac('sha256', secret).update(text).digest('hex');
const PROVIDERS = {
  github: { body: true, sign: (secret, body) => ({ 'x-hub-signature-256': `sha256=${mac(secret, body)}` }) },
  gitlab: { sign: (secret) => ({ 'x-gitlab-token': secret }) },
  slack: { body: true, time: true, sign: (secret, body, at) => ({ 'x-slack-request-timestamp': `${at}`, 'x-slack-signature': `v0=${mac(secret, `v0:${at}:${body}`)}` }) },
  stripe: { body: true, time: true, sign: (secret, body, at) => ({ 'stripe-signature': `t=${at},v1=${mac(secret, `${at}.${body}`)}` }) },
};
export const HOOKS = Object.keys(PROVIDERS).flatMap((provider) => ['one', 'two'].map((secret) => ({ provider, secret })));
export const SIGNATURES = ['x-hub-signature-256', 'x-slack-signature'];

// Is a request signed as the module wants it?
export function isOf({ provider, secret }, { signed }) {
  const { body, time } = PROVIDERS[provider];
  return signed?.provider === provider && signed.secret === secret && !(body && signed.changed) && !(time && signed.old);
}

// Signs what is sent, and says how: mostly as the route's module wants it.
function sign(random, sent, module) {
  const hook = module && random.chance(0.85) ? module : random.of(HOOKS);
  const signed = { provider: hook.provider, secret: hook.secret, old: random.chance(0.1), changed: random.chance(0.1) };
  const at = Math.floor(Date.now() / 1000) - (signed.old ? 3600 : 0);
  const signature = PROVIDERS[hook.provider].sign(hook.secret, sent.body, at);
  return { ...sent, signed, signature, body: signed.changed ? `${sent.body} ` : sent.body };
}

// One request for the path: {host, path, method, agent, accepts: [header, coding], kept: it says no-transform, body, signed, signature,
// socket: the version of the WebSocket protocol that it asks for}. reference: so that most are what their route is for.
export function draw(random, reference, host, path) {
  const agent = random.of(AGENTS), accepts = random.of(ACCEPTS), sent = { host, path, method: 'GET', agent, accepts, kept: random.chance(0.05) };
  const hook = reference.on('webhook_verification', host, path), converter = reference.on('websocket_tcp_converter', host, path);
  if (random.chance(converter ? 0.8 : 0.05)) return { ...sent, socket: random.of(SOCKETS) };
  if (!random.chance(hook ? 0.9 : 0.15)) return sent;
  const post = { ...sent, method: 'POST', body: `{"n":${random.below(1e6)}}` };
  return random.chance(hook ? 0.9 : 0.5) ? sign(random, post, hook) : post;
}

export function headersOf({ host, agent, accepts: [accepts], kept, body, signature, socket }) {
  const all = {
    Host: host, 'User-Agent': agent, 'X-Client': 'here', 'Accept-Encoding': accepts, 'Cache-Control': kept ? 'no-transform' : undefined, ...signature,
    'Content-Length': body === undefined ? undefined : Buffer.byteLength(body),
    ...(socket && { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': socket, 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' }),
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

// For a report: what can be seen of it.
export const said = (sent) => `${sent.method} https://${sent.host}${sent.path} ${JSON.stringify({ ...sent, host: undefined, path: undefined, method: undefined })}`;
