/** Finds installed programs. */

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Folders of system programs that an ordinary user's PATH may lack. */
const systemFolders = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** Returns the path of a program; undefined where it is not installed. */
export function findProgram(name: string): string | undefined {
  const { PATH = '' } = process.env;
  const folders = [...PATH.split(delimiter), ...systemFolders];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
