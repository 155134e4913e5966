/** Which version of Rangeway this is. */

import { createRequire } from 'node:module';

/** This file is two folders below the package, as source and when built. */
const { version: own } = createRequire(import.meta.url)('../../package.json') as { readonly version: string };

/** As the package says. */
export const version = own;
