/** Choosing the stored entry that answers a request. */

import { SpanSet } from '../../src/bytes/span.ts';
import { decideBypass, planAnswer } from '../../src/cache/lookup/lookup.ts';
import { normalValue, variantName } from '../../src/semantics/vary.ts';
import type { StoredEntry } from '../../src/store/store.ts';
import type { MicroCase } from '../micro-case.ts';
import { now, policy, request, requestFields, sizeBytes, stored } from '../micro-sample.ts';

const inquiry = { request, originFields: requestFields, policy, client: '192.0.2.1' };

/** Returns a complete, fresh entry for one Accept-Encoding. */
function entryFor(encoding: string): StoredEntry {
  const metadata = { ...stored, nominated: [['accept-encoding', normalValue('accept-encoding', encoding)]] as const };
  return {
    key: 'http://origin.example/ http://media.example.org/film.mp4',
    variant: variantName(metadata),
    generation: encoding,
    metadata,
    sizeBytes,
    isComplete: true,
    pinnedUntil: undefined,
    peekBlock: () => undefined,
    open: () => Promise.reject(new Error('nothing is read here')),
    readPresence: () => Promise.resolve(new SpanSet()),
  };
}

const one = [entryFor('identity')];
const four = ['br', 'gzip', 'zstd', 'identity'].map(entryFor);

export const cases: readonly MicroCase[] = [
  { name: 'decideBypass, no reason', call: () => decideBypass(inquiry) ?? 'none' },
  { name: 'planAnswer, one variant', call: (turn) => planAnswer(one, inquiry, now + (turn & 1023)) },
  { name: 'planAnswer, the last of four variants', call: (turn) => planAnswer(four, inquiry, now + (turn & 1023)) },
  { name: 'planAnswer, nothing stored', call: () => planAnswer([], inquiry, now) },
];
