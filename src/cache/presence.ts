/** Whether a generation that is there in part holds all that a request wants. */

import { selectRanges } from '../semantics/range.ts';
import type { Generation } from './generation.ts';
import type { Inquiry } from './inquiry.ts';
import { rangeSpecs } from './plan.ts';

/** Looks at the ranges of the request, or at the whole. */
export function isPresent(generation: Pick<Generation, 'sizeBytes' | 'hasAll'>, inquiry: Inquiry): boolean {
  const { sizeBytes } = generation;
  if (sizeBytes === undefined) return false;
  const specs = rangeSpecs(inquiry);
  const selected = specs.length === 0 ? undefined : selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 });
  if (selected?.kind === 'partial') return selected.spans.every((span) => generation.hasAll(span));
  return generation.hasAll({ start: 0, end: sizeBytes });
}
