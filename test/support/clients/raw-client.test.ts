/** The raw client with servers that are faster than it. */

import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { RawClient } from './raw-client.ts';

it('opens a connection that is reset before the client sees that it is connected', async () => {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const server = new Worker(
    `const { workerData: cell, parentPort } = require('node:worker_threads');
    const server = require('node:net').createServer((socket) => {
      socket.resetAndDestroy();
      setImmediate(() => { Atomics.store(cell, 0, 1); Atomics.notify(cell, 0); });
    });
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
    { eval: true, workerData: cell },
  );
  const port = await new Promise<number>((resolve) => server.once('message', resolve));
  const opening = RawClient.open(port);
  // connect() runs in the next tick. Its result is seen in a later turn, after this wait.
  process.nextTick(() => Atomics.wait(cell, 0, 0, 10_000));
  const client = await opening;
  expect(await client.rest()).toBe('');
  expect(await client.closed).toBe('ECONNRESET');
  await server.terminate();
});
