/** Several spans in one body, where that costs less than the whole. */

import { type ByterangesFraming, createBoundary, frameByteranges } from '../semantics/byteranges.ts';
import { type PartialSelection, partType, type Selectable } from './selection.ts';

/** A multipart body may cost this much more than the whole before the whole is sent instead, in bytes. */
const MAX_MULTIPART_EXCESS_BYTES = 4096;

/** Frames the spans of a response; undefined where the whole is to be sent. `random` gives random bytes. */
export function frameParts(
  { spans, sizeBytes }: PartialSelection,
  response: Selectable,
  random: (size: number) => Uint8Array,
): ByterangesFraming | undefined {
  const framing = frameByteranges(spans, { sizeBytes, contentType: partType(response) }, createBoundary(random));
  return framing.sizeBytes > sizeBytes + MAX_MULTIPART_EXCESS_BYTES ? undefined : framing;
}
