/** Judges the health of a member of an origin group: by its responses (passive), and by periodic health checks (active). */

import type { Clock } from '../../http/clock.ts';
import type { Fields } from '../../http/fields.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { Origin } from '../origin.ts';

/** When an origin counts as ill, and for how long. */
export interface HealthRules {
  /** The number of failures in a row that make it ill. */
  readonly failures: number;
  /** How long it then rests, in milliseconds; twice as long each time it fails again, up to `maxRestFactor` times as long. */
  readonly restMs: number;
  /** The number of passed checks in a row that make it well again. Undefined without checks: then one successful request does. */
  readonly passes: number | undefined;
}

/** The outcome of a request, as far as it says something about the origin; `unknown` where the fault is not the origin's. */
export type Outcome = 'well' | 'failed' | 'unknown';

/** The state of an origin: `well`; `resting`, without requests; or `ill`, where a probe or checks decide after the rest. */
export type HealthState = 'well' | 'resting' | 'ill';

/** Reports the outcome of a request; the reason is for logs. Called once. */
export type Report = (outcome: Outcome, reason: string) => void;

const maxRestFactor = 10;

/**
 * The health of an origin. After several failures in a row it is ill, and rests. After the rest one request is sent as a probe, and
 * decides. Where checks are made, only they make the origin well again, so that an origin that they have taken out stays out.
 */
export class Health {
  readonly #rules: HealthRules;
  readonly #now: () => number;
  readonly #onChange: (isWell: boolean, reason: string) => void;
  #requestFailures = 0;
  #checkFailures = 0;
  #passes = 0;
  /** The number of rests in a row. */
  #rests = 0;
  /** Undefined while it is well. */
  #restUntilAt: number | undefined;
  #isProbed = false;

  constructor(rules: HealthRules, now: () => number, onChange: (isWell: boolean, reason: string) => void) {
    this.#rules = rules;
    this.#now = now;
    this.#onChange = onChange;
  }

  /** Whether it may get a request: it is well, or its rest is over and no probe is under way. */
  get mayAsk(): boolean {
    return this.#restUntilAt === undefined || (this.#mayProbe && !this.#isProbed);
  }

  /** When its rest ends, by the clock `now`; minus infinity while it is well. */
  get restUntilAt(): number {
    return this.#restUntilAt ?? Number.NEGATIVE_INFINITY;
  }

  get state(): HealthState {
    if (this.#restUntilAt === undefined) return 'well';
    return this.#now() < this.#restUntilAt ? 'resting' : 'ill';
  }

  /** Notes that a request is about to be sent; returns the function that reports its outcome. */
  begin(): Report {
    const isProbe = this.#mayProbe && !this.#isProbed;
    if (isProbe) this.#isProbed = true;
    return (outcome, reason) => {
      if (isProbe) this.#isProbed = false;
      if (outcome === 'well') this.#succeed();
      else if (outcome === 'failed') this.#fail(isProbe, reason);
    };
  }

  /** Notes the result of a check. */
  noteCheck(isPassed: boolean, reason: string): void {
    this.#passes = isPassed ? this.#passes + 1 : 0;
    this.#checkFailures = isPassed ? 0 : this.#checkFailures + 1;
    if (this.#restUntilAt === undefined) {
      if (this.#checkFailures >= this.#rules.failures) this.#rest(reason);
    } else if (this.#passes >= (this.#rules.passes ?? 1)) this.#recover();
  }

  get #mayProbe(): boolean {
    const { passes } = this.#rules;
    return this.#restUntilAt !== undefined && passes === undefined && this.#now() >= this.#restUntilAt;
  }

  #succeed(): void {
    this.#requestFailures = 0;
    if (this.#restUntilAt !== undefined && this.#rules.passes === undefined) this.#recover();
  }

  /** While the origin rests, only a probe counts: other requests were sent before, or because no other member was well. */
  #fail(isProbe: boolean, reason: string): void {
    this.#requestFailures += 1;
    const isTooMuch = this.#restUntilAt === undefined && this.#requestFailures >= this.#rules.failures;
    if (isProbe || isTooMuch) this.#rest(reason);
  }

  #rest(reason: string): void {
    const wasWell = this.#restUntilAt === undefined;
    const factor = Math.min(maxRestFactor, 2 ** this.#rests);
    this.#rests += 1;
    this.#passes = 0;
    this.#restUntilAt = this.#now() + factor * this.#rules.restMs;
    if (wasWell) this.#onChange(false, reason);
  }

  #recover(): void {
    this.#restUntilAt = undefined;
    this.#requestFailures = 0;
    this.#checkFailures = 0;
    this.#rests = 0;
    this.#onChange(true, 'it answers again');
  }
}

/** The request of a health check, and its times. */
export interface HealthCheckRules {
  /** Origin-form. */
  readonly path: string;
  readonly intervalMs: number;
  /** The maximum time until the head of the response. */
  readonly timeoutMs: number;
}

interface HealthCheckContext {
  readonly clock: Clock;
  /** Returns a number from 0 to 1, so that many servers do not check at the same moments. */
  readonly random: () => number;
}

/** One error for all: an error made for each stop would hold its caller in memory, by its stack. */
const stopped = new ProxyError('client_gone');

/** The fraction by which intervals are shorter or longer at random. */
const jitter = 0.1;

/**
 * Checks an origin (GET) periodically, the first time within an interval, until the returned function is called. Any 2xx or 3xx
 * passes. Redirects are not followed, and bodies are not read.
 */
export function startHealthChecks(
  origin: Origin,
  fields: Fields,
  rules: HealthCheckRules,
  { clock, random }: HealthCheckContext,
  onResult: (isPassed: boolean, reason: string) => void,
): () => void {
  const stopping = new AbortController();
  let cancel = (): void => {};
  const wait = (delayMs: number): void => {
    cancel = clock.after(delayMs, () => void check());
  };
  const check = async (): Promise<void> => {
    const reason = await failureOf(origin, fields, rules, clock, stopping.signal);
    if (stopping.signal.aborted) return;
    onResult(reason === undefined, reason ?? '');
    wait(rules.intervalMs * (1 - jitter + 2 * jitter * random()));
  };
  wait(rules.intervalMs * random());
  return () => {
    cancel();
    stopping.abort(stopped);
  };
}

/** Checks once; returns why the check failed, or undefined where it passed. */
async function failureOf(
  origin: Origin,
  fields: Fields,
  { path, timeoutMs }: HealthCheckRules,
  clock: Clock,
  stop: AbortSignal,
): Promise<string | undefined> {
  const late = new AbortController();
  const cancel = clock.after(timeoutMs, () => late.abort(new ProxyError('origin_timeout')));
  try {
    const { status, body } = await origin.fetch({
      method: 'GET',
      target: path,
      fields,
      body: undefined,
      bodySizeBytes: undefined,
      signal: AbortSignal.any([late.signal, stop]),
    });
    body.close();
    return status >= 200 && status < 400 ? undefined : `the check got ${status}`;
  } catch (thrown) {
    const { code, detail } = toProxyError(thrown);
    return `the check failed: ${code}${detail === undefined ? '' : `, ${detail}`}`;
  } finally {
    cancel();
  }
}
