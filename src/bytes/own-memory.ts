/** Prevents long-lived texts and bytes from retaining the larger memory that they are slices of. */

/** The share of other memory, relative to its own length, that a view may retain: most often that is the head before a small body. */
const SPARE_SHARE = 1 / 32;

/** Checks whether bytes fill nearly all of their buffer, so that keeping them retains hardly any other memory. */
export function fillsItsMemory({ byteLength, buffer }: Uint8Array): boolean {
  return buffer.byteLength - byteLength <= byteLength * SPARE_SHARE;
}

/**
 * Returns the same text in memory of its own. The engine slices texts without copying: a stored field value would retain the
 * whole head of its request.
 */
export function ownText(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}
