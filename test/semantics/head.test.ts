import { describe, expect, it } from 'vitest';
import { decideHeadEffect } from '../../src/semantics/freshen.ts';
import { fieldsOf, storedWith } from '../support/values/fields-of.ts';

const tag = 'ETag: "a"';
const modified = 'Last-Modified: Wed, 31 Dec 2025 12:00:00 GMT';
const earlier = 'Last-Modified: Tue, 30 Dec 2025 12:00:00 GMT';
const sizeBytes = 100;

describe('decideHeadEffect, RFC 9111 §4.3.5', () => {
  const rows: readonly (readonly [stored: readonly string[], head: readonly string[], effect: string])[] = [
    [[tag], [tag], 'freshen'],
    [[tag, modified], [tag, modified, 'Content-Length: 100'], 'freshen'],
    [[tag, modified], [tag], 'freshen'],
    [[tag], [], 'none'],
    [[], [], 'none'],
    [[], ['Cache-Control: max-age=60'], 'none'],
    [[], ['Content-Length: 100'], 'freshen'],
    [[tag], ['ETag: "b"'], 'invalidate'],
    [[tag], ['ETag: W/"a"'], 'invalidate'],
    [[], [tag], 'invalidate'],
    [[modified], [earlier], 'invalidate'],
    [[tag, modified], [tag, earlier], 'invalidate'],
    [[tag], [tag, 'Content-Length: 99'], 'invalidate'],
    [[tag], [tag, 'Content-Length: x'], 'invalidate'],
    // A HEAD response with another Vary does not describe the stored variant.
    [['Vary: Accept', tag], [tag, 'Vary: Accept'], 'freshen'],
    [['Vary: Accept', tag], [tag], 'freshen'],
    [['Vary: Accept', tag], ['Vary: Accept'], 'none'],
    [[tag], [tag, 'Vary: Accept'], 'invalidate'],
  ];
  it.each(rows)('stored %j, HEAD with %j: %s', (stored, head, effect) => {
    expect(decideHeadEffect(storedWith(stored), sizeBytes, fieldsOf(...head))).toBe(effect);
  });

  const noLongerValid: readonly (readonly [stored: readonly string[], head: readonly string[], effect: string])[] = [
    [[tag], [tag], 'freshen'],
    [[modified], [modified], 'freshen'],
    [[tag, modified], [modified], 'freshen'],
    [[tag], [], 'none'],
    [[], ['Content-Length: 100'], 'none'],
    [[tag], ['ETag: "b"'], 'invalidate'],
    [[], ['Content-Length: 99'], 'invalidate'],
  ];
  it.each(noLongerValid)('stored %j and expired or invalid, HEAD with %j: %s', (stored, head, effect) => {
    for (const facts of [{ expiredAt: 1 }, { isInvalid: true } as const]) {
      expect(decideHeadEffect(storedWith(stored, facts), sizeBytes, fieldsOf(...head))).toBe(effect);
    }
  });

  it.each([203, 301, 404, 503])('invalidates a stored %d on a HEAD with 200', (status) => {
    expect(decideHeadEffect(storedWith([tag], { status }), sizeBytes, fieldsOf(tag))).toBe('invalidate');
  });

  it.each([
    ['Content-Length: 5000', 'freshen'],
    ['Content-Length: 100', 'invalidate'],
  ])('compares the whole length of a stored part with "%s": %s', (length, effect) => {
    const fragment = { range: 'bytes=-100', start: 4900, wholeBytes: 5000 };
    const stored = storedWith([tag], { status: 206, fragment });
    expect(decideHeadEffect(stored, sizeBytes, fieldsOf(tag, length))).toBe(effect);
  });
});
