/** The parameters of a query, which of them tell two resources apart, and the patterns by which an operator names them. */

/**
 * Which parameters count: all of them as they are, none, only those listed, or all but those listed. Names are listed as
 * they read after percent-decoding; `utm_*` stands for every name that begins with `utm_`.
 */
export type QuerySelection =
  | 'all'
  | 'none'
  | { readonly keep: readonly string[] }
  | { readonly ignore: readonly string[] };

/**
 * The part of a query that counts, order and bytes as they were; empty when nothing of it does. `query` is empty or begins
 * with `?`. For other selections than `none`: origins do not agree on whether `;` begins a parameter, so that what holds
 * one always counts. Otherwise `?ignored=1;id=2` would get one origin's `id=2` stored for everybody who asks without it.
 */
export function selectParameters(query: string, selection: QuerySelection): string {
  if (selection === 'all' || query === '') return query;
  if (selection === 'none') return '';
  const parameters = query.slice(1).split('&');
  const kept = parameters.filter(
    (parameter) => parameter.includes(';') || doesCount(parameterName(parameter), selection),
  );
  return kept.length === 0 ? '' : `?${kept.join('&')}`;
}

/** Whether a query has a parameter with one of these names, in the reading of those who separate with `;` too. */
export function hasParameter(query: string, names: readonly string[]): boolean {
  return query
    .slice(1)
    .split(/[&;]/)
    .some((parameter) => isListed(parameterName(parameter), names));
}

function doesCount(name: string, selection: Exclude<QuerySelection, string>): boolean {
  return 'keep' in selection ? isListed(name, selection.keep) : !isListed(name, selection.ignore);
}

/** Decoded once (RFC 3986 §2.4); what is no encoded UTF-8 stays as it is. */
function parameterName(parameter: string): string {
  const end = parameter.indexOf('=');
  const name = end < 0 ? parameter : parameter.slice(0, end);
  if (!name.includes('%')) return name;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Whether a name is in the list; `utm_*` stands for every name that begins with `utm_`. Letter case counts. */
export function isListed(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
