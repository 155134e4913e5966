import { describe, expect, it } from 'vitest';
import { nearestName } from '../../src/config/nearest-name.ts';

const known = ['listen', 'origin', 'maxSizeBytes', 'ranges', 'routes', 'name'];

describe('nearestName', () => {
  it.each<[name: string, want: string | undefined]>([
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
  ])('%j', (name, want) => expect(nearestName(name, known)).toBe(want));
});
