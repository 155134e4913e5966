/** The fields by which a request says which trace it belongs to: W3C Trace Context §3, W3C Baggage §3, and B3. */

import { type Fields, withoutFields } from '../http/fields.ts';

/** They are about one request: they go with it from end to end, and with nothing else. */
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

/** What of fields tells of a trace. */
export function traceFields(fields: Fields): Fields {
  return fields.filter(([name]) => traceFieldNames.has(name));
}

/** For what is sent on nobody's behalf, or on somebody else's. */
export function withoutTraceFields(fields: Fields): Fields {
  return fields.some(([name]) => traceFieldNames.has(name)) ? withoutFields(fields, traceFieldNames) : fields;
}
