/** The lines of a text that comes in pieces. */

/** The lines without white space around them; blank ones, and those that begin with `#`, are left out. */
export async function* readLines(input: AsyncIterable<string | Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of input) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    yield* lines.map((line) => line.trim()).filter(isMeant);
  }
  const last = (rest + decoder.decode()).trim();
  if (isMeant(last)) yield last;
}

function isMeant(line: string): boolean {
  return line !== '' && !line.startsWith('#');
}
