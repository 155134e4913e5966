/** All that holds of HTTP/1 on the wire holds over TLS. */

import { describe } from 'vitest';
import { declareHttp1Suites } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('tls');

describe('over TLS', declareHttp1Suites);
