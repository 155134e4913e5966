/**
 * Mends heads of HTTP/1.1 responses that the parser refuses, although they have one meaning and browsers and other clients take them.
 * Pure: bytes in, bytes out.
 */

/** What comes next: a status line, a field line, what follows the final head, or bytes that are no response. */
type Stage = 'start' | 'fields' | 'body' | 'unknown';

const CR = 0x0d;
const LF = 0x0a;

const noBytes = Buffer.alloc(0);

/**
 * Mends the heads of one connection, line by line, and hands on every line as soon as its end is certain:
 *
 * - Folded lines (obs-fold, RFC 9112 §5.2) become one line: the line break becomes spaces.
 * - White space between a name and its colon is moved behind the colon, as §5.1 has a proxy do.
 * - Content-Length given more than once with the same number becomes one (RFC 9110 §8.6). Numbers that differ stay, and are refused.
 * - `Transfer-Encoding: identity`, the name for no coding in RFC 2616, is left out.
 * - `ICY` as the protocol (SHOUTcast) becomes HTTP/1.0.
 * - An interim 100, which only answers an Expect, is left out (RFC 9110 §15.2).
 *
 * An origin whose status line ends with LF alone ends all lines of its heads so (RFC 9112 §2.2): `onBareLf` is called with true before
 * such a line is handed on, and with false before the next other one. Where lines of one head end in both ways, the parser gets LF alone and refuses it: a client may
 * have slipped them into a field.
 */
export class HeadMender {
  readonly #onBareLf: (isBare: boolean) => void;
  /** The beginning of a line, or a line of which it is not certain that the next one does not continue it. */
  #held: Buffer = noBytes;
  #stage: Stage = 'start';
  #endsWithBareLf = false;
  #status = 0;
  /** The Content-Length of this head. */
  #length: string | undefined;
  /** Names of the faults of this head; undefined where it has none. */
  mended: string[] | undefined;

  constructor(onBareLf: (isBare: boolean) => void) {
    this.#onBareLf = onBareLf;
  }

  /** The number of bytes that wait for the rest of their line. */
  get heldBytes(): number {
    return this.#held.length;
  }

  /** Takes bytes that begin in a head, or before one. Returns the bytes for the parser: heads, and all that follows a final one. */
  read(chunk: Buffer): Buffer {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const mended: Buffer[] = [];
    let keptFrom = 0;
    let at = 0;
    while (at < bytes.length) {
      const end = this.#endOfLine(bytes, at);
      if (end === -1) break;
      const line = bytes.subarray(at, end);
      const sent = this.#mend(line);
      if (sent !== line) {
        mended.push(bytes.subarray(keptFrom, at), sent);
        keptFrom = end;
      }
      at = this.#stage === 'body' ? bytes.length : end;
    }
    if (this.#stage === 'body') this.#stage = 'start';
    this.#held = at < bytes.length ? bytes.subarray(at) : noBytes;
    if (mended.length === 0) return at === bytes.length ? bytes : bytes.subarray(0, at);
    return Buffer.concat([...mended, bytes.subarray(keptFrom, at)]);
  }

  /** Returns where the line at an offset ends, continuation lines included, which are joined to it; -1 where that is not certain yet. */
  #endOfLine(bytes: Buffer, at: number): number {
    if (this.#stage === 'start' && !mayBeStatusLine(bytes, at)) this.#stage = 'unknown';
    if (this.#stage === 'unknown') return bytes.length;
    for (let from = at; ; ) {
      const end = bytes.indexOf(LF, from) + 1;
      if (end === 0) return this.#endOfUnfinished(bytes, from);
      // A status line has no continuation.
      if (this.#stage === 'start' || isBlank(bytes.subarray(at, end))) return end;
      if (end === bytes.length) return -1;
      const isTerminated = bytes[end - 2] === CR || this.#endsWithBareLf;
      if (!isTerminated || !isSpace(bytes[end])) return end;
      this.#note('folded lines');
      bytes.fill(' ', bytes[end - 2] === CR ? end - 2 : end - 1, end);
      from = end;
    }
  }

  /** A line that has not ended is kept, unless CR alone shows that it never ends: the parser refuses that. */
  #endOfUnfinished(bytes: Buffer, from: number): number {
    const cr = bytes.indexOf(CR, from);
    if (cr === -1 || cr === bytes.length - 1) return -1;
    this.#stage = 'unknown';
    return bytes.length;
  }

  /** Returns what the parser gets of a line: the line itself, perhaps mended in place, or other bytes. */
  #mend(line: Buffer): Buffer {
    if (this.#stage === 'unknown') return line;
    if (this.#stage === 'start') return isBlank(line) ? line : this.#mendStatusLine(line);
    if (this.#endsWithBareLf && line[line.length - 2] === CR) return this.#refuseMixture(line);
    if (isBlank(line)) this.#stage = this.#status >= 200 ? 'body' : 'start';
    else if (this.#status !== 100 && !this.#isFieldKept(line)) return noBytes;
    return this.#status === 100 ? noBytes : line;
  }

  /** Hands on a line that ends otherwise than the status line with LF alone, at which the parser refuses the head. */
  #refuseMixture(line: Buffer): Buffer {
    this.#onBareLf(false);
    this.#stage = 'unknown';
    return Buffer.concat([line.subarray(0, -2), Buffer.from('\n')]);
  }

  #note(fault: string): void {
    if (this.mended === undefined) this.mended = [fault];
    else if (!this.mended.includes(fault)) this.mended.push(fault);
  }

  #mendStatusLine(line: Buffer): Buffer {
    this.mended = undefined;
    const text = line.toString('latin1');
    this.#stage = 'fields';
    this.#status = Number(/^\S+ +(\d{3})\b/.exec(text)?.[1]);
    this.#length = undefined;
    const isBare = line[line.length - 2] !== CR;
    if (isBare) this.#note('lines end with LF alone');
    if (isBare !== this.#endsWithBareLf) this.#onBareLf(isBare);
    this.#endsWithBareLf = isBare;
    if (this.#status === 100) return noBytes;
    if (text.startsWith('ICY ')) this.#note('the protocol is ICY');
    return text.startsWith('ICY ') ? Buffer.from(`HTTP/1.0${text.slice(3)}`, 'latin1') : line;
  }

  #isFieldKept(line: Buffer): boolean {
    const colon = line.indexOf(':');
    if (colon > 0 && isSpace(line[colon - 1])) {
      this.#note('white space before a colon');
      moveColon(line, colon);
    }
    // `C` and `T` in either case: most lines are done here.
    const first = (line[0] as number) | 0x20;
    if (first !== 0x63 && first !== 0x74) return true;
    const name = line.toString('latin1', 0, line.indexOf(':')).toLowerCase();
    if (name === 'content-length') return this.#isLengthKept(line);
    if (name !== 'transfer-encoding' || !/identity/i.test(line.toString('latin1'))) return true;
    this.#note('Transfer-Encoding: identity');
    return isCodingKept(line);
  }

  #isLengthKept(line: Buffer): boolean {
    const [length = '', ...others] = membersOf(line);
    if (!/^\d+$/.test(length) || others.some((other) => other !== length)) return true;
    if (this.#length !== undefined || others.length > 0) this.#note('several lengths');
    if (this.#length === length) return false;
    setValue(line, length);
    this.#length ??= length;
    return true;
  }
}

function isBlank(line: Buffer): boolean {
  return line.length === 1 || (line.length === 2 && line[0] === CR);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09;
}

const protocols = [Buffer.from('HTTP/'), Buffer.from('ICY ')];

/** Whether bytes begin a status line, as far as they have come; blank lines may stand before it (RFC 9112 §2.2). */
function mayBeStatusLine(bytes: Buffer, at: number): boolean {
  if (bytes[at] === CR || bytes[at] === LF) return true;
  return protocols.some((protocol) => {
    const size = Math.min(protocol.length, bytes.length - at);
    return bytes.compare(protocol, 0, size, at, at + size) === 0;
  });
}

/** Moves a colon directly behind the name, and the white space before it behind it. */
function moveColon(line: Buffer, colon: number): void {
  let nameEnd = colon;
  while (nameEnd > 0 && isSpace(line[nameEnd - 1])) nameEnd -= 1;
  if (nameEnd === 0) return;
  line.fill(' ', nameEnd, colon + 1);
  line[nameEnd] = 0x3a;
}

function membersOf(line: Buffer): string[] {
  const value = line.toString('latin1', line.indexOf(':') + 1);
  return value.split(',').map((member) => member.trim());
}

/** Replaces the value of a line, at its end: undici takes white space behind a length for digits. */
function setValue(line: Buffer, value: string): void {
  const end = line.length - (line[line.length - 2] === CR ? 2 : 1);
  line.fill(' ', line.indexOf(':') + 1, end);
  line.write(value, end - value.length, 'latin1');
}

/** Whether anything is left of a Transfer-Encoding without `identity` before its codings. */
function isCodingKept(line: Buffer): boolean {
  const codings = membersOf(line);
  const first = codings.findIndex((coding) => coding.toLowerCase() !== 'identity');
  if (first === -1) return false;
  if (first > 0) setValue(line, codings.slice(first).join(','));
  return true;
}
