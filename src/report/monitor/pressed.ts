import type { MonitorSignal, MonitorView, SignalTarget } from './view.js';

/** What the machine has to do for it. */
export type MonitorEffect =
  | { readonly kind: 'quit' }
  | { readonly kind: 'interrupt' }
  | { readonly kind: 'suspend' }
  | { readonly kind: 'mouse'; readonly on: boolean }
  | {
      readonly kind: 'signal';
      readonly signal: MonitorSignal;
      readonly targets: readonly SignalTarget[];
    };

export interface Pressed {
  readonly view: MonitorView;
  readonly effect?: MonitorEffect;
}
