/** What the log says of the store. */

/** The lines about the store, those above `info` where not told otherwise. */
export function storeLines(output: string, levels: RegExp = /^(?:warn|error)$/): string[] {
  return output.split('\n').filter((line) => {
    if (!line.includes('"event":"store"')) return false;
    const { level } = JSON.parse(line) as { level: string };
    return levels.test(level);
  });
}
