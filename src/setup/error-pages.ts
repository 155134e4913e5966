/** From the configuration to the pages that are sent in place of our own errors. */

import { readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import type { RouteConfig } from '../config/schema.ts';
import { createErrorPages, type ErrorPage, type ErrorPages, noErrorPages } from '../delivery/error-page.ts';

/** Pages are kept in memory, and sent to whoever provokes an error. */
const maxPageBytes = 1024 * 1024;

/** Media types by the end of a file's name: those that the option allows. */
const mediaTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.htm': 'text/html',
  '.txt': 'text/plain',
  '.json': 'application/json',
  '.xml': 'application/xml',
  '.svg': 'image/svg+xml',
};

/** Reads the pages of a route. Rejects when one cannot be read, and when one is larger than 1 MiB. */
export async function readErrorPages({ errorPages }: RouteConfig): Promise<ErrorPages> {
  const named = Object.entries(errorPages);
  if (named.length === 0) return noErrorPages;
  const pages = await Promise.all(
    named.map(async ([statuses, path]): Promise<[string, ErrorPage]> => [statuses, await readPage(path)]),
  );
  return createErrorPages(new Map(pages));
}

async function readPage(path: string): Promise<ErrorPage> {
  const bytes = await readWhole(path);
  const mediaType = mediaTypes[extname(path).toLowerCase()] ?? 'application/octet-stream';
  return { mediaType, contentType: mediaType.startsWith('text/') ? `${mediaType}; charset=utf-8` : mediaType, bytes };
}

async function readWhole(path: string): Promise<Uint8Array> {
  const { size } = await stat(path);
  if (size > maxPageBytes) throw new Error(`the error page ${path} is larger than 1 MiB: ${size} bytes`);
  try {
    return await readFile(path);
  } catch (error) {
    // Not every error of the system tells the path: that of a directory does not.
    throw new Error(`the error page ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}
