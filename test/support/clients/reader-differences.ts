/** Compares our request reader with Node's: ours may read the same or less, and nothing else. */

import { isDeepStrictEqual } from 'node:util';
import { fieldValue, hasField } from '../../../src/http/fields.ts';
import type { RequestReading, StreamReading } from './llhttp.ts';

/** Node's error code for bytes after a request with `Connection: close`. */
const afterLast = 'HPE_CLOSED_CONNECTION';

/**
 * Returns the first request that ours reads and theirs does not, or reads differently. Returns undefined where our reading is the
 * same or stricter.
 */
export function differenceOf(ours: StreamReading, theirs: StreamReading): string | undefined {
  for (const [at, request] of ours.requests.entries()) {
    const other = theirs.requests[at];
    if (other === undefined) return isOver(theirs) ? undefined : `request ${at} is none: ${theirs.fault}`;
    const difference = differenceOfHeads(request, other) ?? differenceOfBodies(request, other);
    if (difference !== undefined) return `request ${at}: ${difference}`;
  }
  return undefined;
}

/** Checks that Node's reader has stopped by design: after a `Connection: close` request, or after one that asks for an upgrade. */
function isOver({ fault, requests }: StreamReading): boolean {
  const fields = requests.at(-1)?.fields ?? [];
  const asksForUpgrade = hasField(fields, 'upgrade') && /upgrade/i.test(fieldValue(fields, 'connection') ?? '');
  return fault === afterLast || (fault === undefined && asksForUpgrade);
}

function differenceOfHeads(ours: RequestReading, theirs: RequestReading): string | undefined {
  for (const part of ['method', 'target', 'version', 'fields'] as const) {
    if (!isDeepStrictEqual(ours[part], theirs[part])) return describe(part, ours[part], theirs[part]);
  }
  return undefined;
}

function differenceOfBodies(ours: RequestReading, theirs: RequestReading): string | undefined {
  if (!theirs.body.startsWith(ours.body)) return describe('body', ours.body, theirs.body);
  if (!ours.isComplete) return undefined;
  if (!theirs.isComplete) return 'it ends for us only';
  if (ours.body !== theirs.body) return describe('body', ours.body, theirs.body);
  return isDeepStrictEqual(ours.trailers, theirs.trailers)
    ? undefined
    : describe('trailers', ours.trailers, theirs.trailers);
}

function describe(part: string, ours: unknown, theirs: unknown): string {
  return `${part}: ours ${JSON.stringify(ours)}, theirs ${JSON.stringify(theirs)}`;
}
