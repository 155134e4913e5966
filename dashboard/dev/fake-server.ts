/**
 * A server with the admin API and invented data, for work on the dashboard and for its tests with very many entries and fills. It keeps
 * nothing, and every token logs in.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Plugin } from 'vite';
import type {
  Activity,
  EntryDetails,
  EntryPage,
  EntryStatus,
  FillStatus,
  RecordedDecision,
  Span,
} from '../src/api-types.ts';

/** How much data the server invents. */
export interface FakeData {
  readonly entries: number;
  readonly fills: number;
  readonly workers: number;
  /** Whether the store is shared by several machines; false by default. */
  readonly isShared?: boolean;
}

const defaults: FakeData = { entries: 100_000, fills: 7, workers: 2 };

/** The name of the cookie that says whether a browser is logged in. */
const cookie = 'fake_session';

/** How often an event is sent, in milliseconds. */
const eventMs = 1000;

const boundsMs = [0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000];

/** A plugin for Vite's development server that answers below `/api/`. */
export function fakeServerPlugin(data: Partial<FakeData> = {}): Plugin {
  const server = new FakeServer({ ...defaults, ...data });
  return {
    name: 'fake-server',
    configureServer({ middlewares }) {
      middlewares.use('/api/v1/', (request, response) => void server.answer(request, response));
    },
  };
}

interface Fill extends FillStatus {
  receivedBytes: number;
  readonly speed: number;
}

/** The server. `answer` takes requests whose URL is below `/api/v1/`. */
export class FakeServer {
  readonly #data: FakeData;
  readonly #startedAt = Date.now() - 93 * 60_000;
  readonly #fills: Fill[];
  readonly #totals = {
    hit: 0,
    stale: 0,
    revalidated: 0,
    miss: 0,
    uncacheable: 0,
    none: 0,
    failed: 0,
    sent: 0,
    fromOrigin: 0,
  };
  readonly #counts = Array.from({ length: boundsMs.length + 1 }, () => 0);
  #at = Date.now() - 15 * 60_000;

  constructor(data: FakeData) {
    this.#data = data;
    this.#fills = Array.from({ length: data.fills }, (_, at) => this.#createFill(at));
    this.#goOn(Date.now());
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://fake.invalid');
    const [name = '', rest = ''] = pathname.slice(1).split(/\/(.*)/);
    const body = await readBody(request);
    const isLoggedIn = request.headers.cookie?.includes(`${cookie}=in`) === true;
    if (name === 'session') return answerSession(request.method ?? 'GET', isLoggedIn, response);
    if (!isLoggedIn) return send(response, 401, { title: 'Unauthorized', status: 401, detail: 'Log in first.' });
    if (name === 'activity' && rest === 'stream') return this.#stream(response);
    if (name === 'activity') return send(response, 200, this.#activity());
    if (name === 'entries' && rest === '') return send(response, 200, this.#listEntries(searchParams));
    if (name === 'entries') return send(response, 200, this.#inspect(decodeURIComponent(rest)));
    if (name === 'decisions')
      return send(response, 200, { decisions: this.#decisions(Number(searchParams.get('limit') ?? 20)) });
    if (name === 'purge') return send(response, 200, { entries: 37 });
    if (name === 'warm') return send(response, 200, { results: warmed(body) });
    if (name === 'explain') return send(response, 200, explained(body));
    if (name === 'fills') {
      const at = this.#fills.findIndex(({ id }) => id === decodeURIComponent(rest));
      if (at === -1)
        return send(response, 404, { title: 'Not Found', status: 404, detail: 'There is no such fill now.' });
      this.#fills.splice(at, 1);
      return send(response, 204);
    }
    return send(response, 404, { title: 'Not Found', status: 404, detail: 'There is no such endpoint.' });
  }

  #stream(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write('retry: 1000\n');
    const write = (): void => void response.write(`event: activity\ndata: ${JSON.stringify(this.#activity())}\n\n`);
    write();
    const timer = setInterval(write, eventMs);
    response.on('close', () => clearInterval(timer));
  }

  #activity(): Activity {
    const at = Date.now();
    this.#goOn(at);
    const { sent, fromOrigin, ...requests } = this.#totals;
    const { entries, workers, isShared = false } = this.#data;
    return {
      at,
      startedAt: this.#startedAt,
      isReady: true,
      workers: Array.from({ length: workers }, (_, id) => ({ id: id + 1, pid: 4100 + id, state: 'serving' })),
      requests: { ...requests, inFlight: 12 },
      bytes: { sent, fromOrigin },
      latency: { boundsMs, counts: [...this.#counts] },
      connectionsOpen: 340,
      store: {
        entries,
        memoryBytes: 402_653_184,
        memoryLimitBytes: 536_870_912,
        diskBytes: 31_400_000_000,
        diskLimitBytes: 50_000_000_000,
        isShared,
      },
      origins: Array.from({ length: workers }, (_, id) => [
        {
          route: 'media',
          url: 'https://origin-a.example.org',
          worker: id + 1,
          health: 'well',
          ranges: 'yes',
          requests: { streams: 12, fills: 2, unanswered: 1, waiting: 0 },
        } as const,
        {
          route: 'media',
          url: 'https://origin-b.example.org',
          worker: id + 1,
          health: id === 0 ? 'resting' : 'well',
          ranges: 'yes',
          requests: { streams: 12, fills: 2, unanswered: 1, waiting: 0 },
        } as const,
        {
          route: 'files',
          url: 'http://127.0.0.1:3000',
          worker: id + 1,
          health: 'well',
          ranges: 'no',
          requests: { streams: 12, fills: 2, unanswered: 1, waiting: 0 },
        } as const,
      ]).flat(),
      fills: this.#fills.slice(0, 1000),
      fillCount: this.#fills.length,
      hottest: Array.from({ length: 20 }, (_, rank) => ({
        uri: uriOf(rank * 7),
        hits: Math.round(9000 / (rank + 1)),
        bytes: Math.round(4e9 / (rank + 1)),
      })),
    };
  }

  /** Invents what happened up to this instant. */
  #goOn(until: number): void {
    const totals = this.#totals;
    for (; this.#at + 250 <= until; this.#at += 250) {
      const wave = 1 + 0.4 * Math.sin(this.#at / 40_000) + 0.15 * Math.sin(this.#at / 3100);
      const requests = Math.round(320 * wave);
      const misses = Math.round(requests * (0.03 + 0.02 * Math.max(0, Math.sin(this.#at / 90_000))));
      totals.hit += requests - misses;
      totals.miss += misses;
      totals.stale += this.#at % 1000 === 0 ? 1 : 0;
      totals.uncacheable += 2;
      const sent = 12_000_000 * wave;
      totals.sent += Math.round(sent);
      totals.fromOrigin += Math.round(sent * (0.04 + 0.03 * Math.max(0, Math.sin(this.#at / 90_000))));
      const spread = [0.62, 0.2, 0.08, 0.03, 0.01, 0.01, 0.01, 0.015, 0.015, 0.006, 0.003, 0.001];
      for (const [bucket, share] of spread.entries()) {
        this.#counts[bucket] = (this.#counts[bucket] ?? 0) + Math.round(requests * share);
      }
      for (const fill of this.#fills) {
        fill.receivedBytes = Math.min(fill.sizeBytes ?? Number.POSITIVE_INFINITY, fill.receivedBytes + fill.speed / 4);
      }
    }
    for (const [at, fill] of this.#fills.entries()) {
      if (fill.receivedBytes === fill.sizeBytes) this.#fills[at] = this.#createFill(at);
    }
  }

  #createFill(at: number): Fill {
    const sizeBytes = 40_000_000 + ((at * 7_919_317) % 900_000_000);
    const fill: Fill = {
      id: `fill-${at}-${this.#at}`,
      key: `https://origin-a.example.org/ ${uriOf(at)}`,
      uri: uriOf(at),
      generation: generationOf(at),
      worker: (at % this.#data.workers) + 1,
      sizeBytes,
      receivedBytes: 0,
      readers: at % 4,
      startedAt: this.#at,
      speed: 300_000 + ((at * 104_729) % 3_000_000),
    };
    if (at % 7 === 6) delete (fill as { sizeBytes?: number }).sizeBytes;
    return fill;
  }

  #listEntries(parameters: URLSearchParams): EntryPage {
    const limit = Number(parameters.get('limit') ?? 100);
    const first = Number(parameters.get('after') ?? 0);
    const wanted = parameters.get('contains') ?? parameters.get('url') ?? parameters.get('prefix') ?? '';
    const isLast = parameters.get('order') === 'desc';
    const entries: EntryStatus[] = [];
    let place = first;
    for (; place < this.#data.entries && entries.length < limit; place += 1) {
      const entry = entryOf(isLast ? this.#data.entries - 1 - place : place);
      if (entry.uri.includes(wanted)) entries.push(entry);
    }
    return { entries, ...(place < this.#data.entries ? { next: String(place) } : {}) };
  }

  #inspect(generation: string): EntryDetails {
    const at = Number(generation.slice(1));
    const fill = this.#fills.find((each) => each.generation === generation);
    const sizeBytes = fill?.sizeBytes ?? 480_000_000;
    const blocks = (spans: readonly (readonly [number, number])[]): Span[] =>
      spans.map(([start, end]) => ({ start: Math.floor(start * sizeBytes), end: Math.floor(end * sizeBytes) }));
    const reached = (fill?.receivedBytes ?? 0) / sizeBytes;
    const present = blocks([
      [0, Math.max(0.19, Math.min(0.5, reached))],
      [0.52, 0.6],
      [0.61, 0.62],
      [0.9, 1],
    ]);
    return {
      ...entryOf(at),
      sizeBytes,
      isComplete: false,
      fields: [
        ['content-type', 'video/mp4'],
        ['etag', '"5f2c-61a"'],
        ['last-modified', 'Wed, 01 Jan 2020 00:00:00 GMT'],
        ['cache-control', 'max-age=86400'],
        ['surrogate-key', 'film season-2'],
      ],
      nominated: [],
      present,
      presentBytes: present.reduce((sum, { start, end }) => sum + end - start, 0),
      hot: blocks([
        [0, 0.08],
        [0.52, 0.56],
        [0.97, 1],
      ]),
      arriving: blocks([[0.19, 0.26]]).map((span) => ({ ...span, fillId: 'fill' })),
    };
  }

  #decisions(limit: number): RecordedDecision[] {
    const now = Date.now();
    const filled: RecordedDecision = { at: now, worker: 1, event: 'filled', detail: '41 MB in 12 s' };
    const requests = Array.from({ length: Math.min(limit, 40) }, (_, at): RecordedDecision => {
      const isMiss = at % 4 === 0;
      return {
        at: now - at * 1900,
        worker: 1 + (at % 2),
        method: 'GET',
        uri: uriOf(at * 3),
        range: at % 3 === 0 ? undefined : `bytes=${at * 1_048_576}-`,
        status: at % 3 === 0 ? 200 : 206,
        outcome: isMiss ? 'miss' : at % 9 === 5 ? 'stale' : 'hit',
        reason: isMiss ? (at % 8 === 0 ? 'uri-miss' : 'partial') : undefined,
        collapsed: at % 12 === 0,
        originBytes: isMiss ? 1_310_720 : 0,
        sentBytes: 1_048_576 + at * 1000,
        headMs: isMiss ? 180 : 0.4,
        durationMs: 900,
        apartBy: undefined,
        error: undefined,
        traceId: undefined,
      };
    });
    return [filled, ...requests].slice(0, limit);
  }
}

function answerSession(method: string, isLoggedIn: boolean, response: ServerResponse): void {
  if (method === 'GET') {
    send(response, 200, { loggedIn: isLoggedIn, hasToken: true });
    return;
  }
  response.setHeader('set-cookie', `${cookie}=${method === 'POST' ? 'in' : 'out'}; HttpOnly; SameSite=Strict; Path=/`);
  send(response, 204);
}

function uriOf(at: number): string {
  const names = ['films/season-2/episode', 'maps/tiles', 'downloads/release', 'podcasts/show', 'audio/album'];
  const endings = ['mp4', 'pmtiles', 'tar.gz', 'mp3', 'flac'];
  const kind = at % names.length;
  return `https://media.example.org/${names[kind]}-${String(at).padStart(6, '0')}.${endings[kind]}`;
}

function generationOf(at: number): string {
  return `g${at}`;
}

function entryOf(at: number): EntryStatus {
  const sizeBytes = 1000 + ((at * 7_919_317) % 900_000_000);
  const isComplete = at % 5 !== 3;
  return {
    key: `https://origin-a.example.org/ ${uriOf(at)}`,
    uri: uriOf(at),
    scope: 'https://origin-a.example.org/',
    variant: '',
    generation: generationOf(at),
    status: 200,
    contentType: ['video/mp4', 'application/octet-stream', 'application/gzip', 'audio/mpeg', 'audio/flac'][at % 5],
    sizeBytes,
    isComplete,
    isInvalid: at % 31 === 7,
    pinnedUntil: undefined,
    responseAt: Date.now() - ((at * 7919) % 86_400_000),
    etag: `"${at}"`,
    lastModified: undefined,
    tags: at % 2 === 0 ? ['film'] : [],
    presentBytes: isComplete ? sizeBytes : Math.floor(sizeBytes * ((at % 17) / 17)),
    usedAt: Date.now() - ((at * 104_729) % 3_600_000),
  };
}

function warmed(body: Readonly<Record<string, unknown>>): object[] {
  const urls = Array.isArray(body['urls']) ? body['urls'] : [];
  return urls.map((url) => ({ url, status: 200, cacheStatus: 'rangeway; fwd=uri-miss; stored', bytes: 2_115_429 }));
}

function explained(body: Readonly<Record<string, unknown>>): object {
  const uri = String(body['url']);
  const fields = Array.isArray(body['fields']) ? (body['fields'] as [string, string][]) : [];
  const range = fields.find(([name]) => name === 'Range')?.[1];
  const end = range === undefined ? 10_000 : 8001;
  const start = range === undefined ? 0 : 500;
  return {
    kind: 'explained',
    explanation: {
      version: 1,
      at: Date.now(),
      method: 'GET',
      uri,
      route: 'media',
      key: `http://127.0.0.1:3000/ ${uri}`,
      decision: { kind: 'complete', reason: 'partial', cacheStatus: 'rangeway; fwd=partial; stored' },
      variant: [['accept-language', 'de']],
      entryCount: 2,
      entries: [
        {
          generation: '7f3a9c',
          status: 200,
          sizeBytes: 10_000,
          isComplete: false,
          isFragment: false,
          differs: [],
          isUsable: true,
          isChosen: true,
        },
        {
          generation: 'b04e11',
          status: 200,
          sizeBytes: 10_000,
          isComplete: true,
          isFragment: false,
          differs: ['accept-language'],
          isUsable: true,
          isChosen: false,
        },
      ],
      chosen: {
        generation: '7f3a9c',
        status: 200,
        sizeBytes: 10_000,
        present: {
          bytes: 2048,
          runs: 2,
          spans: [
            { start: 0, end: 1024 },
            { start: 2048, end: 3072 },
          ],
        },
        isComplete: false,
        isInvalid: false,
        tags: ['film'],
        receivedAt: Date.now() - 90_000,
        freshness: {
          lifetimeMs: 3_600_000,
          source: 'max-age',
          field: 'cdn-cache-control',
          age: { apparentAgeMs: 12_000, ageFieldMs: 10_000, responseDelayMs: 250, residentMs: 90_000 },
          ttlMs: 3_498_000,
          stale: { whileRevalidateMs: 0, ifErrorMs: 604_800_000 },
        },
        validators: {
          entityTag: { value: '"v1"', strength: 'strong', owner: 'origin' },
          combinedBy: '"v1"',
          conditions: [['if-none-match', '"v1"']],
        },
      },
      flights: [
        {
          hasLanded: true,
          generation: '7f3a9c',
          sizeBytes: 10_000,
          receivedBytes: 4000,
          readers: 1,
          transfers: [{ at: 5000, end: 6144 }],
        },
      ],
      origin: { isKnown: true, mayAsk: true, mayAskMore: true, refusal: undefined },
      plan: {
        status: range === undefined ? 200 : 206,
        ...(range === undefined ? {} : { range: { value: range, isObeyed: true } }),
        conditions: [],
        outcome: 'proceed',
        isMultipart: false,
        spans: [
          {
            start,
            end,
            hereBytes: 1548,
            inFlightBytes: 3072,
            originBytes: 2881,
            isCut: false,
            pieces: [
              { start, end: 1024, from: 'here' },
              { start: 1024, end: 2048, from: 'origin' },
              { start: 2048, end: 3072, from: 'here' },
              { start: 3072, end: 6144, from: 'in-flight' },
              { start: 6144, end, from: 'origin' },
            ],
          },
        ],
        asked: ['bytes=1024-2047', 'bytes=6144-8191'],
      },
    },
  };
}

async function readBody(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

function send(response: ServerResponse, status: number, value?: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(value === undefined ? undefined : JSON.stringify(value));
}
