/** Reads fields as a person types them: a line each, `Name: value`. */

/** The fields, or the first line that is none. */
export type FieldLines =
  | { readonly kind: 'fields'; readonly fields: readonly (readonly [name: string, value: string])[] }
  | { readonly kind: 'fault'; readonly line: string };

/** Parses lines of fields. Empty lines do not count. */
export function parseFieldLines(text: string): FieldLines {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const fields: [string, string][] = [];
  for (const line of lines) {
    const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return { kind: 'fault', line };
    fields.push([name, value]);
  }
  return { kind: 'fields', fields };
}

/** Completes a range as `rangeway explain -r` does: `0-99` is `bytes=0-99`. */
export function completeRange(text: string): string {
  const range = text.trim();
  return range === '' || range.includes('=') ? range : `bytes=${range}`;
}

/** Returns the URLs of a text, a line each, without empty lines and repetitions. */
export function parseUrlLines(text: string): string[] {
  const lines = text.split('\n').map((line) => line.trim());
  return [...new Set(lines.filter((line) => line !== ''))];
}
