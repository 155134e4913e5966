/** Plans for random traffic: what clients want, what the origin is like, and what happens, in any order. */

import fc from 'fast-check';
import type { Sent } from './whole-proxy.ts';

const ranges = [
  'bytes=0-9',
  'bytes=-7',
  'bytes=300-',
  'bytes=0-',
  'bytes=500-509,3-5',
  'bytes=99999-',
  'bytes=-3000',
  'bytes=5000-5100',
  'bytes=256-511,2000-2100,0-0',
  'bytes=99999-,1-1',
  'bytes=2560-2815',
];
const requests: Sent[] = [
  {},
  ...ranges.map((range) => ({ fields: { range } })),
  { method: 'HEAD' },
  { fields: { 'if-none-match': '*' } },
  { fields: { 'if-match': '"none"' } },
  { fields: { 'cache-control': 'no-cache' } },
  { fields: { 'cache-control': 'only-if-cached' } },
  { fields: { 'accept-language': 'de', range: 'bytes=100-' } },
  { fields: { authorization: 'x' } },
  { method: 'PUT' },
  { fields: { 'if-range': '"1"', range: 'bytes=600-' } },
  { fields: { 'if-range': '"1"', range: 'bytes=99999-' } },
  { fields: { 'if-range': '"2"', range: 'bytes=-300' } },
  { fields: { authorization: 'x', range: 'bytes=1000-1500' } },
  { fields: { 'cache-control': 'only-if-cached', range: 'bytes=0-9' } },
  { fields: { 'cache-control': 'max-age=0', range: 'bytes=700-' } },
  { fields: { 'cache-control': 'max-stale', range: 'bytes=1200-1300' } },
];
const targets = ['/file', '/file', '/other'];

/** Under the second ones a response is for the client alone that has asked for it. */
export const sharedLifetimes = ['max-age=60', 'max-age=1', ''];
export const ownLifetimes = ['no-cache', 'max-age=0', 'no-store', 'private'];

/** One thing that happens. `who` counts clients or the exchanges that the origin has not ended, round and round. */
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('send' as const),
      sent: fc.constantFrom(...requests),
      target: fc.constantFrom(...targets),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('leave' as const), who: fc.nat(20) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('head' as const), isSized: fc.boolean(), is304: fc.boolean() }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('chunk' as const), who: fc.nat(9), count: fc.nat(900) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('finish' as const), who: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('break' as const), who: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('refuse' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fill-disk' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('damage' as const), index: fc.nat(3) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('hold' as const),
      step: fc.constantFrom(
        'openWriter' as const,
        'writeBlock' as const,
        'commit' as const,
        'publish' as const,
        'resume' as const,
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('advance' as const), ms: fc.constantFrom(500, 2000, 100_000) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('change' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const), index: fc.nat(12) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('fault' as const),
      step: fc.constantFrom('publish' as const, 'resume' as const, 'commit' as const, 'openWriter' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('stall' as const), who: fc.nat(20) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('status' as const), status: fc.constantFrom(404, 401, 500, 503) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('turn' as const) }) },
);

export type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What an origin makes of a Range: nothing, what it should, or something else. */
const rangeManners = [
  'none',
  'right',
  'short',
  'early',
  'elsewhere',
  'other-length',
  'unnamed',
  'unsatisfied',
  'long',
] as const;

/** The world that a run of random traffic goes through. */
export interface Plan {
  readonly ranges: (typeof rangeManners)[number];
  readonly complete: 'always' | 'never';
  readonly resumeAttempts: number;
  readonly seekAheadBytes: number;
  readonly onAbort: 'finish' | 'stop';
  readonly size: number;
  readonly lifetime: string;
  readonly validator: 'strong' | 'weak' | 'none';
  readonly varies: boolean;
  readonly isTold: boolean;
  readonly digest: 'none' | 'right' | 'wrong';
  readonly wantsDigest: boolean;
  readonly pinSeconds: number;
  readonly maxSizeBytes: number;
  readonly windowBytes: number;
  readonly closesEarly: boolean;
  readonly steps: readonly Step[];
}

/** Any plan. */
export const plans: fc.Arbitrary<Plan> = fc.record({
  onAbort: fc.constantFrom('finish' as const, 'stop' as const),
  size: fc.constantFrom(0, 1, 255, 256, 700, 3000, 6000),
  lifetime: fc.constantFrom(...sharedLifetimes, ...ownLifetimes),
  validator: fc.constantFrom('strong' as const, 'strong' as const, 'weak' as const, 'none' as const),
  ranges: fc.constantFrom(...rangeManners),
  complete: fc.constantFrom('always' as const, 'never' as const),
  resumeAttempts: fc.constantFrom(0, 3),
  seekAheadBytes: fc.constantFrom(0, 600, 100_000),
  varies: fc.boolean(),
  isTold: fc.boolean(),
  digest: fc.constantFrom('none' as const, 'none' as const, 'right' as const, 'wrong' as const),
  wantsDigest: fc.boolean(),
  pinSeconds: fc.constantFrom(0, 60),
  maxSizeBytes: fc.constantFrom(64 * 1024, 12 * 1024, 32 * 1024),
  windowBytes: fc.constantFrom(256, 512, 4096),
  closesEarly: fc.constantFrom(false, false, true),
  steps: fc.array(step, { minLength: 5, maxLength: 80, size: 'max' }),
});
