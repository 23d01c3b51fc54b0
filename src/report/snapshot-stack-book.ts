import { frameText } from '../snapshot/answer/frame-place.js';
import type { Names } from '../snapshot/snapshot.js';

/** A page lists so many stacks; allocations of further ones are shown without frames. */
const maxStacks = 4000;

/** The stacks and frames that a page speaks of, numbered in the order in which they are met. */
export class StackBook {
  readonly frames: string[] = [];
  /** Frames of each stack, the innermost first. Number 0 has none. */
  readonly stacks: number[][] = [[]];
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
    const number = this.stacks.length - 1;
    this.#stackNumbers.set(stack, number);
    return number;
  }

  #frameNumber(frame: number): number {
    const known = this.#frameNumbers.get(frame);
    if (known !== undefined) return known;
    this.frames.push(frameText(this.#names.frame(frame)));
    this.#frameNumbers.set(frame, this.frames.length - 1);
    return this.frames.length - 1;
  }
}
