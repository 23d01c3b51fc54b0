/** One claim of an earlier tool, beside our figure. */
export interface Claim {
  readonly claim: string;
  readonly ours: string;
  readonly verdict: string;
  readonly how: string;
  readonly on: string;
  readonly command: string;
  readonly source: string;
}
export function reached<Value>(
  values: readonly Value[],
  isReached: (value: Value) => boolean,
): string;
export function recordedClaims(): readonly Claim[];
