/** What becomes of a transfer that nobody reads any more, and of a generation that is there in part. */

/** What the operator decided about fills. */
export interface FillPolicy {
  /** Whether a transfer goes on when its last reader has left; see `decideUnwanted`. */
  readonly onAbort: 'finish' | 'stop';
  /** It does not when more than this is left of it, or its representation is larger than this; Infinity for no limit. */
  readonly finishMaxLeftBytes: number;
  readonly finishMaxSizeBytes: number;
  /** Nor when so many of its client go on unread already; Infinity for no limit. */
  readonly finishMaxPerClient: number;
  /** Whether what is absent of a generation is fetched although nobody asks for it, where the origin gives parts. */
  readonly complete: 'always' | 'never' | { readonly smallerThanBytes: number };
  /** A reader this far ahead of a transfer gets one of its own, in bytes, unless the transfer is there in `seekAheadMs`. */
  readonly seekAheadBytes: number;
  readonly seekAheadMs: number;
  /** How an open-ended range is fetched where the origin gives parts: in spans that grow as its client reads on, or all at once. */
  readonly openRanges: 'grow' | 'whole';
  /** Whether the body is fetched for a HEAD whose length the origin does not tell. */
  readonly headLength: 'origin' | 'fetch';
  /** How often a broken transfer is taken up again without progress in between. */
  readonly resumeAttempts: number;
}

/** What becomes of an exchange without readers, whatever else is under way. */
export const finishAlways = { onAbort: 'finish', finishMaxPerClient: Number.POSITIVE_INFINITY } as const;

/** A transfer that nobody reads. */
export interface Unwanted {
  /** Whether the rest can be asked for later by itself. */
  readonly givesParts: boolean;
  /** The length of the whole, and what the transfer still has to bring; undefined while they are not known. */
  readonly sizeBytes: number | undefined;
  readonly leftBytes: number | undefined;
}

/** Whether an unread transfer goes on. Where the rest can be had later, only what is fetched for its own sake does. */
export function decideUnwanted(
  policy: FillPolicy,
  { givesParts, sizeBytes = 0, leftBytes = 0 }: Unwanted,
): 'finish' | 'stop' {
  if (policy.onAbort === 'stop') return 'stop';
  if (givesParts && !mayComplete(policy, sizeBytes)) return 'stop';
  return leftBytes > policy.finishMaxLeftBytes || sizeBytes > policy.finishMaxSizeBytes ? 'stop' : 'finish';
}

/** Whether the bytes of an open-ended range are fetched in growing spans: not where all of the representation is fetched anyway. */
export function growsOpenRanges(policy: FillPolicy, sizeBytes: number): boolean {
  return policy.openRanges === 'grow' && !mayComplete(policy, sizeBytes);
}

/** Whether the absent bytes of a generation are fetched for their own sake. */
export function mayComplete({ complete }: FillPolicy, sizeBytes: number): boolean {
  if (complete === 'always' || complete === 'never') return complete === 'always';
  return sizeBytes < complete.smallerThanBytes;
}
