/** The transfers from origins that are running, for those who run the server. */

import { ProxyError } from '../http/proxy-error.ts';
import type { Flights } from './flights.ts';

/** A generation that something is coming for. */
export interface RunningFill {
  /** Names it among all fills of all processes. */
  readonly id: string;
  readonly key: string;
  readonly generation: string;
  readonly sizeBytes: number | undefined;
  /** Bytes that the origin has sent for it since it was opened. */
  readonly receivedBytes: number;
  readonly readers: number;
  /** When the exchange began that it came of, in epoch milliseconds. */
  readonly startedAt: number;
}

/** All of them, the oldest first. A generation is open in one process at a time: its name is the name of its fill. */
export function listFills(flights: Flights): readonly RunningFill[] {
  return flights.running.flatMap(({ key, startedAt, generation }) => {
    if (generation === undefined || generation.outlook.fills.length === 0) return [];
    const { name, sizeBytes, received: receivedBytes, readerCount: readers } = generation;
    return [{ id: name, key, generation: name, sizeBytes, receivedBytes, readers, startedAt }];
  });
}

/** Ends one; who reads it is cut off. Tells whether it was running here. */
export function stopFill(flights: Flights, id: string): boolean {
  const { id: found } = listFills(flights).find((fill) => fill.id === id) ?? {};
  const flight = flights.running.find(({ generation }) => found !== undefined && generation?.name === found);
  flight?.stop(new ProxyError('client_gone', { detail: 'the fill was stopped by hand' }));
  return flight !== undefined;
}
