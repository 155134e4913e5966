/** A request as the cache sees it. */

import type { Fields } from '../http/fields.ts';
import type { InterimResponse, ProxyRequest } from '../http/message.ts';
import type { Origin } from '../origin/origin.ts';
import type { RangeAbility } from '../origin/range-ability.ts';
import type { BypassConditions } from '../semantics/bypass.ts';
import type { IdentityRules } from '../semantics/identity.ts';
import type { QuerySelection } from '../semantics/query.ts';
import type { StalePolicy } from '../semantics/staleness.ts';
import type { StoringPolicy } from '../semantics/storing.ts';
import type { VariantPolicy } from '../semantics/variant.ts';
import type { FillPolicy } from './fill-policy.ts';
import type { OwnTagPolicy } from './own-tag.ts';

/** What of a request tells stored responses apart, besides what Vary nominates. */
export interface KeyPolicy extends VariantPolicy {
  /** Which query parameters are in the key. The origin is sent all of them. */
  readonly query: QuerySelection;
}

/** What the operator decided about caching for a route. The rules of the RFCs say what they need of it. */
export interface CachePolicy extends StoringPolicy, StalePolicy {
  /** Whether anything may be stored or reused at all. */
  readonly isEnabled: boolean;
  readonly key: KeyPolicy;
  /** Which parts of a request tell who asks, for responses that do not state that they are for all. */
  readonly identityFields: IdentityRules;
  /** Which requests go past the cache: nothing stored is used for them, and nothing of theirs is stored. */
  readonly bypass: BypassConditions;
  /** How often a key must have been asked for lately before its response is stored; 1 stores it at once. */
  readonly storeAfterUses: number;
  /** How long a generation that was replaced is kept for clients that resume with its validator; 0 for not at all. */
  readonly pinSeconds: number;
  /** Which responses get a strong entity tag of our own. */
  readonly ownEntityTags: OwnTagPolicy;
  /** Whether the SHA-256 of what is stored is wanted. */
  readonly wantsDigest: boolean;
  /** What becomes of transfers, and which are started. */
  readonly fill: FillPolicy;
  /** Whether a body that ends with its connection is taken for whole. */
  readonly closeDelimited: 'relay' | 'store';
}

/** A request, where its answer may come from, and under which rules. */
export interface Inquiry {
  readonly request: ProxyRequest;
  /** Names the target as it was sent. */
  readonly key: string;
  /** Names the target in its normal form: the same for all its spellings. */
  readonly normalKey: string;
  /** Scheme and authority of the target URI, in normal form: `https://example.com`. */
  readonly uriOrigin: string;
  /** Both keys of a target of the same scheme and authority, whatever its route; undefined when it has none. */
  readonly keysOf: (target: string) => Pick<Inquiry, 'key' | 'normalKey'> | undefined;
  readonly policy: CachePolicy;
  readonly origin: Origin;
  /** On whose account it is asked: a name of the client, for those who limit what one may cost. */
  readonly client: string;
  /** What is known of the origin's ranges. */
  readonly rangeAbility: RangeAbility;
  /** What the origin is asked for: target and fields, the client's Range and preconditions among them. */
  readonly originTarget: string;
  readonly originFields: Fields;
  /** Whether it is asked on nobody's behalf: no client reads what comes. */
  readonly isUnattended?: true;
  /** What told the trace of the request that is behind it, where it is asked on nobody's behalf. */
  readonly causedBy?: Fields;
  /** Takes the interim responses of an exchange that this request has started. */
  readonly onInterim: (interim: InterimResponse) => void;
}

/** An inquiry with other values in some places; not by a spread, which would leave out what is made when it is asked for. */
export function changedInquiry(inquiry: Inquiry, changes: Partial<Inquiry>): Inquiry {
  const { request, key, normalKey, uriOrigin, keysOf, policy, origin, client, rangeAbility, originTarget, onInterim } =
    inquiry;
  const { isUnattended, causedBy } = inquiry;
  return {
    request,
    key,
    normalKey,
    uriOrigin,
    keysOf,
    policy,
    origin,
    client,
    rangeAbility,
    originTarget,
    originFields: changes.originFields ?? inquiry.originFields,
    onInterim,
    ...(isUnattended && { isUnattended }),
    ...(causedBy && { causedBy }),
    ...changes,
  };
}
