/** Sends the mixed load, and checks every response. */

import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { AnswerCheck } from './answer-check.ts';
import { type Answered, type Clients, idleAgent, readBody, WrongBytes } from './clients.ts';
import { allowedStalenessMs, fileAt, kinds, pathOf, type SoakFile, segmentsIn, versionOf } from './content.ts';
import type { Excuses } from './excuses.ts';
import type { Findings } from './findings.ts';
import type { History, Scheme } from './history.ts';
import { hostileHead } from './hostile-heads.ts';
import { type Action, planVisit, type Random, rangeIn, rangesIn, type Transport, type Visit } from './plan.ts';

/** The outcome of one request, for the plots. */
export type Outcome = 'hit' | 'miss' | 'error' | 'refused';

/** Counts of the load since the start. They only grow. */
export interface LoadCounts {
  readonly outcomes: Readonly<Record<Outcome, number>>;
  readonly actions: ReadonlyMap<Action, number>;
  readonly bytes: number;
  /** Answers that broke off or failed, for a reason that a fault explains. */
  readonly explained: number;
  /** Requests that were left out, because too many were under way. */
  readonly leftOut: number;
}

/** More clients than this are not started, so that a slow machine gets less load and not ever more. */
const mostClients = 150;
/** How long a client is idle at most, in milliseconds; less than the keep-alive of the server. */
const longestIdleMs = 25_000;
const crowdSize = 6;
/** The shortest pause of a slow reader after each chunk, in milliseconds. */
const slowPauseMs = 50;

/** What one request got. */
interface Result {
  readonly status: number;
  readonly etag: string | undefined;
  readonly isComplete: boolean;
  readonly bytes: number;
  readonly text: string;
}

/** How a request is to be judged. */
interface Expectation {
  readonly statuses: readonly number[];
  readonly pauseMs?: number;
  /** Leaves after this share of the body. */
  readonly leaveAt?: number;
  readonly method?: string;
  readonly keepsText?: boolean;
  readonly agent?: ReturnType<typeof idleAgent>;
}

/** The parts that the load needs. */
export interface LoadParts {
  readonly clients: Clients;
  readonly history: History;
  readonly excuses: Excuses;
  /** The times in which the disk was full. */
  readonly fullDisks: Excuses;
  readonly findings: Findings;
  readonly random: Random;
}

/** The clients. */
export class Load {
  readonly #parts: LoadParts;
  readonly #running = new Set<Promise<void>>();
  readonly #outcomes: Record<Outcome, number> = { hit: 0, miss: 0, error: 0, refused: 0 };
  readonly #actions = new Map<Action, number>();
  #headTimesMs: number[] = [];
  #bytes = 0;
  #explained = 0;
  #leftOut = 0;
  #isOver = false;

  constructor(parts: LoadParts) {
    this.#parts = parts;
  }

  get counts(): LoadCounts {
    return {
      outcomes: { ...this.#outcomes },
      actions: this.#actions,
      bytes: this.#bytes,
      explained: this.#explained,
      leftOut: this.#leftOut,
    };
  }

  /** Returns the times to the heads of responses since the last call, in milliseconds. */
  takeHeadTimes(): readonly number[] {
    const taken = this.#headTimesMs;
    this.#headTimesMs = [];
    return taken;
  }

  /** Starts clients at random times, `perSecond` on average, until `stop` is called; then waits for the clients. */
  async run(perSecond: number): Promise<void> {
    const { random } = this.#parts;
    while (!this.#isOver) {
      await delay((-Math.log(1 - random()) * 1000) / perSecond);
      const visit = planVisit(random);
      if (this.#running.size >= mostClients) this.#leftOut += 1;
      else this.#start(visit);
    }
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Starts no further clients. */
  stop(): void {
    this.#isOver = true;
  }

  /** Asks for a whole file, which must arrive: whatever failed before is over. */
  async expectWhole(file: SoakFile): Promise<void> {
    await this.#ask('close', file, {}, { statuses: okStatuses(file, [200]) });
  }

  #start(visit: Visit): void {
    const { action } = visit;
    this.#actions.set(action, (this.#actions.get(action) ?? 0) + 1);
    const fail = (error: unknown) =>
      this.#parts.findings.add('whole', `a client failed at "${action}": ${String(error)}`);
    const visited: Promise<void> = this.#visit(visit)
      .catch(fail)
      .finally(() => this.#running.delete(visited));
    this.#running.add(visited);
  }

  async #visit(visit: Visit): Promise<void> {
    const { action, transport, file, takesGzip, chances } = visit;
    const { sizeBytes } = versionOf(file, 0);
    const coding: Record<string, string> = takesGzip ? { 'accept-encoding': 'gzip' } : {};
    const ask = (fields: Record<string, string>, expectation: Expectation) =>
      this.#ask(transport, file, { ...coding, ...fields }, expectation);
    const whole: Expectation = { statuses: [200] };
    const part: Expectation = { statuses: [206] };
    const [first = 0, second = 0] = chances;
    switch (action) {
      case 'whole':
        return void (await ask({}, whole));
      case 'range':
        return void (await ask({ range: `bytes=${rangeIn(this.#rangedBytes(file, takesGzip), chances)}` }, part));
      case 'ranges':
        return void (await ask(
          { range: `bytes=${rangesIn(this.#rangedBytes(file, takesGzip), chances)}` },
          { statuses: [200, 206] },
        ));
      case 'suffix':
        return void (await ask({ range: `bytes=-${1 + Math.floor(first * 5000)}` }, part));
      case 'beyond':
        return void (await ask({ range: `bytes=${sizeBytes + 1_000_000}-` }, { statuses: [416] }));
      case 'head':
        return void (await ask({}, { ...whole, method: 'HEAD' }));
      case 'conditional':
        return this.#revalidate(ask);
      case 'resume':
        return this.#resume(ask, first);
      case 'abort':
        return void (await ask({}, { ...whole, leaveAt: first }));
      case 'slow reader':
        return void (await ask({}, { ...whole, pauseMs: slowPauseMs + slowPauseMs * second }));
      case 'crowd':
        return void (await Promise.all(Array.from({ length: crowdSize }, () => ask({}, whole))));
      case 'post':
        return this.askAround(transport, file, () => this.#post(transport, file));
      case 'playlist':
        return this.#play(transport, file);
      case 'idle':
        return this.#beIdle(file, first);
      case 'hostile':
        return this.#attack(chances);
    }
  }

  /** The length inside which each version in each coding has a range. */
  #rangedBytes(file: SoakFile, takesGzip: boolean): number {
    const { sizeBytes } = versionOf(file, 0);
    return kinds[file.kind].hasGzip && takesGzip ? 40 : sizeBytes;
  }

  async #revalidate(ask: Ask): Promise<void> {
    const { etag } = await ask({}, { statuses: [200] });
    if (etag !== undefined) await ask({ 'if-none-match': etag }, { statuses: [200, 304] });
  }

  async #resume(ask: Ask, share: number): Promise<void> {
    const { etag, bytes } = await ask({}, { statuses: [200], leaveAt: share });
    // An answer that was small enough has arrived as a whole.
    if (etag === undefined || bytes === 0) return;
    await ask({ range: `bytes=${bytes - 1}-`, 'if-range': etag }, { statuses: [200, 206] });
  }

  /**
   * Asks for a file, performs an operation that removes it, and asks again: what was stored before the operation must not be
   * served after it.
   */
  async askAround(transport: Transport, file: SoakFile, operation: () => Promise<void>): Promise<void> {
    await this.#ask(transport, file, {}, { statuses: [200] });
    await operation();
    await this.#ask(transport, file, {}, { statuses: [200] });
  }

  /** Uploads a file, which gives it a new version at its origin. */
  async #post(transport: Transport, file: SoakFile): Promise<void> {
    const { clients, history, excuses, findings } = this.#parts;
    const path = pathOf(file);
    const askedAt = Date.now();
    // The upload makes at least this version.
    const version = history.currentOf(path) + 1;
    let status = 0;
    try {
      const answered = await clients.ask(transport, { method: 'POST', path, fields: {} });
      ({ status } = answered);
      await readBody(answered, () => {});
    } catch {
      // Judged below.
    }
    if (status === 204) return history.removeBefore(path, version, [schemeOf(transport)]);
    if (excuses.explain(file.kind, askedAt, Date.now())) this.#explained += 1;
    else findings.add('status', `POST ${path} over ${transport}: ${status} instead of 204`);
  }

  /** A player: the playlist, then the segments that it names. */
  async #play(transport: Transport, file: SoakFile): Promise<void> {
    const { text, isComplete } = await this.#ask(transport, file, {}, { statuses: [200], keepsText: true });
    if (!isComplete) return;
    for (const path of segmentsIn(text)) {
      const segment = fileAt(path);
      if (segment !== undefined) await this.#ask(transport, segment, {}, { statuses: [200] });
    }
  }

  /** A connection that is idle between two requests. */
  async #beIdle(file: SoakFile, share: number): Promise<void> {
    const agent = idleAgent();
    try {
      await this.#ask('keep', file, {}, { statuses: [200], agent });
      await delay(share * longestIdleMs);
      await this.#ask('keep', file, {}, { statuses: [200], agent });
    } finally {
      agent.destroy();
    }
  }

  async #attack(chances: readonly number[]): Promise<void> {
    const { clients, findings } = this.#parts;
    const head = hostileHead(chances);
    const socket = connect(clients.plainPort, '127.0.0.1');
    socket.on('error', () => {});
    let answer = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text;
    });
    socket.write(Buffer.from(head.bytes, 'latin1'));
    // Some heads leave the server waiting for more, so this client says that no more comes.
    socket.end();
    await new Promise<void>((resolve) => void socket.once('close', () => resolve()));
    this.#outcomes.refused += 1;
    if (/^HTTP\/1\.1 (?:4\d\d|505|501) /.test(answer) || answer === '') return;
    findings.add('hostile', `${head.name}: ${JSON.stringify(answer.slice(0, 200))}`);
  }

  /** Sends a request for a file, and checks whatever is answered. */
  async #ask(
    transport: Transport,
    file: SoakFile,
    fields: Readonly<Record<string, string>>,
    expectation: Expectation,
  ): Promise<Result> {
    const { clients, history } = this.#parts;
    const { method = 'GET', agent } = expectation;
    const path = pathOf(file);
    const exchange = {
      name: `${method} ${path} ${JSON.stringify(fields)} over ${transport}`,
      file,
      path,
      lowest: history.lowestOf(path, schemeOf(transport)),
      askedAt: Date.now(),
      expectation,
    };
    const begunAt = performance.now();
    let answered: Answered;
    try {
      answered = await clients.ask(transport, { method, path, fields }, agent);
    } catch (error) {
      return this.#breakOff(exchange, `no response: ${String(error)}`);
    }
    this.#headTimesMs.push(performance.now() - begunAt);
    return this.#check(exchange, answered, Date.now());
  }

  async #check(exchange: Exchange, answered: Answered, answeredAt: number): Promise<Result> {
    const { findings, fullDisks } = this.#parts;
    const { name, file, expectation } = exchange;
    const { status, headers } = answered;
    const { leaveAt, pauseMs = 0, keepsText = false, method = 'GET' } = expectation;
    const nothing = { status, etag: headers.etag, isComplete: false, bytes: 0, text: '' };
    if (status !== 200 && status !== 206) {
      const isComplete = await readBody(answered, () => {});
      this.#judgeStatus(exchange, answered, isComplete);
      return { ...nothing, isComplete };
    }
    let check: AnswerCheck;
    try {
      check = new AnswerCheck(file, status, headers);
    } catch (error) {
      findings.add('bytes', `${name}: ${messageOf(error)}`);
      answered.abort();
      return nothing;
    }
    this.#count(answered);
    this.#judgeVersion(exchange, check.expected.version.version, answeredAt);
    // Of a body without a length that cannot be stored, a range is not known to be there: Range is ignored (RFC 9110 §14.2).
    const isUnstored =
      !kinds[file.kind].hasLength && status === 200 && fullDisks.explain(undefined, exchange.askedAt, Date.now());
    if (!expectation.statuses.includes(status) && !isUnstored)
      findings.add('status', `${name}: ${status}; ${JSON.stringify(headers)}`);
    const kept: Buffer[] = [];
    const take = (chunk: Buffer): void => {
      this.#bytes += chunk.length;
      if (keepsText) kept.push(chunk);
      try {
        check.take(chunk);
      } catch (error) {
        throw new WrongBytes(messageOf(error));
      }
    };
    const leaveBytes = leaveAt === undefined ? Number.POSITIVE_INFINITY : leaveAt * check.expected.sizeBytes;
    const enough = () => check.bytes >= leaveBytes;
    try {
      const isComplete = await readBody(answered, take, { pauseMs, enough });
      if (isComplete && method !== 'HEAD') check.end();
      const result = { ...nothing, isComplete, bytes: check.bytes, text: Buffer.concat(kept).toString() };
      if (!isComplete && !enough()) {
        this.#breakOff(
          exchange,
          `cut after ${check.bytes} bytes; ${JSON.stringify(headers)}`,
          check.expected.version.version,
        );
      }
      return result;
    } catch (error) {
      findings.add('bytes', `${name}: ${messageOf(error)}; ${JSON.stringify(headers)}`);
      return nothing;
    }
  }

  #judgeVersion({ name, file, path, askedAt, lowest }: Exchange, version: number, answeredAt: number): void {
    const { history, findings } = this.#parts;
    const served = { path, version, askedAt, answeredAt, lowest, allowedStalenessMs: allowedStalenessMs(file) };
    const fault = history.faultOf(served);
    if (fault !== undefined) findings.add('version', `${name}: ${fault}`);
  }

  #judgeStatus(exchange: Exchange, { status, headers }: Answered, isComplete: boolean): void {
    const { findings, excuses } = this.#parts;
    const { name, file, askedAt, expectation } = exchange;
    if (okStatuses(file, expectation.statuses).includes(status)) {
      this.#outcomes[status >= 500 ? 'error' : cacheStatusOf(headers).includes('; hit') ? 'hit' : 'miss'] += 1;
      if (!isComplete) this.#breakOff(exchange, `the ${status} was cut`);
      return;
    }
    this.#outcomes.error += 1;
    // An error of the origin, or of Rangeway about it.
    if (status >= 500 && excuses.explain(file.kind, askedAt, Date.now())) this.#explained += 1;
    else findings.add('status', `${name}: ${status}; ${JSON.stringify(headers)}`);
  }

  /** An answer ended early: a fault has to explain it, or a new version, whose bytes cannot complete the old one. */
  #breakOff({ name, file, path, askedAt }: Exchange, what: string, version?: number): Result {
    const { findings, excuses, history } = this.#parts;
    const isOutdated = version !== undefined && version !== history.currentOf(path);
    const isFaulty = kinds[file.kind].cutShare > 0 || kinds[file.kind].errorShare > 0;
    if (version === undefined) this.#outcomes.error += 1;
    if (isOutdated || isFaulty || excuses.explain(file.kind, askedAt, Date.now())) this.#explained += 1;
    else findings.add('whole', `${name}: ${what}`);
    return { status: 0, etag: undefined, isComplete: false, bytes: 0, text: '' };
  }

  #count({ headers }: Answered): void {
    this.#outcomes[/; ?hit/.test(cacheStatusOf(headers)) ? 'hit' : 'miss'] += 1;
  }
}

type Ask = (fields: Record<string, string>, expectation: Expectation) => Promise<Result>;

/** A request while it is judged. */
interface Exchange {
  readonly name: string;
  readonly file: SoakFile;
  readonly path: string;
  readonly lowest: number;
  readonly askedAt: number;
  readonly expectation: Expectation;
}

/** An origin that answers with errors without any fault adds these. */
function okStatuses({ kind }: SoakFile, statuses: readonly number[]): readonly number[] {
  return kinds[kind].errorShare === 0 && kinds[kind].cutShare === 0 ? statuses : [...statuses, 500, 502];
}

function cacheStatusOf(headers: Answered['headers']): string {
  return headers['cache-status']?.toString() ?? '';
}

/** Other transports have a listener without TLS. */
function schemeOf(transport: Transport): Scheme {
  return transport === 'tls' || transport === 'http2' ? 'https' : 'http';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
