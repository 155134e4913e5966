/**
 * Reads the heads of requests in HTTP/1.0 and HTTP/1.1 (RFC 9112 §2 to §5), strictly: whatever two readers could read in two
 * ways is an error. A hit needs only the `PlainHead` of one pass.
 */

import type { Field, Fields } from '../../http/fields.ts';
import type { ErrorCode } from '../../http/proxy-error.ts';
import { type HeadLimits, type HeadReading, readPlainText, type UnsplitText } from '../request-head.ts';

/** RFC 9110 §5.6.2. */
const token = String.raw`[!#$%&'*+.^_\x60|~0-9A-Za-z-]+`;

/** RFC 9110 §5.6.4. */
const quotedString = String.raw`"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"`;

/**
 * RFC 9112 §3, with its line end: one space on each side of the target, which has nothing but visible characters of ASCII;
 * the name of the protocol in capitals, and one of its versions that have such heads (§2.3).
 */
const requestLineGrammar = String.raw`${token} [\x21-\x7e]+ HTTP/1\.[01]\r\n`;

/**
 * Field lines and the empty line behind them: no white space before the colon (RFC 9112 §5.1), no line that goes on in the
 * next one (§5.2), no control character in a value but the tab (RFC 9110 §5.5), and no line end but CR LF (RFC 9112 §2.2).
 */
const fieldSectionGrammar = String.raw`(?:${token}:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n`;

/**
 * The size of a chunk, in at most 16 digits, and its extensions (RFC 9112 §7.1.1), with the line end. White space around
 * their signs is not taken: RFC 9110 §5.6.3 calls it bad.
 */
export const chunkSizeGrammar = String.raw`([0-9A-Fa-f]{1,16})(?:;${token}(?:=(?:${token}|${quotedString}))?)*\r\n`;

const wholeLine = new RegExp(`^${requestLineGrammar}$`);
const wholeHead = new RegExp(requestLineGrammar + fieldSectionGrammar, 'y');

/** A head that comes in one piece is hardly ever longer; what is behind it should not be looked through. */
const usualHeadBytes = 4096;

/** So many empty lines before a request line are ignored: what old clients send after a body (RFC 9112 §2.2). */
const mostEmptyLines = 4;
const emptyLineBytes = 2;

/** What a request line may have besides its target, in bytes; no method that is served is nearly so long. */
const besideTargetBytes = 1024;

/** From the space behind a target to the digit that tells the versions apart, and to the end of the line. */
const toMinorVersion = ' HTTP/1.'.length;
const toLineEnd = ' HTTP/1.1\r\n'.length;

const digitOne = 0x31;
const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const deleteSign = 0x7f;

const more: More = { kind: 'more' };

/**
 * Reads one head after the other. Whatever pieces a head comes in, it is read alike, in a time that grows with its length
 * only; a fault may be told before all of it is there.
 */
export class HeadParser {
  readonly #limits: HeadLimits;
  /** Where the request line begins, behind empty lines. */
  #start = 0;
  /** Bytes before it were found to be in place, and to be no end of the head. */
  #scanned = 0;
  /** Once it has come. */
  #line: RequestLine | undefined;

  constructor(limits: HeadLimits) {
    this.#limits = limits;
  }

  /** Begins the next head. */
  reset(): void {
    this.#start = 0;
    this.#scanned = 0;
    this.#line = undefined;
  }

  /** Begins a head, and reads what has come of it. Only this tells that a head is plain. */
  readFirst(bytes: Buffer): HeadReading {
    this.#start = 0;
    this.#scanned = 0;
    this.#line = undefined;
    return this.#readAtOnce(bytes) ?? this.#readOn(bytes);
  }

  /** Reads all that has come of this head, from its first byte on; what comes behind it is not looked at. */
  read(bytes: Buffer): HeadReading {
    return this.#readOn(bytes);
  }

  /**
   * Reads a usual head that is there as a whole: one look for the grammar, which finds its end, too. Undefined where the head
   * is not so; then it is to be read with more care.
   */
  #readAtOnce(bytes: Buffer): HeadReading | undefined {
    const text = bytes.toString('latin1', 0, Math.min(bytes.length, usualHeadBytes));
    wholeHead.lastIndex = 0;
    if (!wholeHead.test(text)) return undefined;
    const end = wholeHead.lastIndex;
    const line = splitRequestLine(text, 0);
    const { targetBytes, fieldsBytes } = this.#limits;
    if (line.target.length > targetBytes || line.end > targetBytes + besideTargetBytes) return undefined;
    if (end - line.end > fieldsBytes + emptyLineBytes) return undefined;
    const { method, target, version } = line;
    if (version === '1.1' && (method === 'GET' || method === 'HEAD')) {
      const unsplit = new TextFields(text, line.end, end);
      const head = readPlainText({ method, target, version }, unsplit, this.#limits);
      if (head !== undefined) return { kind: 'plain', head, sizeBytes: end };
    }
    const section = splitFieldSection(text, line.end, end);
    return section === undefined ? undefined : this.#judge(line, section, end);
  }

  /** Reads as much as there is, line by line as long as it is not whole. */
  #readOn(bytes: Buffer): HeadReading {
    const line = this.#line ?? this.#readLine(bytes);
    if (line.kind !== 'line') return line;
    this.#line = line;
    const { end: start } = line;
    const limit = start + this.#limits.fieldsBytes + emptyLineBytes;
    // A section without lines ends where it begins, behind the end of the request line.
    const found = bytes.indexOf('\r\n\r\n', Math.max(start - 2, this.#scanned - 3), 'latin1');
    const end = found < 0 ? bytes.length : found + 4;
    if (end > limit) return this.#faultOfBytes(bytes, limit) ?? fault('fields_too_large', 'the header section');
    if (found < 0) return this.#faultOfBytes(bytes, end) ?? more;
    const section = readFieldSection(bytes.toString('latin1', start, end));
    return section === undefined
      ? fault('malformed_request', 'a field line that is none')
      : this.#judge(line, section, end);
  }

  /** Reads the request line and the empty lines before it. */
  #readLine(bytes: Buffer): RequestLine | Fault | More {
    while (bytes[this.#start] === carriageReturn && bytes[this.#start + 1] === lineFeed) {
      this.#start += emptyLineBytes;
      if (this.#start > emptyLineBytes * mostEmptyLines) return fault('malformed_request', 'too many empty lines');
    }
    const start = this.#start;
    const limit = start + this.#limits.targetBytes + besideTargetBytes;
    const lineEnd = bytes.indexOf(lineFeed, Math.max(start, this.#scanned));
    const end = lineEnd < 0 ? bytes.length : lineEnd + 1;
    if (end > limit) return this.#faultOfBytes(bytes, limit) ?? longLine(bytes.subarray(start, limit));
    if (lineEnd < 0) return this.#faultOfBytes(bytes, end) ?? more;
    const text = bytes.toString('latin1', start, end);
    if (!wholeLine.test(text)) return fault('malformed_request', 'a request line that is none');
    const line = splitRequestLine(text, start);
    const { length } = line.target;
    return length > this.#limits.targetBytes ? fault('target_too_long', `${length} bytes`) : line;
  }

  #judge({ method, target, version }: RequestLine, section: FieldSection, end: number): HeadReading {
    const { fields, sizeBytes } = section;
    const { fieldsBytes, maxFieldCount } = this.#limits;
    if (fields.length > maxFieldCount) return fault('fields_too_large', `${fields.length} field lines`);
    if (sizeBytes > fieldsBytes) return fault('fields_too_large', `${sizeBytes} bytes`);
    return { kind: 'head', head: { method, target, version, fields }, sizeBytes: end };
  }

  /**
   * Looks at bytes that have not been looked at before: CR and LF come only together (RFC 9112 §2.2), and no other control
   * character but the tab is part of any head. So garbage is answered at once, though its line may never end.
   */
  #faultOfBytes(bytes: Buffer, end: number): Fault | undefined {
    const from = Math.max(this.#start, this.#scanned);
    let isAfterReturn = from > this.#start && bytes[from - 1] === carriageReturn;
    for (let at = from; at < end; at += 1) {
      const byte = bytes[at] as number;
      if (isAfterReturn !== (byte === lineFeed)) return fault('malformed_request', 'half of a line end');
      isAfterReturn = byte === carriageReturn;
      if (isControl(byte)) return fault('malformed_request', 'a control character');
    }
    this.#scanned = end;
    return undefined;
  }
}

/** The field lines of a plain head. */
class TextFields implements UnsplitText {
  readonly text: string;
  readonly start: number;
  readonly end: number;

  constructor(text: string, start: number, end: number) {
    this.text = text;
    this.start = start;
    this.end = end;
  }

  split(): Fields {
    return splitFieldSection(this.text, this.start, this.end)?.fields ?? [];
  }
}

type Fault = Extract<HeadReading, { kind: 'fault' }>;
type More = Extract<HeadReading, { kind: 'more' }>;

interface RequestLine {
  readonly kind: 'line';
  readonly method: string;
  readonly target: string;
  readonly version: '1.0' | '1.1';
  /** Where the field section begins. */
  readonly end: number;
}

/** Reads the line that a text begins with, of which its grammar is known to hold, and which begins at a place of the head. */
function splitRequestLine(text: string, start: number): RequestLine {
  const methodEnd = text.indexOf(' ');
  const targetEnd = text.indexOf(' ', methodEnd + 1);
  return {
    kind: 'line',
    // One text for most requests: to look it up in a table, its hash need not be computed anew.
    method: text.startsWith('GET ') ? 'GET' : text.slice(0, methodEnd),
    target: text.slice(methodEnd + 1, targetEnd),
    version: text.charCodeAt(targetEnd + toMinorVersion) === digitOne ? '1.1' : '1.0',
    end: start + targetEnd + toLineEnd,
  };
}

/** A line that is longer than any that is read, without its end. */
function longLine(start: Buffer): Fault {
  return start.includes(space)
    ? fault('target_too_long', 'the request line')
    : fault('malformed_request', 'no request line');
}

function isControl(byte: number): boolean {
  return byte === deleteSign || (byte < space && byte !== tab && byte !== carriageReturn && byte !== lineFeed);
}

function fault(code: ErrorCode, detail: string): Fault {
  return { kind: 'fault', code, detail };
}

/** Grows by doubling, so that a head that trickles in is not copied again with each byte. */
export class HeldHead {
  readonly #parser: HeadParser;
  #bytes: Buffer;
  #sizeBytes: number;

  constructor(limits: HeadLimits, bytes: Buffer) {
    this.#parser = new HeadParser(limits);
    this.#bytes = bytes;
    this.#sizeBytes = bytes.length;
  }

  /** All that has come. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#sizeBytes);
  }

  /** Reads on with what has come next. */
  read(next: Buffer): HeadReading {
    const sizeBytes = this.#sizeBytes + next.length;
    if (sizeBytes > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(2 * sizeBytes);
      this.#bytes.copy(larger, 0, 0, this.#sizeBytes);
      this.#bytes = larger;
    }
    next.copy(this.#bytes, this.#sizeBytes);
    this.#sizeBytes = sizeBytes;
    return this.#parser.read(this.bytes);
  }
}

/** A section of field lines that was read. */
interface FieldSection {
  readonly fields: Fields;
  /** As `ListenerLimits` counts it. */
  readonly sizeBytes: number;
}

const wholeSection = new RegExp(`^${fieldSectionGrammar}$`);

/** Per field line: the colon, the space after it, CR and LF. */
const lineOverheadBytes = 4;

/** Reads a text of one character per byte that is a section with its empty line; undefined where it is none. */
export function readFieldSection(text: string): FieldSection | undefined {
  return wholeSection.test(text) ? splitFieldSection(text, 0, text.length) : undefined;
}

/**
 * Reads the section from one place of a text to another, of which its grammar is known to hold. Undefined where what the
 * grammar allows is not taken all the same: a tab behind the value of a field that frames, which not all readers take off.
 */
function splitFieldSection(text: string, start: number, end: number): FieldSection | undefined {
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
function trimmedSlice(text: string, start: number, end: number): string {
  let from = start;
  let to = end;
  while (from < to && isWhitespace(text.charCodeAt(from))) from += 1;
  while (to > from && isWhitespace(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

function isWhitespace(code: number): boolean {
  return code === space || code === tab;
}
