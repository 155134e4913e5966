/** Writes `config.schema.json` from the schema of the options: `npm run schema`. */

import { writeFileSync } from 'node:fs';
import { formatJsonSchema } from './json-schema.ts';

writeFileSync(new URL('../../config.schema.json', import.meta.url), formatJsonSchema());
