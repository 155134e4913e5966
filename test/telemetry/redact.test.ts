import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSecretName, redact } from '../../src/telemetry/redact.ts';

describe('redact', () => {
  it.each<[text: string, want: string]>([
    ['', ''],
    ['/video.mp4', '/video.mp4'],
    ['/video.mp4?t=10&quality=high', '/video.mp4?t=10&quality=high'],
    ['/a?token=abc', '/a?token=[redacted]'],
    ['/a?x=1&TOKEN=abc&y=2', '/a?x=1&TOKEN=[redacted]&y=2'],
    ['/a?token=', '/a?token=[redacted]'],
    ['/a?v=1&rw-expires=9&rw-key=k1&rw-signature=abc', '/a?v=1&rw-expires=9&rw-key=[redacted]&rw-signature=[redacted]'],
    ['/a?rw%2Dsignature=abc&RW-Signature=def', '/a?rw%2Dsignature=[redacted]&RW-Signature=[redacted]'],
    ['/a?X-API-Key=abc&x_api_key=def&api-key=ghi', '/a?X-API-Key=[redacted]&x_api_key=[redacted]&api-key=[redacted]'],
    ['/a?authorization=Basic%20abc&xApiKey=def', '/a?authorization=[redacted]&xApiKey=[redacted]'],
    ['/a?token', '/a?token'],
    ['/a?=abc', '/a?=abc'],
    ['/a?token=a=b==', '/a?token=[redacted]'],
    ['/a?token=abc;def&x=1', '/a?token=[redacted]&x=1'],
    ['/a?token=abc?def', '/a?token=[redacted]'],
    ['/a?x=1;sig=abc;y=2', '/a?x=1;sig=[redacted];y=2'],
    ['/a?next=/b?code=abc', '/a?next=/b?code=[redacted]'],
    ['/a?%74oken=abc', '/a?%74oken=[redacted]'],
    ['/a?%zz%74oken=abc', '/a?%zz%74oken=[redacted]'],
    ['/cb?code=1&state=abc&x=1', '/cb?code=[redacted]&state=[redacted]&x=1'],
    ['/acs?SAMLResponse=PHNhbWw%2B&RelayState=x', '/acs?SAMLResponse=[redacted]&RelayState=x'],
    ['/login?user=ada&pw=abc&otp=123', '/login?user=ada&pw=[redacted]&otp=[redacted]'],
    ['/a?%zz=1&key=abc', '/a?%zz=1&key=[redacted]'],
    ['/a?filter[api_key]=abc', '/a?filter[api_key]=[redacted]'],
    ['/a?token=abc#top', '/a?token=[redacted]#top'],
    ['/token=abc', '/token=abc'],
    ['/a&token=abc', '/a&token=[redacted]'],
    ['http://ada:lovelace@example.org/a', 'http://[redacted]@example.org/a'],
    ['http://token@example.org', 'http://[redacted]@example.org'],
    ['HTTPS://a:p@ss@example.org/@b', 'HTTPS://[redacted]@example.org/@b'],
    [
      'connect failed: http://a:b@h:80 and http://c:d@i',
      'connect failed: http://[redacted]@h:80 and http://[redacted]@i',
    ],
    ['/npm/@scope/package', '/npm/@scope/package'],
    ['http://a://b:c@d/e', 'http://a://[redacted]@d/e'],
    ['http://[redacted]@h/?u=ftp://a@b', 'http://[redacted]@h/?u=ftp://[redacted]@b'],
    ['/a?sessionid=1&PHPSESSID=2&ssid=3', '/a?sessionid=[redacted]&PHPSESSID=[redacted]&ssid=[redacted]'],
    ['/a;jsessionid=1?accesskey=2&authkey=3', '/a;jsessionid=[redacted]?accesskey=[redacted]&authkey=[redacted]'],
    ['/a?tkn=1&SAMLRequest=2&hdntl=3&x=4', '/a?tkn=[redacted]&SAMLRequest=[redacted]&hdntl=[redacted]&x=4'],
    ['/a?reset=1&invite=2&magic=3', '/a?reset=[redacted]&invite=[redacted]&magic=[redacted]'],
    ['/a?oauth_verifier=1&oauthVerifier=2', '/a?oauth_verifier=[redacted]&oauthVerifier=[redacted]'],
    ['a'.repeat(20_000), `${'a'.repeat(16_384)}… (3616 more characters)`],
    ['/a?mail=ada@example.org', '/a?mail=ada@example.org'],
    ['/a\r\nGET /b 200', '/a\\x0d\\x0aGET /b 200'],
    ['/a\u001b[2J\u0000\u007f\u009b', '/a\\x1b[2J\\x00\\x7f\\x9b'],
    ['/a\u2028b\u202ec', '/a\\u2028b\\u202ec'],
    ['/caf\u00e9', '/caf\u00e9'],
    ['/a?tok\ten=abc&token=a\tb', '/a?tok\\x09en=abc&token=[redacted]\\x09b'],
  ])('%j', (text, want) => expect(redact(text)).toBe(want));

  it('never writes a control character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the test looks for them
        expect(redact(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
      }),
    );
  });

  it('never writes the value of a secret parameter, wherever it stands', () => {
    const part = fc.constantFrom('?', '&', ';', '/', 'a', 'x=1', 'key', '=', '%3D');
    const parts = fc.array(part, { maxLength: 6 }).map((all) => all.join(''));
    fc.assert(
      fc.property(parts, fc.constantFrom('?', '&', ';'), parts, (before, separator, after) => {
        expect(redact(`/${before}${separator}token=SECRET${after}`)).not.toContain('SECRET');
      }),
    );
  });
});

describe('isSecretName', () => {
  it.each([
    'token',
    'access_token',
    'id_token',
    'accessToken',
    'X-Plex-Token',
    'csrftoken',
    'key',
    'api_key',
    'apiKey',
    'apikey',
    'Key-Pair-Id',
    'AWSAccessKeyId',
    'sig',
    'signature',
    'Signature',
    'password',
    'passwd',
    'pwd',
    'secret',
    'client_secret',
    'auth',
    'authorization',
    'code',
    'Policy',
    'session',
    'session-id',
    'sid',
    'jwt',
    'credentials',
    'X-Amz-Signature',
    'x-amz-credential',
    'X-Goog-Expires',
    'hdnts',
    'pw',
    'user_pw',
    'otp',
    'pin',
    'userPin',
    'ticket',
    'assertion',
    'client_assertion',
    'SAMLResponse',
    'SAMLart',
    'hmac',
    'sas',
    'state',
    'nonce',
    'hash',
    'refresh',
  ])('%s is secret', (name) => expect(isSecretName(name)).toBe(true));

  it.each([
    '',
    't',
    'page',
    'keyword',
    'monkey',
    'author',
    'country_code',
    'barcode',
    'signal',
    'side',
    'expires',
    'x-amp',
    'pinned',
    'spin',
    'tickets',
    'hashtag',
    'us_state',
    'auto_refresh',
    'opinion',
  ])('%s is not secret', (name) => expect(isSecretName(name)).toBe(false));
});
