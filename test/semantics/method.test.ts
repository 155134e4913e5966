import { describe, expect, it } from 'vitest';
import { isMethodOverride, isSafeMethod } from '../../src/semantics/method.ts';

describe('isSafeMethod, RFC 9110 §9.2.1', () => {
  const rows: readonly (readonly [method: string, isSafe: boolean])[] = [
    ['GET', true],
    ['HEAD', true],
    ['OPTIONS', true],
    ['TRACE', true],
    ['PROPFIND', true],
    ['QUERY', true],
    ['REPORT', true],
    ['SEARCH', true],
    ['PROPPATCH', false],
    ['MKCOL', false],
    ['LOCK', false],
    ['query', false],
    ['PUT', false],
    ['DELETE', false],
    ['POST', false],
    ['PATCH', false],
    ['CONNECT', false],
    // Methods are case-sensitive, §9.1. An unknown method is unsafe.
    ['get', false],
    ['FROB', false],
    ['', false],
  ];
  it.each(rows)('%s: %s', (method, isSafe) => {
    expect(isSafeMethod(method)).toBe(isSafe);
  });
});

describe('isMethodOverride', () => {
  it.each([
    ['x-http-method-override', true],
    ['x-http-method', true],
    ['x-method-override', true],
    ['x_http-method_override', true],
    ['x-http-methods', false],
    ['method', false],
  ])('%s: %s', (name, isOverride) => {
    expect(isMethodOverride(name)).toBe(isOverride);
  });
});
