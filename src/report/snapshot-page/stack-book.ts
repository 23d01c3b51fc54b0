import {
  frameText,
  isOwn,
  moduleFrame,
  ownFrame,
  placeText,
} from '../../snapshot/answer/frame-place.js';
import type { Frame, Names } from '../../snapshot/snapshot.js';
import type { PageFrame } from './recording-header.js';

/** A page lists so many stacks; allocations of further ones are shown without frames. */
const maxStacks = 8000;

/** The stacks and frames that a page speaks of, numbered in the order in which they are met. */
export class StackBook {
  readonly frames: PageFrame[] = [];
  /** Frames of each stack, the innermost first. Number 0 has none. */
  readonly stacks: number[][] = [[]];
  /** Each stack in a few words. */
  readonly titles: string[] = [stackTitle([])];
  readonly #names: Names;
  readonly #frameNumbers = new Map<number, number>();
  readonly #stackNumbers = new Map<number, number>([[0, 0]]);

  constructor(names: Names) {
    this.#names = names;
  }

  /** The number on the page of a stack of the snapshot. */
  numberOf(stack: number): number {
    const known = this.#stackNumbers.get(stack);
    if (known !== undefined) return known;
    if (this.stacks.length >= maxStacks) return 0;
    const { stacks } = this.#names;
    const frames = [...stacks.frames.subarray(stacks.startOf(stack), stacks.endOf(stack))];
    this.stacks.push(frames.map((frame) => this.#frameNumber(frame)));
    this.titles.push(stackTitle(this.#names.stack(stack)));
    const number = this.stacks.length - 1;
    this.#stackNumbers.set(stack, number);
    return number;
  }

  #frameNumber(frame: number): number {
    const known = this.#frameNumbers.get(frame);
    if (known !== undefined) return known;
    const whole = this.#names.frame(frame);
    this.frames.push([whole.name, placeText(whole), isOwn(whole) ? 1 : 0]);
    this.#frameNumbers.set(frame, this.frames.length - 1);
    return this.frames.length - 1;
  }
}

/**
 * A stack in a few words: the call that allocated, the part of the model that it was for, and the
 * user's own line.
 *
 * @example
 * stackTitle(frames); // 'linear, forward (gpt2/modeling_gpt2.py:552), step (train.py:58)'
 */
export function stackTitle(frames: readonly Frame[]): string {
  const [innermost] = frames;
  if (innermost === undefined) return 'no frames recorded';
  const further = new Set([moduleFrame(frames), ownFrame(frames)]);
  further.delete(innermost);
  const known = [...further].filter((frame) => frame !== undefined);
  if (known.length === 0) return frameText(innermost);
  return [innermost.name, ...known.map(frameText)].join(', ');
}
