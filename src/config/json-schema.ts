/** Creates the JSON Schema of a configuration file, and lists the options in it. */

import * as z from 'zod';
import { configSchema } from './schema.ts';

/** The members of a JSON Schema (draft 2020-12) that describe options. */
export interface OptionSchema {
  readonly type?: string | undefined;
  readonly description?: string | undefined;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, OptionSchema>> | undefined;
  readonly items?: OptionSchema | undefined;
  readonly anyOf?: readonly OptionSchema[] | undefined;
}

/** Creates the JSON Schema of a configuration file. */
export function createJsonSchema(): OptionSchema {
  return {
    ...z.toJSONSchema(configSchema, {
      target: 'draft-2020-12',
      io: 'input',
      override: ({ zodSchema, jsonSchema }) => {
        // zod leaves out the default of a value that is transformed, although it is a default of the input.
        const { default: stated } = z.globalRegistry.get(zodSchema) ?? {};
        if (stated !== undefined) Object.assign(jsonSchema, { default: stated });
      },
    }),
    title: 'Rangeway configuration',
  } as OptionSchema;
}

/** Returns the text of `config.schema.json`. */
export function formatJsonSchema(): string {
  return `${JSON.stringify(createJsonSchema(), undefined, 2)}\n`;
}

/** One option, for documentation and for suggestions. */
export interface OptionDoc {
  /** Its path, with lists as `[]`: `routes[].origin.url`. */
  readonly path: string;
  /** The path of the object that it belongs to; empty at the top. */
  readonly parent: string;
  readonly name: string;
  readonly description: string | undefined;
  /** Its default; undefined where it has none. */
  readonly default: unknown;
}

/** Lists every option; those of a nested object follow their parent. */
export function listOptions(schema: OptionSchema = createJsonSchema(), parent = ''): OptionDoc[] {
  const options: OptionDoc[] = [];
  for (const [name, option] of Object.entries(schema.properties ?? {})) {
    const path = parent === '' ? name : `${parent}.${name}`;
    options.push({ path, parent, name, description: option.description, default: option.default });
    options.push(...listOptions(option, path));
  }
  if (schema.items !== undefined) options.push(...listOptions(schema.items, `${parent}[]`));
  for (const alternative of schema.anyOf ?? []) options.push(...listOptions(alternative, parent));
  return options;
}
