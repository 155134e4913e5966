/** Converts faults of the engine to faults of a store. */

import { StoreFault, toStoreFault } from '../store.ts';
import { EngineFault } from './redis-client.ts';

/** Returns the `StoreFault` of a failure to write: `no_room` where the engine has no memory left, `io` otherwise. */
export function toStoreFaultOf(error: unknown): StoreFault {
  if (!(error instanceof EngineFault)) return toStoreFault(error);
  const reason = error.reason === 'full' ? 'no_room' : 'io';
  return new StoreFault(reason, error.message, { cause: error });
}
