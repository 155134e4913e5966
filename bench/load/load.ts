/** The load on a proxy: the requests, their rate, and the results. `generators.ts` chooses the program that sends it. */

import type { CoreList } from '../cores.ts';
import type { SampleFile } from '../sample-file.ts';

/** The requests of a load. */
export type RequestPlan =
  /** The whole of one file. */
  | { readonly kind: 'whole'; readonly file: SampleFile }
  /** Spans of one size of a file. */
  | RangesPlan
  /** Files of a series, each requested once. */
  | { readonly kind: 'distinct'; readonly series: string; readonly sizeBytes: number }
  /** Files of a series of limited size, or ranges of them; each is requested many times. */
  | ObjectsPlan
  | MediaPlan;

/** Requests for random ranges of one file. */
export interface RangesPlan {
  readonly kind: 'ranges';
  readonly file: SampleFile;
  readonly sizeBytes: number;
  /** Ranges begin at multiples of this; undefined: anywhere. */
  readonly stepBytes?: number;
}

/** Requests for the files of a series. */
export interface ObjectsPlan {
  readonly kind: 'objects';
  readonly series: string;
  readonly count: number;
  readonly sizeBytes: number;
  /** `even`: all files equally often. `skewed`: the logarithm of the file number is uniformly distributed, so a few files are frequent. */
  readonly popularity: 'even' | 'skewed';
  /** `plain`: Host and Accept. `browser`: the fields of a browser, with 500 user agents, 3 languages and 1000 referrers. */
  readonly head: 'plain' | 'browser';
  /** The kind of request; undefined: a GET of the whole file. */
  readonly question?: Question;
  /** Further fields of each request, as lines. */
  readonly fields?: string;
}

/** A request other than a GET of the whole file, and its response. */
export interface Question {
  readonly method?: 'HEAD';
  /** Fields as lines; `{etag}` stands for the entity tag of the file. */
  readonly fields: string;
  readonly status: number;
  /** Expected bytes of the file in the body. A multipart body is longer, because each part has a head. */
  readonly bodyBytes: number;
}

/** Ranges of large files. Some of the requests are for a file that was not requested before. */
export interface MediaPlan {
  readonly kind: 'media';
  readonly series: string;
  readonly count: number;
  readonly fileBytes: number;
  readonly sizeBytes: number;
  /** Share of the requests (0 to 1) for files of `newSeries`, each of which is requested once. */
  readonly newShare: number;
  readonly newSeries: string;
}

/** The protocol, if it is not plain HTTP/1.1: HTTP/1.1 over TLS, or HTTP/2 over TLS. */
export type Over = 'tls' | 'http2';

/** The load that a generator has to produce. */
export interface LoadPlan {
  readonly request: RequestPlan;
  /** Number of connections, each with one request at a time over HTTP/1.1, and several over HTTP/2. */
  readonly connections: number;
  /** Duration of the load. wrk and h2load round it up to whole seconds. */
  readonly seconds: number;
  /**
   * Requests per second, sent evenly, whether or not earlier requests were answered. The latency of a request that is sent
   * late counts from the time when it was due. Undefined: each connection sends the next request after each response.
   */
  readonly ratePerSecond?: number;
  readonly over?: Over | undefined;
  /** The Host of the requests, if it is not the address of the proxy. wrk cannot send another one. */
  readonly host?: string;
  /** Cores of the generator, if not the usual ones of the load. */
  readonly cores?: CoreList;
}

/** The result of a load. */
export interface LoadResult {
  /** Number of responses that were read to their end. */
  readonly requests: number;
  /** Bytes that were read, those of unfinished responses included. Some generators include the heads. */
  readonly bytes: number;
  readonly seconds: number;
  /** Microseconds from a request to the last byte of its response; undefined where the generator does not report them. */
  readonly p50Us: number | undefined;
  readonly p99Us: number | undefined;
  readonly p999Us: number | undefined;
  /** Unexpected responses and broken connections. */
  readonly failures: number;
  /** Processor seconds of the generator; undefined where it does not report them. */
  readonly cpuSeconds?: number;
}

/** A program that loads a proxy on a port of loopback. */
export interface LoadGenerator {
  readonly name: string;
  run(port: number, plan: LoadPlan): Promise<LoadResult>;
}

/** Returns the expected status of all responses to a plan. */
export function statusOf(request: RequestPlan): number {
  if (request.kind === 'objects') return request.question?.status ?? 200;
  return request.kind === 'ranges' || request.kind === 'media' ? 206 : 200;
}

/** Returns the expected body bytes of each response to a plan, as in `Question.bodyBytes`. */
export function bodyBytesOf(request: RequestPlan): number {
  if (request.kind === 'objects' && request.question !== undefined) return request.question.bodyBytes;
  return request.kind === 'whole' ? request.file.window.end - request.file.window.start : request.sizeBytes;
}
