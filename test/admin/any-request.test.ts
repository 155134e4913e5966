/** Random requests: each one is answered, and none has an effect without admission. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Guesses } from '../../src/admin/access.ts';
import { createAdminHandler } from '../../src/admin/admin-listener.ts';
import { endpoints } from '../../src/admin/endpoints.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { createAdminGround } from '../../src/setup/admin.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { fakeOperations } from '../support/proxies/fake-operations.ts';
import { rightToken } from './admin-ground.ts';

function createGround() {
  const { operations, calls } = fakeOperations();
  const events: ServerEvent[] = [];
  const handler = createAdminHandler({
    ...createAdminGround(operations, (event) => events.push(event)),
    rules: { reach: 'machine', hosts: new Set() },
    isToken: (text) => text === rightToken,
    guesses: new Guesses(() => 0),
  });
  return { handler, calls, events };
}

function requestWith(overrides: Partial<ProxyRequest>, body: string): ProxyRequest {
  const bytes = Buffer.from(body);
  return {
    method: 'GET',
    scheme: 'http',
    authority: 'localhost',
    target: '/',
    version: '1.1',
    fields: [],
    body: {
      async *[Symbol.asyncIterator]() {
        yield bytes;
      },
      close: () => {},
    },
    bodySizeBytes: undefined,
    peer: { address: '127.0.0.1', port: 1 },
    receivedAt: 0,
    signal: new AbortController().signal,
    sendInterim: () => {},
    ...overrides,
  };
}

const piece = fc.oneof(
  fc.constantFrom(
    '/',
    '?',
    '&',
    '=',
    '..',
    '%2f',
    '%',
    '//',
    'api',
    'v1',
    'entries',
    'purge',
    '{id}',
    '__proto__',
    'url',
  ),
  fc.string({ maxLength: 5 }),
);
const target = fc.oneof(
  fc.constantFrom(...endpoints.map(({ path }) => path)),
  fc.constantFrom(...endpoints.map(({ path }) => path)).chain((path) => piece.map((more) => path + more)),
  fc.array(piece, { maxLength: 8 }).map((pieces) => `/${pieces.join('')}`),
);
const method = fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'PURGE');
const body = fc.oneof(fc.json(), fc.string(), fc.constantFrom('{"all":true}', '{"level":"debug"}', '{}'));
const known = new Set([200, 204, 400, 401, 403, 404, 405, 413, 415, 421, 422, 429, 503]);

describe('any request', () => {
  it('with the right token is answered', async () => {
    await fc.assert(
      fc.asyncProperty(method, target, body, async (name, where, content) => {
        const { handler, events } = createGround();
        const fields = [
          ['authorization', `Bearer ${rightToken}`],
          ['content-type', 'application/json'],
        ] as const;
        const response = await handler(requestWith({ method: name, target: where, fields }, content));
        expect(known, `${name} ${where} ${content}: ${response.status}`).toContain(response.status);
        expect(events.filter((event) => event.kind === 'admin' && event.action === 'failed')).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it.each<[why: string, overrides: Partial<ProxyRequest>, mayWatch: boolean]>([
    ['no token', { fields: [['content-type', 'application/json']] }, true],
    ['a wrong token', { fields: [['authorization', `Bearer ${rightToken}x`]] }, true],
    ['another host name', { authority: 'evil.test', fields: [['authorization', `Bearer ${rightToken}`]] }, false],
    [
      'the Origin of another site',
      {
        fields: [
          ['authorization', `Bearer ${rightToken}`],
          ['origin', 'http://evil.test'],
        ],
      },
      false,
    ],
  ])('calls no protected operation with %s', async (_why, overrides, mayWatch) => {
    await fc.assert(
      fc.asyncProperty(method, target, body, async (name, where, content) => {
        const { handler, calls } = createGround();
        await handler(requestWith({ method: name, target: where, ...overrides }, content));
        const done = calls.map(([call]) => call);
        expect(done.filter((call) => !mayWatch || (call !== 'readReadiness' && call !== 'formatMetrics'))).toEqual([]);
        if (where.startsWith('/api')) expect(done).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });
});
