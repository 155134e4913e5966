/** Counts the work of code on strings, so that a test can tell linear from quadratic time without a clock. */

type AnyFunction = (this: unknown, ...args: unknown[]) => unknown;

/** Methods that read one character. Any other method may read the whole string, and costs its length. */
const singleCharacterMethods: ReadonlySet<string | symbol> = new Set(['at', 'charAt', 'charCodeAt', 'codePointAt']);

/** Methods that cost the length of their result. */
const copyingMethods: ReadonlySet<string | symbol> = new Set(['slice', 'substring']);

/** Methods that do no work on a string, or that every use of it calls. */
const uncounted: ReadonlySet<string | symbol> = new Set(['constructor', 'toString', 'valueOf']);

/**
 * Runs `run`, and returns the steps of its calls of string methods. Steps inside a regular expression cannot be counted, so using
 * one throws.
 */
export function countTextSteps(run: () => unknown): number {
  let steps = 0;
  const undoAll = [replaceMethod(RegExp.prototype, 'exec', () => refuse)];
  for (const name of Reflect.ownKeys(String.prototype)) {
    if (uncounted.has(name)) continue;
    const undo = replaceMethod(String.prototype, name, (original) => {
      return function counted(this: unknown, ...args: unknown[]): unknown {
        const result = original.apply(this, args);
        steps += 1;
        if (!singleCharacterMethods.has(name)) steps += String(copyingMethods.has(name) ? result : this).length;
        return result;
      };
    });
    undoAll.push(undo);
  }
  try {
    run();
  } finally {
    for (const undo of undoAll) undo();
  }
  return steps;
}

function refuse(): never {
  throw new Error('a regular expression was used where every step is to be counted');
}

function replaceMethod(owner: object, name: string | symbol, wrap: (original: AnyFunction) => AnyFunction): () => void {
  const descriptor = Object.getOwnPropertyDescriptor(owner, name);
  if (descriptor === undefined || typeof descriptor.value !== 'function') return () => {};
  Object.defineProperty(owner, name, { ...descriptor, value: wrap(descriptor.value) });
  return () => Object.defineProperty(owner, name, descriptor);
}
