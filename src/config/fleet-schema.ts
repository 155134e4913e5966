/** The options of several machines that share a store: where each is reached by the others, how long its memory is trusted, and what it does alone. */

import * as z from 'zod';
import { parseHostAndPort, parseListenAddress } from './address.ts';
import { secondsOption, secretSource } from './values.ts';

/** Where peers connect to, parsed: `port` alone stands for the address that the engine sees. */
const peerListen = z.string().transform((text, context) => {
  const address = parseListenAddress(text);
  if (address !== undefined)
    return { kind: 'peers', host: text.includes(':') ? address.host : undefined, port: address.port } as const;
  context.addIssue('expected [host:]port such as "7400", "10.0.0.5:7400" or "[fd00::5]:7400"');
  return z.NEVER;
});

/** How peers reach this machine, parsed. */
const peerAddress = z.string().transform((text, context) => {
  const address = parseHostAndPort(text);
  if (address !== undefined) return { kind: 'peers', ...address } as const;
  context.addIssue('expected host[:port] such as "node-1.internal", "10.0.0.5:7400" or "[fd00::5]:7400"');
  return z.NEVER;
});

/** The schema of `fleet`. */
export const fleetSchema = z
  .strictObject({
    listen: peerListen
      .optional()
      .describe(
        'Where the other machines connect to this one, [host:]port. Without a host: the address at which the engine sees this machine. Without it: that address, and a port that the system chooses. With several workers it needs port 0, or none.',
      ),
    advertise: peerAddress
      .optional()
      .describe(
        'How the other machines reach this one, host[:port], where that differs from where it listens: behind NAT, or in a container.',
      ),
    memoryWhileAwaySeconds: secondsOption(0, 86_400)
      .default(60)
      .describe(
        'While the engine is away, purges of other machines do not reach this one. Its memory goes on to answer for so long; then it is emptied, and again after each such time. 0 empties it as soon as the loss is noticed.',
      ),
    secret: z
      .union([secretSource.transform((one) => [one]), z.array(secretSource).min(1).max(2)])
      .optional()
      .describe(
        'The secret by which nodes know each other, and what one of them has written to the engine: "env:NAME" or "file:PATH", at least 32 characters, the same on all nodes. Required as soon as there are two. A list of two replaces it without a pause: the first one signs, both are accepted.',
      ),
    unsafeWhileAway: z
      .enum(['forward', 'refuse'])
      .default('forward')
      .describe(
        'What happens to PUT, POST, DELETE and other unsafe requests while the engine is away, so that other machines cannot be told what they invalidate. "forward": the origin gets them, Cache-Status says invalidation-pending, and the others are told when the engine is back. "refuse": 503 with Retry-After.',
      ),
  })
  .describe('Several machines that share a store of type "redis".');

/** The options of several machines. */
export type FleetConfig = z.output<typeof fleetSchema>;

/** The default options of several machines. */
export const defaultFleet: FleetConfig = fleetSchema.parse({});
