/** A claim of `claims.json`. */
export interface StatedClaim {
  readonly id: string;
  readonly rows: string;
  readonly figures: Readonly<Record<string, object>>;
  readonly stated: readonly { readonly in: string; readonly text: string }[];
}
export interface Part {
  readonly text: string;
  readonly isFigure: boolean;
}
export interface Sentence {
  readonly file: string;
  readonly text: string;
  readonly parts: readonly Part[];
}
export interface Kept {
  readonly date?: string;
  readonly command?: string;
  readonly tables?: Readonly<Record<string, { readonly date: string; readonly page: string }>>;
}
export const claims: readonly StatedClaim[];
export function rowsNamed(name: string): Kept;
export function sentences(claim: StatedClaim): readonly Sentence[];
export function differences(
  all?: readonly StatedClaim[],
  read?: (file: string) => string,
): readonly string[];
export function rewritten(file: string, text: string, all?: readonly StatedClaim[]): string;
