/** The steps of random traffic: requests of clients, actions of the origin, and faults of the store. */

import fc from 'fast-check';
import type { Sent } from '../proxies/whole-proxy.ts';

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
  { method: 'POST' },
  { method: 'HEAD', fields: { 'cache-control': 'no-cache' } },
  { method: 'HEAD', fields: { 'cache-control': 'no-cache', authorization: 'x' } },
  { fields: { authorization: 'x', 'cache-control': 'no-cache' } },
  { fields: { 'cache-control': 'max-age=0' } },
  { fields: { 'cache-control': 'stale-if-error=9' } },
  { fields: { 'if-range': '"1"', range: 'bytes=600-' } },
  { fields: { 'if-range': '"1"', range: 'bytes=99999-' } },
  { fields: { 'if-range': '"2"', range: 'bytes=-300' } },
  { fields: { authorization: 'x', range: 'bytes=1000-1500' } },
  { fields: { 'cache-control': 'only-if-cached', range: 'bytes=0-9' } },
  { fields: { 'cache-control': 'max-age=0', range: 'bytes=700-' } },
  { fields: { 'cache-control': 'max-stale', range: 'bytes=1200-1300' } },
];
/** The targets of requests. */
export const targets = ['/file', '/other'];

/** Gives an arbitrary a weight. */
export const often = <T>(weight: number, arbitrary: fc.Arbitrary<T>): fc.WeightedArbitrary<T> => ({
  weight,
  arbitrary,
});
const one = <const K extends string>(kind: K) => fc.constant({ kind });

const rareStoreSteps = ['publish', 'resume'] as const;

/**
 * Generates steps for any store. `who` is the index of a client or of a running exchange of the origin (modulo their number). A
 * `swap` breaks a transfer off and changes the version.
 */
export const anyStep = (unit: number) =>
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
    often(
      5,
      fc.record({
        kind: fc.constant('head' as const),
        who: fc.constantFrom(0, 0, 0, 1, 2),
        isEarly: fc.constantFrom(false, false, true),
        isSized: fc.boolean(),
        is304: fc.boolean(),
        isWhole: fc.boolean(),
      }),
    ),
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
    often(1, fc.record({ kind: fc.constant('status' as const), status: fc.constantFrom(404, 401, 500, 503, 501) })),
    often(4, one('turn')),
  );

/** Generates faults that are injected into a store. */
export const toldFault = fc.oneof(
  one('fill-disk'),
  fc.record({ kind: fc.constant('damage' as const), index: fc.nat(3) }),
  fc.record({ kind: fc.constant('lose' as const), index: fc.nat(12) }),
  fc.record({
    kind: fc.constant('fault' as const),
    step: fc.constantFrom('commit' as const, 'openWriter' as const, ...rareStoreSteps),
  }),
);

/** Generates damage to a file. `who` is the index of a file, `at` that of a byte (each modulo their number). */
const fileDamage = fc.record({
  kind: fc.constant('file-damage' as const),
  manner: fc.constantFrom('flip' as const, 'flip' as const, 'flip' as const, 'truncate' as const, 'delete' as const),
  who: fc.nat(19),
  at: fc.nat(200_000),
});

/** Generates faults of a real disk, and restarts of the server. */
export const diskStep = fc.oneof(
  often(3, fileDamage),
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

/**
 * Generates damage to a key of an engine: a bit of its value changes, its end is missing, or it is evicted. An index is always evicted.
 * `who` is the index of a key, `at` that of a byte (each modulo their number).
 */
const engineDamage = fc.record({
  kind: fc.constant('engine-damage' as const),
  of: fc.constantFrom('block' as const, 'block' as const, 'entry' as const, 'entry' as const, 'index' as const),
  manner: fc.constantFrom('flip' as const, 'flip' as const, 'truncate' as const, 'evict' as const),
  who: fc.nat(49),
  at: fc.nat(20_000),
});

/** Generates a fault that lasts until `engine-heal`, or cut connections. `who` is the index of a server of a Cluster. */
const engineFault = fc.record({
  kind: fc.constant('engine-fault' as const),
  on: fc.constantFrom('full' as const, 'readonly' as const, 'paused' as const, 'cut' as const),
  who: fc.nat(5),
});

/**
 * Generates the loss of the next commands of a process (`who` modulo their number), as where a connection breaks: the engine has got
 * them (`isDone`) or not.
 */
const engineLost = fc.record({
  kind: fc.constant('engine-lost' as const),
  count: fc.constantFrom(1, 1, 2, 4),
  isDone: fc.boolean(),
  who: fc.nat(5),
});

/** Generates faults of a real engine, and restarts of the server. */
export const engineStep = fc.oneof(
  often(4, engineDamage),
  often(3, engineFault),
  often(3, engineLost),
  often(3, one('engine-heal')),
  often(1, one('engine-flush')),
  often(3, one('restart')),
);

/** Generates the death of one of several processes (`who` modulo their number). The last process stays. */
export const processStep = fc.record({ kind: fc.constant('die' as const), who: fc.nat(5) });
export type ProcessStep = Arbitrated<typeof processStep>;

type Arbitrated<T> = T extends fc.Arbitrary<infer V> ? V : never;
export type ToldFault = Arbitrated<typeof toldFault>;
export type DiskStep = Arbitrated<typeof diskStep>;
export type EngineStep = Arbitrated<typeof engineStep>;
/** One step. */
export type Step = Arbitrated<ReturnType<typeof anyStep>> | ToldFault | DiskStep | EngineStep | ProcessStep;

/** Generates a transfer that breaks off with a version change while a client reads it, and is answered anew from the beginning. */
export const brokenTransfer = (unit: number): fc.Arbitrary<Step[]> =>
  fc
    .record({
      isSized: fc.boolean(),
      counts: fc.array(fc.oneof(fc.nat(900 * unit), fc.nat(200 * unit)), { minLength: 1, maxLength: 3 }),
    })
    .map(({ isSized, counts }) => [
      { kind: 'send', sent: {}, target: '/file' },
      { kind: 'turn' },
      { kind: 'head', who: 0, isEarly: false, isSized, is304: false, isWhole: true },
      ...counts.flatMap((count): Step[] => [{ kind: 'chunk', who: 0, count }, { kind: 'turn' }]),
      { kind: 'swap', who: 0 },
      { kind: 'turn' },
      { kind: 'advance', ms: 500 },
      { kind: 'turn' },
      { kind: 'head', who: 0, isEarly: false, isSized, is304: false, isWhole: true },
    ]);

/** Generates a request for a few bytes, for which the origin begins to send the range or the whole body. */
export const seek = (unit: number): fc.Arbitrary<Step[]> =>
  fc
    .record({
      range: fc.constantFrom('bytes=0-9', 'bytes=300-310', 'bytes=1200-1300', 'bytes=2560-2815', 'bytes=-7'),
      isWhole: fc.boolean(),
    })
    .map(({ range, isWhole }) => [
      { kind: 'send', sent: enlarge({ fields: { range } }, unit), target: '/file' },
      { kind: 'turn' },
      { kind: 'head', who: 0, isEarly: false, isSized: true, is304: false, isWhole },
      { kind: 'turn' },
    ]);

/** Generates a request and a complete transfer. */
export const transfer: fc.Arbitrary<Step[]> = fc
  .constantFrom(...targets)
  .map((target) => [
    { kind: 'send', sent: {}, target },
    { kind: 'turn' },
    { kind: 'head', who: 0, isEarly: false, isSized: true, is304: false, isWhole: true },
    { kind: 'turn' },
    { kind: 'finish', who: 0 },
    { kind: 'turn' },
    { kind: 'turn' },
  ]);

/** Generates a PUT, then a GET of the same target. */
export const overwrite: fc.Arbitrary<Step[]> = fc
  .constantFrom(...targets)
  .map((target) => [
    { kind: 'send', sent: { method: 'PUT' }, target },
    { kind: 'turn' },
    { kind: 'head', who: 0, isEarly: false, isSized: true, is304: false, isWhole: true },
    { kind: 'turn' },
    { kind: 'turn' },
    { kind: 'send', sent: {}, target },
    { kind: 'turn' },
  ]);

/** Generates a request that the origin answers only after a later PUT, and perhaps after a GET that follows the PUT. */
export const crossing: fc.Arbitrary<Step[]> = fc
  .record({
    asked: fc.constantFrom<Sent>(
      {},
      { method: 'POST' },
      { method: 'HEAD', fields: { 'cache-control': 'no-cache' } },
      { fields: { 'cache-control': 'no-cache' } },
    ),
    written: fc.constantFrom(...targets),
    between: fc.constantFrom('nothing', 'a waiting GET', 'an answered GET'),
    is304: fc.boolean(),
  })
  .map(({ asked, written, between, is304 }) => [
    { kind: 'send', sent: asked, target: '/file' },
    { kind: 'turn' },
    { kind: 'send', sent: { method: 'PUT' }, target: written },
    ...answering(1, { is304: false, isEarly: false }),
    ...(between === 'nothing' ? [] : [{ kind: 'send', sent: {}, target: '/file' } as const, { kind: 'turn' } as const]),
    ...(between === 'an answered GET' ? answering(1, { is304: false, isEarly: false }) : []),
    ...answering(0, { is304, isEarly: true }),
    { kind: 'send', sent: {}, target: '/file' },
    { kind: 'turn' },
  ]);

/** Generates a PUT of what is stored while the engine fails, and GETs that must not get the earlier version, also when it is healed. */
export const failingOverwrite: fc.Arbitrary<Step[]> = fc
  .record({
    fault: fc.oneof(engineFault, engineLost),
    target: fc.constantFrom(...targets),
    heals: fc.boolean(),
    ms: fc.constantFrom(500 as const, 2000 as const),
  })
  .map(({ fault, target, heals, ms }) => [
    { kind: 'send', sent: {}, target },
    ...answering(0, { is304: false, isEarly: false }),
    fault,
    { kind: 'send', sent: { method: 'PUT' }, target },
    ...answering(0, { is304: false, isEarly: false }),
    ...(heals ? [{ kind: 'engine-heal' } as const] : []),
    { kind: 'advance', ms },
    { kind: 'turn' },
    { kind: 'send', sent: {}, target },
    { kind: 'turn' },
    { kind: 'turn' },
  ]);

/** Returns the steps with which the origin answers a request completely. */
function answering(who: 0 | 1, manner: { readonly is304: boolean; readonly isEarly: boolean }): Step[] {
  return [
    { kind: 'turn' },
    { kind: 'head', who, isSized: true, isWhole: true, ...manner },
    { kind: 'turn' },
    { kind: 'finish', who: 0 },
    { kind: 'turn' },
    { kind: 'turn' },
  ];
}

/** Generates damage to a file, then a request. */
export const damagedFile = damageThenRequest(fileDamage);
/** Generates damage to a key of an engine, then a request. */
export const damagedKey = damageThenRequest(engineDamage);

function damageThenRequest(damages: fc.Arbitrary<Step>): fc.Arbitrary<Step[]> {
  return fc
    .record({ damage: damages, target: fc.constantFrom(...targets) })
    .map(({ damage, target }) => [
      damage,
      { kind: 'send', sent: {}, target },
      { kind: 'turn' },
      { kind: 'turn' },
      { kind: 'turn' },
    ]);
}

/** Scales the Range of a request by `unit`. */
function enlarge(sent: Sent, unit: number): Sent {
  const range = sent.fields?.['range']?.replaceAll(/(-?)(\d+)/g, (_, dash: string, digits: string) =>
    dash === '' ? String(Number(digits) * unit) : `-${(Number(digits) + 1) * unit - 1}`,
  );
  return range === undefined ? sent : { ...sent, fields: { ...sent.fields, range } };
}
