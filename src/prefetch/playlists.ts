/**
 * What is known of the playlists that clients play: the segments of each, in the order of play, and the playlist of each segment.
 * The playlists that were used last are kept, within a number and within a size.
 */

import { LRUCache } from 'lru-cache';
import type { Span } from '../bytes/span.ts';

/** A segment as the cache names it. */
export interface ListedSegment {
  readonly key: string;
  /** In origin-form, as a client requests it. */
  readonly target: string;
  /** Undefined: the whole resource. */
  readonly span?: Span | undefined;
  /** Whether it has many segments, at places that its own index states. */
  readonly isIndexed?: true | undefined;
}

/** What a client asks for of a resource: `end` is undefined for a range without an end. */
interface AskedRange {
  readonly start: number;
  readonly end: number | undefined;
}

/** A request for a resource that may be a segment. */
export interface SegmentRequest {
  readonly key: string;
  /** Undefined: the whole resource. */
  readonly range: AskedRange | undefined;
  /** Length of the resource; undefined while it is unknown. */
  readonly sizeBytes: number | undefined;
}

/** A playlist that clients play. */
export interface PlayedPlaylist {
  /** The key of its own response. */
  readonly key: string;
  /** Until when none of its segments are prefetched, in epoch milliseconds, as it turned out to be useless. */
  restsUntil: number;
}

/** The place of a request in a playlist. */
export interface Playing {
  readonly playlist: PlayedPlaylist;
  /** Names the stream: the same for all versions of the playlist. */
  readonly stream: string;
  /** Where the requested segment begins in its resource. */
  readonly start: number;
  /** The segments after it. */
  readonly next: readonly ListedSegment[];
}

/** How much is kept. */
export interface PlaylistLimits {
  readonly playlists: number;
  /** In characters of keys and targets, with an allowance for each segment. */
  readonly characters: number;
}

/** Segments that are played one after the other. */
interface Stream {
  /** The key of its playlist. */
  readonly playlist: string;
  readonly name: string;
  readonly segments: readonly ListedSegment[];
}

/** Where a resource is listed: the places of its segments, by their start. */
interface Listing {
  readonly stream: Stream;
  readonly places: number[];
}

interface Known extends PlayedPlaylist {
  /** The generations of its response that were read, the newest last. */
  readonly versions: readonly string[];
  readonly streams: readonly Stream[];
  readonly weight: number;
}

/** What the objects of a segment take, in characters. */
const SEGMENT_WEIGHT = 200;

/** How many generations are remembered: a playlist may have several variants, by Accept-Encoding for example. */
const MAX_VERSIONS = 8;

/** Playlists, and their segments by key. */
export class KnownPlaylists {
  readonly #playlists: LRUCache<string, Known>;
  readonly #listings = new Map<string, Listing>();

  constructor({ playlists, characters }: PlaylistLimits) {
    this.#playlists = new LRUCache<string, Known>({
      max: playlists,
      maxSize: characters,
      sizeCalculation: ({ weight }) => weight,
      dispose: ({ streams }) => this.#forget(streams),
    });
  }

  /** The number of playlists, and of resources that they list. */
  get size(): { readonly playlists: number; readonly resources: number } {
    return { playlists: this.#playlists.size, resources: this.#listings.size };
  }

  /** Whether a generation of a playlist was read. Counts as a use of the playlist. */
  knows(key: string, generation: string): boolean {
    return this.#playlists.get(key)?.versions.includes(generation) === true;
  }

  /** Keeps the segments of a generation, in place of those of earlier ones. A playlist that is too large is forgotten. */
  learn(key: string, generation: string, streams: readonly (readonly ListedSegment[])[]): void {
    const before = this.#playlists.get(key);
    const kept = streams.map((segments, at) => ({ playlist: key, name: `${at} ${key}`, segments }));
    this.#playlists.set(key, {
      key,
      versions: [...(before?.versions ?? []).slice(1 - MAX_VERSIONS), generation],
      streams: kept,
      weight: kept.reduce((sum, { segments }) => sum + weightOf(segments), SEGMENT_WEIGHT),
      restsUntil: before?.restsUntil ?? 0,
    });
    if (!this.#playlists.has(key)) return;
    for (const stream of kept) this.#index(stream);
  }

  /** Finds a request in the playlist that lists its resource, and the next `count` segments. Counts as a use of the playlist. */
  find(asked: SegmentRequest, count: number): Playing | undefined {
    const listing = this.#listings.get(asked.key);
    if (listing === undefined) return undefined;
    const { stream, places } = listing;
    const { segments } = stream;
    const playlist = this.#playlists.get(stream.playlist);
    if (playlist === undefined) return undefined;
    const indexed = places.find((place) => segments[place]?.isIndexed === true);
    if (indexed !== undefined)
      return playIndexed({ playlist, stream: stream.name }, segments[indexed] as ListedSegment, asked, count);
    const at = placeOf(listing, asked.range);
    const segment = at === undefined ? undefined : segments[at];
    if (at === undefined || segment === undefined) return undefined;
    return {
      playlist,
      stream: stream.name,
      start: segment.span?.start ?? 0,
      next: segments.slice(at + 1, at + 1 + count),
    };
  }

  #index(stream: Stream): void {
    const { segments } = stream;
    for (const [place, { key }] of segments.entries()) {
      const listing = this.#listings.get(key);
      if (listing?.stream === stream) listing.places.push(place);
      else this.#listings.set(key, { stream, places: [place] });
    }
    const startOf = (place: number): number => segments[place]?.span?.start ?? 0;
    for (const { key } of segments) {
      const places = this.#listings.get(key)?.places ?? [];
      if (places.length > 1 && places.some((place, at) => at > 0 && startOf(place) < startOf(places[at - 1] as number)))
        places.sort((a, b) => startOf(a) - startOf(b));
    }
  }

  #forget(streams: readonly Stream[]): void {
    for (const stream of streams) {
      for (const { key } of stream.segments) {
        if (this.#listings.get(key)?.stream === stream) this.#listings.delete(key);
      }
    }
  }
}

function weightOf(segments: readonly ListedSegment[]): number {
  return segments.reduce((sum, { key, target }) => sum + key.length + target.length + SEGMENT_WEIGHT, 0);
}

/** Finds the place of the segment that a request begins in. Of a segment that is listed several times, the first place counts. */
function placeOf({ stream, places }: Listing, range: AskedRange | undefined): number | undefined {
  const { segments } = stream;
  const [first] = places;
  if (first === undefined || segments[first]?.span === undefined) return first;
  // The whole file is asked for, and no segment of it.
  if (range === undefined) return undefined;
  const { start } = range;
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((segments[places[middle] as number]?.span?.start ?? 0) <= start) low = middle + 1;
    else high = middle;
  }
  const place = places[low - 1];
  const span = place === undefined ? undefined : segments[place]?.span;
  return span !== undefined && start < span.end ? place : undefined;
}

/** The segments of a resource with an index of its own are not known: the next ones are taken to be as long as the requested one. */
function playIndexed(
  place: Pick<Playing, 'playlist' | 'stream'>,
  { key, target }: ListedSegment,
  { range, sizeBytes }: SegmentRequest,
  count: number,
): Playing | undefined {
  if (range?.end === undefined) return undefined;
  const { start, end } = range;
  const nextEnd = Math.min(end + (end - start) * count, sizeBytes ?? Number.MAX_SAFE_INTEGER);
  const next = nextEnd > end ? [{ key, target, span: { start: end, end: nextEnd } }] : [];
  return { ...place, start, next };
}
