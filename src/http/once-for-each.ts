/** What follows from a value that never changes is worked out once. */

/** A function that works out a result once for each object, as long as that lives. The object and all in it must not change. */
export function onceForEach<K extends object, V>(work: (of: K) => V): (of: K) => V {
  const known = new WeakMap<K, { readonly result: V }>();
  return (of) => {
    const earlier = known.get(of);
    if (earlier !== undefined) return earlier.result;
    const result = work(of);
    known.set(of, { result });
    return result;
  };
}
