/** A server process in front of a faulty origin: several routes, each with its own knowledge of the origin; short timeouts. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type RangewayProcess, startRangeway } from './rangeway-process.ts';

/** A started server. */
export type FaultServer = RangewayProcess & { readonly url: string };

/** Options of the server. */
export interface FaultServerOptions {
  readonly originUrl: string;
  /** The directory of the configuration file and of the store. */
  readonly dir: string;
  /** The routes, named by the first segments of their paths. Each learns by itself whether the origin has ranges. */
  readonly routes: readonly string[];
  /** The routes that always ask for ranges (`origin.ranges`: "always"). */
  readonly stubborn?: readonly string[];
  readonly blockSizeBytes: number;
  readonly memoryBytes?: number;
  readonly bodyTimeoutSeconds?: number;
  readonly shutdownGraceSeconds?: number;
  readonly resumeAttempts?: number;
  /** `fill.parallel` of all routes. */
  readonly parallel?: { readonly minBytes: string; readonly partBytes: string };
}

/** Starts the server on a free port, and waits until it listens. */
export async function startFaultServer(options: FaultServerOptions): Promise<FaultServer> {
  const { originUrl, dir, routes, stubborn = [], blockSizeBytes, memoryBytes = 1_000_000 } = options;
  const { bodyTimeoutSeconds = 10, shutdownGraceSeconds = 0.1, resumeAttempts = 6, parallel } = options;
  const config = {
    listen: '127.0.0.1:0',
    store: { dir: join(dir, 'store'), memoryBytes, blockSizeBytes },
    log: { level: 'debug', format: 'json' },
    shutdownGraceSeconds,
    routes: routes.map((name) => ({
      name,
      match: { pathPrefix: `/${name}/` },
      origin: {
        url: originUrl,
        bodyTimeoutSeconds,
        headersTimeoutSeconds: 10,
        keepAliveTimeoutSeconds: 1,
        ranges: stubborn.includes(name) ? 'always' : 'auto',
      },
      fill: { resumeAttempts, parallel },
    })),
  };
  const path = join(dir, 'rangeway.json');
  await writeFile(path, JSON.stringify(config));
  const started = startRangeway(['--config', path]);
  const [, url = ''] = await started.waitFor(/ready on (http:[^\s",]+),/);
  return { ...started, url };
}
