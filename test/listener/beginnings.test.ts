import { describe, expect, it } from 'vitest';
import { createConnectionLimits, reportConnections } from '../../src/listener/accept/connection-limits.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';

describe('beginnings', () => {
  it('of connections are reported, with their ends, except of refused connections', () => {
    const reported: ServerEvent[] = [];
    const limits = createConnectionLimits({ connections: 1, connectionsPerClient: 1, isExempt: () => false });
    const places = reportConnections(limits, 'https', (event) => void reported.push(event));
    const place = places.enter();
    expect(places.enter()).toBeUndefined();
    expect(place?.takeFor('192.0.2.1')).toBe(true);
    place?.leave();
    expect(places.enter()?.takeFor('192.0.2.1')).toBe(true);
    const event = (stage: string) => ({ kind: 'connection', stage, scheme: 'https' });
    expect(reported).toEqual([event('opened'), event('closed'), event('opened')]);
  });
});
