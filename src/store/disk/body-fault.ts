/** What becomes of a body whose files cannot be opened or read. */

import { ProxyError } from '../../http/proxy-error.ts';
import { NotAFile, systemCode } from './file-system.ts';

/** Who is told of it. */
export interface BodyListeners {
  /** Is told when the body cannot be opened, or its sidecar cannot be read, because they are damaged or gone. */
  readonly onBodyLost: (generation: string, detail: string) => void;
  /** Is told when something of a body that is of no use any more cannot be removed. */
  readonly onNotRemoved: (path: string, error: unknown) => void;
  /** Is told when they cannot be opened or read now, which says nothing about them. */
  readonly onBodyClosed: (detail: string) => void;
}

/** Errors of the system that say nothing about a file: there are too few of something to read it now, or it is not allowed. */
const passingCodes: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EACCES', 'EPERM']);

/** Errors of the system that say that there is no file, or something else in its place. */
const absentCodes: ReadonlySet<string> = new Set(['ENOENT', 'EISDIR', 'ELOOP', 'ENXIO', 'ENODEV', 'ENOTDIR']);

/** Whether an error says that there is no file, or something else in its place: a directory, a link, a pipe, a device. */
export function isAbsence(error: unknown): boolean {
  return error instanceof NotAFile || absentCodes.has(systemCode(error) ?? '');
}

/** Tells that nothing of a body can be had, unless that may be otherwise later. Gives what to throw. */
export function lostBody(generation: string, listeners: BodyListeners, error: unknown): ProxyError {
  const detail = `Generation ${generation} cannot be opened: ${String(error)}`;
  if (isPassing(error)) listeners.onBodyClosed(detail);
  else listeners.onBodyLost(generation, detail);
  return gone(detail, error);
}

/** Whether an error says that something cannot be had now, and nothing about it. */
export function isPassing(error: unknown): boolean {
  return passingCodes.has(systemCode(error) ?? '');
}

/** What is thrown where bytes are not there. */
export function gone(detail: string, cause?: unknown): ProxyError {
  return new ProxyError('bytes_gone', { detail, cause });
}
