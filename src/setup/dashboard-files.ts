/** Reads the built dashboard. This is the only place that knows where its files are. */

import type { ReadDashboardFiles } from '../admin/page.ts';
import { readPackageFolder } from './package-files.ts';

const folder = 'dist/dashboard';

/** The names that are served; a license notice, for example, is not. */
const servedName = /^(?:index\.html|favicon\.svg|assets\/[\w.-]+)$/;

let files: ReadonlyMap<string, Uint8Array> | undefined;

/**
 * Returns the dashboard's files by their names, with `/` between folders. They are read once, so that the page and its assets are
 * of the same build. Returns undefined where the dashboard is not built.
 */
export const readDashboardFiles: ReadDashboardFiles = () => {
  if (files !== undefined) return files;
  const served = new Map([...readPackageFolder(folder)].filter(([name]) => servedName.test(name)));
  if (served.has('index.html')) files = served;
  return files;
};
