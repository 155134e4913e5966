/** Who may give up a body that one attempt after the other borrows. */

import { expect, it } from 'vitest';
import type { BodyStream } from '../../src/http/message.ts';
import { LentBody } from '../../src/origin/held-body.ts';

const read = (body: BodyStream) => void body[Symbol.asyncIterator]();
const close = (body: BodyStream) => body.close();
const answered = (body: LentBody) => body.release(false);
const failed = (body: LentBody) => body.release(true);

it.each<[name: string, steps: readonly ((body: LentBody) => void)[], isClosed: boolean]>([
  ['an attempt that fails before it reads', [close], false],
  ['an attempt that fails when it has read', [read, close], true],
  ['a first attempt, and a second one that is answered while it still reads', [close, read, answered], false],
  ['a second attempt that ends after its answer', [close, read, answered, close], true],
  ['an answer to an attempt that does not want it', [close, answered], true],
  ['an answer to an attempt that has yet to read it', [answered], false],
  ['the last attempt, which has failed', [close, failed], true],
])('a body is given up by %s: %#', (_name, steps, isClosed) => {
  let closes = 0;
  const body = new LentBody({
    async *[Symbol.asyncIterator]() {},
    close: () => {
      closes += 1;
    },
  });
  for (const step of steps) step(body);
  expect(closes > 0).toBe(isClosed);
});
