import { describe, expect, it } from 'vitest';
import type { ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import {
  createConnectionLimits,
  reportConnections,
  reportRequests,
} from '../../src/listener/accept/connection-limits.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';

describe('beginnings', () => {
  it('of requests are told before they are answered', () => {
    const told: unknown[] = [];
    const response = { status: 200 } as ProxyResponse;
    const handler = reportRequests(
      () => {
        told.push('answered');
        return response;
      },
      (event) => told.push(event),
    );
    expect(handler({} as ProxyRequest)).toBe(response);
    expect(told).toEqual([{ kind: 'begun', what: 'request' }, 'answered']);
  });

  it('of connections are told with their ends; of one that is turned away nothing is', () => {
    const told: ServerEvent[] = [];
    const limits = createConnectionLimits({ connections: 1, connectionsPerClient: 1, isExempt: () => false });
    const places = reportConnections(limits, 'https', (event) => void told.push(event));
    const place = places.enter();
    expect(places.enter()).toBeUndefined();
    expect(place?.takeFor('192.0.2.1')).toBe(true);
    place?.leave();
    expect(places.enter()?.takeFor('192.0.2.1')).toBe(true);
    const event = (stage: string) => ({ kind: 'connection', stage, scheme: 'https' });
    expect(told).toEqual([event('opened'), event('closed'), event('opened')]);
  });
});
