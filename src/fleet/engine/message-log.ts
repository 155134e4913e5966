/**
 * The log of messages in the engine: a stream, to which each member of the fleet appends its invalidation messages and changes of
 * the store, and which each member reads in order. It is the push and the record of what was missed in one.
 *
 * Each message names the one before it. So a member notices a gap: the log was trimmed further than the member had read, or was
 * flushed, or a failover lost its end. It then forgets all that it has in memory, and stores nothing of what is in flight.
 */

import type { InvalidationMessage } from '../../cache/fleet.ts';
import type { Clock } from '../../http/clock.ts';
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
/** First and longest interval of the looks at what the others have applied, in milliseconds. */
const FIRST_LOOK_MS = 2;
const LAST_LOOK_MS = 50;
/** What was read from the log within this time counts as the present. In milliseconds. */
const RECENT_MS = 1_500;
/** Shortest interval at which memory is emptied while the engine is away, in milliseconds. */
const LEAST_TRUST_MS = 1_000;
/** Number of messages that wait for an engine that is away. More become one message that invalidates all. */
const MAX_WAITING = 1_000;

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
  /** Identifies this member among all that ever used the engine. */
  readonly instance: string;
  /** Milliseconds that never go back. */
  readonly clock: Clock;
  /** Applies a message of another member. Never rejects. */
  readonly apply: (news: InvalidationMessage) => Promise<void>;
  /** How long memory answers while the engine is away, before it is emptied, again and again. In milliseconds. */
  readonly trustMs: number;
  /** Called when the engine cannot be reached any more, and when it can again and all messages are applied. */
  readonly onChange: (isAway: boolean) => void;
}

/** The messages of one member. */
export class MessageLog {
  readonly #options: MessageLogOptions;
  readonly #closing = Promise.withResolvers<void>();
  /** The id of the last message that was applied; undefined before the first look at the log. */
  #applied: string | undefined;
  /** When the last look at the log that succeeded began. */
  #readAt = Number.NEGATIVE_INFINITY;
  #isAway = false;
  #isClosed = false;
  #running: Promise<void> | undefined;
  #syncing: Promise<boolean> | undefined;
  #cancelDistrust: () => void = () => {};
  #waiting: string[] = [];

  constructor(options: MessageLogOptions) {
    this.#options = options;
  }

  /** Whether the engine cannot be reached. */
  get isAway(): boolean {
    return this.#isAway;
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
   * Appends a message. Resolves when it is in the log; while the engine is away at once: it is appended when the engine is back.
   * Returns its id, undefined while the engine is away. Never rejects.
   */
  async append(news: InvalidationMessage): Promise<string | undefined> {
    const text = JSON.stringify(news);
    if (this.#isAway) return this.#keep(text);
    try {
      return await this.#append(text);
    } catch {
      this.noteFailure();
      return this.#keep(text);
    }
  }

  /** Appends a message, and waits until all members that live have applied it. Never rejects. */
  async announce(news: InvalidationMessage): Promise<void> {
    const id = await this.append(news);
    if (id === undefined) return;
    const { clock } = this.#options;
    const end = clock.now() + MEMBER_MS;
    for (
      let delayMs = FIRST_LOOK_MS;
      clock.now() < end && !this.#isAway;
      delayMs = Math.min(LAST_LOOK_MS, delayMs * 2)
    ) {
      if ((await this.#countBehind(id)) === 0) return;
      await this.#pause(delayMs);
    }
  }

  /**
   * Resolves when all messages that were in the log before the call have been applied, or the engine is away; in the same tick where
   * the log was read a moment ago. A process that was suspended calls this before it trusts what it was doing.
   */
  current(): Promise<void> | undefined {
    const isRecent = this.#options.clock.now() - this.#readAt < RECENT_MS;
    return isRecent || this.#isAway ? undefined : this.#catchUp();
  }

  /** Ends following the log, and leaves the fleet. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelDistrust();
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
      const appended = engine.untilAppended(keys.log, this.#applied ?? start, BLOCK_MS);
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

  /** Reads and applies all that is in the log. Returns whether the engine could be reached. One at a time. */
  #sync(): Promise<boolean> {
    this.#syncing ??= this.#readAll().finally(() => {
      this.#syncing = undefined;
    });
    return this.#syncing;
  }

  async #readAll(): Promise<boolean> {
    try {
      while (await this.#readPage());
    } catch {
      this.#setAway();
      return false;
    }
    if (this.#isAway) await this.#return();
    return true;
  }

  /** Reads and applies the next messages. Returns whether there may be more, or this member has to show that it has applied them. */
  async #readPage(): Promise<boolean> {
    const { engine, keys, instance, clock } = this.#options;
    const readAt = clock.now();
    const args = [instance, this.#applied ?? '', String(PAGE_SIZE)];
    const reply = await withinTime(clock, ANSWER_MS, engine.run(syncScript, [keys.log, keys.members], args));
    const { last, messages } = readPage(reply);
    if (this.#applied === undefined) {
      // Nothing is in memory yet, so earlier messages concern nothing here.
      this.#applied = last;
      this.#readAt = readAt;
      return true;
    }
    const [first] = messages;
    const hasGap = first === undefined ? last !== this.#applied : first.after !== this.#applied;
    if (hasGap) {
      this.#applied = last;
      await this.#forgetAll();
      return true;
    }
    for (const { id, from, text } of messages) {
      if (from !== instance) await this.#applyText(text);
      this.#applied = id;
    }
    this.#readAt = readAt;
    return messages.length > 0;
  }

  async #applyText(text: string): Promise<void> {
    let news: InvalidationMessage;
    try {
      news = JSON.parse(text) as InvalidationMessage;
    } catch {
      // Written by another program.
      return await this.#forgetAll();
    }
    await this.#options.apply(news);
  }

  /** Forgets all that is in memory, and keeps running flights from being stored: some message was missed. */
  async #forgetAll(): Promise<void> {
    for (const news of all) await this.#options.apply(news);
  }

  async #append(text: string): Promise<string> {
    const { engine, keys, instance, clock } = this.#options;
    const appending = engine.run(appendScript, [keys.log], [String(KEPT_MESSAGES), instance, text]);
    return String(await withinTime(clock, ANSWER_MS, appending));
  }

  #keep(text: string): undefined {
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push(text);
    else this.#waiting = all.map((each) => JSON.stringify(each));
  }

  async #countBehind(id: string): Promise<number> {
    const { engine, keys, instance, clock } = this.#options;
    try {
      const args = [id, instance, String(MEMBER_MS)];
      return Number(await withinTime(clock, ANSWER_MS, engine.run(behindScript, [keys.members], args)));
    } catch {
      this.noteFailure();
      return 0;
    }
  }

  #setAway(): void {
    if (this.#isAway || this.#isClosed) return;
    this.#isAway = true;
    this.#options.onChange(true);
    this.#distrust(this.#options.trustMs);
  }

  /** Empties the memory again and again until the engine is back: messages may be missed. */
  #distrust(delayMs: number): void {
    const { clock, trustMs, apply } = this.#options;
    this.#cancelDistrust = clock.after(delayMs, () => {
      void apply(emptied);
      this.#distrust(Math.max(trustMs, LEAST_TRUST_MS));
    });
  }

  /** The engine is back, and its messages have been applied. Appends what waited. */
  async #return(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = [];
    try {
      for (let text = waiting[0]; text !== undefined; text = waiting[0]) {
        await this.#append(text);
        waiting.shift();
      }
    } catch {
      this.#waiting = [...waiting, ...this.#waiting];
      return;
    }
    this.#isAway = false;
    this.#cancelDistrust();
    this.#options.onChange(false);
  }
}

/** Empties the memory of a member. */
const emptied: InvalidationMessage = { kind: 'store', change: { kind: 'fresh' } };
/** Every key begins with the empty prefix. */
const all: readonly InvalidationMessage[] = [{ kind: 'invalidated', keys: [], prefixes: [''], tags: [] }, emptied];

/** The id before the first message of a log. */
const start = '0-0';

/** A message as the log has it. */
interface LoggedMessage {
  readonly id: string;
  /** The id of the message before it. */
  readonly after: string;
  /** The instance of the member that has sent it. */
  readonly from: string;
  readonly text: string;
}

/** Reads the reply of `syncScript`. Throws where the stream has other content. */
function readPage(reply: unknown): { readonly last: string; readonly messages: readonly LoggedMessage[] } {
  const [last, entries] = reply as [unknown, readonly (readonly [unknown, readonly unknown[]])[]];
  const messages = entries.map(([id, fields]) => {
    const [, after, , from, , text] = fields.map(String);
    return { id: String(id), after: after ?? '', from: from ?? '', text: text ?? '' };
  });
  return { last: String(last), messages };
}

/** Appends a message with the id of the one before it, and trims the log. */
const appendScript = `
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local after = last[1] and last[1][1] or '${start}'
return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'after', after, 'from', ARGV[2], 'news', ARGV[3])
`;

/** Shows that a member lives and what it has applied. Returns the id of the last message, and the next messages for the member. */
const syncScript = `
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local id = last[1] and last[1][1] or '${start}'
local applied = ARGV[2] == '' and id or ARGV[2]
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], ARGV[1], applied .. ' ' .. time[1] .. string.format('%03d', math.floor(time[2] / 1000)))
return {id, redis.call('XRANGE', KEYS[1], '(' .. applied, '+', 'COUNT', ARGV[3])}
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

const leaveScript = `return redis.call('HDEL', KEYS[1], ARGV[1])`;
