/**
 * One transfer from the origin into one generation. It belongs to no client: readers attach at any offset, get each byte
 * as it arrives, and leave without harm to it.
 */

import { createHash, type Hash } from 'node:crypto';
import type { BodyStream } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { type EntryWriter, StoreFault } from '../store/store.ts';
import { BlockAssembler } from './block-assembler.ts';
import { peekBytes, readBytes } from './block-bytes.ts';
import type { ByteReader, Representation } from './representation.ts';
import { createWaiters, type Waiters } from './waiters.ts';

/** How a fill ended. */
export type FillResult = 'stored' | 'same' | 'relayed' | 'failed' | 'stopped';

/** A body whose last byte has come. */
export interface WholeBody {
  readonly sizeBytes: number;
  /** Its SHA-256, hexadecimal, where it was wanted. */
  readonly digest: string | undefined;
}

/** What a fill needs. */
export interface FillOptions {
  readonly response: StoredResponse;
  readonly body: BodyStream;
  /** The length that the origin promised, where it did. */
  readonly sizeBytes: number | undefined;
  readonly writer: EntryWriter;
  readonly blockSizeBytes: number;
  /** How many bytes are held for readers once the store cannot take more. */
  readonly windowBytes: number;
  /** Whether the transfer goes on when its last reader has left. */
  readonly onAbort: 'finish' | 'stop';
  /** Whether `commit` wants the SHA-256 of the whole. */
  readonly wantsDigest: boolean;
  /** Makes the whole generation findable, unless it may not be any more. Throws `StoreFault`. */
  readonly commit: (whole: WholeBody) => Promise<'stored' | 'same' | 'relayed'>;
  /** Told once, when the transfer is over and before the last reader has left. Does not throw. */
  readonly onEnd: (end: { result: FillResult; bytes: number; error: ProxyError | undefined }) => void;
  /** Told when the store refused a block. Does not throw. */
  readonly onStoreFault: (fault: StoreFault) => void;
}

/** A fill: to be run, running, or over and still read. */
export class Fill {
  readonly response: StoredResponse;
  readonly #options: FillOptions;
  readonly #assembler: BlockAssembler;
  readonly #waiters: Waiters = createWaiters();
  /** Those who read or are about to: each with the offset that it asked for last. */
  readonly #readers = new Map<object, number>();
  /** Full blocks that the store does not have (yet): on their way to it, or held for readers when it takes no more. */
  readonly #held = new Map<number, Uint8Array>();
  readonly #hash: Hash | undefined;
  #sizeBytes: number | undefined;
  #isStoring = true;
  #isReleased = false;
  #error: ProxyError | undefined;

  constructor(options: FillOptions) {
    this.#options = options;
    this.response = options.response;
    this.#sizeBytes = options.sizeBytes;
    this.#assembler = new BlockAssembler(options.blockSizeBytes, options.sizeBytes);
    this.#hash = options.wantsDigest ? createHash('sha256') : undefined;
  }

  /** The next byte to arrive: how many have. */
  get frontier(): number {
    return this.#assembler.frontier;
  }

  /** Whether new readers may still attach and find every byte. */
  get isJoinable(): boolean {
    return this.#isStoring && !this.#isReleased && this.#error === undefined;
  }

  /** Ends the transfer at once; its readers are cut off. */
  stop(error: ProxyError): void {
    this.#error ??= error;
    this.#options.body.close();
    this.#waiters.changed();
  }

  /**
   * Runs the transfer, once. Resolves when it is over and, where it was stored, the entry can be found; what it holds is
   * given back when nobody reads it any more. Never rejects.
   */
  async run(): Promise<void> {
    let result: FillResult;
    let error: ProxyError | undefined;
    try {
      for await (const chunk of this.#options.body) await this.#take(chunk);
      result = await this.#finish();
    } catch (thrown) {
      this.#error ??= toProxyError(thrown);
      error = this.#error;
      result = error.code === 'client_gone' ? 'stopped' : 'failed';
    }
    this.#options.body.close();
    this.#options.onEnd({ result, bytes: this.frontier, error });
    this.#waiters.changed();
    void this.#releaseWhenUnread();
  }

  /** Holds the fill for one request, from the first byte on, until the representation is closed. */
  attach(): Representation {
    const seat = {};
    this.#readers.set(seat, 0);
    const sizeBytes = () => this.#sizeBytes;
    return {
      response: this.response,
      get sizeBytes() {
        return sizeBytes();
      },
      peek: (offset, end) => this.#peek(offset, end),
      open: async (offset) => this.#open(offset),
      whenPresent: (end, signal) => this.#whenPresent(end, signal),
      close: () => this.#leave(seat),
    };
  }

  /** Whether the last byte is there. */
  get #isWhole(): boolean {
    return this.#sizeBytes !== undefined && this.frontier >= this.#sizeBytes;
  }

  #peek(offset: number, end: number): Uint8Array | undefined {
    const limit = Math.min(end, this.frontier);
    if (offset >= limit) return undefined;
    const block = this.#blockInMemory(Math.floor(offset / this.#options.blockSizeBytes));
    if (block !== undefined) return peekBytes({ peekBlock: () => block }, this.#options.blockSizeBytes, offset, limit);
    return peekBytes(this.#options.writer, this.#options.blockSizeBytes, offset, limit);
  }

  #open(offset: number): ByteReader {
    if (this.#error !== undefined && this.frontier <= offset) throw this.#error;
    const closing = new AbortController();
    const reader: ByteReader = {
      peek: (from, end) => {
        this.#reach(reader, from);
        return this.#peek(from, end);
      },
      read: (from, end) => {
        this.#reach(reader, from);
        return this.#read(from, end, closing.signal);
      },
      close: () => {
        closing.abort(new ProxyError('client_gone'));
        this.#leave(reader);
      },
    };
    this.#readers.set(reader, offset);
    return reader;
  }

  async #whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    const isPresent = () => this.#sizeBytes !== undefined || this.frontier >= end;
    await this.#waiters.wait(() => {
      if (isPresent() || !this.#isStoring) return true;
      if (this.#error !== undefined) throw this.#error;
      return false;
    }, signal);
    return isPresent();
  }

  async #read(offset: number, end: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    await this.#waiters.wait(() => {
      if (this.frontier > offset || this.#isWhole) return true;
      if (this.#error !== undefined) throw this.#error;
      return false;
    }, signal);
    if (this.frontier <= offset) return undefined;
    return this.#peek(offset, end) ?? (await this.#readFromWriter(offset, Math.min(end, this.frontier)));
  }

  #readFromWriter(offset: number, end: number): Promise<Uint8Array> {
    return readBytes(this.#options.writer, this.#options.blockSizeBytes, offset, end);
  }

  #blockInMemory(index: number): Uint8Array | undefined {
    return this.#assembler.blockAt(index) ?? this.#held.get(index);
  }

  async #take(chunk: Uint8Array): Promise<void> {
    const promised = this.#options.sizeBytes;
    const rest = promised === undefined ? chunk : chunk.subarray(0, promised - this.frontier);
    this.#hash?.update(rest);
    let taken = 0;
    while (taken < rest.length) {
      taken += this.#assembler.append(rest, taken);
      const sealed = this.#assembler.seal();
      this.#waiters.changed();
      if (sealed !== undefined) await this.#keep(sealed.index, sealed.bytes);
    }
  }

  /** Gives a full block to the store, or holds it for the readers when the store takes no more. */
  async #keep(index: number, bytes: Uint8Array): Promise<void> {
    this.#held.set(index, bytes);
    if (this.#isStoring) {
      try {
        await this.#options.writer.writeBlock(index, bytes);
        this.#held.delete(index);
        return;
      } catch (thrown) {
        if (!(thrown instanceof StoreFault)) throw thrown;
        this.#isStoring = false;
        this.#options.onStoreFault(thrown);
        this.#waiters.changed();
      }
    }
    await this.#waitForRoom();
  }

  /** With no store behind it, the transfer goes no faster than the slowest reader. */
  async #waitForRoom(): Promise<void> {
    await this.#waiters.wait(() => {
      if (this.#error !== undefined) throw this.#error;
      if (this.#readers.size === 0)
        throw new ProxyError('client_gone', { detail: 'not storable, and nobody reads it' });
      const lowest = Math.min(...this.#readers.values());
      for (const index of this.#held.keys()) {
        if ((index + 1) * this.#options.blockSizeBytes <= lowest) this.#held.delete(index);
      }
      return this.#held.size * this.#options.blockSizeBytes < this.#options.windowBytes;
    });
  }

  async #finish(): Promise<FillResult> {
    if (this.#error !== undefined) throw this.#error;
    const promised = this.#options.sizeBytes;
    if (promised !== undefined && this.frontier < promised) throw new ProxyError('origin_body_short');
    const last = this.#assembler.sealLast();
    this.#sizeBytes = this.frontier;
    this.#waiters.changed();
    if (!this.#isStoring) return 'relayed';
    try {
      if (last !== undefined) {
        this.#held.set(last.index, last.bytes);
        await this.#options.writer.writeBlock(last.index, last.bytes);
      }
      return await this.#options.commit({ sizeBytes: this.frontier, digest: this.#hash?.digest('hex') });
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
      this.#isStoring = false;
      this.#options.onStoreFault(thrown);
      return 'relayed';
    }
  }

  #reach(reader: ByteReader, offset: number): void {
    const earlier = this.#readers.get(reader);
    if (earlier === undefined || earlier === offset) return;
    this.#readers.set(reader, offset);
    if (!this.#isStoring) this.#waiters.changed();
  }

  #leave(reader: object): void {
    if (!this.#readers.delete(reader)) return;
    const isWanted = this.#readers.size > 0 || this.#options.onAbort === 'finish' || this.#isWhole;
    if (!isWanted) this.stop(new ProxyError('client_gone', { detail: 'nobody reads it any more' }));
    this.#waiters.changed();
  }

  async #releaseWhenUnread(): Promise<void> {
    while (this.#readers.size > 0) await this.#waiters.wait(() => this.#readers.size === 0);
    this.#isReleased = true;
    this.#held.clear();
    await this.#options.writer[Symbol.asyncDispose]();
  }
}
