/** Under what an answer from the store stands: as long as that lasts, the same question would get the same answer. */

import type { Span } from '../bytes/span.ts';
import type { MovableBytes } from '../http/message.ts';
import { tellsSender } from '../semantics/forwarded.ts';
import { currentAgeMs } from '../semantics/freshness.ts';
import type { Store, StoredEntry } from '../store/store.ts';
import { peekBytes, peekKeptBytes, readDueBytes } from './block-bytes.ts';
import type { Inquiry } from './inquiry.ts';
import type { Plan } from './plan.ts';

/** The plans that use an entry as it is. */
type HitPlan = Extract<Plan, { kind: 'hit' }>;

/**
 * Fields by which a request says more than what it wants: then the answer depends on what is known of validators, or on the age
 * to the millisecond.
 */
const weighedFields: ReadonlySet<string> = new Set([
  'cache-control',
  'pragma',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
]);

/** What a plan was made from: the entries that the store told of the key in the same tick, and when, in epoch milliseconds. */
export interface Peeked {
  readonly entries: readonly StoredEntry[];
  readonly plannedAt: number;
}

/**
 * What the plan for a question rests on, where that can be looked at again. Nothing for plans that need more than the entry, and
 * for requests that say more than what they want.
 */
export function standingOf(
  plan: HitPlan,
  { request, key }: Pick<Inquiry, 'request' | 'key'>,
  peeked: Peeked,
  store: PeekedStore,
): Standing | undefined {
  const { entry, ttlMs } = plan;
  if (!(ttlMs > 0) || !entry.isComplete || entry.pinnedUntil !== undefined) return undefined;
  for (const [name] of request.fields) if (weighedFields.has(name)) return undefined;
  return new Standing(store, key, peeked, plan);
}

type PeekedStore = Pick<Store, 'peek' | 'blockSizeBytes'>;

/**
 * The same entries of the same key, and the same whole seconds of age and lifetime. How long these last is found out when it is
 * first asked for: most answers are given once.
 */
export class Standing {
  readonly #store: PeekedStore;
  readonly #key: string;
  readonly #peeked: Peeked;
  readonly #plan: HitPlan;
  #term: Term | undefined;

  constructor(store: PeekedStore, key: string, peeked: Peeked, plan: HitPlan) {
    this.#store = store;
    this.#key = key;
    this.#peeked = peeked;
    this.#plan = plan;
  }

  /** The length of the whole representation, in bytes. */
  get sizeBytes(): number {
    return this.#plan.entry.sizeBytes;
  }

  /** Whether the answer would be the same now, in epoch milliseconds. Looks the key up, which is a use of it. */
  holds(now: number): boolean {
    this.#term ??= termOf(this.#peeked, this.#plan);
    const { untilAt, lastAt } = this.#term;
    if (now < this.#peeked.plannedAt || now >= untilAt || now > lastAt) return false;
    return areSame(this.#store.peek(this.#key), this.#peeked.entries);
  }

  /** Bytes in memory now, as `Representation.peek` tells them. */
  peek(offset: number, end: number): Uint8Array | undefined {
    return peekBytes(this.#plan.entry, this.#store.blockSizeBytes, offset, end);
  }

  /** Bytes that this process has in memory, and need not be read. */
  peekKept(offset: number, end: number): Uint8Array | undefined {
    return peekKeptBytes(this.#plan.entry, this.#store.blockSizeBytes, offset, end);
  }

  /** The bytes of a span, where the system can move all of them now. */
  movable(span: Span): MovableBytes | undefined {
    const { entry } = this.#plan;
    if (entry.canMove?.(span.start, span.end) !== true) return undefined;
    return new MovableSpan(entry, this.#store.blockSizeBytes, span);
  }

  /** Takes back bytes that nobody reads any more: see `StoredEntry.giveBack`. */
  giveBack(chunks: readonly Uint8Array[]): void {
    const { entry } = this.#plan;
    if (entry.giveBack !== undefined) for (const chunk of chunks) entry.giveBack(chunk);
  }
}

class MovableSpan implements MovableBytes {
  readonly #entry: StoredEntry;
  readonly #blockSizeBytes: number;
  readonly #span: Span;

  constructor(entry: StoredEntry, blockSizeBytes: number, span: Span) {
    this.#entry = entry;
    this.#blockSizeBytes = blockSizeBytes;
    this.#span = span;
  }

  move(socket: number, head: Uint8Array): number {
    return this.#entry.move?.(socket, head, this.#span.start, this.#span.end) ?? 0;
  }

  readFrom(offset: number): readonly Uint8Array[] | undefined {
    const { start, end } = this.#span;
    return readDueBytes(this.#entry, this.#blockSizeBytes, { start: start + offset, end });
  }
}

function areSame(found: readonly StoredEntry[] | undefined, entries: readonly StoredEntry[]): boolean {
  if (found === entries) return true;
  return found?.length === entries.length && found.every((entry, index) => entry === entries[index]);
}

/** How long an answer keeps its text, in epoch milliseconds. */
interface Term {
  /** Not from then on: another Age, or no longer fresh. */
  readonly untilAt: number;
  /** Not after it: another whole number of seconds of lifetime left (RFC 9211 §2.5). */
  readonly lastAt: number;
}

const noTerm: Term = { untilAt: Number.NEGATIVE_INFINITY, lastAt: Number.NEGATIVE_INFINITY };

function termOf({ entries, plannedAt }: Peeked, { entry, ttlMs }: HitPlan): Term {
  // Equal requests of other senders are other requests then.
  if (entries.some(isSelectedBySender)) return noTerm;
  const ageMs = currentAgeMs(entry.metadata, plannedAt);
  return { untilAt: plannedAt + Math.min(1000 - (ageMs % 1000), ttlMs), lastAt: plannedAt + (ttlMs % 1000) };
}

function isSelectedBySender({ metadata: { nominated, selected } }: StoredEntry): boolean {
  return nominated.some(([name]) => tellsSender(name)) || selected?.some(([name]) => tellsSender(name)) === true;
}
