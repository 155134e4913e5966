/** Limits on the files and functions of src that one request executes. `npm run road` prints them. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Protocol, Road } from '../../bench/road/walk.ts';

const program = fileURLToPath(new URL('../../bench/road.ts', import.meta.url));

/**
 * Upper limits for one request, its event and its log line included. The limits of hits are exact. The others have some slack: the
 * disk does not always take the same steps, and work besides the request may fall into a 304. Limits are lowered when a request takes fewer functions. The goals: a hit in 16 files
 * and 40 functions, a miss of a small body in 50 files, a range miss in 70.
 */
const limits: readonly (readonly [protocol: Protocol, name: string, files: number, functions: number])[] = [
  ['http1', 'hit', 15, 54],
  ['http1', 'range-hit', 20, 69],
  ['http1', 'not-modified', 22, 68],
  ['http1', 'miss', 92, 670],
  ['http1', 'range-miss', 107, 920],
  ['http2', 'hit', 16, 77],
  ['http2', 'range-hit', 21, 93],
  ['http2', 'not-modified', 23, 92],
  ['http2', 'miss', 92, 645],
  ['http2', 'range-miss', 107, 900],
];

let roads: readonly Road[];

// In a separate process, where nothing else calls functions of src.
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
