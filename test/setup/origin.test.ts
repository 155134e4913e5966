/** The origins of a configuration. */

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { routeSchema } from '../../src/config/route-schema.ts';
import { createRouteOrigins } from '../../src/setup/origin.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { originRequest } from '../support/origins/origin-request.ts';

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it('origins are checked although clients keep all connections busy', async () => {
  let checks = 0;
  const server = createServer((request, response) => {
    if (request.url !== '/healthz') return void response.writeHead(200).flushHeaders();
    checks += 1;
    response.end();
    if (checks === 3) server.emit('checked');
  });
  const check = { path: '/healthz', intervalSeconds: 0.02, timeoutSeconds: 0.2 };
  const url = await listen(server);
  const config = { origin: { url, alternatives: ['http://127.0.0.1:9'], connections: 1, health: { check } } };
  const events: ServerEvent[] = [];
  const { origin } = await createRouteOrigins(routeSchema.parse(config).origin, 'main', (event) => events.push(event));
  await origin.fetch(originRequest());
  await once(server, 'checked');
  expect(JSON.stringify(events)).not.toContain(url);
  await origin.close();
  server.closeAllConnections();
  server.close();
});
