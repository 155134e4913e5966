/** Parses amounts: sizes (`10GB`) and durations (`60s`). Flags of commands need them without the schemas. */

const bytesPerUnit: Readonly<Record<string, number>> = {
  '': 1,
  B: 1,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

const msPerUnit: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86_400e3 };

/** The pattern of a size: a whole number, and a unit in the letter case of the standards. */
export const sizePattern = /^(\d{1,16}) ?(|B|[kKMGT]B|[KMGT]iB)$/;

const durationPattern = /^(\d{1,16}) ?(ms|s|m|h|d)$/;

/**
 * Parses a number of bytes: a whole number, alone or with a unit. KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB of 1024.
 * Returns undefined for other text, and for more than a safe integer holds.
 */
export function parseSize(text: string): number | undefined {
  return parseAmount(sizePattern.exec(text), bytesPerUnit);
}

/**
 * Parses a duration into milliseconds: a whole number with one of the units ms, s, m, h, d; a zero needs none.
 * Returns undefined for other text, and for more than a safe integer holds.
 */
export function parseDuration(text: string): number | undefined {
  return text === '0' ? 0 : parseAmount(durationPattern.exec(text), msPerUnit);
}

function parseAmount(match: RegExpExecArray | null, factors: Readonly<Record<string, number>>): number | undefined {
  const [, digits, unit] = match ?? [];
  const factor = unit === undefined ? undefined : factors[unit];
  if (digits === undefined || factor === undefined) return undefined;
  const amount = Number(digits) * factor;
  return Number.isSafeInteger(amount) ? amount : undefined;
}
