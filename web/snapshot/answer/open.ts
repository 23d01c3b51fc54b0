import type { Recording, Unpacked } from '../data/recording.js';
import { type FlameBar, flameBars, flameTree, type Holding, holdingsAt } from './flame.js';

/** The facts that the page needs at the start. */
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

export function openedOf({ header, time, stacks }: Recording, data: Unpacked): Opened {
  const { ticks, group, events, omitted, marks, titles } = header;
  return {
    ticks,
    group,
    events,
    omitted,
    marks,
    time: time.known
      ? { ticks: data.u32('timeTick').slice(), seconds: data.f64('timeSecond').slice() }
      : undefined,
    stacks: stacks.order.map((stack, at) => ({
      stack,
      title: titles[stack] ?? '',
      peakBytes: stacks.peakBytes[at] ?? 0,
    })),
    placeOfStack: stacks.placeOf.slice(),
  };
}

export function stackOf({ header }: Recording, stack: number): StackFacts {
  const frames = (header.stacks[stack] ?? []).map((frame) => {
    const [name, place, own] = header.frames[frame] ?? ['unknown', '', 0];
    return { name, place, own: own === 1 };
  });
  return { title: header.titles[stack] ?? '', frames };
}

export function flameOf(recording: Recording, asked: FlameRequest): FlameBar[] {
  const { header } = recording;
  const holdings =
    asked.which === 'chosen'
      ? holdingsAt(recording, asked.tick)
      : pairs(asked.which === 'peak' ? header.holdersPeak : header.holdersNow);
  return flameBars(flameTree(holdings, header, asked.folded), asked.path, header.frames);
}

function pairs(flat: readonly number[]): Holding[] {
  return Array.from({ length: flat.length / 2 }, (_, at) => [
    flat[at * 2] ?? 0,
    flat[at * 2 + 1] ?? 0,
  ]);
}
