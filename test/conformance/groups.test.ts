/** Groups of responses that become invalid together (RFC 9875). */

import { table } from './engine.ts';
import { cached, type Details, type Exchange, fetched, optimal, required } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';

/** An exchange after which a response is stored for this target. */
const stores = (target: string, ...fields: string[]): Exchange =>
  fetched({ target, reply: { fields: [hour, ...fields] } });
const sends = (method: string, details: Details = {}): Exchange => fetched({ method, body: 'abc', ...details });
const answers = (status: number, ...fields: string[]): Details => ({ reply: { status, fields } });

const group = (name: string) => `Cache-Groups: "${name}"`;
const clears = (...names: string[]): Details =>
  answers(200, `Cache-Group-Invalidation: ${names.map((name) => `"${name}"`).join(', ')}`);

table('groups', [
  optimal(
    'RFC 9875 §3',
    'an unsafe request invalidates a group',
    stores('/b', group('g')),
    stores('/c', group('g')),
    sends('POST', clears('g')),
    fetched({ target: '/b' }),
    fetched({ target: '/c' }),
  ),
  optimal(
    'RFC 9875 §3',
    'an unsafe request invalidates several groups',
    stores('/b', group('g')),
    stores('/c', group('h')),
    sends('POST', clears('g', 'h')),
    fetched({ target: '/b' }),
    fetched({ target: '/c' }),
  ),
  optimal(
    'RFC 9875 §2',
    'a response may belong to several groups',
    stores('/b', 'Cache-Groups: "x", "g"'),
    sends('POST', clears('g')),
    fetched({ target: '/b' }),
  ),
  optimal(
    'RFC 9875 §2',
    'the groups of a response may be on two lines',
    stores('/b', group('x'), group('g')),
    sends('POST', clears('g')),
    fetched({ target: '/b' }),
  ),
  optimal(
    'RFC 9875 §2',
    'a response may belong to 32 groups',
    stores(
      '/b',
      `Cache-Groups: ${Array.from({ length: 32 }, (_, index) => `"${String(index).padStart(32, 'g')}"`).join(', ')}`,
    ),
    sends('POST', clears('31'.padStart(32, 'g'))),
    fetched({ target: '/b' }),
  ),
  required(
    'RFC 9875 §3',
    'other groups stay valid',
    stores('/b', group('h')),
    sends('POST', clears('g')),
    cached({ target: '/b' }),
  ),
  required(
    'RFC 9875 §2',
    'names are case-sensitive',
    stores('/b', group('G')),
    sends('POST', clears('g')),
    cached({ target: '/b' }),
  ),
  required(
    'RFC 9875 §3',
    'a safe request invalidates nothing',
    stores('/b', group('g')),
    fetched({ target: '/c', ...clears('g') }),
    cached({ target: '/b' }),
  ),
  required(
    'RFC 9875 §3',
    'a failure invalidates nothing',
    stores('/b', group('g')),
    sends('POST', answers(500, 'Cache-Group-Invalidation: "g"')),
    cached({ target: '/b' }),
  ),
  required(
    'RFC 9875 §2.1',
    'a group of another host stays valid',
    fetched({ host: 'other.example', target: '/b', reply: { fields: [hour, group('g')] } }),
    sends('POST', clears('g')),
    cached({ host: 'other.example', target: '/b' }),
  ),
  required(
    'RFC 9875 §2.2',
    'invalidation does not spread to the other groups of a response',
    stores('/b', 'Cache-Groups: "g", "h"'),
    stores('/c', group('h')),
    sends('POST', clears('g')),
    fetched({ target: '/b' }),
    cached({ target: '/c' }),
  ),
  required(
    'RFC 9875 §2',
    'a group that is no string is ignored',
    stores('/b', 'Cache-Groups: g'),
    sends('POST', clears('g')),
    cached({ target: '/b' }),
  ),
  required(
    'RFC 9875 §3',
    'an invalid list is ignored',
    stores('/b', group('g')),
    sends('POST', answers(200, 'Cache-Group-Invalidation: "g", &')),
    cached({ target: '/b' }),
  ),
  optimal(
    'RFC 9875 §3',
    'an invalidated response is fetched and stored again',
    stores('/b', group('g'), 'ETag: "a"'),
    sends('POST', clears('g')),
    stores('/b', group('g')),
    cached({ target: '/b' }),
  ),
]);
