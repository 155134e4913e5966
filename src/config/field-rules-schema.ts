/** The options that set, add and remove fields, and which fields they must leave alone. */

import * as z from 'zod';
import { fieldName, fieldText, names, secretSource } from './values.ts';

/** Why some fields are not for rules, whatever the direction. */
const governed: readonly (readonly [reason: string, names: string])[] = [
  [
    'belongs to the connection: it is no matter of rules',
    'connection content-length http2-settings keep-alive proxy-connection te trailer transfer-encoding upgrade',
  ],
  ['is how loops are found: it is no matter of rules', 'cdn-loop via'],
];

const governedToOrigin: typeof governed = [
  ...governed,
  ['is chosen by "origin.host"', 'host'],
  [
    'is how the origin is asked for parts, and whether something has changed: it is no matter of rules',
    'if-match if-modified-since if-none-match if-range if-unmodified-since range',
  ],
  ['belongs to the body that a client sends: it is no matter of rules', 'content-encoding content-range expect'],
];

const governedToClient: typeof governed = [
  ...governed,
  ['belongs to what is selected of a representation: it is no matter of rules', 'accept-ranges content-range'],
  ['tells how the bytes are to be read, in parts too: it is no matter of rules', 'content-encoding content-type'],
  ['tells how old a response is: it is no matter of rules', 'age date'],
  ['is how credentials are asked for, with 401: it is no matter of rules', 'proxy-authenticate www-authenticate'],
];

/** They may be removed: clients then do without. */
const removable: typeof governed = [
  ['names one version of the bytes: it can be removed only', 'etag last-modified content-digest repr-digest'],
];

/** It may be added to: caches after this one then tell more variants apart. */
const extensible: typeof governed = [
  ['keeps caches after this one from giving one variant to all: it can be added to only', 'vary'],
];

const toOriginName = ruleName(governedToOrigin, 'Cookie');
const toClientNames = {
  remove: ruleName([...governedToClient, ...extensible], 'Server'),
  set: ruleName([...governedToClient, ...removable, ...extensible], 'X-Served-By'),
  add: ruleName([...governedToClient, ...removable], 'X-Served-By'),
};

/** The name of a field, in lower case, that a rule may be about. */
function ruleName(reasons: typeof governed, example: string) {
  const reasonOf = new Map(reasons.flatMap(([reason, text]) => text.split(' ').map((name) => [name, reason] as const)));
  return fieldName(example).refine((name) => !reasonOf.has(name), {
    error: ({ input }) => `"${String(input)}" ${reasonOf.get(String(input)) ?? ''}`,
  });
}

type RuleName = ReturnType<typeof ruleName>;

function rules(side: string, name: { readonly remove: RuleName; readonly set: RuleName; readonly add: RuleName }) {
  return {
    remove: names(name.remove, 100).default([]).describe(`Fields that are taken out of what goes to the ${side}.`),
    set: z
      .record(name.set, fieldText)
      .default({})
      .describe(`Fields that go to the ${side} with these values, in place of those that are there.`),
    add: z
      .record(name.add, fieldText)
      .default({})
      .describe(`Fields that go to the ${side} with these values, besides those that are there.`),
  };
}

const setSecret = z
  .record(toOriginName, secretSource)
  .prefault({})
  .describe('Fields that go to the origin with a secret for value: "env:NAME" or "file:PATH".');

/** Rules for fields. */
export const fieldRulesSchema = z
  .strictObject({
    toOrigin: z
      .strictObject({
        ...rules('origin', { remove: toOriginName, set: toOriginName, add: toOriginName }),
        setSecret,
      })
      .superRefine((given, context) => {
        for (const name of Object.keys(given.setSecret)) {
          const other = (['set', 'add'] as const).find((option) => name in given[option]);
          if (other === undefined) continue;
          context.addIssue({ code: 'custom', path: ['setSecret', name], message: `is a name of "${other}" too` });
        }
      })
      .prefault({})
      .describe('Rules for requests to the origin. The cache knows nothing of values that are set here.'),
    toClient: z
      .strictObject(rules('client', toClientNames))
      .prefault({})
      .describe(
        'Rules for all responses of the route, errors too. Whatever they say of caching, errors of our own stay "no-store", and responses of a route that asks for credentials "private".',
      ),
  })
  .prefault({})
  .describe('Fields to set, add or remove.');
