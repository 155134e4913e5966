/** Runs the HTTP/1 suites over TLS. */

import { describe } from 'vitest';
import { declareHttp1Suites } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('tls');

describe('over TLS', () => declareHttp1Suites());
