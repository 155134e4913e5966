/** Plain-text tables. */

const gap = '   ';

/** Formats rows as lines: the first column is aligned left, the others right. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
        .join(gap)
        .trimEnd(),
    )
    .map((line) => `  ${line}`)
    .join('\n');
}

/** Formats a number with this many decimal places; undefined becomes a dash. */
export function formatFigure(value: number | undefined, digits: number): string {
  if (value === undefined) return '–';
  return value.toLocaleString('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
