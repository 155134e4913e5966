/** Who may follow the precedent of a request: those whose equal requests would be let in as it was, and be given the same. */

import type { Followers } from '../delivery/precedent.ts';
import type { ProxyRequest } from '../http/message.ts';
import type { Client } from './client.ts';
import type { Gate } from './gate.ts';
import { type PeerList, plainAddress } from './peers.ts';

/** Whether requests are still answered by some rules. A value: whoever keeps it keeps nothing else of the rules. */
export interface Service {
  readonly isServing: boolean;
}

/** What decides it besides the request. */
export interface FollowingTerms {
  readonly gate: Pick<Gate, 'repeats' | 'repay'>;
  readonly isTrusted: PeerList;
  readonly service: Service;
}

/**
 * Those who may follow a request that was let in; nobody where the gate counts, or asks for credentials. Peers that are trusted to tell for whom they speak may follow their own requests only, and so may all
 * where the gate looks at addresses.
 */
export function followersOf(
  { peer }: Pick<ProxyRequest, 'peer'>,
  client: Client,
  key: string,
  terms: FollowingTerms,
): Followers | undefined {
  const { gate, service } = terms;
  if (gate.repeats === 'never' || !service.isServing) return undefined;
  return new EqualPeers(peer.address, client.address, key, terms);
}

/** Those with the address of the peer, and others where it is the same for all. */
class EqualPeers implements Followers {
  readonly #peer: string;
  readonly #client: string;
  readonly #key: string;
  readonly #terms: FollowingTerms;
  /** Whether others than the peer itself may follow; found out when the first one comes. */
  #isForOthers: boolean | undefined;
  /** The last one of the others, and its client. */
  #other: string | undefined;
  #clientOfOther: string | undefined;

  constructor(peer: string, client: string, key: string, terms: FollowingTerms) {
    this.#peer = peer;
    this.#client = client;
    this.#key = key;
    this.#terms = terms;
  }

  clientOf(peer: string): string | undefined {
    if (!this.#terms.service.isServing) return undefined;
    if (peer === this.#peer) return this.#client;
    if (peer !== this.#other) {
      this.#clientOfOther = this.#judge(peer);
      this.#other = peer;
    }
    return this.#clientOfOther;
  }

  repay(client: string, bytes: number): void {
    this.#terms.gate.repay(client, this.#key, bytes);
  }

  #judge(peer: string): string | undefined {
    const { gate, isTrusted } = this.#terms;
    this.#isForOthers ??= gate.repeats === 'for-all' && !isTrusted(plainAddress(this.#peer));
    if (!this.#isForOthers) return undefined;
    const address = plainAddress(peer);
    return isTrusted(address) ? undefined : address;
  }
}
