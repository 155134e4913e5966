/** The OpenAPI 3.1 document of the admin API: it is valid, and it matches the API. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { endpoints } from '../../src/admin/endpoints.ts';
import { createOpenApi, statusesOf } from '../../src/admin/openapi.ts';
import { openAdminGround } from './admin-ground.ts';

type JsonObject = Readonly<Record<string, unknown>>;

const document = createOpenApi(endpoints);

function objectAt(value: unknown, ...names: readonly string[]): JsonObject {
  return names.reduce((inner, name) => inner[name] as JsonObject, value as JsonObject);
}

/** Yields every object in a value, with its path. */
function* objectsIn(value: unknown, path = '#'): Generator<[path: string, object: JsonObject]> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield [path, value as JsonObject];
  for (const [name, inner] of Object.entries(value)) yield* objectsIn(inner, `${path}/${name}`);
}

const operations = Object.entries(objectAt(document, 'paths')).flatMap(([path, item]) =>
  Object.entries(item as JsonObject).map(([method, operation]) => ({
    path,
    method,
    operation: operation as JsonObject,
  })),
);

describe('docs/operations.md', () => {
  it.each(endpoints)('describes $method $path', ({ method, path }) => {
    const text = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
    expect(text.includes(`\`${method} ${path}\``)).toBe(true);
  });
});

describe('the document (OpenAPI 3.1)', () => {
  it('has only members of OpenAPI documents (§4.8.1)', () => {
    expect(Object.keys(document).toSorted()).toEqual(['components', 'info', 'openapi', 'paths']);
    expect(document['openapi']).toMatch(/^3\.1\.\d+$/);
    expect(document['info']).toMatchObject({ title: expect.any(String), version: expect.any(String) });
  });

  it('survives JSON unchanged', () => expect(JSON.parse(JSON.stringify(document))).toEqual(document));

  it('has every endpoint of the table, each with its own operationId', () => {
    expect(operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`).toSorted()).toEqual(
      endpoints.map(({ path, method }) => `${method} ${path}`).toSorted(),
    );
    expect(new Set(operations.map(({ operation }) => operation['operationId'])).size).toBe(endpoints.length);
  });

  it.each(operations)('$method $path', ({ path, method, operation }) => {
    const known = ['operationId', 'summary', 'security', 'parameters', 'requestBody', 'responses'];
    expect(Object.keys(operation).filter((name) => !known.includes(name))).toEqual([]);
    expect(operation['summary']).toMatch(/\.$/);
    expect('requestBody' in operation).toBe(method === 'post' || method === 'put');
    // §4.8.9.1, §4.8.12.2: each path parameter is described once, and is required.
    const parameters = operation['parameters'] as readonly JsonObject[];
    const inPath = parameters.filter((parameter) => parameter['in'] === 'path');
    expect(inPath.map(({ name }) => name)).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
    for (const parameter of parameters) {
      expect(parameter).toMatchObject({ name: expect.any(String), schema: expect.any(Object) });
      expect(['path', 'query']).toContain(parameter['in']);
      expect(parameter['description'], String(parameter['name'])).toMatch(/\.$/);
      if (parameter['in'] === 'path') expect(parameter['required']).toBe(true);
    }
    // §4.8.16: codes of three digits, one of them a success; each with a description.
    const responses = Object.entries(operation['responses'] as JsonObject);
    expect(responses.filter(([status]) => /^2\d\d$/.test(status))).toHaveLength(1);
    for (const [status, response] of responses) {
      expect(status).toMatch(/^[2-5]\d\d$/);
      expect(objectAt(response)['description'], status).toMatch(/\.$/);
      expect(Object.keys(response as object).filter((name) => !['description', 'content'].includes(name))).toEqual([]);
    }
  });

  it('has only references that resolve', () => {
    const references = [...objectsIn(document)].filter(([, object]) => '$ref' in object);
    expect(references.length).toBeGreaterThan(20);
    for (const [path, { $ref }] of references) {
      const [, ...names] = String($ref).split('/');
      expect(objectAt(document, ...names), `${path} → ${String($ref)}`).toBeTypeOf('object');
    }
  });

  it('has schemas without ids, definitions and keywords of other dialects', () => {
    for (const [path, object] of objectsIn(objectAt(document, 'components', 'schemas'))) {
      for (const name of ['$schema', '$id', 'definitions', '$defs', 'nullable'])
        expect(name in object, path).toBe(false);
    }
  });

  it('describes each status of the table', () => {
    for (const endpoint of endpoints) {
      const { responses } = objectAt(document, 'paths', endpoint.path, endpoint.method.toLowerCase());
      expect(Object.keys(responses as object), endpoint.id).toEqual(Object.keys(statusesOf(endpoint)));
    }
  });

  it('allows only described members in requests', () => {
    for (const { operation } of operations) {
      const schema = objectAt(operation)['requestBody'];
      if (schema === undefined) continue;
      const content = objectAt(schema, 'content', 'application/json', 'schema');
      const [, ...names] = String(content['$ref'] ?? '').split('/');
      const resolved = content['$ref'] === undefined ? content : objectAt(document, ...names);
      expect(resolved['additionalProperties']).toBe(false);
    }
  });

  it('is served by the API itself', async () => {
    await using ground = await openAdminGround();
    const answer = await ground.ask('GET', '/api/v1/openapi.json');
    expect([answer.status, answer.type]).toEqual([200, 'application/json']);
    expect(answer.json()).toEqual(document);
  });
});
