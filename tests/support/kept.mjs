// Clients that keep one connection, over HTTP/1.1 and HTTP/2, and say when it was not one: {ask({method, path, headers, body}), lost, close()}.
// ask resolves with {status, headers, body}, whatever the coding of the body was; lost lists what went wrong with the connection.
import http2 from 'node:http2';
import https from 'node:https';
import tls from 'node:tls';
import zlib from 'node:zlib';
import { ca, edge } from './postern.mjs';

export const REQUESTS = 900; // of one connection: nginx ends it after 1,000

const text = (headers, parts) => {
  const body = Buffer.concat(parts);
  return (headers['content-encoding'] === 'gzip' ? zlib.gunzipSync(body) : body).toString();
};

function http1(host) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 }), lost = [];
  let opened = 0;
  return {
    lost,
    ask: ({ method = 'GET', path = '/', headers = {}, body }) => new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) };
      const request = https.request({ host: edge.host, port: edge.port, servername: host, ca, agent, method, path, headers: { Host: host, ...length, ...headers } }, (response) => {
        const parts = [];
        if (response.headers.connection === 'close') lost.push(`closed behind ${response.statusCode}`);
        response.on('data', (part) => parts.push(part)).on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: text(response.headers, parts) }));
      });
      request.on('socket', () => { if (!request.reusedSocket && opened++) lost.push('connection made anew'); });
      request.on('error', (error) => { lost.push(error.code ?? error.message); reject(error); });
      request.end(body);
    }),
    close: () => agent.destroy(),
  };
}

function h2(host) {
  const lost = [];
  let over = false;
  const session = http2.connect(`https://${host}`, { createConnection: () => tls.connect({ host: edge.host, port: edge.port, servername: host, ca, ALPNProtocols: ['h2'] }) });
  for (const what of ['goaway', 'error', 'close']) session.on(what, (why) => { if (!over) lost.push(`${what} ${why?.code ?? why ?? ''}`); });
  return {
    lost,
    ask: ({ method = 'GET', path = '/', headers = {}, body }) => new Promise((resolve, reject) => {
      const stream = session.request({ ':method': method, ':path': path, ':authority': host, ...headers }, { endStream: body === undefined });
      const parts = [];
      let head;
      stream.on('response', (got) => { head = got; }).on('data', (part) => parts.push(part));
      stream.on('error', (error) => { lost.push(error.message); reject(error); });
      stream.on('end', () => (head ? resolve({ status: head[':status'], headers: head, body: text(head, parts) }) : reject(new Error('no answer'))));
      if (body !== undefined) stream.end(body);
    }),
    close: () => { over = true; session.destroy(); },
  };
}

export const kept = { 'HTTP/1.1': http1, 'HTTP/2': h2 };
