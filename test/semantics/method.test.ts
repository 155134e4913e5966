import { describe, expect, it } from 'vitest';
import { isSafeMethod } from '../../src/semantics/method.ts';

describe('isSafeMethod, RFC 9110 §9.2.1', () => {
  const rows: readonly (readonly [method: string, isSafe: boolean])[] = [
    ['GET', true],
    ['HEAD', true],
    ['OPTIONS', true],
    ['TRACE', true],
    ['PUT', false],
    ['DELETE', false],
    ['POST', false],
    ['PATCH', false],
    ['CONNECT', false],
    // Methods are case-sensitive, §9.1; one that is not known is unsafe.
    ['get', false],
    ['FROB', false],
    ['', false],
  ];
  it.each(rows)('%s: %s', (method, isSafe) => {
    expect(isSafeMethod(method)).toBe(isSafe);
  });
});
