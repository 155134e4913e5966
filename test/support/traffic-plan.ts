/** Plans for random traffic: what clients, origin and store are like, and what happens, in any order. */

import fc from 'fast-check';
import type { ContentRules } from './traffic-content.ts';
import {
  anyStep,
  brokenTransfer,
  damagedFile,
  diskStep,
  often,
  overwrite,
  type Step,
  toldFault,
  transfer,
} from './traffic-steps.ts';

/** Under the second ones a response is for the client alone that has asked for it. */
export const sharedLifetimes = ['max-age=60', 'max-age=1', ''];
export const ownLifetimes = ['no-cache', 'max-age=0', 'no-store', 'private'];

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

/** What plans are made of. */
interface PlanParts {
  readonly unit: number;
  readonly step: fc.Arbitrary<Step>;
  /** What happens where much is stored and read again. */
  readonly episode: fc.Arbitrary<Step[]>;
  /** How many of the plans are of that kind, in proportion to five others. */
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
    steps: episodes(episode),
  };
  return fc.oneof(often(4, fc.record(any)), often(1, fc.record(legacy)), often(steadyWeight, fc.record(steady)));
}

/** Any plan for a store in memory, which has the faults that it is told to have. */
export const plans: fc.Arbitrary<Plan> = createPlans({
  unit: 1,
  step: fc.oneof(often(45, anyStep(1)), often(4, toldFault)),
  episode: fc.oneof(transfer, transfer, overwrite),
  steadyWeight: 1,
});

const diskUnit = 16;
/** Any plan for a store on a disk that has faults, with restarts. Its bodies are in files and in the index. */
export const diskPlans: fc.Arbitrary<Plan> = createPlans({
  unit: diskUnit,
  step: fc.oneof(often(45, anyStep(diskUnit)), often(6, diskStep)),
  episode: fc.oneof(often(3, transfer), often(1, overwrite), often(2, damagedFile)),
  steadyWeight: 5,
});
