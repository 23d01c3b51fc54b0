/** A line of a table, by the names in its head. */
export type TruthRow = Readonly<Record<string, string>>;

export const truthPlace: string;
export function truthSets(): TruthRow[];
export function truthRows(name: string): TruthRow[];
export function truthFolder(name: string): string;
export function unpackSet(name: string, folder: string, archive?: Uint8Array): void;
export function keptFiles(name: string): string[];
export function filesIn(folder: string): string[];
export function fileOf(row: TruthRow, folder: string): string;
export function unpackXz(packed: Uint8Array, limit?: number): Buffer;
export function tarOf(folder: string, names: readonly string[]): Buffer;
export function tarEntries(tar: Uint8Array): { name: string; bytes: Buffer }[];
export function digestOf(bytes: Uint8Array): string;
