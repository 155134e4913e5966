/** Interim responses (RFC 9110 §15.2): passed on as they arrive, and never sent from the store. */

import { table } from './engine.ts';
import { cached, type Exchange, fetched, gives, optimal, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const hints = ['103 Early Hints', 'Link: </a.css>; rel=preload; as=style', 'X-My-Header: test'];
const processing = ['102 Processing'];
const seenHints = ['103', ...hints.slice(1)];

const sends = (
  interim: readonly (readonly string[])[],
  seen: readonly (readonly string[])[],
  ...fields: string[]
): Exchange => fetched({ reply: { interim, fields }, interim: seen });

table('interim responses', [
  optimal(
    'RFC 9110 §15.2.1',
    'a 102 is passed on, and the final response is stored',
    sends([processing], [['102']], hour),
    cached({ interim: [] }),
  ),
  optimal(
    'RFC 8297 §2',
    'a 103 is passed on with its fields, and the final response is stored',
    sends([hints], [seenHints], hour),
    cached({ interim: [] }),
  ),
  optimal(
    'RFC 9110 §15.2',
    'several are passed on in order',
    sends([processing, hints, processing], [['102'], seenHints, ['102']], hour),
    cached({ interim: [] }),
  ),
  optimal(
    'RFC 8297 §2',
    'several lines of one name are passed on',
    sends([['103 Early Hints', 'Link: </a>', 'Link: </b>']], [['103', 'Link: </a>', 'Link: </b>']]),
  ),
  optimal(
    'RFC 9110 §15.2',
    'are passed on before a response that is not stored',
    sends([hints], [seenHints], 'Cache-Control: no-store'),
    sends([hints], [seenHints]),
  ),
  optimal(
    'RFC 9110 §15.2',
    'are passed on before an error',
    fetched({ reply: { status: 404, interim: [hints] }, interim: [seenHints] }),
  ),
  optimal(
    'RFC 9110 §15.2',
    'are passed on under POST',
    fetched({ method: 'POST', body: 'x', reply: { interim: [processing] }, interim: [['102']] }),
  ),
  optimal(
    'RFC 9110 §15.2',
    'are passed on during a validation',
    gives('Cache-Control: max-age=10', 'ETag: "a"'),
    validated({ wait: 10, reply: { status: 304, interim: [hints] }, interim: [seenHints] }),
    cached({ interim: [] }),
  ),
  required(
    'RFC 8297 §2',
    'fields of a 103 are not added to the final response',
    { ...sends([hints], [seenHints], hour), lacks: ['Link', 'X-My-Header'] },
    cached({ lacks: ['Link', 'X-My-Header'], interim: [] }),
  ),
  required(
    'RFC 9110 §7.6.1',
    'fields of the connection are not passed on',
    sends([['103 Early Hints', 'Connection: x', 'X: 1', 'Link: </a>']], [['103', 'Link: </a>']]),
  ),
  required(
    'RFC 9111 §3',
    'a 103 with a lifetime is not stored',
    sends([['103 Early Hints', hour]], [['103', hour]]),
    fetched(),
  ),
  required('RFC 9110 §15.2', 'are not sent with a stale response', gives('Cache-Control: max-age=10'), {
    source: 'stale',
    wait: 10,
    reply: { status: 503, interim: [] },
    interim: [],
  }),
]);
