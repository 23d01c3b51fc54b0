/** Milliseconds since 1970, finer than `Date.now()`, and the same in every process of a machine. */
export function epochMs() {
  return performance.timeOrigin + performance.now();
}
