/** Cache-Status: how the cache handled a request (RFC 9211). */

import { table } from './engine.ts';
import { cached, fetched, gives, optimal, refused, required, stale, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const short = 'Cache-Control: max-age=10';
const says = (value: string) => ({ has: [`Cache-Status: ${value}`] });

table('Cache-Status', [
  required('RFC 9211 §2.1', 'a hit', gives(hour), cached({ wait: 9, ...says('rangeway; hit; ttl=3591') })),
  required('RFC 9211 §2.1', 'a hit for HEAD', gives(hour), cached({ method: 'HEAD', ...says('~hit') })),
  required(
    'RFC 9211 §2.1',
    'a hit for a Range',
    gives(hour),
    cached({ fields: ['Range: bytes=0-0'], status: 206, text: 't', ...says('~hit') }),
  ),
  required(
    'RFC 9211 §2.1',
    'a hit for a condition',
    gives(hour, 'ETag: "a"'),
    cached({ fields: ['If-None-Match: "a"'], status: 304, ...says('~hit') }),
  ),
  required('RFC 9211 §2.2', 'a miss', { ...gives(hour), ...says('rangeway; fwd=uri-miss; fwd-status=200; stored') }),
  required(
    'RFC 9211 §2.2',
    'another variant',
    gives(hour, 'Vary: A'),
    fetched({ fields: ['A: 1'], ...says('~fwd=vary-miss') }),
  ),
  required(
    'RFC 9211 §2.2',
    'a stale response that is fetched anew',
    gives(short),
    fetched({ wait: 10, ...says('~fwd=stale') }),
  ),
  required(
    'RFC 9211 §2.3',
    'a stale response that is valid',
    gives(short, 'ETag: "a"'),
    validated({ wait: 10, ...says('~fwd=stale; fwd-status=304') }),
  ),
  required(
    'RFC 9211 §2.2',
    'a request with no-cache',
    gives(hour),
    fetched({ fields: ['Cache-Control: no-cache'], ...says('~fwd=request') }),
  ),
  required(
    'RFC 9211 §2.2',
    'a method that is not cached',
    fetched({ method: 'POST', body: 'x', ...says('~fwd=method') }),
  ),
  required(
    'RFC 9211 §2.5',
    'a response that is not stored',
    fetched({ reply: { fields: ['Cache-Control: no-store'] }, ...says('~fwd=uri-miss') }),
  ),
  required(
    'RFC 9211 §2.3',
    'an origin that fails',
    gives(short),
    stale({ wait: 10, reply: { status: 503 }, ...says('~fwd-status=503') }),
  ),
  required('RFC 9211 §2', 'follows the member of a cache closer to the origin', {
    ...fetched({ reply: { fields: ['Cache-Status: far; hit'] } }),
    ...says('~far; hit, rangeway; fwd=uri-miss'),
  }),
  optimal(
    'RFC 9211 §2.4',
    'states how stale a response is',
    gives(short),
    cached({ wait: 15, fields: ['Cache-Control: max-stale'], ...says('~ttl=-5') }),
  ),
  required(
    'RFC 9211 §2',
    'is absent from a response that the proxy generates',
    refused(504, { fields: ['Cache-Control: only-if-cached'], lacks: ['Cache-Status'] }),
  ),
]);
