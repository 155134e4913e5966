/** Counts the work that code does on texts, so that a test can tell linear from quadratic without a clock. */

type AnyFunction = (this: unknown, ...args: unknown[]) => unknown;

/** Methods that look at one character; every other one may look at the whole text, and is charged for it. */
const singleCharacterMethods: ReadonlySet<string | symbol> = new Set(['at', 'charAt', 'charCodeAt', 'codePointAt']);

/** Methods that cost what they give. */
const copyingMethods: ReadonlySet<string | symbol> = new Set(['slice', 'substring']);

/** What every use of a text goes through, and what is no work on one. */
const uncounted: ReadonlySet<string | symbol> = new Set(['constructor', 'toString', 'valueOf']);

/**
 * Runs `run` and tells how many steps its calls of string methods take. The steps inside a regular expression cannot be
 * counted, so using one throws.
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
