/** Keeps texts and bytes that live long from keeping the larger memory that they were cut out of. */

/** A view may leave this share of its memory to others: most often that is the head that came with a small body. */
const SPARE_SHARE = 1 / 32;

/** Whether bytes take nearly all of the memory that they lie in: to keep them keeps hardly anything besides. */
export function fillsItsMemory({ byteLength, buffer }: Uint8Array): boolean {
  return buffer.byteLength - byteLength <= byteLength * SPARE_SHARE;
}

/**
 * The same text in memory of its own. An engine cuts a text out of a longer one without a copy: the value of one field that is
 * kept would keep the whole head of its request.
 */
export function ownText(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}
