/** Cache-Control and Pragma of requests. They are advice (RFC 9111 §5.2.1), which the cache follows by default. */

import { table } from './engine.ts';
import { cached, date, fetched, gives, optimal, refused, required, validated } from './rows.ts';

const fresh = 'Cache-Control: max-age=3600';
const demand = (directives: string) => ({ fields: [`Cache-Control: ${directives}`] });

table('directives of requests', [
  optimal(
    'RFC 9111 §5.2.1.1',
    'max-age=0 for a response without validator',
    gives(fresh),
    fetched(demand('max-age=0')),
  ),
  optimal(
    'RFC 9111 §5.2.1.1',
    'max-age=0 for a response with a validator',
    gives(fresh, 'ETag: "a"'),
    validated({ ...demand('max-age=0'), asks: ['If-None-Match: "a"'] }),
  ),
  optimal(
    'RFC 9111 §5.2.1.1',
    'max-age that is exceeded',
    gives(fresh),
    fetched({ wait: 11, ...demand('max-age=10') }),
  ),
  optimal(
    'RFC 9111 §5.2.1.1',
    'max-age that is not exceeded',
    gives(fresh),
    cached({ wait: 9, ...demand('max-age=10') }),
  ),
  optimal('RFC 9111 §5.2.1.1', 'max-age, and an Age', gives(fresh, 'Age: 1800'), fetched(demand('max-age=600'))),
  optimal(
    'RFC 9111 §5.2.1.1',
    'max-age that is longer than the lifetime',
    gives(fresh),
    fetched({ wait: 3601, ...demand('max-age=9999') }),
  ),
  optimal(
    'RFC 9111 §5.2.1.3',
    'min-fresh that is met',
    gives(fresh),
    cached({ wait: 600, ...demand('min-fresh=2900') }),
  ),
  optimal(
    'RFC 9111 §5.2.1.3',
    'min-fresh that is not met',
    gives(fresh),
    fetched({ wait: 600, ...demand('min-fresh=3100') }),
  ),
  optimal('RFC 9111 §5.2.1.3', 'min-fresh, and an Age', gives(fresh, 'Age: 1000'), fetched(demand('min-fresh=2601'))),
  optimal(
    'RFC 9111 §5.2.1.2',
    'max-stale',
    gives('Cache-Control: max-age=10'),
    cached({ wait: 20, ...demand('max-stale=10') }),
  ),
  optimal(
    'RFC 9111 §5.2.1.2',
    'max-stale, and an Age',
    gives('Cache-Control: max-age=10', 'Age: 15'),
    cached(demand('max-stale=10')),
  ),
  optimal(
    'RFC 9111 §5.2.1.2',
    'max-stale without a number',
    gives('Cache-Control: max-age=10'),
    cached({ wait: 9999, ...demand('max-stale') }),
  ),
  required(
    'RFC 9111 §5.2.1.2',
    'max-stale that is exceeded',
    gives('Cache-Control: max-age=10'),
    fetched({ wait: 21, ...demand('max-stale=10') }),
  ),
  required(
    'RFC 9111 §5.2.1.2',
    'max-stale that is no number',
    gives('Cache-Control: max-age=10'),
    fetched({ wait: 20, ...demand('max-stale=x') }),
  ),
  ...['must-revalidate', 'proxy-revalidate', 'no-cache', 's-maxage=10'].map((directive) =>
    required(
      'RFC 9111 §4.2.4',
      `max-stale, but ${directive}`,
      gives(`Cache-Control: max-age=10, ${directive}`),
      fetched({ wait: 15, ...demand('max-stale=99') }),
    ),
  ),
  optimal('RFC 9111 §5.2.1.4', 'no-cache', gives(fresh), fetched(demand('no-cache'))),
  optimal('RFC 9111 §5.2.1.4', 'no-cache in any case', gives(fresh), fetched(demand('No-Cache'))),
  optimal(
    'RFC 9111 §5.2.1.4',
    'no-cache leads to a validation by entity tag',
    gives(fresh, 'ETag: "a"'),
    validated({ ...demand('no-cache'), asks: ['If-None-Match: "a"'] }),
  ),
  optimal(
    'RFC 9111 §5.2.1.4',
    'no-cache leads to a validation by date',
    gives(fresh, `Last-Modified: ${date(-99)}`),
    validated({ ...demand('no-cache'), asks: [`If-Modified-Since: ${date(-99)}`] }),
  ),
  optimal(
    'RFC 9111 §5.2.1.4',
    'the response to no-cache is stored',
    gives(fresh),
    fetched({ ...demand('no-cache'), reply: { fields: [fresh] } }),
    cached(),
  ),
  optimal(
    'RFC 9111 §5.2.1.5',
    'no-store prevents storing',
    fetched({ ...demand('no-store'), reply: { fields: [fresh] } }),
    fetched(),
  ),
  optimal('RFC 9111 §5.2.1.7', 'only-if-cached with a stored response', gives(fresh), cached(demand('only-if-cached'))),
  optimal('RFC 9111 §5.2.1.7', 'only-if-cached with nothing stored', refused(504, demand('only-if-cached'))),
  optimal(
    'RFC 9111 §5.2.1.7',
    'only-if-cached with a stale response',
    gives('Cache-Control: max-age=10'),
    refused(504, { wait: 10, ...demand('only-if-cached') }),
  ),
  optimal(
    'RFC 9111 §5.2.1.7',
    'only-if-cached with another variant',
    gives(fresh, 'Vary: A'),
    refused(504, { fields: ['A: 1', 'Cache-Control: only-if-cached'] }),
  ),
  optimal('RFC 9111 §5.2.3', 'an unknown directive', gives(fresh), cached(demand('foo, bar="no-cache"'))),
  optimal('RFC 9111 §5.4', 'Pragma: no-cache', gives(fresh), fetched({ fields: ['Pragma: no-cache'] })),
  optimal(
    'RFC 9111 §5.4',
    'Pragma: no-cache beside Cache-Control',
    gives(fresh),
    cached({ fields: ['Pragma: no-cache', 'Cache-Control: foo'] }),
  ),
  optimal('RFC 9111 §5.4', 'another Pragma', gives(fresh), cached({ fields: ['Pragma: foo'] })),
  required(
    'RFC 9111 §5.2.1',
    'the directives reach the origin',
    fetched({ ...demand('no-cache, foo'), asks: ['Cache-Control: no-cache, foo'] }),
  ),
]);

/** With this option a client's reload does not reach the origin. */
table(
  'directives of requests that are ignored',
  [
    ...['no-cache', 'no-store', 'max-age=0', 'min-fresh=9999'].map((directive) =>
      optimal('RFC 9111 §5.2.1', directive, gives(fresh), cached({ wait: 9, ...demand(directive) })),
    ),
    optimal('RFC 9111 §5.4', 'Pragma: no-cache', gives(fresh), cached({ fields: ['Pragma: no-cache'] })),
    required(
      'RFC 9111 §5.2.1.2',
      'max-stale',
      gives('Cache-Control: max-age=10'),
      fetched({ wait: 10, ...demand('max-stale') }),
    ),
  ],
  { cache: { requestDirectives: 'ignore' } },
);
