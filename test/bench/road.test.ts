/** How long the roads of requests are, in files and functions of src. `npm run road` prints them. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Protocol, Road } from '../../bench/road/walk.ts';

const program = fileURLToPath(new URL('../../bench/road.ts', import.meta.url));

/**
 * The most that a request may call. The limits are what is true today, for misses with a little more, as the disk does not always
 * take as many steps; they are lowered as roads get shorter. The goals: a hit, a range and a 304 in 16 files and 40 functions, a miss in 50 files,
 * a range miss in 70.
 */
const limits: readonly (readonly [protocol: Protocol, name: string, files: number, functions: number])[] = [
  ['http1', 'hit', 85, 270],
  ['http1', 'range-hit', 87, 277],
  ['http1', 'not-modified', 78, 253],
  ['http1', 'miss', 193, 845],
  ['http1', 'range-miss', 203, 925],
  ['http2', 'hit', 78, 239],
  ['http2', 'range-hit', 80, 246],
  ['http2', 'not-modified', 73, 229],
  ['http2', 'miss', 190, 825],
  ['http2', 'range-miss', 200, 890],
];

let roads: readonly Road[];

// In a process of its own: nothing else calls functions of src there.
beforeAll(async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--counts', '--json']);
  roads = JSON.parse(stdout) as readonly Road[];
});

describe('the road of', () => {
  it.each(limits)('%s %s', (protocol, name, files, functions) => {
    const road = roads.find((each) => each.protocol === protocol && each.name === name);
    expect(road?.files).toBeGreaterThan(0);
    expect(road?.files).toBeLessThanOrEqual(files);
    expect(road?.functions).toBeLessThanOrEqual(functions);
  });

  it('every request is walked', () => {
    expect(roads.map(({ protocol, name }) => [protocol, name])).toEqual(
      limits.map(([protocol, name]) => [protocol, name]),
    );
  });
});
