/** Responses with cookies, and to requests with credentials. */

import { table } from './engine.ts';
import { cached, date, fetched, gives, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const short = 'Cache-Control: max-age=10';

const cookie = 'Set-Cookie: a=b';

table(
  'cookies',
  [
    required('RFC 9111 §3.1', 'as other fields are', gives(hour, cookie), cached({ has: [cookie] })),
    required(
      'RFC 9111 §3.1',
      'several',
      gives(hour, cookie, 'Set-Cookie: c=d'),
      cached({ has: ['Set-Cookie: a=b, c=d'] }),
    ),
    required(
      'RFC 9111 §3.2',
      'a 304 updates them',
      gives(short, 'ETag: "a"', cookie),
      validated({ wait: 10, has: ['Set-Cookie: a=c'] }, 'Set-Cookie: a=c'),
      cached({ has: ['Set-Cookie: a=c'] }),
    ),
    required(
      'RFC 9111 §7.3',
      'a response with a cookie and no lifetime',
      gives(cookie, `Last-Modified: ${date(-86_400)}`),
      fetched(),
    ),
    required(
      'RFC 9111 §5.2.2.7',
      'a private cookie',
      gives('Cache-Control: max-age=60, private="set-cookie"', cookie),
      cached({ lacks: ['Set-Cookie'] }),
    ),
    required('RFC 9111 §7.3', 'a request with a cookie', gives(hour), cached({ fields: ['Cookie: a=b'] })),
    required(
      'RFC 9111 §7.3',
      'a response to a request with a cookie',
      fetched({ fields: ['Cookie: a=b'], reply: { fields: [hour] } }),
      cached(),
    ),
  ],
  { cache: { setCookie: 'store' } },
);

table(
  'cookies that are taken from what is stored',
  [
    required(
      'RFC 9111 §7.3',
      'a cookie is not for everyone',
      { ...gives(hour, cookie), has: [cookie] },
      cached({ lacks: ['Set-Cookie'] }),
    ),
    required(
      'RFC 9111 §7.3',
      'a cookie of a validation is for one, too',
      gives(short, 'ETag: "a"'),
      validated({ wait: 10 }, cookie),
      cached({ lacks: ['Set-Cookie'] }),
    ),
  ],
  { cache: { setCookie: 'strip' } },
);

table('cookies that keep a response out', [
  required('RFC 9111 §7.3', 'of a response', gives(hour, cookie), fetched()),
  required('RFC 9111 §7.3', 'not of a request', gives(hour), cached({ fields: ['Cookie: a=b'] })),
]);

const credentials = { fields: ['Authorization: Basic QTpC'] };
const authorized = (directives: string) =>
  fetched({ ...credentials, reply: { fields: [`Cache-Control: ${directives}`] } });

table('Authorization', [
  required('RFC 9111 §3.5', 'max-age is no permission', authorized('max-age=60'), fetched(credentials)),
  required('RFC 9111 §3.5', 'max-age is no permission to anyone', authorized('max-age=60'), fetched()),
  required(
    'RFC 9111 §3.5',
    'nor is Expires',
    fetched({ ...credentials, reply: { fields: [`Expires: ${date(60)}`] } }),
    fetched(credentials),
  ),
  required(
    'RFC 9111 §3.5',
    'nor is proxy-revalidate',
    authorized('max-age=60, proxy-revalidate'),
    fetched(credentials),
  ),
  required('RFC 9111 §3.5', 'nor a malformed public', authorized('max-age=60, public=yes'), fetched(credentials)),
  required('RFC 9111 §3.5', 'public', authorized('max-age=60, public'), cached(credentials)),
  required('RFC 9111 §3.5', 'must-revalidate', authorized('max-age=60, must-revalidate'), cached(credentials)),
  required('RFC 9111 §3.5', 's-maxage', authorized('s-maxage=60'), cached(credentials)),
  required('RFC 9111 §3.5', 'public, and another client', authorized('max-age=60, public'), cached()),
  required(
    'RFC 9111 §3.5',
    'what is stored is for those with credentials, too',
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
    'a validation of one with credentials brings nothing for others',
    gives(short, 'ETag: "a"'),
    fetched({ wait: 10, ...credentials, reply: { fields: [short, 'ETag: "b"'] } }),
    fetched(),
  ),
]);
