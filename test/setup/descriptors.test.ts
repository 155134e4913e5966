import { describe, expect, it } from 'vitest';
import { connectionRules } from '../../src/setup/listeners.ts';
import { clientDescriptors, originDescriptors } from '../../src/setup/system.ts';

const unlimited = Number.POSITIVE_INFINITY;

describe('the descriptors of a process', () => {
  it.each([
    [64, 32, 8],
    [1024, 512, 128],
    [65_536, 64_536, 8192],
    [unlimited, unlimited, 65_535],
  ])('are %d: %d for clients, %d for one origin', (limit, clients, origin) => {
    expect(clientDescriptors(limit)).toBe(clients);
    expect(originDescriptors(limit)).toBe(origin);
  });

  it.each([
    [20_000, 1, unlimited, 20_000],
    [20_000, 3, unlimited, 6667],
    [20_000, 1, 1024, 512],
    [20_000, 100, 1024, 200],
    [0, 1, unlimited, 0],
    [0, 1, 1024, 512],
  ])(
    'bound limits.connections %d in %d processes with %d descriptors each: %d',
    (connections, processes, limit, expected) => {
      const limits = { connections, connectionsPerClient: 7 };
      const config = { limits, trustedProxies: [] } as unknown as Parameters<typeof connectionRules>[0];
      expect(connectionRules(config, processes, limit)).toMatchObject({
        connections: expected,
        connectionsPerClient: 7,
      });
    },
  );

  it('give one client a quarter of the connections by default', () => {
    const config = { limits: { connections: 20_000 }, trustedProxies: [] } as unknown as Parameters<
      typeof connectionRules
    >[0];
    expect(connectionRules(config, 1, 1024)).toMatchObject({ connections: 512, connectionsPerClient: 128 });
    expect(connectionRules(config, 1, unlimited)).toMatchObject({ connectionsPerClient: 5000 });
  });
});
