/** The fields by which a request names its trace: W3C Trace Context §3, W3C Baggage §3, and B3. */

import { type Fields, withoutFields } from '../http/fields.ts';

/** These fields describe one request. They are passed on with it from end to end, and with no other request. */
const traceFieldNames: ReadonlySet<string> = new Set([
  'traceparent',
  'tracestate',
  'baggage',
  'b3',
  'x-b3-traceid',
  'x-b3-spanid',
  'x-b3-parentspanid',
  'x-b3-sampled',
  'x-b3-flags',
]);

/** Picks the trace fields. */
export function traceFields(fields: Fields): Fields {
  return fields.filter(([name]) => traceFieldNames.has(name));
}

/** Removes the trace fields, for a request that is sent on behalf of no client or of another request. */
export function withoutTraceFields(fields: Fields): Fields {
  return fields.some(([name]) => traceFieldNames.has(name)) ? withoutFields(fields, traceFieldNames) : fields;
}
