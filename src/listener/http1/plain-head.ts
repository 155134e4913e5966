/** The head of a request as a text to find precedents by, without the one value that changes from request to request. */

/** A head and nothing else, as far as can be told without reading it. */
export interface PlainHead {
  /** The head, one character per byte, without what follows `bytes=` in its Range line. */
  readonly text: string;
  /** The value of that line; undefined where there is no such line. */
  readonly range: string | undefined;
}

/** Longer ones are not worth it. In bytes. */
const longestBytes = 4096;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** As clients write it who write it in the usual way. The text that is left cannot hide another one: a name is not cut. */
const rangeLine = /\r\n[Rr]ange: bytes=/;
const unit = 'bytes=';

/**
 * Undefined for what does not end as a head does, and for a range of other signs than digits, `-` and `,`: two heads with the
 * same text then differ in nothing but that value. Undefined too where the fields might take more than `mostBytes`, for that
 * depends on it as well.
 */
export function readPlainHead(chunk: Buffer, mostBytes: number): PlainHead | undefined {
  const { length } = chunk;
  if (length > longestBytes || length > mostBytes || chunk[length - 1] !== lineFeed || chunk[length - 3] !== lineFeed)
    return undefined;
  const whole = chunk.toString('latin1');
  const start = rangeStart(whole);
  if (start < 0) return { text: whole, range: undefined };
  let end = start;
  while (isRangeSign(whole.charCodeAt(end))) end += 1;
  if (end === start || whole.charCodeAt(end) !== carriageReturn) return undefined;
  return {
    text: whole.slice(0, start) + whole.slice(end),
    range: whole.slice(start - unit.length, end),
  };
}

/** Where the value begins behind its unit. */
function rangeStart(text: string): number {
  const at = text.search(rangeLine);
  return at < 0 ? at : text.indexOf('=', at) + 1;
}

function isRangeSign(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || code === 0x2c || code === 0x2d;
}
