/** The description of an endpoint of the admin listener: a method at a path. Checks, routing and OpenAPI all follow from it. */

import type * as z from 'zod';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import type { AdminEvent } from '../telemetry/events.ts';
import type { AdminGateContext, EndpointAccess } from './access.ts';
import type { ActivityFeed } from './activity.ts';
import type { Operations } from './operations.ts';
import type { Dashboard } from './page.ts';

/** The same type, read-only at every depth. */
export type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/** The values of a request, after they were checked. */
export interface EndpointInput<P extends z.ZodType, B extends z.ZodType> {
  readonly operations: Operations;
  readonly activity: ActivityFeed;
  readonly dashboard: Dashboard;
  readonly gate: AdminGateContext;
  readonly parameters: z.output<P>;
  readonly body: z.output<B>;
}

/** Everything about one endpoint. The schemas determine the types. */
export interface EndpointOptions<P extends z.ZodType, B extends z.ZodType, R extends z.ZodType> {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Each `{name}` stands for one segment. It is a parameter, percent-decoded. */
  readonly path: string;
  readonly access: EndpointAccess;
  readonly summary: string;
  /** Of the path and the query: an object that takes no other members. */
  readonly parameters: P;
  /** Of PUT and POST. An empty body stands for an empty object. */
  readonly body?: B;
  /** The response; undefined for 204. A string is sent as it is. */
  readonly result: { readonly description: string; readonly contentType: string; readonly schema: R } | undefined;
  /** The meaning of further statuses of failure, besides those that any request can have. */
  readonly faults?: Readonly<Record<number, string>>;
  /** For an endpoint that uses the result in failures too: a result for which this is true gets 503. */
  readonly isFailure?: (result: Frozen<z.input<R>>) => boolean;
  /** Performs the operation, and resolves with its result. */
  readonly perform?: (given: EndpointInput<P, B>, request: ProxyRequest) => Promise<Frozen<z.input<R>>>;
  /** In place of `perform`: makes the response by itself. */
  readonly respond?: (given: EndpointInput<P, B>, request: ProxyRequest) => ProxyResponse;
  /** What the log says of the operation: its action, and sentences. Undefined where nothing is changed or logged. */
  readonly change?: {
    readonly action: AdminEvent['action'];
    /** Describes the begin of an operation that may take long. */
    readonly begin?: (given: EndpointInput<P, B>) => string;
    /** Describes the parts that failed: one warning for each. */
    readonly failures?: (given: EndpointInput<P, B>, result: Frozen<z.input<R>>) => readonly string[];
    readonly describe: (given: EndpointInput<P, B>, result: Frozen<z.input<R>>) => string;
  };
}

/** An endpoint, whatever its types. */
export type Endpoint = EndpointOptions<z.ZodType, z.ZodType, z.ZodType>;

/** Defines an endpoint. The types check that its functions fit its schemas. */
export function defineEndpoint<P extends z.ZodType, B extends z.ZodType, R extends z.ZodType>(
  options: EndpointOptions<P, B, R>,
): Endpoint {
  return options as unknown as Endpoint;
}

/** The media type of JSON. */
export const jsonType = 'application/json';
