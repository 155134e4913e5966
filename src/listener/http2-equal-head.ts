/** What precedents are found by: all that the head of a request says, but the value of its Range field. */

/** A head that may be equal to an earlier one. */
export interface EqualHead {
  /** All names and values in their order, the value of Range left out. */
  readonly text: string;
  /** The value of Range; undefined where there is none. */
  readonly range: string | undefined;
}

/** The values that are left out: other ones mean something else than which bytes are asked for. */
const byteRanges = /^bytes=[0-9,-]+$/;

/**
 * Puts the header list of a request (names and values in turn, pseudo-fields included) into a text. Two lists have the same
 * text only if they are the same but for Range: no name and no value has a line feed (RFC 9113 §8.2.1), which nghttp2 sees
 * to. Undefined for a list that has more than one Range, or one of another form, and for one that might be larger than
 * `mostBytes`, as `fieldsSize` counts: those are for the whole road.
 */
export function readEqualHead(rawHeaders: readonly string[], mostBytes: number): EqualHead | undefined {
  let text = '';
  let range: string | undefined;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    const value = rawHeaders[at + 1] as string;
    if (name !== 'range') {
      text += `${name}\n${value}\n`;
    } else {
      if (range !== undefined || !byteRanges.test(value)) return undefined;
      range = value;
      text += 'range\n\n';
    }
  }
  // A field counts with four bytes more than its name and its value, of which the text has two.
  const sizeBytes = text.length + rawHeaders.length + (range?.length ?? 0);
  return sizeBytes > mostBytes ? undefined : { text, range };
}
