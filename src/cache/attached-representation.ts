/** A generation in the making as one request sees it. */

import type { Span } from '../bytes/span.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { Access } from './access.ts';
import type { Readers, Seat, Visitor } from './readers.ts';
import type { ByteReader, Representation } from './representation.ts';

/** The generation. */
export interface AttachedHost {
  readonly name: string;
  readonly response: StoredResponse;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
}

/** Holds the generation for a visitor until it is closed. */
export class AttachedRepresentation implements Representation {
  readonly response: StoredResponse;
  readonly generation: string;
  readonly close: () => void;
  readonly #host: AttachedHost;
  readonly #readers: Readers;
  readonly #access: Access;
  readonly #visitor: Visitor;
  readonly #isOpenEnded: boolean;

  constructor(host: AttachedHost, readers: Readers, access: Access, visitor: Visitor, seat: Seat) {
    this.response = host.response;
    this.generation = host.name;
    this.close = readers.sit(seat);
    this.#host = host;
    this.#readers = readers;
    this.#access = access;
    this.#visitor = visitor;
    this.#isOpenEnded = seat.isOpenEnded;
  }

  get sizeBytes(): number | undefined {
    return this.#host.sizeBytes;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#access.peek(offset, end);
  }

  async open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    const [first] = spans;
    const isOpen = this.#isOpenEnded && first !== undefined;
    const visitor = isOpen ? { ...this.#visitor, open: this.#access.beginOpen(first.start) } : this.#visitor;
    const reader = this.#readers.add(spans, visitor);
    // The seat would hold on to all bytes, though it is known now which ones are wanted.
    this.close();
    try {
      if (first !== undefined) await this.#access.open(first, visitor, signal);
      return reader;
    } catch (thrown) {
      reader.close();
      throw thrown;
    }
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#access.whenPresent(end, this.#visitor, signal);
  }
}
