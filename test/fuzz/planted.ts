/** A fault that random inputs do not find without coverage: each letter reaches new code only after the one before it. */

/** Throws for a text with `fault!` in it. */
export function plantedFault(text: string): void {
  const at = text.indexOf('f');
  if (at < 0 || text[at + 1] !== 'a') return;
  if (text[at + 2] === 'u') atU(text, at + 3);
}

function atU(text: string, at: number): void {
  if (text[at] !== 'l') return;
  if (text[at + 1] === 't') {
    if (text[at + 2] === '!') throw new Error('broken: the planted promise');
  }
}
