import { describe, expect, it } from 'vitest';
import { withRetries } from '../../src/delivery/deliver.ts';
import { type ErrorCode, ProxyError } from '../../src/http/proxy-error.ts';

/** The outcomes of the first attempt and of the others: an error, or `ok`. */
type Outcomes = readonly (ErrorCode | 'ok')[];

const cases: readonly (readonly [outcomes: Outcomes, result: string])[] = [
  [['ok', 'ok', 'ok'], 'ok of 0'],
  [['bytes_gone', 'ok', 'ok'], 'ok of 1'],
  [['generation_changed', 'ok', 'ok'], 'ok of 1'],
  [['bytes_gone', 'bytes_gone', 'ok'], 'ok of 2'],
  [['bytes_gone', 'bytes_gone', 'origin_reset'], 'origin_reset'],
  [['bytes_gone', 'bytes_gone', 'bytes_gone'], 'bytes_gone'],
  [['bytes_gone', 'origin_reset', 'ok'], 'origin_reset'],
  [['origin_reset', 'ok', 'ok'], 'origin_reset'],
  [['internal', 'ok', 'ok'], 'internal'],
  [['bytes_gone'], 'bytes_gone'],
];

describe('a request whose stored bytes cannot be used', () => {
  it.each(cases)('with the outcomes %j ends in %s', async (outcomes, result) => {
    const [first, ...others] = outcomes.map((outcome, at) => async (): Promise<string> => {
      if (outcome === 'ok') return `ok of ${at}`;
      throw new ProxyError(outcome);
    });
    const came = await Promise.resolve(withRetries(first?.() ?? '', others)).catch((error: ProxyError) => error.code);
    expect(came).toBe(result);
  });

  it('is answered in the same tick where the first attempt was', () => {
    expect(withRetries('now', [() => 'later'])).toBe('now');
  });
});
