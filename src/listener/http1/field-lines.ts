/** Field lines as bytes become them: those of a head, and those of a trailer section (RFC 9112 §5). */

import type { Field, Fields } from '../../http/fields.ts';
import { fieldSectionGrammar } from './grammar.ts';

/** A section of field lines that was read. */
export interface FieldSection {
  readonly fields: Fields;
  /** As `ListenerLimits` counts it. */
  readonly sizeBytes: number;
}

const wholeSection = new RegExp(`^${fieldSectionGrammar}$`);

/** Per field line: the colon, the space after it, CR and LF. */
const lineOverheadBytes = 4;

const tab = 0x09;
const space = 0x20;

/** Reads a text of one character per byte that is a section with its empty line; undefined where it is none. */
export function readFieldSection(text: string): FieldSection | undefined {
  return wholeSection.test(text) ? splitFieldSection(text, 0, text.length) : undefined;
}

/**
 * Reads the section from one place of a text to another, of which its grammar is known to hold. Undefined where what the
 * grammar allows is not taken all the same: a tab behind the value of a field that frames, which not all readers take off.
 */
export function splitFieldSection(text: string, start: number, end: number): FieldSection | undefined {
  const fields: Field[] = [];
  let sizeBytes = 0;
  for (let at = start; at < end - 2; ) {
    const colon = text.indexOf(':', at);
    const lineEnd = text.indexOf('\r', colon);
    // A table of names that are known is slower than this.
    const name = text.slice(at, colon).toLowerCase();
    if (text.charCodeAt(lineEnd - 1) === tab && isFraming(name)) return undefined;
    const value = trimmedSlice(text, colon + 1, lineEnd);
    fields.push([name, value]);
    sizeBytes += name.length + value.length + lineOverheadBytes;
    at = lineEnd + 2;
  }
  return { fields, sizeBytes };
}

function isFraming(name: string): boolean {
  return name === 'transfer-encoding' || name === 'content-length';
}

/** A part of a text without the white space around it (RFC 9112 §5.1). */
export function trimmedSlice(text: string, start: number, end: number): string {
  let from = start;
  let to = end;
  while (from < to && isWhitespace(text.charCodeAt(from))) from += 1;
  while (to > from && isWhitespace(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

function isWhitespace(code: number): boolean {
  return code === space || code === tab;
}
