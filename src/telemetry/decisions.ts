/**
 * Remembers what happened to the last requests, and to the entries of a key, so that an operator sees why a request was not a hit.
 * Plain hits are remembered only for some seconds after a reading. Everything is bounded, and secrets are redacted as in the log.
 */

import type { FillEvent, RemovalEvent, RequestEvent, ServerEvent } from './events.ts';
import { redact } from './redact.ts';
import { Watch } from './watch.ts';

/** What happened to one request. */
export interface DecisionRecord {
  /** When it ended, in epoch milliseconds. */
  readonly at: number;
  /** The worker that answered it. */
  readonly worker: number;
  readonly method: string;
  readonly uri: string;
  readonly range: string | undefined;
  readonly status: number;
  readonly outcome: RequestEvent['outcome'];
  readonly reason: string | undefined;
  readonly collapsed: boolean;
  readonly originBytes: number;
  readonly sentBytes: number;
  readonly headMs: number;
  readonly durationMs: number;
  readonly apartBy: readonly string[] | undefined;
  readonly error: string | undefined;
  readonly traceId: string | undefined;
}

/** What happened to the entries of a key besides requests. */
export interface KeyEventRecord {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly worker: number;
  readonly event: 'filled' | RemovalEvent['cause'];
  /** A sentence for people. */
  readonly detail: string;
}

/** Which records are read: all of requests, or those of a key or a URI. */
export interface DecisionChoice {
  readonly key?: string | undefined;
  readonly uri?: string | undefined;
}

interface DecisionOptions {
  /** The number of this process among those that serve. */
  readonly worker: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Calls back once after some milliseconds, without keeping the process alive. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
}

/** Numbers of records of each kind that are remembered. */
const mostRequests = 1000;
const mostFills = 500;
const mostRemovals = 1000;

/** Hits are remembered for this long after the last reading, in milliseconds. */
const lastsMs = 10_000;

/** Longest text that is kept, in characters; of a longer one the beginning is kept. */
const longestText = 2048;

/** A record, and the texts that it is found by. */
interface Kept<Value> {
  readonly key: string | undefined;
  readonly uri: string | undefined;
  readonly value: Value;
}

/** The last requests of a process, and what happened to its entries. */
export class Decisions {
  readonly #worker: number;
  readonly #now: () => number;
  readonly #watch: Watch;
  readonly #requests = new Ring<Kept<DecisionRecord>>(mostRequests);
  readonly #fills = new Ring<Kept<KeyEventRecord>>(mostFills);
  readonly #removals = new Ring<Kept<KeyEventRecord>>(mostRemovals);

  constructor({ worker, now, after }: DecisionOptions) {
    this.#worker = worker;
    this.#now = now;
    this.#watch = new Watch({ lastsMs, after, onEnd: () => undefined });
  }

  /** Takes an event. A plain hit without a viewer costs a comparison. */
  note(event: ServerEvent): void {
    if (event.kind === 'request') {
      if (event.outcome === 'hit' && event.error === undefined && !this.#watch.isOn) return;
      this.#requests.add(keptRequest(event, this.#worker, this.#now()));
    } else if (event.kind === 'fill') {
      this.#fills.add(this.#keptEvent(event.key, 'filled', describeFill(event)));
    } else if (event.kind === 'removal') {
      for (const key of event.keys) this.#removals.add(this.#keptEvent(key, event.cause, causes[event.cause]));
    }
  }

  /** Remembers hits, too, from now on for some seconds. */
  look(): void {
    this.#watch.look();
  }

  /** Returns the last records of a choice, the newest first, at most `limit`. */
  read(choice: DecisionChoice, limit: number): readonly (DecisionRecord | KeyEventRecord)[] {
    this.look();
    const isChosen = matcherOf(choice);
    if (isChosen === undefined) return this.#requests.newest(limit, () => true).map(({ value }) => value);
    const rings: readonly Pick<Ring<Kept<DecisionRecord | KeyEventRecord>>, 'newest'>[] = [
      this.#requests,
      this.#fills,
      this.#removals,
    ];
    return rings
      .flatMap((ring) => ring.newest(limit, isChosen))
      .map(({ value }) => value)
      .sort((one, other) => other.at - one.at)
      .slice(0, limit);
  }

  #keptEvent(key: string, event: KeyEventRecord['event'], detail: string): Kept<KeyEventRecord> {
    const value = { at: this.#now(), worker: this.#worker, event, detail };
    return { key: ownText(redact(key)), uri: undefined, value };
  }
}

/** Returns a function that finds records; undefined for all. A key ends with the URI that it is for. */
function matcherOf({ key, uri }: DecisionChoice): ((kept: Kept<unknown>) => boolean) | undefined {
  if (key !== undefined) {
    const wanted = ownText(redact(key));
    return (kept) => kept.key === wanted;
  }
  if (uri === undefined) return undefined;
  const wanted = ownText(redact(uri));
  const ending = ` ${wanted}`;
  return (kept) => kept.uri === wanted || kept.key?.endsWith(ending) === true;
}

function keptRequest(event: RequestEvent, worker: number, at: number): Kept<DecisionRecord> {
  const { scheme, authority, target, key, method, range, status, outcome, reason, collapsed, apartBy } = event;
  const { originBytes, bytesSent, headMs, durationMs, error, traceId } = event;
  const uri = ownText(redact(`${scheme}://${authority}${target}`));
  const value: DecisionRecord = {
    at,
    worker,
    method: ownText(redact(method)),
    uri,
    range: range === undefined ? undefined : ownText(redact(range)),
    status,
    outcome,
    reason: reason === undefined ? undefined : ownText(redact(reason)),
    collapsed,
    originBytes,
    sentBytes: bytesSent,
    headMs,
    durationMs,
    apartBy: apartBy?.map((name) => ownText(redact(name))),
    error,
    traceId,
  };
  return { key: key === undefined ? undefined : ownText(redact(key)), uri, value };
}

const causes: Readonly<Record<RemovalEvent['cause'], string>> = {
  purged: 'An operator removed what was stored.',
  expired: 'An operator ended the lifetime of what was stored.',
  evicted: 'What was stored was evicted to make room.',
};

const results: Readonly<Record<FillEvent['result'], string>> = {
  stored: 'whole and stored',
  same: 'the stored bytes were confirmed',
  kept: 'stored, but not whole yet',
  relayed: 'whole, but not stored',
  failed: 'broken off',
  stopped: 'stopped, because no client needed it',
};

function describeFill({ bytes, result, durationMs, resumptions, isPart, error, errorDetail }: FillEvent): string {
  const retries = resumptions === 0 ? '' : `, resumed ${resumptions === 1 ? 'once' : `${resumptions} times`}`;
  const why = error === undefined ? '' : `: ${errorDetail === undefined ? error : `${error}, ${errorDetail}`}`;
  const sentence = `A ${isPart ? 'parallel ' : ''}transfer of ${bytes} bytes from the origin ended after ${Math.round(durationMs)} ms${retries}: ${results[result]}${why}.`;
  return ownText(redact(sentence));
}

/** Returns a text in memory of its own, because a part of a string keeps the whole string in memory. */
function ownText(text: string): string {
  return Buffer.from(text.length <= longestText ? text : `${text.slice(0, longestText)}…`).toString();
}

/** The last things of a kind. */
class Ring<Thing> {
  readonly #most: number;
  readonly #things: Thing[] = [];
  /** Where the next thing is put, once the ring is full. */
  #at = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(thing: Thing): void {
    this.#things[this.#at] = thing;
    this.#at = (this.#at + 1) % this.#most;
  }

  /** Returns the last things that are chosen, the newest first. */
  newest(limit: number, isChosen: (thing: Thing) => boolean): Thing[] {
    const { length } = this.#things;
    const found: Thing[] = [];
    for (let back = 1; back <= length && found.length < limit; back += 1) {
      const thing = this.#things[(this.#at - back + length) % length];
      if (thing !== undefined && isChosen(thing)) found.push(thing);
    }
    return found;
  }
}
