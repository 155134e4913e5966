/** The configuration that runs, as those who run it are shown it: as it could be written, and without anything secret. */

import { formatListenPlace, type ListenPlace } from '../config/address.ts';
import type { AddressRange } from '../config/address-range.ts';
import type { Config } from '../config/schema.ts';
import type { SecretSource } from '../config/values.ts';
import { redact } from '../telemetry/redact.ts';

const mark = '[redacted]';

/**
 * The configuration as JSON, with every default filled in. Secrets are not in it: they are read from elsewhere, and only where
 * that is stands here. What the origin is sent by `fields.toOrigin.set` and `add` is left out all the same, because people do
 * write secrets there; and so is whatever is of no known kind.
 */
export function describeConfig(config: Config): Record<string, unknown> {
  const { listen, routes } = config;
  return viewOfMembers({
    ...config,
    listen: listen.map(({ mode, ...rest }) => ({ ...rest, mode: mode === undefined ? undefined : formatMode(mode) })),
    routes: routes.map(({ fields: { toOrigin, toClient }, ...rest }) => ({
      ...rest,
      fields: {
        toOrigin: { ...toOrigin, set: withoutValues(toOrigin.set), add: withoutValues(toOrigin.add) },
        toClient,
      },
    })),
  });
}

function viewOf(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return redact(value);
    case 'number':
    case 'boolean':
    case 'undefined':
      return value;
    case 'object':
      if (value === null) return null;
      if (Array.isArray(value)) return value.map(viewOf);
      return Object.getPrototypeOf(value) === Object.prototype ? viewOfObject(value) : mark;
    default:
      return mark;
  }
}

function viewOfObject(value: object): unknown {
  if (isSecretSource(value)) return `${value.kind}:${value.name}`;
  if (isListenPlace(value)) return formatListenPlace(value);
  if (isAddressRange(value)) return `${value.address}/${value.prefixLength}`;
  return viewOfMembers(value);
}

function viewOfMembers(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, viewOf(inner)]));
}

function isSecretSource(value: object): value is SecretSource {
  return 'kind' in value && (value.kind === 'env' || value.kind === 'file') && 'name' in value;
}

function isListenPlace(value: object): value is ListenPlace {
  return 'kind' in value && (value.kind === 'tcp' || value.kind === 'unix' || value.kind === 'systemd');
}

function isAddressRange(value: object): value is AddressRange {
  return 'family' in value && 'prefixLength' in value;
}

function withoutValues(record: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.keys(record).map((name) => [name, mark]));
}

function formatMode(mode: number): string {
  return `0${mode.toString(8).padStart(3, '0')}`;
}
