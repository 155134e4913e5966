/** Names of the index's rows that count room for files that no entry counts, until a sweep has removed those files. */

/** No process has such a name: their names are of letters and digits. */
const prefix = 'left over: ';

/** The name of the row that counts what a process, or a change of the index, has left in files. */
export function leftOverName(of: string): string {
  return isLeftOverName(of) ? of : `${prefix}${of}`;
}

/** Whether a row has such a name. */
export function isLeftOverName(name: string): boolean {
  return name.startsWith(prefix);
}
