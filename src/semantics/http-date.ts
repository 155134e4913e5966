/** Parses and formats HTTP dates (RFC 9110 §5.6.7). */

import { type Fields, fieldValue } from '../http/fields.ts';

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const month = `(?<month>${months.join('|')})`;
const weekday = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)';
const longWeekday = '(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)';
const time = '(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2})';

const imfFixdate = new RegExp(`^${weekday}, (?<day>[0-9]{2}) ${month} (?<year>[0-9]{4}) ${time} GMT$`);
const rfc850Date = new RegExp(`^${longWeekday}, (?<day>[0-9]{2})-${month}-(?<year>[0-9]{2}) ${time} GMT$`);
const asctimeDate = new RegExp(`^${weekday} ${month} (?<day>[0-9]{2}| [0-9]) ${time} (?<year>[0-9]{4})$`);

/**
 * Parses an HTTP-date in any of its three forms; returns epoch milliseconds. Undefined for any other text: the forms are
 * case-sensitive, and the date must be in the calendar. Only the weekday is not checked. `now`, in epoch milliseconds, settles
 * the century of the two-digit year in the RFC 850 form.
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  const parts = (imfFixdate.exec(text) ?? rfc850Date.exec(text) ?? asctimeDate.exec(text))?.groups;
  if (parts === undefined) return undefined;
  const { year = '' } = parts;
  return year.length === 2 ? latestPlausible(Number(year), parts, now) : instantOf(Number(year), parts);
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

/** The named groups of the patterns. */
type DateParts = Readonly<Record<string, string | undefined>>;

/**
 * The latest instant with this two-digit year that is at most fifty years in the future. A later one must be read as a year of
 * the past (RFC 9110 §5.6.7).
 */
function latestPlausible(twoDigitYear: number, parts: DateParts, now: number): number | undefined {
  const limit = new Date(now);
  const limitYear = limit.getUTCFullYear() + 50;
  limit.setUTCFullYear(limitYear);
  const latestYear = limitYear - (limitYear % 100) + twoDigitYear;
  const instant = instantOf(latestYear, parts);
  return instant !== undefined && instant <= limit.getTime() ? instant : instantOf(latestYear - 100, parts);
}

/** The instant in UTC; undefined when the date or the time does not exist. A leap second counts as the next second. */
function instantOf(year: number, parts: DateParts): number | undefined {
  const { month: monthName = '', day, hour, minute, second } = parts;
  const date = new Date(0);
  // Date.UTC would read the years 0 to 99 as 1900 to 1999.
  date.setUTCFullYear(year, months.indexOf(monthName), Number(day));
  const isInCalendar = date.getUTCDate() === Number(day);
  const isOnClock = Number(hour) <= 23 && Number(minute) <= 59 && Number(second) <= 60;
  return isInCalendar && isOnClock ? date.setUTCHours(Number(hour), Number(minute), Number(second)) : undefined;
}
