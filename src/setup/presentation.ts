/** From the configuration to what responses are given on their way to the client. */

import type { RouteConfig } from '../config/schema.ts';
import { createCors } from '../guard/cors.ts';
import { createFieldChange } from '../guard/field-rules.ts';
import { createPresentation, type Presentation } from '../guard/presentation.ts';
import { createSecurityFields } from '../guard/security-fields.ts';

/** Creates the rules of a route. */
export function createRoutePresentation({ cors, security, fields }: RouteConfig): Presentation {
  return createPresentation({
    cors: cors && createCors(cors),
    security: createSecurityFields(security),
    change: createFieldChange(fields.toClient),
  });
}
