/** Puts together what all workers report of one origin. */

import type { OriginStatus } from '../api-types.ts';

/** An origin of a route, as its workers know it. */
export interface OriginGroup {
  readonly route: string;
  readonly url: string;
  /** The worst that a worker reports, and how many report it. */
  readonly health: OriginStatus['health'];
  readonly worst: number;
  /** `unknown` where no worker knows, or workers disagree. */
  readonly ranges: OriginStatus['ranges'];
  readonly workers: number;
  /** The requests at all workers together. */
  readonly requests: OriginStatus['requests'];
}

const badness = { well: 0, ill: 1, resting: 2 } as const;

/** Groups the reports by route and URL, in their order. */
export function groupOrigins(origins: readonly OriginStatus[]): OriginGroup[] {
  const groups = Map.groupBy(origins, ({ route, url }) => JSON.stringify([route, url]));
  return [...groups.values()].flatMap((reports) => {
    const [first] = reports;
    if (first === undefined) return [];
    const health = reports.reduce(
      (worst, { health: each }) => (badness[each] > badness[worst] ? each : worst),
      first.health,
    );
    const sum = (read: (requests: OriginStatus['requests']) => number) =>
      reports.reduce((total, { requests }) => total + read(requests), 0);
    const known = new Set(reports.map(({ ranges }) => ranges).filter((ranges) => ranges !== 'unknown'));
    const [only = 'unknown' as const] = known;
    return [
      {
        route: first.route,
        url: first.url,
        health,
        worst: reports.filter((report) => report.health === health).length,
        ranges: known.size === 1 ? only : ('unknown' as const),
        workers: reports.length,
        requests: {
          streams: sum(({ streams }) => streams),
          fills: sum(({ fills }) => fills),
          unanswered: sum(({ unanswered }) => unanswered),
          waiting: sum(({ waiting }) => waiting),
        },
      },
    ];
  });
}
