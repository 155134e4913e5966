/** Tables of plain text. */

const gap = '   ';

/** Rows as lines: the first column at the left, the others at the right. */
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

/** A number with so many decimal places; a dash where there is none. */
export function formatFigure(value: number | undefined, digits: number): string {
  if (value === undefined) return '–';
  return value.toLocaleString('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
