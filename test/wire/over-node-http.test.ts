/** All that holds of HTTP/1 on the wire holds of Node's own server too: the suites ask for HTTP, and not for what ours is used to. */

import { describe } from 'vitest';
import { declareHttp1Suites } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('node-http');

describe("on Node's own server", declareHttp1Suites);
