import { Failure } from '../../../failure.js';
import { largestRequest } from '../../allocator/settings.js';
import { type EventStream, EventStreamBuilder } from '../../trace/event-stream.js';
import { cublasAddresses } from '../../trace/recorded-events.js';
import type { Part } from '../../types.js';

/** One block of memory; it goes back when the last holder lets go. */
export interface Block {
  readonly slot: number;
  readonly bytes: number;
  holders: number;
}

/** An empty tensor never reaches the allocator. */
const nothing = -1;

/** Writes down what a job asks of the allocator, and what each request is for. */
export class Recorder {
  readonly #builder = new EventStreamBuilder();
  readonly #parts: Part[] = [];
  readonly #workspaces = new Set<string>();
  /** The part of the following requests. */
  part: Part = 'weights';

  constructor() {
    // As in every recorded job: one small segment was cached before the model was built.
    this.drop(this.take(1));
  }

  take(bytes: number, part = this.part): Block {
    if (bytes <= 0) return { slot: nothing, bytes: 0, holders: 1 };
    this.#parts.push(part);
    // A share of a tensor may not come out whole.
    const whole = Math.ceil(bytes);
    if (whole > largestRequest) throw tooLarge(`One tensor of it would take ${whole} bytes`);
    return { slot: this.#builder.alloc(whole), bytes: whole, holders: 1 };
  }

  hold(block: Block): Block {
    block.holders += 1;
    return block;
  }

  drop(block: Block): void {
    block.holders -= 1;
    if (block.holders === 0 && block.slot !== nothing) this.#builder.free(block.slot);
  }

  /** Says afterwards what a block is for. */
  label(block: Block, part: Part): void {
    if (block.slot !== nothing) this.#parts[block.slot] = part;
  }

  /** Asks for a kernel's scratch memory and gives it back in the opposite order. */
  scratch(bytes: readonly number[], part: Part = 'temporary'): void {
    for (const block of bytes.map((size) => this.take(size, part)).toReversed()) this.drop(block);
  }

  /** Asks for a library handle's permanent workspace; only the first call does. */
  workspace(name: string, bytes: number): void {
    if (this.#workspaces.has(name)) return;
    if (this.#workspaces.size === 0) {
      for (const taken of cublasAddresses) this.#builder.takeAddresses(taken);
    }
    this.#workspaces.add(name);
    this.take(bytes, 'workspace');
  }

  /** The model is built; what counts from here on is what the steps take. */
  ready(): void {
    this.#builder.emptyCache();
    this.#builder.resetPeaks();
  }

  finish(): { readonly stream: EventStream; readonly parts: readonly Part[] } {
    return { stream: this.#builder.finish(), parts: this.#parts };
  }
}

/** Sizes that no memory holds: beyond 1 PiB a tensor, or what can be added up exactly. */
export function tooLarge(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'too-large',
    fact: `${fact}, which no device holds.`,
    next: 'Check the sizes in the config, the batch and the length of the input.',
  });
}
