/** Valid requests with random changes: no reader behind the proxy sees more requests than the proxy has answered. */

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { get, type HostileGround, openHostileGround, post } from '../support/proxies/hostile-ground.ts';

/** More runs find rare failures. */
const { RANGEWAY_TEST_RUNS = '300' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);
const timeout = 60_000 + 50 * runs;

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';

const validRequests: readonly string[] = [
  get(),
  get('X: y\r\nConnection: keep-alive\r\n'),
  get('Content-Length: 3\r\n').concat('abc'),
  'GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n',
  post('Content-Length: 3\r\n', 'abc'),
  post(`Content-Length: ${smuggled.length}\r\n`, smuggled),
  post('Transfer-Encoding: chunked\r\n', '3\r\nabc\r\n0\r\n\r\n'),
  post('Transfer-Encoding: chunked\r\n', `${smuggled.length.toString(16)};a=b\r\n${smuggled}\r\n0\r\nX: y\r\n\r\n`),
  post('Expect: 100-continue\r\nContent-Length: 3\r\n', 'abc'),
];

/** Texts that recipients are known to read in different ways. */
const spoilers: readonly string[] = [
  ...[
    '\r',
    '\n',
    '\r\n',
    '\r\n\r\n',
    ' ',
    '\t',
    '\0',
    '\x0b',
    '\x0c',
    '\xa0',
    '\x85',
    ':',
    ';',
    ',',
    '"',
    '0',
    '1',
    '-',
    '_',
    '+',
  ],
  ...[
    '0x',
    'chunked',
    ', chunked',
    'identity',
    'Content-Length: 0\r\n',
    'Content-Length: 5\r\n',
    'Content-Length : 3\r\n',
  ],
  ...[
    'Transfer-Encoding: chunked\r\n',
    'Transfer-Encoding: identity\r\n',
    'Transfer-Encoding : chunked\r\n',
    'Host: b\r\n',
  ],
  ...[' X: y\r\n', 'Connection: close\r\n', 'Connection: Content-Length\r\n', 'Expect: 100-continue\r\n', '0\r\n\r\n'],
  ...[' HTTP/1.1', 'GET /smuggled HTTP/1.1\r\n', 'Upgrade: h2c\r\nConnection: Upgrade\r\n', '#', '\\', '//'],
];

type Spoiling =
  | { readonly kind: 'insert'; readonly at: number; readonly text: string }
  | { readonly kind: 'remove' | 'repeat' | 'swap case'; readonly at: number; readonly size: number };

/** Positions as fractions of the length, all equally likely. */
const places = fc.noBias(fc.integer({ min: 0, max: 999 })).map((part) => part / 1000);
const spoilings: fc.Arbitrary<Spoiling> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('insert' as const), at: places, text: fc.constantFrom(...spoilers) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('remove' as const, 'repeat' as const, 'swap case' as const),
      at: places,
      size: fc.integer({ min: 1, max: 30 }),
    }),
  },
);

const streams = fc
  .record({ request: fc.constantFrom(...validRequests), spoiled: fc.array(spoilings, { minLength: 1, maxLength: 2 }) })
  .map(
    ({ request, spoiled }) => spoiled.reduce(spoil, request) + get('', '/after') + get('Connection: close\r\n', '/end'),
  );

function spoil(bytes: string, spoiling: Spoiling): string {
  const at = Math.floor(spoiling.at * bytes.length);
  if (spoiling.kind === 'insert') return bytes.slice(0, at) + spoiling.text + bytes.slice(at);
  const part = bytes.slice(at, at + spoiling.size);
  const rest = bytes.slice(at + spoiling.size);
  switch (spoiling.kind) {
    case 'remove':
      return bytes.slice(0, at) + rest;
    case 'repeat':
      return bytes.slice(0, at) + part + part + rest;
    case 'swap case':
      return bytes.slice(0, at) + part.replace(/[a-z]/gi, swapCase) + rest;
  }
}

function swapCase(letter: string): string {
  return letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();
}

describe('spoiled requests', () => {
  let ground: HostileGround;
  beforeAll(async () => {
    ground = await openHostileGround();
  });
  afterAll(() => ground[Symbol.asyncDispose]());

  it('are refused, or reach the origin as requests that all readers read the same', { timeout }, async () => {
    let answered = 0;
    const property = fc.asyncProperty(streams, async (bytes) => {
      const { answers, seen } = await ground.survey(bytes);
      expect(seen.length).toBeLessThanOrEqual(answers);
      for (const { method, target } of seen) expect(`${method} ${target}`).not.toMatch(/[^!-~ ]/);
      answered += answers;
    });
    await fc.assert(property, { numRuns: runs });
    // Enough of the requests stay valid.
    expect(answered).toBeGreaterThan(runs / 4);
  });
});
