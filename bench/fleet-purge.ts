/**
 * `node bench/fleet-purge.ts`: how long a purge takes that three nodes on one engine apply before it is answered. `--purges 300` is the
 * number, `--load 200` the requests a second that the nodes get meanwhile.
 */

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { adminConfig, adminEnvironment, findAdmin } from '../test/support/clients/admin-client.ts';
import { startRedisServer } from '../test/support/engines/redis-server.ts';
import { type RangewayProcess, startConfigured } from '../test/support/processes/rangeway-process.ts';

const { values } = parseArgs({
  options: { purges: { type: 'string', default: '300' }, load: { type: 'string', default: '200' } },
});
const dir = await mkdtemp(join(tmpdir(), 'rangeway-purges-'));
const engine = await startRedisServer();
const origin = createServer((_, response) => {
  response.writeHead(200, { 'cache-control': 'max-age=600', etag: '"1"' });
  response.end('a page');
}).listen(0, '127.0.0.1');
await new Promise((resolve) => origin.once('listening', resolve));
await writeFile(join(dir, 'secret'), 'the secret of the nodes of a benchmark');

const nodes: (RangewayProcess & { readonly url: string })[] = [];
for (let count = 0; count < 3; count += 1) {
  const own = join(dir, `node-${count}`);
  await mkdir(own);
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'redis', url: `redis://127.0.0.1:${engine.port}` },
    fleet: { secret: `file:${join(dir, 'secret')}` },
    admin: adminConfig,
    routes: [{ origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}` }],
  };
  nodes.push(await startConfigured(own, config, adminEnvironment));
}

const headers = { 'x-forwarded-host': 'files.example', 'x-forwarded-proto': 'http' };
const get = async (node: number, path: string) => {
  const response = await fetch(`${nodes[node]?.url}${path}`, { headers });
  await response.arrayBuffer();
};
let isOver = false;
const load = (async () => {
  for (let count = 0; !isOver; count += 1) {
    void get(count % 3, `/page-${count % 100}`).catch(() => {});
    await delay(1000 / Number(values.load));
  }
})();
const admin = await findAdmin(nodes[0] as RangewayProcess);
const times: number[] = [];
for (let count = 0; count < Number(values.purges); count += 1) {
  const path = `/page-${count % 100}`;
  await get(1, path);
  const began = performance.now();
  const { status } = await admin('POST', '/api/v1/purge', { url: `${nodes[1]?.url}${path}`, mode: 'hard' });
  if (status === 200) times.push(performance.now() - began);
}
isOver = true;
await load;
times.sort((one, other) => one - other);
const at = (share: number) => `${(times[Math.floor(times.length * share)] ?? 0).toFixed(1)} ms`;
console.log(`${times.length} of ${values.purges} purges: p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}`);

for (const node of nodes) await node[Symbol.asyncDispose]();
origin.close();
await engine[Symbol.asyncDispose]();
await rm(dir, { recursive: true, force: true });
