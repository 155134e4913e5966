import { describe, expect, it } from 'vitest';
import { nearestName } from '../../src/config/problems.ts';

const known = ['listen', 'origin', 'maxSizeBytes', 'ranges', 'routes', 'name'];

describe('nearestName', () => {
  it.each<[given: string, want: string | undefined]>([
    ['orgin', 'origin'],
    ['Origin', 'origin'],
    ['lisen', 'listen'],
    ['listne', 'listen'],
    ['maxSize', 'maxSizeBytes'],
    ['route', 'routes'],
    ['nam', 'name'],
    ['na', undefined],
    ['upstream', undefined],
    ['x', undefined],
    ['', undefined],
  ])('%j', (given, want) => expect(nearestName(given, known)).toBe(want));
});
