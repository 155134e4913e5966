#!/usr/bin/env node
// Starts the command line. Its syntax is one that an old Node can read too, so that it can say what it needs.

const neededMajor = 24;

if (Number.parseInt(process.versions.node, 10) < neededMajor) {
  process.stderr.write(`rangeway needs Node ${neededMajor} or newer; this is ${process.version}\n`);
  process.exitCode = 1;
} else {
  silenceKnownWarnings();
  importCommandLine()
    .then((commandLine) => commandLine.run(process.argv.slice(2)))
    .then(exitWhenWritten);
}

/**
 * Node 24 warns that node:sqlite is experimental, and Node 26 that node:ffi is, which only `store.sendfile` uses: these warnings,
 * and no others, are kept from people who cannot act on them.
 */
function silenceKnownWarnings() {
  const emitWarning = process.emitWarning;
  process.emitWarning = (warning, ...rest) => {
    if (rest[0] === 'ExperimentalWarning' && /^(?:SQLite|FFI) /.test(String(warning))) return;
    emitWarning.call(process, warning, ...rest);
  };
}

/** A checkout has the source, which Node runs as it is. A package has what was built of it: Node strips no types there. */
async function importCommandLine() {
  const { existsSync } = await import('node:fs');
  const source = new URL('../src/cli/main.ts', import.meta.url);
  return import(existsSync(source) ? source.href : new URL('../dist/cli/main.js', import.meta.url).href);
}

/** Ends the process, whatever may still be open in it, once its output is written. */
function exitWhenWritten(code) {
  process.stdout.write('', () => process.exit(code));
}
