/**
 * Reads what another process fetches from the store instead of from that process, block by block as they are stored. All readers of
 * one machine then share the blocks in its memory, and the process that fetches sends them nothing but how far it is. Bytes that
 * are not in the store soon come from the process itself.
 */

import type { Span } from '../../bytes/span.ts';
import type { ByteReader, Representation } from '../../cache/answer.ts';
import type { Clock } from '../../http/clock.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { EntryReader, Store } from '../../store/store.ts';

/**
 * How long a reader waits for a block to be stored, in milliseconds. Where blocks come more slowly, the bytes are taken from the
 * process that fetches, as they arrive there.
 */
const PATIENCE_MS = 250;

/** The parts that stored bytes are read with. */
interface StoredBytesContext {
  readonly store: Pick<Store, 'find' | 'blockSizeBytes'>;
  readonly key: string;
  readonly clock: Pick<Clock, 'after'>;
}

/** Returns a representation of another process whose bytes come from the store as far as possible. */
export function readFromStore(peer: Representation, context: StoredBytesContext): Representation {
  return new StoredBytes(peer, context);
}

class StoredBytes implements Representation {
  readonly response: Representation['response'];
  readonly generation: string | undefined;
  readonly #peer: Representation;
  readonly #context: StoredBytesContext;
  /** Whether a reader has the peer's representation, and closes it. */
  #isTaken = false;

  constructor(peer: Representation, context: StoredBytesContext) {
    this.response = peer.response;
    this.generation = peer.generation;
    this.#peer = peer;
    this.#context = context;
  }

  get sizeBytes(): number | undefined {
    return this.#peer.sizeBytes;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#peer.peek(offset, end);
  }

  async open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    this.#isTaken = true;
    try {
      const stored = await this.#openStored(spans, signal);
      if (stored !== undefined) return new StoredReader(this.#peer, stored, spans, this.#context);
    } catch (thrown) {
      this.#peer.close();
      throw thrown;
    }
    return await this.#peer.open(spans, signal);
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#peer.whenPresent(end, signal);
  }

  close(): void {
    if (!this.#isTaken) this.#peer.close();
  }

  async #openStored([first]: readonly Span[], signal: AbortSignal): Promise<OpenedStored | undefined> {
    const { generation, sizeBytes } = this.#peer;
    if (first === undefined || generation === undefined || sizeBytes === undefined) return undefined;
    const { store, key, clock } = this.#context;
    const storedTo = await whenStored(this.#peer, { ...first, end: Math.min(first.end, sizeBytes) }, clock, signal);
    if (storedTo <= first.start) return undefined;
    const entry = (await store.find(key)).find((each) => each.generation === generation);
    const reader = await entry?.open().catch(() => undefined);
    return reader && { reader, storedFrom: first.start, storedTo, sizeBytes };
  }
}

/** A stored generation that is open, and how far its bytes are known to be stored. */
interface OpenedStored {
  readonly reader: EntryReader;
  readonly storedFrom: number;
  readonly storedTo: number;
  readonly sizeBytes: number;
}

/** Reads from the store, and from the peer once the store does not have a byte in time. */
class StoredReader implements ByteReader {
  readonly #peer: Representation;
  readonly #stored: EntryReader;
  readonly #spans: readonly Span[];
  readonly #context: StoredBytesContext;
  readonly #sizeBytes: number;
  readonly #closing = new AbortController();
  /** The bytes that are known to be stored. Later spans may be anywhere. */
  #storedFrom: number;
  #storedTo: number;
  #direct: ByteReader | undefined;

  constructor(peer: Representation, stored: OpenedStored, spans: readonly Span[], context: StoredBytesContext) {
    this.#peer = peer;
    this.#stored = stored.reader;
    this.#storedFrom = stored.storedFrom;
    this.#storedTo = stored.storedTo;
    this.#sizeBytes = stored.sizeBytes;
    this.#spans = spans;
    this.#context = context;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    if (this.#direct !== undefined) return this.#direct.peek(offset, end);
    if (!this.#isStored(offset)) return undefined;
    return this.#cut(this.#stored.peekBlock(this.#indexOf(offset)), offset, end);
  }

  async read(offset: number, end: number): Promise<Uint8Array | undefined> {
    if (this.#closing.signal.aborted) throw new ProxyError('client_gone');
    if (this.#direct !== undefined) return await this.#direct.read(offset, end);
    if (offset >= this.#sizeBytes) return undefined;
    const limit = Math.min(end, this.#sizeBytes);
    const { signal } = this.#closing;
    if (!this.#isStored(offset)) {
      this.#storedTo = await whenStored(this.#peer, { start: offset, end: limit }, this.#context.clock, signal);
      this.#storedFrom = offset;
    }
    const block = this.#isStored(offset) ? await this.#readBlock(this.#indexOf(offset)) : undefined;
    const bytes = this.#cut(block, offset, limit);
    return bytes ?? (await (await this.#goDirect(offset)).read(offset, end));
  }

  close(): void {
    this.#closing.abort(new ProxyError('client_gone'));
    this.#stored.close();
    if (this.#direct === undefined) this.#peer.close();
    else this.#direct.close();
  }

  #isStored(offset: number): boolean {
    return this.#storedFrom <= offset && offset < this.#storedTo;
  }

  #indexOf(offset: number): number {
    return Math.floor(offset / this.#context.store.blockSizeBytes);
  }

  #cut(block: Uint8Array | undefined, offset: number, end: number): Uint8Array | undefined {
    const start = this.#indexOf(offset) * this.#context.store.blockSizeBytes;
    const bytes = block?.subarray(offset - start, end - start);
    return bytes === undefined || bytes.length === 0 ? undefined : bytes;
  }

  /** Undefined where the store cannot give the block, for whatever reason: the peer can. */
  async #readBlock(index: number): Promise<Uint8Array | undefined> {
    return this.#stored.peekBlock(index) ?? (await this.#stored.readBlock(index).catch(() => undefined));
  }

  /** Opens the rest of the spans at the peer. */
  async #goDirect(offset: number): Promise<ByteReader> {
    const { signal } = this.#closing;
    const direct = await this.#peer.open(restOf(this.#spans, offset), signal);
    this.#direct = direct;
    if (signal.aborted) direct.close();
    return direct;
  }
}

/** Returns what is left of spans that are read in order, for a reader at `offset`. */
function restOf(spans: readonly Span[], offset: number): readonly Span[] {
  const index = spans.findIndex(({ start, end }) => start <= offset && offset < end);
  const current = spans[index];
  return current === undefined ? [] : [{ start: offset, end: current.end }, ...spans.slice(index + 1)];
}

/** Asks how far the bytes of a span are stored. Returns its start where that takes too long. Throws as `Representation.whenStored`. */
async function whenStored(
  peer: Representation,
  { start, end }: Span,
  clock: Pick<Clock, 'after'>,
  signal: AbortSignal,
): Promise<number> {
  if (peer.whenStored === undefined) return start;
  const late = new AbortController();
  const cancel = clock.after(PATIENCE_MS, () => late.abort());
  try {
    return await peer.whenStored(start, end, AbortSignal.any([signal, late.signal]));
  } catch (thrown) {
    if (late.signal.aborted && !signal.aborted) return start;
    throw thrown;
  } finally {
    cancel();
  }
}
