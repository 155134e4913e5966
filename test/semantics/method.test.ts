import { describe, expect, it } from 'vitest';
import { isIdempotentMethod, isSafeMethod } from '../../src/semantics/method.ts';

describe('isSafeMethod, RFC 9110 §9.2.1, and isIdempotentMethod, §9.2.2', () => {
  const rows: readonly (readonly [method: string, isSafe: boolean, isIdempotent: boolean])[] = [
    ['GET', true, true],
    ['HEAD', true, true],
    ['OPTIONS', true, true],
    ['TRACE', true, true],
    ['PUT', false, true],
    ['DELETE', false, true],
    ['POST', false, false],
    ['PATCH', false, false],
    ['CONNECT', false, false],
    // Methods are case-sensitive, §9.1; one that is not known is unsafe.
    ['get', false, false],
    ['FROB', false, false],
    ['', false, false],
  ];
  it.each(rows)('%s: safe %s, idempotent %s', (method, isSafe, isIdempotent) => {
    expect([isSafeMethod(method), isIdempotentMethod(method)]).toEqual([isSafe, isIdempotent]);
  });
});
