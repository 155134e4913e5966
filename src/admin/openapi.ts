/** Generates the description of the admin API, in OpenAPI 3.1, from the table of its endpoints. */

import * as z from 'zod';
import { sessionCookie } from '../guard/fields/forwarding.ts';
import { namedSchemas } from './api-values.ts';
import { type Endpoint, jsonType } from './endpoint.ts';

type JsonObject = Readonly<Record<string, unknown>>;

/** Each one is enough (OpenAPI 3.1 §4.8.30). */
const credentials: readonly JsonObject[] = [{ token: [] }, { session: [] }];

/** The media type of all errors (RFC 9457 §3). */
const problemType = 'application/problem+json';

/** Returns the description. */
export function createOpenApi(endpoints: readonly Endpoint[]): JsonObject {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of endpoints) {
    paths[endpoint.path] = {
      ...paths[endpoint.path],
      [endpoint.method.toLowerCase()]: describeEndpoint(endpoint),
    };
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'Rangeway admin API',
      version: '1.0.0',
      description:
        'The operations for operators of a Rangeway server. Every GET can be a HEAD. Responses may gain members that are not described here; requests must not have any.',
    },
    paths,
    components: {
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'The value of admin.token. On a Unix socket no token is needed where none is configured.',
        },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: sessionCookie,
          description:
            'The cookie of POST /api/v1/session, for pages of this listener. Requests that change something also need "X-Rangeway-Request: 1" and "Content-Type: application/json".',
        },
      },
      schemas: describeNamed(),
    },
  };
}

/** Returns every status that an endpoint may answer with, and its meaning. */
export function statusesOf({ access, body, result, faults, isFailure }: Endpoint): Readonly<Record<number, string>> {
  return {
    [result === undefined ? 204 : 200]: result?.description ?? 'Done.',
    400: 'The request does not match this description.',
    ...(access === 'anyone' ? {} : { 401: 'The token is missing or wrong, or the session has ended.' }),
    403: 'The request is from a web page of another origin, or needs a token and none is configured.',
    421: 'The Host is neither an address nor a configured name.',
    ...(access === 'anyone' ? {} : { 429: 'Too many wrong tokens.' }),
    500: 'The operation failed; the log says why.',
    ...(body === undefined ? {} : { 413: 'The body is too large.', 415: 'The body is not JSON.' }),
    ...(access === 'operator' ? { 422: 'The operation cannot be performed as requested.' } : {}),
    ...(access === 'anyone' ? {} : { 503: 'The server cannot do this now: it starts or stops, for example.' }),
    ...(isFailure === undefined ? {} : { 503: 'The server does not serve.' }),
    ...faults,
  };
}

function describeEndpoint(endpoint: Endpoint): JsonObject {
  const { id, summary, access, body } = endpoint;
  const statuses = Object.entries(statusesOf(endpoint));
  return {
    operationId: id,
    summary,
    security: access === 'anyone' ? [] : access === 'watcher' ? [{}, ...credentials] : credentials,
    parameters: describeParameters(endpoint),
    ...(body === undefined ? {} : { requestBody: { content: { [jsonType]: { schema: schemaOf(body) } } } }),
    responses: Object.fromEntries(
      statuses.map(([status, description]) => [status, { description, ...contentOf(endpoint, Number(status)) }]),
    ),
  };
}

function contentOf({ result, isFailure }: Endpoint, status: number): JsonObject {
  if (status === 204) return {};
  const isOwn = status === 200 || (status === 503 && isFailure !== undefined);
  if (!isOwn || result === undefined) {
    return { content: { [problemType]: { schema: { $ref: '#/components/schemas/Problem' } } } };
  }
  return { content: { [result.contentType]: { schema: schemaOf(result.schema) } } };
}

function describeParameters({ path, parameters }: Endpoint): readonly JsonObject[] {
  const { properties = {}, required = [] } = plainSchema(parameters);
  return Object.entries(properties as Record<string, JsonObject>).map(([name, { description, ...schema }]) => ({
    name,
    in: path.includes(`{${name}}`) ? 'path' : 'query',
    required: (required as readonly string[]).includes(name),
    ...(description === undefined ? {} : { description }),
    schema,
  }));
}

function schemaOf(schema: z.ZodType): JsonObject {
  const name = namedSchemas.get(schema)?.id;
  return name === undefined ? plainSchema(schema) : { $ref: `#/components/schemas/${name}` };
}

function plainSchema(schema: z.ZodType): JsonObject {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return rest;
}

function describeNamed(): JsonObject {
  const { schemas } = z.toJSONSchema(namedSchemas, { io: 'input', uri: (id) => `#/components/schemas/${id}` });
  return Object.fromEntries(
    Object.entries(schemas).map(([name, { $schema: _dialect, $id: _id, ...schema }]) => [name, schema]),
  );
}
