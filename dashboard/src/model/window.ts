/** Which rows of a long table are in the document: those in view, and a few around them. */

/** The rows `[start, end)`, and the heights that stand for the rows before and after them, in pixels. */
export interface RowWindow {
  readonly start: number;
  readonly end: number;
  readonly beforePx: number;
  readonly afterPx: number;
}

/** Rows beyond the edges of the view, so that scrolling finds them there. */
const spareRows = 6;

/** Returns the window of a table of `count` rows of equal height, scrolled by `scrollPx` in a view of `viewPx`. */
export function windowOf(count: number, rowPx: number, scrollPx: number, viewPx: number): RowWindow {
  const shown = Math.ceil(viewPx / rowPx) + 1;
  const first = Math.max(0, Math.min(Math.floor(scrollPx / rowPx), count - shown));
  const start = Math.max(0, first - spareRows);
  const end = Math.min(count, first + shown + spareRows);
  return { start, end, beforePx: start * rowPx, afterPx: (count - end) * rowPx };
}
