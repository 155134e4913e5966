import { describe, expect, it } from 'vitest';
import { LineBuffer } from '../../src/cli/process-log.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';

const MiB = 1024 * 1024;
/** Longer than lines are gathered, and than the pause after a failed write. */
const laterMs = 100;

/** Creates a buffer whose target takes `room` bytes, and then fails with `code`. */
function setUp({ pieceBytes = 20, room = Number.POSITIVE_INFINITY, code = 'EAGAIN' } = {}) {
  const clock = createFakeClock();
  const writes: string[] = [];
  const state = { room, code, attempts: 0, turns: 0, sleptMs: 0, onSleep: () => {} };
  const buffer = new LineBuffer({
    pieceBytes,
    write(piece) {
      state.attempts += 1;
      if (state.room === 0) throw Object.assign(new Error(state.code), { code: state.code });
      const taken = Buffer.from(piece).subarray(0, state.room);
      state.room -= taken.length;
      writes.push(taken.toString('latin1'));
      return taken.length;
    },
    sleep(ms) {
      state.sleptMs += ms;
      state.onSleep();
    },
    after(delayMs, callback) {
      state.turns += 1;
      return clock.after(delayMs, callback);
    },
  });
  return { buffer, clock, writes, state };
}

describe('lines', () => {
  it('are written at once after a pause, and gathered when they come close together', () => {
    const { buffer, clock, writes } = setUp();
    buffer.write('one\n');
    expect(writes).toEqual(['one\n']);
    buffer.write('two\n');
    buffer.write('three\n');
    expect(writes).toHaveLength(1);
    clock.advance(laterMs);
    expect(writes).toEqual(['one\n', 'two\nthree\n']);
    clock.advance(laterMs);
    expect(clock.pending).toBe(0);
    buffer.write('four\n');
    expect(writes).toEqual(['one\n', 'two\nthree\n', 'four\n']);
  });

  it('are written by `flush`, unless the target takes none', () => {
    const { buffer, writes, state } = setUp();
    for (const line of ['one\n', 'two\n']) buffer.write(line);
    buffer.flush();
    expect(writes).toEqual(['one\n', 'two\n']);
    state.room = 0;
    for (const line of ['three\n', 'four\n']) buffer.write(line);
    buffer.flush();
    const { attempts } = state;
    buffer.flush();
    expect(state.attempts).toBe(attempts);
  });

  it('are written in pieces of whole lines, as soon as a piece is full', () => {
    const { buffer, writes } = setUp({ pieceBytes: 10 });
    for (const line of ['first\n', 'abc\n', 'äöü\n', 'x\n', `${'long'.repeat(5)}\n`, 'y\n']) buffer.write(line);
    expect(writes).toEqual(['first\n', 'abc\n', 'Ã¤Ã¶Ã¼\nx\n', `${'long'.repeat(5)}\n`]);
  });

  it.each([1, 3, 7])('are whole when the target takes %d bytes at a time', (room) => {
    const { buffer, clock, writes, state } = setUp({ room: 0 });
    const lines = ['one\n', 'ünïcödé\n', 'three\n', 'a longer line than a piece\n'];
    for (const line of lines) buffer.write(line);
    for (let step = 0; step < 60; step += 1) {
      state.room = room;
      clock.advance(laterMs);
    }
    expect(Buffer.from(writes.join(''), 'latin1').toString()).toBe(lines.join(''));
  });
});

describe('a target that takes nothing', () => {
  it.each(['EAGAIN', 'EPIPE', 'ENOSPC', 'EIO'])('(%s) loses no line within the bound, and is tried again', (code) => {
    const { buffer, clock, writes, state } = setUp({ room: 0, code });
    buffer.write('one\n');
    buffer.write('two\n');
    clock.advance(laterMs);
    const { attempts } = state;
    for (let count = 0; count < 100; count += 1) buffer.write('another line\n');
    expect(state.attempts).toBe(attempts);
    clock.advance(10_000);
    expect(state.attempts).toBeGreaterThan(attempts + 90);
    expect(state.attempts).toBeLessThan(attempts + 110);
    state.room = Number.POSITIVE_INFINITY;
    clock.advance(laterMs);
    expect(writes.join('')).toBe(`one\ntwo\n${'another line\n'.repeat(100)}`);
    expect(buffer.droppedLines).toBe(0);
  });

  it('has lines beyond the bound dropped, and the gap reported in their place', () => {
    const { buffer, clock, writes, state } = setUp({ pieceBytes: 4096, room: 0 });
    buffer.onGap((lines) => buffer.write(`gap of ${lines}\n`));
    const line = `${'x'.repeat(1023)}\n`;
    for (let count = 0; count < 8 * 1024; count += 1) buffer.write(line);
    expect(buffer.droppedLines).toBe(0);
    for (let count = 0; count < 5; count += 1) buffer.write(line);
    expect(buffer.droppedLines).toBe(5);
    // Room for some lines does not end the gap. Otherwise there would be many gaps.
    state.room = MiB;
    clock.advance(laterMs);
    buffer.write('dropped\n');
    expect(buffer.droppedLines).toBe(6);
    state.room = 4 * MiB;
    clock.advance(laterMs);
    buffer.write('after\n');
    state.room = Number.POSITIVE_INFINITY;
    clock.advance(laterMs);
    expect(writes.join('') === `${line.repeat(8 * 1024)}gap of 6\nafter\n`).toBe(true);
    expect(buffer.droppedLines).toBe(6);
  });

  it('gets the waiting lines later, in several turns of the event loop', () => {
    const { buffer, clock, writes, state } = setUp({ pieceBytes: 4096, room: 0 });
    for (let count = 0; count < 1024; count += 1) buffer.write(`${'x'.repeat(1023)}\n`);
    state.room = Number.POSITIVE_INFINITY;
    const before = state.turns;
    clock.advance(laterMs);
    expect(writes.join('')).toHaveLength(MiB);
    expect(state.turns - before).toBeGreaterThan(3);
  });
});

describe('the end of the process', () => {
  it('writes all lines, and any later line at once', () => {
    const { buffer, writes } = setUp();
    for (const line of ['one\n', 'two\n', 'three\n']) buffer.write(line);
    buffer.finish();
    buffer.write('four\n');
    expect(writes).toEqual(['one\n', 'two\nthree\n', 'four\n']);
  });

  it('waits for a slow reader', () => {
    const { buffer, writes, state } = setUp({ room: 2 });
    state.onSleep = () => {
      state.room = 2;
    };
    for (const line of ['one\n', 'two\n', 'three\n']) buffer.write(line);
    buffer.finish();
    expect(writes.join('')).toBe('one\ntwo\nthree\n');
  });

  it.each<[code: string, sleptMs: number]>([
    ['EAGAIN', 1000],
    ['EPIPE', 0],
    ['ENOSPC', 0],
  ])('gives up after %s and %d ms', (code, sleptMs) => {
    const { buffer, state } = setUp({ room: 0, code });
    buffer.write('one\n');
    buffer.finish();
    expect(state.sleptMs).toBe(sleptMs);
  });
});
