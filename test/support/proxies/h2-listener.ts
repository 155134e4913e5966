/** An HTTP/2 server for tests, in cleartext or over TLS, that records its events and requests. */

import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { Handler, ProxyRequest } from '../../../src/http/message.ts';
import { createHttp2Server } from '../../../src/listener/http2/server.ts';
import type { ListenerLimits } from '../../../src/listener/listener.ts';
import type { ConnectionServer, ProtocolOptions } from '../../../src/listener/protocol.ts';
import type { ServerEvent } from '../../../src/telemetry/events.ts';
import { H2RawClient } from '../clients/h2-raw-client.ts';
import { testCertificate } from '../values/tls-certificate.ts';
import { testLimits } from './open-listener.ts';

export interface TestH2Server extends AsyncDisposable {
  readonly server: ConnectionServer;
  readonly port: number;
  readonly events: ServerEvent[];
  /** The requests that the handler got. */
  readonly requests: ProxyRequest[];
  /** The open connections. */
  readonly sockets: ReadonlySet<Socket>;
  /** Opens a connection, and exchanges preface and SETTINGS. */
  connect(settings?: readonly (readonly [number, number])[]): Promise<H2RawClient>;
}

interface Overrides extends Partial<Omit<ProtocolOptions, 'limits' | 'scheme'>> {
  readonly limits?: Partial<ListenerLimits>;
  readonly tls?: boolean;
  /** The address of the client of a connection; 127.0.0.1 by default. */
  readonly addressOf?: () => string;
  /** Called with each connection; must call `serve`. By default it calls it at once. */
  readonly before?: (socket: Socket, serve: () => void) => void;
}

/** Opens a server on a free port of 127.0.0.1. Disposing cuts its streams, and waits until none is left. */
export async function openH2Server(handler: Handler, overrides: Overrides = {}): Promise<TestH2Server> {
  const {
    tls = false,
    before = (_socket, serve) => serve(),
    addressOf = () => '127.0.0.1',
    limits,
    ...more
  } = overrides;
  const events: ServerEvent[] = [];
  const requests: ProxyRequest[] = [];
  const sockets = new Set<Socket>();
  const server = createHttp2Server({
    scheme: tls ? 'https' : 'http',
    emit: (event) => events.push(event),
    now: Date.now,
    ...more,
    handler: Object.assign(
      (request: ProxyRequest) => {
        requests.push(request);
        return handler(request);
      },
      { hit: handler.hit },
    ),
    limits: { ...testLimits, ...limits },
  });
  const accept = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    before(socket, () => server.serve(socket, { address: addressOf(), port: socket.remotePort ?? 0 }));
  };
  const front: Server = tls
    ? createTlsServer({ ...testCertificate, ALPNProtocols: ['h2'], allowHalfOpen: true }, accept)
    : createServer({ allowHalfOpen: true, noDelay: true }, accept);
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  const address = front.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    server,
    port,
    events,
    requests,
    sockets,
    connect: (settings = []) => H2RawClient.open(port, { tls, settings }),
    async [Symbol.asyncDispose]() {
      front.close();
      server.drain();
      server.cut();
      await server.close();
    },
  };
}
