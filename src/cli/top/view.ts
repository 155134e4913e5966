/** Draws `rangeway top`: the lines of a screen of any size, and one line for output that is no terminal. */

import {
  clip,
  clipMiddle,
  type Painter,
  pad,
  percentText,
  safeLine,
  shareBar,
  sparkline,
  textWidth,
  timeLeftText,
} from '../terminal/style.ts';
import { duration, sizeText } from '../text-sections.ts';
import type { Figures, TopReading } from './figures.ts';
import { selectedRow, type TopRow, type TopState } from './state.ts';

/** Everything that a screen shows. */
export interface TopScene {
  readonly columns: number;
  readonly rows: number;
  /** The admin listener that is asked. */
  readonly place: string;
  /** The last reading; undefined before the first one. */
  readonly reading: TopReading | undefined;
  readonly figures: Figures | undefined;
  /** Requests per second of the last readings. */
  readonly history: readonly number[];
  readonly state: TopState;
  /** As `rowsOf` returns them. */
  readonly list: readonly TopRow[];
  /** The outcome of the last order, or why there is no reading. */
  readonly message: { readonly text: string; readonly isFault: boolean } | undefined;
}

/** Draws the screen: exactly `rows` lines, none wider than `columns`. */
export function drawTop(scene: TopScene, paint: Painter): readonly string[] {
  const { columns, rows, reading, state } = scene;
  if (columns < 40 || rows < 8) return filled([clip('at least 40 × 8, please', columns)], rows);
  const foot = drawFoot(scene, paint);
  const room = rows - 1;
  const head = drawHead(scene, paint);
  if (state.mode.kind === 'help') return [...filled([head[0] ?? '', '', ...drawHelp(columns)], room), foot];
  if (reading === undefined) return [...filled(head, room), foot];
  const origins = drawOrigins(reading, columns, Math.max(1, Math.floor((room - head.length) / 4)), paint);
  const left = room - head.length - origins.length;
  const list = left > 2 ? drawList(scene, left, paint) : [];
  return [...filled([...head, ...filled(list, Math.max(0, left)), ...origins], room), foot];
}

function filled(lines: readonly string[], rows: number): readonly string[] {
  return [...lines, ...Array.from({ length: Math.max(0, rows - lines.length) }, () => '')].slice(0, rows);
}

/** A text and its colour. The widths are counted before it is coloured. */
type Piece = readonly [text: string, paint?: (text: string) => string];

/** Joins pieces, up to the last column. */
function joined(pieces: readonly Piece[], columns: number): string {
  let line = '';
  let left = columns;
  for (const [text, paint] of pieces) {
    const shown = clip(text, left);
    line += paint === undefined ? shown : paint(shown);
    left -= textWidth(shown);
    if (left <= 0) break;
  }
  return line;
}

const LABEL = 10;

const ofThisMachine = 'of this machine only; entries and engine are those of all machines';

function drawHead({ columns, rows, place, reading, figures, history, state }: TopScene, paint: Painter): string[] {
  const title: Piece[] = [
    ['Rangeway ', paint.bold],
    [clipMiddle(safeLine(place), Math.max(12, columns - 50)), paint.dim],
  ];
  if (reading === undefined || figures === undefined) return [joined([...title, [' …']], columns)];
  const serving = reading.workers.filter((worker) => worker.state === 'serving').length;
  const workers = `${serving} of ${reading.workers.length} ${reading.workers.length === 1 ? 'worker' : 'workers'}`;
  const first = joined(
    [
      ...title,
      reading.isReady ? [' ready', paint.green] : [' not ready', paint.red],
      [`  ${workers}`, serving < reading.workers.length ? paint.yellow : undefined] as Piece,
      [`  up ${duration(Math.max(0, reading.at - reading.startedAt))}`],
      ...(state.isPaused ? [['  PAUSED', paint.yellow] as Piece] : []),
    ],
    columns,
  );
  const row = (label: string, ...pieces: Piece[]): string =>
    joined([[label.padEnd(LABEL), paint.dim], ...pieces], columns);
  const f = figures;
  const lines = [
    first,
    row(
      'requests',
      [pad(`${countText(f.requestsPerSecond)}/s`, 11), paint.bold],
      [` ${reading.requests.inFlight} in flight  ${reading.connectionsOpen} connections`],
      [`  ${countText(f.failedPerSecond)} failed/s  `, f.failedPerSecond > 0 ? paint.red : paint.dim],
      [sparkline(history, Math.min(60, Math.max(0, columns - 66))), paint.cyan],
    ),
    row(
      'hits',
      [pad(percentText(f.hitRatio), 11), paint.bold],
      [' of requests  '],
      [percentText(f.byteHitRatio), paint.bold],
      [' of bytes  '],
      [`amplification ${Number.isFinite(f.amplification) ? f.amplification.toFixed(2) : '–'}`],
    ),
    row(
      'latency',
      ['p50 '],
      [pad(latencyText(f.p50), 8), paint.bold],
      ['p95 '],
      [pad(latencyText(f.p95), 8), paint.bold],
      ['p99 '],
      [latencyText(f.p99), paint.bold],
    ),
    row(
      'traffic',
      [pad(`${sizeText(f.sentPerSecond)}/s`, 11), paint.bold],
      [' sent  '],
      [`${sizeText(f.fromOriginPerSecond)}/s`, paint.bold],
      [' from origins'],
    ),
    row('store', ...storePieces(reading, paint)),
    ...(reading.store.isShared === true ? [row('figures', [ofThisMachine, paint.yellow])] : []),
  ];
  return rows >= 16 ? [...lines, ''] : lines;
}

function storePieces({ store }: TopReading, paint: Painter): Piece[] {
  const level = (name: string, used: number | null | undefined, limit: number | null | undefined): Piece[] => {
    if (typeof used !== 'number') return [];
    if (typeof limit !== 'number' || limit <= 0) return [[`  ${name} ${sizeText(used)}`]];
    return [[`  ${name} `], [shareBar(used / limit, 8), paint.cyan], [` ${sizeText(used)} of ${sizeText(limit)}`]];
  };
  return [
    [`${store.entries} ${store.entries === 1 ? 'entry' : 'entries'}`, paint.bold],
    ...level('memory', store.memoryBytes, store.memoryLimitBytes),
    ...level(store.isShared === true ? 'engine' : 'disk', store.diskBytes, store.diskLimitBytes),
  ];
}

/** Draws fills and hottest entries in `room` lines, the selected row among them. */
function drawList({ columns, reading, list, state }: TopScene, room: number, paint: Painter): readonly string[] {
  const fills = list.filter(({ kind }) => kind === 'fill');
  const total = reading?.fillCount ?? fills.length;
  const count = fills.length < total ? `${fills.length} of ${total}` : String(total);
  const sort = `by ${state.sort}${state.filter === '' ? '' : `, with "${safeLine(state.filter)}"`}`;
  const lines: { readonly text: string; readonly isSelected: boolean }[] = [];
  const add = (text: string, isSelected = false): void => void lines.push({ text, isSelected });
  const selected = selectedRow(list, state);
  const addRow = (row: TopRow): void => {
    const isSelected = row === selected;
    const pieces = row.kind === 'fill' ? fillPieces(row, columns, paint) : hotPieces(row, columns);
    const line = joined(isSelected ? pieces.map(([text]) => [text] as const) : pieces, columns);
    add(isSelected ? paint.inverse(pad(line, columns)) : line, isSelected);
  };
  add(
    joined(
      [
        [`  FILLS ${count}`, paint.bold],
        [`  ${sort}`, paint.dim],
      ],
      columns,
    ),
  );
  for (const row of fills) addRow(row);
  if (fills.length === 0) add(paint.dim('  none'));
  add('');
  const hot = list.filter(({ kind }) => kind === 'hot');
  add(
    joined(
      [
        ['  HOTTEST', paint.bold],
        ['  requests and bytes in the last minute', paint.dim],
      ],
      columns,
    ),
  );
  for (const row of hot) addRow(row);
  if (hot.length === 0) add(paint.dim('  none'));
  const at = lines.findIndex(({ isSelected }) => isSelected);
  const from = Math.max(0, Math.min(at - Math.floor(room / 2), lines.length - room));
  return lines.slice(from, from + room).map(({ text }) => text);
}

function fillPieces(row: Extract<TopRow, { kind: 'fill' }>, columns: number, paint: Painter): Piece[] {
  const { sizeBytes, receivedBytes, readers } = row.fill;
  const share = sizeBytes === undefined || sizeBytes === 0 ? undefined : receivedBytes / sizeBytes;
  const wide = columns >= 100;
  const bar = wide ? 16 : 8;
  const left =
    share === undefined || row.speed <= 0 ? '' : timeLeftText(((sizeBytes ?? 0) - receivedBytes) / row.speed);
  const size =
    sizeBytes === undefined ? sizeText(receivedBytes) : `${sizeText(receivedBytes)} of ${sizeText(sizeBytes)}`;
  const start = [
    '  ',
    share === undefined ? pad('?', bar) : shareBar(share, bar),
    share === undefined ? '       ' : pad(percentText(share), 7, 'left'),
    ...(wide ? [`  ${pad(size, 18)}`] : []),
    ` ${pad(`${sizeText(row.speed)}/s`, 9, 'left')}`,
    ` ${pad(left, 11, 'left')}`,
    ` ${pad(`${readers}r`, 4, 'left')}  `,
  ];
  const used = start.reduce((sum, text) => sum + textWidth(text), 0);
  const [indent = '', drawn = '', ...rest] = start;
  return [[indent], [drawn, paint.cyan], [rest.join('')], [clipMiddle(safeLine(row.uri), columns - used)]];
}

function hotPieces(row: Extract<TopRow, { kind: 'hot' }>, columns: number): Piece[] {
  const start = `  ${pad(countText(row.hits), 8, 'left')} ${pad(sizeText(row.bytes), 8, 'left')}  `;
  return [[start], [clipMiddle(safeLine(row.uri), columns - textWidth(start))]];
}

function drawOrigins({ origins }: TopReading, columns: number, most: number, paint: Painter): readonly string[] {
  // Each worker reports each origin; the worst health is shown once.
  const seen = new Map<string, TopReading['origins'][number]>();
  const worst = ['well', 'ill', 'resting'];
  for (const each of origins) {
    const id = `${each.route} ${each.url}`;
    const before = seen.get(id);
    if (before === undefined || worst.indexOf(each.health) > worst.indexOf(before.health)) seen.set(id, each);
  }
  const all = [...seen.values()].toSorted((a, b) => worst.indexOf(b.health) - worst.indexOf(a.health));
  const shown = all.slice(0, most);
  const more = all.length - shown.length;
  const title: Piece[] = [
    ['  ORIGINS', paint.bold],
    ...(more > 0
      ? [
          [
            `  ${more} more are ${all.every(({ health }) => health === 'well') ? 'well' : 'not shown'}`,
            paint.dim,
          ] as Piece,
        ]
      : []),
  ];
  const healthPaint = (health: string) =>
    health === 'well' ? paint.green : health === 'ill' ? paint.yellow : paint.red;
  return [
    joined(title, columns),
    ...shown.map(({ route, url, health, ranges }) =>
      joined(
        [
          ['  '],
          [pad(safeLine(health), 9), healthPaint(health)],
          [pad(`ranges ${safeLine(ranges)}`, 16)],
          [clipMiddle(safeLine(url), Math.max(20, columns - 50))],
          [`  ${safeLine(route)}`, paint.dim],
        ],
        columns,
      ),
    ),
  ];
}

function drawHelp(columns: number): readonly string[] {
  return [
    '  ↑ ↓  PageUp PageDown  Home End    select a row',
    '  /        show only rows whose URL contains what you type; Esc ends that',
    '  s        sort by activity, size, time or name',
    '  p        purge what is stored for the URL of the row; asks first',
    '  x        stop the fill of the row; asks first',
    '  Space    pause, and go on',
    '  q        quit',
    '',
    '  Figures are for the time since the last update. A hit was answered by a stored',
    '  response; hits of bytes are the sent bytes that no origin had to send;',
    '  amplification is bytes from origins for each byte sent. Latency: to the head.',
    '',
    '  Any key goes back.',
  ].map((line) => clip(line, columns));
}

function drawFoot({ columns, state, message }: TopScene, paint: Painter): string {
  const { mode } = state;
  if (mode.kind === 'filter') return joined([['/', paint.bold], [safeLine(state.filter)], ['█']], columns);
  if (mode.kind === 'confirm') {
    const { order } = mode;
    const question = order.kind === 'purge' ? 'Purge ' : 'Stop the fill of ';
    const end = order.kind === 'purge' ? '? y / n' : ' (its clients are disconnected)? y / n';
    const uri = clipMiddle(safeLine(order.uri), Math.max(12, columns - question.length - end.length));
    return joined(
      [
        [question, paint.bold],
        [uri, paint.yellow],
        [end, paint.bold],
      ],
      columns,
    );
  }
  if (message !== undefined)
    return joined([[safeLine(message.text), message.isFault ? paint.red : paint.green]], columns);
  return joined(
    [['q quit  / filter  s sort  ↑↓ select  p purge  x stop fill  space pause  ? help', paint.dim]],
    columns,
  );
}

/** Formats a count, or a rate: `0.3`, `12`, `1,234`, `12,345`. */
function countText(count: number): string {
  if (count > 0 && count < 10) return String(Number(count.toFixed(1)));
  return Math.round(count).toLocaleString('en-US');
}

function latencyText(ms: number): string {
  if (Number.isNaN(ms)) return '–';
  if (ms === Number.POSITIVE_INFINITY) return 'slower';
  if (ms < 10) return `${Number(ms.toFixed(1))} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${Number((ms / 1000).toFixed(1))} s`;
}

/** Returns a line that says what lines of figures cover; empty where nothing has to be said. */
export function formatTopScope({ store }: TopReading): string {
  return store.isShared === true ? `figures ${ofThisMachine}\n` : '';
}

/** Formats a reading as one line, for output that is no terminal. */
export function formatTopLine(reading: TopReading, figures: Figures): string {
  const f = figures;
  const time = new Date(reading.at).toISOString().slice(11, 19);
  return `${[
    time,
    `${countText(f.requestsPerSecond)} requests/s`,
    `hits ${percentText(f.hitRatio)} of requests ${percentText(f.byteHitRatio)} of bytes`,
    `p50 ${latencyText(f.p50)} p95 ${latencyText(f.p95)} p99 ${latencyText(f.p99)}`,
    `sent ${sizeText(f.sentPerSecond)}/s origin ${sizeText(f.fromOriginPerSecond)}/s`,
    `fills ${reading.fillCount}`,
    `failed ${countText(f.failedPerSecond)}/s`,
  ].join('  ')}\n`;
}
