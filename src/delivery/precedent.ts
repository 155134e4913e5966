/** Precedents: what a response from memory has left for requests that say the same. */

import type { Span } from '../bytes/span.ts';
import { chunksOf } from '../cache/block-bytes.ts';
import type { Standing } from '../cache/standing.ts';
import type { Clock } from '../http/clock.ts';
import { type Fields, fieldLines, withoutFields } from '../http/fields.ts';
import type {
  Delivery,
  EqualRequest,
  MovableBytes,
  Precedent,
  PrecedentResponse,
  ProxyRequest,
  ProxyResponse,
} from '../http/message.ts';
import { formatContentRange } from '../semantics/content-range.ts';
import { selectSpan } from '../semantics/range.ts';
import type { Emit } from '../telemetry/events.ts';
import { AT_ONCE_BYTES } from './pieces.ts';
import { isMultipart, type RequestLine, requestEvent } from './request-event.ts';

/** Whose requests would be let in as the one that made a precedent was, and be given the same. */
export interface Followers {
  /** The address of the client, where it is such a one, of a peer with this address; undefined where it is not. */
  clientOf(peer: string): string | undefined;
  /** Takes note of bytes that a client was given. */
  repay(client: string, bytes: number): void;
}

/** What precedents are made with. */
export interface PrecedentContext {
  readonly clock: Clock;
  readonly emit: Emit;
}

/** What a request has met with on its road. */
export interface Met {
  readonly standing: Standing;
  readonly followers: Followers;
  readonly route: string | undefined;
  /** When the response was made, in epoch milliseconds. */
  readonly headAt: number;
}

/** Statuses whose responses have no content, whatever is stored (RFC 9110 §15.3.5, §15.3.6, §15.4.5). */
const emptyStatuses: ReadonlySet<number> = new Set([204, 205, 304]);

const contentRangeField: ReadonlySet<string> = new Set(['content-range']);

/**
 * The precedent that a response makes, as it was presented: of all of a representation, or of one range of it, with its bytes in
 * memory. Nothing is kept of the request but its line, and nothing of the bytes.
 */
export function createPrecedent(
  request: ProxyRequest,
  response: ProxyResponse,
  met: Met,
  context: PrecedentContext,
): Precedent | undefined {
  const { status, body, problem, closeConnection } = response;
  if (problem !== undefined || closeConnection === true || emptyStatuses.has(status)) return undefined;
  const isHead = request.method === 'HEAD';
  if (body.kind !== (isHead ? 'stream' : 'bytes') || body.sizeBytes === undefined) return undefined;
  const [range, ...more] = fieldLines(request.fields, 'range');
  if (more.length > 0 || (range === undefined) === (status === 206) || (range !== undefined && isHead))
    return undefined;
  return new HitPrecedent(request, range, response, body.sizeBytes, met, context);
}

/** A class, because there is one for most responses from memory; what is not needed unless it is followed is made then. */
class HitPrecedent implements Precedent {
  readonly line: RequestLine;
  readonly status: number;
  readonly met: Met;
  readonly context: PrecedentContext;
  readonly #range: string | undefined;
  readonly #sizeBytes: number;
  readonly #presented: Fields;
  /** Undefined before it is first followed; false where it cannot be. */
  #fields: Fields | false | undefined;

  constructor(
    { method, scheme, authority, target, version }: ProxyRequest,
    range: string | undefined,
    { status, fields }: ProxyResponse,
    sizeBytes: number,
    met: Met,
    context: PrecedentContext,
  ) {
    this.line = { method, scheme, authority, target, version };
    this.status = status;
    this.met = met;
    this.context = context;
    this.#range = range;
    this.#sizeBytes = sizeBytes;
    this.#presented = fields;
  }

  follow(request: EqualRequest): PrecedentResponse | undefined {
    const { standing, followers } = this.met;
    try {
      const now = this.context.clock.now();
      this.#fields ??= this.#constantFields();
      if (this.#fields === false || !standing.holds(now)) return undefined;
      const client = followers.clientOf(request.peer.address);
      const span = this.#select(request.range);
      if (client === undefined || span === undefined) return undefined;
      const body = this.line.method === 'HEAD' ? noBody : bodyOf(standing, span, request.takesMovable === true);
      return body && new FollowedResponse(this, this.#fields, request, client, span, body, now);
    } catch {
      // Whatever it is, the whole road tells of it.
      return undefined;
    }
  }

  /** What such a request selects; undefined for anything but one range, or all, as the request that made this one did. */
  #select(range: string | undefined): Span | undefined {
    const { sizeBytes } = this.met.standing;
    if (this.#range === undefined) return range === undefined ? { start: 0, end: sizeBytes } : undefined;
    return range === undefined ? undefined : selectSpan(range, sizeBytes);
  }

  /**
   * The fields that all responses have. False where this precedent would not have answered the request that made it as that was
   * answered: whatever the operator's rules, or a stored field, have done to it is none of its business.
   */
  #constantFields(): Fields | false {
    const { standing, headAt } = this.met;
    const span = this.#select(this.#range);
    const [told, ...more] = fieldLines(this.#presented, 'content-range');
    const isSame =
      span !== undefined &&
      span.end - span.start === this.#sizeBytes &&
      more.length === 0 &&
      !isMultipart({ status: this.status, fields: this.#presented }) &&
      told === contentRangeOf(this.status, span, standing.sizeBytes);
    return isSame && standing.holds(headAt) && withoutFields(this.#presented, contentRangeField);
  }
}

/** A class, because there is one for every request that follows. */
class FollowedResponse implements PrecedentResponse {
  readonly status: number;
  readonly fields: Fields;
  readonly contentRange: string | undefined;
  readonly sizeBytes: number;
  readonly chunks: readonly Uint8Array[];
  readonly movable: MovableBytes | undefined;
  readonly #precedent: HitPrecedent;
  readonly #request: EqualRequest;
  readonly #client: string;
  readonly #headAt: number;

  constructor(
    precedent: HitPrecedent,
    fields: Fields,
    request: EqualRequest,
    client: string,
    span: Span,
    { chunks, movable }: FollowedBody,
    headAt: number,
  ) {
    this.status = precedent.status;
    this.fields = fields;
    this.contentRange = contentRangeOf(precedent.status, span, precedent.met.standing.sizeBytes);
    this.sizeBytes = span.end - span.start;
    this.chunks = chunks;
    this.movable = movable;
    this.#precedent = precedent;
    this.#request = request;
    this.#client = client;
    this.#headAt = headAt;
  }

  giveBack(): void {
    this.#precedent.met.standing.giveBack(this.chunks);
  }

  onDelivered(delivery: Delivery): void {
    const { line, status, met, context } = this.#precedent;
    const { range, peer, receivedAt } = this.#request;
    met.followers.repay(this.#client, delivery.bytesSent);
    const course = {
      peer: peer.address,
      client: this.#client,
      user: undefined,
      route: met.route,
      range,
      status,
      isMultipart: false,
      answer: hit,
      receivedAt,
      headAt: this.#headAt,
      endedAt: context.clock.now(),
    };
    context.emit(requestEvent(line, course, delivery));
  }
}

/** What the cache says of such a request. */
const hit = { outcome: 'hit', reason: undefined, collapsed: false, originBytes: () => 0 } as const;

type FollowedBody = Pick<PrecedentResponse, 'chunks' | 'movable'>;

const noBody: FollowedBody = { chunks: [] };

/** Of fewer bytes, in a file, a copy costs less than the calls that move them. */
const MOVED_BYTES = 32 * 1024;

/** Of fewer bytes, in memory, a copy costs hardly more than moving them does, and less than checking what the file has of them. */
const DEAR_BYTES = 128 * 1024;

function contentRangeOf(status: number, span: Span, sizeBytes: number): string | undefined {
  return status === 206 ? formatContentRange(span, sizeBytes) : undefined;
}

/** The bytes of a span, where it is small enough and they can be had in the same tick. */
function bodyOf(standing: Standing, span: Span, takesMovable: boolean): FollowedBody | undefined {
  const sizeBytes = span.end - span.start;
  // What a client does not take of it at once is read, and waits in memory.
  if (sizeBytes > AT_ONCE_BYTES) return undefined;
  if (!takesMovable || sizeBytes < MOVED_BYTES) return readAtOnce(standing, span);
  const kept = sizeBytes < DEAR_BYTES ? readAtOnce(standing, span, true) : undefined;
  if (kept !== undefined) return kept;
  const movable = standing.movable(span);
  return movable === undefined ? readAtOnce(standing, span) : { chunks: noBody.chunks, movable };
}

/** All bytes of a span, where they are in memory, or can be read in the same tick unless they are to be `isKept` there. */
function readAtOnce(standing: Standing, span: Span, isKept = false): FollowedBody | undefined {
  const chunks = chunksOf(span, (offset, end) => {
    return isKept ? standing.peekKept(offset, end) : standing.peek(offset, end);
  });
  return chunks && { chunks };
}
