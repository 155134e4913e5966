/** The middleware in development servers: connect, on which webpack-dev-server and Vite build, and Vite by its example. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import connect from 'connect';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRangeway, type Rangeway } from '../../src/index.ts';

const origin = createServer((request, response) => {
  response.setHeader('cache-control', 'max-age=60');
  response.end(`0123456789 of ${request.url}`);
});
const ofFour = { headers: { range: 'bytes=0-3', connection: 'close' } };

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

let originUrl: string;
beforeAll(async () => {
  originUrl = await listening(origin);
});
afterAll(() => {
  origin.closeAllConnections();
  origin.close();
});

describe('connect, as setupMiddlewares of webpack-dev-server fills it', () => {
  /** A list of middleware as webpack-dev-server has it: functions, or objects with a name and perhaps a path. */
  async function open(rangeway: Rangeway, before: (app: connect.Server) => void = () => {}): Promise<Server> {
    const app = connect();
    before(app);
    const list = [{ name: 'rangeway', middleware: rangeway.middleware }];
    for (const { middleware } of list) app.use(middleware);
    app.use((_request, response) => response.end('the page'));
    app.use(
      (error: Error, _request: unknown, response: { statusCode: number; end(text: string): void }, _next: unknown) => {
        response.statusCode = 599;
        response.end(error.message);
      },
    );
    return createServer(app);
  }

  const routes = () => [{ match: { pathPrefix: '/media' }, origin: originUrl }];

  it('answers what a route serves, and passes on the rest', async () => {
    await using rangeway = await createRangeway({ routes: routes() });
    const server = await open(rangeway);
    const url = await listening(server);
    const media = await fetch(`${url}/media/film`, ofFour);
    expect([media.status, media.headers.get('content-range'), await media.text()]).toEqual([
      206,
      'bytes 0-3/25',
      '0123',
    ]);
    expect(await (await fetch(`${url}/index.html`, { headers: { connection: 'close' } })).text()).toBe('the page');
    server.close();
  });

  it('gives the error handler a request whose body was read before', async () => {
    await using rangeway = await createRangeway({ routes: routes() });
    const server = await open(rangeway, (app) => {
      app.use((request, _response, next) => {
        request.resume().once('end', next);
      });
    });
    const url = await listening(server);
    const response = await fetch(`${url}/media/up`, { method: 'POST', body: 'x', headers: { connection: 'close' } });
    expect([response.status, await response.text()]).toEqual([599, expect.stringContaining('body')]);
    server.close();
  });
});

describe('examples/vite.config.ts', () => {
  it('serves ranges of the origin beside the page of Vite', async () => {
    const entry = new URL('../../src/index.ts', import.meta.url).href;
    const hooks = `data:text/javascript,import{registerHooks}from'node:module';registerHooks({resolve:(s,c,n)=>n(s==='rangeway'?'${entry}':s,c)})`;
    const at = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
    const args = [
      '--config',
      at('examples/vite.config.ts'),
      '--configLoader',
      'native',
      '--port',
      '0',
      '--host',
      '127.0.0.1',
    ];
    const vite = spawn(
      process.execPath,
      ['--import', hooks, at('node_modules/vite/bin/vite.js'), at('dashboard'), ...args],
      {
        env: { ...process.env, ORIGIN: originUrl, NO_COLOR: '1' },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    let output = '';
    try {
      for await (const chunk of vite.stdout) {
        output += chunk;
        if (/Local:\s+http:\S+/.test(output)) break;
      }
      const url = /Local:\s+(http:\S+?)\/?\s/.exec(`${output} `)?.[1];
      const media = await fetch(`${url}/media/film`, ofFour);
      expect([media.status, await media.text()], output).toEqual([206, '0123']);
      expect(
        await (await fetch(`${url}/`, { headers: { connection: 'close', accept: 'text/html' } })).text(),
      ).toContain('<!doctype html>');
    } finally {
      vite.kill('SIGTERM');
      await once(vite, 'exit');
    }
  });
});
