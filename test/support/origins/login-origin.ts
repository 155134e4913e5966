/**
 * An origin that authenticates connections, as IIS does with NTLM: after three messages in `Authorization`, everything that comes over
 * the connection is done as the user, whatever it says. Each response names the user of its connection.
 */

import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** What an origin was asked. */
export interface LoggedRequest {
  readonly method: string;
  readonly target: string;
  /** The user of the connection; an empty string for nobody. */
  readonly user: string;
  /** Number of the connection, from 1. */
  readonly connection: number;
}

/** A running origin. */
export interface LoginOrigin extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly LoggedRequest[];
  /** The number of open connections that are authenticated. */
  readonly openLogins: number;
}

/**
 * Starts an origin on a free port. `/public` needs no login, and may be stored; `/mark` says only with `Persistent-Auth` that it has
 * logged the client in, with its cookie. Everything else asks for the scheme.
 */
export async function openLoginOrigin(scheme: 'NTLM' | 'Negotiate' = 'NTLM'): Promise<LoginOrigin> {
  const requests: LoggedRequest[] = [];
  const connections = new Map<Socket, { readonly number: number; user: string; step: number }>();
  let count = 0;
  const answer: RequestListener = (request, response) => {
    const connection = connections.get(request.socket);
    if (connection === undefined) throw new Error('a request without a connection');
    const { method = '', url: target = '', headers } = request;
    const [sent, text = ''] = (headers.authorization ?? '').split(' ');
    if (sent === scheme && text === 'type1') connection.step = 1;
    else if (sent === scheme && connection.step === 1 && text.startsWith('type3-')) connection.user = text.slice(6);
    const isMarked = target === '/mark' && headers.cookie !== undefined;
    if (isMarked) connection.user = headers.cookie ?? '';
    requests.push({ method, target, user: connection.user, connection: connection.number });
    request.resume().on('end', () => {
      // Whatever it says about storing: only the right connection may have it.
      const fields: Record<string, string> = { 'cache-control': 'public, max-age=60, s-maxage=60', etag: '"1"' };
      if (connection.user === '' && !target.startsWith('/public') && target !== '/mark') {
        const challenge = connection.step === 1 ? `${scheme} type2` : scheme;
        response.writeHead(401, { 'www-authenticate': [challenge, 'Basic realm="a, b"'], 'content-length': 0 }).end();
        return;
      }
      const body = `${method} ${target} as ${connection.user}`;
      if (isMarked) fields['persistent-auth'] = 'true';
      response.writeHead(200, { ...fields, 'content-length': body.length }).end(body);
    });
  };
  const server = createServer(answer);
  server.on('upgrade', (request, socket) => {
    const connection = connections.get(request.socket as Socket);
    if (connection === undefined) throw new Error('an upgrade without a connection');
    const [, text = ''] = (request.headers.authorization ?? '').split(' ');
    const hadStep = connection.step;
    if (text === 'type1') connection.step = 1;
    if (hadStep === 1 && text.startsWith('type3-')) connection.user = text.slice(6);
    requests.push({
      method: 'UPGRADE',
      target: request.url ?? '',
      user: connection.user,
      connection: connection.number,
    });
    if (connection.user === '') {
      const challenge = connection.step === 1 ? `${scheme} type2` : scheme;
      socket.write(`HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: ${challenge}\r\nContent-Length: 0\r\n\r\n`);
      // The connection goes on with requests.
      server.emit('connection', socket);
      return;
    }
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    socket.write(`tunnel of ${connection.user}`);
    socket.on('end', () => socket.end()).resume();
  });
  server.on('connection', (socket: Socket) => {
    if (connections.has(socket)) return;
    count += 1;
    connections.set(socket, { number: count, user: '', step: 0 });
    socket.on('error', () => {});
    socket.once('close', () => connections.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get openLogins() {
      return [...connections.values()].filter(({ user }) => user !== '').length;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      for (const socket of connections.keys()) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
