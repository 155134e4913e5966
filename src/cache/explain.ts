/** What would become of a request, told without asking the origin, starting anything, or counting anything as a use. */

import type { NominatedField } from '../http/stored-response.ts';
import { selectedValues } from '../semantics/variant.ts';
import { nominatedFields } from '../semantics/vary.ts';
import type { StoredEntry } from '../store/store.ts';
import { fillFields } from './asked.ts';
import { Asker } from './asker.ts';
import { explainChosen } from './chosen.ts';
import type { EntryExplanation, Explained, FlightExplanation } from './explanation.ts';
import type { Flight } from './flight.ts';
import { isFragment } from './fragments.ts';
import type { Held } from './held.ts';
import type { Inquiry } from './inquiry.ts';
import { isUsable } from './plan.ts';
import { type LookedAt, WayFinder } from './way.ts';

/** So many stored responses of a key are told of. */
const MAX_ENTRIES = 50;

/** Explains a request. */
export async function explainInquiry(parts: LookedAt, inquiry: Inquiry): Promise<Explained> {
  const { store, clock, flights, refusals } = parts;
  const { key, rangeAbility } = inquiry;
  const stored = await store.find(key);
  const now = clock.now();
  const { decision, question, held, source, fragmentSpan } = await new WayFinder(parts, inquiry, now).find(stored);
  const entries = stored.slice(0, MAX_ENTRIES);
  const refusal = refusals.last(key);
  const asker = new Asker(inquiry);
  const { isKnown, mayAsk, mayAskMore } = rangeAbility;
  return {
    explanation: {
      key,
      decision,
      originQuestion: question,
      variant: explainVariant(entries, held, inquiry),
      entryCount: stored.length,
      entries: entries.map((entry) => explainEntry(entry, held, asker, now)),
      chosen: held === undefined ? undefined : explainChosen(held, inquiry, now),
      flights: flights.of(key).map(explainFlight),
      origin: { isKnown, mayAsk, mayAskMore },
      notStored: refusal === undefined ? undefined : { ...refusal, agoMs: now - refusal.at },
    },
    subject: source === undefined ? undefined : { response: source.response, outlook: source.outlook, fragmentSpan },
  };
}

/** What tells the stored responses apart, with the values of this request: those of others are for nobody else. */
function explainVariant(
  entries: readonly StoredEntry[],
  held: Held | undefined,
  { originFields, policy }: Inquiry,
): readonly NominatedField[] {
  const responses = [...entries.map(({ metadata }) => metadata), ...(held === undefined ? [] : [held.response])];
  const names = responses.flatMap(({ nominated }) => nominated.map(([name]) => name)).filter((name) => name !== '*');
  const asked = fillFields(originFields);
  return [...nominatedFields([], asked, names), ...(selectedValues(asked, policy.key) ?? [])];
}

function explainEntry(entry: StoredEntry, held: Held | undefined, asker: Asker, now: number): EntryExplanation {
  const { generation, metadata, sizeBytes, isComplete, pinnedUntil } = entry;
  return {
    generation,
    status: metadata.status,
    sizeBytes,
    isComplete,
    isFragment: isFragment(metadata),
    pinnedUntil,
    differs: asker.differences(metadata),
    isUsable: isUsable(entry, now),
    isChosen: generation === held?.generation,
  };
}

function explainFlight({ generation }: Flight): FlightExplanation {
  if (generation === undefined) return { hasLanded: false, receivedBytes: 0, readers: 0, transfers: [] };
  const { name, received, readerCount, outlook } = generation;
  const transfers = outlook.fills.map(({ frontier, limit }) => {
    return { at: frontier, end: Number.isFinite(limit) ? limit : undefined };
  });
  return {
    hasLanded: true,
    generation: name,
    sizeBytes: outlook.sizeBytes,
    receivedBytes: received,
    readers: readerCount,
    transfers,
  };
}
