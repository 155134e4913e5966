/** What a probe has found out of an origin, and what Rangeway makes of it. */

/** One thing that an origin has or lacks. Plain data: `rangeway probe --json` prints it as it is. */
export interface Finding {
  readonly topic:
    | 'answer'
    | 'length'
    | 'ranges'
    | 'suffix'
    | 'if-range'
    | 'validator'
    | 'validation'
    | 'freshness'
    | 'storing'
    | 'vary'
    | 'sharing'
    | 'cookies'
    | 'digest'
    | 'tls'
    | 'http2';
  /** What was found, in a word for programs. */
  readonly found: string;
  /** Whether something is missing that a client, or a cache, would want. */
  readonly isLack: boolean;
  /** What was found, for people. */
  readonly fact: string;
  /** What Rangeway does about it, for people. */
  readonly remedy?: string;
  /** The options that matter, by their paths within a route. */
  readonly options?: readonly string[];
}
