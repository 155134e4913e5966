/** The order of pipelined exchanges: which of them may write, and when no more are begun. */

import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { Pipeline, type RunningExchange } from '../../../src/listener/http1/connection.ts';

type Quality = 'isLast' | 'isWritten';

/** Runs exchanges with these qualities. Returns the indexes of those that are given their turn. */
function turns(all: readonly (readonly Quality[])[], socket: Partial<Socket> = {}): number[] {
  const indexes: number[] = [];
  const pipeline = new Pipeline({ writableNeedDrain: false, ...socket } as Socket);
  for (const [at, qualities] of all.entries()) {
    pipeline.add({
      isLast: qualities.includes('isLast'),
      isWritten: qualities.includes('isWritten'),
      takeTurn: () => indexes.push(at),
    } as unknown as RunningExchange);
  }
  pipeline.passTurn();
  return indexes;
}

describe('the turn', () => {
  it.each<[string, readonly (readonly Quality[])[], readonly number[]]>([
    ['is not given without exchanges', [], []],
    ['is given to the first exchange', [[], []], [0]],
    ['is given to the next exchange where the first was written', [['isWritten'], [], []], [1]],
    ['is not given where all were written', [['isWritten'], ['isWritten']], []],
    ['is given to the last exchange', [['isLast'], []], [0]],
    ['is not given after the last exchange', [['isLast', 'isWritten'], []], []],
  ])('%s', (_name, all, indexes) => {
    expect(turns(all)).toEqual(indexes);
  });

  it('is not given while the socket takes no more', () => {
    expect(turns([['isWritten'], []], { writableNeedDrain: true })).toEqual([]);
  });
});

describe('a pipeline', () => {
  const kibibyte = 1024;

  it.each<[string, number, readonly number[], boolean]>([
    ['without an exchange is never full', 100 * kibibyte, [], false],
    ['with few unsent bytes is not full', 10 * kibibyte, [0, 10 * kibibyte], false],
    ['is full by the bytes in the socket', 64 * kibibyte, [0], true],
    ['is full by the bytes that wait for their turn', 0, [0, 32 * kibibyte, 32 * kibibyte], true],
    ['is full by both', 32 * kibibyte, [0, 32 * kibibyte], true],
  ])('%s', (_name, writableLength, waiting, isFull) => {
    const pipeline = new Pipeline({ writableLength } as Socket);
    for (const waitingBytes of waiting) pipeline.add({ waitingBytes } as RunningExchange);
    expect(pipeline.isFull).toBe(isFull);
  });
});
