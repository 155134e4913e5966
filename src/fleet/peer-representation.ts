/** A representation that another process has, stored or on its way. */

import type { Span } from '../bytes/span.ts';
import type { ByteReader, Representation } from '../cache/representation.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { reviveFailure, type ToldAnswer, type ToldFailure } from './peer-answer.ts';
import { type Frame, type FrameKind, frameKinds, readValue } from './peer-frames.ts';
import type { PeerLine } from './peer-line.ts';
import { createPeerReader, type PeerBytes } from './peer-reader.ts';

/** What is told of whether bytes are there. Plain data. */
export interface ToldPresence {
  readonly isPresent: boolean;
  readonly sizeBytes: number | undefined;
}

/** What was told of it. */
type Told = Pick<Extract<ToldAnswer, { kind: 'representation' }>, 'response' | 'generation' | 'sizeBytes'>;

/** Makes a representation of what was told; its bytes come over the line, which is closed with it. */
export function createPeerRepresentation(told: Told, line: PeerLine, bytes: PeerBytes): Representation {
  return new PeerRepresentation(told, line, bytes);
}

class PeerRepresentation implements Representation {
  readonly response: Told['response'];
  readonly generation: string | undefined;
  readonly #line: PeerLine;
  readonly #bytes: PeerBytes;
  #sizeBytes: number | undefined;
  #isOpened = false;

  constructor({ response, generation, sizeBytes }: Told, line: PeerLine, bytes: PeerBytes) {
    this.response = response;
    this.generation = generation;
    this.#sizeBytes = sizeBytes;
    this.#line = line;
    this.#bytes = bytes;
  }

  get sizeBytes(): number | undefined {
    return this.#bytes.end?.sizeBytes ?? this.#sizeBytes;
  }

  peek(): undefined {
    return undefined;
  }

  async open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    this.#isOpened = true;
    try {
      this.#line.send(frameKinds.open, spans);
      await this.#reply(frameKinds.opened, signal);
      return createPeerReader(this.#bytes);
    } catch (thrown) {
      this.#line.close();
      throw thrown;
    }
  }

  async whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    this.#line.send(frameKinds.present, end);
    const { isPresent, sizeBytes } = readValue<ToldPresence>(await this.#reply(frameKinds.presence, signal));
    this.#sizeBytes = sizeBytes;
    return isPresent;
  }

  close(): void {
    if (!this.#isOpened) this.#line.close();
  }

  /** Whoever has asked for presence may have left since: its answer is passed over. */
  async #reply(kind: FrameKind, signal: AbortSignal): Promise<Frame> {
    for (;;) {
      const frame = await this.#line.next(signal);
      if (frame.kind === kind) return frame;
      if (frame.kind === frameKinds.failed) throw reviveFailure(readValue<ToldFailure>(frame));
      if (frame.kind !== frameKinds.presence) throw new ProxyError('internal', { detail: `a frame ${frame.kind}` });
    }
  }
}
