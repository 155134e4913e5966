/** Which requests are not for the cache, as the operator decided. */

import { type Fields, hasField } from '../http/fields.ts';
import { parseCookies } from './cookies.ts';
import { hasParameter, isListed } from './query.ts';

/** What a request must have for going past the cache, whatever its value: one of these is enough. */
export interface BypassConditions {
  /** Names of request fields, in lower case. */
  readonly fields: readonly string[];
  /** Names of cookies; `session_*` stands for every name that begins with `session_`. */
  readonly cookies: readonly string[];
  /** Names of query parameters as they read after percent-decoding; `preview_*` as for cookies. */
  readonly queryParameters: readonly string[];
}

/** Whether a request has one of these fields, cookies or query parameters. `target` may have a query. */
export function meetsBypass(
  { target, fields }: { readonly target: string; readonly fields: Fields },
  conditions: BypassConditions,
): boolean {
  return (
    conditions.fields.some((name) => hasField(fields, name)) ||
    (conditions.cookies.length > 0 && parseCookies(fields).some(({ name }) => isListed(name, conditions.cookies))) ||
    (conditions.queryParameters.length > 0 && hasParameter(queryOf(target), conditions.queryParameters))
  );
}

function queryOf(target: string): string {
  const mark = target.indexOf('?');
  return mark < 0 ? '' : target.slice(mark);
}
