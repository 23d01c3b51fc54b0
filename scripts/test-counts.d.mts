export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly leftOut: readonly string[];
  readonly otherTier: number;
  readonly files: readonly { readonly name: string; readonly seconds: number }[];
}
export const restTag: string;
export function readCounts(file: string): Counts;
export function closingLines(run: {
  readonly counts: readonly Counts[];
  readonly parts: readonly { readonly name: string; readonly seconds: number }[];
  readonly seconds: number;
  readonly failed: readonly string[];
  readonly seed: number;
}): readonly string[];
