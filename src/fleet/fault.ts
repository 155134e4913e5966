/** Errors as they travel between processes: what is told of them here is known there again. */

import { OperationFault } from '../admin/operations.ts';
import { ListenFault } from '../listener/listen-fault.ts';
import { StoreFault, type StoreFaultReason } from '../store/store.ts';

/** What is left of an error: its words, what it was caused by, and what the system says of it. Survives structured cloning. */
export interface Fault {
  readonly name: string;
  readonly message: string;
  /** Properties that are texts or numbers, such as `code`, `syscall` and `path`. */
  readonly facts: Readonly<Record<string, string | number>>;
  readonly cause: Fault | undefined;
}

/** Errors have causes that have causes; further ones tell nobody anything. */
const MOST_CAUSES = 5;

/** What can be told of whatever was thrown. */
export function describeFault(thrown: unknown, causes = MOST_CAUSES): Fault {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown), facts: {}, cause: undefined };
  const facts = Object.entries(thrown).filter(
    (fact): fact is [string, string | number] => typeof fact[1] === 'string' || typeof fact[1] === 'number',
  );
  const cause = thrown.cause === undefined || causes === 0 ? undefined : describeFault(thrown.cause, causes - 1);
  return { name: thrown.name, message: thrown.message, facts: Object.fromEntries(facts), cause };
}

/** The error again: of its own class where that is known to people who are told of it. */
export function reviveFault({ name, message, facts, cause }: Fault): Error {
  const options = cause === undefined ? {} : { cause: reviveFault(cause) };
  const error = Object.assign(createError(name, message, facts['reason'], options), facts);
  if (error.name !== name) error.name = name;
  return error;
}

function createError(name: string, message: string, reason: unknown, options: ErrorOptions): Error {
  switch (name) {
    case 'StoreFault':
      return new StoreFault(reason as StoreFaultReason, message, options);
    case 'ListenFault':
      return new ListenFault(message, options);
    case 'OperationFault':
      return new OperationFault(reason as OperationFault['reason'], message);
    default:
      return new Error(message, options);
  }
}
