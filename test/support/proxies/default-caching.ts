/** The default cache options of a route. */

import { checkConfig } from '../../../src/config/load.ts';
import type { RouteCaching } from '../../../src/routing/router.ts';

const checked = checkConfig({ routes: [{ origin: 'http://origin.example' }] }, '.');
const [route] = checked.kind === 'ok' ? checked.config.routes : [];
if (route === undefined) throw new Error('A configuration of one origin is not valid.');

export const defaultCaching: RouteCaching = route.cache;
