/**
 * Asks the process that has the lease of a key, on behalf of a request. There is one connection for each answer, over a Unix
 * socket, where connections cost little: so the flow of the bytes, the leaving of the client and the end of the other process
 * are those of the connection, and none of them has to be told of many answers at once.
 */

import type { Answer } from '../cache/answer.ts';
import { type HeldAnswer, HolderLost } from '../cache/fleet.ts';
import type { Inquiry } from '../cache/inquiry.ts';
import type { Version } from '../cache/version.ts';
import type { Clock } from '../http/clock.ts';
import type { InterimResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { NamedHolder } from './lease-client.ts';
import { reviveFailure, type ToldAnswer, type ToldFailure } from './peer-answer.ts';
import { frameKinds, readValue } from './peer-frames.ts';
import { PeerLine } from './peer-line.ts';
import { describeInquiry } from './peer-question.ts';
import { createPeerRelay, PeerBytes } from './peer-reader.ts';
import { createPeerRepresentation } from './peer-representation.ts';

/** Another process, by the name that the supervisor knows it by, and reached over a Unix socket. */
export function createPeerHolder(instance: string, path: string, clock: Pick<Clock, 'after'>): NamedHolder {
  const holder: NamedHolder = {
    instance,
    answer: async (inquiry, version) => {
      const line = new PeerLine({ path, clock, createLoss: () => new HolderLost(holder) });
      try {
        return await askOver(line, inquiry, version);
      } catch (thrown) {
        line.close();
        throw thrown;
      }
    },
  };
  return holder;
}

async function askOver(line: PeerLine, inquiry: Inquiry, version?: Version): Promise<HeldAnswer | undefined> {
  line.send(frameKinds.ask, describeInquiry(inquiry, version));
  const told = await receiveAnswer(line, inquiry);
  if (told.kind === 'none' || told.kind === 'own-way') line.close();
  if (told.kind === 'none') return undefined;
  const { unshared, refusal } = told;
  return { unshared, refusal, answer: told.kind === 'own-way' ? undefined : createAnswer(told, line) };
}

async function receiveAnswer(line: PeerLine, { request, onInterim }: Inquiry): Promise<ToldAnswer> {
  for (;;) {
    const frame = await line.next(request.signal);
    switch (frame.kind) {
      case frameKinds.answer:
        return readValue<ToldAnswer>(frame);
      case frameKinds.interim:
        onInterim(readValue<InterimResponse>(frame));
        break;
      case frameKinds.failed:
        throw reviveFailure(readValue<ToldFailure>(frame));
      default:
        throw new ProxyError('internal', { detail: `a frame ${frame.kind} in place of an answer` });
    }
  }
}

function createAnswer(told: Extract<ToldAnswer, { kind: 'representation' | 'relay' }>, line: PeerLine): Answer {
  const bytes = new PeerBytes(line);
  const facts = { ...told.facts, originBytes: () => bytes.originBytes };
  if (told.kind === 'relay') return { ...facts, kind: 'relay', relay: createPeerRelay(told.relay, bytes) };
  const representation = createPeerRepresentation(told, line, bytes);
  return { ...facts, kind: 'representation', isReuse: told.isReuse, representation };
}
