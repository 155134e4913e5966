import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createRefusalLog } from '../../src/listener/accept/open-listener.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';

describe('createRefusalLog', () => {
  const tooMany = new ProxyError('too_many_connections', { detail: 'of all clients' });
  const reported = {
    kind: 'refusal',
    peer: '192.0.2.1',
    status: 503,
    error: 'too_many_connections',
    detail: 'of all clients',
  };
  const rest = (count: number) => {
    const detail = `${count} more connections, in 10 seconds`;
    return { ...reported, peer: undefined, detail, count };
  };

  it('reports ten refusals of a kind in ten seconds, and then the number of further ones', () => {
    const events: ServerEvent[] = [];
    const clock = createFakeClock();
    const log = createRefusalLog((event) => events.push(event), clock.after);
    for (let count = 0; count < 1000; count += 1) log.tell(tooMany, '192.0.2.1');
    expect(events).toEqual(Array(10).fill(reported));
    clock.advance(10_000);
    expect(events.slice(10)).toEqual([rest(990)]);
    log.tell(tooMany, '192.0.2.1');
    expect(events.slice(11)).toEqual([reported]);
    clock.advance(10_000);
    expect(events).toHaveLength(12);
  });

  it('counts each kind separately', () => {
    const events: ServerEvent[] = [];
    const clock = createFakeClock();
    const log = createRefusalLog((event) => events.push(event), clock.after);
    for (let count = 0; count < 11; count += 1) log.tell(tooMany, '192.0.2.1');
    log.tell(new ProxyError('tls_handshake_failed'), '192.0.2.2');
    expect(events.at(-1)).toMatchObject({ error: 'tls_handshake_failed', peer: '192.0.2.2' });
  });

  it('reports the rest at the end, once', () => {
    const events: ServerEvent[] = [];
    const clock = createFakeClock();
    const log = createRefusalLog((event) => events.push(event), clock.after);
    for (let count = 0; count < 12; count += 1) log.tell(tooMany, '192.0.2.1');
    log.close();
    clock.advance(60_000);
    expect(events.slice(10)).toEqual([rest(2)]);
  });
});
