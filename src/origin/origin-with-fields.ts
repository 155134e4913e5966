/** An origin that is given fields that nobody before it knows of. */

import type { Fields } from '../http/fields.ts';
import type { Origin } from './origin.ts';

/** Adds fields to every request: what the operator sets, secrets among it. The caller has taken out what they replace. */
export function createOriginWithFields(origin: Origin, fields: Fields): Origin {
  if (fields.length === 0) return origin;
  return {
    fetch: (request) => origin.fetch({ ...request, fields: [...request.fields, ...fields] }),
    close: () => origin.close(),
  };
}
