#!/usr/bin/env node
// Starts the command line. Its syntax is one that an old Node can read too, so that it can say what it needs.

const neededMajor = 24;

if (Number.parseInt(process.versions.node, 10) < neededMajor) {
  process.stderr.write(
    `rangeway needs Node ${neededMajor} or newer; this is ${process.version}. Install a newer one: https://nodejs.org\n`,
  );
  process.exitCode = 1;
} else {
  silenceKnownWarnings();
  importCommandLine()
    .then((commandLine) => commandLine.run(process.argv.slice(2)))
    .then(exitWhenWritten);
}

/**
 * Node 24 warns that node:sqlite is experimental: this warning, and no other, is kept from people who cannot act on it.
 */
function silenceKnownWarnings() {
  const emitWarning = process.emitWarning;
  process.emitWarning = (warning, ...rest) => {
    if (rest[0] === 'ExperimentalWarning' && /^SQLite /.test(String(warning))) return;
    emitWarning.call(process, warning, ...rest);
  };
}

/**
 * A checkout has the source, which Node runs as it is. To strip its types anew would take half of each start, so what came of it is
 * kept beside the dependencies, for workers too. A package has what was built of it: Node strips no types there.
 */
async function importCommandLine() {
  const { existsSync } = await import('node:fs');
  const source = new URL('../src/cli/main.ts', import.meta.url);
  if (!existsSync(source)) return import(new URL('../dist/cli/main.js', import.meta.url).href);
  const { enableCompileCache } = await import('node:module');
  const { fileURLToPath } = await import('node:url');
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
    new URL('../node_modules/.cache/node-compile-cache', import.meta.url),
  );
  enableCompileCache();
  return import(source.href);
}

/** Ends the process, whatever may still be open in it, once its output is written. */
function exitWhenWritten(code) {
  process.stdout.write('', () => process.exit(code));
}
