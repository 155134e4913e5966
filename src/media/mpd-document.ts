/**
 * Reads the elements of a DASH manifest (MPD, ISO/IEC 23009-1) that name segments, and the values of their attributes. A manifest is
 * read with the parser of the sitemaps: packages for DASH are players, or leave out what is not needed for playing.
 */

import { maxTargets } from './targets.ts';
import { visitXml } from './xml.ts';

/** Part of a manifest cannot be used. The message is a sentence that begins with the line. */
export class MpdFault extends Error {}

/** The manifest has too much: nothing of it is used. */
export class TooLarge extends MpdFault {}

/** Makes the fault of a manifest with too many segments. */
export function tooManySegments(): TooLarge {
  return new TooLarge(`it has more than ${maxTargets} segments`);
}

/** The elements that are kept. Others, such as events and keys, are skipped with all that is in them. */
const keptElements = new Set([
  'MPD',
  'BaseURL',
  'Period',
  'AdaptationSet',
  'Representation',
  'ContentComponent',
  'EssentialProperty',
  'SupplementalProperty',
  'SegmentBase',
  'SegmentList',
  'SegmentTemplate',
  'SegmentTimeline',
  'SegmentURL',
  'S',
  'Pattern',
  'Initialization',
  'RepresentationIndex',
  'BitstreamSwitching',
]);

/** The most elements that are kept: 200,000 segments, and a short entry of a time line for each. */
const MAX_ELEMENTS = 500_000;

/** The longest time that is read in a duration, in seconds: 1000 years. */
const MAX_SECONDS = 31_536_000_000;

/** An element of a manifest. */
export class MpdElement {
  readonly name: string;
  /** Counted from 1. */
  readonly line: number;
  readonly children: MpdElement[] = [];
  text = '';
  readonly #attributes: Readonly<Record<string, string>>;
  #childrenByName: ReadonlyMap<string, readonly MpdElement[]> | undefined;

  constructor(name: string, attributes: Readonly<Record<string, string>>, line: number) {
    this.name = name;
    this.line = line;
    this.#attributes = attributes;
  }

  /** Returns the reference to another document that has the content of this element (XLink). */
  get reference(): string | undefined {
    return this.attribute('xlink:href');
  }

  /** Returns the children with this name. Called for each of many siblings, and only after all children are known. */
  all(name: string): readonly MpdElement[] {
    this.#childrenByName ??= Map.groupBy(this.children, (child) => child.name);
    return this.#childrenByName.get(name) ?? [];
  }

  attribute(name: string): string | undefined {
    return Object.hasOwn(this.#attributes, name) ? this.#attributes[name] : undefined;
  }

  /** Returns a whole number that is not negative. Throws `MpdFault` for other text. */
  count(name: string): bigint | undefined {
    const text = this.attribute(name)?.trim();
    if (text === undefined) return undefined;
    if (!/^\d{1,18}$/.test(text)) throw this.fault(`${name}="${shortened(text)}" is no whole number`);
    return BigInt(text);
  }

  /** As `count`, but throws for 0. */
  positive(name: string): bigint | undefined {
    const value = this.count(name);
    if (value === 0n) throw this.fault(`${name}="0" is not more than 0`);
    return value;
  }

  /** Returns a duration (XML Schema, `PT1H2M3.5S`) in nanoseconds. A year has 365 days, a month 30. Throws `MpdFault`. */
  duration(name: string): bigint | undefined {
    const text = this.attribute(name)?.trim();
    if (text === undefined) return undefined;
    const pattern = /^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d*)(?:\.(\d*))?S)?)?$/;
    const found = text.length > 60 || !/\d/.test(text) ? null : pattern.exec(text);
    if (found === null) throw this.fault(`${name}="${shortened(text)}" is no duration such as PT1H2M3.5S`);
    const [, years, months, days, hours, minutes, seconds, fraction = ''] = found;
    const units = [years, months, days, hours, minutes, seconds];
    const whole = units.reduce((sum, unit, at) => sum + Number(unit || 0) * (secondsOfUnits[at] ?? 0), 0);
    if (whole > MAX_SECONDS) throw this.fault(`${name}="${shortened(text)}" is more than 1000 years`);
    return BigInt(whole) * 1_000_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, '0'));
  }

  /** Returns a date in epoch milliseconds. A date without a time zone is in UTC (§5.3.1.2). Throws `MpdFault`. */
  date(name: string): number | undefined {
    const text = this.attribute(name)?.trim();
    if (text === undefined) return undefined;
    const ms = Date.parse(/(?:Z|[+-]\d\d:\d\d)$/.test(text) ? text : `${text}Z`);
    if (!/^\d{4}-\d\d-\d\dT\d/.test(text) || Number.isNaN(ms))
      throw this.fault(`${name}="${shortened(text)}" is no date such as 2026-01-31T12:00:00Z`);
    return ms;
  }

  /** Returns the first and the last byte of a range, `0-99`. Throws `MpdFault`. */
  byteRange(name: string): { readonly first: number; readonly last: number } | undefined {
    const text = this.attribute(name)?.trim();
    if (text === undefined) return undefined;
    const [, first, last] = /^(\d{1,15})-(\d{1,15})$/.exec(text) ?? [];
    if (first === undefined || last === undefined || Number(last) < Number(first))
      throw this.fault(`${name}="${shortened(text)}" is no byte range such as 0-99`);
    return { first: Number(first), last: Number(last) };
  }

  /** Makes a fault of this element. */
  fault(what: string): MpdFault {
    return new MpdFault(`line ${this.line}: ${this.name}: ${what}`);
  }
}

const secondsOfUnits = [31_536_000, 2_592_000, 86_400, 3600, 60, 1];

/** Shortens text of a manifest for a message. */
export function shortened(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** Reads a manifest. Returns its root element, or a sentence about what is wrong. */
export function readMpd(text: string): MpdElement | string {
  const open: MpdElement[] = [];
  let root: MpdElement | undefined;
  let prefix = '';
  let elements = 0;
  /** How deep the parser is in an element that is skipped. */
  let skipped = 0;
  const fault = visitXml(text, {
    open(written, attributes, line) {
      if (root === undefined) prefix = written.slice(0, written.indexOf(':') + 1);
      const name = written.startsWith(prefix) ? written.slice(prefix.length) : '';
      if (root === undefined && name !== 'MPD')
        return `it is no DASH manifest: its root element is <${shortened(name)}>`;
      if (skipped > 0 || !keptElements.has(name)) {
        skipped += 1;
        return undefined;
      }
      elements += 1;
      if (elements > MAX_ELEMENTS) return `line ${line}: it has more than ${MAX_ELEMENTS} elements`;
      const element = new MpdElement(name, attributes, line);
      root ??= element;
      open.at(-1)?.children.push(element);
      open.push(element);
      return undefined;
    },
    text(piece) {
      const element = open.at(-1);
      if (skipped === 0 && element?.name === 'BaseURL') element.text += piece;
    },
    close() {
      if (skipped > 0) skipped -= 1;
      else open.pop();
    },
  });
  return fault ?? root ?? 'it is no DASH manifest: it has no elements';
}
