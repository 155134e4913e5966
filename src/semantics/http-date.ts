/** Dates as fields write them (RFC 9110 §5.6.7). */

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
 * Parses an HTTP-date in any of its three forms; epoch milliseconds. Undefined for anything else, however much it looks
 * like a date: the forms are case-sensitive, and there is no 31st of June. Only whether the weekday is that of the date
 * is not asked, since the date is clear without it. `now`, in epoch milliseconds, settles the century of the two-digit
 * year of the RFC 850 form.
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  const parts = (imfFixdate.exec(text) ?? rfc850Date.exec(text) ?? asctimeDate.exec(text))?.groups;
  if (parts === undefined) return undefined;
  const { year = '' } = parts;
  return year.length === 2 ? latestPlausible(Number(year), parts, now) : instantOf(Number(year), parts);
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

/** What the patterns found, by the names of their groups. */
type DateParts = Readonly<Record<string, string | undefined>>;

/**
 * The latest instant that fits a two-digit year and is not more than fifty years in the future; one that is must be
 * taken for a year of the past (RFC 9110 §5.6.7).
 */
function latestPlausible(twoDigitYear: number, parts: DateParts, now: number): number | undefined {
  const limit = new Date(now);
  const limitYear = limit.getUTCFullYear() + 50;
  limit.setUTCFullYear(limitYear);
  const latestYear = limitYear - (limitYear % 100) + twoDigitYear;
  const instant = instantOf(latestYear, parts);
  return instant !== undefined && instant <= limit.getTime() ? instant : instantOf(latestYear - 100, parts);
}

/** The instant in UTC, or undefined when calendar or clock have no such place. A leap second is the second after it. */
function instantOf(year: number, parts: DateParts): number | undefined {
  const { month: monthName = '', day, hour, minute, second } = parts;
  const date = new Date(0);
  // Not Date.UTC, which takes the years 0 to 99 for those of the twentieth century.
  date.setUTCFullYear(year, months.indexOf(monthName), Number(day));
  const isInCalendar = date.getUTCDate() === Number(day);
  const isOnClock = Number(hour) <= 23 && Number(minute) <= 59 && Number(second) <= 60;
  return isInCalendar && isOnClock ? date.setUTCHours(Number(hour), Number(minute), Number(second)) : undefined;
}
