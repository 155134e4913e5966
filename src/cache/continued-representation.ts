/** A representation that another process gives, and that is had from elsewhere when that process dies. */

import type { Span } from '../bytes/span.ts';
import type { Clock } from '../http/clock.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { type Holder, HolderLost } from './fleet.ts';
import { Passed } from './passed.ts';
import type { ByteReader, Representation } from './representation.ts';
import { hasOtherLength, isSameVersion, type Version, versionOf } from './version.ts';

/** Where to go on. */
export interface Continuation {
  /** The process that gives it first. */
  readonly holder: Holder;
  /** Has a representation from elsewhere, of this version if that can be had. Rejects with `ProxyError`, or the signal's reason. */
  readonly elsewhere: (given: Version, lost: Holder) => Promise<Representation>;
  readonly clock: Pick<Clock, 'now'>;
}

/** Goes on elsewhere when the process that gives it is lost; fails where no other has the same bytes. */
export function createContinuedRepresentation(first: Representation, continuation: Continuation): Representation {
  return new ContinuedRepresentation(first, continuation);
}

class ContinuedRepresentation implements Representation {
  readonly response: Representation['response'];
  readonly generation: string | undefined;
  readonly #continuation: Continuation;
  readonly #first: Representation;

  constructor(first: Representation, continuation: Continuation) {
    this.response = first.response;
    this.generation = first.generation;
    this.#first = first;
    this.#continuation = continuation;
  }

  get sizeBytes(): number | undefined {
    return this.#first.sizeBytes;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#first.peek(offset, end);
  }

  async open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    const passed = new Passed(this.response, spans, this.#continuation.clock.now());
    const reader = await this.#first.open(spans, signal).catch(throwAsGone);
    return createContinuedReader(reader, passed, () => this.#goOn(passed, signal));
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#first.whenPresent(end, signal).catch(throwAsGone);
  }

  close(): void {
    this.#first.close();
  }

  /** Opens what is left of what was opened. */
  async #goOn(passed: Passed, signal: AbortSignal): Promise<ByteReader> {
    const { elsewhere, holder, clock } = this.#continuation;
    const given = versionOf(this, clock.now());
    const next = await elsewhere(given, holder);
    const { sizeBytes = Number.POSITIVE_INFINITY } = next;
    try {
      const found = versionOf(next, clock.now());
      if (hasOtherLength(given, found)) throw broken('generation_changed');
      const reader = isSameVersion(given, found)
        ? await next.open(passed.restWithin(sizeBytes), signal)
        : await passed.openProven(next, signal, clock.now());
      if (reader === undefined) throw broken('generation_changed');
      return readWithin(reader, sizeBytes);
    } finally {
      next.close();
    }
  }
}

/** Reads on elsewhere when the process is lost that it is read from. */
function createContinuedReader(first: ByteReader, passed: Passed, goOn: () => Promise<ByteReader>): ByteReader {
  let reader = first;
  let isClosed = false;
  return {
    peek: (offset, end) => passed.note(offset, reader.peek(offset, end)),
    read: async (offset, end) => {
      try {
        return passed.note(offset, await reader.read(offset, end));
      } catch (thrown) {
        if (!(thrown instanceof HolderLost)) throw thrown;
        if (isClosed) throw new ProxyError('client_gone');
      }
      first.close();
      passed.moveTo(offset);
      reader = await goOn();
      if (isClosed) reader.close();
      return passed.note(offset, await reader.read(offset, end));
    },
    close: () => {
      isClosed = true;
      reader.close();
    },
  };
}

/** The first one was perhaps opened before its length was known: it is read to its end, wherever that is. */
function readWithin(reader: ByteReader, sizeBytes: number): ByteReader {
  return {
    peek: (offset, end) => (offset < sizeBytes ? reader.peek(offset, Math.min(end, sizeBytes)) : undefined),
    read: async (offset, end) => (offset < sizeBytes ? reader.read(offset, Math.min(end, sizeBytes)) : undefined),
    close: () => reader.close(),
  };
}

function broken(code: 'bytes_gone' | 'generation_changed'): ProxyError {
  return new ProxyError(code, { detail: 'the process that fetched it is lost' });
}

/** As long as no head was sent, the request can be answered anew. */
function throwAsGone(thrown: unknown): never {
  throw thrown instanceof HolderLost ? broken('bytes_gone') : thrown;
}
