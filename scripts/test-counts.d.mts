export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly leftOut: readonly string[];
}
export function vitestCounts(file: string): Counts;
export function pythonCounts(file: string): Counts;
