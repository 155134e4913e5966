/** A response of which something is there: an entry at rest, or a generation that is open. Looked at, and not touched. */

import { SpanSet } from '../bytes/span-set.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { StoredEntry } from '../store/store.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Outlook } from './fetch-decision.ts';
import { growsOpenRanges } from './fill-policy.ts';
import type { Inquiry } from './inquiry.ts';
import type { OpenGeneration } from './opened.ts';
import { createPartSource } from './part-source.ts';

/** What is known of it. */
export interface Held {
  /** Its name in the store. */
  readonly generation: string;
  readonly response: StoredResponse;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
  readonly outlook: Outlook;
}

/** A generation as it is now. */
export function heldGeneration({ name, response, outlook }: OpenGeneration): Held {
  const { sizeBytes, present, blockSizeBytes } = outlook;
  const isComplete = sizeBytes !== undefined && present.size === Math.ceil(sizeBytes / blockSizeBytes);
  return { generation: name, response, isComplete, pinnedUntil: undefined, outlook };
}

/** An entry that nobody has open. Nothing of it counts as there when its bytes cannot be opened. */
export async function heldEntry(
  { store, clock }: Pick<ExchangeContext, 'store' | 'clock'>,
  inquiry: Inquiry,
  entry: StoredEntry,
): Promise<Held> {
  const { generation, metadata, sizeBytes, isComplete, pinnedUntil } = entry;
  const { blockSizeBytes } = store;
  const { fill } = inquiry.policy;
  const { seekAheadBytes, seekAheadMs } = fill;
  const source = createPartSource({ inquiry, response: metadata, sizeBytes, clock });
  const present = isComplete
    ? new SpanSet([{ start: 0, end: Math.ceil(sizeBytes / blockSizeBytes) }])
    : await readPresence(entry);
  const { mayAskForParts } = source;
  const asking = { mayAskForParts, seekAheadBytes, seekAheadMs, growsOpenRanges: growsOpenRanges(fill, sizeBytes) };
  const outlook = { sizeBytes, blockSizeBytes, present, fills: [], ...asking };
  return { generation, response: metadata, isComplete, pinnedUntil, outlook };
}

async function readPresence(entry: StoredEntry): Promise<SpanSet> {
  try {
    return await entry.readPresence();
  } catch (thrown) {
    if (thrown instanceof ProxyError && thrown.code === 'bytes_gone') return new SpanSet();
    throw thrown;
  }
}
