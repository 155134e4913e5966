/** Generated media traffic: a catalogue of titles, and the requests of their viewers. The same for the same seed. */

import { seededRandom } from '../../test/support/stores/traces.ts';
import { episodes, type Scenario } from './scenario.ts';

/**
 * The titles and their URLs. Every other title is one file, which is read by ranges; the others are segments, each with a URL of
 * its own. URLs are numbers; blocks of all URLs are numbered in one sequence.
 */
export interface Catalogue {
  readonly titleBytes: readonly number[];
  /** The only URL of a title that is a file; the URL of the first segment of any other. */
  readonly firstUrl: readonly number[];
  readonly urlBytes: readonly number[];
  /** Number of the first block of each URL. */
  readonly firstBlock: readonly number[];
  readonly blocks: number;
}

/** Requests in their order: which URL, and which bytes of it, from `starts` up to `ends` (exclusive). */
export interface Trace {
  readonly catalogue: Catalogue;
  readonly urls: Uint32Array;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
}

/** Plays that run at the same time, for each node. */
const playsPerNode = 4;
/** How many plays are left after each request; how many of the first requests of plays are the last ones besides that. */
const leavesShare = 0.1;
const abandonsShare = 0.25;
/** How many requests begin at another place of the title, at random. */
const seeksShare = 0.08;
/** How many plays begin at the first byte; the others resume somewhere. */
const fromStartShare = 0.8;

/** One viewer of one title. */
interface Play {
  title: number;
  /** Byte of the title at which the next request begins. */
  offset: number;
  isFirst: boolean;
}

/** Checks whether a title is one file. Otherwise it is segments. */
export function isFile(title: number): boolean {
  return title % 2 === 0;
}

/** Creates the titles of a scenario, the most popular one first. */
export function createCatalogue(scenario: Pick<Scenario, CatalogueInput>): Catalogue {
  const { seed, titles, meanTitleBytes, requestBytes, blockSizeBytes } = scenario;
  const random = seededRandom(seed);
  const titleBytes: number[] = [];
  const firstUrl: number[] = [];
  const urlBytes: number[] = [];
  for (let title = 0; title < titles; title += 1) {
    const sizeBytes = Math.ceil(meanTitleBytes * (0.25 + 1.5 * random()));
    const pieceBytes = isFile(title) ? sizeBytes : requestBytes;
    titleBytes.push(sizeBytes);
    firstUrl.push(urlBytes.length);
    for (let start = 0; start < sizeBytes; start += pieceBytes) urlBytes.push(Math.min(pieceBytes, sizeBytes - start));
  }
  let blocks = 0;
  const firstBlock = urlBytes.map((sizeBytes) => {
    const first = blocks;
    blocks += Math.ceil(sizeBytes / blockSizeBytes);
    return first;
  });
  return { titleBytes, firstUrl, urlBytes, firstBlock, blocks };
}

type CatalogueInput = 'seed' | 'titles' | 'meanTitleBytes' | 'requestBytes' | 'blockSizeBytes';

/** Creates the requests of a scenario. Sizes must be below 4 GiB (`RangeError` otherwise). */
export function createTrace(scenario: Scenario): Trace {
  const { nodes, seed, requestsPerNode, titles, skew, requestBytes, crowdShare, meanTitleBytes } = scenario;
  if (meanTitleBytes * 2 > 2 ** 32) throw new RangeError('Titles must be below 4 GiB.');
  const catalogue = createCatalogue(scenario);
  const random = seededRandom(seed + 1);
  const popular = zipf(titles, skew);
  const count = nodes * requestsPerNode;
  const urls = new Uint32Array(count);
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  // The crowd comes for a title that hardly anybody has played before.
  const crowdTitle = Math.floor(titles * 0.75);

  const begin = (play: Play, progress: number): void => {
    const isCrowd = progress >= episodes.crowdFrom && progress < episodes.crowdTo && random() < crowdShare;
    play.title = isCrowd ? crowdTitle : popular(random());
    play.offset = isCrowd || random() < fromStartShare ? 0 : place(play.title);
    play.isFirst = true;
  };
  const place = (title: number): number => {
    const offset = Math.floor(random() * (catalogue.titleBytes[title] ?? 0));
    // Segments are requested whole. A file is read from any byte on.
    return isFile(title) ? offset : offset - (offset % requestBytes);
  };

  const plays = Array.from({ length: nodes * playsPerNode }, () => {
    const play: Play = { title: 0, offset: 0, isFirst: true };
    begin(play, 0);
    return play;
  });
  for (let at = 0; at < count; at += 1) {
    const play = plays[Math.floor(random() * plays.length)] as Play;
    const titleBytes = catalogue.titleBytes[play.title] ?? 0;
    const first = catalogue.firstUrl[play.title] ?? 0;
    const end = Math.min(play.offset + requestBytes, titleBytes);
    if (isFile(play.title)) {
      urls[at] = first;
      starts[at] = play.offset;
      ends[at] = end;
    } else {
      urls[at] = first + play.offset / requestBytes;
      ends[at] = end - play.offset;
    }
    const isLast = end === titleBytes || random() < leavesShare + (play.isFirst ? abandonsShare : 0);
    play.offset = end;
    play.isFirst = false;
    if (isLast) begin(play, at / count);
    else if (random() < seeksShare) play.offset = place(play.title);
  }
  return { catalogue, urls, starts, ends };
}

/** Returns a function from [0, 1) to a rank from 0 on, with the weights `(rank + 1) ** -skew`. */
function zipf(names: number, skew: number): (point: number) => number {
  const sums = new Float64Array(names);
  let sum = 0;
  for (let rank = 0; rank < names; rank += 1) {
    sum += (rank + 1) ** -skew;
    sums[rank] = sum;
  }
  return (point) => {
    let [low, high] = [0, names - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((sums[middle] ?? sum) <= point * sum) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}
