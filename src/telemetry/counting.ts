/** Counts events: from each kind to the numbers that it changes. */

import type { BegunEvent, Emit, ServerEvent } from './events.ts';
import { OriginTallies } from './origin-tallies.ts';
import type { ProcessRole } from './process-role.ts';
import { RequestTallies } from './request-tallies.ts';
import { ServerTallies } from './server-tallies.ts';
import type { Tally } from './tally.ts';
import { TrafficTallies } from './traffic-tallies.ts';

/** What takes each kind of event. */
type Takers = { readonly [K in ServerEvent['kind']]: (event: Extract<ServerEvent, { kind: K }>) => void };

/** Something that counts. */
export interface Counting {
  readonly emit: Emit;
  readonly tallies: readonly Tally[];
}

/** Begins to count. `now` tells epoch milliseconds. */
export function createCounting(role: ProcessRole, now: () => number): Counting {
  const requests = new RequestTallies();
  const traffic = new TrafficTallies();
  const origins = new OriginTallies();
  const server = new ServerTallies(now);
  const begin = ({ what, kind }: BegunEvent): void => {
    if (what === 'request') requests.begin();
    else if (what === 'tunnel') traffic.beginTunnel();
    else origins.begin(what, kind);
  };
  const takers: Takers = {
    request: (event) => requests.end(event),
    begun: begin,
    called_off: begin,
    exchange: (event) => origins.endExchange(event),
    revalidation: (event) => origins.revalidate(event),
    fill: (event) => origins.endFill(event),
    connection: (event) => traffic.connect(event),
    refusal: (event) => traffic.refuse(event),
    tunnel: (event) => traffic.endTunnel(event),
    store: (event) => server.store(event),
    admin: (event) => server.act(event),
    fleet: (event) => server.fleet(event),
    // What all workers go through together is counted by their supervisor.
    life: (event) => (role.kind === 'worker' ? undefined : server.live(event)),
    origin: () => undefined,
    listener: () => undefined,
    // The log itself has the number.
    log: () => undefined,
  };
  return {
    emit: (event) => (takers[event.kind] as (event: ServerEvent) => void)(event),
    tallies: [requests, traffic, origins, server].flatMap(({ tallies }) => tallies),
  };
}
