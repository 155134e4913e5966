/** The ratios to nginx as an SVG chart, readable on a light and on a dark background. */

import { ratioOf } from './goals.ts';
import { subject, type WorkloadResult, yardstick } from './rounds.ts';
import { formatFigure } from './table.ts';
import { workloadLabel } from './workloads/workload.ts';

/** Lengths in pixels. */
const labelWidth = 210;
const plotWidth = 460;
const barHeight = 14;
const groupGap = 12;
const top = 44;
const right = 60;

/** The ratio at the full width of the plot; longer bars are cut there. */
const mostRatio = 2;

/** One bar. */
interface Bar {
  readonly peer: string;
  readonly ratio: number;
}

/** The bars of one workload. */
interface Group {
  readonly label: string;
  readonly bars: readonly Bar[];
}

const style = `
    text { font: 12px system-ui, sans-serif; fill: #1f2328 }
    .axis { stroke: #59636e; stroke-width: 1 } .grid { stroke: #59636e; stroke-opacity: .25 }
    .p0 { fill: #0969da } .p1 { fill: #8c959f } .p2 { fill: #bf8700 } .p3 { fill: #8250df }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .axis { stroke: #9198a1 } .grid { stroke: #9198a1 }
      .p0 { fill: #4493f8 } .p1 { fill: #6e7681 } .p2 { fill: #d29922 } .p3 { fill: #ab7df8 }
    }`;

/** Draws all workloads whose main figure is a rate; undefined where none of them has a figure of nginx. */
export function formatChart(results: readonly WorkloadResult[]): string | undefined {
  const groups = results.flatMap(groupOf);
  if (groups.length === 0) return undefined;
  const found = [...new Set(groups.flatMap(({ bars }) => bars.map(({ peer }) => peer)))];
  const peers = [subject, ...found.filter((name) => name !== subject)];
  let y = top;
  const drawn = groups.map((group) => {
    const text = drawGroup(group, peers, y);
    y += group.bars.length * barHeight + groupGap;
    return text;
  });
  const width = labelWidth + plotWidth + right;
  const title = `Rates as multiples of ${yardstick}'s in the same run; longer is faster`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y + 8}" width="${width}" height="${y + 8}" role="img" aria-label="${title}">
  <style>${style}
  </style>
  <text x="0" y="14">${title}</text>
${drawLegend(peers)}
${drawAxis(y)}
${drawn.join('\n')}
</svg>
`;
}

function groupOf(result: WorkloadResult): Group[] {
  const { workload, peers } = result;
  const [main] = workload.metrics;
  const reference = peers.find(({ name }) => name === yardstick);
  if (main === undefined || main.key !== 'rate' || reference === undefined) return [];
  const bars = peers.flatMap(({ name, median }) => {
    const ratio = ratioOf(median[main.key], reference.median[main.key]);
    return name === yardstick || ratio === undefined ? [] : [{ peer: name, ratio }];
  });
  return bars.length === 0 ? [] : [{ label: workloadLabel(workload), bars }];
}

function drawGroup({ label, bars }: Group, peers: readonly string[], y: number): string {
  const middle = y + (bars.length * barHeight) / 2 + 4;
  const lines = bars.map(({ peer, ratio }, index) => {
    const barY = y + index * barHeight;
    const length = Math.round((Math.min(ratio, mostRatio) / mostRatio) * plotWidth);
    return [
      `  <rect class="p${peers.indexOf(peer)}" x="${labelWidth}" y="${barY}" width="${length}" height="${barHeight - 3}" />`,
      `  <text x="${labelWidth + length + 5}" y="${barY + 10}">${formatFigure(ratio, 2)}</text>`,
    ].join('\n');
  });
  return [`  <text x="0" y="${middle}">${label}</text>`, ...lines].join('\n');
}

function drawLegend(peers: readonly string[]): string {
  return peers
    .map((peer, index) => {
      const x = labelWidth + index * 120;
      return `  <rect class="p${index}" x="${x}" y="22" width="11" height="11" /><text x="${x + 16}" y="32">${peer}</text>`;
    })
    .join('\n');
}

function drawAxis(bottom: number): string {
  return [0.5, 1, 1.5, 2]
    .map((ratio) => {
      const x = labelWidth + (ratio / mostRatio) * plotWidth;
      return `  <line class="${ratio === 1 ? 'axis' : 'grid'}" x1="${x}" y1="${top - 4}" x2="${x}" y2="${bottom}" />`;
    })
    .join('\n');
}
