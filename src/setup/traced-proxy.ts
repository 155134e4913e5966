/** The road of a request, with the trace that it is a part of. */

import { changedRequest } from '../http/changed-request.ts';
import type { Handler } from '../http/message.ts';
import { createProxy, type ProxyContext } from '../proxy.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Tracing } from '../telemetry/tracing.ts';

/**
 * Creates the handler that listeners call. A traced request carries its own trace from here on, and so toward the origin; where
 * nothing is traced the client's fields are left as they are, and nothing is spent.
 */
export function createTracedProxy(context: ProxyContext, tracing: Tracing | undefined): Handler {
  if (tracing === undefined) return createProxy(context);
  const untraced = createProxy(context);
  return (received) => {
    const traced = tracing.receive(received);
    if (traced === undefined) return untraced(received);
    const { fields, traceId, run, end } = traced;
    const emit: Emit = (event) => {
      if (event.kind === 'request') end(event);
      context.emit(event.kind === 'request' ? { ...event, traceId } : event);
    };
    return run(() => createProxy({ ...context, emit })(changedRequest(received, { fields })));
  };
}
