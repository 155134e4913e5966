/** What a client of HTTP/2 may make us do for nothing before it is taken for an attacker. */

/** Resets at a time, for each stream that it may have open, and resets per second in the long run. */
const resetsPerStream = 4;
const resetsPerSecond = 33;

/** Bytes without content or a request at a time, and per second in the long run. */
const idleBytes = 1024 * 1024;
const idleBytesPerSecond = 16 * 1024;

/** Of what a client reads, a part is as much again in WINDOW_UPDATE and the like. */
const answerShare = 1 / 32;

/** What was earned beforehand counts up to this, in bytes. */
const mostCredit = 4 * 1024 * 1024;

/** What a connection has received and sent so far, in bytes. */
export interface Traffic {
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/**
 * Counts two things of one connection. Streams that end before their response, whatever has ended them but us: the client
 * has reset them (rapid reset, CVE-2023-44487), or has made nghttp2 reset them (CVE-2025-8671). And bytes that bring neither
 * content nor a request: frames of control, empty frames, padding, header lists that are refused.
 */
export class FloodMeter {
  readonly #mostResets: number;
  #resets = 0;
  #resetAt = 0;
  #idle = 0;
  #idleAt: number;
  #usefulBytes = 0;
  #counted: Traffic = { receivedBytes: 0, sentBytes: 0 };

  constructor(streamsPerConnection: number, now: number) {
    this.#mostResets = resetsPerStream * streamsPerConnection;
    this.#idleAt = now;
  }

  /** A stream has ended before its response. Returns whether that was one too many. */
  noteReset(now: number): boolean {
    const forgiven = ((now - this.#resetAt) / 1000) * resetsPerSecond;
    this.#resets = Math.max(0, this.#resets - forgiven) + 1;
    this.#resetAt = now;
    return this.#resets > this.#mostResets;
  }

  /** Bytes were of use: of a request's head or of its body. */
  noteUse(sizeBytes: number): void {
    this.#usefulBytes += sizeBytes;
  }

  /** Looks at what has come since it was last asked. Returns whether that was too much for nothing. */
  isFlooded(traffic: Traffic, now: number): boolean {
    const received = traffic.receivedBytes - this.#counted.receivedBytes;
    const sent = traffic.sentBytes - this.#counted.sentBytes;
    const forgiven = ((now - this.#idleAt) / 1000) * idleBytesPerSecond;
    const idle = this.#idle + received - this.#usefulBytes - sent * answerShare - forgiven;
    this.#idle = Math.max(-mostCredit, idle);
    this.#idleAt = now;
    this.#counted = traffic;
    this.#usefulBytes = 0;
    return this.#idle > idleBytes;
  }
}
