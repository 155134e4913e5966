/** What the admin listener answers at one path with one method: the description that all else is made from. */

import type * as z from 'zod';
import type { AdminEvent } from '../telemetry/events.ts';
import type { Operations } from './operations.ts';

/** The same, with nothing in it to be changed. */
export type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** What a request has given, checked. */
export interface Given<P extends z.ZodType, B extends z.ZodType> {
  readonly operations: Operations;
  readonly parameters: z.output<P>;
  readonly body: z.output<B>;
}

/** Everything about one endpoint; the schemas tell the types. */
export interface EndpointOptions<P extends z.ZodType, B extends z.ZodType, R extends z.ZodType> {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Each `{name}` stands for one segment, which is among the parameters, percent-decoded. */
  readonly path: string;
  /**
   * Who may: everybody; those who watch, which is everybody where only this machine can connect; or those who run the server.
   */
  readonly access: 'anyone' | 'watcher' | 'operator';
  readonly summary: string;
  /** Of the query and of the path; an object that takes no other members. */
  readonly parameters: P;
  /** Of PUT and POST; an empty body stands for an empty object. */
  readonly body?: B;
  /** What is given; undefined for nothing at all (204). A text is sent as it is. */
  readonly result: { readonly description: string; readonly contentType: string; readonly schema: R } | undefined;
  /** Statuses of failure besides those that any request can have, and when. */
  readonly faults?: Readonly<Record<number, string>>;
  /** Whether the same form is used for failure: then what `isFailure` says of gets 503. */
  readonly isFailure?: (result: Frozen<z.input<R>>) => boolean;
  readonly perform: (given: Given<P, B>) => Promise<Frozen<z.input<R>>>;
  /** How what is done is called in the log, and in a sentence when it is done. */
  readonly change?: {
    readonly action: AdminEvent['action'];
    /** Says, of what may take long, that it begins. */
    readonly begin?: (given: Given<P, B>) => string;
    /** What has gone wrong in parts of it: one warning each. */
    readonly failures?: (given: Given<P, B>, result: Frozen<z.input<R>>) => readonly string[];
    readonly describe: (given: Given<P, B>, result: Frozen<z.input<R>>) => string;
  };
}

/** An endpoint, whatever its types. */
export type Endpoint = EndpointOptions<z.ZodType, z.ZodType, z.ZodType>;

/** Describes an endpoint: what it performs has to fit its schemas. */
export function defineEndpoint<P extends z.ZodType, B extends z.ZodType, R extends z.ZodType>(
  options: EndpointOptions<P, B, R>,
): Endpoint {
  return options as unknown as Endpoint;
}

/** Of JSON. */
export const jsonType = 'application/json';
