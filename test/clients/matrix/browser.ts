/** Chromium for the clients of the matrix: one for all of them, with a new context each time. */

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium } from 'playwright-core';
import { findProgram } from '../../support/processes/programs.ts';
import { type Place, within } from './client.ts';

const switches = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--autoplay-policy=no-user-gesture-required',
];

/** The packages of test/clients/package.json. */
const packages = fileURLToPath(new URL('../node_modules', import.meta.url));

let started: Promise<Browser> | undefined;
let elsewhere: Server | undefined;

/** Closes the browser and the server of the other origin, if a client has started them. */
export async function closeBrowser(): Promise<void> {
  await (await started)?.close();
  started = undefined;
  if (elsewhere === undefined) return;
  elsewhere.closeAllConnections();
  await once(elsewhere.close(), 'close');
  elsewhere = undefined;
}

/** Returns the origin of a page that uses files of another origin. */
export async function otherOrigin(): Promise<string> {
  if (elsewhere === undefined) {
    elsewhere = createServer((_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!DOCTYPE html><title>Page</title>'),
    );
    elsewhere.listen(0, '127.0.0.1');
    await once(elsewhere, 'listening');
  }
  return `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`;
}

/** Returns the text of a file of a package, from which a page makes a module. */
export function librarySource(path: string): Promise<string> {
  return readFile(join(packages, path), 'utf8');
}

/**
 * Runs a script in a page: an expression of a function, which gets the argument. The page is at `origin`, by default at the server
 * that the client asks, so that no rule for other origins applies. Requests are not intercepted: with that Chromium sends
 * `Cache-Control: no-cache`. Rejects with the error of the script.
 */
export async function runInPage<T>(
  place: Place,
  script: string,
  argument: unknown,
  origin: string = place.root,
): Promise<T> {
  started ??= chromium.launch({ executablePath: findProgram('chromium') ?? '', args: switches });
  const context = await (await started).newContext();
  try {
    const page = await context.newPage();
    // Any document of the origin, such as the one that says that there is no such file.
    await page.goto(`${origin}/page`);
    await page.setContent('<!DOCTYPE html><title>Page</title>');
    const result = page.evaluate<T>(`(${script})(${JSON.stringify(argument)})`);
    await within(
      place,
      result.then(() => undefined),
    );
    return await result;
  } finally {
    await context.close();
  }
}
