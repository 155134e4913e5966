/** A coverage map: each cell stands for a part of a representation. A slider reads the cells one by one, also by the keyboard. */

import type { JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import {
  type Cell,
  type Coverage,
  cellState,
  cellsOf,
  describeCell,
  describeCoverage,
  type Run,
  runsOf,
  stateNames,
} from '../model/coverage.ts';
import { countText, sizeText, spanText } from '../model/format.ts';

const cellPx = 13;
const gapPx = 2;
const mostRows = 10;

/** The most runs that the table lists. */
const mostRuns = 200;

/** Draws the map of a representation. */
export function CoverageMap({ coverage }: { readonly coverage: Coverage }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [pointed, setPointed] = useState<number>();
  const id = useId();
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const sizes = new ResizeObserver(() => setWidth(element.clientWidth));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  const columns = Math.max(1, Math.floor((width + gapPx) / (cellPx + gapPx)));
  const cells = width === 0 ? [] : cellsOf(coverage, columns * mostRows);
  const at = pointed === undefined ? undefined : Math.min(pointed, cells.length - 1);
  const cell = at === undefined ? undefined : cells[at];
  const summary = describeCoverage(coverage);
  return (
    <figure class="coverage" aria-labelledby={id}>
      <figcaption id={id}>{summary}</figcaption>
      <div ref={place} class="coverage-place">
        {cells.length === 0 ? null : (
          <Cells cells={cells} columns={columns} pointed={at} label={summary} onPoint={setPointed} />
        )}
      </div>
      {cells.length === 0 ? null : (
        <div class="coverage-reading">
          <input
            type="range"
            min={0}
            max={cells.length - 1}
            value={at ?? 0}
            aria-label="Part of the body"
            aria-valuetext={cell === undefined ? describeCell(cells[0] as Cell) : describeCell(cell)}
            onInput={({ currentTarget }) => setPointed(Number(currentTarget.value))}
          />
          <output>
            {cell === undefined
              ? `each cell: about ${sizeText(coverage.sizeBytes / cells.length)}`
              : describeCell(cell)}
          </output>
        </div>
      )}
      <ul class="legend">
        {(['hot', 'stored', 'arriving', 'absent'] as const).map((state) => (
          <li key={state}>
            <svg class="swatch" viewBox="0 0 13 13" aria-hidden="true">
              <CellShape x={0} y={0} cell={sampleCells[state]} isPointed={false} />
            </svg>
            {stateNames[state]}
          </li>
        ))}
      </ul>
      <RunsTable coverage={coverage} />
    </figure>
  );
}

const sample = (storedShare: number, hotShare: number, arrivingShare: number): Cell => ({
  start: 0,
  end: 1,
  storedShare,
  hotShare,
  arrivingShare,
});
const sampleCells = {
  hot: sample(1, 1, 0),
  stored: sample(1, 0, 0),
  arriving: sample(0, 0, 1),
  absent: sample(0, 0, 0),
};

function Cells(props: {
  readonly cells: readonly Cell[];
  readonly columns: number;
  readonly pointed: number | undefined;
  readonly label: string;
  onPoint(at: number | undefined): void;
}): JSX.Element {
  const { cells, columns, pointed, label, onPoint } = props;
  const step = cellPx + gapPx;
  const used = Math.min(columns, cells.length);
  const rows = Math.ceil(cells.length / columns);
  const width = used * step - gapPx;
  const height = rows * step - gapPx;
  const cellAt = (event: MouseEvent): number | undefined => {
    const column = Math.floor(event.offsetX / step);
    const at = Math.floor(event.offsetY / step) * columns + column;
    return column >= 0 && column < columns && at >= 0 && at < cells.length ? at : undefined;
  };
  return (
    <svg
      class="coverage-map"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
      onMouseMove={(event) => onPoint(cellAt(event))}
      onMouseLeave={() => onPoint(undefined)}
    >
      {cells.map((cell, at) => (
        <CellShape
          key={cell.start}
          x={(at % columns) * step}
          y={Math.floor(at / columns) * step}
          cell={cell}
          isPointed={at === pointed}
        />
      ))}
    </svg>
  );
}

/** A cell: filled from below as far as its bytes are stored. Memory is a dot, arriving bytes a stripe at the top. */
function CellShape(props: {
  readonly x: number;
  readonly y: number;
  readonly cell: Cell;
  readonly isPointed: boolean;
}): JSX.Element {
  const { x, y, cell, isPointed } = props;
  const { storedShare, arrivingShare } = cell;
  const state = cellState(cell);
  const stored = storedShare === 0 ? 0 : Math.max(2, Math.round(storedShare * cellPx));
  const arriving = arrivingShare === 0 ? 0 : Math.max(3, Math.round(arrivingShare * cellPx));
  const right = x + cellPx;
  return (
    <g class={isPointed ? 'cell pointed' : 'cell'}>
      <rect class="cell-absent" x={x + 0.5} y={y + 0.5} width={cellPx - 1} height={cellPx - 1} rx={2} />
      {stored === 0 ? null : (
        <rect
          class={`cell-${state === 'hot' ? 'hot' : 'stored'}`}
          x={x}
          y={y + cellPx - stored}
          width={cellPx}
          height={stored}
          rx={2}
        />
      )}
      {arriving === 0 ? null : <rect class="cell-arriving" x={x} y={y} width={cellPx} height={arriving} rx={2} />}
      {state === 'hot' ? <circle class="cell-dot" cx={right - cellPx / 2} cy={y + cellPx - stored / 2} r={2} /> : null}
      {isPointed ? (
        <rect class="cell-frame" x={x + 0.75} y={y + 0.75} width={cellPx - 1.5} height={cellPx - 1.5} rx={2} />
      ) : null}
    </g>
  );
}

/** The runs of bytes as a table, made only where a person opens it. */
function RunsTable({ coverage }: { readonly coverage: Coverage }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="numbers" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Runs of bytes</summary>
      {isOpen ? <Runs runs={runsOf(coverage)} /> : null}
    </details>
  );
}

function Runs({ runs }: { readonly runs: readonly Run[] }): JSX.Element {
  const shown = runs.slice(0, mostRuns);
  return (
    <div class="scroll">
      <table class="table">
        <caption class="unseen">Runs of bytes</caption>
        <thead>
          <tr>
            <th scope="col">Bytes</th>
            <th scope="col" class="number">
              Size
            </th>
            <th scope="col">State</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((run) => (
            <tr key={run.start}>
              <td>{spanText(run)}</td>
              <td class="number">{sizeText(run.end - run.start)}</td>
              <td>{stateNames[run.state]}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {runs.length > shown.length ? <p class="hint">and {countText(runs.length - shown.length)} more runs</p> : null}
    </div>
  );
}
