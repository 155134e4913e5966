/** `npm run bench:micro`: measures one call of each small function on the hot path, in nanoseconds and bytes. */

import { findMicroCases, measureMicro } from './micro-case.ts';
import { formatFigure, formatTable } from './table.ts';

process.exitCode = await main(process.argv.slice(2));

/** Runs all cases, or those whose `file: case` name contains one of the arguments. Returns the exit code. */
async function main(wanted: readonly string[]): Promise<number> {
  const isWanted = (text: string) => wanted.length === 0 || wanted.some((part) => text.includes(part));
  let measured = 0;
  for (const [file, cases] of await findMicroCases()) {
    const chosen = cases.filter(({ name }) => isWanted(`${file}: ${name}`));
    if (chosen.length === 0) continue;
    measured += chosen.length;
    const rows = chosen.map((each) => {
      const { medianNs, lowNs, highNs, allocatedBytes } = measureMicro(each);
      const spread = `${formatFigure(lowNs, 1)} to ${formatFigure(highNs, 1)}`;
      return [each.name, formatFigure(medianNs, 1), spread, formatFigure(allocatedBytes, 0)];
    });
    console.log(`${file}\n${formatTable([['', 'ns', 'half of all', 'bytes'], ...rows])}\n`);
  }
  if (measured > 0) return 0;
  console.error(`bench: no case is called ${wanted.join(' or ')}`);
  return 2;
}
