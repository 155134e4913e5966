/** What the operator decided for a set of requests. */

import type { FillPolicy } from '../cache/fill-policy.ts';
import type { CachePolicy } from '../cache/inquiry.ts';
import type { Fields } from '../http/fields.ts';
import type { Origin } from '../origin/origin.ts';
import type { Hold, MemberState } from '../origin/origin-group.ts';
import type { RangeAbility } from '../origin/range-ability.ts';

/** Which requests a route serves. */
export interface RouteMatch {
  /**
   * Host names without ports, in any case: exact, or `*.example.org` for every name that ends in `.example.org`, however
   * many labels it has (not for `example.org` itself). None at all means every host, and requests without one.
   */
  readonly hosts: readonly string[];
  /** Whole segments: `/media` is for `/media` and all below it, `/media/` for what is below only, `/` for everything. */
  readonly pathPrefix: string;
}

/** The Host that the origin sees: its own, the client's, or a name. */
export type HostPolicy = 'origin' | 'keep' | { readonly name: string };

/** What the operator decided about the fields that an origin gets. */
export interface OriginFieldRules {
  /**
   * Names of the fields that are taken out of every request, those that are set among them; in lower case, and with hyphens for
   * all other signs, as old gateways read names.
   */
  readonly removed: ReadonlySet<string>;
  /** Besides, of those that are taken out where the response is shared (GET, HEAD). */
  readonly removedFromShared: ReadonlySet<string>;
  /** What each request is given on its way, secrets among it. The cache does not see it. */
  readonly constant: Fields;
  /** Names all of this in the keys of responses: another text for other rules, and nothing that tells a secret. */
  readonly scope: string;
}

/** How the responses of a route are stored and reused. */
export interface RouteCaching extends Omit<CachePolicy, 'isEnabled' | 'wantsDigest' | 'fill' | 'closeDelimited'> {
  /** Whether responses are stored and reused; if not, all is relayed. */
  readonly enabled: boolean;
  /** Whether each stored body is hashed, and its digest sent with what is made from it (RFC 9530 §3). */
  readonly digest: boolean;
  /**
   * Whether the origin gets a client's Accept-Encoding as it was sent, or reduced to one of eight values, so that Vary
   * tells no more variants apart.
   */
  readonly acceptEncoding: 'asSent' | 'normalise';
}

/** One route: which requests it serves, from which origin, and by which rules. */
export interface Route {
  /** For logs. */
  readonly name: string;
  readonly match: RouteMatch;
  /** Whether the origin gets the path without `match.pathPrefix`. */
  readonly stripPathPrefix: boolean;
  /** Where the origin is, the first one of several; its path is put before every path. `unix:` and a path: a socket. */
  readonly originUrl: URL;
  readonly origin: Origin;
  /** Chooses an origin for a tunnel, which does not go through `origin`. Undefined where there is one only. */
  readonly holdOrigin?: (() => Hold) | undefined;
  /** How its origins are; undefined where nobody keeps account of that. */
  readonly listOrigins?: (() => readonly MemberState[]) | undefined;
  /** How an `https:` origin is verified, and what it is shown; for tunnels. */
  readonly tls: {
    /** PEM certificates that are trusted instead of the system's. */
    readonly ca: string | undefined;
    readonly rejectUnauthorized: boolean;
    /** The client certificate and its key, in PEM. */
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
  };
  /** How long an origin may take, for tunnels: to be connected to, and to answer then. Undefined: as long as anywhere. */
  readonly timeouts?: { readonly connectMs: number; readonly answerMs: number } | undefined;
  readonly host: HostPolicy;
  /** None where the operator has no rules for it. */
  readonly toOrigin?: OriginFieldRules | undefined;
  readonly cache: RouteCaching;
  readonly ranges: {
    /** The most ranges in one request; a Range field with more is ignored (RFC 9110 §14.2). */
    readonly maxRanges: number;
    /** Ranges with fewer bytes than this between them are sent as one part (RFC 9110 §15.3.7.2). */
    readonly coalesceGapBytes: number;
  };
  /** What is known of the origin's ranges. */
  readonly rangeAbility: RangeAbility;
  /** What becomes of transfers, and which are started. */
  readonly fill: FillPolicy;
  /** How long `bytes=0-` waits for a length that the origin does not tell beforehand, before the whole is sent as it comes. */
  readonly lengthWaitMs: number;
  /** Whether a body whose end only the end of its connection tells is stored, though it may have been cut (RFC 9112 §8). */
  readonly closeDelimited: 'relay' | 'store';
}
