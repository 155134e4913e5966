/** Says in one line why a server could not start. */

import { formatListenAddress } from '../config/address.ts';
import type { Config } from '../config/schema.ts';

interface SystemError {
  readonly code: string;
  readonly message: string;
  readonly syscall?: unknown;
  readonly path?: unknown;
}

/** The reason in one line, without a stack. */
export function describeStartFailure(error: unknown, config: Pick<Config, 'listen'>): string {
  const systemError = findSystemError(error);
  if (systemError?.syscall === 'listen' || systemError?.syscall === 'bind' || systemError?.syscall === 'getaddrinfo') {
    return describeListenFailure(systemError, config.listen);
  }
  if (typeof systemError?.path === 'string') {
    return `cannot use ${systemError.path}: ${firstLine(systemError.message)}`;
  }
  return `cannot start: ${firstLine(error instanceof Error ? error.message : String(error))}`;
}

function describeListenFailure(error: SystemError, listen: Config['listen']): string {
  const address = formatListenAddress(listen);
  switch (error.code) {
    case 'EADDRINUSE':
      return `cannot listen on ${address}: the port is in use; choose another with --listen`;
    case 'EACCES':
      return `cannot listen on ${address}: no permission for this port; choose one above 1023 with --listen`;
    case 'EADDRNOTAVAIL':
      return `cannot listen on ${address}: this machine does not have the address ${listen.host}`;
    case 'ENOTFOUND':
      return `cannot listen on ${address}: the name ${listen.host} is unknown`;
    default:
      return `cannot listen on ${address}: ${firstLine(error.message)}`;
  }
}

/** The error of the system behind an error, or the error itself. */
function findSystemError(error: unknown): SystemError | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string' && 'syscall' in cause) return cause as Error & SystemError;
  }
  return undefined;
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0] ?? '';
}
