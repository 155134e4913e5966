/** What a playlist or a manifest lists: URLs and byte ranges, each once; and the segments in the order in which they are played. */

import type { Span } from '../bytes/span.ts';

/** A URL to fetch, or a span of it. */
export interface FetchTarget {
  readonly url: string;
  /** The value of Range, such as `bytes=0-99`. */
  readonly range?: string | undefined;
}

/** Which streams of a playlist or manifest are fetched: all, the one with the highest or lowest bit rate, or those of a height. */
export type RenditionChoice = 'all' | 'best' | 'lowest' | { readonly height: number };

/** A segment, in the order of play: a resource, or a span of it. */
export interface Segment {
  readonly url: string;
  /** Undefined: the whole resource. */
  readonly span?: Span | undefined;
  /** Whether the resource has many segments, at places that its own index states (SegmentBase). */
  readonly isIndexed?: true;
}

/** The most targets of one playlist or manifest. */
export const maxTargets = 200_000;

/** How much one playlist or manifest may list. */
export interface TargetLimits {
  readonly targets: number;
  /** Of all URLs together: a template, or a long base URL, may make many long ones. */
  readonly characters: number;
}

const defaultLimits: TargetLimits = { targets: maxTargets, characters: 100_000_000 };

/** The longest URL, in characters. V8 takes only the length of much longer texts as their hash, which makes sets of them slow. */
const MAX_URL = 8192;

/**
 * Resolves a reference. Returns undefined where the result is no http or https URL, has a user or a password, or is longer
 * than 8192 characters.
 */
export function resolveUrl(reference: string, base: string): string | undefined {
  if (reference.length > MAX_URL || !URL.canParse(reference, base)) return undefined;
  const url = new URL(reference, base);
  url.hash = '';
  if (url.href.length > MAX_URL) return undefined;
  return (url.protocol === 'http:' || url.protocol === 'https:') && url.username === '' && url.password === ''
    ? url.href
    : undefined;
}

/** The number of spans of one URL that a new span is compared with, to leave out one that is there already. */
const COMPARED_SPANS = 1000;

/** Collects targets once each. Spans of one URL that follow each other become one span. */
export class TargetSpans {
  readonly #whole = new Set<string>();
  readonly #parts = new Map<string, { start: number; end: number }[]>();
  readonly #limits: TargetLimits;
  #size = 0;
  #characters = 0;

  constructor(limits: TargetLimits = defaultLimits) {
    this.#limits = limits;
  }

  /** Why there is too much; undefined where there is not. Targets that were there already count, too. */
  get excess(): string | undefined {
    const { targets, characters } = this.#limits;
    if (this.#size > targets) return `it has more than ${targets} segments`;
    if (this.#characters > characters)
      return `the URLs of its segments have more than ${characters} characters together`;
    return undefined;
  }

  /** Adds a whole URL. Its spans are left out then. */
  addWhole(url: string): void {
    this.#size += 1;
    this.#characters += url.length;
    this.#whole.add(url);
  }

  /** Adds the bytes `[start, end)` of a URL. */
  addSpan(url: string, start: number, end: number): void {
    this.#size += 1;
    this.#characters += url.length;
    const parts = this.#parts.get(url) ?? [];
    this.#parts.set(url, parts);
    const previous = parts.at(-1);
    if (previous?.end === start) previous.end = end;
    else if (parts.length > COMPARED_SPANS || !parts.some((part) => part.start === start && part.end === end))
      parts.push({ start, end });
  }

  /** Returns the targets: whole URLs first, in the order in which they were added. */
  list(): readonly FetchTarget[] {
    const ranges = [...this.#parts].filter(([url]) => !this.#whole.has(url));
    return [
      ...[...this.#whole].map((url) => ({ url })),
      ...ranges.flatMap(([url, parts]) => parts.map(({ start, end }) => ({ url, range: `bytes=${start}-${end - 1}` }))),
    ];
  }
}
