/**
 * The origins of one route as one: chooses the member that a request is sent to, and sends it again where that is allowed (see
 * resend.ts). Read this file first. `Attachments` remembers which member gave a representation, so that more of the same
 * representation is asked of that one.
 */

import type { Clock } from '../../http/clock.ts';
import { type Fields, hasField } from '../../http/fields.ts';
import { toProxyError } from '../../http/proxy-error.ts';
import type { Origin, OriginRequest, OriginResponse } from '../origin.ts';
import {
  Health,
  type HealthCheckRules,
  type HealthRules,
  type HealthState,
  type Outcome,
  type Report,
  startHealthChecks,
} from './health.ts';
import { type Attempt, isOriginFault, isUnwell, LentBody, mayResend, ResendBudget, WatchedBody } from './resend.ts';

/** One of the origins. */
export interface GroupMember {
  readonly url: URL;
  readonly origin: Origin;
  /** What it is checked over: connections of its own, for which checks need not wait until clients leave one. */
  readonly checkOrigin?: Origin | undefined;
  /** The Host that it is asked with, in place of the request's; undefined where all see the same one. */
  readonly host: string | undefined;
  /** What is known of it already; nothing where it is absent. It must go by the rules of the group. */
  readonly health?: Health | undefined;
  /** As `ConnectedOrigin.retire`, of all its connections. */
  readonly retire?: (() => void) | undefined;
}

/** How a group behaves. */
export interface OriginGroupOptions {
  /** At least one. */
  readonly members: readonly GroupMember[];
  /** The first that is well, or the one with the fewest requests. */
  readonly choice: 'first' | 'spread';
  /** How often a request is sent again, and how many of all requests may be, in percent. */
  readonly retries: { readonly attempts: number; readonly budgetPercent: number };
  readonly health: Pick<HealthRules, 'failures' | 'restMs'>;
  /** Checks of every member, the fields of their requests, and how many that pass make a member well again. */
  readonly check?:
    | (HealthCheckRules & { readonly passes: number; readonly fieldsFor: (url: URL) => Fields })
    | undefined;
  readonly clock: Clock;
  /** A number from 0 to 1. */
  readonly random: () => number;
  /** A member has become ill, or is well again, whose health was not given. */
  readonly onHealth: (url: URL, isWell: boolean, reason: string) => void;
}

/** A member that is held for something else than a request: for a tunnel. */
export interface Hold {
  readonly url: URL;
  /** As `GroupMember.host`. */
  readonly host: string | undefined;
  /** What came of it, as far as it tells of the origin; once. */
  report: Report;
  /** It is over. */
  release(): void;
}

/** How a member is. */
export interface MemberState {
  readonly url: URL;
  readonly health: HealthState;
}

/** The origins of a route. */
export interface OriginGroup extends Origin {
  /** The member that a request would be sent to now. */
  hold(): Hold;
  /** How all members are. */
  listMembers(): readonly MemberState[];
  /** No more checks are made, and no connection is kept that nothing runs on. Requests are sent as before. */
  retire(): void;
}

/**
 * Sends requests to the member that is to be asked, and again by the rules of `mayResend`, as often as the options say and the
 * budget allows; when it does not, the failure stands.
 *
 * A member that fails is not asked for a while (see `Health`); a lone one is never ill. Where none is well the one that has
 * rested longest is asked all the same: an origin that is perhaps well is better than a refusal, and without requests nobody
 * would learn that it is.
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
  readonly #stopChecks: readonly (() => void)[];
  /** Where to look first among members that have the same load. */
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
    const body = request.body === undefined ? undefined : new LentBody(request.body);
    let isAnswered = false;
    const onInterim: OriginRequest['onInterim'] = (interim) => {
      isAnswered = true;
      request.onInterim?.(interim);
    };
    const tried: Member[] = [];
    for (let resends = 0; ; resends += 1) {
      const member = this.#select(request, tried);
      tried.push(member);
      const attempt = await this.#send(member, { ...request, body, onInterim, isResent: resends > 0 });
      const mayBeAgain = () => {
        const hasOther = this.#members.some((each) => !tried.includes(each) && each.health.mayAsk);
        return mayResend(attempt, { request, isAnswered, isBodyTouched: body?.isTouched === true, hasOther });
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

  hold(): Hold {
    const member = this.#select(undefined, []);
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
    return this.#members.map(({ url, health }) => ({ url, health: health.state }));
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

  /** One that was not tried and may be asked; failing that, one that was not tried; failing that, any. */
  #select(request: OriginRequest | undefined, tried: readonly Member[]): Member {
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

  async #send(member: Member, request: OriginRequest): Promise<Attempt> {
    const { host, origin, health } = member;
    const fields = host === undefined ? request.fields : withHost(request.fields, host);
    if (!this.#isMany) return await attempt(origin, request);
    const report = health.begin();
    member.load += 1;
    const sent = await attempt(origin, { ...request, fields });
    report(...verdictOn(sent));
    if (sent.kind === 'failed' || sent.response.framing === 'none') {
      member.load -= 1;
      return sent;
    }
    return { kind: 'response', response: this.#watch(member, request, sent.response) };
  }

  /** A response whose member is known to be at work until its body is over. */
  #watch(member: Member, { method, target }: OriginRequest, response: OriginResponse): OriginResponse {
    const isKept = method === 'GET' && (response.status === 200 || response.status === 206);
    const attachment = isKept ? this.#attachments.note(target, member) : undefined;
    const body = new WatchedBody(response.body, {
      onEnd(end) {
        member.load -= 1;
        if (end === 'broken') attachment?.noteBreak();
      },
    });
    return { ...response, body };
  }
}

/** Whether there is no reason to ask again. */
function isGood(attempt: Attempt): boolean {
  return attempt.kind === 'response' && !isUnwell(attempt.response);
}

async function attempt(origin: Origin, request: OriginRequest): Promise<Attempt> {
  try {
    return { kind: 'response', response: await origin.fetch(request) };
  } catch (error) {
    return { kind: 'failed', error };
  }
}

function verdictOn(sent: Attempt): [Outcome, string] {
  if (sent.kind === 'response') return [isUnwell(sent.response) ? 'failed' : 'well', `status ${sent.response.status}`];
  const { code, detail } = toProxyError(sent.error);
  return [isOriginFault(sent.error) ? 'failed' : 'unknown', detail === undefined ? code : `${code}, ${detail}`];
}

/** In the place of the other one. */
function withHost(fields: Fields, host: string): Fields {
  return fields.map((field) => (field[0] === 'host' ? ['host', host] : field));
}

/** So many resources are remembered, those that were asked for last. */
const maxTargets = 2048;

/** Targets that are longer are not worth the memory. */
const maxTargetLength = 2048;

/** Where a request should go, if that one may be asked: to this origin, or to any but this one. */
interface Wish<M> {
  readonly kind: 'this' | 'another';
  readonly member: M;
}

interface Attachment<M> {
  readonly member: M;
  /** How many transfers in a row broke off, the last one among them: the next request may be to take it up again. */
  breaks: number;
}

/** After so many breaks in a row somebody else may do better. */
const maxBreaks = 2;

/**
 * Origins that serve the same files may still name them by other validators, or send other bytes in the moment of a release.
 * Bytes are never combined across such a border; but what alternates between two origins would find one at every step, and
 * fetch without end. So a request that goes on with a representation (If-Range), or takes up a transfer that broke off, goes
 * to the origin that gave it; it is a wish, which the group fulfils while that origin is well.
 */
export class Attachments<M> {
  readonly #byTarget = new Map<string, Attachment<M>>();
  readonly #sticksWhenValidated: boolean;

  /** `sticksWhenValidated`: a request that asks whether something has changed goes to the one that gave it, too. */
  constructor({ sticksWhenValidated }: { readonly sticksWhenValidated: boolean }) {
    this.#sticksWhenValidated = sticksWhenValidated;
  }

  /** Undefined where any will do. */
  select({ method, target, fields }: Pick<OriginRequest, 'method' | 'target' | 'fields'>): Wish<M> | undefined {
    const attachment = method === 'GET' ? this.#byTarget.get(target) : undefined;
    if (attachment === undefined) return undefined;
    const { member, breaks } = attachment;
    if (breaks >= maxBreaks) return { kind: 'another', member };
    if (breaks > 0 || hasField(fields, 'if-range')) return { kind: 'this', member };
    const isValidation = hasField(fields, 'if-none-match') || hasField(fields, 'if-modified-since');
    return this.#sticksWhenValidated && isValidation ? { kind: 'this', member } : undefined;
  }

  /** An origin has begun to send a representation, or a part of one. Tells who calls it how to say that it broke off. */
  note(target: string, member: M): { noteBreak(): void } {
    const before = this.#byTarget.get(target);
    const attachment = { member, breaks: 0 };
    const breaks = before?.member === member ? before.breaks : 0;
    if (target.length <= maxTargetLength) {
      this.#byTarget.delete(target);
      this.#byTarget.set(target, attachment);
      const [oldest] = this.#byTarget.keys();
      if (this.#byTarget.size > maxTargets && oldest !== undefined) this.#byTarget.delete(oldest);
    }
    return {
      noteBreak: () => {
        attachment.breaks = breaks + 1;
      },
    };
  }
}
