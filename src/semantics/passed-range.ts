/** The Range of a request that is passed on as it is: in a form that asks for no byte twice. */

import { formatRange, parseRange, type RangeSpec } from './range.ts';

/** More ranges than this are not passed on in one request. */
const maxRanges = 100;

/**
 * The value to pass on; undefined where the field is left out, as every recipient may do (RFC 9110 §14.2): where it is
 * malformed or too long, has too many ranges, or has ranges of which it cannot be told whether they overlap. Closed and open
 * ranges that overlap or adjoin become one, and all come in ascending order (§14.1.2, §17.15): an origin that sends a part for
 * each range would otherwise send the same bytes as often as a client likes. Other units are for the origin to understand.
 */
export function passedRange(lines: readonly string[]): string | undefined {
  const [line, ...more] = lines;
  if (line === undefined || more.length > 0) return undefined;
  const parsed = parseRange(line, { maxRanges });
  if (parsed.kind === 'ignored') return parsed.reason === 'unknown-unit' ? line : undefined;
  const { specs } = parsed;
  if (specs.length === 1) return formatRange(specs);
  // Where a suffix begins, only the length of the whole tells.
  const started = specs.filter((spec) => spec.kind !== 'suffix');
  return started.length === specs.length ? formatRange(joined(started)) : undefined;
}

type StartedSpec = Exclude<RangeSpec, { kind: 'suffix' }>;

function joined(specs: readonly StartedSpec[]): readonly StartedSpec[] {
  const result: StartedSpec[] = [];
  for (const next of specs.toSorted((a, b) => a.first - b.first)) {
    const current = result.at(-1);
    if (current === undefined || next.first > lastOf(current) + 1) result.push(next);
    else if (lastOf(next) > lastOf(current)) result[result.length - 1] = { ...next, first: current.first };
  }
  return result;
}

function lastOf(spec: StartedSpec): number {
  return spec.kind === 'open' ? Number.POSITIVE_INFINITY : spec.last;
}
