/**
 * Builds the dashboard after `npm ci`, so that a checkout has it. An installation must not fail because of it: where it cannot be built,
 * for example without the development dependencies, the admin listener says how to build it.
 */

import { fileURLToPath } from 'node:url';

try {
  const { build } = await import('vite');
  await build({ configFile: fileURLToPath(new URL('vite.config.ts', import.meta.url)), logLevel: 'warn' });
} catch (thrown) {
  const reason = thrown instanceof Error ? thrown.message.split('\n', 1)[0] : String(thrown);
  process.stderr.write(`The dashboard was not built; npm run build:dashboard tells more: ${reason}\n`);
}
