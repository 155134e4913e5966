/** Texts that are kept for longer than what they were cut out of. */

/**
 * The same text in memory of its own. An engine cuts a text out of a longer one without a copy: the value of one field that is
 * kept would keep the whole head of its request.
 */
export function ownText(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}
