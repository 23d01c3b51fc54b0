import type { ThemeName } from '../text/charts/themes.js';
import type { SortColumn } from './sort-columns.js';

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
