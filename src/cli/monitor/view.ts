import type { ThemeName } from '../../report/text/spans.js';
import type { ProcessRow } from './build-rows.js';
import type { SortColumn } from './sort-rows.js';

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

export type MonitorSignal = 'SIGINT' | 'SIGTERM' | 'SIGKILL';

/** A process that a signal is meant for: the pid alone may belong to another one a moment later. */
export interface SignalTarget {
  readonly pid: number;
  readonly started: number | undefined;
  readonly command: string;
  readonly user: string;
}

/** What the person is being asked, at the foot of the screen. */
export type Prompt =
  | { readonly kind: 'filter'; readonly before: string }
  | { readonly kind: 'sort' }
  | {
      readonly kind: 'confirm';
      readonly signal: MonitorSignal;
      readonly targets: readonly SignalTarget[];
    };

export const monitorLayouts = ['auto', 'devices', 'processes'] as const;
export type MonitorLayout = (typeof monitorLayouts)[number];

/** Everything that keys and mouse change; what is drawn depends on this and on the readings alone. */
export interface MonitorView {
  readonly page: 'main' | 'help' | 'alerts' | 'details';
  readonly prompt: Prompt | undefined;
  readonly sort: SortColumn;
  readonly descending: boolean;
  readonly tree: boolean;
  readonly filter: string;
  /** `gpus`, or the id of a device. */
  readonly scope: string;
  readonly layout: MonitorLayout;
  readonly theme: ThemeName;
  readonly mouse: boolean;
  /** The key of the selected row. */
  readonly selected: string | undefined;
  readonly tagged: ReadonlySet<string>;
  /** The first row on the screen, as last drawn. */
  readonly first: number;
  /** The first line of help or alerts. */
  readonly pageFirst: number;
  /** Characters of the command lines that are scrolled out on the left. */
  readonly commandFrom: number;
  /** What the last action did or could not do. */
  readonly message: string;
}

export function newView(theme: ThemeName): MonitorView {
  return {
    page: 'main',
    prompt: undefined,
    sort: 'memory',
    descending: true,
    tree: false,
    filter: '',
    scope: 'gpus',
    layout: 'auto',
    theme,
    mouse: true,
    selected: undefined,
    tagged: new Set(),
    first: 0,
    pageFirst: 0,
    commandFrom: 0,
    message: '',
  };
}

/** Selects the row at a place, or the nearest there is. */
export function selectRow(
  view: MonitorView,
  rows: readonly ProcessRow[],
  index: number,
): MonitorView {
  const row = rows[Math.min(rows.length - 1, Math.max(0, index))];
  return { ...view, selected: row?.key };
}

/** Moves the selection; the first move selects the first row in sight. */
export function moveSelection(
  view: MonitorView,
  rows: readonly ProcessRow[],
  by: number,
): MonitorView {
  const at = rows.findIndex(({ key }) => key === view.selected);
  return selectRow(view, rows, at === -1 ? view.first : at + by);
}

/** The first row to draw, so that the selected one is in sight and no room is left unused. */
export function firstInSight(
  view: Pick<MonitorView, 'first' | 'selected'>,
  rows: readonly ProcessRow[],
  height: number,
): number {
  const at = rows.findIndex(({ key }) => key === view.selected);
  let first = view.first;
  if (at !== -1) first = Math.min(at, Math.max(first, at - height + 1));
  return Math.max(0, Math.min(first, rows.length - height));
}
