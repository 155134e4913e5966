/** The executable with few file descriptors: responses when none is free, and the descriptors reserved for origins and files. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { RawClient, type RawResponse, rawValues } from '../support/clients/raw-client.ts';
import { until } from '../support/clocks/until.ts';
import { itOnLinux, openDescriptors } from '../support/processes/process-status.ts';
import { itWith, runProgram } from '../support/processes/programs.ts';
import { type RangewayProcess, startLine } from '../support/processes/rangeway-process.ts';

let dir: string;
let origin: Server;
let originUrl: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-descriptors-'));
  origin = createServer((_, response) => {
    response.writeHead(200, { 'cache-control': 'max-age=600', 'content-length': 5 }).end('bytes');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(async () => {
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

/** Starts the executable with a limit on its descriptors. */
async function startWith(descriptors: number): Promise<RangewayProcess & { readonly port: number }> {
  const flags = `--listen 127.0.0.1:0 --dir ${dir}`;
  const line = `ulimit -n ${descriptors} && exec "${process.execPath}" bin/rangeway.js ${originUrl} ${flags}`;
  const started = startLine(line);
  const [, port = ''] = await started.waitFor(/ready on http:\/\/127\.0\.0\.1:(\d+)/);
  return { ...started, port: Number(port) };
}

async function ask(client: RawClient, path: string): Promise<RawResponse> {
  client.send(`GET ${path} HTTP/1.1\r\nHost: files.example\r\n\r\n`);
  const response = await client.response();
  if (response === undefined) throw new Error(`no response to ${path}`);
  return response;
}

describe('a process without a free file descriptor', () => {
  itWith(['prlimit'], 'answers 503 as its own fault, not the origin’s, and goes on serving hits', async () => {
    await using rangeway = await startWith(256);
    await using client = await RawClient.open(rangeway.port);
    expect((await ask(client, '/stored')).status).toBe(200);
    // Closes the pooled connection to the origin, so that the next miss needs a new descriptor.
    const before = openDescriptors(rangeway.pid);
    origin.closeIdleConnections();
    await until('the connection to the origin is gone', async () => openDescriptors(rangeway.pid) < before);
    await runProgram('prlimit', ['--pid', String(rangeway.pid), '--nofile=8:256'], dir);
    const missed = await ask(client, '/missed');
    expect(missed.status).toBe(503);
    expect(rawValues(missed, 'proxy-status').join()).toContain('proxy_internal_error');
    expect((await ask(client, '/stored')).status).toBe(200);
    await expect.poll(() => rangeway.output()).toContain('out_of_descriptors');
    await runProgram('prlimit', ['--pid', String(rangeway.pid), '--nofile=256:256'], dir);
    expect((await ask(client, '/missed')).status).toBe(200);
  });
});

describe('a process with few file descriptors', () => {
  itOnLinux(
    'keeps half of them for files, origins and the admin listener, and closes the other connections',
    async () => {
      await using rangeway = await startWith(128);
      const clients: RawClient[] = [];
      let closed = 0;
      for (let count = 0; count < 100; count += 1) {
        const client = await RawClient.open(rangeway.port);
        void client.closed.then(() => {
          closed += 1;
        });
        clients.push(client);
      }
      await until('the connections beyond half of the descriptors are closed', async () => closed >= 36);
      const [first] = clients;
      if (first === undefined) throw new Error('no client');
      expect((await ask(first, '/other')).body.toString()).toBe('bytes');
      const admin = request({ socketPath: join(dir, 'admin.sock'), path: '/healthz' }).end();
      const [answer] = await once(admin, 'response');
      expect(answer.statusCode).toBe(200);
      answer.resume();
      for (const client of clients) client.reset();
    },
  );
});
