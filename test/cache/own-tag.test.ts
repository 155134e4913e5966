import { describe, expect, it } from 'vitest';
import { mayHaveOwnTag, type OwnTagPolicy } from '../../src/cache/inquiry.ts';
import { sentAt, sentDate, storedWith } from '../support/values/fields-of.ts';

const strongDate = 'Last-Modified: Thu, 01 Jan 2026 11:59:59 GMT';
const weakDate = `Last-Modified: ${sentDate}`;

describe('an entity tag made by Rangeway', () => {
  it.each<[readonly string[], boolean, boolean]>([
    [[], true, true],
    [['ETag: "a"'], false, false],
    [['ETag: W/"a"'], false, true],
    [['ETag: a'], false, true],
    [[strongDate], false, false],
    [[weakDate], false, true],
    [[strongDate, `Date: ${sentDate}`], false, false],
    [['Last-Modified: yesterday'], false, true],
    [['ETag: W/"a"', strongDate], false, true],
    [['ETag: "a"', weakDate], false, false],
  ])('is made for %o: %s under whenNone, %s under whenWeak', (lines, whenNone, whenWeak) => {
    const mayHave = (policy: OwnTagPolicy) => mayHaveOwnTag(storedWith(lines), policy, sentAt);
    expect([mayHave('whenNone'), mayHave('whenWeak')]).toEqual([whenNone, whenWeak]);
  });

  it.each([203, 204, 301, 404, 410])('is not made for a %i', (status) => {
    expect(mayHaveOwnTag(storedWith([], { status }), 'whenNone', sentAt)).toBe(false);
    expect(mayHaveOwnTag(storedWith([], { status }), 'whenWeak', sentAt)).toBe(false);
  });
});
