/** What is counted of exchanges with origins, and of the transfers that come of them. */

import type { BegunEvent, ExchangeEvent, FillEvent, RevalidationEvent } from './events.ts';
import { metricKinds, secondsBounds } from './metric-kinds.ts';
import { Counts, Spreads, type Tally } from './tally.ts';

const fillResults: readonly FillEvent['result'][] = ['stored', 'same', 'kept', 'relayed', 'failed', 'stopped'];
const revalidationResults: readonly RevalidationEvent['result'][] = ['confirmed', 'replaced', 'failed'];

/** Counts them. */
export class OriginTallies {
  readonly #exchanges = new Counts(metricKinds.rangeway_origin_exchanges_total);
  readonly #inFlight = new Counts(metricKinds.rangeway_origin_exchanges_in_flight);
  readonly #failures = new Counts(metricKinds.rangeway_origin_failures_total);
  readonly #retries = new Counts(metricKinds.rangeway_origin_retries_total);
  readonly #received = new Counts(metricKinds.rangeway_origin_received_bytes_total);
  readonly #heads = new Spreads(metricKinds.rangeway_origin_head_seconds, secondsBounds);
  readonly #revalidations = new Counts(metricKinds.rangeway_revalidations_total);
  readonly #fillsRunning = new Counts(metricKinds.rangeway_fills_running);
  readonly #fills = new Counts(metricKinds.rangeway_fills_total);
  readonly #resumptions = new Counts(metricKinds.rangeway_fill_resumptions_total);
  readonly #fillBytes = new Counts(metricKinds.rangeway_fill_received_bytes_total);
  readonly #fillDurations = new Spreads(metricKinds.rangeway_fill_duration_seconds, secondsBounds);

  readonly tallies: readonly Tally[] = [
    this.#exchanges,
    this.#inFlight,
    this.#failures,
    this.#retries,
    this.#received,
    this.#heads,
    this.#revalidations,
    this.#fillsRunning,
    this.#fills,
    this.#resumptions,
    this.#fillBytes,
    this.#fillDurations,
  ];

  constructor() {
    // Numbers that are there before something happens show how often it happens.
    for (const result of fillResults) this.#fills.of(result);
    for (const result of revalidationResults) this.#revalidations.of(result);
  }

  begin(what: 'fill' | 'exchange', kind: BegunEvent['kind']): void {
    const running = what === 'fill' ? this.#fillsRunning : this.#inFlight;
    running.of().value += kind === 'begun' ? 1 : -1;
  }

  endExchange({ route, status, error, isFailed, isResent, receivedBytes, headMs }: ExchangeEvent): void {
    this.#inFlight.of().value -= 1;
    this.#received.of(route).value += receivedBytes;
    this.#retries.of(route).value += isResent ? 1 : 0;
    if (status !== undefined) this.#exchanges.of(route, `${Math.floor(status / 100)}xx`).value += 1;
    if (isFailed) this.#failures.of(route, error ?? '').value += 1;
    if (headMs !== undefined) this.#heads.of(route).observe(headMs / 1000);
  }

  revalidate({ result }: RevalidationEvent): void {
    this.#revalidations.of(result).value += 1;
  }

  endFill({ result, bytes, resumptions, durationMs }: FillEvent): void {
    this.#fillsRunning.of().value -= 1;
    this.#fills.of(result).value += 1;
    this.#resumptions.of().value += resumptions;
    this.#fillBytes.of().value += bytes;
    this.#fillDurations.of().observe(durationMs / 1000);
  }
}
