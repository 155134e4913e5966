/**
 * The origins of one route as one origin: selects the member for a request, and sends it again where that is allowed. `Attachments`
 * remembers which member sent a representation, so that the rest of it is requested from the same member. Read this file first, then
 * `resend.ts` and `health.ts`.
 */

import type { BoundClient } from '../../http/client-connection.ts';
import type { Clock } from '../../http/clock.ts';
import { ExpiringMap } from '../../http/collections.ts';
import { type Fields, hasField } from '../../http/fields.ts';
import { toProxyError } from '../../http/proxy-error.ts';
import { withHost } from '../../semantics/references.ts';
import { type Origin, type OriginRequest, type OriginResponse, type OriginUse, observedResponse } from '../origin.ts';
import {
  Health,
  type HealthCheckRules,
  type HealthRules,
  type HealthState,
  type Outcome,
  type Report,
  startHealthChecks,
} from './health.ts';
import { type Attempt, isFailureResponse, isOriginFault, mayResend, ResendBudget, ReusableBody } from './resend.ts';

/** A member of an origin group. */
export interface GroupMember {
  readonly url: URL;
  readonly origin: Origin;
  /** The origin that checks use: its own connections, so that checks do not wait until clients release one. */
  readonly checkOrigin?: Origin | undefined;
  /** The Host that it gets in place of the request's; undefined where all members get the same one. */
  readonly host: string | undefined;
  /** Its health so far, by the rules of the group. Absent where nothing is known yet. */
  readonly health?: Health | undefined;
  /** Reads what holds its connections now (`ConnectedOrigin.use`). */
  readonly readUse?: (() => OriginUse | undefined) | undefined;
  /** As `ConnectedOrigin.retire`, for all of its connections. */
  readonly retire?: (() => void) | undefined;
}

/** The options of a group. */
export interface OriginGroupOptions {
  /** At least one. */
  readonly members: readonly GroupMember[];
  /** Whether the first member that is well is selected, or the one with the fewest requests. */
  readonly choice: 'first' | 'spread';
  /** How often one request is sent again, and how many of all requests may be, in percent. */
  readonly retries: { readonly attempts: number; readonly budgetPercent: number };
  readonly health: Pick<HealthRules, 'failures' | 'restMs'>;
  /** The checks of every member, the number of passed ones that make a member well again, and the fields of their requests. */
  readonly check?:
    | (HealthCheckRules & { readonly passes: number; readonly fieldsFor: (url: URL) => Fields })
    | undefined;
  readonly clock: Clock;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
  /** Called when a member becomes ill, or well again; only for members without a `health` of their own. */
  readonly onHealth: (url: URL, isWell: boolean, reason: string) => void;
}

/** A member that is held for a tunnel. */
export interface Hold {
  readonly url: URL;
  /** As `GroupMember.host`. */
  readonly host: string | undefined;
  /** Reports the outcome of the handshake. Only the first call counts. */
  report: Report;
  /** Called when the tunnel is over. */
  release(): void;
}

/** The state of a member. */
export interface MemberState {
  readonly url: URL;
  readonly health: HealthState;
  /** Undefined where the connections are not counted. */
  readonly use?: OriginUse | undefined;
}

/** The origins of a route. */
export interface OriginGroup extends Origin {
  /** Holds the member that a request would be sent to now; that of the `owner`, where a member authenticates its connection. */
  hold(owner?: BoundClient): Hold;
  /** Returns the state of all members. */
  listMembers(): readonly MemberState[];
  /** Stops the checks, and retires the connections of all members. Requests are sent as before. */
  retire(): void;
}

/**
 * Creates a group. It sends a request to the selected member, and again by the rules of `mayResend`, as often as the options and
 * the budget allow; otherwise the failure stands.
 *
 * A member that fails gets no requests for a while (see `Health`); a lone member is never ill. Where no member is well, the one that
 * has rested longest gets the request all the same: it may be well again, and without requests this would not be noticed.
 */
export function createOriginGroup(options: OriginGroupOptions): OriginGroup {
  return new Group(options);
}

interface Member extends Omit<GroupMember, 'health'> {
  readonly health: Health;
  /** Requests under way, until their bodies are over. */
  load: number;
}

class Group implements OriginGroup {
  readonly #members: readonly Member[];
  readonly #isSpread: boolean;
  readonly #attempts: number;
  readonly #budget: ResendBudget;
  readonly #attachments: Attachments<Member>;
  /** The member that authenticates a client's connection. */
  readonly #bound = new WeakMap<BoundClient, Member>();
  readonly #stopChecks: readonly (() => void)[];
  /** The index at which the search among members with the same load begins. */
  #turn = 0;

  constructor({ members, choice, retries, health, check, clock, random, onHealth }: OriginGroupOptions) {
    const rules = { ...health, passes: check?.passes };
    this.#members = members.map((member) => {
      const tell = (isWell: boolean, reason: string) => onHealth(member.url, isWell, reason);
      return { ...member, load: 0, health: member.health ?? new Health(rules, clock.now, tell) };
    });
    this.#isSpread = choice === 'spread';
    this.#attempts = retries.attempts;
    this.#budget = new ResendBudget(retries.budgetPercent, clock.now);
    this.#attachments = new Attachments({ sticksWhenValidated: this.#isSpread });
    this.#stopChecks =
      check === undefined || !this.#isMany
        ? []
        : this.#members.map(({ origin, checkOrigin = origin, url, health: checked }) =>
            startHealthChecks(checkOrigin, check.fieldsFor(url), check, { clock, random }, (isPassed, reason) =>
              checked.noteCheck(isPassed, reason),
            ),
          );
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    this.#budget.note();
    const body = request.body === undefined ? undefined : new ReusableBody(request.body);
    let isAnswered = false;
    const onInterim: OriginRequest['onInterim'] = (interim) => {
      isAnswered = true;
      request.onInterim?.(interim);
    };
    const tried: Member[] = [];
    for (let resends = 0; ; resends += 1) {
      const member = this.#select(request, request.owner, tried);
      tried.push(member);
      const sent = { ...request, body, onInterim, isResent: resends > 0 };
      const attempt = await (this.#isMany ? this.#send(member, sent) : send(member.origin, sent));
      const mayBeAgain = () => {
        const hasOther = this.#members.some((each) => !tried.includes(each) && each.health.mayAsk);
        return mayResend(attempt, { request, isAnswered, isBodyKept: body?.isKept !== false, hasOther });
      };
      if (!isGood(attempt) && resends < this.#attempts && mayBeAgain() && this.#budget.take()) {
        if (attempt.kind === 'response') attempt.response.body.close();
        continue;
      }
      body?.release(attempt.kind === 'failed');
      if (attempt.kind === 'failed') throw attempt.error;
      return attempt.response;
    }
  }

  hold(owner?: BoundClient): Hold {
    const member = this.#select(undefined, owner, []);
    const report = this.#isMany ? member.health.begin() : () => {};
    member.load += 1;
    let isHeld = true;
    let isReported = false;
    const tell: Report = (outcome, reason) => {
      if (!isReported) report(outcome, reason);
      isReported = true;
    };
    return {
      url: member.url,
      host: member.host,
      report: tell,
      release() {
        tell('unknown', '');
        if (isHeld) member.load -= 1;
        isHeld = false;
      },
    };
  }

  listMembers(): readonly MemberState[] {
    return this.#members.map(({ url, health, readUse }) => ({ url, health: health.state, use: readUse?.() }));
  }

  retire(): void {
    for (const stop of this.#stopChecks) stop();
    for (const { retire } of this.#members) retire?.();
  }

  async close(): Promise<void> {
    for (const stop of this.#stopChecks) stop();
    await Promise.all(this.#members.flatMap(({ origin, checkOrigin }) => [origin.close(), checkOrigin?.close()]));
  }

  get #isMany(): boolean {
    return this.#members.length > 1;
  }

  /** Selects the member that authenticates the connection of the owner; without one, or where it was tried, a member by the rules. */
  #select(request: OriginRequest | undefined, owner: BoundClient | undefined, tried: readonly Member[]): Member {
    if (owner === undefined) return this.#selectFor(request, tried);
    const bound = this.#bound.get(owner);
    const member = bound === undefined || tried.includes(bound) ? this.#selectFor(request, tried) : bound;
    this.#bound.set(owner, member);
    return member;
  }

  /** Selects an untried member that may be asked; without one, an untried member; without one, any member. */
  #selectFor(request: OriginRequest | undefined, tried: readonly Member[]): Member {
    const [first] = this.#members;
    if (first === undefined) throw new Error('a group of no origins');
    if (!this.#isMany) return first;
    const untried = this.#members.filter((member) => !tried.includes(member));
    const ready = untried.filter(({ health }) => health.mayAsk);
    const wish = request === undefined ? undefined : this.#attachments.select(request);
    if (wish?.kind === 'this' && ready.includes(wish.member)) return wish.member;
    const others = wish?.kind === 'another' ? ready.filter((member) => member !== wish.member) : ready;
    const able = others.length > 0 ? others : ready;
    if (able[0] !== undefined) return this.#isSpread ? this.#leastLoaded(able, able[0]) : able[0];
    const rested = (untried.length > 0 ? untried : this.#members).toSorted(
      (a, b) => a.health.restUntilAt - b.health.restUntilAt,
    );
    return rested[0] ?? first;
  }

  #leastLoaded(ready: readonly Member[], first: Member): Member {
    let best = first;
    for (let step = 0; step < ready.length; step += 1) {
      const member = ready[(this.#turn + step) % ready.length] as Member;
      if (step === 0 || member.load < best.load) best = member;
    }
    this.#turn = (ready.indexOf(best) + 1) % ready.length;
    return best;
  }

  /** Sends a request to one of several members. */
  async #send(member: Member, request: OriginRequest): Promise<Attempt> {
    const { host, origin, health } = member;
    const fields = host === undefined ? request.fields : withHost(request.fields, host);
    const report = health.begin();
    member.load += 1;
    const sent = await send(origin, { ...request, fields });
    report(...verdictOn(sent));
    if (sent.kind === 'failed' || sent.response.framing === 'none') {
      member.load -= 1;
      return sent;
    }
    return { kind: 'response', response: this.#watch(member, request, sent.response) };
  }

  /** Counts a response as load of its member until its body is over, and attaches its target to the member. */
  #watch(member: Member, { method, target }: OriginRequest, response: OriginResponse): OriginResponse {
    const isKept = method === 'GET' && (response.status === 200 || response.status === 206);
    const attachment = isKept ? this.#attachments.note(target, member) : undefined;
    return observedResponse(response, {
      onEnd(_isWhole, thrown) {
        member.load -= 1;
        if (isOriginFault(thrown)) attachment?.noteBreak();
      },
    });
  }
}

/** Whether there is no reason to send the request again. */
function isGood(attempt: Attempt): boolean {
  return attempt.kind === 'response' && !isFailureResponse(attempt.response);
}

async function send(origin: Origin, request: OriginRequest): Promise<Attempt> {
  try {
    return { kind: 'response', response: await origin.fetch(request) };
  } catch (error) {
    return { kind: 'failed', error };
  }
}

function verdictOn(sent: Attempt): [Outcome, string] {
  if (sent.kind === 'response')
    return [isFailureResponse(sent.response) ? 'failed' : 'well', `status ${sent.response.status}`];
  const { code, detail } = toProxyError(sent.error);
  return [isOriginFault(sent.error) ? 'failed' : 'unknown', detail === undefined ? code : `${code}, ${detail}`];
}

/** The number of targets that are remembered: those of the most recent representations. */
const maxTargets = 2048;

/** In characters. Longer targets are not remembered, to save memory. */
const maxTargetLength = 2048;

/** The member that a request should go to (`this`) or not (`another`), if the state of the members permits it. */
interface Wish<M> {
  readonly kind: 'this' | 'another';
  readonly member: M;
}

interface Attachment<M> {
  readonly member: M;
  /** The number of transfers in a row that broke off, up to the last one: the next request may resume it. */
  breaks: number;
}

/** The number of breaks in a row after which another member may do better. */
const maxBreaks = 2;

/**
 * Remembers which member sent the representation of a target. Members that serve the same files may have different validators for
 * them, or different bytes during a release. Such bytes are never combined. A transfer that alternates between two such members would
 * meet a difference at every step, and fetch without end. So a request that continues a representation (If-Range), or resumes a
 * transfer that broke off, should go to the member that sent it. The group follows this wish while that member is well.
 */
export class Attachments<M> {
  readonly #byTarget = new ExpiringMap<Attachment<M>>(maxTargets);
  readonly #sticksWhenValidated: boolean;

  /** `sticksWhenValidated`: conditional requests should go to the member that sent the representation, too. */
  constructor({ sticksWhenValidated }: { readonly sticksWhenValidated: boolean }) {
    this.#sticksWhenValidated = sticksWhenValidated;
  }

  /** Returns the wish for a request; undefined where any member will do. */
  select({ method, target, fields }: Pick<OriginRequest, 'method' | 'target' | 'fields'>): Wish<M> | undefined {
    const attachment = method === 'GET' ? this.#byTarget.get(target, 0) : undefined;
    if (attachment === undefined) return undefined;
    const { member, breaks } = attachment;
    if (breaks >= maxBreaks) return { kind: 'another', member };
    if (breaks > 0 || hasField(fields, 'if-range')) return { kind: 'this', member };
    const isValidation = hasField(fields, 'if-none-match') || hasField(fields, 'if-modified-since');
    return this.#sticksWhenValidated && isValidation ? { kind: 'this', member } : undefined;
  }

  /** Notes that a member has begun to send a representation, or a part of one. Call `noteBreak` if the transfer breaks off. */
  note(target: string, member: M): { noteBreak(): void } {
    const before = this.#byTarget.get(target, 0);
    const attachment = { member, breaks: 0 };
    const breaks = before?.member === member ? before.breaks : 0;
    if (target.length <= maxTargetLength) this.#byTarget.set(target, attachment, Number.POSITIVE_INFINITY);
    return {
      noteBreak: () => {
        attachment.breaks = breaks + 1;
      },
    };
  }
}
