/** The entry of the single executable: as bin/rangeway.js, without the search for source or build. */

import { run } from '../../src/cli/main.ts';

const code = await run(process.argv.slice(2));
// Ends the process, whatever may still be open in it, once its output is written.
process.stdout.write('', () => process.exit(code));
