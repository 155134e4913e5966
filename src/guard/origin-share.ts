/**
 * How much may come from the origin for what is delivered of it. A small request can make an origin send a large body: the
 * whole for a byte, again and again under other names (RangeAmp, DSN 2020). What comes is a debt of the client that it comes
 * for, and of the entry that it is of; what is delivered pays it back, many times over, and so does time.
 */

import { createHash } from 'node:crypto';
import { ProxyError } from '../http/proxy-error.ts';
import type { Errand } from '../origin/origin.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import { Debts } from './debts.ts';

/** The rules of one route. */
export interface ShareRules {
  /** How many bytes a delivered one pays for: at least 1. */
  readonly factor: number;
  /** How many bytes a client or an entry may owe. */
  readonly freeBytes: number;
  /** How long it takes until so many are forgotten. */
  readonly windowMs: number;
}

/** How many debtors are remembered. */
const MAX_CLIENTS = 100_000;
const MAX_ENTRIES = 10_000;

/**
 * Who owes more than this part of the share gets nothing new begun, and nothing more of what nobody reads. The rest is for
 * what was begun: who comes back as soon as it may would otherwise be cut off again at once, and again.
 */
const BEGUN_SHARE = 1 / 2;

/** A longer key stands as its hash, so that long targets do not fill the memory. */
const MAX_KEY_LENGTH = 256;

/** The account of a client, or of an entry. */
export type Account = Pick<Errand, 'client'> | Pick<Errand, 'key'>;

/** The accounts of one route. */
export class OriginShare {
  readonly #rules: ShareRules;
  readonly #clients: Debts;
  readonly #entries: Debts;
  /** Called when something is paid back by a client, or for an entry. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #onShort: (account: Account) => void = () => {};

  /** `now` gives milliseconds that never go back. */
  constructor(rules: ShareRules, now: () => number) {
    this.#rules = rules;
    this.#clients = new Debts({ maxNames: MAX_CLIENTS, now });
    this.#entries = new Debts({ maxNames: MAX_ENTRIES, now });
  }

  /** Sets who is told of an account on which so much is owed that nothing may begin, each time that more is. */
  watch(onShort: (account: Account) => void): void {
    this.#onShort = onShort;
  }

  /** Takes note of bytes that came. */
  charge({ client, key }: Errand, bytes: number): void {
    const ms = this.#timeOf(bytes);
    const mostMs = this.#rules.windowMs * BEGUN_SHARE;
    this.#clients.add(client, ms);
    this.#entries.add(entryName(key), ms);
    if (this.#clients.of(client) > mostMs) this.#onShort({ client });
    if (this.#entryDebt(key) > mostMs) this.#onShort({ key });
  }

  /** Takes note of bytes that were delivered. Costs nothing where nobody owes anything. */
  repay(client: string, key: string | undefined, bytes: number): void {
    const ms = this.#timeOf(bytes * this.#rules.factor);
    if (this.#clients.size > 0) this.#clients.repay(client, ms);
    if (this.#entries.size > 0 && key !== undefined) this.#entries.repay(entryName(key), ms);
    if (this.#waiting.size === 0) return;
    const accounts = key === undefined ? [clientAccount(client)] : accountsOf({ client, key });
    for (const account of accounts) for (const wake of this.#waiting.get(account) ?? []) wake();
  }

  /** Calls back when the client of an errand, or somebody for its entry, pays something back; until the function is called. */
  whenRepaid(errand: Errand, wake: () => void): () => void {
    const accounts = accountsOf(errand);
    for (const account of accounts) this.#waiting.set(account, (this.#waiting.get(account) ?? new Set()).add(wake));
    return () => {
      for (const account of accounts) {
        const waiting = this.#waiting.get(account);
        if (waiting?.delete(wake) === true && waiting.size === 0) this.#waiting.delete(account);
      }
    };
  }

  /**
   * Decides whether a transfer may begin: yes, on the account of its client or of another one that wants it too and owes
   * less; or no, which throws `ProxyError` `origin_share_spent`. One that begins with half of the share left is seldom ended.
   */
  begin(errand: Errand): void {
    const refusal = this.#charge(errand, this.#rules.windowMs * BEGUN_SHARE);
    if (refusal !== undefined) throw refusal;
  }

  /**
   * Decides whether a transfer may go on, or begin again where it broke off: as `begin` does, but until all is spent, and
   * what nobody reads, as long as a new one could begin. Whoever has each byte as it comes gets it whatever is owed, for that
   * is no amplification. Where all have something to read before, and so may pay, it waits, unless that was in vain: `isPaid`
   * tells whether something was paid since it last waited.
   */
  goOn(errand: Errand, isPaid = true): 'go' | 'wait' {
    const { windowMs } = this.#rules;
    const owed = Math.max(this.#clients.of(errand.client), this.#entryDebt(errand.key));
    if (owed <= windowMs * BEGUN_SHARE) return 'go';
    if (errand.wanters?.().length === 0) throw this.#spent(owed, 'nobody reads it');
    const reach = owed > windowMs ? errand.reach?.() : 'near';
    if (reach === 'near') return 'go';
    const refusal = this.#charge(errand, windowMs);
    if (refusal === undefined) return 'go';
    if (reach === 'behind' && isPaid) return 'wait';
    throw refusal;
  }

  /** Finds a client on whose account something may come that owes no more than this, or tells why there is none. */
  #charge(errand: Errand, limitMs: number): ProxyError | undefined {
    const { client, key, wanters } = errand;
    const entryDebt = this.#entryDebt(key);
    if (entryDebt > limitMs) return this.#spent(entryDebt, 'the share of the entry');
    const owed = this.#clients.of(client);
    if (owed <= limitMs) return undefined;
    const heir = wanters?.().find((other) => this.#clients.of(other) <= limitMs);
    if (heir === undefined) return this.#spent(owed, 'the share of the client');
    errand.client = heir;
    return undefined;
  }

  #spent(owedMs: number, detail: string): ProxyError {
    const fields = [retryAfter(owedMs - this.#rules.windowMs * BEGUN_SHARE)];
    return new ProxyError('origin_share_spent', { detail, fields });
  }

  #entryDebt(key: string): number {
    return this.#entries.size === 0 ? 0 : this.#entries.of(entryName(key));
  }

  /** How long it takes until so many bytes are forgotten. */
  #timeOf(bytes: number): number {
    const { freeBytes, windowMs } = this.#rules;
    return (bytes / freeBytes) * windowMs;
  }
}

function entryName(key: string): string {
  return key.length <= MAX_KEY_LENGTH ? key : createHash('sha256').update(key).digest('base64');
}

/** Whether an errand goes to an account now; its client may become another one. */
export function isOfAccount(account: Account, { client, key }: Pick<Errand, 'client' | 'key'>): boolean {
  return 'client' in account ? account.client === client : account.key === key;
}

/** The names of the accounts that an errand goes to. */
function accountsOf({ client, key }: Pick<Errand, 'client' | 'key'>): readonly string[] {
  return [clientAccount(client), entryAccount(key)];
}

function clientAccount(client: string): string {
  return `client ${client}`;
}

function entryAccount(key: string): string {
  return `entry ${entryName(key)}`;
}
