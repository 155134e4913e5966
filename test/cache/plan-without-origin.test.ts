/** A plan is made without the fields that the origin would get, wherever nothing depends on them. */

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

/** The kind of plan, and whether it has looked at the fields for the origin. */
function plan(entry: StoredEntry, fields: Fields, origin: Fields = fields): [kind: string, isAsked: boolean] {
  let isAsked = false;
  const inquiry = {
    request: { ...request, fields },
    policy,
    get originFields() {
      isAsked = true;
      return origin;
    },
  };
  const { kind } = planAnswer([entry], inquiry, sentAt + 1000);
  return [kind, isAsked];
}

describe('a plan', () => {
  it.each<[name: string, entry: StoredEntry, fields: Fields, want: [string, boolean]]>([
    ['of what is fresh', entryOf(lasting), fieldsOf('Range: bytes=0-9', 'Accept: */*'), ['hit', false]],
    ['of what is stale', entryOf(['Cache-Control: max-age=0']), fieldsOf('Accept: */*'), ['revalidate', false]],
    ['of what has no lifetime, for the whole', entryOf([]), fieldsOf('Accept: */*'), ['revalidate', true]],
    ['of what has no lifetime, for a range', entryOf([]), fieldsOf('Range: bytes=0-9'), ['hit', true]],
    ['for a client that wants it new', entryOf(lasting), fieldsOf('Cache-Control: no-cache'), ['revalidate', true]],
    ['for an old client that does', entryOf(lasting), fieldsOf('Pragma: no-cache'), ['revalidate', true]],
    [
      'of what varies',
      entryOf(lasting, { nominated: [['accept', 'text/css']] }),
      fieldsOf('Accept: text/css'),
      ['hit', true],
    ],
  ])('%s: %j', (_name, entry, fields, want) => {
    expect(plan(entry, fields)).toEqual(want);
  });

  it('knows what an operator has taken out of the fields for the origin', () => {
    const kindOf = (...lines: string[]) => plan(entryOf(lasting), fieldsOf(...lines), [])[0];
    expect(kindOf('Cache-Control: no-cache')).toBe('hit');
    expect(plan(entryOf([]), fieldsOf('Range: bytes=0-9'), [])[0]).toBe('revalidate');
  });
});
