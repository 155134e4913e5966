/** The validation of what is being served stale (RFC 5861 §3), which belongs to no request. */

import { traceFields, withoutTraceFields } from '../semantics/trace-context.ts';
import type { StoredEntry } from '../store/store.ts';
import { isFor } from './asker.ts';
import { finishAlways } from './fill-policy.ts';
import type { Flight } from './flight.ts';
import { changedInquiry, type Inquiry } from './inquiry.ts';

/** Whether one of the flights of its key may bring what tells whether an entry is current: it is not asked for twice then. */
export function isBeingValidated(flights: readonly Flight[], entry: StoredEntry, inquiry: Inquiry): boolean {
  return flights.some((flight) => {
    if (flight.hasOpen(entry.generation)) return false;
    return flight.generation === undefined || isFor(flight.generation.response, inquiry);
  });
}

/** The same question, asked on nobody's behalf: nobody is told of what comes before the response, or ends it by leaving. */
export function unattended(inquiry: Inquiry): Inquiry {
  const { policy, originFields } = inquiry;
  const fill = { ...policy.fill, ...finishAlways };
  return changedInquiry(inquiry, {
    originFields: withoutTraceFields(originFields),
    causedBy: traceFields(originFields),
    policy: { ...policy, fill },
    isUnattended: true,
    onInterim: () => {},
  });
}
