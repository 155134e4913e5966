/** Decides which requests bypass the cache, by the operator's conditions. */

import { type Fields, hasField } from '../http/fields.ts';
import { parseCookies } from './cookies.ts';
import { hasParameter, isListed } from './query.ts';

/** Conditions for a bypass: one match is enough, whatever the value. */
export interface BypassConditions {
  /** Names of request fields, in lower case. */
  readonly fields: readonly string[];
  /** Names of cookies; `session_*` stands for every name that begins with `session_`. */
  readonly cookies: readonly string[];
  /** Names of query parameters in percent-decoded form; `preview_*` as for cookies. */
  readonly queryParameters: readonly string[];
}

/** Checks whether a request has one of these fields, cookies or query parameters. `target` may have a query. */
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
