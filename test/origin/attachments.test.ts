/** Which member of a group continues a representation that it has sent. */

import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import { Attachments } from '../../src/origin/group/origin-group.ts';

const ifRange: Fields = [['if-range', '"1"']];
const ifNoneMatch: Fields = [['if-none-match', '"1"']];

describe('attachments', () => {
  const wishOf = (attachments: Attachments<string>, fields: Fields, method = 'GET', target = '/a') => {
    const wish = attachments.select({ method, target, fields });
    return wish === undefined ? 'any' : `${wish.kind} ${wish.member}`;
  };

  it.each<[fields: Fields, first: string, spread: string]>([
    [[], 'any', 'any'],
    [[['range', 'bytes=0-1']], 'any', 'any'],
    [ifRange, 'this m', 'this m'],
    [ifNoneMatch, 'any', 'this m'],
    [[['if-modified-since', 'x']], 'any', 'this m'],
  ])('%j', (fields, first, spread) => {
    for (const [sticksWhenValidated, want] of [
      [false, first],
      [true, spread],
    ] as const) {
      const attachments = new Attachments<string>({ sticksWhenValidated });
      expect(wishOf(attachments, fields)).toBe('any');
      attachments.note('/a', 'm');
      expect(wishOf(attachments, fields)).toBe(want);
      expect(wishOf(attachments, fields, 'GET', '/b')).toBe('any');
      expect(wishOf(attachments, fields, 'HEAD')).toBe('any');
    }
  });

  it('resume a broken transfer at the member that sent it, once', () => {
    const attachments = new Attachments<string>({ sticksWhenValidated: false });
    attachments.note('/a', 'm').noteBreak();
    expect(wishOf(attachments, [])).toBe('this m');
    attachments.note('/a', 'm').noteBreak();
    expect(wishOf(attachments, [])).toBe('another m');
    expect(wishOf(attachments, ifRange)).toBe('another m');
    const other = attachments.note('/a', 'n');
    expect(wishOf(attachments, [])).toBe('any');
    other.noteBreak();
    expect(wishOf(attachments, [])).toBe('this n');
  });

  it('forget the oldest targets, and never note long ones', () => {
    const attachments = new Attachments<string>({ sticksWhenValidated: false });
    for (let at = 0; at < 5000; at++) attachments.note(`/${at}`, 'm');
    expect(wishOf(attachments, ifRange, 'GET', '/0')).toBe('any');
    expect(wishOf(attachments, ifRange, 'GET', '/4999')).toBe('this m');
    const long = `/${'a'.repeat(5000)}`;
    attachments.note(long, 'm');
    expect(wishOf(attachments, ifRange, 'GET', long)).toBe('any');
  });
});
