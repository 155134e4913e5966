import { expect, it } from 'vitest';
import { LogThrottle } from '../../src/store/log-throttle.ts';

it('each kind of fault is logged at warn once in ten minutes, otherwise at debug', () => {
  const throttle = new LogThrottle();
  const rows: readonly (readonly [kind: string, now: number, level: 'warn' | 'debug'])[] = [
    ['io', 0, 'warn'],
    ['io', 1, 'debug'],
    ['no_room', 1, 'warn'],
    ['io', 599_999, 'debug'],
    ['io', 600_000, 'warn'],
    ['io', 600_001, 'debug'],
    ['no_room', 600_000, 'debug'],
    ['no_room', 600_001, 'warn'],
  ];
  for (const [kind, now, level] of rows) expect(throttle.levelOf(kind, now), `${kind} at ${now}`).toBe(level);
});
