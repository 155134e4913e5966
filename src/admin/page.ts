/** Serves the dashboard's page and its assets. They contain no data: the page asks the API, which checks access. */

import { problemResponse } from '../delivery/problem.ts';
import type { Fields } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';

/** Returns the dashboard's files by name, such as `assets/index-1a2b.js`; undefined where it is not built. */
export type ReadDashboardFiles = () => ReadonlyMap<string, Uint8Array> | undefined;

/** The dashboard of a server. */
export interface Dashboard {
  readonly readFiles: ReadDashboardFiles;
  /** Where browsers find it, such as `http://127.0.0.1:9180`; undefined while there is no listener that they can reach. */
  url: string | undefined;
}

/** The page runs only its own scripts and asks only its own server. No other page may frame it. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join('; ');

const pageFields: Fields = [
  ['content-security-policy', contentSecurityPolicy],
  ['x-content-type-options', 'nosniff'],
  ['referrer-policy', 'no-referrer'],
  ['cross-origin-opener-policy', 'same-origin'],
  ['cross-origin-resource-policy', 'same-origin'],
];

const contentTypes: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json',
  png: 'image/png',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
};

const pageName = 'index.html';

/** The names of assets contain a digest of their content. */
const assetName = /^assets\/[\w.-]+$/;

const notBuilt = 'The dashboard is not built. Run "npm run build" in the folder of Rangeway.\n';

/** Returns the name of the dashboard's file that a path stands for; undefined for any other path. */
export function pageFileName(path: string): string | undefined {
  if (path === '/') return pageName;
  const name = path.slice(1);
  return name === 'favicon.svg' || assetName.test(name) ? name : undefined;
}

/** Answers a request for a file of the dashboard. Names are looked up in the list of its files, so no other file can be read. */
export function answerPage({ method }: ProxyRequest, name: string, readFiles: ReadDashboardFiles): ProxyResponse {
  const allow: Fields = [['allow', 'GET, HEAD, OPTIONS']];
  if (method === 'OPTIONS') return { status: 204, fields: [...pageFields, ...allow], body: { kind: 'none' } };
  if (method !== 'GET' && method !== 'HEAD') return problemResponse(405, 'This method is not allowed here.', allow);
  const files = readFiles();
  if (files === undefined) return fileResponse(503, Buffer.from(notBuilt), 'text/plain; charset=utf-8', 'no-store');
  const bytes = files.get(name);
  if (bytes === undefined) return problemResponse(404, 'There is nothing here.');
  const type = contentTypes[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
  return fileResponse(200, bytes, type, assetName.test(name) ? 'public, max-age=31536000, immutable' : 'no-cache');
}

function fileResponse(status: number, bytes: Uint8Array, type: string, caching: string): ProxyResponse {
  return {
    status,
    fields: [['content-type', type], ['cache-control', caching], ...pageFields],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
  };
}
