/** The log lines about the store. */

/** Returns the log lines about the store with these levels; by default those above `info`. */
export function storeLines(output: string, levels: RegExp = /^(?:warn|error)$/): string[] {
  return output.split('\n').filter((line) => {
    if (!line.includes('"event":"store"')) return false;
    const { level } = JSON.parse(line) as { level: string };
    return levels.test(level);
  });
}
