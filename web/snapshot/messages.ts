import type { LifeFacts } from './answer/describe.js';
import type { FlameBar } from './answer/flame.js';
import type { NearEvent } from './answer/near.js';
import type { AllocatorState } from './answer/state.js';
import type { View, ViewRequest } from './answer/view.js';

/** What the page has to know to begin. */
export interface Opened {
  readonly ticks: number;
  readonly group: number;
  readonly events: number;
  readonly omitted: number;
  readonly marks: {
    readonly peak: number;
    readonly outOfMemory: readonly number[];
    readonly steps: readonly number[];
  };
  /** Undefined: the recording has no times. */
  readonly time: { readonly ticks: Uint32Array; readonly seconds: Float64Array } | undefined;
  /** Stacks with colours, from the bottom of the chart up. */
  readonly stacks: readonly {
    readonly stack: number;
    readonly title: string;
    readonly peakBytes: number;
  }[];
  /** The colour's place of every stack; -1: none of its own. */
  readonly placeOfStack: Int16Array;
}

export interface StackFrame {
  readonly name: string;
  readonly place: string;
  readonly own: boolean;
}

export interface StackFacts {
  readonly title: string;
  /** The innermost call first. */
  readonly frames: readonly StackFrame[];
}

export interface FlameRequest {
  readonly which: 'chosen' | 'peak' | 'now';
  readonly tick: number;
  readonly folded: boolean;
  readonly path: readonly number[];
}

/** What the page asks, and what it is answered. */
export interface Questions {
  /** A piece of the packed recording; answers how many there are now. */
  piece: { ask: string; answer: number };
  open: { ask: undefined; answer: Opened };
  view: { ask: ViewRequest; answer: View };
  state: { ask: number; answer: AllocatorState };
  near: { ask: readonly [number, number]; answer: readonly NearEvent[] };
  life: { ask: number; answer: LifeFacts };
  stack: { ask: number; answer: StackFacts };
  flame: { ask: FlameRequest; answer: readonly FlameBar[] };
}

export type Kind = keyof Questions;

/** A question on its way to the worker. */
export type Question = {
  [Name in Kind]: {
    readonly id: number;
    readonly kind: Name;
    readonly ask: Questions[Name]['ask'];
  };
}[Kind];

/** What comes back. */
export type Reply<Name extends Kind> =
  | { readonly id: number; readonly answer: Questions[Name]['answer'] }
  | { readonly id: number; readonly failed: string };
