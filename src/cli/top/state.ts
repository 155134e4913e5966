/** What the viewer of `rangeway top` has chosen, and what each key changes about it. */

import type { Key } from '../terminal/screen.ts';
import type { FillSpeeds, TopFill, TopReading } from './figures.ts';

/** The orders of the lists. Fills without a number of hits keep the order of their time, and so on. */
export const sortNames = ['activity', 'size', 'time', 'name'] as const;

/** A row that can be selected. */
export type TopRow =
  | { readonly kind: 'fill'; readonly id: string; readonly uri: string; readonly fill: TopFill; readonly speed: number }
  | {
      readonly kind: 'hot';
      readonly id: string;
      readonly uri: string;
      readonly hits: number;
      readonly bytes: number;
    };

/** The choices of the viewer. */
export interface TopState {
  readonly sort: (typeof sortNames)[number];
  /** Only rows whose URL contains this text, whatever its case. */
  readonly filter: string;
  /** `TopRow.id`; undefined selects the first row. */
  readonly selected: string | undefined;
  readonly mode:
    | { readonly kind: 'rows' | 'filter' | 'help' }
    /** Waits for yes or no. */
    | { readonly kind: 'confirm'; readonly order: TopOrder };
  readonly isPaused: boolean;
}

/** What the viewer wants to be done by the server. */
export type TopOrder =
  | { readonly kind: 'purge'; readonly uri: string }
  | { readonly kind: 'stop'; readonly id: string; readonly uri: string };

/** The outcome of a key. */
export interface KeyOutcome {
  readonly state: TopState;
  readonly order?: TopOrder;
  readonly quits?: true;
}

/** The state at the start. */
export const firstState: TopState = {
  sort: 'activity',
  filter: '',
  selected: undefined,
  mode: { kind: 'rows' },
  isPaused: false,
};

/** Returns the rows that match the filter, in their order: fills first, then the hottest entries. */
export function rowsOf(
  { fills, hottest }: Pick<TopReading, 'fills' | 'hottest'>,
  { filter, sort }: Pick<TopState, 'filter' | 'sort'>,
  speeds: Pick<FillSpeeds, 'speedOf'>,
): readonly TopRow[] {
  const text = filter.toLowerCase();
  const matches = ({ uri }: { readonly uri: string }): boolean => uri.toLowerCase().includes(text);
  const running = fills
    .filter(matches)
    .map(
      (fill): TopRow => ({ kind: 'fill', id: `fill ${fill.id}`, uri: fill.uri, fill, speed: speeds.speedOf(fill.id) }),
    );
  const hot = hottest.filter(matches).map((each): TopRow => ({ ...each, kind: 'hot', id: `hot ${each.uri}` }));
  return [...sorted(running, sort), ...sorted(hot, sort)];
}

function sorted(rows: readonly TopRow[], sort: TopState['sort']): readonly TopRow[] {
  if (sort === 'name') return rows.toSorted((a, b) => (a.uri < b.uri ? -1 : a.uri > b.uri ? 1 : 0));
  return rows.toSorted((a, b) => rankOf(b, sort) - rankOf(a, sort));
}

/** Rows with a higher rank come first. */
function rankOf(row: TopRow, sort: TopState['sort']): number {
  if (row.kind === 'hot') return sort === 'size' ? row.bytes : row.hits;
  if (sort === 'size') return row.fill.sizeBytes ?? row.fill.receivedBytes;
  return sort === 'time' ? -row.fill.startedAt : row.speed;
}

/** Returns the row that is selected: that of the state, or the first one where it is gone. */
export function selectedRow(rows: readonly TopRow[], { selected }: Pick<TopState, 'selected'>): TopRow | undefined {
  return rows.find(({ id }) => id === selected) ?? rows[0];
}

/** Applies a key. `rows` are those on the screen. */
export function pressKey(state: TopState, key: Key, rows: readonly TopRow[]): KeyOutcome {
  if (key.ctrl && (key.name === 'c' || key.name === 'd')) return { state, quits: true };
  switch (state.mode.kind) {
    case 'filter':
      return { state: typeFilter(state, key) };
    case 'help':
      return { state: inMode(state, 'rows') };
    case 'confirm': {
      const isYes = key.text.toLowerCase() === 'y';
      return { state: inMode(state, 'rows'), ...(isYes ? { order: state.mode.order } : {}) };
    }
    case 'rows':
      return pressInRows(state, key, rows);
  }
}

function inMode(state: TopState, kind: 'rows' | 'filter' | 'help'): TopState {
  return { ...state, mode: { kind } };
}

/** The most characters of a filter. */
const LONGEST_FILTER = 200;

function typeFilter(state: TopState, { name, text, ctrl }: Key): TopState {
  if (name === 'return' || name === 'enter') return inMode(state, 'rows');
  if (name === 'escape') return { ...inMode(state, 'rows'), filter: '' };
  if (name === 'backspace') return { ...state, filter: [...state.filter].slice(0, -1).join('') };
  if (ctrl && name === 'u') return { ...state, filter: '' };
  return { ...state, filter: (state.filter + text).slice(0, LONGEST_FILTER) };
}

function pressInRows(state: TopState, key: Key, rows: readonly TopRow[]): KeyOutcome {
  const row = selectedRow(rows, state);
  const confirm = (order: TopOrder): KeyOutcome => ({ state: { ...state, mode: { kind: 'confirm', order } } });
  switch (key.text === '' ? key.name : key.text) {
    case 'q':
      return { state, quits: true };
    case 'escape':
      return { state: { ...state, filter: '' } };
    case '/':
      return { state: inMode(state, 'filter') };
    case 's':
      return {
        state: { ...state, sort: sortNames[(sortNames.indexOf(state.sort) + 1) % sortNames.length] ?? 'activity' },
      };
    case '?':
    case 'h':
      return { state: inMode(state, 'help') };
    case ' ':
      return { state: { ...state, isPaused: !state.isPaused } };
    case 'p':
      return row === undefined ? { state } : confirm({ kind: 'purge', uri: row.uri });
    case 'x':
      return row?.kind === 'fill' ? confirm({ kind: 'stop', id: row.fill.id, uri: row.uri }) : { state };
    default:
      return { state: { ...state, selected: moved(key, rows, row) } };
  }
}

/** Returns the id of the row that a key moves to. */
function moved({ name }: Key, rows: readonly TopRow[], row: TopRow | undefined): string | undefined {
  const at = row === undefined ? 0 : rows.indexOf(row);
  const steps: Readonly<Record<string, number>> = {
    up: at - 1,
    k: at - 1,
    down: at + 1,
    j: at + 1,
    pageup: at - 10,
    pagedown: at + 10,
    home: 0,
    end: rows.length - 1,
  };
  const to = Math.min(rows.length - 1, Math.max(0, steps[name] ?? at));
  return rows[to]?.id;
}
