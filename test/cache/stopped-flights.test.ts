/** Flights of a cache that has stopped: a request that tries again when its flight ends must not fetch and store after that. */

import { describe, expect, it } from 'vitest';
import { Flights } from '../../src/cache/collapse/flights.ts';
import { UnreadTransfers } from '../../src/cache/fill/fill-scheduler.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';

const key = 'http://origin.example/ http://files.example/file';
const policy = { onAbort: 'finish', finishMaxPerClient: 2 } as const;

/** Creates flights whose exchanges wait until they are stopped. */
function createFlights() {
  const flights = new Flights({
    fleet: { hold: () => undefined },
    clock: { now: () => 0 },
    unread: new UnreadTransfers(),
  });
  const start = () =>
    flights.start(key, policy, async ({ signal }) => {
      await new Promise((resolve) => {
        if (signal.aborted) resolve(undefined);
        signal.addEventListener('abort', resolve);
      });
      return { kind: 'failed', failure: signal.reason as ProxyError, client: '192.0.2.7' };
    });
  return { flights, start };
}

describe('all flights are stopped', () => {
  it('and so is one that begins when another ends', async () => {
    const { flights, start } = createFlights();
    const first = start();
    const second = first.ended.then(start);
    await flights.stopAll(new ProxyError('client_gone'));
    expect((await second).signal.aborted).toBe(true);
    await (await second).ended;
    expect(flights.running).toEqual([]);
    expect(flights.of(key)).toEqual([]);
  });

  it('and none that begins later can be joined', async () => {
    const { flights, start } = createFlights();
    await flights.stopAll(new ProxyError('client_gone'));
    const late = start();
    expect(flights.of(key)).toEqual([]);
    await expect(late.fetchResult).resolves.toMatchObject({ kind: 'failed', failure: { code: 'client_gone' } });
  });
});
