/** Whether bytes that are kept for long have their memory for themselves. */

/** A view may leave this share of its memory to others: most often that is the head that came with a small body. */
const SPARE_SHARE = 1 / 32;

/** Whether bytes take nearly all of the memory that they lie in: to keep them keeps hardly anything besides. */
export function fillsItsMemory({ byteLength, buffer }: Uint8Array): boolean {
  return buffer.byteLength - byteLength <= byteLength * SPARE_SHARE;
}
