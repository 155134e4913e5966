/** Surrogate-Control, the predecessor of targeted fields (W3C Note "Edge Architecture Specification", 4 August 2001). */

import { trimWhitespace } from '../http/fields.ts';
import { type CacheDirective, parseCacheDirectives, splitMembers } from './cache-directives.ts';

/** The name of the field. It is read where the operator lists it among the targeted fields. */
export const surrogateControlField = 'surrogate-control';

/** The name by which an origin aims a directive at this proxy: `max-age=60;rangeway`. */
export const deviceToken = 'rangeway';

/** What the request field Surrogate-Capability says of this proxy; to be appended to what others have said there. */
export const surrogateCapability = `${deviceToken}="Surrogate/1.0"`;

/**
 * The directives that count here. `stale-…` are not the Note's, but CDNs read them from this field (RFC 5861). Not among
 * them: `content`, which asks for processing, not caching; and `no-store-remote`, which is for surrogates far from the
 * origin, such as those of a CDN, while this proxy is the one in front of it.
 */
const known: ReadonlySet<string> = new Set(['max-age', 'no-store', 'stale-if-error', 'stale-while-revalidate']);

/** A lifetime, and for how long after it the response may be served all the same. */
const extendedLifetime = /^([0-9]+)\+([0-9]+)$/;

interface Member {
  readonly directives: readonly CacheDirective[];
  /** The device tokens that it is aimed at; none where it is for all. */
  readonly targets: readonly string[];
}

/**
 * The directives of the field for the device with these tokens, as those of Cache-Control: the ones aimed at it
 * supersede those for all, as the most specific apply, and those aimed at others do not count. The second number of
 * `max-age=60+30` is `stale-while-revalidate`. Letter case counts in tokens only; what is malformed restricts, and
 * permits nothing. Undefined when nothing is said of storing or lifetime: the field does not apply then. Never throws.
 */
export function parseSurrogateControl(
  lines: readonly string[],
  deviceTokens: readonly string[],
): readonly CacheDirective[] | undefined {
  const members = lines
    .flatMap(splitMembers)
    .map(parseMember)
    .filter((member) => member.directives.length > 0);
  const aimed = members.filter(({ targets }) => targets.some((target) => deviceTokens.includes(target)));
  const own = aimed.length > 0 ? aimed : members.filter(({ targets }) => targets.length === 0);
  const directives = own.flatMap((member) => member.directives);
  return directives.some(({ name }) => name === 'max-age' || name === 'no-store') ? directives : undefined;
}

/** One member, such as `max-age=60;rangeway`. */
function parseMember(member: string): Member {
  const [text = '', ...targets] = member.split(';').map(trimWhitespace);
  return {
    directives: parseCacheDirectives([text])
      .filter(({ name }) => known.has(name))
      .flatMap(withoutExtension),
    targets: targets.filter((target) => target !== ''),
  };
}

function withoutExtension(directive: CacheDirective): CacheDirective[] {
  const [, lifetime, extension] = extendedLifetime.exec(directive.argument ?? '') ?? [];
  if (directive.name !== 'max-age' || lifetime === undefined || extension === undefined) return [directive];
  return [
    { ...directive, argument: lifetime },
    { ...directive, name: 'stale-while-revalidate', argument: extension },
  ];
}
