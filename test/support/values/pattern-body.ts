/** Bodies whose bytes are a function of the offset, so that any slice can be verified by itself. */

/** The largest prime below 2^32: folds big offsets without a period that is a power of two. */
const foldAt = 4_294_967_291;

/** Returns the byte at an absolute offset of the body of a seed. */
export function patternByte(offset: number, seed = 0): number {
  let mixed = ((offset % foldAt) + Math.imul(seed + 1, 0x9e37_79b1)) | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) & 0xff;
}

/**
 * Returns the bytes `[start, end)` of the body of a seed, in an ArrayBuffer of their own. Bodies of other seeds differ, and so do
 * slices at other offsets.
 */
export function patternBytes(start: number, end: number, seed = 0): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(end - start);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = patternByte(start + at, seed);
  return bytes;
}
