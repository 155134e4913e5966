/** Plans for random traffic: the properties of clients, origin and store, and steps in random order. */

import fc from 'fast-check';
import type { WholeProxyOptions } from '../proxies/whole-proxy.ts';
import type { ContentRules } from './traffic-content.ts';
import {
  anyStep,
  brokenTransfer,
  crossing,
  damagedFile,
  damagedKey,
  diskStep,
  engineStep,
  failingOverwrite,
  often,
  overwrite,
  processStep,
  type Step,
  seek,
  toldFault,
  transfer,
} from './traffic-steps.ts';

/** Cache-Control values with which a response may be shared; with `ownLifetimes` it may be served to its own client only. */
export const sharedLifetimes = [
  'max-age=60',
  'max-age=1',
  'max-age=1, stale-while-revalidate=3',
  'max-age=1, stale-if-error=3',
  'max-age=1, must-revalidate',
  '',
];
export const ownLifetimes = ['no-cache', 'max-age=0', 'no-store', 'private'];

/** How an origin treats Range: it ignores it, obeys it, alternates between both, or answers wrongly. */
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

/** The settings and steps of a run of random traffic. */
export interface Plan extends ContentRules {
  /** Factor of all sizes. With 1, blocks have 256 bytes. */
  readonly unit: number;
  readonly ranges: (typeof rangeManners)[number];
  readonly complete: 'always' | 'never';
  readonly resumeAttempts: number;
  readonly openRanges: 'grow' | 'whole';
  readonly seekAheadBytes: number;
  /** How many transfers bring one generation at a time, in parts of two blocks; 1: fill.parallel is off. */
  readonly requests: number;
  readonly onAbort: 'finish' | 'stop';
  readonly lifetime: string;
  /** Whether the lifetime is in CDN-Cache-Control and Cache-Control contradicts it. */
  readonly isTargeted: boolean;
  /** Whether all responses are in one group, which unsafe requests invalidate. */
  readonly isGrouped: boolean;
  /** Route options for stale responses. */
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
  /** Size of the memory tier in front of a store on disk or in an engine, in bytes. */
  readonly tierBytes: number;
  /** Whether a turn waits until the disk has finished its calls, or the engine has answered, so that the plan has the same outcome each time. */
  readonly isPatient: boolean;
  readonly steps: readonly Step[];
}

/** Returns the options of the proxy of a plan. */
export function proxyOptions(plan: Plan): WholeProxyOptions {
  const { pinSeconds, staleIfErrorSeconds, staleWhileRevalidateSeconds, wantsDigest } = plan;
  const { onAbort, complete, resumeAttempts, openRanges, seekAheadBytes, requests } = plan;
  const parallel = requests > 1 ? { requests, minBytes: 0, partBytes: 2 * plan.blockSizeBytes } : undefined;
  return {
    blockSizeBytes: plan.blockSizeBytes,
    windowBytes: plan.windowBytes,
    route: { cache: { pinSeconds, staleIfErrorSeconds, staleWhileRevalidateSeconds, digest: wantsDigest } },
    originRanges: plan.ranges === 'none' ? 'never' : 'auto',
    fill: { onAbort, complete, resumeAttempts, openRanges, seekAheadBytes, parallel },
  };
}

/** Parts from which plans are generated. */
interface PlanParts {
  readonly unit: number;
  readonly step: fc.Arbitrary<Step>;
  /** Steps in plans of the kind `steady`. */
  readonly episode: fc.Arbitrary<Step[]>;
  /** Weight of `steady` plans; the other kinds have 6 in sum. */
  readonly steadyWeight: number;
}

/** Generates plans from these parts. */
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
    requests: fc.constantFrom(1, 1, 3),
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
  // Without a validator, only the bytes themselves show that they have changed.
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
  // Bodies are often stored, in part or whole, and read again.
  const steady = {
    ...any,
    size: some(3000, 6000),
    lifetime: fc.constant('max-age=60'),
    ranges: fc.constantFrom('none' as const, 'right' as const),
    digest: fc.constantFrom('none' as const, 'right' as const),
    maxSizeBytes: some(64 * 1024),
    steps: episodes(episode),
  };
  // Some responses have the whole body where others have a part of it.
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

/** Generates plans for a memory store with injected faults. */
export const plans: fc.Arbitrary<Plan> = createPlans({
  unit: 1,
  step: fc.oneof(often(45, anyStep(1)), often(4, toldFault)),
  episode: fc.oneof(transfer, transfer, overwrite, crossing),
  steadyWeight: 1,
});

const diskUnit = 16;
/** Generates plans for a disk store with disk faults and restarts. Its bodies are in files and in the index. */
export const diskPlans: fc.Arbitrary<Plan> = createPlans({
  unit: diskUnit,
  step: fc.oneof(often(45, anyStep(diskUnit)), often(6, diskStep)),
  episode: fc.oneof(often(3, transfer), often(1, overwrite), often(1, crossing), often(2, damagedFile)),
  steadyWeight: 5,
});

const engineUnit = 4;
/** Generates plans for a store in an engine with faults of the engine and restarts. */
export const enginePlans: fc.Arbitrary<Plan> = createPlans({
  unit: engineUnit,
  step: fc.oneof(often(45, anyStep(engineUnit)), often(6, engineStep)),
  episode: fc.oneof(
    often(3, transfer),
    often(1, overwrite),
    often(1, crossing),
    often(2, damagedKey),
    often(2, failingOverwrite),
  ),
  steadyWeight: 5,
});

/** Adds the deaths of processes to plans. */
export function withDeaths(some: fc.Arbitrary<Plan>): fc.Arbitrary<Plan> {
  return fc.tuple(some, fc.array(fc.tuple(fc.nat(80), processStep), { maxLength: 3 })).map(([plan, deaths]) => {
    const steps = [...plan.steps];
    for (const [at, death] of deaths) steps.splice(at % (steps.length + 1), 0, death);
    return { ...plan, steps };
  });
}
