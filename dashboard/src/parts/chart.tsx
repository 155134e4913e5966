/** A chart of the last minutes, on a canvas. Its numbers are also there as text: a sentence, a legend, and a table on request. */

import type { JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clockText, unknownText } from '../model/format.ts';
import { colorOf, onThemeChange } from '../theme.ts';

/** A line of a chart. */
export interface Line {
  readonly label: string;
  /** The name of its colour variable. */
  readonly color: string;
  readonly values: readonly (number | null)[];
  /** Lengths of dashes and gaps; lines are told apart without colours too. */
  readonly dash?: readonly number[] | undefined;
  readonly isFilled?: boolean;
}

/** What a chart shows. */
export interface ChartGiven {
  readonly title: string;
  /** Epoch seconds, ascending. */
  readonly seconds: readonly number[];
  readonly lines: readonly Line[];
  /** The end of the time axis in epoch seconds, and its length in seconds. */
  readonly end: number;
  readonly span: number;
  /** `share`: from 0 to 1. `log`: a logarithmic axis. */
  readonly scale: 'linear' | 'share' | 'log';
  format(value: number): string;
  /** One sentence that says what can be seen. */
  readonly summary: string;
}

const heightPx = 160;

/** Charts of one page show the same moment under the pointer. */
const syncKey = 'activity';

/** Draws a chart. */
export function Chart(given: ChartGiven): JSX.Element {
  const { title, seconds, lines, format, summary } = given;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const latest = useRef(given);
  latest.current = given;
  const [pointed, setPointed] = useState<number | undefined>();
  const id = useId();

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const created = createPlot(element, latest, setPointed);
    plot.current = created;
    const sizes = new ResizeObserver(() => created.setSize({ width: element.clientWidth, height: heightPx }));
    sizes.observe(element);
    const endTheme = onThemeChange(() => {
      colors.clear();
      created.redraw(false, true);
    });
    return () => {
      endTheme();
      sizes.disconnect();
      created.destroy();
    };
  }, []);

  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData([seconds, ...lines.map(({ values }) => values)] as uPlot.AlignedData, false);
      plot.current?.setScale('x', { min: given.end - given.span, max: given.end });
    });
  });

  // Without a pointer the legend shows the newest reading.
  const at = pointed ?? seconds.length - 1;
  return (
    <figure class="chart panel" aria-labelledby={id}>
      <figcaption>
        <h2 id={id}>{title}</h2>
        <ul class="legend">
          {lines.map(({ label, color, dash, values }) => {
            const value = values[at];
            return (
              <li key={label}>
                <LineSample color={color} dash={dash} />
                {label} <b>{typeof value === 'number' ? format(value) : unknownText}</b>
              </li>
            );
          })}
        </ul>
        <span class="chart-at">{pointed === undefined ? '' : clockText((seconds[pointed] ?? 0) * 1000)}</span>
      </figcaption>
      <div ref={place} class="chart-place" role="img" aria-label={`${title}: ${summary}`} />
      <NumbersTable given={given} />
    </figure>
  );
}

function LineSample({ color, dash }: Pick<Line, 'color' | 'dash'>): JSX.Element {
  return (
    <svg class="sample" viewBox="0 0 18 6" aria-hidden="true">
      <line x1="0" y1="3" x2="18" y2="3" style={{ stroke: `var(${color})` }} stroke-dasharray={dash?.join(' ')} />
    </svg>
  );
}

const rowsOfTable = 10;

/** The numbers of a chart at ten moments. The table is made only where a person opens it. */
function NumbersTable({ given }: { readonly given: ChartGiven }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="numbers" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        Numbers<span class="unseen"> of {given.title}</span>
      </summary>
      {isOpen ? <Numbers {...given} /> : null}
    </details>
  );
}

function Numbers({ title, seconds, lines, span, end, format }: ChartGiven): JSX.Element {
  const first = Math.max(
    0,
    seconds.findIndex((each) => each >= end - span),
  );
  const step = Math.max(1, Math.floor((seconds.length - first) / rowsOfTable));
  const rows = seconds.map((_, at) => at).filter((at) => at >= first && (seconds.length - 1 - at) % step === 0);
  return (
    <div class="scroll">
      <table class="table">
        <caption class="unseen">{title}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {lines.map(({ label }) => (
              <th key={label} scope="col" class="number">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((at) => (
            <tr key={seconds[at]}>
              <th scope="row">{clockText((seconds[at] ?? 0) * 1000)}</th>
              {lines.map(({ label, values }) => (
                <td key={label} class="number">
                  {typeof values[at] === 'number' ? format(values[at]) : unknownText}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The colours in use, by the names of their variables. */
const colors = new Map<string, string>();

function color(variable: string): string {
  const known = colors.get(variable);
  if (known !== undefined) return known;
  const found = colorOf(variable);
  colors.set(variable, found);
  return found;
}

const font = '11px system-ui, sans-serif';

function createPlot(
  element: HTMLElement,
  latest: { readonly current: ChartGiven },
  point: (at: number | undefined) => void,
): uPlot {
  const { lines, scale } = latest.current;
  const axis = { stroke: () => color('--muted'), font, ticks: { show: false } };
  const grid = { stroke: () => color('--grid'), width: 1 };
  const options: uPlot.Options = {
    width: element.clientWidth,
    height: heightPx,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: syncKey },
      drag: { x: false, y: false },
      points: { show: false },
      y: false,
    },
    scales: { x: { time: true }, y: scaleOf(scale) },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        space: 70,
        values: (_plot, splits) => splits.map((at) => clockText(at * 1000)),
      },
      {
        ...axis,
        grid,
        size: 58,
        space: 32,
        ...(scale === 'log' ? { splits: (_plot, _axis, min, max) => powersOfTen(min, max) } : {}),
        values: (_plot, splits) => splits.map((value) => (value === null ? '' : latest.current.format(value))),
      },
    ],
    series: [
      {},
      ...lines.map(
        ({ label, color: variable, dash, isFilled }): uPlot.Series => ({
          label,
          stroke: () => color(variable),
          width: 1.5,
          points: { show: false },
          ...(dash === undefined ? {} : { dash: [...dash] }),
          ...(isFilled === true ? { fill: () => color(`${variable}-soft`) } : {}),
        }),
      ),
    ],
    hooks: { setCursor: [({ cursor: { idx } }) => point(idx ?? undefined)] },
  };
  return new uPlot(options, [[], ...lines.map(() => [])] as unknown as uPlot.AlignedData, element);
}

function scaleOf(scale: ChartGiven['scale']): uPlot.Scale {
  if (scale === 'share') return { range: [0, 1] };
  if (scale === 'log') return { distr: 3, range: (_plot, min, max) => logRange(min, max) };
  return { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] };
}

function powersOfTen(min: number, max: number): number[] {
  const first = Math.ceil(Math.log10(min) - 1e-9);
  const count = Math.floor(Math.log10(max) + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, at) => 10 ** (first + at));
}

/** Whole powers of ten around the values. */
function logRange(min: number | null, max: number | null): [number, number] {
  const low = 10 ** Math.floor(Math.log10(Math.max(min ?? 1, 0.1)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(max ?? 10, low * 10)));
  return [low, high];
}
