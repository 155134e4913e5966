/** Whether one of several origins is well, as far as its answers tell. */

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
