import { describe, expect, it } from 'vitest';
import { type EngineFacts, judgeEngine } from '../../../src/cli/doctor/engine.ts';
import { linesOf } from '../../support/values/examined-config.ts';

const place = '127.0.0.1:6379, database 0';
type Answering = Extract<EngineFacts['state'], { kind: 'answers' }>;

const good: Answering = {
  kind: 'answers',
  product: 'Valkey 8.1.1',
  version: [8, 1],
  roundTripMs: 0.2,
  nodes: [{ maxBytes: 4e9, policy: 'allkeys-lru' }],
  writeFault: undefined,
};

function judged(change: Partial<Answering>): string[] {
  return linesOf(judgeEngine({ place, state: { ...good, ...change } }));
}

describe('judgeEngine', () => {
  it('a good engine', () => {
    expect(judged({})).toEqual([
      `ok store [${place}] Valkey 8.1.1 answers within 1 ms and takes writes`,
      `ok space [${place}] the engine keeps up to 4 GB, and evicts by allkeys-lru`,
    ]);
  });

  it('an engine that does not answer', () => {
    const lines = linesOf(judgeEngine({ place, state: { kind: 'away', reason: 'connect ECONNREFUSED' } }));
    expect(lines).toEqual([expect.stringMatching(/^problem store .* no engine answers: connect ECONNREFUSED;/)]);
  });

  const complaints: readonly [string, Partial<Answering>, RegExp][] = [
    ['an old engine', { product: 'Redis 5.0.14', version: [5, 0] }, /^problem store .*Redis 5\.0\.14 is too old/],
    ['a replica', { writeFault: 'READONLY' }, /^problem store .*takes no writes: READONLY/],
    ['an engine that is far away', { roundTripMs: 30 }, /^warning store .*answers after 30 ms/],
    ['an engine without a bound', { nodes: [{ maxBytes: 0, policy: 'noeviction' }] }, /^warning space .*no maxmemory/],
    [
      'an engine that evicts nothing',
      { nodes: [{ maxBytes: 1e9, policy: 'noeviction' }] },
      /^warning space .*noeviction/,
    ],
    [
      'one of three that evicts at random',
      {
        nodes: [...good.nodes, ...good.nodes, { maxBytes: 1e9, policy: 'volatile-random' }],
      },
      /^warning space .*at random/,
    ],
  ];
  it.each(complaints)('%s', (_, change, want) => {
    expect(judged(change).filter((line) => !line.startsWith('ok '))).toEqual([expect.stringMatching(want)]);
  });
});
