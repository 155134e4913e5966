/** `npm run road`: the files and functions of `src` that one request executes, in the order of their first calls. */

import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { exchanges, protocols, type Road, walkRoads } from './road/walk.ts';
import { formatTable } from './table.ts';

const usage = `npm run road -- [--only NAME,…] [--protocol http1|http2] [--counts] [--json]

  --only NAME,…   of ${exchanges.map(({ name }) => name).join(', ')}
  --protocol P    http1 or http2 only
  --counts        the table of counts only
  --json          everything, for programs`;

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main();

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      protocol: { type: 'string' },
      counts: { type: 'boolean' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  const wanted = values.only?.flatMap((names) => names.split(','));
  const unknown = wanted?.find((name) => !exchanges.some((each) => each.name === name));
  const chosen = protocols.filter((protocol) => values.protocol === undefined || protocol === values.protocol);
  if (values.help === true || unknown !== undefined || chosen.length === 0) {
    (values.help === true ? console.log : console.error)(usage);
    return values.help === true ? 0 : 2;
  }
  const roads = await walkRoads({
    names: wanted ?? exchanges.map(({ name }) => name),
    protocols: chosen,
    isOrdered: values.counts !== true,
  });
  if (values.json === true) console.log(JSON.stringify(roads));
  else console.log([...(values.counts === true ? [] : roads.map(formatRoad)), formatCounts(roads)].join('\n\n'));
  return 0;
}

function formatCounts(roads: readonly Road[]): string {
  const rows = roads.map((road) => [
    `${road.protocol} ${road.name}`,
    ...[road.files, road.functions, road.calls].map(String),
  ]);
  return formatTable([['', 'files', 'functions', 'calls'], ...rows]);
}

/** Formats a line for each function. The name of a file comes before its first function. */
function formatRoad({ protocol, name, title, files, functions, calls, steps }: Road): string {
  const lines: string[] = [`${protocol} ${name}: ${title}; ${files} files, ${functions} functions, ${calls} calls`];
  let current = '';
  for (const { file, line, name: called, count } of steps) {
    if (file !== current) lines.push(`  ${file}`);
    current = file;
    lines.push(`    ${called === '' ? '(anonymous)' : called}:${line}${count === 1 ? '' : ` ×${count}`}`);
  }
  return lines.join('\n');
}
