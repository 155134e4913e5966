/** Inquiries as one process asks another about them, and the rules by which the other one answers. */

import type { Inquiry } from '../../../src/cache/inquiry.ts';
import type { PeerSessionOptions } from '../../../src/fleet/peer-server.ts';
import { plainPresentation } from '../../../src/guard/fields/presentation.ts';
import { createGate } from '../../../src/guard/gate.ts';
import type { ProxyRequest } from '../../../src/http/message.ts';
import { createInquiry, routeRequest } from '../../../src/routing/inquiry.ts';
import { createRouter, type Route } from '../../../src/routing/router.ts';
import { boundlessAllowances, openAccess } from './open-gate.ts';

/** Returns the rules of a process with one route. */
export function admissionOf(route: Route): PeerSessionOptions['admission'] {
  const gate = createGate({ access: openAccess, allowances: boundlessAllowances, presentation: plainPresentation });
  return () => ({ router: createRouter([route]), gateOf: () => gate });
}

/** Creates the inquiry of a request for ten bytes of a file. */
export function createAsked(
  route: Route,
  signal: AbortSignal,
  changes: Partial<ProxyRequest> = {},
  onInterim: Inquiry['onInterim'] = () => {},
): Inquiry {
  const request: ProxyRequest = {
    method: 'GET',
    scheme: 'http',
    authority: 'files.example',
    target: '/file?q=1',
    version: '1.1',
    fields: [['range', 'bytes=0-9']],
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: '192.0.2.1', port: 1 },
    receivedAt: 5,
    signal,
    sendInterim: () => {},
    ...changes,
  };
  const router = createRouter([route]);
  return createInquiry(request, routeRequest(request, router), router, {
    origin: route.origin,
    client: '192.0.2.1',
    originFields: () => [['via', '1.1 rangeway'], ...request.fields],
    onInterim,
  });
}
