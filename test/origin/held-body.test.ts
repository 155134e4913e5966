/** When a request's body is closed that several attempts use one after the other. */

import { describe, expect, it } from 'vitest';
import type { BodyStream } from '../../src/http/message.ts';
import { ReusableBody } from '../../src/origin/group/resend.ts';

const read = (body: BodyStream) => void body[Symbol.asyncIterator]();
const close = (body: BodyStream) => body.close();
const answered = (body: ReusableBody) => body.release(false);
const failed = (body: ReusableBody) => body.release(true);

it.each<[name: string, steps: readonly ((body: ReusableBody) => void)[], isClosed: boolean]>([
  ['an attempt that fails before it reads', [close], false],
  ['an attempt that fails when it has read', [read, close], true],
  ['a first attempt, and a second one that is answered while it still reads', [close, read, answered], false],
  ['a second attempt that ends after its answer', [close, read, answered, close], true],
  ['an answer to an attempt that has closed it', [close, answered], true],
  ['an answer to an attempt that has yet to read it', [answered], false],
  ['the last attempt, which has failed', [close, failed], true],
])('a body is kept or closed after %s: %#', (_name, steps, isClosed) => {
  let closes = 0;
  const body = new ReusableBody({
    async *[Symbol.asyncIterator]() {},
    close: () => {
      closes += 1;
    },
  });
  for (const step of steps) step(body);
  expect(closes > 0).toBe(isClosed);
});

describe('waiting for the first bytes of a body', () => {
  const lend = (...chunks: (string | Error)[]) =>
    new ReusableBody({
      async *[Symbol.asyncIterator]() {
        for (const chunk of chunks) {
          if (chunk instanceof Error) throw chunk;
          yield Buffer.from(chunk);
        }
      },
      close() {},
    });

  it('does not touch the body, so that another attempt may send it', async () => {
    const body = lend('a', 'b');
    await Promise.all([body.begun(), body.begun()]);
    await body.begun();
    expect(body.isTouched).toBe(false);
    const read: string[] = [];
    for await (const chunk of body) read.push(Buffer.from(chunk).toString());
    expect([read, body.isTouched]).toEqual([['a', 'b'], true]);
  });

  it('may find its end', async () => {
    const body = lend();
    await body.begun();
    expect(await body.next()).toEqual({ done: true, value: undefined });
  });

  it('may find the error that it breaks off with', async () => {
    const body = lend(new Error('broken'));
    await expect(body.begun()).rejects.toThrow('broken');
    await expect(body.next()).rejects.toThrow('broken');
  });
});
