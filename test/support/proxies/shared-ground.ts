/** A server with an attacker and a victim as clients, each request on a connection of its own. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { checkConfig } from '../../../src/config/load.ts';
import type { ConfigInput } from '../../../src/config/schema.ts';
import { start } from '../../../src/main.ts';
import { RawClient, type RawResponse } from '../clients/raw-client.ts';

/** A request as the origin received it. */
export interface Asked {
  readonly method: string;
  readonly target: string;
  /** The field lines as received, `name: value`. */
  readonly lines: readonly string[];
  /** Returns the value of a field, its lines joined. */
  field(name: string): string | undefined;
  readonly body: string;
}

/** The response of the origin; by default a 200 with an empty body. */
export interface Said {
  readonly status?: number;
  readonly fields?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
}

/** A response as its client got it, without fields that differ between hit and miss: Age, Cache-Status, Date, Via. */
export interface Got {
  readonly status: number;
  readonly fields: readonly string[];
  readonly body: string;
  /** Whether it was a hit. */
  readonly isHit: boolean;
}

export interface SharedGround extends AsyncDisposable {
  /** Sends a request on a new connection, and closes the connection after the response. */
  send(request: string): Promise<Got>;
  /** The requests that the origin has received so far. */
  readonly asked: readonly Asked[];
}

const varyingFields = new Set(['age', 'cache-status', 'date', 'via']);

/** Starts a server with an empty memory store. `routes` are the options of its routes without their origin; by default one route. */
export async function openSharedGround(
  say: (asked: Asked) => Said,
  routes: readonly Omit<ConfigInput['routes'][number], 'origin'>[] = [{}],
): Promise<SharedGround> {
  const asked: Asked[] = [];
  const origin = createServer({ maxHeaderSize: 65_536 }, (request, response) => {
    void answer(request, response, say, asked);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const url = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const loaded = checkConfig(
    {
      listen: '127.0.0.1:0',
      store: { type: 'memory', maxSizeBytes: '8MB' },
      pseudonym: 'edge',
      routes: routes.map((route) => ({ ...route, origin: { url, host: 'keep' } })),
    },
    '/',
  );
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  const server = await start(loaded.config);
  const port = Number(new URL(server.url).port);
  return {
    asked,
    async send(request) {
      await using client = await RawClient.open(port);
      return describe(await client.exchange(request));
    },
    async [Symbol.asyncDispose]() {
      await server.close({ graceMs: 0 });
      origin.closeAllConnections();
      await once(origin.close(), 'close');
    },
  };
}

/** Formats a request: method and target, then field lines. It asks for the connection to be closed. */
export function requestOf(line: string, ...fields: readonly string[]): string {
  const isHostNamed = fields.some((field) => /^host:/i.test(field));
  const host = isHostNamed || line.endsWith('HTTP/1.0') ? [] : ['Host: victim.test'];
  const version = /HTTP\/1\.\d$/.test(line) ? '' : ' HTTP/1.1';
  return `${[line + version, ...host, ...fields, 'Connection: close'].join('\r\n')}\r\n\r\n`;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  say: (asked: Asked) => Said,
  all: Asked[],
): Promise<void> {
  const { method = '', url: target = '', rawHeaders, headers } = request;
  const lines = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1]}`] : []));
  const body = (await buffer(request)).toString('latin1');
  const asked: Asked = { method, target, lines, field: (name) => headers[name]?.toString(), body };
  all.push(asked);
  const said = say(asked);
  const bytes = Buffer.from(said.body ?? '', 'latin1');
  response.sendDate = false;
  for (const [name, value] of Object.entries(said.fields ?? {})) response.setHeader(name, value);
  response.writeHead(said.status ?? 200, { 'content-length': bytes.length });
  response.end(method === 'HEAD' ? undefined : bytes);
}

function describe({ status, lines, body }: RawResponse): Got {
  const cacheStatus = lines.find(([name]) => name.toLowerCase() === 'cache-status')?.[1] ?? '';
  return {
    status,
    fields: lines
      .filter(([name]) => !varyingFields.has(name.toLowerCase()))
      .map(([name, value]) => `${name}: ${value}`),
    body: body.toString('latin1'),
    isHit: /; *hit/.test(cacheStatus),
  };
}
