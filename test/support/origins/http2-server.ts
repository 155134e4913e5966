/** An origin that speaks HTTP/2 over TLS and handles each stream as a test says. */

import { once } from 'node:events';
import {
  createSecureServer,
  type Http2SecureServer,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { testCertificate } from '../values/tls-certificate.ts';

/** A request on one stream. */
export interface StreamRequest {
  readonly headers: IncomingHttpHeaders;
  /** Alternating names and values, as received. */
  readonly rawHeaders: readonly string[];
  /** Number of the connection, from 1. */
  readonly connection: number;
}

/** Handles a stream. */
export type StreamPlay = (stream: ServerHttp2Stream, request: StreamRequest) => unknown;

export interface Http2Server extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly server: Http2SecureServer;
  readonly sessions: readonly ServerHttp2Session[];
  readonly requests: readonly StreamRequest[];
  close(): Promise<void>;
}

/** Opens the origin. Requests get the plays in order; the last play answers all later ones. `close` throws the first error of a play. */
export async function openHttp2Server(
  options: SecureServerOptions,
  ...plays: readonly StreamPlay[]
): Promise<Http2Server> {
  const sessions: ServerHttp2Session[] = [];
  const requests: StreamRequest[] = [];
  const faults: unknown[] = [];
  const server = createSecureServer({ ...testCertificate, ...options });
  server.on('session', (session) => {
    sessions.push(session);
    session.on('error', () => undefined);
  });
  server.on('stream', (stream: ServerHttp2Stream, headers, _flags, rawHeaders: unknown) => {
    stream.on('error', () => undefined);
    const connection = sessions.indexOf(stream.session as ServerHttp2Session) + 1;
    const request = { headers, rawHeaders: rawHeaders as string[], connection };
    const play = plays[Math.min(requests.length, plays.length - 1)];
    requests.push(request);
    (async () => await play?.(stream, request))().catch((fault: unknown) => faults.push(fault));
  });
  server.on('sessionError', () => undefined).on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    for (const session of sessions) session.destroy();
    if (server.listening) {
      server.close();
      await once(server, 'close');
    }
    if (faults.length > 0) throw faults[0];
  };
  return {
    url: `https://127.0.0.1:${port}`,
    port,
    server,
    sessions,
    requests,
    close,
    [Symbol.asyncDispose]: close,
  };
}
