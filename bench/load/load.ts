/** Load: many connections that ask again as soon as they have their answer. */

import type { CoreList } from '../cores.ts';
import type { SampleFile } from '../sample-file.ts';

/** What is asked, again and again. */
export type RequestPlan =
  /** The whole of one file. */
  | { readonly kind: 'whole'; readonly file: SampleFile }
  /** Spans of one size that begin anywhere in a file. */
  | { readonly kind: 'ranges'; readonly file: SampleFile; readonly sizeBytes: number }
  /** Files of a series that nobody has asked for before. */
  | { readonly kind: 'distinct'; readonly series: string; readonly sizeBytes: number }
  /** Files of a series of so many, as often as `popularity` says. */
  | ObjectsPlan
  | MediaPlan;

/** Many files that many clients ask for. */
export interface ObjectsPlan {
  readonly kind: 'objects';
  readonly series: string;
  readonly count: number;
  readonly sizeBytes: number;
  /** `even`: each file as often as any other. `skewed`: the logarithm of a file's number is even, so that few are asked for often. */
  readonly popularity: 'even' | 'skewed';
  /** `plain` has Host and Accept; `browser` the fields of a browser, of 500 user agents, 3 languages and 1000 referrers. */
  readonly head: 'plain' | 'browser';
  /** What is asked of each; the whole where that is not said. */
  readonly question?: Question;
  /** Further fields of each request, as lines. */
  readonly fields?: string;
}

/** What else is asked of a file than the whole. */
export interface Question {
  readonly method?: 'HEAD';
  /** Fields as lines; `{etag}` stands for the entity tag of the file. */
  readonly fields: string;
  readonly status: number;
  /** What comes of the body, in bytes; of several ranges more comes, as each has a head. */
  readonly bodyBytes: number;
}

/** Ranges of large files. Some of the requests are for a file that was never asked for. */
export interface MediaPlan {
  readonly kind: 'media';
  readonly series: string;
  readonly count: number;
  readonly fileBytes: number;
  readonly sizeBytes: number;
  /** Of all requests, the part that is for files of another series, each of which is asked for once. */
  readonly newShare: number;
  readonly newSeries: string;
}

/** What carries the requests, where it is not plain HTTP/1.1: HTTP/1.1 over TLS, or HTTP/2 over TLS. */
export type Over = 'tls' | 'http2';

/** What a generator has to do. */
export interface LoadPlan {
  readonly request: RequestPlan;
  /** Connections, each with one request at a time. */
  readonly connections: number;
  /** A generator that knows whole seconds only takes the next one. */
  readonly seconds: number;
  /**
   * How many requests are to be sent in a second, evenly, whether or not those before them have been answered; without it
   * each connection asks again as soon as it has its answer. One that is sent late counts from when it was due.
   */
  readonly ratePerSecond?: number;
  readonly over?: Over | undefined;
  /** The cores that it runs on, where those are not the load's usual ones. */
  readonly cores?: CoreList;
}

/** What came of it. */
export interface LoadResult {
  /** Answers that were read to their end. */
  readonly requests: number;
  /** Bytes that were read, those of unfinished answers included; heads may be among them. */
  readonly bytes: number;
  readonly seconds: number;
  /** How long answers took, from the request to their last byte, in microseconds; undefined where that is not told. */
  readonly p50Us: number | undefined;
  readonly p99Us: number | undefined;
  readonly p999Us: number | undefined;
  /** Answers with another status than wanted, connections that broke. */
  readonly failures: number;
}

/** Loads a proxy on this port of loopback. */
export interface LoadGenerator {
  readonly name: string;
  run(port: number, plan: LoadPlan): Promise<LoadResult>;
}

/** The status of all answers to a plan. */
export function statusOf(request: RequestPlan): number {
  if (request.kind === 'objects') return request.question?.status ?? 200;
  return request.kind === 'ranges' || request.kind === 'media' ? 206 : 200;
}

/** The size of each body that a plan asks for, in bytes. */
export function bodyBytesOf(request: RequestPlan): number {
  if (request.kind === 'objects' && request.question !== undefined) return request.question.bodyBytes;
  return request.kind === 'whole' ? request.file.window.end - request.file.window.start : request.sizeBytes;
}
