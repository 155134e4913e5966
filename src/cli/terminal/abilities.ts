/** What a stream can show: colours, lines that change. Each start needs this, so it imports nothing. */

/** A stream, as far as its abilities matter here. */
export interface StyledStream {
  readonly isTTY?: boolean | undefined;
  hasColors?(): boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Checks whether output to a stream is coloured: FORCE_COLOR decides first (`0` and `false` mean no), then NO_COLOR, then
 * whether the stream is a terminal that has colours. TERM=dumb has none.
 */
export function wantsColors(stream: StyledStream, env: Environment): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: refused = '', TERM: terminal } = env;
  if (forced !== undefined) return forced !== '0' && forced !== 'false';
  if (refused !== '' || stream.isTTY !== true || terminal === 'dumb') return false;
  return stream.hasColors?.() ?? true;
}

/** Checks whether text on a stream can be overwritten: on a terminal, but not on a dumb one. */
export function canRedraw(stream: StyledStream, env: Environment): boolean {
  return stream.isTTY === true && env['TERM'] !== 'dumb';
}
