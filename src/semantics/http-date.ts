/** Parses and formats HTTP dates (RFC 9110 §5.6.7). */

import { type Fields, fieldValue } from '../http/fields.ts';

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const month = `(${months.join('|')})`;
const weekday = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const longWeekday = '(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)';
const time = '([0-9]{2}):([0-9]{2}):([0-9]{2})';

const imfFixdate = new RegExp(`^${weekday}, ([0-9]{2}) ${month} ([0-9]{4}) ${time} GMT$`);
const rfc850Date = new RegExp(`^${longWeekday}, ([0-9]{2})-${month}-([0-9]{2}) ${time} GMT$`);
const asctimeDate = new RegExp(`^${weekday} ${month} ([0-9]{2}| [0-9]) ${time} ([0-9]{4})$`);

/**
 * Parses an HTTP-date in any of its three forms; returns epoch milliseconds. Undefined for any other text: the forms are
 * case-sensitive, and the date must be in the calendar. Only the weekday is not checked. `now`, in epoch milliseconds, settles
 * the century of the two-digit year in the RFC 850 form.
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  const imf = imfFixdate.exec(text);
  if (imf !== null) return instantOf(Number(imf[3]), placeInYear(imf[2], imf[1], imf[4], imf[5], imf[6]));
  const rfc850 = rfc850Date.exec(text);
  if (rfc850 !== null) {
    return latestPlausible(Number(rfc850[3]), placeInYear(rfc850[2], rfc850[1], rfc850[4], rfc850[5], rfc850[6]), now);
  }
  const asctime = asctimeDate.exec(text);
  if (asctime === null) return undefined;
  return instantOf(Number(asctime[6]), placeInYear(asctime[1], asctime[2], asctime[3], asctime[4], asctime[5]));
}

/** Returns the date in a field, in epoch milliseconds; undefined when the field is absent, sent twice, or not an HTTP-date. */
export function parseDateField(fields: Fields, name: string, now: number): number | undefined {
  const value = fieldValue(fields, name);
  return value === undefined ? undefined : parseHttpDate(value, now);
}

/** Formats epoch milliseconds as IMF-fixdate, the form to send, cut to the second. For the years 0 to 9999. */
export function formatHttpDate(ms: number): string {
  return new Date(ms).toUTCString();
}

/** A date and time without its year. `month` counts from 0, `day` from 1. */
interface PlaceInYear {
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
}

/** Reads the texts of month, day, hour, minute and second that a pattern found. */
function placeInYear(...[month = '', day, hour, minute, second]: (string | undefined)[]): PlaceInYear {
  return {
    month: months.indexOf(month),
    day: Number(day),
    hour: Number(hour),
    minute: Number(minute),
    second: Number(second),
  };
}

/**
 * The latest instant with this two-digit year that is at most fifty years in the future. A later one must be read as a year of
 * the past (RFC 9110 §5.6.7).
 */
function latestPlausible(twoDigitYear: number, place: PlaceInYear, now: number): number | undefined {
  const limit = new Date(now);
  const limitYear = limit.getUTCFullYear() + 50;
  limit.setUTCFullYear(limitYear);
  const latestYear = limitYear - (limitYear % 100) + twoDigitYear;
  const instant = instantOf(latestYear, place);
  return instant !== undefined && instant <= limit.getTime() ? instant : instantOf(latestYear - 100, place);
}

/** The instant in UTC; undefined when the date or the time does not exist. A leap second counts as the next second. */
function instantOf(year: number, { month, day, hour, minute, second }: PlaceInYear): number | undefined {
  if (hour > 23 || minute > 59 || second > 60) return undefined;
  const midnight = new Date(0);
  // Date.UTC would read the years 0 to 99 as 1900 to 1999.
  midnight.setUTCFullYear(year, month, day);
  if (midnight.getUTCDate() !== day) return undefined;
  return midnight.getTime() + ((hour * 60 + minute) * 60 + second) * 1000;
}
