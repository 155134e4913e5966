/**
 * The log of messages in the engine: a stream, to which each member of the fleet appends its invalidation messages and changes of
 * the store, and which each member reads in order. It is the push and the record of what was missed in one.
 *
 * Each message names the one before it, and the epoch of the log: a random text that is drawn when the log is made. So a member notices
 * a gap: the log was trimmed further than the member had read, or was flushed, or a failover lost its end. It then forgets all that it
 * has in memory, and stores nothing of what is in flight.
 *
 * Memory answers only while the last look at the log is younger than `MEMORY_MS`. An announcement waits `MEMBER_MS`, which is longer, for
 * a member that is silent: after that no memory answers any more with what the message has made invalid.
 *
 *     1  B looks at the log                          B's memory may answer until 5 s after 1
 *     2  B is suspended, or its connection is slow
 *     3  A appends a message, and waits for B
 *     4  six seconds after 3: A goes on without B    B's memory has not answered for a second at least
 *     5  B wakes up, and looks at the log before it answers from memory
 */

import { randomBytes } from 'node:crypto';
import type { InvalidationMessage } from '../../cache/fleet.ts';
import type { Clock } from '../../http/clock.ts';
import type { Seal } from '../../store/redis/seal.ts';
import { type StoreChange, StoreFault } from '../../store/store.ts';
import { type FleetEngine, withinTime } from './fleet-engine.ts';

/** Number of messages that the log keeps, about. */
const KEPT_MESSAGES = 10_000;
/** Messages that are read at once. */
const PAGE_SIZE = 500;
/** Longest wait for a message, in milliseconds: afterwards the member shows that it is alive. */
const BLOCK_MS = 1_000;
/** Longest wait for an answer of the engine, in milliseconds. After that it counts as away. */
const ANSWER_MS = 1_000;
/** Interval of the attempts while the engine is away, in milliseconds. */
const RETRY_MS = 250;
/** A member that has not shown itself for so long has died, or is cut off, or hangs. Longer than a lease lasts. In milliseconds. */
const MEMBER_MS = 6_000;
/** How long memory answers after the last look at the log began: `MEMBER_MS` less a margin, for clocks that run unequally. In milliseconds. */
const MEMORY_MS = MEMBER_MS - 1_000;
/** First and longest interval of the looks at what the others have applied, in milliseconds. */
const FIRST_LOOK_MS = 1;
const LAST_LOOK_MS = 50;
/** Each interval is so many times longer than the one before. */
const LOOK_GROWTH = 1.5;
/** What was read from the log within this time counts as the present. In milliseconds. */
const RECENT_MS = 1_500;
/** Shortest interval at which memory is emptied while the engine is away, in milliseconds. */
const LEAST_TRUST_MS = 1_000;
/** Number of messages that wait for an engine that is away. More become one message that invalidates all. */
const MAX_WAITING = 1_000;
/** Messages that are appended at once. */
const BATCH_SIZE = 100;

/** Names of the keys of a fleet in the engine. They are in one slot of a Cluster. */
export interface FleetKeys {
  /** The stream of messages. */
  readonly log: string;
  /** The hash of members: what each has applied, and when it was seen. */
  readonly members: string;
}

/** Options of the log of one member. */
export interface MessageLogOptions {
  readonly engine: Pick<FleetEngine, 'run' | 'untilAppended'>;
  readonly keys: FleetKeys;
  /** Identifies this member among all that ever used the engine: see `nameMember`. */
  readonly instance: string;
  /** Milliseconds that never go back. */
  readonly clock: Clock;
  readonly seal: Pick<Seal, 'sign' | 'verifies' | 'peerKey'>;
  /** Called for a message that no member with a known secret has written: memory is emptied for it. */
  readonly onForged: () => void;
  /**
   * Applies a message of another member: marks in the same tick what it makes invalid, and resolves when nothing that began before is
   * stored any more. Never rejects.
   */
  readonly apply: (news: InvalidationMessage) => Promise<void>;
  /** How long memory answers while the engine is away, before it is emptied, again and again. In milliseconds. */
  readonly trustMs: number;
  /** Called when the engine cannot be reached any more, and when it can again and all messages are applied. */
  readonly onChange: (isAway: boolean) => void;
}

/** A place in the log. */
interface Place {
  /** The id of a message. */
  readonly id: string;
  readonly epoch: string;
}

/** A message on its way into the log. */
interface Queued {
  readonly text: string;
  /** Called once: with the place of the message when it is in the log; with undefined when an attempt to append it has failed. */
  settle(place: Place | undefined): void;
}

/** Returns a name that no other member has. It says by which secret the member signs. */
export function nameMember({ id }: Pick<Seal, 'id'>): string {
  return `${id}.${randomBytes(12).toString('hex')}`;
}

/** The messages of one member. */
export class MessageLog {
  readonly #options: MessageLogOptions;
  readonly #closing = Promise.withResolvers<void>();
  /** The last message that was read, so that what it makes invalid is marked; undefined before the first look at the log. */
  #read: Place | undefined;
  /** The id of the last message that is applied as a whole, and the one of them that the engine knows. */
  #applied = '';
  #told = '';
  #applying: Promise<unknown> = Promise.resolve();
  /** When the looks began whose messages are not all applied yet, in order. */
  readonly #unapplied: number[] = [];
  /** When the look began that is under way; infinity where none is. */
  #lookingSince = Number.POSITIVE_INFINITY;
  /** Whether the last look has taken too long. */
  #wasLate = false;
  /** When the last look at the log that succeeded began. */
  #readAt = Number.NEGATIVE_INFINITY;
  /** Until when memory may answer. */
  #memoryUntil = Number.NEGATIVE_INFINITY;
  /**
   * When it was last not known which members live: the engine has refused to write while it was read, because it is full or a replica;
   * or the log was made anew, and with it the list of members.
   */
  #unknownAt = Number.NEGATIVE_INFINITY;
  #isAway = false;
  #isClosed = false;
  #running: Promise<void> | undefined;
  #syncing: Promise<boolean> | undefined;
  #cancelDistrust: () => void = () => {};
  #cancelRetry: () => void = () => {};
  /** Messages that are not in the log yet, in order. */
  #queue: Queued[] = [];
  #isAppending = false;

  constructor(options: MessageLogOptions) {
    this.#options = options;
  }

  /** Whether the engine cannot be reached. */
  get isAway(): boolean {
    return this.#isAway;
  }

  /**
   * Whether a look at the log has taken longer than `MEMBER_MS`, the application of what it has found included: others have not waited
   * for it. Such a process hangs, or is too slow to keep up.
   */
  get isBehind(): boolean {
    const [since = this.#lookingSince] = this.#unapplied;
    return this.#wasLate || this.#options.clock.now() > Math.min(since, this.#lookingSince) + MEMBER_MS;
  }

  /**
   * Whether memory may answer: a look at the log is younger than `MEMORY_MS`, or the engine is away and memory was current less than
   * `trustMs` ago. Asked for each hit.
   */
  get isMemoryCurrent(): boolean {
    return this.#options.clock.now() < this.#memoryUntil;
  }

  /** Begins to follow the log. Resolves after the first look at it, which may find the engine away. */
  async begin(): Promise<void> {
    await this.#sync();
    this.#running = this.#follow();
  }

  /** Notes that a call to the engine has failed. */
  noteFailure(): void {
    if (!this.#isAway) void this.#sync();
  }

  /**
   * Appends a message, after all that were appended before. Resolves with its place when it is in the log; with undefined when the engine
   * has not taken it, or is away: it stays first in line until the engine takes it. Never rejects.
   */
  async append(news: InvalidationMessage): Promise<Place | undefined> {
    const appended = Promise.withResolvers<Place | undefined>();
    this.#enqueue({ text: JSON.stringify(news), settle: appended.resolve });
    // It keeps its place. Nobody waits for an engine that is away.
    if (this.#isAway || this.#isClosed) return undefined;
    void this.#appendAll();
    return await appended.promise;
  }

  /**
   * Appends a message, and waits until no other member answers with what it makes invalid: all that live have applied it, and the memory
   * of those that are silent does not answer any more. Rejects with `StoreFault` where the engine does not take the message, or is lost
   * meanwhile: the message is applied later.
   */
  async announce(news: InvalidationMessage): Promise<void> {
    const place = await this.append(news);
    if (place === undefined) throw untold();
    const { id, epoch } = place;
    // The log is a new one: so is the list of members, where others may not be yet.
    if (epoch !== this.#read?.epoch) await this.#catchUp();
    const { clock } = this.#options;
    const appendedAt = clock.now();
    for (
      let delayMs = FIRST_LOOK_MS;
      clock.now() < appendedAt + MEMBER_MS;
      delayMs = Math.min(LAST_LOOK_MS, delayMs * LOOK_GROWTH)
    ) {
      if ((await this.#countBehind(id)) === 0 && clock.now() > this.#unknownAt + MEMBER_MS) return;
      if (this.#isAway || this.#isClosed) throw untold();
      await this.#pause(delayMs);
    }
  }

  /**
   * Resolves when what all messages that were in the log before the call make invalid has been marked, or the engine is away; in the
   * same tick where the log was read a moment ago. A process that was suspended calls this before it trusts what it was doing.
   */
  current(): Promise<void> | undefined {
    const isRecent = this.#options.clock.now() - this.#readAt < RECENT_MS;
    return isRecent || this.#isAway ? undefined : this.#catchUp();
  }

  /**
   * Returns how many members live that have none of the secrets of this one. Waits for a sign of life of each that is in the engine: one
   * may have been killed. Never rejects.
   */
  async countStrangers(): Promise<number> {
    const before = await this.#readStrangers();
    if (before.size === 0) return 0;
    await this.#pause(2 * BLOCK_MS);
    const after = await this.#readStrangers();
    return [...after].filter(([name, seen]) => before.get(name) !== seen).length;
  }

  async #readStrangers(): Promise<ReadonlyMap<string, string>> {
    const { engine, keys, seal, clock } = this.#options;
    try {
      const reply = await withinTime(clock, ANSWER_MS, engine.run(membersScript, [keys.members], []));
      const members = Object.entries(fieldsOf(reply));
      return new Map(members.filter(([name]) => seal.peerKey(name.split('.')[0] ?? '') === undefined));
    } catch {
      return new Map();
    }
  }

  /** Ends following the log, and leaves the fleet. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelDistrust();
    this.#cancelRetry();
    this.#closing.resolve();
    await this.#running;
    const { engine, keys, instance, clock } = this.#options;
    await withinTime(clock, ANSWER_MS, engine.run(leaveScript, [keys.members], [instance])).catch(() => {});
  }

  async #follow(): Promise<void> {
    const { engine, keys, clock } = this.#options;
    while (!this.#isClosed) {
      const wasThere = await this.#sync();
      if (!wasThere) {
        await this.#pause(RETRY_MS);
        continue;
      }
      const appended = engine.untilAppended(keys.log, this.#read?.id ?? start, BLOCK_MS);
      const next = withinTime(clock, BLOCK_MS + ANSWER_MS, appended).catch(() => this.#pause(RETRY_MS));
      await Promise.race([next, this.#closing.promise]);
    }
  }

  async #pause(delayMs: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const cancel = this.#options.clock.after(delayMs, over.resolve);
    await Promise.race([over.promise, this.#closing.promise]);
    cancel();
  }

  async #catchUp(): Promise<void> {
    // A look that is under way may have begun before this process was suspended.
    await this.#syncing;
    await this.#sync();
  }

  /** Reads all that is in the log, and marks what it makes invalid. Returns whether the engine could be reached. One at a time. */
  #sync(): Promise<boolean> {
    this.#syncing ??= this.#readAll().finally(() => {
      this.#syncing = undefined;
    });
    return this.#syncing;
  }

  async #readAll(): Promise<boolean> {
    const begunAt = this.#options.clock.now();
    this.#lookingSince = begunAt;
    try {
      while (await this.#readPage(begunAt));
    } catch {
      this.#setAway();
      return false;
    } finally {
      this.#lookingSince = Number.POSITIVE_INFINITY;
    }
    this.#wasLate = false;
    if (this.#isAway) this.#return();
    return true;
  }

  /** Reads the next messages, and marks what they make invalid. Returns whether there may be more. */
  async #readPage(begunAt: number): Promise<boolean> {
    const { engine, keys, instance, clock } = this.#options;
    const readAt = clock.now();
    const told = this.#applied;
    const args = [instance, this.#read?.id ?? '', told, String(PAGE_SIZE), randomBytes(8).toString('hex')];
    const reply = await withinTime(clock, ANSWER_MS, engine.run(syncScript, [keys.log, keys.members], args));
    if (clock.now() > begunAt + MEMBER_MS) {
      this.#wasLate = true;
      throw new Error('The look at the log has taken too long.');
    }
    const { last, messages, isTold } = readPage(reply);
    if (isTold) this.#told = told;
    else this.#unknownAt = clock.now();
    if (this.#read === undefined) {
      // Nothing is in memory yet, so earlier messages concern nothing here.
      this.#told = last.id;
      this.#applied = last.id;
      this.#read = last;
    } else if (isGap(this.#read, last, messages[0])) {
      if (last.epoch !== this.#read.epoch) this.#unknownAt = clock.now();
      this.#read = last;
      this.#finish(
        begunAt,
        all.map((news) => this.#options.apply(news)),
      );
    } else if (messages.length > 0) this.#mark(begunAt, messages);
    if (messages.length === PAGE_SIZE) return true;
    this.#readAt = readAt;
    this.#memoryUntil = readAt + MEMORY_MS;
    return false;
  }

  /** Marks what messages make invalid, all in one tick. */
  #mark(begunAt: number, messages: readonly LoggedMessage[]): void {
    const { instance } = this.#options;
    const others = messages.filter(({ from }) => from !== instance && from !== '');
    this.#read = messages.at(-1)?.place;
    this.#finish(
      begunAt,
      others.flatMap((each) => this.#applyOne(each)),
    );
  }

  /** Waits until the messages that were read are applied, and shows that to the others. No look at the log waits for it. */
  #finish(begunAt: number, applied: readonly Promise<void>[]): void {
    const id = this.#read?.id ?? start;
    this.#unapplied.push(begunAt);
    this.#applying = Promise.all([this.#applying, ...applied]).then(async () => {
      this.#applied = id;
      this.#unapplied.shift();
      await this.#syncing;
      if (this.#told !== id && !this.#isAway && !this.#isClosed) void this.#sync();
    });
  }

  #applyOne({ from, text, tag }: LoggedMessage): readonly Promise<void>[] {
    const { seal, onForged } = this.#options;
    const isAuthentic = seal.verifies(tag, 'message', from, text);
    if (!isAuthentic) onForged();
    // Written by another program, another release, or a member with another secret: what it makes invalid is not known.
    const news = isAuthentic ? readMessage(text) : undefined;
    return (news === undefined ? all : [news]).map((each) => this.#options.apply(each));
  }

  #enqueue(queued: Queued): void {
    this.#queue.push(queued);
    if (this.#queue.length <= MAX_WAITING) return;
    const dropped = this.#queue;
    const settle = (place: Place | undefined) => {
      for (const each of dropped) each.settle(place);
    };
    this.#queue = all.map((news, at) => ({
      text: JSON.stringify(news),
      settle: at === all.length - 1 ? settle : () => {},
    }));
  }

  /** Appends what waits, in order, one batch after another. */
  async #appendAll(): Promise<void> {
    if (this.#isAppending) return;
    this.#isAppending = true;
    while (this.#queue.length > 0 && !this.#isClosed) {
      const batch = this.#queue.splice(0, BATCH_SIZE);
      try {
        const place = await this.#append(batch.map(({ text }) => text));
        for (const { settle } of batch) settle(place);
      } catch {
        this.#queue.unshift(...batch);
        for (const { settle } of this.#queue) settle(undefined);
        this.noteFailure();
        this.#cancelRetry();
        this.#cancelRetry = this.#options.clock.after(RETRY_MS, () => void this.#appendAll());
        break;
      }
    }
    this.#isAppending = false;
  }

  /** Appends messages, and returns the place of the last one. */
  async #append(texts: readonly string[]): Promise<Place> {
    const { engine, keys, instance, seal, clock } = this.#options;
    const signed = texts.flatMap((text) => [text, seal.sign('message', instance, text)]);
    const args = [String(KEPT_MESSAGES), instance, randomBytes(8).toString('hex'), ...signed];
    const [id, epoch] = (await withinTime(clock, ANSWER_MS, engine.run(appendScript, [keys.log], args))) as unknown[];
    return { id: String(id), epoch: String(epoch) };
  }

  /** Returns how many other members have not applied a message yet; undefined where the engine does not say. */
  async #countBehind(id: string): Promise<number | undefined> {
    const { engine, keys, instance, clock } = this.#options;
    try {
      const args = [id, instance, String(MEMBER_MS)];
      return Number(await withinTime(clock, ANSWER_MS, engine.run(behindScript, [keys.members], args)));
    } catch {
      this.noteFailure();
      return undefined;
    }
  }

  #setAway(): void {
    if (this.#isAway || this.#isClosed) return;
    this.#isAway = true;
    this.#options.onChange(true);
    let currentAt = this.#readAt;
    if (!this.isMemoryCurrent) {
      // This process was suspended before it noticed the loss, and its connections may have ended for that: others have not waited for it.
      for (const news of all) void this.#options.apply(news);
      currentAt = this.#options.clock.now();
    }
    this.#distrust(currentAt);
  }

  /**
   * Lets memory answer for `trustMs` after it was last current, and then empties it, again and again until the engine is back: messages
   * may be missed.
   */
  #distrust(currentAt: number): void {
    const { clock, trustMs, apply } = this.#options;
    const now = clock.now();
    const isOver = currentAt + trustMs <= now;
    if (isOver) void apply(emptied);
    const from = isOver ? now : currentAt;
    this.#memoryUntil = from + trustMs;
    const delayMs = isOver ? Math.max(trustMs, LEAST_TRUST_MS) : this.#memoryUntil - now;
    this.#cancelDistrust = clock.after(delayMs, () => this.#distrust(Number.NEGATIVE_INFINITY));
  }

  /** The engine is back, and what its messages make invalid is marked. Appends what waits. */
  #return(): void {
    this.#isAway = false;
    this.#cancelDistrust();
    this.#options.onChange(false);
    void this.#appendAll();
  }
}

/** The fault of an announcement that others may not have applied yet. */
function untold(): StoreFault {
  const message =
    'Other nodes may not have applied it yet, because the engine has failed; they do when the engine is back.';
  return new StoreFault('io', message);
}

/** Whether messages were lost between a message that was read and the first of the next ones. */
function isGap(read: Place, last: Place, next: LoggedMessage | undefined): boolean {
  if (next === undefined) return last.id !== read.id || last.epoch !== read.epoch;
  // A log that could not be made yet has no epoch, and may have been lost since.
  return next.after !== read.id || next.place.epoch !== read.epoch;
}

/** Returns a message of the log; undefined where it has another form than members write. */
function readMessage(text: string): InvalidationMessage | undefined {
  try {
    const news = JSON.parse(text) as InvalidationMessage;
    const isRight = news.kind === 'store' ? isChange(news.change) : news.kind === 'invalidated' && isInvalidation(news);
    return isRight ? news : undefined;
  } catch {
    return undefined;
  }
}

function isChange(change: StoreChange): boolean {
  switch (change.kind) {
    case 'keys':
      return isTexts(change.keys);
    case 'tag':
      return typeof change.tag === 'string';
    case 'prefix':
      return typeof change.prefix === 'string';
    default:
      return change.kind === 'fresh';
  }
}

function isInvalidation(news: Extract<InvalidationMessage, { kind: 'invalidated' }>): boolean {
  const { keys, prefixes, tags, patterns = [], expiredAt = 0 } = news;
  const areRight = [keys, prefixes, tags].every(isTexts) && Number.isFinite(expiredAt) && Array.isArray(patterns);
  return areRight && patterns.every(({ start, rest }) => isTexts([start, rest]));
}

function isTexts(value: readonly unknown[]): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

/** Empties the memory of a member. */
const emptied: InvalidationMessage = { kind: 'store', change: { kind: 'fresh' } };
/** Every key begins with the empty prefix. */
const all: readonly InvalidationMessage[] = [{ kind: 'invalidated', keys: [], prefixes: [''], tags: [] }, emptied];

/** The id before the first message of a log. */
const start = '0-0';

/** A message as the log has it. */
interface LoggedMessage {
  readonly place: Place;
  /** The id of the message before it. */
  readonly after: string;
  /** The instance of the member that has sent it; empty in the message that makes the log. */
  readonly from: string;
  readonly text: string;
  /** The tag of the seal over the member and the text. */
  readonly tag: string;
}

/** What one look at the log has found. */
interface Page {
  readonly last: Place;
  readonly messages: readonly LoggedMessage[];
  /** Whether the engine has taken that this member lives. */
  readonly isTold: boolean;
}

/** Reads the reply of `syncScript`. Throws where the stream has other content. */
function readPage(reply: unknown): Page {
  const [id, epoch, isTold, entries] = reply as [unknown, unknown, unknown, readonly (readonly [unknown, unknown])[]];
  const messages = entries.map(([own, fields]) => {
    const { after = '', from = '?', news: text = '', tag = '', epoch: ownEpoch = '' } = fieldsOf(fields);
    return { place: { id: String(own), epoch: ownEpoch }, after, from, text, tag };
  });
  return { last: { id: String(id), epoch: String(epoch) }, messages, isTold: String(isTold) === '1' };
}

/** Returns the fields of an entry of a stream or of a hash: names and values in turn. */
function fieldsOf(list: unknown): Readonly<Record<string, string>> {
  const texts = (list as readonly unknown[]).map(String);
  return Object.fromEntries(texts.flatMap((name, at) => (at % 2 === 0 ? [[name, texts[at + 1] ?? '']] : [])));
}

/** Returns the id and the epoch of the last message of the log, in Lua. */
const placeFunction = `
local function place()
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  if not last then return nil, '' end
  for i = 1, #last[2], 2 do
    if last[2][i] == 'epoch' then return last[1], last[2][i + 1] end
  end
  return last[1], ''
end
`;

/** Appends messages, each with the id of the one before it, and trims the log. Returns the id of the last one, and the epoch. */
const appendScript = `${placeFunction}
local id, epoch = place()
if not id then id, epoch = '${start}', ARGV[3] end
for i = 4, #ARGV, 2 do
  id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'after', id, 'from', ARGV[2], 'news', ARGV[i], 'tag', ARGV[i + 1],
    'epoch', epoch)
end
return {id, epoch}
`;

/**
 * Shows that a member lives and what it has applied, where the engine takes writes. Returns the last message, and the next messages for
 * the member. A log that is not there is made, so that it is never empty: a member that has read the first message notices its loss.
 */
const syncScript = `${placeFunction}
local id, epoch = place()
if not id then
  local made = redis.pcall('XADD', KEYS[1], '*', 'after', '${start}', 'from', '', 'news', '', 'epoch', ARGV[5])
  if type(made) == 'string' then id, epoch = made, ARGV[5] else id = '${start}' end
end
local applied = ARGV[2] == '' and id or ARGV[3]
local time = redis.call('TIME')
local seen = applied .. ' ' .. time[1] .. string.format('%03d', math.floor(time[2] / 1000))
local told = redis.pcall('HSET', KEYS[2], ARGV[1], seen)
local from = ARGV[2] == '' and id or ARGV[2]
return {id, epoch, type(told) == 'number' and 1 or 0, redis.call('XRANGE', KEYS[1], '(' .. from, '+', 'COUNT', ARGV[4])}
`;

/** Counts the other members that live and have not applied a message yet. Removes those that have not been seen for long. */
const behindScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ms, seq = string.match(ARGV[1], '^(%d+)%-(%d+)$')
ms, seq = tonumber(ms), tonumber(seq)
local members = redis.call('HGETALL', KEYS[1])
local behind = 0
for i = 1, #members, 2 do
  local ownMs, ownSeq, seenAt = string.match(members[i + 1], '^(%d+)%-(%d+) (%d+)$')
  local silentMs = now - tonumber(seenAt or 0)
  if silentMs > 10 * ARGV[3] then
    redis.call('HDEL', KEYS[1], members[i])
  elseif members[i] ~= ARGV[2] and silentMs <= tonumber(ARGV[3]) then
    ownMs, ownSeq = tonumber(ownMs), tonumber(ownSeq)
    if ownMs < ms or (ownMs == ms and ownSeq < seq) then behind = behind + 1 end
  end
end
return behind
`;

const membersScript = `return redis.call('HGETALL', KEYS[1])`;

const leaveScript = `return redis.call('HDEL', KEYS[1], ARGV[1])`;
