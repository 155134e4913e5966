/**
 * Fetches the next segments of a playlist that a client plays, before the client asks for them. Read this file first, then
 * `playlists.ts` (what is known of playlists) and `read-playlist.ts`.
 *
 * Only requests of clients cause prefetches, so nothing is fetched ahead of a player that has stopped. A prefetch is an inquiry of
 * Rangeway's own: it has the same key, joins the same flights and is stored by the same rules as a request of a client without
 * credentials. It gives way to clients (`createYieldingOrigin`).
 */

import { LRUCache } from 'lru-cache';
import type { Answer, Representation } from '../cache/answer.ts';
import type { Cache } from '../cache/cache.ts';
import { type CachePolicy, changedInquiry, type Inquiry, rangeSpecs } from '../cache/inquiry.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import { forwardedRequestFields } from '../guard/fields/forwarding.ts';
import type { Clock } from '../http/clock.ts';
import { type Field, type Fields, fieldValue } from '../http/fields.ts';
import type { Peer, PlainHead, ProxyRequest } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Segment } from '../media/targets.ts';
import { createYieldingOrigin } from '../origin/counted-origin.ts';
import { createInquiry, policyOf, routeRequest } from '../routing/inquiry.ts';
import type { PrefetchRules, Route } from '../routing/router.ts';
import { parseRange, type RangeSpec } from '../semantics/range.ts';
import { isForAll } from '../semantics/reuse.ts';
import type { StoredEntry } from '../store/store.ts';
import type { Emit, PrefetchEvent } from '../telemetry/events.ts';
import {
  KnownPlaylists,
  type ListedSegment,
  type PlayedPlaylist,
  type Playing,
  type SegmentRequest,
} from './playlists.ts';
import { hasPlaylistName, isPlaylist, maxPlaylistBytes, readStreams } from './read-playlist.ts';

/** The parts of the proxy that prefetches use. */
export interface PrefetchContext extends Pick<AdmissionContext, 'router' | 'gateOf' | 'pseudonym'> {
  readonly cache: Pick<Cache, 'answer' | 'present'>;
  readonly clock: Clock;
  readonly emit: Emit;
}

/** Takes note of what clients of one route ask for. */
export interface RoutePrefetch {
  /** Notes the answer of a request. Returns at once; does not throw. */
  noteAnswer(inquiry: Inquiry, answer: Answer): void;
  /** Notes a hit that the short road answers. `client` is the name of the client in the limits. Returns at once; does not throw. */
  noteHit(head: PlainHead, scheme: ProxyRequest['scheme'], client: string, entry: StoredEntry): void;
  /** Returns the targets that would be looked at next if a client asked for this; undefined where no playlist lists it. */
  explain(inquiry: Inquiry): readonly string[] | undefined;
}

/** The most prefetches of a process that run at a time. */
const MAX_RUNNING = 64;

/** How much is known of playlists: at most about 32 MB, and 20,000 prefetches. */
const playlistLimits = { playlists: 1000, characters: 32 * 1024 * 1024 };
const MAX_KNOWN = 20_000;

/** A prefetched segment that no client has asked for within this time counts as unused, in milliseconds. */
const UNUSED_AFTER_MS = 10 * 60 * 1000;

/** How often prefetched segments are searched for those that count as unused, in milliseconds. */
const PURGE_EVERY_MS = 60_000;

/** How long one prefetch may take, in milliseconds. Clients that have joined its transfer go on. */
const MAX_MS = 60_000;

/** When a segment is looked at again, in milliseconds: one that was there, one that had to give way, one that failed. */
const AGAIN_MS = 10_000;
const AGAIN_WHEN_BUSY_MS = 1000;
const AGAIN_WHEN_FAILED_MS = 60_000;

/** What is known of one segment. */
interface Known {
  state: 'running' | 'unused' | 'settled';
  /** When it may be looked at again, in epoch milliseconds. */
  againAt: number;
  /** Set where a client has asked for it. */
  isUsed: boolean;
  bytes: number;
  readonly route: string;
  readonly key: string;
}

/** What a process knows of playlists and prefetches. It outlives a configuration. */
export class PrefetchState {
  readonly playlists = new KnownPlaylists(playlistLimits);
  readonly #known: LRUCache<string, Known>;
  readonly #emit: Emit;
  #purgeAt = 0;
  /** The number of running prefetches. */
  running = 0;

  constructor(clock: Pick<Clock, 'now'>, emit: Emit) {
    this.#emit = emit;
    this.#known = new LRUCache<string, Known>({
      max: MAX_KNOWN,
      ttl: UNUSED_AFTER_MS,
      ttlResolution: 0,
      perf: clock,
      dispose: (known) => this.#drop(known),
    });
  }

  /** Notes that a client asks for a segment. */
  use(id: string): void {
    const known = this.#known.get(id);
    if (known === undefined || known.isUsed) return;
    known.isUsed = true;
    if (known.state === 'unused') this.settleUsed(known);
  }

  /** Counts a segment as used. Its state is `settled` then. */
  settleUsed(known: Known): void {
    known.state = 'settled';
    this.#emit(prefetchEvent(known, 'used'));
  }

  /** Checks whether a segment is due: not prefetched yet, and not looked at lately. */
  isDue(id: string, now: number): boolean {
    const known = this.#known.get(id);
    return known === undefined || (known.state === 'settled' && known.againAt <= now);
  }

  /** Notes that the prefetch of a segment begins. */
  begin(key: string, start: number, route: string, now: number): Known {
    if (now >= this.#purgeAt) {
      // Removes those whose time has passed, which counts them as unused.
      this.#known.purgeStale();
      this.#purgeAt = now + PURGE_EVERY_MS;
    }
    const known: Known = { state: 'running', againAt: 0, isUsed: false, bytes: 0, route, key };
    this.#known.set(idOf(key, start), known);
    return known;
  }

  #drop(known: Known): void {
    if (known.state === 'unused') this.#emit(prefetchEvent(known, 'unused'));
  }
}

function prefetchEvent({ route, key, bytes }: Known, result: PrefetchEvent['result'], detail?: string): PrefetchEvent {
  return { kind: 'prefetch', route, key, result, bytes, detail };
}

/** The segments that are to be prefetched for one client of one stream. */
interface Sequence {
  due: ListedSegment[];
  /** The segment that is being prefetched. */
  current: string | undefined;
}

/** The client that plays: whose request causes prefetches. */
interface Player {
  readonly scheme: ProxyRequest['scheme'];
  readonly authority: string;
  readonly client: string;
  readonly fields: Fields;
}

/** Creates the prefetches of one route. */
export function createRoutePrefetch(
  route: Route,
  rules: PrefetchRules,
  context: PrefetchContext,
  state: PrefetchState,
): RoutePrefetch {
  return new Prefetches(route, rules, context, state);
}

class Prefetches implements RoutePrefetch {
  readonly #route: Route;
  readonly #rules: PrefetchRules;
  readonly #context: PrefetchContext;
  readonly #state: PrefetchState;
  /** That of the route, but where a prefetch is given up, the transfer ends, unless a client reads it. */
  readonly #policy: CachePolicy;
  /** The generations that are being read, by the key of their playlist. */
  readonly #reading = new Map<string, string>();
  /** The running sequences, by their client and stream. */
  readonly #sequences = new Map<string, Sequence>();
  #running = 0;

  constructor(route: Route, rules: PrefetchRules, context: PrefetchContext, state: PrefetchState) {
    this.#route = route;
    this.#rules = rules;
    this.#context = context;
    this.#state = state;
    const policy = policyOf(route);
    this.#policy = { ...policy, fill: { ...policy.fill, onAbort: 'stop' } };
  }

  noteAnswer(inquiry: Inquiry, answer: Answer): void {
    const { request, policy } = inquiry;
    if (answer.kind !== 'representation' || request.method !== 'GET') return;
    const { representation } = answer;
    const { response } = representation;
    // A prefetch has no identity: it serves only clients that have none, where the response is not for all.
    const isShared = isForAll(response, policy) || response.identity?.digest === '';
    if (response.status !== 200 || response.fragment !== undefined || !isShared) return;
    const { sizeBytes } = representation;
    const [spec] = rangeSpecs(inquiry);
    const playing = this.#find({ key: inquiry.key, range: spec && rangeOf(spec), sizeBytes });
    const { scheme, authority, fields } = request;
    if (playing !== undefined)
      this.#follow(inquiry.key, inquiry.client, playing, () => ({ scheme, authority, client: inquiry.client, fields }));
    else if (isPlaylist(request.target, response.fields)) this.#learn(inquiry, representation);
  }

  noteHit(head: PlainHead, scheme: ProxyRequest['scheme'], client: string, entry: StoredEntry): void {
    if (head.method !== 'GET') return;
    const { key, sizeBytes, generation } = entry;
    const playing = this.#find({ key, range: readRange(head.selecting), sizeBytes });
    const player = (): Player => ({ scheme, authority: head.authority, client, fields: head.readFields() });
    if (playing !== undefined) this.#follow(key, client, playing, player);
    else if (hasPlaylistName(head.target) && !this.#isRead(key, generation)) {
      const inquiry = this.#inquire(head.target, undefined, player())?.inquiry;
      if (inquiry !== undefined) this.#learn(inquiry, this.#context.cache.present(entry, inquiry));
    }
  }

  explain(inquiry: Inquiry): readonly string[] | undefined {
    const [spec] = rangeSpecs(inquiry);
    const playing = this.#find({ key: inquiry.key, range: spec && rangeOf(spec), sizeBytes: undefined });
    return playing?.next.map(({ target, span }) =>
      span === undefined ? target : `${target} bytes=${span.start}-${span.end - 1}`,
    );
  }

  #find(asked: SegmentRequest): Playing | undefined {
    return this.#state.playlists.find(asked, this.#rules.segments);
  }

  #isRead(key: string, generation: string): boolean {
    return this.#reading.get(key) === generation || this.#state.playlists.knows(key, generation);
  }

  /** Begins the prefetches that a request causes. */
  #follow(key: string, client: string, { playlist, stream, start, next }: Playing, playerOf: () => Player): void {
    this.#state.use(idOf(key, start));
    const due = next.filter((segment) => this.#isDue(segment, playlist));
    const name = `${client} ${stream}`;
    const running = this.#sequences.get(name);
    const isCaughtUp = running?.current === idOf(key, start);
    if (running !== undefined) {
      // The latest request decides what comes next: the client may have seeked. A segment that the client reads by now is not ahead
      // of it any more, so the next one need not wait for its end.
      running.due = isCaughtUp ? [] : due;
    }
    if (due.length > 0 && (running === undefined || isCaughtUp))
      void this.#prefetchAll(name, { due, current: undefined }, playlist, playerOf());
  }

  #isDue({ key, span }: ListedSegment, playlist: PlayedPlaylist): boolean {
    const now = this.#context.clock.now();
    return playlist.restsUntil <= now && this.#state.isDue(idOf(key, span?.start ?? 0), now);
  }

  /** Prefetches segments one after the other, because they share the line with what the client itself asks for. Never rejects. */
  async #prefetchAll(name: string, sequence: Sequence, playlist: PlayedPlaylist, player: Player): Promise<void> {
    this.#sequences.set(name, sequence);
    for (let segment = sequence.due.shift(); segment !== undefined; segment = sequence.due.shift()) {
      if (this.#running >= this.#rules.concurrent || this.#state.running >= MAX_RUNNING) break;
      if (!this.#isDue(segment, playlist)) continue;
      sequence.current = idOf(segment.key, segment.span?.start ?? 0);
      await this.#prefetch(segment, playlist, player);
    }
    if (this.#sequences.get(name) === sequence) this.#sequences.delete(name);
  }

  /** Prefetches a segment. Never rejects. */
  async #prefetch(segment: ListedSegment, playlist: PlayedPlaylist, player: Player): Promise<void> {
    const { clock, emit } = this.#context;
    const state = this.#state;
    const known = state.begin(segment.key, segment.span?.start ?? 0, this.#route.name, clock.now());
    this.#running += 1;
    state.running += 1;
    const stop = new AbortController();
    const cancel = clock.after(MAX_MS, () =>
      stop.abort(new ProxyError('client_gone', { detail: 'it takes too long' })),
    );
    let againMs = AGAIN_MS;
    try {
      const isOurs = await this.#fetch(segment, player, known, stop.signal);
      if (!isOurs) return;
      known.state = 'unused';
      emit(prefetchEvent(known, 'fetched'));
      if (known.isUsed) state.settleUsed(known);
    } catch (thrown) {
      const { isBusy, reason } = describeFailure(stop.signal.reason ?? thrown);
      againMs = isBusy ? AGAIN_WHEN_BUSY_MS : AGAIN_WHEN_FAILED_MS;
      if (!isBusy) playlist.restsUntil = clock.now() + AGAIN_WHEN_FAILED_MS;
      emit(prefetchEvent(known, isBusy ? 'skipped' : 'failed', reason));
    } finally {
      cancel();
      if (known.state === 'running') known.state = 'settled';
      known.againAt = clock.now() + againMs;
      this.#running -= 1;
      state.running -= 1;
    }
  }

  /**
   * Fetches a segment into the store. Returns false where it is stored, or another request fetches it. Rejects with `ProxyError`
   * or `NotPrefetched` where it cannot be fetched or stored; `known` has the bytes that were read.
   */
  async #fetch(segment: ListedSegment, player: Player, known: Known, signal: AbortSignal): Promise<boolean> {
    const { load, mostExchanges, segmentBytes } = this.#rules;
    const asked = this.#inquire(segment.target, segment.span, player, signal);
    if (asked === undefined) return false;
    const { loan, playerLoan } = asked;
    const mayBegin = () => (load.running + 1) * 2 <= mostExchanges && !playerLoan.owesMuch();
    const inquiry = changedInquiry(asked.inquiry, { origin: createYieldingOrigin(loan.origin, mayBegin) });
    const answer = await this.#context.cache.answer(inquiry);
    if (answer.kind === 'relay') {
      answer.relay.response.body.close();
      throw new NotPrefetched(`it is not stored: ${answer.reason ?? 'the origin does not allow it'}`);
    }
    const { representation } = answer;
    try {
      if (representation.response.status !== 200)
        throw new NotPrefetched(`the origin answered ${representation.response.status}`);
      // A transfer of the whole brings every part. A transfer of another part may not bring this one.
      const isElsewhere = answer.collapsed && (segment.span === undefined || !inquiry.rangeSupport.isKnown);
      if (answer.outcome !== 'miss' || isElsewhere) return false;
      await discard(representation, segment, segmentBytes, signal, known);
      return true;
    } finally {
      // The client pays, by what it takes of any response.
      loan.repay(known.bytes);
      playerLoan.charge(known.bytes);
      representation.close();
    }
  }

  /**
   * Makes an inquiry of our own, and returns it with what it may use of the origin, and with what the player may. Undefined where the
   * target is not of this route.
   */
  #inquire(target: string, span: ListedSegment['span'], player: Player, signal: AbortSignal = never) {
    const { router, gateOf, pseudonym, clock } = this.#context;
    const range: Fields = span === undefined ? [] : [['range', `bytes=${span.start}-${span.end - 1}`]];
    const request: ProxyRequest = {
      method: 'GET',
      scheme: player.scheme,
      authority: player.authority,
      target,
      version: '1.1',
      fields: [...player.fields.filter(isImpersonal), ...range],
      body: undefined,
      bodySizeBytes: undefined,
      peer: ourselves,
      receivedAt: clock.now(),
      signal,
      sendInterim: () => {},
    };
    const routed = routeRequest(request, router);
    const { route } = routed;
    if (route !== this.#route) return undefined;
    // A name of its own: prefetches use up nothing of the client's limits for requests that it makes itself.
    const client = `prefetch for ${player.client}`;
    const gate = gateOf(route);
    const loan = gate.lend(routed, client);
    const inquiry = createInquiry(request, routed, router, {
      origin: loan.origin,
      client,
      originFields: () =>
        forwardedRequestFields(request, { address: ourselves.address, forwardedFor: [] }, route, pseudonym),
      onInterim: () => {},
    });
    return {
      inquiry: changedInquiry(inquiry, { policy: this.#policy }),
      loan,
      playerLoan: gate.lend(routed, player.client),
    };
  }

  /** Reads a playlist in the background, from the bytes that its client gets. */
  #learn(inquiry: Inquiry, representation: Representation): void {
    const { key } = inquiry;
    const { generation, sizeBytes = 0 } = representation;
    if (generation === undefined || sizeBytes > maxPlaylistBytes || this.#isRead(key, generation)) return;
    this.#reading.set(key, generation);
    void this.#read(inquiry, representation, generation);
  }

  /** Never rejects. */
  async #read(inquiry: Inquiry, representation: Representation, generation: string): Promise<void> {
    const { key, uriOrigin, request } = inquiry;
    try {
      // Opened in this tick: the client may be gone later.
      const bytes = await readAll(representation, maxPlaylistBytes);
      if (bytes === undefined) return;
      const url = `${uriOrigin}${request.target}`;
      if (!URL.canParse(url)) return;
      const { fields } = representation.response;
      const streams = await readStreams(bytes, { url, fields, now: this.#context.clock.now() });
      // A newer version may have come meanwhile.
      if (this.#reading.get(key) !== generation) return;
      this.#state.playlists.learn(
        key,
        generation,
        streams.map((segments) => this.#list(segments, url, inquiry)),
      );
    } catch {
      // The body broke off. The next version, or the next request, is read again.
    } finally {
      if (this.#reading.get(key) === generation) this.#reading.delete(key);
    }
  }

  /** Returns segments as the cache names them: those of the playlist's own scheme and authority. */
  #list(segments: readonly Segment[], url: string, { keysOf }: Inquiry): readonly ListedSegment[] {
    const { origin } = new URL(url);
    const { withoutSignature } = this.#context.gateOf(this.#route);
    return segments.flatMap(({ url: segmentUrl, span, isIndexed }) => {
      if (!segmentUrl.startsWith(`${origin}/`)) return [];
      const sent = segmentUrl.slice(origin.length);
      const target = withoutSignature?.(sent) ?? sent;
      const keys = keysOf(target);
      return keys === undefined ? [] : [{ key: keys.key, target, span, isIndexed }];
    });
  }
}

const never = new AbortController().signal;

/** The peer of our own requests. */
const ourselves: Peer = { address: '127.0.0.1', port: 0 };

/** The fields of a client that a prefetch has, too. They choose among variants, and say nothing about who the client is. */
const impersonal: ReadonlySet<string> = new Set(['accept', 'accept-encoding', 'origin']);

function isImpersonal([name]: Field): boolean {
  return impersonal.has(name);
}

/** Errors of a prefetch that had to give way, or that reached a limit. */
const busyCodes: ReadonlySet<string> = new Set(['too_many_requests', 'origin_busy', 'origin_share_spent']);

/** Says why a segment is not prefetched, and whether that is only for now. */
function describeFailure(thrown: unknown): { readonly isBusy: boolean; readonly reason: string } {
  if (thrown instanceof NotPrefetched) return { isBusy: false, reason: thrown.message };
  const { code, detail } = toProxyError(thrown);
  return { isBusy: busyCodes.has(code), reason: detail ?? code };
}

/** A segment that is not prefetched, for a reason that will last. */
class NotPrefetched extends Error {}

function idOf(key: string, start: number): string {
  return `${start} ${key}`;
}

function readRange(selecting: Fields): SegmentRequest['range'] {
  const range = selecting.length === 0 ? undefined : fieldValue(selecting, 'range');
  if (range === undefined) return undefined;
  const parsed = parseRange(range, { maxRanges: 1 });
  const [spec] = parsed.kind === 'set' ? parsed.specs : [];
  return spec && rangeOf(spec);
}

/** Returns the place of a range; undefined for one that counts from the end. */
function rangeOf(spec: RangeSpec): SegmentRequest['range'] {
  if (spec.kind === 'suffix') return undefined;
  return { start: spec.first, end: spec.kind === 'closed' ? spec.last + 1 : undefined };
}

/** Reads a representation of at most so many bytes; undefined where it has more. */
async function readAll(representation: Representation, mostBytes: number): Promise<Uint8Array | undefined> {
  const end = representation.sizeBytes ?? mostBytes + 1;
  const chunks: Uint8Array[] = [];
  let offset = 0;
  const reader = await representation.open([{ start: 0, end }], never);
  try {
    while (offset < end) {
      const chunk = await reader.read(offset, end);
      if (chunk === undefined) break;
      // A copy: the bytes may be lent.
      chunks.push(chunk.slice());
      offset += chunk.length;
      reader.giveBack?.(chunk);
    }
  } finally {
    reader.close();
  }
  return offset > mostBytes ? undefined : Buffer.concat(chunks);
}

/** Reads a segment to its end, so that it is stored, and counts its bytes. Throws `ProxyError` where it breaks off, and `NotPrefetched` where it has more than `mostBytes`. */
async function discard(
  representation: Representation,
  { span }: ListedSegment,
  mostBytes: number,
  signal: AbortSignal,
  known: Known,
): Promise<void> {
  const { sizeBytes } = representation;
  const start = span?.start ?? 0;
  const end = Math.min(span?.end ?? Number.MAX_SAFE_INTEGER, sizeBytes ?? start + mostBytes + 1);
  if (end - start > mostBytes && (sizeBytes !== undefined || span !== undefined)) throw tooLarge(mostBytes);
  if (end <= start) return;
  const reader = await representation.open([{ start, end }], signal);
  const stop = (): void => reader.close();
  signal.addEventListener('abort', stop, { once: true });
  try {
    for (let offset = start; offset < end; ) {
      const chunk = await reader.read(offset, end);
      if (chunk === undefined) return;
      offset += chunk.length;
      known.bytes += chunk.length;
      reader.giveBack?.(chunk);
      if (known.bytes > mostBytes) throw tooLarge(mostBytes);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    reader.close();
  }
}

function tooLarge(mostBytes: number): NotPrefetched {
  return new NotPrefetched(`it has more than ${mostBytes} bytes (fill.prefetch.segmentBytes)`);
}
