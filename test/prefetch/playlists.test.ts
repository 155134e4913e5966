/** What is known of playlists: the next segments of a request, the newest version, and the limits. */

import { describe, expect, it } from 'vitest';
import { KnownPlaylists, type ListedSegment, type SegmentRequest } from '../../src/prefetch/playlists.ts';

const limits = { playlists: 3, characters: 1_000_000 };

const whole = (...names: string[]): ListedSegment[] => names.map((name) => ({ key: name, target: `/${name}` }));
const span = (key: string, start: number, end: number): ListedSegment => ({
  key,
  target: `/${key}`,
  span: { start, end },
});

function learnt(...streams: ListedSegment[][]): KnownPlaylists {
  const playlists = new KnownPlaylists(limits);
  playlists.learn('list', 'g1', streams);
  return playlists;
}

const asked = (key: string, start?: number, end?: number, sizeBytes?: number): SegmentRequest => ({
  key,
  range: start === undefined ? undefined : { start, end },
  sizeBytes,
});

/** The start of the requested segment, and the next ones as short texts. */
function play(playlists: KnownPlaylists, request: SegmentRequest, count = 2) {
  const playing = playlists.find(request, count);
  const next = playing?.next.map(({ key, span: part }) =>
    part === undefined ? key : `${key} ${part.start}-${part.end}`,
  );
  return playing && [playing.start, ...(next ?? [])];
}

describe('the next segments', () => {
  const list = [span('f', 0, 10), span('f', 10, 20), span('f', 20, 30), span('f', 40, 50)];
  const indexed: ListedSegment[] = [span('f', 0, 10), { key: 'f', target: '/f', isIndexed: true }];
  it.each<[what: string, streams: ListedSegment[][], request: SegmentRequest, want: (number | string)[] | undefined]>([
    ['after a segment', [whole('a', 'b', 'c', 'd')], asked('a'), [0, 'b', 'c']],
    ['after a part of it', [whole('a', 'b', 'c')], asked('a', 100, 200), [0, 'b', 'c']],
    ['near the end', [whole('a', 'b', 'c')], asked('b'), [0, 'c']],
    ['after the last one', [whole('a', 'b')], asked('b'), [0]],
    ['of another stream', [whole('a', 'b'), whole('x', 'y')], asked('x'), [0, 'y']],
    ['of a resource that is not listed', [whole('a', 'b')], asked('z'), undefined],
    ['after the first of equal ones', [whole('a', 'b', 'a', 'c')], asked('a'), [0, 'b', 'a']],
    ['after a span', [list], asked('f', 10, 20), [10, 'f 20-30', 'f 40-50']],
    ['after a place within a span', [list], asked('f', 15), [10, 'f 20-30', 'f 40-50']],
    ['after a place between spans', [list], asked('f', 35, 40), undefined],
    ['after a place behind all spans', [list], asked('f', 50, 60), undefined],
    [
      'after spans that are not in their order',
      [[list[2], list[0], list[1]] as ListedSegment[]],
      asked('f', 0, 10),
      [0, 'f 10-20'],
    ],
    ['of a file that is asked for as a whole', [list], asked('f'), undefined],
    ['of a file with an index', [indexed], asked('f', 100, 150), [100, 'f 150-250']],
    ['of a file with an index, near its end', [indexed], asked('f', 100, 150, 170), [100, 'f 150-170']],
    ['of a file with an index, at its end', [indexed], asked('f', 100, 150, 150), [100]],
    ['of a file with an index, without an end', [indexed], asked('f', 100), undefined],
  ])('%s', (_, streams, request, want) => {
    expect(play(learnt(...streams), request)).toEqual(want);
  });
});

describe('a playlist', () => {
  it('has the segments of its newest version', () => {
    const playlists = learnt(whole('a', 'b', 'c'));
    playlists.learn('list', 'g2', [whole('c', 'd', 'e')]);
    expect(play(playlists, asked('a'))).toBeUndefined();
    expect(play(playlists, asked('c'))).toEqual([0, 'd', 'e']);
    expect([playlists.knows('list', 'g1'), playlists.knows('list', 'g2'), playlists.knows('list', 'g3')]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('stays at rest when a new version comes', () => {
    const playlists = learnt(whole('a', 'b'));
    const first = playlists.find(asked('a'), 1);
    if (first !== undefined) first.playlist.restsUntil = 7;
    playlists.learn('list', 'g2', [whole('a', 'b')]);
    expect(playlists.find(asked('a'), 1)?.playlist.restsUntil).toBe(7);
  });

  it('shares segments with another one: the last that was read counts, and goes alone', () => {
    const playlists = learnt(whole('a', 'b'));
    playlists.learn('other', 'g1', [whole('a', 'x')]);
    expect(play(playlists, asked('a'))).toEqual([0, 'x']);
    expect(play(playlists, asked('b'))).toEqual([0]);
    playlists.learn('list', 'g2', []);
    expect(play(playlists, asked('a'))).toEqual([0, 'x']);
    expect(playlists.size).toEqual({ playlists: 2, resources: 2 });
  });
});

describe('the limits', () => {
  it('keep the playlists that were used last, by their segments too', () => {
    const playlists = new KnownPlaylists(limits);
    for (const name of ['a', 'b', 'c']) playlists.learn(name, 'g', [whole(`${name}1`, `${name}2`)]);
    playlists.find(asked('a1'), 1);
    playlists.learn('d', 'g', [whole('d1')]);
    expect(['a1', 'b1', 'c1', 'd1'].map((key) => playlists.find(asked(key), 1) !== undefined)).toEqual([
      true,
      false,
      true,
      true,
    ]);
    expect(playlists.size).toEqual({ playlists: 3, resources: 5 });
  });

  it('keep few segments of many playlists', () => {
    const playlists = new KnownPlaylists({ playlists: 1000, characters: 100_000 });
    for (let at = 0; at < 1000; at += 1) playlists.learn(`list${at}`, 'g', [whole(...names(at, 100))]);
    const { resources } = playlists.size;
    expect(resources).toBeGreaterThan(100);
    expect(resources).toBeLessThan(500);
  });

  it('leave out a playlist that is too large, and what was known of it', () => {
    const playlists = new KnownPlaylists({ playlists: 10, characters: 10_000 });
    playlists.learn('list', 'g1', [whole('a', 'b')]);
    playlists.learn('list', 'g2', [whole(...names(0, 100))]);
    expect(playlists.size).toEqual({ playlists: 0, resources: 0 });
  });
});

function names(list: number, count: number): string[] {
  return Array.from({ length: count }, (_, at) => `${list}-${at}`);
}
