import type { SortColumn } from './sort-columns.js';

/** Where things are on the screen as drawn last; rows and columns count from 0. */
export interface ScreenHits {
  /** The line with the titles of the table; -1 when there is none. */
  readonly titleRow: number;
  readonly titles: readonly {
    readonly column: SortColumn;
    readonly from: number;
    readonly to: number;
  }[];
  /** How many processes have room, and the first of them. */
  readonly tableRows: number;
  readonly first: number;
  readonly devices: readonly {
    readonly id: string;
    readonly top: number;
    readonly bottom: number;
    readonly left: number;
    readonly right: number;
  }[];
}

export const noHits: ScreenHits = {
  titleRow: -1,
  titles: [],
  tableRows: 0,
  first: 0,
  devices: [],
};
