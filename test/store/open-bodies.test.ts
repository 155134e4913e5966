/** Which body files stay open while they are idle. */

import { describe, expect, it } from 'vitest';
import type { BlockFile } from '../../src/store/disk/bodies/block-file.ts';
import { BackgroundTasks, OpenBodies } from '../../src/store/disk/bodies/open-bodies.ts';

/** Creates files named by one character, three of which may stay open idle; `closed` has the closed ones. */
function openBodies() {
  const closed: string[] = [];
  const open = async (generation: string) =>
    ({ generation, isLong: true, close: async () => void closed.push(generation) }) as unknown as BlockFile;
  const idle = { maxCount: 3, after: () => () => {}, idleMs: 1000 };
  const bodies = new OpenBodies({ open, background: new BackgroundTasks(), idle });
  return { bodies, closed };
}

describe('of too many idle files, the one is closed', () => {
  it.each<[name: string, steps: string, closed: string]>([
    ['that was read first', 'read a, read b, read c, read d', 'a'],
    ['that was not read again', 'read a, read b, read c, read a, read d', 'b'],
    ['that was not used meanwhile', 'read a, read b, read c, use a, read d', 'b'],
    ['that was read first, where all were used meanwhile', 'read a, read b, read c, use a, use b, use c, read d', 'a'],
    ['that was not used, then the next unused one', 'read a, read b, read c, use a, read d, read e', 'b, c'],
    [
      'that was not used since it was spared',
      'read a, read b, read c, use a, read d, read e, read f, read g',
      'b, c, d, a',
    ],
  ])('%s', async (_name, steps, expected) => {
    const { bodies, closed } = openBodies();
    for (const [what, generation = ''] of steps.split(', ').map((step) => step.split(' '))) {
      if (what === 'use') expect(bodies.peek(generation)).toMatchObject({ generation });
      else await bodies.acquire(generation, 1).then(() => bodies.release(generation));
    }
    await Promise.resolve();
    expect(closed.join(', ')).toBe(expected);
  });
});

it('a file that is read is not idle', async () => {
  const { bodies, closed } = openBodies();
  for (const generation of 'abcd') await bodies.acquire(generation, 1);
  for (const generation of 'bcd') bodies.release(generation);
  expect(closed).toEqual([]);
  expect(bodies.peek('a')).toMatchObject({ generation: 'a' });
});
