/** The pace and the notes of `rangeway warm`. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Pacer, parseRate } from '../../../src/cli/warm/pace.ts';
import { openNotes } from '../../../src/cli/warm/resume.ts';
import { formatProgress } from '../../../src/cli/warm/warm.ts';

/** A clock that only waiting moves. */
function createClock() {
  let now = 0;
  return {
    now: () => now,
    wait: async (ms: number) => {
      now += ms;
    },
  };
}

describe('the pace', () => {
  const { signal } = new AbortController();

  it('spaces requests', async () => {
    const clock = createClock();
    const pacer = new Pacer({ requestsPerSecond: 20 }, clock);
    const times: number[] = [];
    for (let turn = 0; turn < 4; turn += 1) {
      await pacer.turn(signal);
      times.push(clock.now());
    }
    expect(times).toEqual([0, 50, 100, 150]);
  });

  it('waits until bytes are paid for', async () => {
    const clock = createClock();
    const pacer = new Pacer({ bytesPerSecond: 1000 }, clock);
    await pacer.turn(signal);
    pacer.charge(500);
    pacer.charge(2500);
    await pacer.turn(signal);
    expect(clock.now()).toBe(3000);
  });

  it('does not wait without limits', async () => {
    const clock = createClock();
    const pacer = new Pacer({}, clock);
    pacer.charge(1e9);
    await pacer.turn(signal);
    expect(clock.now()).toBe(0);
  });

  it.each<[text: string, want: number | undefined]>([
    ['20', 20],
    ['20/s', 20],
    ['0.5/s', 0.5],
    ['120/min', 2],
    ['3600/h', 1],
    ['0', undefined],
    ['-1', undefined],
    ['20/d', undefined],
    ['', undefined],
  ])('%s is %s', (text, want) => expect(parseRate(text)).toBe(want));
});

describe('the notes', () => {
  it('know what is done, also after a cut line, and go when all is done', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-notes-'));
    try {
      const file = join(dir, 'notes');
      const first = openNotes(file);
      first.note({ url: 'http://a/1' });
      first.note({ url: 'http://a/2', range: 'bytes=0-1' });
      first.close(false);
      await writeFile(file, `${await readFile(file, 'utf8')}"http://a/cut`);
      const second = openNotes(file);
      second.note({ url: 'http://a/3' });
      second.close(false);
      const third = openNotes(file);
      const isDone = [
        { url: 'http://a/1' },
        { url: 'http://a/2' },
        { url: 'http://a/2', range: 'bytes=0-1' },
        { url: 'http://a/cut' },
        { url: 'http://a/3' },
      ].map((target) => third.isDone(target));
      expect(isDone).toEqual([true, false, true, false, true]);
      third.close(true);
      await expect(readFile(file)).rejects.toThrow('ENOENT');
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });

  it('leave other files alone', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-notes-'));
    try {
      const file = join(dir, 'urls.txt');
      await writeFile(file, 'http://a/\n');
      expect(() => openNotes(file)).toThrow('has no notes of "rangeway warm": name another file');
      expect(await readFile(file, 'utf8')).toBe('http://a/\n');
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });
});

describe('the line of progress', () => {
  const tally = { done: 25, failed: 0, skipped: 0, bytes: 5_000_000, total: 100 };
  it.each<[want: string, given: Partial<typeof tally> | { total: undefined }, seconds: number]>([
    ['▓▓▓▓▓░░░░░░░░░░░░░░░ 25.0 %  25 of 100  5 MB  1 MB/s  15 s left', {}, 5],
    [
      '▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░ 50.0 %  50 of 100  5 MB  500 KB/s  20 s left  1 failed',
      { done: 24, failed: 1, skipped: 25 },
      10,
    ],
    ['▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ 100 %  100 of 100  5 MB  1 MB/s', { done: 100 }, 5],
    ['25 URLs  5 MB  1 MB/s', { total: undefined }, 5],
  ])('%s', (want, given, seconds) => expect(formatProgress({ ...tally, ...given }, seconds)).toBe(want));
});
