/** Finds the segments of one Representation of a DASH manifest (ISO/IEC 23009-1:2019 §5.3.9). */

import { type MpdElement, type MpdFault, shortened, tooManySegments } from './mpd-document.ts';
import { maxTargets, resolveUrl, type Segment } from './targets.ts';

/** The live edge, in nanoseconds since the start of a Period. */
interface LiveWindow {
  readonly now: bigint;
  /** How long segments stay available after their end; undefined: for ever. */
  readonly depth: bigint | undefined;
}

/** Consecutive segments of equal duration, in units of the time scale. */
interface Run {
  readonly time: bigint;
  readonly duration: bigint;
  /** The number of the first one. */
  readonly number: bigint;
  /** Undefined: as many as the Period has, or as are available now. */
  readonly count: bigint | undefined;
}

/** What the placeholders of a template stand for. */
interface TemplateValues {
  readonly RepresentationID: string;
  readonly Bandwidth: string | undefined;
  readonly Number?: bigint;
  readonly Time?: bigint;
}

/** The reference of an element that is to be left out (§5.5.3). */
export const resolveToZero = 'urn:mpeg:dash:resolve-to-zero:2013';

/** Makes the fault of an element that is in another document. */
export function refusedReference(element: MpdElement): MpdFault {
  const { reference = '' } = element;
  return element.fault(`its content is in another document (xlink:href="${shortened(reference)}"), which is not read`);
}

const addressings = ['SegmentTemplate', 'SegmentList', 'SegmentBase'] as const;

/** What the segments of a Representation depend on. */
export interface RepresentationOptions {
  /** The Representation, its AdaptationSet and its Period: what the first ones state counts (§5.3.9.1). */
  readonly levels: readonly [MpdElement, MpdElement, MpdElement];
  readonly base: string;
  /** Whether one of the levels has a BaseURL. */
  readonly hasOwnUrl: boolean;
  /** Of the Period, in nanoseconds. */
  readonly duration: bigint | undefined;
  readonly window: LiveWindow | undefined;
  readonly add: (segment: Segment) => void;
}

/** Reads the segments of one Representation. Its methods throw `MpdFault`. */
export class RepresentationReading {
  readonly #options: RepresentationOptions;
  readonly #values: TemplateValues;
  /** The elements of the addressing that is used, the innermost first. */
  readonly #chain: readonly MpdElement[];

  constructor(options: RepresentationOptions) {
    this.#options = options;
    const { levels } = options;
    const [representation, set] = levels;
    this.#values = {
      RepresentationID: representation.attribute('id') ?? '',
      Bandwidth: representation.attribute('bandwidth') ?? set.attribute('bandwidth'),
    };
    const name = levels.flatMap((level) => addressings.filter((each) => level.all(each).length > 0))[0];
    this.#chain = name === undefined ? [] : levels.flatMap((level) => level.all(name).slice(0, 1));
  }

  read(): void {
    const { levels, hasOwnUrl, base, add } = this.#options;
    const [representation] = levels;
    for (const level of levels) {
      const query = level
        .all('EssentialProperty')
        .find((property) => property.attribute('schemeIdUri')?.startsWith('urn:mpeg:dash:urlparam:'));
      if (query !== undefined) throw query.fault('URLs with a query from elsewhere (urlparam) are not read');
    }
    const [first] = this.#chain;
    if (first === undefined) {
      if (!hasOwnUrl) throw representation.fault('it has no segments: no SegmentTemplate, SegmentList or BaseURL');
      add({ url: base });
      return;
    }
    const reference = this.#chain.find((element) => element.reference !== undefined);
    if (reference !== undefined) throw refusedReference(reference);
    this.#addInitializations();
    if (first.name === 'SegmentTemplate') this.#readTemplate(first);
    else if (first.name === 'SegmentList') this.#readList(first);
    // Its index is in the file, or has a URL of its own, which is added above.
    else add({ url: base, isIndexed: true });
  }

  /** Adds the initialisation segment, the index of the whole Representation, and the segment for switching. */
  #addInitializations(): void {
    for (const name of ['initialization', 'bitstreamSwitching']) {
      const element = this.#chain.find((each) => each.name === 'SegmentTemplate' && each.attribute(name) !== undefined);
      if (element !== undefined) this.#addTemplate(element, name, this.#values);
    }
    for (const name of ['Initialization', 'RepresentationIndex', 'BitstreamSwitching']) {
      const element = this.#chain.flatMap((each) => each.all(name))[0];
      if (element !== undefined) this.#addReference(element, 'sourceURL', 'range');
    }
  }

  #readTemplate(first: MpdElement): void {
    const element = this.#holder('media');
    if (element === undefined) throw first.fault('it has no media');
    const index = this.#holder('index');
    const media = element.attribute('media') ?? '';
    // Without a number and a time all segments would have the same URL.
    const isOne = !media.includes('$Number') && !media.includes('$Time') && !media.includes('$SubNumber');
    const runs = isOne ? undefined : this.#runs();
    const steps =
      runs === undefined ? [{ Number: this.#count('startNumber') ?? 1n, Time: 0n }] : this.#stepsOf(runs, first);
    for (const step of steps) {
      const values = { ...this.#values, ...step };
      this.#addTemplate(element, 'media', values);
      if (index !== undefined) this.#addTemplate(index, 'index', values);
    }
  }

  #readList(first: MpdElement): void {
    const urls = this.#chain.map((each) => each.all('SegmentURL')).find((each) => each.length > 0) ?? [];
    if (urls.length === 0) throw first.fault('it has no SegmentURL');
    const startNumber = this.#count('startNumber') ?? 1n;
    const runs = this.#options.window === undefined ? undefined : this.#runs(BigInt(urls.length));
    if (runs === undefined) {
      for (const element of urls) this.#addListed(element);
      return;
    }
    for (const step of this.#stepsOf(runs, first)) {
      const element = urls[Number(step.Number - startNumber)];
      if (element === undefined) return;
      this.#addListed(element);
    }
  }

  #addListed(element: MpdElement): void {
    this.#addReference(element, 'media', 'mediaRange');
    if (element.attribute('index') !== undefined || element.attribute('indexRange') !== undefined)
      this.#addReference(element, 'index', 'indexRange');
  }

  /** Returns the runs of segments; undefined where there is but one segment (§5.3.9.5.3). `listed` is the length of a list. */
  #runs(listed?: bigint): readonly Run[] | undefined {
    const timeline = this.#chain.flatMap((each) => each.all('SegmentTimeline'))[0];
    const number = this.#count('startNumber') ?? 1n;
    if (timeline !== undefined) return readTimeline(timeline, number);
    const duration = this.#holder('duration')?.positive('duration');
    if (duration === undefined) return undefined;
    const offset = this.#count('presentationTimeOffset') ?? 0n;
    const endNumber = this.#count('endNumber');
    if (listed !== undefined) return [{ time: offset + (number - 1n) * duration, duration, number, count: listed }];
    const count = endNumber === undefined ? undefined : greatest(0n, endNumber - number + 1n);
    return [{ time: offset, duration, number, count }];
  }

  /** Yields the segments of runs: those that begin within the Period, and of a live manifest those that are available now. */
  *#stepsOf(runs: readonly Run[], holder: MpdElement): Generator<{ readonly Number: bigint; readonly Time: bigint }> {
    const { duration: periodNs, window } = this.#options;
    const timescale = this.#holder('timescale')?.positive('timescale') ?? 1n;
    const offset = this.#count('presentationTimeOffset') ?? 0n;
    const endNumber = this.#count('endNumber');
    for (const { time, duration, number, count } of runs) {
      const limits = [count, endNumber === undefined ? undefined : endNumber - number + 1n];
      if (periodNs !== undefined) {
        const periodEnd = offset + dividedUp(periodNs * timescale, nsPerSecond);
        limits.push(dividedUp(periodEnd - time, duration));
      }
      let first = greatest(0n, divided(offset - time, duration));
      if (window !== undefined) {
        const { now, depth } = window;
        limits.push(divided(offset + divided(now * timescale, nsPerSecond) - time, duration));
        // A segment stays available for its own duration and the depth.
        if (depth !== undefined) {
          const oldest = offset + divided((now - depth) * timescale, nsPerSecond);
          first = greatest(first, divided(oldest - time, duration) - 1n);
        }
      }
      const stated = limits.filter((limit) => limit !== undefined);
      const [limit] = stated;
      if (limit === undefined)
        throw holder.fault(
          'how many segments there are is not known: mediaPresentationDuration or a Period has to say',
        );
      const end = stated.reduce((least, each) => (each < least ? each : least), limit);
      // Known before the first one is read. How many all streams have together is counted as they are added.
      if (end - first > maxTargets) throw tooManySegments();
      for (let at = first; at < end; at += 1n) yield { Number: number + at, Time: time + at * duration };
    }
  }

  /** Returns the innermost element of the addressing that has the attribute. */
  #holder(name: string): MpdElement | undefined {
    return this.#chain.find((element) => element.attribute(name) !== undefined);
  }

  #count(name: string): bigint | undefined {
    return this.#holder(name)?.count(name);
  }

  #addTemplate(element: MpdElement, name: string, values: TemplateValues): void {
    const filled = fillTemplate(element, name, values);
    const url = resolveUrl(filled, this.#options.base);
    if (url === undefined) throw element.fault(`${name}="${shortened(filled)}" is no http or https URL`);
    this.#options.add({ url });
  }

  /** Adds a URL, or the base URL where none is stated, with its byte range. */
  #addReference(element: MpdElement, urlName: string, rangeName: string): void {
    const reference = element.attribute(urlName);
    const url = reference === undefined ? this.#options.base : resolveUrl(reference, this.#options.base);
    if (url === undefined) throw element.fault(`${urlName}="${shortened(reference ?? '')}" is no http or https URL`);
    const range = element.byteRange(rangeName);
    if (reference === undefined && range === undefined)
      throw element.fault(`it has neither ${urlName} nor ${rangeName}`);
    this.#options.add(range === undefined ? { url } : { url, span: { start: range.first, end: range.last + 1 } });
  }
}

/** Reads the runs of a SegmentTimeline (§5.3.9.6). */
function readTimeline(timeline: MpdElement, startNumber: bigint): readonly Run[] {
  const runs: Run[] = [];
  const entries = timeline.all('S');
  if (entries.length === 0 && timeline.all('Pattern').length > 0)
    throw timeline.fault('patterns (Pattern) are not read');
  let time = 0n;
  let number = startNumber;
  for (const [at, entry] of entries.entries()) {
    if (entry.attribute('p') !== undefined) throw entry.fault('patterns (p) are not read');
    if ((entry.count('k') ?? 1n) > 1n) throw entry.fault('sequences of segments (k) are not read');
    time = entry.count('t') ?? time;
    number = entry.count('n') ?? number;
    const duration = entry.positive('d');
    if (duration === undefined) throw entry.fault('it has no d');
    const count = countRepeats(entry, entries[at + 1], time, duration);
    runs.push({ time, duration, number, count });
    time += duration * (count ?? 0n);
    number += count ?? 0n;
  }
  return runs;
}

/** Returns how many segments an entry stands for. With a negative `r` they go on to the next entry, or to the end: undefined. */
function countRepeats(
  entry: MpdElement,
  next: MpdElement | undefined,
  time: bigint,
  duration: bigint,
): bigint | undefined {
  if (entry.attribute('r')?.trim().startsWith('-') !== true) return (entry.count('r') ?? 0n) + 1n;
  if (next === undefined) return undefined;
  const nextTime = next.count('t');
  if (nextTime === undefined) throw next.fault('after a negative r it needs t');
  return greatest(0n, dividedUp(nextTime - time, duration));
}

/** A template is filled in for each of up to 200,000 segments, and has few identifiers to name. */
const MAX_PLACEHOLDERS = 32;

/** Fills in a template (§5.3.9.4.4): `$Number%05d$`, `$$` for a dollar sign. Throws `MpdFault`. */
function fillTemplate(element: MpdElement, name: string, values: TemplateValues): string {
  const template = element.attribute(name) ?? '';
  const fault = (what: string): MpdFault => element.fault(`${name}="${shortened(template)}": ${what}`);
  if (template.split('$', 2 * MAX_PLACEHOLDERS + 2).length > 2 * MAX_PLACEHOLDERS + 1)
    throw fault(`it has more than ${MAX_PLACEHOLDERS} placeholders`);
  const filled = template.replace(/\$([^$]*)\$/g, (whole, inner: string) => {
    if (inner === '') return '\0';
    const [, identifier = '', width] = /^(RepresentationID|Bandwidth|Number|Time)(?:%0(\d{1,2})d)?$/.exec(inner) ?? [];
    if (identifier === '') throw fault(`${shortened(whole)} is not known`);
    if (identifier === 'RepresentationID' && width !== undefined) throw fault('RepresentationID has no width');
    const value = values[identifier as keyof TemplateValues];
    if (value === undefined) throw fault(`${shortened(whole)} has no value here`);
    return String(value).padStart(Number(width ?? 1), '0');
  });
  if (filled.includes('$')) throw fault('a $ is not closed');
  return filled.replaceAll('\0', '$');
}

const nsPerSecond = 1_000_000_000n;

function greatest(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

/** Divides, and rounds down; `by` is positive. */
function divided(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

/** Divides, and rounds up. */
function dividedUp(value: bigint, by: bigint): bigint {
  return -divided(-value, by);
}
