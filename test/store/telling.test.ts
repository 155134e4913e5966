import { expect, it } from 'vitest';
import { LogThrottle } from '../../src/store/log-throttle.ts';

it('a fault is told aloud once in ten minutes, each kind for itself', () => {
  const telling = new LogThrottle();
  const told: readonly (readonly [kind: string, now: number, level: 'warn' | 'debug'])[] = [
    ['io', 0, 'warn'],
    ['io', 1, 'debug'],
    ['no_room', 1, 'warn'],
    ['io', 599_999, 'debug'],
    ['io', 600_000, 'warn'],
    ['io', 600_001, 'debug'],
    ['no_room', 600_000, 'debug'],
    ['no_room', 600_001, 'warn'],
  ];
  for (const [kind, now, level] of told) expect(telling.levelOf(kind, now), `${kind} at ${now}`).toBe(level);
});
