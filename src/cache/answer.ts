/** What the cache says to a request. */

import type { CacheStatus } from '../semantics/cache-status.ts';
import type { Relay, Representation } from './representation.ts';

/** How an answer came about, in the words of RFC 9211. */
export interface AnswerFacts {
  readonly outcome: 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable';
  /** Why it is not a hit, or why it is uncacheable. */
  readonly reason: string | undefined;
  /** The fields and cookies that kept a stored response from this request because it was for equal requests only, if one was. */
  readonly apartBy?: readonly string[] | undefined;
  /** Whether it came with a flight that another request had started. */
  readonly collapsed: boolean;
  readonly status: CacheStatus;
  /** Bytes of body that the origin sent because of this request, until now. */
  readonly originBytes: () => number;
}

/** A representation to select from, or a response to pass on. */
export type Answer = AnswerFacts &
  (
    | {
        readonly kind: 'representation';
        readonly representation: Representation;
        /** Whether the origin's Age is to be replaced, because this is a reuse (RFC 9111 §5.1). */
        readonly isReuse: boolean;
      }
    | { readonly kind: 'relay'; readonly relay: Relay }
  );
