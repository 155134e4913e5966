/** Which endpoint a request is for, and what its target gives it. */

import type { Endpoint } from './endpoint.ts';

/** What is at a path: its endpoints, of different methods, and the parameters that the path has. */
export interface Place {
  readonly endpoints: readonly Endpoint[];
  readonly parameters: Parameters;
}

type Parameters = ReadonlyMap<string, string>;

/** Parameters by their names, or why there are none. */
export type ParametersReading =
  | { readonly kind: 'parameters'; readonly values: Readonly<Record<string, string>> }
  | { readonly kind: 'refused'; readonly reason: string };

/** What is at a path. It is taken as it stands, but for the segments that are parameters; undefined where nothing is. */
export function findPlace(table: readonly Endpoint[], path: string): Place | undefined {
  for (const { path: pattern } of table) {
    const parameters = matchPath(pattern, path);
    if (parameters !== undefined) return { endpoints: table.filter((each) => each.path === pattern), parameters };
  }
  return undefined;
}

/** What Allow says of a place (RFC 9110 §10.2.1). */
export function allowedAt({ endpoints }: Place): string {
  const methods = endpoints.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
  return [...methods, 'OPTIONS'].join(', ');
}

/** The endpoint of a method; HEAD is that of GET. */
export function endpointAt({ endpoints }: Place, method: string): Endpoint | undefined {
  return endpoints.find((each) => each.method === (method === 'HEAD' ? 'GET' : method));
}

/** The parameters of a place and of a query, each of which is there once at most. */
export function readParameters({ parameters }: Place, query: string): ParametersReading {
  if (decode(query) === undefined) return { kind: 'refused', reason: 'the query is not percent-encoded UTF-8' };
  const values = new Map(parameters);
  for (const [name, value] of new URLSearchParams(query)) {
    if (values.has(name)) return { kind: 'refused', reason: `${JSON.stringify(name)} is there twice` };
    values.set(name, value);
  }
  return { kind: 'parameters', values: Object.fromEntries(values) };
}

function matchPath(pattern: string, path: string): Parameters | undefined {
  const expected = pattern.split('/');
  const segments = path.split('/');
  if (segments.length !== expected.length) return undefined;
  const parameters = new Map<string, string>();
  for (const [index, segment] of segments.entries()) {
    const name = /^\{(\w+)\}$/.exec(expected[index] ?? '')?.[1];
    if (name === undefined) {
      if (segment !== expected[index]) return undefined;
      continue;
    }
    const value = decode(segment);
    if (value === undefined || value === '') return undefined;
    parameters.set(name, value);
  }
  return parameters;
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
