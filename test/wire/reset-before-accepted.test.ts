/** A connection that is reset before it is accepted has no peer address. It must not be mistaken for one at a Unix socket. */

import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { openListener, textResponse } from '../support/proxies/open-listener.ts';

/** Sends a request and resets the connection, many times. */
const script = `
  const { connect } = require('node:net');
  for (let count = 0; count < 20; count += 1) {
    const socket = connect({ port: Number(process.argv[1]), host: '127.0.0.1' }, () => {
      socket.write('GET /spoofed HTTP/1.1\\r\\nHost: a\\r\\nX-Forwarded-Host: evil\\r\\n\\r\\n', () => socket.resetAndDestroy());
    });
  }
`;

it('does not serve a connection that is already reset, which it would trust like the peer of a Unix socket', async () => {
  await using listener = await openListener(() => textResponse('x'));
  // `spawnSync` blocks this process, so nothing is accepted meanwhile.
  expect(spawnSync(process.execPath, ['-e', script, String(listener.port)]).status).toBe(0);
  await using client = await listener.connect();
  expect((await client.exchange('GET /honest HTTP/1.1\r\nHost: a\r\n\r\n')).status).toBe(200);
  expect(listener.requests.map(({ target, peer }) => `${target} ${peer.address}`)).toEqual(['/honest 127.0.0.1']);
});
