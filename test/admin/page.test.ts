/** The dashboard's files on the admin listener. */

import { describe, expect, it } from 'vitest';
import { openAdminGround } from './admin-ground.ts';

const dashboardFiles = new Map(
  Object.entries({
    'index.html': '<!doctype html>',
    'favicon.svg': '<svg/>',
    'assets/index-1a2b.js': 'let a;',
    'assets/index-3c.css': 'a{}',
  }).map(([name, text]) => [name, Buffer.from(text)]),
);

const year = 'public, max-age=31536000, immutable';

describe('a file of the dashboard', () => {
  it.each<[path: string, type: string, caching: string, text: string]>([
    ['/', 'text/html; charset=utf-8', 'no-cache', '<!doctype html>'],
    ['/?theme=dark', 'text/html; charset=utf-8', 'no-cache', '<!doctype html>'],
    ['/favicon.svg', 'image/svg+xml', 'no-cache', '<svg/>'],
    ['/assets/index-1a2b.js', 'text/javascript; charset=utf-8', year, 'let a;'],
    ['/assets/index-3c.css', 'text/css; charset=utf-8', year, 'a{}'],
  ])('%s is for any client', async (path, type, caching, text) => {
    await using ground = await openAdminGround({ dashboardFiles });
    const answer = await ground.ask('GET', path, []);
    expect([answer.status, answer.type, answer.value('cache-control'), answer.text]).toEqual([
      200,
      type,
      caching,
      text,
    ]);
    expect(answer.value('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    );
    expect([answer.value('x-content-type-options'), answer.value('referrer-policy')]).toEqual([
      'nosniff',
      'no-referrer',
    ]);
    const head = await ground.ask('HEAD', path, []);
    expect([head.status, head.value('content-length')]).toEqual([200, String(text.length)]);
  });

  it.each<[method: string, path: string, lines: readonly string[], status: number]>([
    ['GET', '/index.html', [], 404],
    ['GET', '/LICENSES.md', [], 404],
    ['GET', '/assets/', [], 404],
    ['GET', '/assets/other.js', [], 404],
    ['GET', '/assets/../index.html', [], 404],
    ['GET', '/assets/../../package.json', [], 404],
    ['GET', '/assets/..%2f..%2fpackage.json', [], 404],
    ['GET', '/assets/%2e%2e/%2e%2e/package.json', [], 404],
    ['GET', '/assets/..', [], 404],
    ['GET', '//etc/passwd', [], 404],
    ['GET', '/assets/index-1a2b.js%00.css', [], 404],
    ['GET', '/', ['Host: evil.test'], 421],
    ['GET', '/', ['Origin: http://evil.test'], 403],
    ['GET', '/', ['Sec-Fetch-Site: cross-site'], 403],
    ['POST', '/', [], 405],
    ['OPTIONS', '/', [], 204],
  ])('%s %s %j: %i', async (method, path, lines, status) => {
    await using ground = await openAdminGround({ dashboardFiles });
    expect((await ground.ask(method, path, lines)).status).toBe(status);
  });

  it('is absent where the dashboard is not built, and the page says how to build it', async () => {
    await using ground = await openAdminGround();
    const answer = await ground.ask('GET', '/', []);
    expect([answer.status, answer.type]).toEqual([503, 'text/plain; charset=utf-8']);
    expect(answer.text).toContain('npm run build');
  });
});
