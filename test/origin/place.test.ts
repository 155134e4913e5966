/** The socket path, host and base path of an origin, from its URL. */

import { describe, expect, it } from 'vitest';
import { basePathOf, hostOfOrigin, socketPathOf } from '../../src/origin/origin.ts';

describe('the place of an origin', () => {
  it.each<[url: string, socketPath: string | undefined, host: string, basePath: string]>([
    ['http://a.test', undefined, 'a.test', ''],
    ['https://a.test:443/', undefined, 'a.test', ''],
    ['https://a.test:8443/base/', undefined, 'a.test:8443', '/base'],
    ['http://[::1]:80/a/b', undefined, '[::1]', '/a/b'],
    ['unix:/run/app.sock', '/run/app.sock', 'localhost', ''],
  ])('%s', (text, socketPath, host, basePath) => {
    const url = new URL(text);
    expect([socketPathOf(url), hostOfOrigin(url), basePathOf(url)]).toEqual([socketPath, host, basePath]);
  });
});
