/** Preloaded by `node --import`: writes each span that has ended to standard error, as a line `span` with JSON. */

import { recordSpans } from '../proxies/recorded-spans.ts';

recordSpans(({ name, kind, traceId, spanId, parentId, attributes }) => {
  process.stderr.write(`span ${JSON.stringify({ name, kind, traceId, spanId, parentId, attributes })}\n`);
});
