/** Routes that contradict one another: the same match twice, the same name twice. */

interface MatchedRoute {
  readonly name?: string | undefined;
  readonly match?:
    | { readonly hosts?: readonly string[] | undefined; readonly pathPrefix?: string | undefined }
    | undefined;
  readonly stripPathPrefix?: boolean | undefined;
}

/** What is wrong with one route, and where in it. */
export interface MatchConflict {
  readonly index: number;
  readonly path: readonly string[];
  readonly message: string;
}

/**
 * Every route that repeats the match or the name of an earlier one, or strips a prefix that it does not have. A route
 * that is wrong in another way may not match what it was meant to: no later one repeats its match. An undefined place is
 * a route of which not even the match can be read; it conflicts with nothing.
 */
export function matchConflicts(
  routes: readonly (MatchedRoute | undefined)[],
  isWrong: (index: number) => boolean,
): MatchConflict[] {
  const conflicts: MatchConflict[] = [];
  const names = new Map<string, number>();
  const matches = new Map<string, number>();
  for (const [index, route] of routes.entries()) {
    if (route === undefined) continue;
    const namesake = route.name === undefined ? undefined : names.get(route.name);
    if (namesake !== undefined) {
      conflicts.push({ index, path: ['name'], message: `is the name of routes[${namesake}] too` });
    }
    if (route.name !== undefined && namesake === undefined) names.set(route.name, index);
    // What a wrong route claims is not kept.
    const twin = claimMatch(isWrong(index) ? new Map(matches) : matches, index, route);
    if (twin !== undefined) {
      conflicts.push({ index, path: ['match'], message: `routes[${twin.index}] serves ${twin.what} too` });
    }
    if (route.stripPathPrefix === true && route.match?.pathPrefix === undefined) {
      conflicts.push({ index, path: ['stripPathPrefix'], message: 'needs match.pathPrefix' });
    }
  }
  return conflicts;
}

/** Notes what a route serves, host by host; tells the first that an earlier route serves. */
function claimMatch(claimed: Map<string, number>, index: number, { match }: MatchedRoute) {
  let twin: { index: number; what: string } | undefined;
  const paths = match?.pathPrefix ?? '/';
  const hosts = match?.hosts?.map((host) => `"${host}"`) ?? ['every host'];
  for (const host of hosts) {
    const what = `${paths === '/' ? 'every path' : `paths under "${paths}"`} of ${host}`;
    const earlier = claimed.get(what);
    if (earlier === undefined) claimed.set(what, index);
    else if (earlier !== index) twin ??= { index: earlier, what };
  }
  return twin;
}
