/** What is counted of connections, tunnels and what was refused before it became a request. */

import type { ConnectionEvent, RefusalEvent, TunnelEvent } from './events.ts';
import { metricKinds } from './metric-kinds.ts';
import { Counts, type Tally } from './tally.ts';

/** Counts them. */
export class TrafficTallies {
  readonly #refusals = new Counts(metricKinds.rangeway_refusals_total);
  readonly #accepted = new Counts(metricKinds.rangeway_connections_total);
  readonly #open = new Counts(metricKinds.rangeway_connections_open);
  readonly #tunnels = new Counts(metricKinds.rangeway_tunnels_total);
  readonly #openTunnels = new Counts(metricKinds.rangeway_tunnels_open);
  readonly #tunnelBytes = new Counts(metricKinds.rangeway_tunnel_bytes_total);

  readonly tallies: readonly Tally[] = [
    this.#refusals,
    this.#accepted,
    this.#open,
    this.#tunnels,
    this.#openTunnels,
    this.#tunnelBytes,
  ];

  refuse({ error, count = 1 }: RefusalEvent): void {
    this.#refusals.of(error).value += count;
  }

  connect({ stage, scheme }: ConnectionEvent): void {
    if (stage === 'opened') this.#accepted.of(scheme).value += 1;
    this.#open.of(scheme).value += stage === 'opened' ? 1 : -1;
  }

  beginTunnel(): void {
    this.#openTunnels.of().value += 1;
  }

  endTunnel({ status, bytesFromOrigin, bytesToOrigin }: TunnelEvent): void {
    this.#tunnels.of(String(status)).value += 1;
    // Others were never open.
    if (status === 101) this.#openTunnels.of().value -= 1;
    this.#tunnelBytes.of('from_origin').value += bytesFromOrigin;
    this.#tunnelBytes.of('to_origin').value += bytesToOrigin;
  }
}
