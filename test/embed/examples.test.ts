/** Runs the very files of examples/, with the package name resolved to the source. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const entry = new URL('../../src/index.ts', import.meta.url).href;
const hooks = `data:text/javascript,import{registerHooks}from'node:module';registerHooks({resolve:(s,c,n)=>n(s==='rangeway'?'${entry}':s,c)})`;
const origin = createServer((_request, response) => response.end('0123456789abcdef'));

beforeAll(async () => {
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});
afterAll(() => {
  origin.closeAllConnections();
  origin.close();
});

function run(name: string) {
  const ORIGIN = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  const file = new URL(`../../examples/${name}`, import.meta.url).pathname;
  return spawn(process.execPath, ['--import', hooks, file], {
    env: { ...process.env, ORIGIN, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** Runs a server, calls `use` with its URL, and checks that SIGTERM ends it. */
async function withServer(name: string, use: (url: string) => Promise<void>): Promise<void> {
  const program = run(name);
  const exited = once(program, 'exit');
  try {
    const [line] = await once(program.stdout, 'data');
    await use(`http://127.0.0.1:${(JSON.parse(String(line)) as AddressInfo).port}`);
  } finally {
    program.kill('SIGTERM');
  }
  expect(await exited).toEqual([0, null]);
}

const ofTen = { headers: { range: 'bytes=0-9', connection: 'close' } };

describe('the examples', () => {
  it.each([
    ['node-http.ts', '/file'],
    ['express.ts', '/media/file'],
  ])('%s', (name, path) =>
    withServer(name, async (url) => {
      const response = await fetch(`${url}${path}`, ofTen);
      expect([response.status, await response.text()]).toEqual([206, '0123456789']);
    }),
  );

  it('http2.ts', () =>
    withServer('http2.ts', async (url) => {
      const session = connect(url);
      const stream = session.request({ ':path': '/file', range: 'bytes=0-9' });
      expect(await text(stream)).toBe('0123456789');
      await new Promise<void>((resolve) => session.close(resolve));
    }));

  it('fetch.ts', async () => {
    const program = run('fetch.ts');
    expect(await text(program.stdout)).toMatch(/^206 bytes 0-9\/(16|\*) 10\n$/);
  });
});
