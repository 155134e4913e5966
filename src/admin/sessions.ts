/** Sessions of browsers that have logged in, and one-time codes that log a browser in. They are kept in memory only. */

import { createHash } from 'node:crypto';

/** How long a session lasts, in milliseconds. */
export const sessionLastsMs = 12 * 3_600_000;

/** How long a code can be used, in milliseconds. */
const codeLastsMs = 5 * 60_000;

/** Beyond these numbers the oldest one ends. */
const mostSessions = 100;
const mostCodes = 20;

/** 256 bits, which cannot be guessed. */
const secretBytes = 32;

/** The parts that sessions are made with. */
interface SessionOptions {
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Returns unpredictable random bytes. */
  readonly random: (size: number) => Uint8Array;
}

/** A code that logs in once. */
export interface SessionCode {
  readonly code: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

/** The sessions and codes of all admin listeners of a server. */
export class Sessions {
  readonly #sessions: Secrets;
  readonly #codes: Secrets;

  constructor(options: SessionOptions) {
    this.#sessions = new Secrets(options, sessionLastsMs, mostSessions);
    this.#codes = new Secrets(options, codeLastsMs, mostCodes);
  }

  /** Begins a session; returns the value of its cookie. */
  open(): string {
    return this.#sessions.create().secret;
  }

  /** Checks whether a text is the value of the cookie of a session that goes on. */
  has(cookie: string): boolean {
    return this.#sessions.has(cookie);
  }

  /** Ends a session. */
  end(cookie: string): void {
    this.#sessions.remove(cookie);
  }

  /** Ends all sessions, and makes all codes invalid. */
  endAll(): void {
    this.#sessions.clear();
    this.#codes.clear();
  }

  createCode(): SessionCode {
    const { secret: code, expiresAt } = this.#codes.create();
    return { code, expiresAt };
  }

  /** Checks whether a text is a valid code. It is used up then. */
  redeem(code: string): boolean {
    return this.#codes.has(code) && this.#codes.remove(code);
  }
}

/**
 * Random texts that are valid for some time. They are kept by their digests: how long a look-up takes says nothing about them,
 * and a dump of the memory does not contain them.
 */
class Secrets {
  readonly #options: SessionOptions;
  readonly #lastsMs: number;
  readonly #most: number;
  /** When each one expires, by its digest, the oldest first. */
  readonly #expiries = new Map<string, number>();

  constructor(options: SessionOptions, lastsMs: number, most: number) {
    this.#options = options;
    this.#lastsMs = lastsMs;
    this.#most = most;
  }

  create(): { readonly secret: string; readonly expiresAt: number } {
    const now = this.#options.now();
    for (const [digest, expiresAt] of this.#expiries) {
      if (expiresAt <= now || this.#expiries.size >= this.#most) this.#expiries.delete(digest);
    }
    const secret = Buffer.from(this.#options.random(secretBytes)).toString('base64url');
    const expiresAt = now + this.#lastsMs;
    this.#expiries.set(digestOf(secret), expiresAt);
    return { secret, expiresAt };
  }

  has(secret: string): boolean {
    const expiresAt = this.#expiries.get(digestOf(secret));
    return expiresAt !== undefined && this.#options.now() < expiresAt;
  }

  remove(secret: string): boolean {
    return this.#expiries.delete(digestOf(secret));
  }

  clear(): void {
    this.#expiries.clear();
  }
}

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64');
}

/** Returns the link that logs a browser in with a one-time code. The code is in the fragment, which browsers do not send. */
export function formatDashboardLink(url: string, code: string): string {
  return `${url.replace(/\/$/, '')}/#code=${code}`;
}
