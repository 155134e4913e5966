/**
 * Parses HTTP/1.0 and HTTP/1.1 request heads (RFC 9112 §2 to §5) strictly: input that two recipients could read differently is an
 * error. A hit needs only the `PlainHead`, which takes one pass.
 */

import type { Field, Fields } from '../../http/fields.ts';
import type { ErrorCode } from '../../http/proxy-error.ts';
import { type HeadLimits, type HeadReading, readPlainText, type UnsplitText } from '../request-head.ts';

/** A token (RFC 9110 §5.6.2). */
const token = String.raw`[!#$%&'*+.^_\x60|~0-9A-Za-z-]+`;

/** A quoted string (RFC 9110 §5.6.4). */
const quotedString = String.raw`"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"`;

/**
 * A request line (RFC 9112 §3) with its line end: one space on each side of the target, only visible ASCII in the target, `HTTP` in
 * capitals, and major version 1. A higher minor version than 1 counts as 1.1 (RFC 9110 §2.5).
 */
const requestLineGrammar = String.raw`${token} [\x21-\x7e]+ HTTP/1\.[0-9]\r\n`;

/**
 * Field lines and the empty line after them: no white space before the colon (RFC 9112 §5.1), no line folding (§5.2), no control
 * character in a value except tab (RFC 9110 §5.5), and CR LF as the only line end (RFC 9112 §2.2).
 */
const fieldSectionGrammar = String.raw`(?:${token}:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n`;

/**
 * A chunk size of at most 16 digits and the chunk extensions (RFC 9112 §7.1.1), with the line end. White space around `;` and `=`
 * (BWS, RFC 9110 §5.6.3) is refused.
 */
export const chunkSizeGrammar = String.raw`([0-9A-Fa-f]{1,16})(?:;${token}(?:=(?:${token}|${quotedString}))?)*\r\n`;

const wholeLine = new RegExp(`^${requestLineGrammar}$`);
const wholeHead = new RegExp(requestLineGrammar + fieldSectionGrammar, 'y');

/** Only this many bytes are decoded for `#readAtOnce`: heads are rarely longer, and bytes after the head should not be decoded. */
const usualHeadBytes = 4096;

/** Maximum number of ignored empty lines before a request line. Old clients send one after a body (RFC 9112 §2.2). */
const mostEmptyLines = 4;
const emptyLineBytes = 2;

/** Maximum bytes of a request line besides its target. Served methods are much shorter. */
const besideTargetBytes = 1024;

/** Distances from the space after the target to the minor version digit, and to the end of the line. */
const toMinorVersion = ' HTTP/1.'.length;
const toLineEnd = ' HTTP/1.1\r\n'.length;

const digitZero = 0x30;
const tab = 0x09;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const deleteSign = 0x7f;

const more: More = { kind: 'more' };

/**
 * Parses one head at a time. The result does not depend on how the head is split into reads, and the time is linear in its length.
 * A fault may be reported before the head is complete.
 */
export class HeadParser {
  readonly #limits: HeadLimits;
  /** Offset of the request line, after any empty lines. */
  #start = 0;
  /** Bytes before this offset are valid and do not end the head. */
  #scanned = 0;
  /** The request line; undefined until it is complete. */
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

  /** Begins a head and reads its received bytes. Only this method returns plain heads. */
  readFirst(bytes: Buffer): HeadReading {
    this.#start = 0;
    this.#scanned = 0;
    this.#line = undefined;
    return this.#readAtOnce(bytes) ?? this.#readOn(bytes);
  }

  /** Continues the head. `bytes` starts at its first byte and has all bytes received so far; bytes after the head are ignored. */
  read(bytes: Buffer): HeadReading {
    return this.#readOn(bytes);
  }

  /**
   * Parses a valid, complete head of usual size with one regular expression, which also finds its end. Undefined for any other
   * head, which `#readOn` then parses.
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

  /** Parses the bytes received so far: the request line, then the field section once it is complete. */
  #readOn(bytes: Buffer): HeadReading {
    const line = this.#line ?? this.#readLine(bytes);
    if (line.kind !== 'line') return line;
    this.#line = line;
    const { end: start } = line;
    const limit = start + this.#limits.fieldsBytes + emptyLineBytes;
    // The empty line of a section without fields follows the end of the request line, so the search starts there.
    const found = bytes.indexOf('\r\n\r\n', Math.max(start - 2, this.#scanned - 3), 'latin1');
    const end = found < 0 ? bytes.length : found + 4;
    if (end > limit) return this.#faultOfBytes(bytes, limit) ?? fault('fields_too_large', 'the header section');
    if (found < 0) return this.#faultOfBytes(bytes, end) ?? more;
    const section = readFieldSection(bytes.toString('latin1', start, end));
    return section === undefined
      ? fault('malformed_request', 'a malformed field line')
      : this.#judge(line, section, end);
  }

  /** Parses the request line and the empty lines before it. */
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
    if (!wholeLine.test(text)) return fault('malformed_request', 'a malformed request line');
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
   * Checks bytes that were not checked before: CR and LF only as a pair (RFC 9112 §2.2), and no other control character except
   * tab. So garbage is refused at once, even if its line never ends.
   */
  #faultOfBytes(bytes: Buffer, end: number): Fault | undefined {
    const from = Math.max(this.#start, this.#scanned);
    let isAfterReturn = from > this.#start && bytes[from - 1] === carriageReturn;
    for (let at = from; at < end; at += 1) {
      const byte = bytes[at] as number;
      if (isAfterReturn !== (byte === lineFeed)) return fault('malformed_request', 'CR without LF, or LF without CR');
      isAfterReturn = byte === carriageReturn;
      if (isControl(byte)) return fault('malformed_request', 'a control character');
    }
    this.#scanned = end;
    return undefined;
  }
}

/** The unsplit field lines of a plain head. */
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
  /** Offset of the field section in the received bytes. */
  readonly end: number;
}

/** Splits the valid request line at the start of a text. `start` is the offset of the line in the received bytes. */
function splitRequestLine(text: string, start: number): RequestLine {
  const methodEnd = text.indexOf(' ');
  const targetEnd = text.indexOf(' ', methodEnd + 1);
  return {
    kind: 'line',
    // A constant for most requests: V8 caches its hash, so that later look-ups by method are fast.
    method: text.startsWith('GET ') ? 'GET' : text.slice(0, methodEnd),
    target: text.slice(methodEnd + 1, targetEnd),
    version: text.charCodeAt(targetEnd + toMinorVersion) === digitZero ? '1.0' : '1.1',
    end: start + targetEnd + toLineEnd,
  };
}

/** The fault of a request line that exceeds its limit. `start` is the first bytes of the line. */
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

/** The bytes of an incomplete head. The buffer doubles when full, so that a slow head is not copied with each read. */
export class PartialHead {
  readonly #parser: HeadParser;
  #bytes: Buffer;
  #sizeBytes: number;

  constructor(limits: HeadLimits, bytes: Buffer) {
    this.#parser = new HeadParser(limits);
    this.#bytes = bytes;
    this.#sizeBytes = bytes.length;
  }

  /** All bytes received so far. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#sizeBytes);
  }

  /** Appends the next bytes and continues parsing. */
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

/** A parsed section of field lines. */
interface FieldSection {
  readonly fields: Fields;
  /** Counted as in `ListenerLimits`. */
  readonly sizeBytes: number;
}

const wholeSection = new RegExp(`^${fieldSectionGrammar}$`);

/** Per field line: the colon, the space after it, CR and LF. */
const lineOverheadBytes = 4;

/** Parses a field section with its empty line from a text of one character per byte; undefined where it is malformed. */
export function readFieldSection(text: string): FieldSection | undefined {
  return wholeSection.test(text) ? splitFieldSection(text, 0, text.length) : undefined;
}

/**
 * Splits the valid section from `start` to `end` (exclusive) of a text. Undefined for a framing field whose value ends with a tab:
 * the grammar allows it, but not all recipients trim it.
 */
function splitFieldSection(text: string, start: number, end: number): FieldSection | undefined {
  const fields: Field[] = [];
  let sizeBytes = 0;
  for (let at = start; at < end - 2; ) {
    const colon = text.indexOf(':', at);
    const lineEnd = text.indexOf('\r', colon);
    // Faster than a table of known names.
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

/** Returns a part of a text without surrounding white space (RFC 9112 §5.1). */
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
