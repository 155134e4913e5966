/** Plans for random traffic: what clients want, what the origin is like, and what happens, in any order. */

import fc from 'fast-check';
import type { ContentRules } from './traffic-content.ts';
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
const requests: readonly Sent[] = [
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
export const targets = ['/file', '/other'];

/** Under the second ones a response is for the client alone that has asked for it. */
export const sharedLifetimes = ['max-age=60', 'max-age=1', ''];
export const ownLifetimes = ['no-cache', 'max-age=0', 'no-store', 'private'];

/** Something that happens, so often in proportion to the others. */
const often = <T>(weight: number, arbitrary: fc.Arbitrary<T>): fc.WeightedArbitrary<T> => ({ weight, arbitrary });
const one = <const K extends string>(kind: K) => fc.constant({ kind });

/**
 * What happens over any store. `who` counts clients or the exchanges that the origin has not ended, round and round; a
 * `swap` breaks a transfer off, and has another version ready when it is asked for again.
 */
const anyStep = (unit: number) =>
  fc.oneof(
    often(
      6,
      fc.record({
        kind: fc.constant('send' as const),
        sent: fc.constantFrom(...requests.map((sent) => enlarge(sent, unit))),
        target: fc.constantFrom('/file', ...targets),
      }),
    ),
    often(4, fc.record({ kind: fc.constant('leave' as const), who: fc.nat(20) })),
    often(5, fc.record({ kind: fc.constant('head' as const), isSized: fc.boolean(), is304: fc.boolean() })),
    often(6, fc.record({ kind: fc.constant('chunk' as const), who: fc.nat(9), count: fc.nat(900 * unit) })),
    often(4, fc.record({ kind: fc.constant('finish' as const), who: fc.nat(9) })),
    often(1, fc.record({ kind: fc.constant('break' as const), who: fc.nat(9) })),
    often(1, fc.record({ kind: fc.constant('swap' as const), who: fc.nat(9) })),
    often(1, one('refuse')),
    often(
      1,
      fc.record({
        kind: fc.constant('hold' as const),
        step: fc.constantFrom('openWriter' as const, 'writeBlock' as const, 'commit' as const, ...rareStoreSteps),
      }),
    ),
    often(1, one('release')),
    often(1, fc.record({ kind: fc.constant('advance' as const), ms: fc.constantFrom(500, 2000, 100_000) })),
    often(1, one('change')),
    often(1, fc.record({ kind: fc.constant('stall' as const), who: fc.nat(20) })),
    often(1, fc.record({ kind: fc.constant('status' as const), status: fc.constantFrom(404, 401, 500, 503) })),
    often(4, one('turn')),
  );

const rareStoreSteps = ['publish', 'resume'] as const;

/** Faults that a store is told to have. */
const toldFault = fc.oneof(
  one('fill-disk'),
  fc.record({ kind: fc.constant('damage' as const), index: fc.nat(3) }),
  fc.record({ kind: fc.constant('lose' as const), index: fc.nat(12) }),
  fc.record({
    kind: fc.constant('fault' as const),
    step: fc.constantFrom('commit' as const, 'openWriter' as const, ...rareStoreSteps),
  }),
);

/** What happens to a real disk, and to the server on it. `who` counts files, `at` bytes, round and round. */
const diskStep = fc.oneof(
  often(
    3,
    fc.record({
      kind: fc.constant('file-damage' as const),
      manner: fc.constantFrom(
        'flip' as const,
        'flip' as const,
        'flip' as const,
        'truncate' as const,
        'delete' as const,
      ),
      who: fc.nat(19),
      at: fc.nat(200_000),
    }),
  ),
  often(
    3,
    fc.record({
      kind: fc.constant('file-fault' as const),
      on: fc.constantFrom('write' as const, 'open' as const, 'read' as const),
      code: fc.constantFrom('EIO', 'ENOSPC', 'EACCES', 'EMFILE'),
    }),
  ),
  often(3, one('file-heal')),
  often(1, one('disk-full')),
  often(3, one('restart')),
);

type Arbitrated<T> = T extends fc.Arbitrary<infer V> ? V : never;
export type ToldFault = Arbitrated<typeof toldFault>;
export type DiskStep = Arbitrated<typeof diskStep>;
/** One thing that happens. */
export type Step = Arbitrated<ReturnType<typeof anyStep>> | ToldFault | DiskStep;

/** A transfer that somebody reads, that breaks off where it is, and that comes again from the beginning. */
const brokenTransfer = (unit: number): fc.Arbitrary<Step[]> =>
  fc
    .record({
      isSized: fc.boolean(),
      counts: fc.array(fc.oneof(fc.nat(900 * unit), fc.nat(200 * unit)), { minLength: 1, maxLength: 3 }),
    })
    .map(({ isSized, counts }) => [
      { kind: 'send', sent: {}, target: '/file' },
      { kind: 'turn' },
      { kind: 'head', isSized, is304: false },
      ...counts.flatMap((count): Step[] => [{ kind: 'chunk', who: 0, count }, { kind: 'turn' }]),
      { kind: 'swap', who: 0 },
      { kind: 'turn' },
      { kind: 'advance', ms: 500 },
      { kind: 'turn' },
      { kind: 'head', isSized, is304: false },
    ]);

/** A transfer that comes to its end. */
const transfer: fc.Arbitrary<Step[]> = fc
  .constantFrom(...targets)
  .map((target) => [
    { kind: 'send', sent: {}, target },
    { kind: 'turn' },
    { kind: 'head', isSized: true, is304: false },
    { kind: 'turn' },
    { kind: 'finish', who: 0 },
    { kind: 'turn' },
    { kind: 'turn' },
  ]);

/** A request for a file that is so many times larger. */
function enlarge(sent: Sent, unit: number): Sent {
  const range = sent.fields?.['range']?.replaceAll(/(-?)(\d+)/g, (_, dash: string, digits: string) =>
    dash === '' ? String(Number(digits) * unit) : `-${(Number(digits) + 1) * unit - 1}`,
  );
  return range === undefined ? sent : { ...sent, fields: { ...sent.fields, range } };
}

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
export interface Plan extends ContentRules {
  /** How many times larger everything is than in the smallest world, whose blocks have 256 bytes. */
  readonly unit: number;
  readonly ranges: (typeof rangeManners)[number];
  readonly complete: 'always' | 'never';
  readonly resumeAttempts: number;
  readonly seekAheadBytes: number;
  readonly onAbort: 'finish' | 'stop';
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
  /** How much of a slower store is kept in memory. */
  readonly tierBytes: number;
  /** Whether a turn lasts until the disk has done what it was asked for: the same plan comes to the same then. */
  readonly isPatient: boolean;
  readonly steps: readonly Step[];
}

/** Any world, everything in it so many times larger, and the steps that may be taken in it. */
function createPlans(unit: number, step: fc.Arbitrary<Step>): fc.Arbitrary<Plan> {
  const lengths = { minLength: 5, maxLength: 80, size: 'max' } as const;
  const some = (...values: readonly number[]) => fc.constantFrom(...values.map((value) => value * unit));
  const any = {
    unit: fc.constant(unit),
    blockSizeBytes: fc.constant(256 * unit),
    onAbort: fc.constantFrom('finish' as const, 'stop' as const),
    size: fc.oneof(fc.constant(1), some(0, 255, 256, 700, 3000, 6000)),
    changes: fc.constantFrom('all' as const, 'some' as const),
    lifetime: fc.constantFrom(...sharedLifetimes, ...ownLifetimes),
    validator: fc.constantFrom('strong' as const, 'strong' as const, 'weak' as const, 'none' as const),
    ranges: fc.constantFrom(...rangeManners),
    complete: fc.constantFrom('always' as const, 'never' as const),
    resumeAttempts: fc.constantFrom(0, 3),
    seekAheadBytes: some(0, 600, 100_000),
    varies: fc.boolean(),
    isTold: fc.boolean(),
    digest: fc.constantFrom('none' as const, 'none' as const, 'right' as const, 'wrong' as const),
    wantsDigest: fc.boolean(),
    pinSeconds: fc.constantFrom(0, 60),
    maxSizeBytes: some(64 * 1024, 12 * 1024, 32 * 1024),
    windowBytes: some(256, 512, 4096),
    closesEarly: fc.constantFrom(false, false, true),
    tierBytes: some(1024, 64 * 1024),
    isPatient: fc.boolean(),
    steps: fc.array(step, lengths),
  };
  const episodes = (episode: fc.Arbitrary<Step[]>) =>
    fc
      .array(
        fc.oneof(
          often(1, episode),
          often(
            3,
            step.map((each): Step[] => [each]),
          ),
        ),
        { minLength: 1, maxLength: 25 },
      )
      .map((all) => all.flat());
  // Nothing names the bytes, so that only the bytes themselves tell that they have changed.
  const legacy = {
    ...any,
    size: some(3000, 6000),
    changes: fc.constant('some' as const),
    lifetime: fc.constantFrom(...sharedLifetimes),
    validator: fc.constant('none' as const),
    isTold: fc.constant(false),
    digest: fc.constant('none' as const),
    resumeAttempts: fc.constant(3),
    steps: episodes(brokenTransfer(unit)),
  };
  // Much is stored, in part or as a whole, and read again.
  const steady = {
    ...any,
    size: some(3000, 6000),
    lifetime: fc.constant('max-age=60'),
    ranges: fc.constantFrom('none' as const, 'right' as const),
    digest: fc.constantFrom('none' as const, 'right' as const),
    maxSizeBytes: some(64 * 1024),
    steps: episodes(transfer),
  };
  return fc.oneof(often(4, fc.record(any)), often(1, fc.record(legacy)), often(1, fc.record(steady)));
}

/** Any plan for a store in memory, which has the faults that it is told to have. */
export const plans: fc.Arbitrary<Plan> = createPlans(1, fc.oneof(often(45, anyStep(1)), often(4, toldFault)));

const diskUnit = 16;
/** Any plan for a store on a disk that has faults, with restarts. Its bodies are in files and in the index. */
export const diskPlans: fc.Arbitrary<Plan> = createPlans(
  diskUnit,
  fc.oneof(often(45, anyStep(diskUnit)), often(6, diskStep)),
);
