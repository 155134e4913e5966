/** Compares a response with the version of the file that it names, byte by byte. Pure: the chunks are passed in. */

import type { IncomingHttpHeaders } from 'node:http';
import { nameOf } from '../support/origins/versioned-file.ts';
import { ExpectedBody, type SoakFile } from './content.ts';

/** The field that names the version of a body, also for a file without a validator. */
export const versionField = 'x-version';

/** Half-open. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/** The check of one response with a body. */
export class AnswerCheck {
  readonly expected: ExpectedBody;
  readonly #boundary: string | undefined;
  readonly #span: Span;
  readonly #kept: Buffer[] = [];
  #offset: number;
  /** Number of bytes of the body so far. */
  bytes = 0;

  /** @throws Error with a sentence where the head is wrong. */
  constructor(file: SoakFile, status: number, headers: IncomingHttpHeaders) {
    const name = String(headers[versionField]);
    this.expected = new ExpectedBody(file, name, headers['content-encoding'] ?? 'identity');
    const { sizeBytes } = this.expected;
    const [, boundary] = /^multipart\/byteranges; ?boundary="?([^"]+)"?$/.exec(headers['content-type'] ?? '') ?? [];
    this.#boundary = status === 206 ? boundary : undefined;
    const isPart = status === 206 && boundary === undefined;
    this.#span = isPart ? spanOf(headers['content-range'], sizeBytes) : { start: 0, end: sizeBytes };
    this.#offset = this.#span.start;
  }

  /** Takes the next bytes. Throws where one is wrong. */
  take(chunk: Buffer): void {
    this.bytes += chunk.length;
    if (this.#boundary !== undefined) {
      this.#kept.push(chunk);
      return;
    }
    if (!this.expected.has(chunk, this.#offset)) {
      throw new Error(`wrong bytes after offset ${this.#offset} of ${nameOf(this.expected.version)}`);
    }
    this.#offset += chunk.length;
  }

  /** Checks a body that ended as its framing says. Throws where it is too short or a part of it is wrong. */
  end(): void {
    if (this.#boundary !== undefined) this.#checkParts(Buffer.concat(this.#kept), this.#boundary);
    else if (this.#offset !== this.#span.end) {
      throw new Error(`a complete response ends at ${this.#offset} instead of ${this.#span.end}`);
    }
  }

  #checkParts(body: Buffer, boundary: string): void {
    const { sizeBytes } = this.expected;
    const delimiter = `--${boundary}`;
    let at = body.indexOf(delimiter);
    let parts = 0;
    while (at >= 0 && body.toString('latin1', at + delimiter.length, at + delimiter.length + 2) !== '--') {
      const headEnd = body.indexOf('\r\n\r\n', at);
      const [, range] =
        /^content-range: *(.*)$/im.exec(body.toString('latin1', at, headEnd).replaceAll('\r', '')) ?? [];
      const span = spanOf(range, sizeBytes);
      const start = headEnd + 4;
      const end = start + span.end - span.start;
      if (!this.expected.has(body.subarray(start, end), span.start) || end > body.length) {
        throw new Error(`wrong bytes in the part ${range} of ${nameOf(this.expected.version)}`);
      }
      at = body.indexOf(delimiter, end);
      if (at !== end + 2) throw new Error(`no delimiter after the part ${range}`);
      parts += 1;
    }
    if (at < 0 || parts < 1) throw new Error(`a complete response of ${parts} parts has no closing delimiter`);
  }
}

function spanOf(contentRange: string | undefined, sizeBytes: number): Span {
  const [, first, last, size] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(contentRange ?? '') ?? [];
  const isRight =
    Number(first) <= Number(last) && Number(last) < sizeBytes && ['*', String(sizeBytes)].includes(size ?? '');
  if (!isRight) throw new Error(`Content-Range ${contentRange} of ${sizeBytes} bytes`);
  return { start: Number(first), end: Number(last) + 1 };
}
