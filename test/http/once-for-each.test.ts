import { expect, it } from 'vitest';
import { memoizeByObject } from '../../src/http/collections.ts';

it('computes a result once for each object, even an undefined one', () => {
  const computed: unknown[] = [];
  const sizeOf = memoizeByObject((of: { readonly size: number | undefined }) => {
    computed.push(of);
    return of.size;
  });
  const [one, equal, none] = [{ size: 1 }, { size: 1 }, { size: undefined }];
  expect([one, equal, none, one, equal, none].map(sizeOf)).toEqual([1, 1, undefined, 1, 1, undefined]);
  expect(computed).toEqual([one, equal, none]);
  expect(computed[1]).toBe(equal);
});
