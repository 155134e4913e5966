/** All that holds of HTTP/1 on the wire holds where HTTP/2 is looked for. */

import { describe } from 'vitest';
import { declareHttp1Suites } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('looked');

describe('where HTTP/2 is looked for', declareHttp1Suites);
