/**
 * Finds the segments of a DASH manifest (MPD, ISO/IEC 23009-1): the URLs that a player would ask for, with their byte ranges. The
 * sections are those of the fourth edition (2019).
 */

import { type MpdElement, MpdFault, readMpd, shortened, TooLarge } from './mpd-document.ts';
import { RepresentationReading, refusedReference, resolveToZero } from './mpd-segments.ts';
import {
  type FetchTarget,
  type RenditionChoice,
  resolveUrl,
  type Segment,
  type TargetLimits,
  TargetSpans,
} from './targets.ts';

/** What a manifest contains. */
export type Manifest =
  | {
      readonly kind: 'read';
      readonly targets: readonly FetchTarget[];
      /** The segments of each chosen Representation in the order of play, initialisation first. */
      readonly streams: readonly (readonly Segment[])[];
      /** What could not be read, with its line. */
      readonly faults: readonly string[];
    }
  | { readonly kind: 'invalid'; readonly reason: string };

/** How to read a manifest. */
export interface ManifestOptions {
  /** The URL of the manifest, which relative ones are resolved by. */
  readonly base: string;
  readonly choice: RenditionChoice;
  /** In epoch milliseconds: a live manifest has the segments that are available now. */
  readonly now: number;
  /** A manifest that lists more is invalid. */
  readonly limits?: TargetLimits | undefined;
}

/** The most faults that are named. */
const MAX_FAULTS = 20;

/** Parses a manifest. Never throws. */
export function parseManifest(text: string, options: ManifestOptions): Manifest {
  const root = readMpd(text);
  if (typeof root === 'string') return { kind: 'invalid', reason: root };
  try {
    return new ManifestReading(options).read(root);
  } catch (error) {
    if (error instanceof MpdFault) return { kind: 'invalid', reason: error.message };
    throw error;
  }
}

/** A Period with its times, in nanoseconds. */
interface TimedPeriod {
  readonly element: MpdElement;
  /** Undefined where it is not known yet. */
  readonly start: bigint | undefined;
  readonly duration: bigint | undefined;
}

/** A Representation, and what is known about it before its segments are read. */
interface Offer {
  readonly set: MpdElement;
  readonly element: MpdElement;
  readonly content: 'pictures' | 'thumbnails' | 'other';
  readonly height: number | undefined;
  readonly bandwidth: number;
}

class ManifestReading {
  readonly #options: ManifestOptions;
  readonly #host: string;
  readonly #targets: TargetSpans;
  readonly #streams: (readonly Segment[])[] = [];
  readonly #faults = new Set<string>();
  /** Set for a live manifest: when it began, in nanoseconds since 1970, and its depth. */
  #live: { readonly start: bigint; readonly depth: bigint | undefined } | undefined;

  constructor(options: ManifestOptions) {
    this.#options = options;
    this.#targets = new TargetSpans(options.limits);
    this.#host = new URL(options.base).host;
  }

  /** Throws `MpdFault` where nothing of the manifest can be read. */
  read(root: MpdElement): Manifest {
    const type = root.attribute('type') ?? 'static';
    if (type !== 'static' && type !== 'dynamic')
      throw root.fault(`type="${shortened(type)}" is not read, only static and dynamic`);
    if (type === 'dynamic') this.#live = readLive(root);
    const base = this.#baseOf(root, this.#options.base);
    for (const period of timePeriods(root)) this.#attempt(() => this.#readPeriod(period, base));
    const faults = [...this.#faults];
    const more = faults.length - MAX_FAULTS;
    return {
      kind: 'read',
      targets: this.#targets.list(),
      streams: this.#streams,
      faults: more <= 0 ? faults : [...faults.slice(0, MAX_FAULTS), `${more} more such problems`],
    };
  }

  /** Notes a fault, and lets the rest be read. */
  #attempt(read: () => void): void {
    try {
      read();
    } catch (error) {
      if (!(error instanceof MpdFault) || error instanceof TooLarge) throw error;
      this.#faults.add(error.message);
    }
  }

  #readPeriod({ element, start, duration }: TimedPeriod, mpdBase: string): void {
    if (element.reference !== undefined) throw refusedReference(element);
    if (start === undefined)
      throw element.fault('it states no start, and the Period before it no duration: its segments are not known yet');
    const base = this.#baseOf(element, mpdBase);
    const offers: Offer[] = [];
    for (const set of element.all('AdaptationSet')) {
      this.#attempt(() => {
        if (set.reference === resolveToZero) return;
        if (set.reference !== undefined) throw refusedReference(set);
        offers.push(...set.all('Representation').map((each) => describeOffer(set, each)));
      });
    }
    const chosen = chooseOffers(offers, this.#options.choice);
    if (chosen.length === 0 && offers.length > 0)
      this.#attempt(() => {
        throw element.fault(`it has no such stream; it has ${describeHeights(offers)}`);
      });
    const window = this.#live && {
      now: BigInt(Math.floor(this.#options.now)) * 1_000_000n - this.#live.start - start,
      depth: this.#live.depth,
    };
    const bases = new Map<MpdElement, string>();
    for (const { set, element: representation } of chosen) {
      this.#attempt(() => {
        const setBase = bases.get(set) ?? this.#baseOf(set, base);
        bases.set(set, setBase);
        const segments: Segment[] = [];
        new RepresentationReading({
          levels: [representation, set, element],
          base: this.#baseOf(representation, setBase),
          hasOwnUrl: [representation, set, element].some((level) => level.all('BaseURL').length > 0),
          duration,
          window,
          add: (segment) => {
            if (segments.length === 0) this.#streams.push(segments);
            segments.push(segment);
            this.#add(segment);
          },
        }).read();
      });
    }
  }

  /** Returns the base URL of a level (§5.6.4). Of alternatives the first one on the host of the manifest counts, else the first. */
  #baseOf(element: MpdElement, outer: string): string {
    const stated = element.all('BaseURL').map((each) => {
      if (each.attribute('byteRange') !== undefined) throw each.fault('byteRange is not read');
      const url = resolveUrl(each.text.trim(), outer);
      if (url === undefined) throw each.fault(`"${shortened(each.text.trim())}" is no http or https URL`);
      return url;
    });
    return stated.find((url) => new URL(url).host === this.#host) ?? stated[0] ?? outer;
  }

  #add({ url, span }: Segment): void {
    if (span === undefined) this.#targets.addWhole(url);
    else this.#targets.addSpan(url, span.start, span.end);
    const { excess } = this.#targets;
    if (excess !== undefined) throw new TooLarge(excess);
  }
}

function readLive(root: MpdElement) {
  const start = root.date('availabilityStartTime');
  if (start === undefined) throw root.fault('a dynamic manifest needs availabilityStartTime');
  return { start: BigInt(start) * 1_000_000n, depth: root.duration('timeShiftBufferDepth') };
}

/** Returns the Periods with their times (§5.3.2.1). */
function timePeriods(root: MpdElement): readonly TimedPeriod[] {
  const periods = root.all('Period').filter(({ reference }) => reference !== resolveToZero);
  if (periods.length === 0) throw root.fault('it has no Period');
  const isLive = root.attribute('type') === 'dynamic';
  const starts: (bigint | undefined)[] = [];
  for (const [at, period] of periods.entries()) {
    const before = starts[at - 1];
    const beforeDuration = periods[at - 1]?.duration('duration');
    const follows = before === undefined || beforeDuration === undefined ? undefined : before + beforeDuration;
    starts.push(period.duration('start') ?? (at === 0 && !isLive ? 0n : follows));
  }
  const whole = root.duration('mediaPresentationDuration');
  return periods.map((element, at) => {
    const start = starts[at];
    const next = at + 1 < periods.length ? starts[at + 1] : whole;
    const own = element.duration('duration');
    const untilNext = start === undefined || next === undefined || next < start ? undefined : next - start;
    const isShorter = own !== undefined && (untilNext === undefined || own < untilNext);
    return { element, start, duration: isShorter ? own : untilNext };
  });
}

function describeOffer(set: MpdElement, element: MpdElement): Offer {
  const stated = (name: string): string | undefined => element.attribute(name) ?? set.attribute(name);
  const height = Number(stated('height') ?? Number.NaN);
  const [component] = set.all('ContentComponent');
  const type = [stated('mimeType')?.split('/')[0], stated('contentType'), component?.attribute('contentType')];
  const hasPictures = type.includes('video') || (type.every((each) => each === undefined) && height > 0);
  const isTrickMode = [...set.all('EssentialProperty'), ...set.all('SupplementalProperty')].some(
    (property) => property.attribute('schemeIdUri') === 'http://dashif.org/guidelines/trickmode',
  );
  return {
    set,
    element,
    content: type.includes('image') || isTrickMode ? 'thumbnails' : hasPictures ? 'pictures' : 'other',
    height: Number.isInteger(height) ? height : undefined,
    bandwidth: Number(stated('bandwidth') ?? 0) || 0,
  };
}

/**
 * Chooses streams as it is done for HLS: pictures by the choice, with sound and subtitles. Of these, `best` and `lowest` take one of
 * each AdaptationSet. Thumbnails and pictures for trick mode belong to `all` only.
 */
function chooseOffers(offers: readonly Offer[], choice: RenditionChoice): readonly Offer[] {
  if (choice === 'all') return offers;
  const pictures = offers.filter(({ content }) => content === 'pictures');
  const others = offers.filter(({ content }) => content === 'other');
  if (typeof choice === 'object') {
    const chosen = pictures.filter(({ height }) => height === choice.height);
    return chosen.length === 0 ? [] : [...chosen, ...others];
  }
  const sets = [pictures, ...Map.groupBy(others, ({ set }) => set).values()];
  return sets.flatMap((each) => {
    const ordered = each.toSorted((a, b) => a.bandwidth - b.bandwidth);
    return choice === 'best' ? ordered.slice(-1) : ordered.slice(0, 1);
  });
}

function describeHeights(offers: readonly Offer[]): string {
  const pictures = offers.filter(({ content }) => content === 'pictures');
  const heights = pictures.map(({ height }) => (height === undefined ? 'one without a height' : `${height}p`));
  return heights.length === 0 ? 'none with pictures' : [...new Set(heights)].join(', ');
}
