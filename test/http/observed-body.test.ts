/** The observers of a body: what they are told in which order, and how they end it. */

import { describe, expect, it } from 'vitest';
import type { BodyStream, NextChunk } from '../../src/http/message.ts';
import { type BodyObserver, ObservedBody } from '../../src/http/observed-body.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { ReceivedBody } from '../../src/origin/exchange.ts';

const flow = { pause: () => {}, resume: () => {}, abort: () => {} };

/** Returns a received body with chunks of these sizes. */
function bodyOf(...sizes: readonly number[]): ReceivedBody {
  const body = new ReceivedBody(undefined, flow);
  for (const size of sizes) body.push(new Uint8Array(size));
  return body;
}

/** Returns an observer that writes down what it is told. */
function createWitness(name: string, log: string[]): BodyObserver {
  return {
    beforeRead() {
      log.push(`${name} before`);
      return undefined;
    },
    onChunk({ length }) {
      log.push(`${name} ${length}`);
      return undefined;
    },
    onEnd(isWhole, thrown) {
      log.push(`${name} ${isWhole ? 'whole' : thrown === undefined ? 'closed' : String((thrown as ProxyError).code)}`);
    },
  };
}

async function readAll(body: BodyStream): Promise<number[]> {
  const sizes: number[] = [];
  for await (const { length } of body) sizes.push(length);
  return sizes;
}

describe('observers of one body', () => {
  it.each(['taken', 'awaited'])('share one wrapper, and hear of each chunk in order where it is %s', async (way) => {
    const log: string[] = [];
    const source = bodyOf(3, 5);
    source.end();
    const body = ObservedBody.of(source, createWitness('a', log));
    expect(ObservedBody.of(body, createWitness('b', log))).toBe(body);
    if (way === 'awaited') expect(await readAll(body)).toEqual([3, 5]);
    else expect([body.take(), body.take(), body.take()].map((taken) => taken.length)).toEqual([3, 5, 'end'.length]);
    const read = (size: number) => ['a before', 'b before', `a ${size}`, `b ${size}`];
    expect(log).toEqual([...read(3), ...read(5), 'a before', 'b before', 'a whole', 'b whole']);
    expect(body.readBytes).toBe(8);
  });

  it('hear of its failure, and of nothing after it', async () => {
    const log: string[] = [];
    const source = bodyOf(3);
    source.fail(new ProxyError('origin_reset'));
    const body = ObservedBody.of(source, createWitness('a', log));
    await expect(readAll(body)).rejects.toMatchObject({ code: 'origin_reset' });
    body.close();
    expect(log).toEqual(['a before', 'a 3', 'a before', 'a origin_reset']);
  });

  it('hear once that it was closed', () => {
    const log: string[] = [];
    const body = ObservedBody.of(bodyOf(3), createWitness('a', log));
    body.close();
    body.close();
    expect(log).toEqual(['a closed']);
  });
});

describe('an error of an observer', () => {
  const refusal = new ProxyError('body_too_large');

  it.each(['beforeRead', 'onChunk'] as const)('from %s ends the body, which is closed', async (hook) => {
    const log: string[] = [];
    const source = bodyOf(3);
    const body = ObservedBody.of(source, createWitness('a', log));
    ObservedBody.of(body, { [hook]: () => refusal });
    expect(body.take()).toBe('later');
    await expect(body.next()).rejects.toBe(refusal);
    expect(log.at(-1)).toBe('a closed');
    await expect(source.next()).rejects.toMatchObject({ code: 'client_gone' });
  });

  it('is thrown in place of an awaited chunk', async () => {
    const body = ObservedBody.of(bodyOf(3), { onChunk: () => refusal });
    await expect(readAll(body)).rejects.toBe(refusal);
  });
});

describe('an observed body', () => {
  it('has the trailers of its body, as its observers change them', () => {
    const source = bodyOf();
    source.end([
      ['a', '1'],
      ['b', '2'],
    ]);
    const body = ObservedBody.of(source, { changeTrailers: (fields) => fields.filter(([name]) => name !== 'a') });
    expect(body.trailers?.()).toEqual([['b', '2']]);
  });

  it('passes on how many bytes are wanted, and memory that is given back', () => {
    const seen: unknown[] = [];
    const take = (wantedBytes?: number): NextChunk => {
      seen.push(wantedBytes);
      return 'end';
    };
    const giveBack = (chunk: Uint8Array) => void seen.push(chunk.length);
    const body = ObservedBody.of({
      ...bodyOf(),
      close: () => {},
      [Symbol.asyncIterator]: () => bodyOf(),
      take,
      giveBack,
    });
    body.take(7);
    body.giveBack?.(new Uint8Array(4));
    expect(seen).toEqual([7, 4]);
  });
});
