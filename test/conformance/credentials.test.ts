/** Responses with cookies, and responses to requests with credentials. */

import { table } from './engine.ts';
import { cached, date, fetched, gives, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const short = 'Cache-Control: max-age=10';

const cookie = 'Set-Cookie: a=b';

table(
  'cookies that are stored',
  [
    required('RFC 9111 §3.1', 'are stored like other fields', gives(hour, cookie), cached({ has: [cookie] })),
    required(
      'RFC 9111 §3.1',
      'are stored where there are several',
      gives(hour, cookie, 'Set-Cookie: c=d'),
      cached({ has: ['Set-Cookie: a=b, c=d'] }),
    ),
    required(
      'RFC 9111 §3.2',
      'are updated by a 304',
      gives(short, 'ETag: "a"', cookie),
      validated({ wait: 10, has: ['Set-Cookie: a=c'] }, 'Set-Cookie: a=c'),
      cached({ has: ['Set-Cookie: a=c'] }),
    ),
    required(
      'RFC 9111 §7.3',
      'do not get a heuristic lifetime',
      gives(cookie, `Last-Modified: ${date(-86_400)}`),
      fetched(),
    ),
    required(
      'RFC 9111 §5.2.2.7',
      'are not stored where they are private',
      gives('Cache-Control: max-age=60, private="set-cookie"', cookie),
      cached({ lacks: ['Set-Cookie'] }),
    ),
    required('RFC 9111 §7.3', 'of a request do not prevent reuse', gives(hour), cached({ fields: ['Cookie: a=b'] })),
    required(
      'RFC 9111 §7.3',
      'of a request do not prevent storing',
      fetched({ fields: ['Cookie: a=b'], reply: { fields: [hour] } }),
      cached(),
    ),
  ],
  { cache: { setCookie: 'store' } },
);

table(
  'cookies that are stripped before storing',
  [
    required(
      'RFC 9111 §7.3',
      'reach only the client that fetched the response',
      { ...gives(hour, cookie), has: [cookie] },
      cached({ lacks: ['Set-Cookie'] }),
    ),
    required(
      'RFC 9111 §7.3',
      'of a 304 reach only the client that validated',
      gives(short, 'ETag: "a"'),
      validated({ wait: 10 }, cookie),
      cached({ lacks: ['Set-Cookie'] }),
    ),
  ],
  { cache: { setCookie: 'strip' } },
);

table('cookies and storing', [
  required('RFC 9111 §7.3', 'a cookie of the response prevents it', gives(hour, cookie), fetched()),
  required('RFC 9111 §7.3', 'a cookie of the request does not', gives(hour), cached({ fields: ['Cookie: a=b'] })),
]);

const credentials = { fields: ['Authorization: Basic QTpC'] };
const authorized = (directives: string) =>
  fetched({ ...credentials, reply: { fields: [`Cache-Control: ${directives}`] } });

table('Authorization', [
  required('RFC 9111 §3.5', 'max-age does not allow storing', authorized('max-age=60'), fetched(credentials)),
  required('RFC 9111 §3.5', 'max-age does not allow storing for other clients', authorized('max-age=60'), fetched()),
  required(
    'RFC 9111 §3.5',
    'Expires does not allow storing',
    fetched({ ...credentials, reply: { fields: [`Expires: ${date(60)}`] } }),
    fetched(credentials),
  ),
  required(
    'RFC 9111 §3.5',
    'proxy-revalidate does not allow storing',
    authorized('max-age=60, proxy-revalidate'),
    fetched(credentials),
  ),
  required(
    'RFC 9111 §3.5',
    'a malformed public does not allow storing',
    authorized('max-age=60, public=yes'),
    fetched(credentials),
  ),
  required('RFC 9111 §3.5', 'public allows storing', authorized('max-age=60, public'), cached(credentials)),
  required(
    'RFC 9111 §3.5',
    'must-revalidate allows storing',
    authorized('max-age=60, must-revalidate'),
    cached(credentials),
  ),
  required('RFC 9111 §3.5', 's-maxage allows storing', authorized('s-maxage=60'), cached(credentials)),
  required('RFC 9111 §3.5', 'public allows storing for other clients', authorized('max-age=60, public'), cached()),
  required(
    'RFC 9111 §3.5',
    'a stored response answers a request with credentials',
    gives('Cache-Control: max-age=60'),
    cached(credentials),
  ),
  required(
    'RFC 9111 §3.5',
    'credentials reach the origin',
    fetched({ ...credentials, asks: ['Authorization: Basic QTpC'] }),
  ),
  required(
    'RFC 9111 §3.5',
    'a new response to a validation with credentials is not stored',
    gives(short, 'ETag: "a"'),
    fetched({ wait: 10, ...credentials, reply: { fields: [short, 'ETag: "b"'] } }),
    fetched(),
  ),
]);
