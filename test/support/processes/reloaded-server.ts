/** A server in this process, over real sockets, whose configuration changes while it runs. */

import { once } from 'node:events';
import { createServer, type Server as HttpServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { checkConfig } from '../../../src/config/load.ts';
import type { Config } from '../../../src/config/schema.ts';
import { openServer, type Server } from '../../../src/setup/server.ts';
import type { ServerEvent } from '../../../src/telemetry/events.ts';
import { RawClient } from '../clients/raw-client.ts';

/** A configuration as a test writes it; the store defaults to memory. */
export type WrittenConfig = Readonly<Record<string, unknown>>;

/** Checks a written configuration, and returns the result. */
export function configOf(written: WrittenConfig): Config {
  const checked = checkConfig({ store: { type: 'memory' }, ...written }, '/');
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}

/** A server and its events. */
export interface ReloadedServer extends AsyncDisposable {
  readonly server: Server;
  readonly events: readonly ServerEvent[];
  /** Reloads with another configuration. */
  reload(written: WrittenConfig): Promise<void>;
  /** Connects to one of its addresses; by default to the first. */
  connect(index?: number): Promise<RawClient>;
}

/** Opens a server. Disposing cuts running exchanges. */
export async function openReloadedServer(written: WrittenConfig): Promise<ReloadedServer> {
  const events: ServerEvent[] = [];
  const server = await openServer(configOf(written), { emit: (event) => events.push(event), pseudonym: 'test' });
  return {
    server,
    events,
    async reload(next) {
      const prepared = await server.prepareReload(configOf(next));
      await prepared.commit();
    },
    connect(index = 0) {
      const address = server.addresses[index] ?? '';
      return RawClient.open(address.startsWith('unix:') ? address.slice(5) : Number(new URL(address).port));
    },
    [Symbol.asyncDispose]: () => server.close(0),
  };
}

/** An origin of HTTP/1.1. */
export interface PlainOrigin extends AsyncDisposable {
  readonly url: string;
  readonly server: HttpServer;
  /** Number of open connections. */
  readonly connections: number;
  /** Resolves when all connections are closed. */
  allClosed(): Promise<void>;
}

/** Opens an origin on a free port. */
export async function openPlainOrigin(answer: RequestListener): Promise<PlainOrigin> {
  const server = createServer({ keepAliveTimeout: 0 }, answer);
  let connections = 0;
  server.on('connection', (socket) => {
    connections += 1;
    socket.once('close', () => {
      connections -= 1;
      if (connections === 0) server.emit('idle');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    get connections() {
      return connections;
    },
    async allClosed() {
      if (connections > 0) await once(server, 'idle');
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
