/** An admin listener that only knows activity, purges and fills: for `rangeway top`. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { someReading } from '../values/top-reading.ts';

/** The running server. */
export interface ActivityServer extends AsyncDisposable {
  /** In the syntax of `--admin`. */
  readonly place: string;
  /** Methods, paths and bodies of requests that change something. */
  readonly orders: string[];
}

/** Starts it on a free port. Each reading is a second later, and counts 100 more hits. */
export async function openActivityServer(status = 200): Promise<ActivityServer> {
  const orders: string[] = [];
  let readings = 0;
  const server = createServer(async (request, response) => {
    const json = (code: number, value: unknown): void =>
      void response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    let body = '';
    for await (const chunk of request) body += chunk;
    if (request.method === 'DELETE') {
      orders.push(`DELETE ${request.url}`);
      return void response.writeHead(204).end();
    }
    if (request.method === 'POST') {
      orders.push(`POST ${request.url} ${body}`);
      return json(200, { entries: 2 });
    }
    if (status !== 200) return json(status, { title: 'no', status, detail: 'There is nothing here.' });
    readings += 1;
    const requests = { ...someReading.requests, hit: someReading.requests.hit + 100 * readings };
    json(200, { ...someReading, at: someReading.at + 1000 * readings, requests });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    place: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    orders,
    async [Symbol.asyncDispose]() {
      server.close().closeAllConnections();
      await once(server, 'close');
    },
  };
}
