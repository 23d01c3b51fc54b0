import koffi from 'koffi';

/** Linux's clock of the calling thread alone, to the nanosecond. */
const threadClock = 3;

/**
 * Starts now; answers what passed on the wall, and what this thread itself worked, in milliseconds.
 * The processor time of the process would count its helpers for garbage and compiling, too, and comes
 * in steps of some milliseconds.
 */
export function stopwatch() {
  const work = threadMs();
  const wall = performance.now();
  return () => {
    const wallMs = performance.now() - wall;
    return { wallMs, workMs: Math.min(wallMs, threadMs() - work) };
  };
}

const threadMs = process.platform === 'linux' ? linuxThreadMs() : () => performance.now();

function linuxThreadMs() {
  const read = koffi.load('libc.so.6').func('int clock_gettime(int, _Out_ int64_t *)');
  const time = new BigInt64Array(2);
  return () => {
    read(threadClock, time);
    return Number(time[0]) * 1e3 + Number(time[1]) / 1e6;
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
