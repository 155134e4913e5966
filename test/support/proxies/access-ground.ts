/** A server process with a route for each option of `access`, in front of an origin whose responses are all public. */

import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, get, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { formatPasswordHash } from '../../../src/guard/access/passwords.ts';
import { startRangeway } from '../processes/rangeway-process.ts';

/** The server must not write any of these anywhere. */
export const secrets = {
  password: 'pass-of-ada-hidden',
  token: 'token-of-robot-hidden',
  key: 'key-of-app-hidden',
  signing: 'signing-secret-hidden',
};

/** A response as its client got it. */
export interface Got {
  readonly status: number | undefined;
  readonly fields: IncomingHttpHeaders;
  readonly body: string;
}

/** The running process, and the origin behind it. */
export interface AccessGround extends AsyncDisposable {
  readonly port: number;
  readonly socketPath: string;
  /** The requests that the origin has received, in order. */
  readonly seen: readonly { readonly target: string; readonly fields: IncomingHttpHeaders }[];
  ask(path: string, headers?: Record<string, string>, options?: RequestOptions): Promise<Got>;
  /** The target that `rangeway sign` prints for a path. */
  sign(path: string, ...flags: string[]): Promise<string>;
  /** Waits until the log has the fill of a target, so that its entry can be found. `target` is as the log shows it. */
  stored(target: string): Promise<void>;
  /** Waits until the log matches, and returns the whole log. */
  log(pattern: RegExp): Promise<string>;
}

const keys = { basic: 'file:users', bearer: 'env:TEST_TOKENS', apiKey: 'env:TEST_KEYS', signedUrls: 'file:./url-keys' };

/** The `access` options of the routes, by the first segment of their paths. */
const accesses: Readonly<Record<string, object>> = {
  '': {},
  open: {},
  allow: { allow: ['127.0.0.1', '2001:db8::/32'] },
  'allow-others': { allow: ['192.0.2.0/24'] },
  deny: { deny: ['192.0.2.66'] },
  both: { allow: ['192.0.2.0/24'], deny: ['192.0.2.66'] },
  basic: { basic: keys.basic, realm: 'Films (1)' },
  bearer: { bearer: keys.bearer },
  key: { apiKey: keys.apiKey },
  signed: { signedUrls: keys.signedUrls },
  all: keys,
  forward: { ...keys, forwardCredentials: true },
};

/** Starts the server and its origin. The host `guarded.example` has a route of its own. */
export async function startAccessGround(): Promise<AccessGround> {
  const dir = mkdtempSync(join(tmpdir(), 'rangeway-access-test-'));
  const seen: { target: string; fields: IncomingHttpHeaders }[] = [];
  const origin = createServer((request, response) => {
    seen.push({ target: request.url ?? '', fields: request.headers });
    const fields = { 'cache-control': 'public, max-age=600', etag: `"${seen.length}"` };
    response.writeHead(200, fields).end(`body ${seen.length}`);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const socketPath = join(dir, 'socket');
  await writeFiles(dir, socketPath, `http://127.0.0.1:${(origin.address() as AddressInfo).port}`);
  const rangeway = startRangeway(['--config', join(dir, 'rangeway.json')], {
    TEST_TOKENS: `# robots\nrobot:${secrets.token}\n\nspare:another-${secrets.token}`,
    TEST_KEYS: `app:${secrets.key}`,
  });
  const [, digits = ''] = await rangeway.waitFor(/ready on http:\/\/127\.0\.0\.1:(\d+)/);
  const port = Number(digits);
  return {
    port,
    socketPath,
    seen,
    async ask(path, headers = {}, options = {}) {
      const request = get({ host: '127.0.0.1', port, path, headers, agent: false, ...options });
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      return { status: response.statusCode, fields: response.headers, body: await text(response) };
    },
    async sign(path, ...flags) {
      const url = `http://127.0.0.1:${port}${path}`;
      await using signing = startRangeway(['sign', url, '--secret', `file:${join(dir, 'url-keys')}`, ...flags]);
      const [, target = ''] = await signing.waitFor(/^http:\/\/[^/]+(\/\S+)\n/);
      return target;
    },
    async stored(target) {
      const shown = target.replaceAll(/[^\w/]/g, '\\$&');
      await rangeway.waitFor(new RegExp(`"event":"fill","key":"[^"]*${shown}["&]`));
    },
    async log(pattern) {
      await rangeway.waitFor(pattern);
      return rangeway.output();
    },
    async [Symbol.asyncDispose]() {
      await rangeway.stop('SIGTERM');
      origin.closeAllConnections();
      await once(origin.close(), 'close');
      rmSync(dir, { recursive: true });
    },
  };
}

async function writeFiles(dir: string, socketPath: string, origin: string): Promise<void> {
  const cheap = await formatPasswordHash(secrets.password, Buffer.alloc(16, 1), { ln: 10, r: 8, p: 1 });
  writeFileSync(join(dir, 'users'), `ada:${cheap}\r\n`);
  writeFileSync(join(dir, 'url-keys'), `2026-1:${secrets.signing}\n`);
  const routes = Object.entries(accesses).map(([name, access]) => ({
    match: { pathPrefix: `/${name}` },
    origin,
    access,
  }));
  const config = {
    listen: ['127.0.0.1:0', `unix:${socketPath}`],
    trustedProxies: ['127.0.0.1'],
    store: { type: 'memory' },
    log: { format: 'json', level: 'debug' },
    routes: [...routes, { match: { hosts: ['guarded.example'] }, origin, access: { basic: keys.basic } }],
  };
  writeFileSync(join(dir, 'rangeway.json'), JSON.stringify(config));
}
