/** A listener that redirects every request to https. */

import { describe, expect, it } from 'vitest';
import { createHttpsRedirect } from '../../src/listener/https-redirect.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { upgradeRequest } from '../support/clients/tunnels.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { openListener } from '../support/proxies/open-listener.ts';

async function openRedirect(port = 443) {
  const reported: ServerEvent[] = [];
  const handler = createHttpsRedirect({ port, clock: createFakeClock(), emit: (event) => reported.push(event) });
  return Object.assign(await openListener(handler), { reported });
}

describe('a redirect to https', () => {
  it.each<[request: string, location: string]>([
    ['GET / HTTP/1.1\r\nHost: example.org\r\n\r\n', 'https://example.org/'],
    ['GET /a%2Fb?c HTTP/1.1\r\nHost: example.org:8080\r\n\r\n', 'https://example.org/a%2Fb?c'],
    ['HEAD / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n', 'https://[::1]/'],
    ['POST /x HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\nabc', 'https://example.org/x'],
    ['GET http://other.example/y HTTP/1.1\r\nHost: example.org\r\n\r\n', 'https://other.example/y'],
    ['OPTIONS * HTTP/1.1\r\nHost: example.org\r\n\r\n', 'https://example.org'],
    [upgradeRequest('GET /chat HTTP/1.1\r\nHost: example.org\r\n'), 'https://example.org/chat'],
  ])('%j', async (request, location) => {
    await using listener = await openRedirect();
    await using client = await listener.connect();
    const response = await client.exchange(request);
    expect(response.status).toBe(308);
    expect(rawValues(response, 'location')).toEqual([location]);
    expect(rawValues(response, 'cache-control')).toEqual(['no-store']);
    expect(response.body).toHaveLength(0);
    await expect
      .poll(() => listener.reported)
      .toEqual([
        { kind: 'begun', what: 'request' },
        expect.objectContaining({ kind: 'request', status: 308, complete: true }),
      ]);
  });

  it('names a port other than 443, and keeps the connection', async () => {
    await using listener = await openRedirect(8443);
    await using client = await listener.connect();
    for (const path of ['/1', '/2']) {
      const response = await client.exchange(`GET ${path} HTTP/1.1\r\nHost: example.org:8080\r\n\r\n`);
      expect(rawValues(response, 'location')).toEqual([`https://example.org:8443${path}`]);
    }
  });

  it.each([
    'GET / HTTP/1.0\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: %65xample.org\r\n\r\n',
    'GET / HTTP/1.1\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n',
  ])('is refused with 400: %j', async (request) => {
    await using listener = await openRedirect();
    await using client = await listener.connect();
    const response = await client.exchange(request);
    expect(response.status).toBe(400);
    expect(rawValues(response, 'location')).toEqual([]);
    expect(rawValues(response, 'cache-control')).toEqual(['no-store']);
  });
});
