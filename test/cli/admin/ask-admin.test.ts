/** Messages of commands where no server answers, or another program does, or the token is wrong. */

import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createNetServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { openCommandGround, runCommand } from '../../support/proxies/admin-commands-ground.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function closedPort(): Promise<number> {
  const server = createNetServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

const json = { 'content-type': 'application/json' };

describe('a place without a server', () => {
  it('refuses connections', async () => {
    const port = await closedPort();
    for (const [place, shown] of [
      [String(port), `http://127.0.0.1:${port}`],
      ['unix:/nowhere/admin.sock', 'unix:/nowhere/admin.sock'],
    ] as const) {
      expect(await runCommand(['ls', '--admin', place])).toEqual({
        code: 1,
        stdout: '',
        stderr: `rangeway: no server listens at ${shown}: start Rangeway, or say with --admin where its admin listener is\n`,
      });
    }
  });

  it.each<[what: string, answer: RequestListener]>([
    ['an HTML page', (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>')],
    ['an error', (_, response) => response.writeHead(404).end('no')],
    ['an error as JSON', (_, response) => response.writeHead(500, json).end('{"error":1}')],
    ['other JSON', (_, response) => response.writeHead(200, json).end('[1]')],
    ['invalid JSON', (_, response) => response.writeHead(200, json).end('{"entries":')],
    ['an empty response', (_, response) => response.writeHead(204).end()],
    ['another protocol', (request) => request.socket.end('220 mail.example ESMTP\r\n')],
  ])('%s is the answer', async (_what, answer) => {
    const url = await serve(answer);
    expect(await runCommand(['ls', '--admin', url])).toEqual({
      code: 1,
      stdout: '',
      stderr: `rangeway: what answers at ${url} is not the admin listener of a Rangeway\n`,
    });
  });

  it('requests keep the path of --admin', async () => {
    const asked: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      asked.push(request.url);
      response.writeHead(200, json).end('{"entries":[]}');
    });
    expect((await runCommand(['ls', '--admin', `${url}/rangeway/`, '--tag', 'a'])).code).toBe(0);
    expect(asked).toEqual(['/rangeway/api/v1/entries?tag=a&limit=500']);
  });

  it('is reported once where warm has many URLs', async () => {
    const port = await closedPort();
    const urls = Array.from({ length: 20 }, (_, index) => `http://a/${index}`);
    const { code, stderr } = await runCommand(['warm', '--admin', String(port), ...urls]);
    expect(code).toBe(1);
    expect(stderr.match(/no server listens/g)).toHaveLength(1);
  });
});

describe('a token', () => {
  it('is missing', async () => {
    await using ground = await openCommandGround();
    expect(await runCommand(['ls', '--admin', ground.place])).toEqual({
      code: 1,
      stdout: '',
      stderr: `rangeway: http://${ground.place} asks for a token: name it with --token env:NAME or file:PATH, or set RANGEWAY_ADMIN_TOKEN\n`,
    });
  });

  it('is wrong', async () => {
    await using ground = await openCommandGround();
    const env = { OTHER: 'another-token-of-20-x' };
    const { code, stderr } = await runCommand(['ls', '--admin', ground.place, '--token', 'env:OTHER'], env);
    expect(code).toBe(1);
    expect(stderr).toContain('does not take this token');
    expect(stderr).not.toContain(env.OTHER);
  });

  it.each(['a\nb', 'a b', 'ü'])('that cannot be sent (%j) is not printed', async (token) => {
    await using ground = await openCommandGround();
    const { code, stdout, stderr } = await runCommand(['ls', '--admin', ground.place], { RANGEWAY_ADMIN_TOKEN: token });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^rangeway: .*\n$/);
    expect(stderr).not.toContain(token);
  });
});
