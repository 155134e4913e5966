/** A server of node:http2 in cleartext that puts ranges in front of an origin. ORIGIN and PORT come from the environment. */

import { createServer } from 'node:http2';
import { createRangeway } from 'rangeway';

const { ORIGIN = 'http://127.0.0.1:3000', PORT = '8080' } = process.env;
const rangeway = await createRangeway(ORIGIN);
const server = createServer(rangeway.handler);
server.listen(Number(PORT), '127.0.0.1', () => process.stdout.write(`${JSON.stringify(server.address())}\n`));
process.once('SIGTERM', async () => {
  server.close();
  await rangeway.close({ graceMs: 5000 });
});
