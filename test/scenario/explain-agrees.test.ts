/** An explanation agrees with what the next request gets, for random stored entries and random requests. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Explanation } from '../../src/delivery/explanation.ts';
import { type Field, type Fields, fieldValue, hasField } from '../../src/http/fields.ts';
import type { OriginRequest } from '../../src/origin/origin.ts';
import { settled } from '../support/clients/conversation.ts';
import { createAnsweringOrigin } from '../support/origins/answering-origin.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { createWholeProxy, type Sent, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const { RANGEWAY_TEST_RUNS = '120' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);

const size = 5000;
const modified = 'Wed, 01 Jan 2025 00:00:00 GMT';

/** The response fields of the origin, by path. */
const resources: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/strong': { 'cache-control': 'max-age=60', etag: '"v1"' },
  '/dated': { 'cache-control': 'max-age=20', 'last-modified': modified },
  '/weak': { 'cache-control': 'max-age=60', etag: 'W/"v1"' },
  '/varied': { 'cache-control': 'max-age=60', etag: '"v1"', vary: 'Accept-Language' },
  '/grace': { 'cache-control': 'max-age=20, stale-while-revalidate=30', etag: '"v1"' },
  '/long-grace': { 'cache-control': 'max-age=10, stale-while-revalidate=100', etag: '"v1"' },
  '/strict': { 'cache-control': 'max-age=20, must-revalidate', etag: '"v1"' },
  '/asked': { 'cache-control': 'no-cache', etag: '"v1"' },
  '/targeted': { 'cache-control': 'no-store', 'cdn-cache-control': 'max-age=60' },
  '/private': { 'cache-control': 'private' },
  '/cookie': { 'set-cookie': 'a=1', etag: '"v1"' },
  '/silent': {},
};

const optional = <T>(...values: readonly T[]): fc.Arbitrary<T | undefined> =>
  fc.constantFrom(undefined, undefined, ...values);

const range = optional(
  'bytes=0-99',
  'bytes=1500-1600',
  'bytes=-50',
  'bytes=3000-',
  'bytes=0-9,4000-4009',
  'bytes=9000-',
  'bytes=5-1',
);

/** Requests with many conditions are mostly passed or refused. These plain requests get responses stored. */
const plainRequests = fc.record({
  method: fc.constant('GET'),
  range,
  'cache-control': optional('max-stale'),
});

const conditionalRequests = fc.record({
  method: fc.constantFrom('GET', 'GET', 'GET', 'GET', 'HEAD', 'POST'),
  range,
  'cache-control': optional('no-cache', 'no-store', 'max-age=10', 'max-stale', 'only-if-cached', 'min-fresh=30'),
  'if-none-match': optional('"v1"', '"v0"'),
  'if-modified-since': optional(modified),
  'if-range': optional('"v1"', '"v0"', modified),
  'if-match': optional('"v1"', '"v0"'),
  'accept-language': optional('de', 'fr'),
  authorization: optional('Basic YTpi'),
  cookie: optional('session=1', 'other=1'),
});

const requests: fc.Arbitrary<Sent> = fc.oneof(plainRequests, conditionalRequests).map(({ method, ...fields }) => ({
  method,
  fields: Object.fromEntries(
    Object.entries(fields).filter((field): field is [string, string] => field[1] !== undefined),
  ),
}));

const step = fc.record({
  request: requests,
  which: fc.nat(),
  afterMs: fc.constantFrom(0, 0, 1000, 15_000, 25_000, 70_000),
});

/** Only a few resources, so that stored entries are asked for again. */
const targets = fc.shuffledSubarray(Object.keys(resources), { minLength: 1, maxLength: 3 });

const settings = fc.record({
  targets,
  hasRanges: fc.boolean(),
  openRanges: fc.constantFrom('grow' as const, 'whole' as const),
  storeAfterUses: fc.constantFrom(1, 1, 2),
  ownEntityTags: fc.constantFrom('whenNone' as const, 'whenWeak' as const),
  bypass: fc.constant({ fields: [], cookies: ['session'], queryParameters: [] }),
});

/** Returns the parameters of a Cache-Status member. */
const parametersOf = (member: string) => member.split('; ').slice(1);

const selecting = new Set([
  'range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'if-range',
]);
const selectingOf = (fields: Fields): readonly Field[] => fields.filter(([name]) => selecting.has(name));

/** Sends a request, and compares the outcome with its explanation. */
async function expectAgreement(
  proxy: WholeProxy,
  explanation: Explanation,
  sent: Sent,
  asked: OriginRequest[],
): Promise<void> {
  const { decision, plan, originQuestion } = explanation;
  asked.length = 0;
  const client = proxy.send(sent);
  const status = await client.status();
  const isCut = await client.bytes().then(
    () => false,
    () => true,
  );
  expect(isCut).toBe(false);
  await settled();
  const member = (await client.field('cache-status')) ?? '';
  const [first] = asked;
  if (plan.status !== undefined) expect(status).toBe(plan.status);
  switch (decision.kind) {
    case 'hit':
    case 'stale':
      expect(member).toBe(decision.cacheStatus);
      expect(asked).toEqual([]);
      break;
    case 'stale-while-revalidate':
      expect(member).toBe(decision.cacheStatus);
      expect(first === undefined ? undefined : selectingOf(first.fields)).toEqual(originQuestion?.fields);
      break;
    case 'complete': {
      expect(member).toBe(decision.cacheStatus);
      // A stale entry is validated meanwhile.
      const others = originQuestion === undefined ? asked : asked.filter(({ fields }) => hasField(fields, 'range'));
      expect(others.map(({ fields }) => fieldValue(fields, 'range') ?? 'whole').toSorted()).toEqual(
        plan.asked.toSorted(),
      );
      break;
    }
    case 'refuse':
      expect(asked).toEqual([]);
      break;
    default:
      expect(parametersOf(member)).toEqual(expect.arrayContaining(parametersOf(decision.cacheStatus ?? '')));
      expect(first?.method).toBe(originQuestion?.method);
      expect(first?.target).toBe(originQuestion?.target);
      expect(selectingOf(first?.fields ?? [])).toEqual(originQuestion?.fields);
  }
}

describe('an explanation', () => {
  it('says what the next request gets, and what the origin is asked for it', {
    timeout: 60_000 + 20 * runs,
  }, async () => {
    const seen = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(
        settings,
        fc.array(step, { minLength: 4, maxLength: 14 }),
        async ({ targets: few, hasRanges, openRanges, ...cache }, steps) => {
          const asked: OriginRequest[] = [];
          const origin = createAnsweringOrigin({
            bytes: patternBytes(0, size),
            fieldsOf: (path) => resources[path] ?? {},
            hasRanges,
            asked,
          });
          const proxy = createWholeProxy({
            origin,
            originRanges: 'auto',
            fill: { seekAheadBytes: 0, openRanges },
            route: { cache: { ...defaultCaching, ...cache } },
          });
          for (const { request: plain, which, afterMs } of steps) {
            const request = { ...plain, target: few[which % few.length] ?? '/' };
            proxy.clock.advance(afterMs);
            const explanation = await proxy.explain(request);
            expect(await proxy.explain(request)).toEqual(explanation);
            seen.set(explanation.decision.kind, (seen.get(explanation.decision.kind) ?? 0) + 1);
            await expectAgreement(proxy, explanation, request, asked);
          }
          await proxy.close();
        },
      ),
      { numRuns: runs },
    );
    if (runs < 400) return;
    expect([...seen.keys()].toSorted()).toEqual([
      'complete',
      'fill',
      'hit',
      'pass',
      'refuse',
      'revalidate',
      'stale',
      'stale-while-revalidate',
    ]);
  });
});
