/** Reads lists of URLs: one a line. */

/** The longest line that is read, in characters. */
const LONGEST_LINE = 131_072;

/** Yields the lines, trimmed. Skips blank lines and lines that begin with `#`. Throws where a line is too long for a URL. */
export async function* readLines(input: AsyncIterable<string | Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of input) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    yield* lines.map((line) => line.trim()).filter(holdsUrl);
    if (rest.length > LONGEST_LINE)
      throw new Error(`a line has more than ${LONGEST_LINE} characters: is this a list of URLs?`);
  }
  const last = (rest + decoder.decode()).trim();
  if (holdsUrl(last)) yield last;
}

function holdsUrl(line: string): boolean {
  return line !== '' && !line.startsWith('#');
}
