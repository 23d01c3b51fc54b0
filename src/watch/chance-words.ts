import type { Forecast } from './types.js';

/** `84 % likely within a minute if nothing changes`: how sure a risk is. */
export function chanceWords({
  risk,
  probability,
}: Pick<Forecast, 'risk' | 'probability'>): string | undefined {
  if (probability === 'unknown') return undefined;
  const [share, when] =
    risk === 'critical'
      ? ([probability.within15s, '15 s'] as const)
      : risk === 'high'
        ? ([probability.within60s, 'a minute'] as const)
        : ([probability.within5min, '5 min'] as const);
  return `${Math.round(100 * share)} % likely within ${when} if nothing changes`;
}
