/** Plain heads of HTTP/1.1: read from text of one character per byte. */

import type { Fields } from '../../http/fields.ts';
import type { PlainHead } from '../../http/message.ts';
import { isNoted, NotedHead, type UnsplitFields } from '../plain-head.ts';
import { splitFieldSection, trimmedSlice } from './field-lines.ts';
import type { HeadLimits } from './request-head.ts';

/**
 * Reads the field lines from `start` to `end`, of which their grammar is known to hold. Undefined where the head is not plain, or
 * could be too large by the way that limits count.
 */
export function readPlainHead(
  line: Pick<PlainHead, 'method' | 'target' | 'version'>,
  text: string,
  start: number,
  end: number,
  { fieldsBytes, maxFieldCount }: HeadLimits,
): NotedHead | undefined {
  const head = new NotedHead(line, undefined, new TextFields(text, start, end));
  let count = 0;
  for (let at = start; at < end - 2; ) {
    const colon = text.indexOf(':', at);
    const lineEnd = text.indexOf('\r', colon);
    if (isNoted(colon - at, text.charCodeAt(at))) {
      const name = text.slice(at, colon).toLowerCase();
      if (!head.note(name, trimmedSlice(text, colon + 1, lineEnd))) return undefined;
    }
    count += 1;
    at = lineEnd + 2;
  }
  // Limits count a space behind each colon, which may not be there.
  const isSmall = count <= maxFieldCount && end - start + count <= fieldsBytes;
  return isSmall && head.hasAuthority ? head : undefined;
}

class TextFields implements UnsplitFields {
  readonly #text: string;
  readonly #start: number;
  readonly #end: number;

  constructor(text: string, start: number, end: number) {
    this.#text = text;
    this.#start = start;
    this.#end = end;
  }

  split(): Fields {
    return splitFieldSection(this.#text, this.#start, this.#end)?.fields ?? [];
  }
}
