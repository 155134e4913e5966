/** Exchanges in their order: whose turn it is to write, and when no more of them are begun. */

import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { Pipeline, type RunningExchange } from '../../../src/listener/http1/connection.ts';

type Quality = 'isLast' | 'isWritten';

/** Runs exchanges with these qualities, and tells which of them are given their turn. */
function turns(all: readonly (readonly Quality[])[], socket: Partial<Socket> = {}): number[] {
  const given: number[] = [];
  const pipeline = new Pipeline({ writableNeedDrain: false, ...socket } as Socket);
  for (const [at, qualities] of all.entries()) {
    pipeline.add({
      isLast: qualities.includes('isLast'),
      isWritten: qualities.includes('isWritten'),
      takeTurn: () => given.push(at),
    } as unknown as RunningExchange);
  }
  pipeline.passTurn();
  return given;
}

describe('the turn', () => {
  it.each<[string, readonly (readonly Quality[])[], readonly number[]]>([
    ['is nobody', [], []],
    ['is that of the first one', [[], []], [0]],
    ['is that of the next one where the first one was written', [['isWritten'], [], []], [1]],
    ['is nobody where all were written', [['isWritten'], ['isWritten']], []],
    ['is that of the last one', [['isLast'], []], [0]],
    ['is nobody after the last one', [['isLast', 'isWritten'], []], []],
  ])('%s', (_name, all, given) => {
    expect(turns(all)).toEqual(given);
  });

  it('is nobody where the socket takes no more: not even a response that waits as a whole is given to it', () => {
    expect(turns([['isWritten'], []], { writableNeedDrain: true })).toEqual([]);
  });
});

describe('a pipeline', () => {
  const kibibyte = 1024;

  it.each<[string, number, readonly number[], boolean]>([
    ['without an exchange is never full', 100 * kibibyte, [], false],
    ['with little to take is not full', 10 * kibibyte, [0, 10 * kibibyte], false],
    ['is full by what the socket has', 64 * kibibyte, [0], true],
    ['is full by what waits for its turn', 0, [0, 32 * kibibyte, 32 * kibibyte], true],
    ['is full by both', 32 * kibibyte, [0, 32 * kibibyte], true],
  ])('%s', (_name, writableLength, waiting, isFull) => {
    const pipeline = new Pipeline({ writableLength } as Socket);
    for (const waitingBytes of waiting) pipeline.add({ waitingBytes } as RunningExchange);
    expect(pipeline.isFull).toBe(isFull);
  });
});
