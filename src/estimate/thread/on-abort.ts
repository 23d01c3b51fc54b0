const acts = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Does something when a signal aborts; answers how to forget it. Each signal has one listener of ours,
 * however many tasks wait for it: a plan asks for dozens of estimates with one signal.
 */
export function onAbort(signal: AbortSignal | undefined, act: () => void): () => void {
  if (signal === undefined) return () => {};
  const known = acts.get(signal) ?? listen(signal);
  const once = (): void => act();
  known.add(once);
  return () => void known.delete(once);
}

function listen(signal: AbortSignal): Set<() => void> {
  const known = new Set<() => void>();
  acts.set(signal, known);
  signal.addEventListener(
    'abort',
    () => {
      for (const act of known) act();
    },
    { once: true },
  );
  return known;
}
