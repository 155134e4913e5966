/** `rangeway top`: its figures, its keys and its screens of every size. */

import { describe, expect, it } from 'vitest';
import { createPainter, textWidth } from '../../../src/cli/terminal/style.ts';
import { FillSpeeds, figuresBetween, percentileOf, type TopReading } from '../../../src/cli/top/figures.ts';
import { firstState, pressKey, rowsOf, selectedRow, type TopState } from '../../../src/cli/top/state.ts';
import { drawTop, formatTopLine, formatTopScope, type TopScene } from '../../../src/cli/top/view.ts';
import { someReading } from '../../support/values/top-reading.ts';

const key = (text: string) => ({ name: text, text, ctrl: false });
const named = (name: string, ctrl = false) => ({ name, text: '', ctrl });
const speeds = new FillSpeeds();

describe('the figures between two readings', () => {
  const later: TopReading = {
    ...someReading,
    at: someReading.at + 2000,
    requests: { ...someReading.requests, hit: 1180, miss: 110, stale: 10, failed: 4 },
    bytes: { sent: 3_000_000, fromOrigin: 1_500_000 },
    latency: { boundsMs: [1, 10, 100], counts: [150, 50, 10, 0] },
  };

  it('are rates and shares of the differences', () => {
    expect(figuresBetween(someReading, later)).toMatchObject({
      requestsPerSecond: 102,
      failedPerSecond: 2,
      sentPerSecond: 1_000_000,
      fromOriginPerSecond: 500_000,
      hitRatio: 0.95,
      byteHitRatio: 0.5,
      amplification: 0.5,
    });
  });

  it('have no ratio where nothing happened', () => {
    const quiet = figuresBetween(someReading, { ...someReading, at: someReading.at + 1000 });
    expect(quiet).toMatchObject({
      requestsPerSecond: 0,
      hitRatio: Number.NaN,
      amplification: Number.NaN,
      p50: Number.NaN,
    });
  });

  it('begin anew with a restart, and have no negative rates', () => {
    const restarted = { ...someReading, startedAt: later.at, at: later.at + 1000 };
    expect(figuresBetween(later, restarted).sentPerSecond).toBe(1_000_000);
    expect(figuresBetween(later, { ...someReading, at: later.at + 1000 }).sentPerSecond).toBe(0);
  });

  it.each<[counts: number[], share: number, want: number]>([
    [[10, 0, 0, 0], 0.5, 0.5],
    [[50, 50, 0, 0], 0.5, 1],
    [[50, 50, 0, 0], 0.75, 5.5],
    [[1, 0, 0, 99], 0.95, Number.POSITIVE_INFINITY],
    [[0, 0, 0, 0], 0.5, Number.NaN],
  ])('the percentile of %j at %d is %d', (counts, share, want) => {
    expect(percentileOf([1, 10, 100], counts, share)).toBe(want);
  });

  it('follow the speed of a fill, and forget it when it is over', () => {
    const own = new FillSpeeds();
    const fill = { id: '1', uri: 'http://a/', receivedBytes: 1000, readers: 1, startedAt: 0 };
    own.update({ at: 1000, fills: [fill] });
    expect(own.speedOf('1')).toBe(1000);
    own.update({ at: 2000, fills: [{ ...fill, receivedBytes: 3000 }] });
    expect(own.speedOf('1')).toBe(1400);
    own.update({ at: 3000, fills: [] });
    expect(own.speedOf('1')).toBe(0);
  });
});

describe('the keys', () => {
  const rows = rowsOf(someReading, firstState, speeds);
  const press = (state: TopState, ...keys: ReturnType<typeof key>[]): TopState =>
    keys.reduce((now, each) => pressKey(now, each, rowsOf(someReading, now, speeds)).state, state);

  it('move the selection, within the list', () => {
    expect(selectedRow(rows, firstState)).toBe(rows[0]);
    expect(press(firstState, named('down')).selected).toBe(rows[1]?.id);
    expect(press(firstState, named('down'), named('up'), named('up')).selected).toBe(rows[0]?.id);
    expect(press(firstState, named('end'), named('down')).selected).toBe(rows.at(-1)?.id);
  });

  it('filter as one types, also by letters that are commands', () => {
    const filtered = press(firstState, key('/'), ...[...'qsXpx'].map(key), named('backspace'));
    expect(filtered).toMatchObject({ filter: 'qsXp', mode: { kind: 'filter' } });
    const done = press(firstState, key('/'), ...[...'FILM'].map(key), named('return'));
    expect(rowsOf(someReading, done, speeds).map(({ uri }) => uri)).toEqual(['http://media.example/film.mp4']);
    expect(press(done, named('escape')).filter).toBe('');
  });

  it('sort', () => {
    const orders = ['activity', 'size', 'time', 'name', 'activity'];
    expect(orders.map((_, at) => press(firstState, ...Array(at).fill(key('s'))).sort)).toEqual(orders);
    const byName = rowsOf(someReading, { ...firstState, sort: 'name' }, speeds).filter(({ kind }) => kind === 'hot');
    expect(byName.map(({ uri }) => uri)).toEqual(byName.map(({ uri }) => uri).toSorted());
  });

  it('purge and stop only after a yes', () => {
    const asking = press(firstState, key('p'));
    expect(asking.mode).toMatchObject({ kind: 'confirm', order: { kind: 'purge', uri: rows[0]?.uri } });
    expect(pressKey(asking, key('n'), rows)).toEqual({ state: firstState });
    expect(pressKey(asking, named('return'), rows)).toEqual({ state: firstState });
    expect(pressKey(asking, key('y'), rows)).toEqual({
      state: firstState,
      order: { kind: 'purge', uri: rows[0]?.uri },
    });
    const stopping = press(firstState, key('x'));
    expect(pressKey(stopping, key('y'), rows).order).toEqual({ kind: 'stop', id: '1.1', uri: rows[0]?.uri });
    const onHot = press(firstState, named('end'), key('x'));
    expect(onHot.mode.kind).toBe('rows');
  });

  it('quit, from everywhere', () => {
    expect(pressKey(firstState, key('q'), rows).quits).toBe(true);
    for (const kind of ['rows', 'filter', 'help'] as const) {
      expect(pressKey({ ...firstState, mode: { kind } }, named('c', true), rows).quits).toBe(true);
    }
  });
});

describe('the screen', () => {
  const sceneOf = (columns: number, rows: number, more: Partial<TopScene> = {}): TopScene => {
    const state = more.state ?? firstState;
    return {
      columns,
      rows,
      place: 'unix:/run/rangeway/admin.sock',
      reading: someReading,
      figures: figuresBetween(undefined, someReading),
      history: [1, 5, 3],
      state,
      list: rowsOf(someReading, state, speeds),
      message: undefined,
      ...more,
    };
  };
  const modes: TopState['mode'][] = [
    { kind: 'rows' },
    { kind: 'filter' },
    { kind: 'help' },
    { kind: 'confirm', order: { kind: 'purge', uri: `http://a/\u001b[2J${'x'.repeat(300)}` } },
    { kind: 'confirm', order: { kind: 'stop', id: '1', uri: 'http://a/' } },
  ];

  it.each([true, false])('fits in every size, with colours: %s', (hasColors) => {
    const sizes = [1, 20, 40, 60, 80, 99, 120, 200].flatMap((columns) =>
      [1, 8, 15, 24, 40, 60].map((rows) => ({ columns, rows })),
    );
    for (const { columns, rows } of sizes) {
      for (const mode of modes) {
        const lines = drawTop(sceneOf(columns, rows, { state: { ...firstState, mode } }), createPainter(hasColors));
        expect(lines).toHaveLength(rows);
        for (const line of lines) expect(textWidth(line), `${columns}×${rows}: ${line}`).toBeLessThanOrEqual(columns);
      }
    }
  });

  it('lets no text of a URL, an origin or a message control the terminal', () => {
    const evil = '\u001b]0;x\u0007\u001b[2J\r\n\u202e';
    const [fill] = someReading.fills;
    const reading: TopReading = {
      ...someReading,
      fills: [{ ...(fill as NonNullable<typeof fill>), uri: evil }],
      hottest: [{ uri: evil, hits: 1, bytes: 1 }],
      origins: [{ route: evil, url: evil, worker: 1, health: evil, ranges: evil }],
    };
    const state = { ...firstState, filter: evil };
    const list = rowsOf(reading, firstState, speeds);
    const lines = drawTop(sceneOf(120, 40, { reading, state, list, place: evil }), createPainter(false));
    const message = { text: evil, isFault: true };
    const foot = drawTop(sceneOf(120, 40, { message }), createPainter(false)).at(-1);
    expect([...lines, foot].join('\n')).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
  });

  it('shows what matters at 80 × 24', () => {
    const text = drawTop(sceneOf(80, 24), createPainter(false)).join('\n');
    expect(text).toContain('FILLS 2');
    expect(text).toMatch(/▓▓░░░░░░ 25\.0 %.* 2r {2}http:\/\/media\.example\/film\.mp4/);
    expect(text).toMatch(/resting +ranges yes +http:\/\/second\.example/);
    expect(text).toContain('q quit');
    // Two workers report the first origin: it is listed once.
    expect(text.match(/http:\/\/first\.example/g)).toHaveLength(1);
  });

  it('says which figures are of this machine only, where machines share the store', () => {
    const store = { ...someReading.store, diskBytes: 3_000_000, diskLimitBytes: 0, isShared: true };
    const shared = { ...someReading, store };
    const line = 'of this machine only; entries and engine are those of all machines';
    for (const [reading, isSaid] of [
      [shared, true],
      [someReading, false],
      [{ ...shared, store: { ...store, isShared: false } }, false],
    ] as const) {
      const text = drawTop(sceneOf(80, 24, { reading }), createPainter(false)).join('\n');
      expect(text.includes(`\nfigures   ${line}\n`)).toBe(isSaid);
      expect(formatTopScope(reading)).toBe(isSaid ? `figures ${line}\n` : '');
    }
    const text = drawTop(sceneOf(80, 24, { reading: shared }), createPainter(false)).join('\n');
    expect(text).toMatch(/^store .* engine 3(\.0)? MB/m);
    expect(text).not.toContain('disk');
  });

  it('has one line for output that is no terminal', () => {
    const line = formatTopLine({ ...someReading, at: 0 }, figuresBetween(undefined, someReading));
    expect(line).toMatch(/^00:00:00 {2}111 requests\/s {2}hits 90\.9 % of requests .* fills 2 {2}failed 0\/s\n$/);
  });
});
