/** Whether the engine (Redis or Valkey) of the store can be used, and evicts as a cache needs it. */

import { sizeText } from '../text-sections.ts';
import { type Diagnosis, fine, found } from './diagnosis.ts';

/** Facts of the engine of a store. */
export interface EngineFacts {
  /** Where it is, without secrets. */
  readonly place: string;
  /** What it answered; or why it could not be asked. */
  readonly state:
    | {
        readonly kind: 'answers';
        /** Such as `Redis 7.0.15`. */
        readonly product: string;
        readonly version: readonly [number, number];
        /** The longest of several round trips, in milliseconds. */
        readonly roundTripMs: number;
        /** `maxmemory` and `maxmemory-policy` of each server with keys. */
        readonly nodes: readonly { readonly maxBytes: number; readonly policy: string }[];
        /** Why a key could not be written; undefined where it could. */
        readonly writeFault: string | undefined;
      }
    | { readonly kind: 'away'; readonly reason: string };
}

/** A round trip that is longer makes hits from the engine slow. In milliseconds. */
const slowMs = 5;

/** Returns the findings about the engine of a store. */
export function judgeEngine({ place, state }: EngineFacts): readonly Diagnosis[] {
  if (state.kind === 'away') {
    const what = `no engine answers: ${state.reason}; the server starts all the same, and stores nothing until it does`;
    return [found('problem', 'store', what, 'start it; or check store.url, username, password and tls', place)];
  }
  const { product, version, roundTripMs, nodes, writeFault } = state;
  const [major, minor] = version;
  if (major < 6 || (major === 6 && minor < 2)) {
    return [found('problem', 'store', `${product} is too old`, 'Redis 6.2 or later, or Valkey', place)];
  }
  if (writeFault !== undefined) {
    const what = `${product} takes no writes: ${writeFault}`;
    return [found('problem', 'store', what, 'its master in place of a replica; or rights for the user', place)];
  }
  return [
    roundTripMs > slowMs
      ? found(
          'warning',
          'store',
          `${product} answers after ${Math.round(roundTripMs)} ms: hits that are not in memory wait for it`,
          'an engine that is nearer; or more store.memoryBytes (--memory)',
          place,
        )
      : fine('store', `${product} answers within ${Math.max(1, Math.ceil(roundTripMs))} ms and takes writes`, place),
    ...judgeEviction(nodes, place),
  ];
}

function judgeEviction(
  nodes: readonly { readonly maxBytes: number; readonly policy: string }[],
  place: string,
): readonly Diagnosis[] {
  if (nodes.some(({ maxBytes }) => maxBytes === 0)) {
    const what = 'the engine has no maxmemory: it grows until its machine has no memory left';
    return [found('warning', 'space', what, 'maxmemory and maxmemory-policy allkeys-lru in its configuration', place)];
  }
  const policies = [...new Set(nodes.map(({ policy }) => policy))].join(', ');
  const size = sizeText(nodes.reduce((sum, { maxBytes }) => sum + maxBytes, 0));
  if (policies.includes('noeviction')) {
    const what = `the engine refuses writes when its ${size} are full (noeviction): nothing new is stored then`;
    return [found('warning', 'space', what, 'maxmemory-policy allkeys-lru in its configuration', place)];
  }
  if (policies.includes('random')) {
    const what = `the engine evicts at random (${policies}): often what is wanted, and the index of the store`;
    return [found('warning', 'space', what, 'maxmemory-policy allkeys-lru in its configuration', place)];
  }
  return [fine('space', `the engine keeps up to ${size}, and evicts by ${policies}`, place)];
}
