/** From the configuration to what responses are given on their way to the client. */

import type { RouteConfig } from '../config/schema.ts';
import { type Presentation, plainPresentation } from '../guard/presentation.ts';

/** Creates the rules of a route. */
export function createRoutePresentation(_config: RouteConfig): Presentation {
  return plainPresentation;
}
