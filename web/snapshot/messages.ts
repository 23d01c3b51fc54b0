import type { LifeFacts } from './answer/describe.js';
import type { FlameBar } from './answer/flame.js';
import type { NearEvent } from './answer/near.js';
import type { FlameRequest, Opened, StackFacts } from './answer/open.js';
import type { AllocatorState } from './answer/state.js';
import type { View, ViewRequest } from './answer/view.js';

/** The questions of the page with their answers. */
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

/** A reply of the worker. */
export type Reply<Name extends Kind> =
  | { readonly id: number; readonly answer: Questions[Name]['answer'] }
  | { readonly id: number; readonly failed: string };
