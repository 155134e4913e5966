/** Checks of passwords: a few at a time, because each takes a thread and much memory, and some that may wait. */

import { ProxyError } from '../http/proxy-error.ts';
import type { Client } from './client.ts';
import { clientName } from './client-name.ts';
import { isPassword, type PasswordHash } from './password-hash.ts';
import { Places } from './places.ts';

/** How much is checked. */
export interface PasswordCheckLimits {
  /** Checks at a time; each takes a thread of Node's pool, which files are read with too. */
  readonly concurrent: number;
  /** Checks that wait or are under way, of all clients. */
  readonly total: number;
  /** The same of one client. */
  readonly perClient: number;
}

/** One password, and what it is compared with. */
export interface PasswordCheck {
  readonly password: string;
  readonly hash: PasswordHash;
  readonly client: Client;
  /** Whether somebody still waits for it. */
  readonly isWanted: () => boolean;
}

/**
 * Tells whether a password is right; false for one that nobody waits for any more. Rejects with `ProxyError` where too much
 * waits: `too_many_requests` for what this client has sent, `credentials_unchecked` for what all have.
 */
export type PasswordChecks = (check: PasswordCheck) => Promise<boolean>;

/** How many seconds a client is told to wait; by then all that waits now has been checked, or nearly. */
const retryAfterSeconds = '5';

/** Creates the checks. There is one of these in a process, as there is one pool of threads. */
export function createPasswordChecks(limits: PasswordCheckLimits): PasswordChecks {
  const places = new Places();
  const waiting: (() => void)[] = [];
  let running = 0;

  const begin = async (): Promise<void> => {
    if (running < limits.concurrent) {
      running += 1;
      return;
    }
    // Whoever ends hands its turn over.
    await new Promise<void>((resolve) => waiting.push(resolve));
  };
  const end = (): void => {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  };

  return async ({ password, hash, client, isWanted }) => {
    const name = clientName(client.address);
    if (places.of(name) >= limits.perClient) throw refusal('too_many_requests');
    if (places.total >= limits.total) throw refusal('credentials_unchecked');
    const leave = places.take(name);
    await begin();
    try {
      return isWanted() && (await isPassword(password, hash));
    } finally {
      end();
      leave();
    }
  };
}

function refusal(code: 'too_many_requests' | 'credentials_unchecked'): ProxyError {
  return new ProxyError(code, {
    detail: 'too many passwords wait to be checked',
    fields: [['retry-after', retryAfterSeconds]],
  });
}
