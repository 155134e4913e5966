/** A plan does not read the fields of the origin request unless it depends on them. */

import { describe, expect, it } from 'vitest';
import { policy, request } from '../../bench/micro-sample.ts';
import { planAnswer } from '../../src/cache/lookup/lookup.ts';
import type { Fields } from '../../src/http/fields.ts';
import type { StoredEntry } from '../../src/store/store.ts';
import { fieldsOf, sentAt, storedWith } from '../support/values/fields-of.ts';

const lasting = ['Cache-Control: max-age=60'];

function entryOf(lines: readonly string[], rest: Partial<StoredEntry['metadata']> = {}): StoredEntry {
  const metadata = storedWith(lines, { identity: { digest: '', names: [] }, ...rest });
  return { metadata, isComplete: true, pinnedUntil: undefined } as StoredEntry;
}

/** Returns the kind of plan, and whether the plan read the origin fields. */
function plan(entry: StoredEntry, fields: Fields, origin: Fields = fields): [kind: string, isRead: boolean] {
  let isRead = false;
  const inquiry = {
    request: { ...request, fields },
    policy,
    get originFields() {
      isRead = true;
      return origin;
    },
  };
  const { kind } = planAnswer([entry], inquiry, sentAt + 1000);
  return [kind, isRead];
}

describe('a plan', () => {
  it.each<[name: string, entry: StoredEntry, fields: Fields, want: [string, boolean]]>([
    ['of a fresh entry', entryOf(lasting), fieldsOf('Range: bytes=0-9', 'Accept: */*'), ['hit', false]],
    ['of a stale entry', entryOf(['Cache-Control: max-age=0']), fieldsOf('Accept: */*'), ['revalidate', false]],
    ['of the whole of an entry without a lifetime', entryOf([]), fieldsOf('Accept: */*'), ['revalidate', false]],
    ['of a range of an entry without a lifetime', entryOf([]), fieldsOf('Range: bytes=0-9'), ['hit', true]],
    ['for a client that sends no-cache', entryOf(lasting), fieldsOf('Cache-Control: no-cache'), ['revalidate', true]],
    ['for a client that sends Pragma: no-cache', entryOf(lasting), fieldsOf('Pragma: no-cache'), ['revalidate', true]],
    [
      'of an entry that varies',
      entryOf(lasting, { nominated: [['accept', 'text/css']] }),
      fieldsOf('Accept: text/css'),
      ['hit', true],
    ],
  ])('%s: %j', (_name, entry, fields, want) => {
    expect(plan(entry, fields)).toEqual(want);
  });

  it('ignores client fields that an operator has removed from the origin fields', () => {
    const kindOf = (...lines: string[]) => plan(entryOf(lasting), fieldsOf(...lines), [])[0];
    expect(kindOf('Cache-Control: no-cache')).toBe('hit');
    expect(plan(entryOf([]), fieldsOf('Range: bytes=0-9'), [])[0]).toBe('revalidate');
  });
});
