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
  ['an attempt that fails when it has read no more than is kept', [read, close], false],
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

async function readAll(body: BodyStream): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

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

describe('the next attempt', () => {
  const kept = 64 * 1024;

  it('gets what earlier ones have read, and then the rest', async () => {
    const body = lend('a', 'b', 'c');
    const first = body[Symbol.asyncIterator]();
    await first.next();
    const second = body[Symbol.asyncIterator]();
    // The first attempt still waits for a step, which the second one gets, too.
    await Promise.all([second.next(), second.next()]);
    expect(await first.next()).toEqual({ done: true, value: undefined });
    await first.return?.();
    expect(body.isKept).toBe(true);
    expect(await readAll(body)).toBe('abc');
    expect(await readAll(body)).toBe('abc');
  });

  it('gets nothing where more was read than is kept', async () => {
    const body = lend('a'.repeat(kept), 'b', 'c');
    const first = body[Symbol.asyncIterator]();
    await first.next();
    expect(body.isKept).toBe(true);
    await first.next();
    expect(body.isKept).toBe(false);
    expect(Buffer.from((await first.next()).value as Uint8Array).toString()).toBe('c');
  });

  it('is no longer possible once a response has begun, and the rest is read all the same', async () => {
    const body = lend('a', 'b', 'c');
    await body.begun();
    body.release(false);
    expect(await readAll(body)).toBe('abc');
  });
});

describe('waiting for the first bytes of a body', () => {
  it('does not touch the body, so that another attempt may send it', async () => {
    const body = lend('a', 'b');
    await Promise.all([body.begun(), body.begun()]);
    await body.begun();
    expect(await readAll(body)).toBe('ab');
  });

  it('may find its end', async () => {
    const body = lend();
    await body.begun();
    expect(await readAll(body)).toBe('');
  });

  it('may find the error that it breaks off with', async () => {
    const body = lend(new Error('broken'));
    await expect(body.begun()).rejects.toThrow('broken');
    await expect(readAll(body)).rejects.toThrow('broken');
  });
});
