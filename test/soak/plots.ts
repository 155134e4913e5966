/** Plots of a run as one SVG, readable on a light and on a dark background. Pure. */

/** A line of a plot: its values in the order of the times. */
export interface Line {
  readonly name: string;
  readonly values: readonly number[];
}

/** One plot. */
export interface Plot {
  readonly title: string;
  readonly lines: readonly Line[];
  /** Writes a value of the axis. */
  readonly format: (value: number) => string;
}

/** A moment that all plots show. */
export interface PlotMark {
  readonly atMs: number;
  /** Names the colour, and is explained by a legend. */
  readonly group: string;
}

/** Lengths in pixels. */
const left = 64;
const width = 760;
const plotHeight = 84;
const plotGap = 34;
const top = 40;
/** More points than this are joined into means, so that a long run has a small file. */
const mostPoints = 240;

const style = `
    text { font: 11px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
    .axis { fill: none; stroke: #59636e; stroke-opacity: .35 } .line { fill: none; stroke-width: 1.3 }
    .l0 { stroke: #0969da } .l1 { stroke: #bf8700 } .l2 { stroke: #cf222e } .l3 { stroke: #8250df }
    .m0 { stroke: #cf222e } .m1 { stroke: #8250df } .m2 { stroke: #1a7f37 } .m3 { stroke: #bf8700 } .m4 { stroke: #57606a }
    .mark { stroke-opacity: .45 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .axis { stroke: #9198a1 }
      .l0 { stroke: #4493f8 } .l1 { stroke: #d29922 } .l2 { stroke: #f85149 } .l3 { stroke: #ab7df8 }
      .m0 { stroke: #f85149 } .m1 { stroke: #ab7df8 } .m2 { stroke: #3fb950 } .m3 { stroke: #d29922 } .m4 { stroke: #9198a1 }
    }`;

/** Draws plots below each other over the same time. */
export function drawPlots(
  title: string,
  timesMs: readonly number[],
  plots: readonly Plot[],
  marks: readonly PlotMark[],
): string {
  const endMs = Math.max(1, ...timesMs);
  const groups = [...new Set(marks.map(({ group }) => group))];
  const height = top + plots.length * (plotHeight + plotGap) + 8;
  const drawn = plots.map((plot, at) => drawPlot(plot, timesMs, endMs, top + at * (plotHeight + plotGap) + 14));
  const ticks = marks.map(({ atMs, group }) => {
    const x = round(left + (atMs / endMs) * width);
    return `<path class="mark m${groups.indexOf(group) % 5}" d="M${x} ${top}V${height - 8}" />`;
  });
  const legend = groups.map((group, at) => {
    const x = left + at * 130;
    return `<path class="m${at % 5}" stroke-width="2" d="M${x} 24h12" /><text x="${x + 16}" y="28">${escaped(group)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + width + 12} ${height}" width="${left + width + 12}" height="${height}" role="img" aria-label="${escaped(title)}">
  <style>${style}
  </style>
  <text class="title" x="0" y="12">${escaped(title)}</text>
  ${legend.join('\n  ')}
  ${ticks.join('')}
${drawn.join('\n')}
</svg>
`;
}

/** Joins values into at most `most` means. */
export function thinned(values: readonly number[], most: number): readonly number[] {
  const step = Math.ceil(values.length / most);
  if (step <= 1) return values;
  return Array.from({ length: Math.ceil(values.length / step) }, (_, at) => {
    const some = values.slice(at * step, (at + 1) * step);
    return some.reduce((sum, value) => sum + value, 0) / some.length;
  });
}

function drawPlot({ title, lines, format }: Plot, timesMs: readonly number[], endMs: number, y: number): string {
  const times = thinned(timesMs, mostPoints);
  const thin = lines.map(({ name, values }) => ({ name, values: thinned(values, mostPoints) }));
  const most = Math.max(...thin.flatMap(({ values }) => values), Number.MIN_VALUE) * 1.05;
  const paths = thin.map(({ values }, at) => {
    const points = values.map((value, index) => {
      const x = round(left + ((times[index] ?? 0) / endMs) * width);
      return `${x} ${round(y + plotHeight - (value / most) * plotHeight)}`;
    });
    return points.length === 0 ? '' : `<path class="line l${at % 4}" d="M${points.join('L')}" />`;
  });
  let nameX = left + title.length * 6.6 + 12;
  const names = thin.map(({ name }, at) => {
    if (name === '') return '';
    const x = round(nameX);
    nameX += 24 + name.length * 6.2;
    return `<path class="l${at % 4}" stroke-width="2" d="M${x} ${y - 9}h10" /><text x="${x + 13}" y="${y - 5}">${escaped(name)}</text>`;
  });
  return [
    `  <text class="title" x="${left}" y="${y - 5}">${escaped(title)}</text>${names.join('')}`,
    `  <path class="axis" d="M${left} ${y}V${y + plotHeight}H${left + width}" />`,
    `  <text x="${left - 4}" y="${y + 9}" text-anchor="end">${escaped(format(most))}</text><text x="${left - 4}" y="${y + plotHeight}" text-anchor="end">0</text>`,
    `  <text x="${left + width}" y="${y + plotHeight + 12}" text-anchor="end">${Math.round(endMs / 60_000)} min</text>`,
    `  ${paths.join('\n  ')}`,
  ].join('\n');
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
