import { describe, expect, it } from 'vitest';
import { conditionalFields } from '../../src/semantics/validator.ts';
import { fieldsOf, storedWith } from '../support/values/fields-of.ts';

describe('conditionalFields, RFC 9111 §4.3.1', () => {
  const modified = 'Wed, 31 Dec 2025 12:00:00 GMT';
  const rows: readonly (readonly [stored: readonly string[], conditions: readonly string[]])[] = [
    [['ETag: "a"'], ['If-None-Match: "a"']],
    [['ETag: W/"a"'], ['If-None-Match: W/"a"']],
    [[`Last-Modified: ${modified}`], [`If-Modified-Since: ${modified}`]],
    [
      ['ETag: "a"', `Last-Modified: ${modified}`],
      ['If-None-Match: "a"', `If-Modified-Since: ${modified}`],
    ],
    // The date is sent as the origin wrote it.
    [['Last-Modified: Wednesday, 31-Dec-25 12:00:00 GMT'], ['If-Modified-Since: Wednesday, 31-Dec-25 12:00:00 GMT']],
    // An invalid validator is not sent.
    [[], []],
    [['ETag: a'], []],
    [['ETag: w/"a"'], []],
    [['ETag: "a"', 'ETag: "b"'], []],
    [['ETag:'], []],
    [['Last-Modified: yesterday'], []],
    [['Last-Modified: 0'], []],
  ];
  it.each(rows)('%j', (stored, conditions) => {
    expect(conditionalFields(storedWith(stored))).toEqual(fieldsOf(...conditions));
  });

  it('never sends a tag that Rangeway made', () => {
    expect(conditionalFields(storedWith([], { ownEntityTag: '"rw-1"' }))).toEqual([]);
  });
});
