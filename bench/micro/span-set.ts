/** Sets of blocks and bytes. */

import { SpanSet } from '../../src/bytes/span.ts';
import type { MicroCase } from '../micro-case.ts';

/** The blocks that a player leaves behind after 64 seeks: runs with gaps between them. */
const runs = Array.from({ length: 64 }, (_, index) => ({ start: index * 1000, end: index * 1000 + 600 }));
const scattered = new SpanSet(runs);
const growing = new SpanSet();

export const cases: readonly MicroCase[] = [
  { name: 'hasAll, of 64 runs', call: (turn) => scattered.hasAll({ start: turn & 32_767, end: (turn & 32_767) + 9 }) },
  {
    name: 'firstMissing, of 64 runs',
    call: (turn) => scattered.firstMissing({ start: turn & 32_767, end: (turn & 32_767) + 1000 }) ?? 'none',
  },
  {
    name: 'add, at the end of one run',
    call(turn) {
      growing.add({ start: turn, end: turn + 1 });
      return growing.size;
    },
  },
  { name: 'a set of 64 runs', call: () => new SpanSet(runs) },
];
