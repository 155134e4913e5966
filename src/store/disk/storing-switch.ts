/** Turns storing off while the disk is full or fails, and tries again now and then. */

import type { Emit } from '../../telemetry/events.ts';
import { StoreFault } from '../store.ts';
import { systemCode } from './file-system.ts';

/** While storing is off, one writer per such interval may try. */
const retryAfterMs = 10_000;
/** A disk that is full now and then is told of once per such interval. */
const toldAgainAfterMs = 600_000;

const fullCodes: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Any failure to write as a `StoreFault`. */
export function toStoreFault(error: unknown): StoreFault {
  if (error instanceof StoreFault) return error;
  const isFull = fullCodes.has(systemCode(error) ?? '');
  return new StoreFault(isFull ? 'no_room' : 'io', `The store cannot be written: ${String(error)}`, { cause: error });
}

/** On, or off because of a fault. Tells when it goes off and on, but not over and over. */
export class StoringSwitch {
  readonly #now: () => number;
  readonly #emit: Emit;
  #off: { readonly fault: StoreFault; retryAt: number; isTrying: boolean } | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;
  #isToldOff = false;

  constructor(options: { readonly now: () => number; readonly emit: Emit }) {
    this.#now = options.now;
    this.#emit = options.emit;
  }

  get isOn(): boolean {
    return this.#off === undefined;
  }

  /** Throws the `StoreFault` that turned storing off, unless it is time for a trial. */
  check(): void {
    if (this.#off === undefined) return;
    if (this.#now() < this.#off.retryAt) throw this.#off.fault;
    this.#off.retryAt = this.#now() + retryAfterMs;
    this.#off.isTrying = true;
  }

  /** Something could not be written. */
  failed(fault: StoreFault): void {
    const now = this.#now();
    if (this.#off === undefined && now >= this.#toldAt + toldAgainAfterMs) {
      const why = fault.reason === 'no_room' ? 'the disk is full' : 'the disk cannot be written';
      this.#tell('warn', `Storing is off: ${why}. Requests go on.`, fault.message);
      this.#toldAt = now;
      this.#isToldOff = true;
    }
    this.#off = { fault, retryAt: now + retryAfterMs, isTrying: false };
  }

  /** Something was written. While storing is off only a trial counts: the last free bytes of a disk prove nothing. */
  succeeded(): void {
    if (this.#off?.isTrying !== true) return;
    this.#off = undefined;
    if (this.#isToldOff) this.#tell('info', 'Storing is on again.', undefined);
    this.#isToldOff = false;
  }

  #tell(level: 'info' | 'warn', message: string, detail: string | undefined): void {
    this.#emit({ kind: 'store', level, message, detail });
  }
}
