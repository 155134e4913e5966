import { expect, it } from 'vitest';
import { onceForEach } from '../../src/http/collections.ts';

it('works out a result once for each object, whatever the result', () => {
  const asked: unknown[] = [];
  const sizeOf = onceForEach((of: { readonly size: number | undefined }) => {
    asked.push(of);
    return of.size;
  });
  const [one, equal, none] = [{ size: 1 }, { size: 1 }, { size: undefined }];
  expect([one, equal, none, one, equal, none].map(sizeOf)).toEqual([1, 1, undefined, 1, 1, undefined]);
  expect(asked).toEqual([one, equal, none]);
  expect(asked[1]).toBe(equal);
});
