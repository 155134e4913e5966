/** The entry of the single executable: as bin/rangeway.js, without the search for source or build. */

import { run } from '../../src/cli/main.ts';

// Node ignores this option here without a word. Workers get the same environment; one message is enough.
if (process.send === undefined && /(?:^|\s)--import\b/.test(process.env['NODE_OPTIONS'] ?? '')) {
  const advice = 'the single executable cannot use --import; use --require, which loads ES modules too';
  process.stderr.write(`rangeway: NODE_OPTIONS: ${advice}\n`);
}

const code = await run(process.argv.slice(2));
// Ends the process, whatever may still be open in it, once its output is written.
process.stdout.write('', () => process.exit(code));
