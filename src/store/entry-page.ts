/** Pages of entries: which of them are chosen by a prefix, and where the next page begins. */

/** A place in a list, as the parts by which the list is ordered. */
export type ListPlace = readonly (string | number)[];

/**
 * Whether a key begins with a text, code unit by code unit. Keys are whole characters, so that half of one (a lone
 * surrogate) begins none, which every store can tell alike.
 */
export function isPrefixOf(prefix: string, key: string): boolean {
  return prefix.isWellFormed() && key.startsWith(prefix);
}

/** A place as a text for those who ask for pages, of letters, digits, `-` and `_`. */
export function formatCursor(place: ListPlace): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

/** The place of such a text, of which each part has the type that is told. Throws `RangeError` for any other text. */
export function parseCursor<Place extends ListPlace>(text: string, like: Place): Place {
  const place = parseJson(Buffer.from(text, 'base64url').toString());
  const isPlace =
    Array.isArray(place) && place.length === like.length && place.every((part, at) => typeof part === typeof like[at]);
  if (!isPlace) throw new RangeError('This is no place in the list of entries.');
  return place as unknown as Place;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
