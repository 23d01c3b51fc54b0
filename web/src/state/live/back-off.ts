const firstSeconds = 0.5;
const maxSeconds = 10;

/**
 * How long to wait before the next try to reach the server: twice as long each time, and never the
 * same for all pages that lost it at once. `chance` is 0 to 1.
 */
export function backOffSeconds(failures: number, chance: number): number {
  const whole = Math.min(maxSeconds, firstSeconds * 2 ** Math.max(0, failures - 1));
  return whole * (0.75 + chance * 0.5);
}
