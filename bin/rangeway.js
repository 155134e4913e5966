#!/usr/bin/env node
// Starts the command line. Node 12 can read this file too (so no `??`, `?.` or `await` outside of functions), so that an old Node
// gets one line that says what to install, and no syntax error.

import { existsSync } from 'node:fs';

// Left to Node, SIGUSR1 opens a debugger, by which any user of the machine can run code in this process. An option of Node that
// forbids it would end an old Node before the line that says what to install.
process.on('SIGUSR1', () => undefined);

const neededMajor = 24;
const betterMajor = 26;

/** A checkout has the source; a package has what was built of it. */
const source = new URL('../src/cli/main.ts', import.meta.url);

if (Number.parseInt(process.versions.node, 10) < neededMajor) {
  process.stderr.write(`${describeOldNode()}\n`);
  process.exitCode = 1;
} else {
  silenceKnownWarnings();
  importCommandLine().then(
    (commandLine) => commandLine.run(process.argv.slice(2)).then(exitWhenWritten),
    refuseWithoutDependencies,
  );
}

function describeOldNode() {
  const found = `rangeway needs Node ${neededMajor} or newer; ${process.execPath} is ${process.version}`;
  const inCheckout = ', or run "npm ci" and then "npm start -- …" in this checkout: it brings its own';
  return `${found}. Install Node ${betterMajor} (https://nodejs.org)${existsSync(source) ? inCheckout : ''}.`;
}

/** A checkout has no dependencies before `npm ci`. Any other failure is a fault of this program. */
function refuseWithoutDependencies(error) {
  const isMissing = error.code === 'ERR_MODULE_NOT_FOUND' && /^Cannot find package /.test(error.message);
  if (!isMissing || !existsSync(source)) throw error;
  process.stderr.write('rangeway: its dependencies are not installed: run "npm ci" in this checkout first\n');
  process.exitCode = 1;
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
 * Node runs the source of a checkout as it is. To strip its types anew would take half of each start, so what came of it is kept
 * beside the dependencies, for workers too. Node strips no types in a package.
 */
async function importCommandLine() {
  if (!existsSync(source)) return import(new URL('../dist/cli/main.js', import.meta.url).href);
  const { enableCompileCache } = await import('node:module');
  const { fileURLToPath } = await import('node:url');
  if (process.env.NODE_COMPILE_CACHE === undefined) {
    process.env.NODE_COMPILE_CACHE = fileURLToPath(
      new URL('../node_modules/.cache/node-compile-cache', import.meta.url),
    );
  }
  enableCompileCache();
  return import(source.href);
}

/** Ends the process, whatever may still be open in it, once its output is written. */
function exitWhenWritten(code) {
  process.stdout.write('', () => process.exit(code));
}
