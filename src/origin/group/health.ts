/** Whether a member of an origin group is healthy: judged by its answers (passive), and by health checks that are sent now and then (active). */

import type { Clock } from '../../http/clock.ts';
import type { Fields } from '../../http/fields.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { Origin } from '../origin.ts';

/** When an origin counts as ill, and for how long. */
export interface HealthRules {
  /** So many failures in a row make it ill. */
  readonly failures: number;
  /** How long it is spared then, in milliseconds; twice as long each time it fails again, up to `maxRestFactor` times. */
  readonly restMs: number;
  /** So many checks that succeed in a row make it well again. Undefined without checks: then a request that succeeds does. */
  readonly passes: number | undefined;
}

/** What a request came to, as far as it tells of the origin: `unknown` for one that a client gave up. */
export type Outcome = 'well' | 'failed' | 'unknown';

/** How an origin is: it is asked; it is spared for a while; it has rested, and the next one finds out how it is. */
export type HealthState = 'well' | 'resting' | 'ill';

/** Tells what a request came to; the reason is for logs. Called once. */
export type Report = (outcome: Outcome, reason: string) => void;

const maxRestFactor = 10;

/**
 * An origin is ill after failures in a row, and rests. After its rest one request is sent to it, as a probe, and decides. Where
 * checks are made they alone make it well again, so that an origin which is taken out by them stays out.
 */
export class Health {
  readonly #rules: HealthRules;
  readonly #now: () => number;
  readonly #onChange: (isWell: boolean, reason: string) => void;
  #requestFailures = 0;
  #checkFailures = 0;
  #passes = 0;
  /** How many rests in a row. */
  #rests = 0;
  /** Undefined while it is well. */
  #restUntilAt: number | undefined;
  #isProbed = false;

  constructor(rules: HealthRules, now: () => number, onChange: (isWell: boolean, reason: string) => void) {
    this.#rules = rules;
    this.#now = now;
    this.#onChange = onChange;
  }

  /** Whether it may be asked: it is well, or it has rested and nothing probes it yet. */
  get mayAsk(): boolean {
    return this.#restUntilAt === undefined || (this.#mayProbe && !this.#isProbed);
  }

  /** When it has rested, by the clock that it was given; minus infinity while it is well. */
  get restUntilAt(): number {
    return this.#restUntilAt ?? Number.NEGATIVE_INFINITY;
  }

  /** For those who want to know. */
  get state(): HealthState {
    if (this.#restUntilAt === undefined) return 'well';
    return this.#now() < this.#restUntilAt ? 'resting' : 'ill';
  }

  /** A request is about to be sent to it. */
  begin(): Report {
    const isProbe = this.#mayProbe && !this.#isProbed;
    if (isProbe) this.#isProbed = true;
    return (outcome, reason) => {
      if (isProbe) this.#isProbed = false;
      if (outcome === 'well') this.#succeed();
      else if (outcome === 'failed') this.#fail(isProbe, reason);
    };
  }

  /** A check has come to an end. */
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

  /** Of an origin that rests only a probe tells anything new: the others were sent before, or because nobody else was well. */
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

/** What is asked, and how often. */
export interface HealthCheckRules {
  /** Origin-form. */
  readonly path: string;
  readonly intervalMs: number;
  /** How long an answer's head may take. */
  readonly timeoutMs: number;
}

/** What checks are made with. */
interface HealthCheckContext {
  readonly clock: Clock;
  /** A number from 0 to 1, so that many servers do not ask at the same moments. */
  readonly random: () => number;
}

/** One for all: an error of its own would know, by its stack, whoever has stopped the checks. */
const stopped = new ProxyError('client_gone');

/** Intervals are this much shorter or longer than they say, by chance. */
const jitter = 0.1;

/**
 * Asks an origin (GET), the first time within an interval, and goes on until the function that is returned is called. Any 2xx
 * or 3xx passes; redirects are not followed, and bodies not read.
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

/** Why a check failed; undefined when it passed. */
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
