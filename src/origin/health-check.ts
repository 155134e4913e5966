/** Asks origins now and then whether they are well. */

import type { Clock } from '../http/clock.ts';
import type { Fields } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Origin } from './origin.ts';

/** What is asked, and how often. */
export interface HealthCheckRules {
  /** Origin-form. */
  readonly path: string;
  readonly intervalMs: number;
  /** How long an answer's head may take. */
  readonly timeoutMs: number;
}

/** What checks are made with. */
export interface HealthCheckContext {
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
