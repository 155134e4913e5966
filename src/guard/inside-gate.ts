/** The gate for requests of our own, such as those that warm the store. */

import type { ProxyRequest } from '../http/message.ts';
import type { Allowance, Loan } from './allowances.ts';
import { createCountedDelivery } from './counted-delivery.ts';
import type { Gate } from './gate.ts';

/**
 * Creates a gate beside that of a route. It asks for no credentials and counts no requests, for nobody from outside comes to
 * it; and the origin is used within the limits that hold for all clients together. `name` tells its client apart from others;
 * clients have none like it (`clientName`).
 */
export function createInsideGate(gate: Pick<Gate, 'lend'>, name: string): Gate {
  const client = `inside ${name}`;
  return {
    admit(request, _client, routed, notes) {
      const allowance = createInsideAllowance(request, client, gate.lend(routed, client));
      notes.allowance = allowance;
      return { kind: 'passed', routed, request, allowance };
    },
    examine: () => Promise.reject(new Error('a request of our own is not explained')),
    lend: (routed) => gate.lend(routed, client),
    selectPurge: () => undefined,
    present: (_request, response) => response,
    presentInterim: (fields) => fields,
  };
}

/** What is read is paid for while it is read, and what comes in one piece at the end. */
function createInsideAllowance(request: ProxyRequest, client: string, { origin, repay }: Loan): Allowance {
  let isPaid = false;
  return {
    request,
    origin,
    client,
    openTunnel: () => ({ idleTimeoutMs: 0 }),
    present(response) {
      const { body } = response;
      if (body.kind !== 'stream') return response;
      isPaid = true;
      return { ...response, body: { ...body, stream: createCountedDelivery(body.stream, repay) } };
    },
    leave({ bytesSent }) {
      if (!isPaid) repay(bytesSent);
    },
  };
}
