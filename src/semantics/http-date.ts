/** Dates as fields write them (RFC 9110 §5.6.7). */

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
 * Parses an HTTP-date in any of its three forms; epoch milliseconds. Undefined for anything else, however much it looks
 * like a date: the forms are case-sensitive, and there is no 31st of June. Only whether the weekday is that of the date
 * is not asked, since the date is clear without it. `now`, in epoch milliseconds, settles the century of the two-digit
 * year of the RFC 850 form.
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

/** The date that a field holds, in epoch milliseconds; undefined when it is absent, sent twice, or no HTTP-date. */
export function parseDateField(fields: Fields, name: string, now: number): number | undefined {
  const value = fieldValue(fields, name);
  return value === undefined ? undefined : parseHttpDate(value, now);
}

/** Epoch milliseconds as IMF-fixdate, the form to send, cut to the second. For the years 0 to 9999. */
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

/** The texts of the month, the day, the hour, the minute and the second, as the patterns found them. */
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
 * The latest instant that fits a two-digit year and is not more than fifty years in the future; one that is must be
 * taken for a year of the past (RFC 9110 §5.6.7).
 */
function latestPlausible(twoDigitYear: number, place: PlaceInYear, now: number): number | undefined {
  const limit = new Date(now);
  const limitYear = limit.getUTCFullYear() + 50;
  limit.setUTCFullYear(limitYear);
  const latestYear = limitYear - (limitYear % 100) + twoDigitYear;
  const instant = instantOf(latestYear, place);
  return instant !== undefined && instant <= limit.getTime() ? instant : instantOf(latestYear - 100, place);
}

/** The instant in UTC, or undefined when calendar or clock have no such place. A leap second is the second after it. */
function instantOf(year: number, { month, day, hour, minute, second }: PlaceInYear): number | undefined {
  if (hour > 23 || minute > 59 || second > 60) return undefined;
  const midnight = new Date(0);
  // Not Date.UTC, which takes the years 0 to 99 for those of the twentieth century.
  midnight.setUTCFullYear(year, month, day);
  if (midnight.getUTCDate() !== day) return undefined;
  return midnight.getTime() + ((hour * 60 + minute) * 60 + second) * 1000;
}
