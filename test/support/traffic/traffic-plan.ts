/** Plans for random traffic: what clients, origin and store are like, and what happens, in any order. */

import fc from 'fast-check';
import type { WholeProxyOptions } from '../proxies/whole-proxy.ts';
import type { ContentRules } from './traffic-content.ts';
import {
  anyStep,
  brokenTransfer,
  crossing,
  damagedFile,
  diskStep,
  often,
  overwrite,
  type Step,
  seek,
  toldFault,
  transfer,
} from './traffic-steps.ts';

/** Under the second ones a response is for the client alone that has asked for it. */
export const sharedLifetimes = [
  'max-age=60',
  'max-age=1',
  'max-age=1, stale-while-revalidate=3',
  'max-age=1, stale-if-error=3',
  'max-age=1, must-revalidate',
  '',
];
export const ownLifetimes = ['no-cache', 'max-age=0', 'no-store', 'private'];

/** What an origin makes of a Range: nothing, what it should, either of them as it likes, or something else. */
const rangeManners = [
  'none',
  'right',
  'flapping',
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
  readonly openRanges: 'grow' | 'whole';
  readonly seekAheadBytes: number;
  readonly onAbort: 'finish' | 'stop';
  readonly lifetime: string;
  /** Whether the lifetime is in CDN-Cache-Control, and Cache-Control says the contrary. */
  readonly isTargeted: boolean;
  /** Whether all is of one group, which unsafe requests invalidate. */
  readonly isGrouped: boolean;
  /** What the operator says of stale responses. */
  readonly staleIfErrorSeconds: number;
  readonly staleWhileRevalidateSeconds: number;
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

/** The proxy of a plan. */
export function proxyOptions(plan: Plan): WholeProxyOptions {
  const { pinSeconds, staleIfErrorSeconds, staleWhileRevalidateSeconds, wantsDigest } = plan;
  const { onAbort, complete, resumeAttempts, openRanges, seekAheadBytes } = plan;
  return {
    blockSizeBytes: plan.blockSizeBytes,
    windowBytes: plan.windowBytes,
    route: { cache: { pinSeconds, staleIfErrorSeconds, staleWhileRevalidateSeconds, digest: wantsDigest } },
    originRanges: plan.ranges === 'none' ? 'never' : 'auto',
    fill: { onAbort, complete, resumeAttempts, openRanges, seekAheadBytes },
  };
}

/** What plans are made of. */
interface PlanParts {
  readonly unit: number;
  readonly step: fc.Arbitrary<Step>;
  /** What happens where much is stored and read again. */
  readonly episode: fc.Arbitrary<Step[]>;
  /** How many of the plans are of that kind, in proportion to six others. */
  readonly steadyWeight: number;
}

/** Any world, everything in it so many times larger, and the steps that may be taken in it. */
function createPlans({ unit, step, episode, steadyWeight }: PlanParts): fc.Arbitrary<Plan> {
  const lengths = { minLength: 5, maxLength: 80, size: 'max' } as const;
  const some = (...values: readonly number[]) => fc.constantFrom(...values.map((value) => value * unit));
  const any = {
    unit: fc.constant(unit),
    blockSizeBytes: fc.constant(256 * unit),
    onAbort: fc.constantFrom('finish' as const, 'stop' as const),
    size: fc.oneof(fc.constant(1), some(0, 255, 256, 700, 3000, 6000)),
    changes: fc.constantFrom('all' as const, 'some' as const),
    lifetime: fc.constantFrom(...sharedLifetimes, ...ownLifetimes),
    isTargeted: fc.boolean(),
    isGrouped: fc.boolean(),
    staleIfErrorSeconds: fc.constantFrom(604_800, 0),
    staleWhileRevalidateSeconds: fc.constantFrom(0, 0, 3),
    validator: fc.constantFrom('strong' as const, 'strong' as const, 'weak' as const, 'none' as const),
    ranges: fc.constantFrom(...rangeManners),
    complete: fc.constantFrom('always' as const, 'never' as const),
    resumeAttempts: fc.constantFrom(0, 3),
    openRanges: fc.constantFrom('grow' as const, 'whole' as const),
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
    steps: episodes(episode),
  };
  // One transfer brings the whole where another one brings a part of it.
  const flapping = {
    ...any,
    size: some(3000, 6000),
    lifetime: fc.constant('max-age=60'),
    validator: fc.constant('strong' as const),
    ranges: fc.constant('flapping' as const),
    digest: fc.constantFrom('none' as const, 'right' as const),
    steps: episodes(seek(unit)),
  };
  return fc.oneof(
    often(1, fc.record(flapping)),
    often(4, fc.record(any)),
    often(1, fc.record(legacy)),
    often(steadyWeight, fc.record(steady)),
  );
}

/** Any plan for a store in memory, which has the faults that it is told to have. */
export const plans: fc.Arbitrary<Plan> = createPlans({
  unit: 1,
  step: fc.oneof(often(45, anyStep(1)), often(4, toldFault)),
  episode: fc.oneof(transfer, transfer, overwrite, crossing),
  steadyWeight: 1,
});

const diskUnit = 16;
/** Any plan for a store on a disk that has faults, with restarts. Its bodies are in files and in the index. */
export const diskPlans: fc.Arbitrary<Plan> = createPlans({
  unit: diskUnit,
  step: fc.oneof(often(45, anyStep(diskUnit)), often(6, diskStep)),
  episode: fc.oneof(often(3, transfer), often(1, overwrite), often(1, crossing), often(2, damagedFile)),
  steadyWeight: 5,
});
