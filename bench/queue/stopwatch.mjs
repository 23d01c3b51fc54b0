/**
 * Starts now; answers what passed on the wall, and the most that this thread can have worked, in
 * milliseconds: the processor time of the process counts its helpers for garbage and compiling, too.
 */
export function stopwatch() {
  const cpu = process.cpuUsage();
  const wall = performance.now();
  return () => {
    const wallMs = performance.now() - wall;
    const { user, system } = process.cpuUsage(cpu);
    return { wallMs, workMs: Math.min(wallMs, (user + system) / 1000) };
  };
}

/** The values below which that share of them lies. */
export function percentiles(times, share) {
  const at = (key) => {
    const sorted = times.map((time) => time[key]).toSorted((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)];
  };
  return { wallMs: at('wallMs'), workMs: at('workMs') };
}
