// A server of gRPC for stories, clients of it through the edge, and upstreams that send frames as a story says.
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { ca, edge, tcpUpstream, storyHost } from './postern.mjs';
import { DATA, HEADERS, SETTINGS, frame } from './h2raw.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(path.join(here, '../e2e/package.json'));
export const grpc = require('@grpc/grpc-js');
const { Story } = grpc.loadPackageDefinition(require('@grpc/proto-loader').loadSync(path.join(here, 'story.proto'))).story;

const unlimited = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };

// {address, calls: what it was asked, server, close}; methods take the place of those that echo. tls: {key, cert}.
export async function serving(methods = {}, tls) {
  const calls = [], server = new grpc.Server(unlimited);
  const noted = (handler) => (call, done) => {
    const one = { call, host: call.getHost(), metadata: call.metadata.getMap(), cancelled: false };
    calls.push(one);
    call.on('cancelled', () => { one.cancelled = true; });
    handler(call, done);
  };
  const all = {
    unary: (call, done) => done(null, call.request),
    upload: (call, done) => {
      let number = 0;
      call.on('data', (message) => { number += message.data.length; }).on('end', () => done(null, { number }));
    },
    feed: (call) => {
      for (let i = 0; i < call.request.number; i++) call.write({ number: i, data: call.request.data });
      call.end();
    },
    talk: (call) => call.on('data', (message) => call.write(message)).on('end', () => call.end()),
    ...methods,
  };
  server.addService(Story.service, Object.fromEntries(Object.entries(all).map(([name, handler]) => [name, noted(handler)])));
  const credentials = tls ? grpc.ServerCredentials.createSsl(null, [{ private_key: tls.key, cert_chain: tls.cert }]) : grpc.ServerCredentials.createInsecure();
  const port = await new Promise((resolve, reject) => server.bindAsync(`${storyHost}:0`, credentials, (error, bound) => (error ? reject(error) : resolve(bound))));
  return { server, calls, port, address: `${storyHost}:${port}`, close: () => server.forceShutdown() };
}

// A client whose calls go through the edge to a host.
export const calling = (host, options = {}, at = { port: edge.port, ca }) => new Story(`${edge.host}:${at.port}`, grpc.credentials.createSsl(at.ca), {
  'grpc.ssl_target_name_override': host, 'grpc.default_authority': host, 'grpc.use_local_subchannel_pool': 1, 'grpc.enable_retries': 0, ...unlimited, ...options });

// A unary call: {message, error, head, trailers}.
export function ask(client, message, { metadata = new grpc.Metadata(), method = 'unary', ...options } = {}) {
  return new Promise((resolve) => {
    const got = {};
    const call = client[method](message, metadata, options, (error, answer) => { got.error = error; got.message = answer; });
    call.on('metadata', (head) => { got.head = head; });
    call.on('status', (status) => { got.status = status; setImmediate(() => resolve(got)); });
  });
}

// A stream: {call, messages, status once it has ended}.
export function follow(call) {
  const got = { call, messages: [] };
  call.on('data', (message) => got.messages.push(message));
  call.on('metadata', (head) => { got.head = head; });
  call.on('status', (status) => { got.status = status; });
  call.on('error', () => {});
  return got;
}

// An upstream that answers with frames of the story's own: onRequest(stream, send, socket) when a request's head has come;
// seen: {requests, connections, bytes of DATA that came}. Its SETTINGS are sent first.
export async function framing(onRequest, { settings = true } = {}) {
  const seen = { requests: 0, connections: 0, data: 0 };
  const up = await tcpUpstream((socket) => {
    seen.connections++;
    let rest = Buffer.alloc(0), begun = false;
    const send = (...frames) => { if (!socket.destroyed) socket.write(Buffer.concat(frames)); };
    if (settings) send(frame(SETTINGS, 0, 0));
    socket.on('data', (part) => {
      rest = Buffer.concat([rest, part]);
      if (!begun && rest.length >= 24) { begun = true; rest = rest.subarray(24); }
      while (begun && rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
        const size = 9 + rest.readUIntBE(0, 3), type = rest[3], stream = rest.readUInt32BE(5);
        if (type === DATA) seen.data += size - 9;
        rest = rest.subarray(size);
        if (type === HEADERS) { seen.requests++; onRequest(stream, send, socket); }
      }
    });
  });
  return Object.assign(up, { seen });
}
