import { describe, expect, it } from 'vitest';
import { Failures } from '../../src/cache/fill/readers.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';

const reset = new ProxyError('origin_reset');
const timeout = new ProxyError('origin_timeout');

describe('failures', () => {
  it.each([
    [9, undefined],
    [10, reset],
    [19, timeout],
    [20, timeout],
    [29, timeout],
    [30, undefined],
  ])('give, for the byte at %i, the last failure whose span contains it', (offset, expected) => {
    const failures = new Failures();
    failures.add({ error: reset, span: { start: 10, end: 20 } });
    failures.add({ error: timeout, span: { start: 15, end: 30 } });
    expect(failures.count).toBe(2);
    expect(failures.find(offset, 0)).toBe(expected);
  });

  it('from before a reader came do not concern that reader', () => {
    const failures = new Failures();
    const span = { start: 0, end: 10 };
    failures.add({ error: reset, span });
    expect(failures.find(5, failures.count)).toBeUndefined();
    failures.add({ error: timeout, span });
    expect(failures.find(5, 1)).toBe(timeout);
    expect(failures.find(5, 2)).toBeUndefined();
  });

  it('are forgotten when there are too many, the oldest first, but still counted', () => {
    const failures = new Failures();
    failures.add({ error: reset, span: { start: 0, end: 10 } });
    for (let more = 0; more < 64; more += 1) failures.add({ error: timeout, span: { start: 10, end: 20 } });
    expect(failures.count).toBe(65);
    expect(failures.find(5, 0)).toBeUndefined();
    expect(failures.find(15, 0)).toBe(timeout);
    expect(failures.find(15, 64)).toBe(timeout);
    expect(failures.find(15, 65)).toBeUndefined();
  });

  it('of transfers without a known end cover every offset', () => {
    const failures = new Failures();
    failures.add({ error: reset, span: { start: 0, end: Number.POSITIVE_INFINITY } });
    expect(failures.find(Number.MAX_SAFE_INTEGER, 0)).toBe(reset);
  });
});
