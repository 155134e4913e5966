/** The results of the simulator as a table and as a plot, readable on a light and on a dark background. */

import { formatFigure, formatTable } from '../table.ts';
import type { SimulationResult } from './fleet.ts';
import { policies } from './scenario.ts';

/** One figure of a result. */
interface Measure {
  readonly head: string;
  /** The title of its panel; undefined where it is not drawn. */
  readonly title: string | undefined;
  readonly digits: number;
  figureOf(result: SimulationResult): number;
}

/** Distance of two grid lines of percentages, and of loads; the largest load that is drawn. */
const percentStep = 25;
const loadStep = 2;
const mostLoad = 10;

const measures: readonly Measure[] = [
  {
    head: 'own hits, % of requests',
    title: undefined,
    digits: 1,
    figureOf: ({ ownRequests, requests }) => (100 * ownRequests) / requests,
  },
  {
    head: 'own hits, % of bytes',
    title: 'Own hits, % of bytes',
    digits: 1,
    figureOf: ({ ownBytes, deliveredBytes }) => (100 * ownBytes) / deliveredBytes,
  },
  {
    head: 'origin bytes, % of client bytes',
    title: 'Origin bytes, % of client bytes',
    digits: 1,
    figureOf: ({ fetchedBytes, deliveredBytes }) => (100 * fetchedBytes) / deliveredBytes,
  },
  {
    head: 'engine bytes, % of client bytes',
    title: 'Engine bytes (both ways), % of client bytes',
    digits: 1,
    figureOf: ({ engineReadBytes, engineWrittenBytes, deliveredBytes }) =>
      (100 * (engineReadBytes + engineWrittenBytes)) / deliveredBytes,
  },
  {
    head: 'largest load ÷ mean',
    title: `Largest load of a node ÷ mean (cut at ${mostLoad})`,
    digits: 2,
    figureOf: ({ peakLoad }) => peakLoad,
  },
];

/** Returns the table of all results: heads, then a row for each result. */
export function simulationRows(results: readonly SimulationResult[]): readonly (readonly string[])[] {
  const rows = results.map((result) => [
    result.policy,
    formatFigure(result.nodes, 0),
    ...measures.map(({ digits, figureOf }) => formatFigure(figureOf(result), digits)),
  ]);
  return [['policy', 'nodes', ...measures.map(({ head }) => head)], ...rows];
}

/** Formats the results as a table, as plain text or as Markdown. */
export function formatSimulation(
  results: readonly SimulationResult[],
  { isMarkdown }: { isMarkdown: boolean },
): string {
  const rows = simulationRows(results);
  if (!isMarkdown) return formatTable(rows);
  const [head = [], ...others] = rows.map((cells) => `| ${cells.join(' | ')} |`);
  const line = `| --- |${' ---: |'.repeat((rows[0]?.length ?? 1) - 1)}`;
  return [head, line, ...others].join('\n');
}

/** Lengths in pixels. */
const panelWidth = 330;
const panelHeight = 170;
const left = 44;
const gap = 26;
const panelTop = 96;
const rowHeight = panelHeight + 62;
const right = 24;
const width = 2 * (left + panelWidth) + gap + right;

const style = `
    text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 }
    .axis { stroke: #59636e; stroke-width: 1 } .grid { stroke: #59636e; stroke-opacity: .25 }
    .line { fill: none; stroke-width: 2 }
    .s0 { stroke: #8c959f } .s1 { stroke: #bf8700 } .s2 { stroke: #0969da } .s3 { stroke: #cf222e } .s4 { stroke: #1a7f37 }
    .s1 { stroke-dasharray: 2 3 } .s3 { stroke-dasharray: 8 4 } .s4 { stroke-dasharray: 10 3 2 3 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .axis { stroke: #9198a1 } .grid { stroke: #9198a1 }
      .s0 { stroke: #9198a1 } .s1 { stroke: #d29922 } .s2 { stroke: #4493f8 } .s3 { stroke: #ff7b72 } .s4 { stroke: #3fb950 }
    }`;

/** Draws four figures over the number of nodes, which has a logarithmic axis. Undefined for fewer than two numbers of nodes. */
export function drawSimulation(results: readonly SimulationResult[]): string | undefined {
  const counts = [...new Set(results.map(({ nodes }) => nodes))].sort((one, other) => one - other);
  if (counts.length < 2) return undefined;
  const drawn = measures.filter(({ title }) => title !== undefined);
  const panels = drawn.map((measure, index) => {
    const x = left + (index % 2) * (left + panelWidth + gap);
    const y = panelTop + Math.floor(index / 2) * rowHeight;
    return drawPanel(measure, results, counts, x, y);
  });
  const height = panelTop + Math.ceil(drawn.length / 2) * rowHeight - 10;
  const label = 'Simulated fleets: hits, origin traffic, engine traffic and balance, by policy and number of nodes';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${label}">
  <style>${style}
  </style>
${policies.map(({ name }, index) => drawKey(name, index)).join('\n')}
  <text x="520" y="42">horizontally: number of nodes</text>
${panels.join('\n')}
</svg>
`;
}

function drawKey(name: string, index: number): string {
  const x = (index % 3) * 260;
  const y = 14 + Math.floor(index / 3) * 24;
  return `  <line class="line s${index}" x1="${x}" y1="${y}" x2="${x + 34}" y2="${y}" /><text x="${x + 42}" y="${y + 4}">${name}</text>`;
}

function drawPanel(
  { title = '', head, figureOf }: Measure,
  results: readonly SimulationResult[],
  counts: readonly number[],
  x: number,
  y: number,
): string {
  const values = results.map(figureOf);
  // A load has no natural maximum; one policy would make all others look the same.
  const isLoad = !head.includes('%');
  const most = isLoad ? mostLoad : Math.max(100, Math.ceil(Math.max(...values) / percentStep) * percentStep);
  const least = Math.log(counts[0] ?? 1);
  const breadth = Math.log(counts.at(-1) ?? 1) - least;
  const xOf = (nodes: number) => round(x + ((Math.log(nodes) - least) / breadth) * panelWidth);
  const yOf = (value: number) => round(y + panelHeight - (Math.min(value, most) / most) * panelHeight);
  const step = isLoad ? loadStep : percentStep;
  const levels = Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step);
  const lines = policies.map(({ name }, index) => {
    const points = results
      .filter(({ policy }) => policy === name)
      .map((result) => `${xOf(result.nodes)},${yOf(figureOf(result))}`);
    return `  <polyline class="line s${index}" points="${points.join(' ')}" />`;
  });
  return [
    `  <text class="title" x="${x}" y="${y - 12}">${title}</text>`,
    ...levels.flatMap((level) => [
      `  <line class="grid" x1="${x}" y1="${yOf(level)}" x2="${x + panelWidth}" y2="${yOf(level)}" />`,
      `  <text x="${x - 6}" y="${yOf(level) + 4}" text-anchor="end">${formatFigure(level, 0)}</text>`,
    ]),
    `  <line class="axis" x1="${x}" y1="${y + panelHeight}" x2="${x + panelWidth}" y2="${y + panelHeight}" />`,
    ...counts.map(
      (nodes) =>
        `  <text x="${xOf(nodes)}" y="${y + panelHeight + 18}" text-anchor="middle">${formatFigure(nodes, 0)}</text>`,
    ),
    ...lines,
  ].join('\n');
}

function round(length: number): number {
  return Math.round(length * 10) / 10;
}
