/** `npm run simulate`: simulates fleets of nodes on generated media traffic. docs/scaling.md describes the model and a run. */

import { writeFileSync } from 'node:fs';
import { simulateAll } from './simulation/run.ts';
import { parseSimulateOptions, simulateUsage } from './simulation/simulate-options.ts';
import { drawSimulation, formatSimulation } from './simulation/simulation-report.ts';

process.exitCode = await main();

async function main(): Promise<number> {
  const parsed = parseSimulateOptions(process.argv.slice(2));
  if (parsed.kind === 'help') {
    console.log(simulateUsage);
    return 0;
  }
  if (parsed.kind === 'refused') {
    console.error(`simulate: ${parsed.reason}`);
    return 2;
  }
  const { nodeCounts, scenario, svg } = parsed.options;
  const results = await simulateAll(scenario, nodeCounts);
  console.log(formatSimulation(results, parsed.options));
  if (svg === undefined) return 0;
  const plot = drawSimulation(results);
  if (plot === undefined) {
    console.error('simulate: --svg needs at least two numbers of nodes');
    return 2;
  }
  writeFileSync(svg, plot);
  return 0;
}
