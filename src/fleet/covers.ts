/** Which worker takes the connections of one that cannot: none waits for its replacement. */

/** What is known of the worker of one slot. */
export interface SlotFitness {
  readonly slot: number;
  /** It accepts connections and answers. */
  readonly isFit: boolean;
  /** Connections come to its socket: somebody has listened there before. */
  readonly isOpen: boolean;
}

/** Slots that are covered, and the slots that cover them. */
export type Covers = ReadonlyMap<number, number>;

/** Who covers whom from now on. A slot stays with whom it has, if it can; another one gets who covers the fewest. */
export function decideCovers(slots: readonly SlotFitness[], before: Covers): Covers {
  const fit = slots.filter(({ isFit }) => isFit).map(({ slot }) => slot);
  const needy = slots.filter(({ isFit, isOpen }) => isOpen && !isFit).map(({ slot }) => slot);
  const covers = new Map<number, number>();
  for (const slot of needy) {
    const by = before.get(slot);
    if (by !== undefined && fit.includes(by)) covers.set(slot, by);
  }
  for (const slot of needy) {
    if (covers.has(slot)) continue;
    const load = (by: number) => [...covers.values()].filter((each) => each === by).length;
    const [by] = [...fit].sort((a, b) => load(a) - load(b));
    if (by !== undefined) covers.set(slot, by);
  }
  return covers;
}

/** What has changed from one to the other: covers that begin, and such that end. */
export function changedCovers(before: Covers, after: Covers): { readonly begun: Covers; readonly ended: Covers } {
  const missing = (here: Covers, there: Covers) => new Map([...here].filter(([slot, by]) => there.get(slot) !== by));
  return { begun: missing(after, before), ended: missing(before, after) };
}
