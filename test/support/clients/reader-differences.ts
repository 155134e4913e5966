/** What our reader of requests may make of bytes, by what Node's makes of them. */

import { isDeepStrictEqual } from 'node:util';
import { fieldValue, hasField } from '../../../src/http/fields.ts';
import type { RequestReading, StreamReading } from './llhttp.ts';

/** What Node's reader calls that which comes after a request that said it was the last. */
const afterLast = 'HPE_CLOSED_CONNECTION';

/**
 * Where our reading is not the other one or stricter: a request that the other has not, or reads in another way. Undefined
 * where there is no such difference.
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

/** Node's reader drops what comes with a request that asks for another protocol, behind its end. */
function isOver({ fault, requests }: StreamReading): boolean {
  const fields = requests.at(-1)?.fields ?? [];
  const asksForUpgrade = hasField(fields, 'upgrade') && /upgrade/i.test(fieldValue(fields, 'connection') ?? '');
  return fault === afterLast || (fault === undefined && asksForUpgrade);
}

function differenceOfHeads(ours: RequestReading, theirs: RequestReading): string | undefined {
  for (const part of ['method', 'target', 'version', 'fields'] as const) {
    if (!isDeepStrictEqual(ours[part], theirs[part])) return told(part, ours[part], theirs[part]);
  }
  return undefined;
}

function differenceOfBodies(ours: RequestReading, theirs: RequestReading): string | undefined {
  if (!theirs.body.startsWith(ours.body)) return told('body', ours.body, theirs.body);
  if (!ours.isComplete) return undefined;
  if (!theirs.isComplete) return 'it ends for us only';
  if (ours.body !== theirs.body) return told('body', ours.body, theirs.body);
  return isDeepStrictEqual(ours.trailers, theirs.trailers)
    ? undefined
    : told('trailers', ours.trailers, theirs.trailers);
}

function told(part: string, ours: unknown, theirs: unknown): string {
  return `${part}: ours ${JSON.stringify(ours)}, theirs ${JSON.stringify(theirs)}`;
}
