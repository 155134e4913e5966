/** Programs that may be installed. */

import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where system programs are although the PATH of an ordinary user does not say so. */
const systemFolders = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** The path of a program, or undefined where it is not installed. */
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
