/** A stored entry as a representation. */

import type { Span } from '../bytes/span.ts';
import type { MovableBytes } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { EntryReader, StoredEntry } from '../store/store.ts';
import { peekBytes, peekKeptBytes, readDueBytes } from './block-bytes.ts';
import { ReadAhead, type ReadAheadRules } from './read-ahead.ts';
import type { ByteReader, Representation } from './representation.ts';

/** Opens the rest of the same bytes anew, when a block of them has turned out to be damaged. Rejects with `ProxyError`. */
export type Mend = (rest: readonly Span[]) => Promise<ByteReader>;

/** Presents an entry to delivery. */
export function createStoredRepresentation(entry: StoredEntry, rules: ReadAheadRules, mend: Mend): Representation {
  return new StoredRepresentation(entry, rules, mend);
}

/** A class, because there is one for every hit. */
class StoredRepresentation implements Representation {
  readonly response: StoredResponse;
  readonly generation: string;
  readonly sizeBytes: number;
  readonly #entry: StoredEntry;
  readonly #rules: ReadAheadRules;
  readonly #mend: Mend;

  constructor(entry: StoredEntry, rules: ReadAheadRules, mend: Mend) {
    this.response = entry.metadata;
    this.generation = entry.generation;
    this.sizeBytes = entry.sizeBytes;
    this.#entry = entry;
    this.#rules = rules;
    this.#mend = mend;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return peekBytes(this.#entry, this.#rules.blockSizeBytes, offset, end);
  }

  peekKept(offset: number, end: number): Uint8Array | undefined {
    return peekKeptBytes(this.#entry, this.#rules.blockSizeBytes, offset, end);
  }

  movable(span: Span): MovableBytes | undefined {
    if (this.#entry.canMove?.(span.start, span.end) !== true) return undefined;
    return new MovableSpan(this.#entry, this.#rules.blockSizeBytes, span);
  }

  giveBack(chunks: readonly Uint8Array[]): void {
    for (const chunk of chunks) this.#entry.giveBack?.(chunk);
  }

  async open(spans: readonly Span[]): Promise<ByteReader> {
    const source = await this.#entry.open();
    const reader = createStoredReader(source, this.sizeBytes, this.#rules);
    try {
      // Damage that is found where reading begins is found while another answer can be given.
      const [first] = spans;
      if (first !== undefined) await reader.read(first.start, first.end);
      return createMendedReader(reader, spans, this.#mend);
    } catch (error) {
      reader.close();
      throw error;
    }
  }

  async whenPresent(): Promise<boolean> {
    return true;
  }

  close(): void {}
}

/** A span of a stored file that the system can send. */
class MovableSpan implements MovableBytes {
  readonly #entry: StoredEntry;
  readonly #blockSizeBytes: number;
  readonly #span: Span;

  constructor(entry: StoredEntry, blockSizeBytes: number, span: Span) {
    this.#entry = entry;
    this.#blockSizeBytes = blockSizeBytes;
    this.#span = span;
  }

  moveTo(socket: number, head: Uint8Array): number {
    return this.#entry.move?.(socket, head, this.#span.start, this.#span.end) ?? 0;
  }

  readFrom(offset: number): readonly Uint8Array[] | undefined {
    const { start, end } = this.#span;
    return readDueBytes(this.#entry, this.#blockSizeBytes, { start: start + offset, end });
  }
}

/** Reads on from elsewhere when what is stored turns out to be damaged. */
function createMendedReader(stored: ByteReader, spans: readonly Span[], mend: Mend): ByteReader {
  let reader = stored;
  let isClosed = false;
  const rest = (offset: number, end: number) => {
    const at = spans.findIndex((span) => span.start <= offset && end === span.end);
    return [{ start: offset, end }, ...spans.slice(at + 1)];
  };
  return {
    peek: (offset, end) => reader.peek(offset, end),
    move: (...bytes) => reader.move?.(...bytes) ?? 0,
    read: async (offset, end) => {
      try {
        return await reader.read(offset, end);
      } catch (thrown) {
        if (toProxyError(thrown).code !== 'bytes_gone' || reader !== stored) throw thrown;
      }
      const mended = await mend(rest(offset, end));
      stored.close();
      reader = mended;
      if (isClosed) mended.close();
      return await mended.read(offset, end);
    },
    close: () => {
      isClosed = true;
      reader.close();
    },
  };
}

function createStoredReader(source: EntryReader, sizeBytes: number, rules: ReadAheadRules): ByteReader {
  const blocks = new ReadAhead(source, sizeBytes, rules);
  let isClosed = false;
  return {
    peek: (offset, end) => blocks.peek(offset, end),
    move: (...bytes) => (isClosed ? 0 : (source.move?.(...bytes) ?? 0)),
    read: async (offset, end) => {
      if (isClosed) throw new ProxyError('client_gone');
      return offset < sizeBytes ? await blocks.read(offset, end) : undefined;
    },
    close: () => {
      isClosed = true;
      blocks.close();
      source.close();
    },
  };
}
