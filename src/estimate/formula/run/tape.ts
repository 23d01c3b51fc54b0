import type { Block, Recorder } from './recorder.js';

/** The place that collects the gradient of a tensor. */
export interface Source {
  readonly elements: number;
  readonly width: number;
  /** A parameter: what is collected stays until the optimizer has used it. */
  readonly leaf: boolean;
  collected: Block | undefined;
  /** The sum of gradients of earlier batches of the step, if gradients are accumulated. */
  earlier?: Block | undefined;
}

/** Elements of one width in a block; shapes are known to the ops that work with it. */
export interface Tensor {
  readonly elements: number;
  /** Bytes of an element. */
  readonly width: number;
  readonly block: Block;
  /** Absent where it needs no gradient. */
  readonly source: Source | undefined;
  /** The op that takes it as its input is the last to do so. */
  passing: boolean;
  dropped: boolean;
}

/** Hands a tensor to the next op for good, as an expression does whose value has no name. */
export function last(tensor: Tensor): Tensor {
  tensor.passing = true;
  return tensor;
}

export function bytesIn(tensor: { readonly elements: number; readonly width: number }): number {
  return tensor.elements * tensor.width;
}

/** The output of an op, the tensors it keeps for the backward pass, and the scratch of that pass. */
export interface Op {
  readonly elements: number;
  readonly width: number;
  readonly inputs: readonly Tensor[];
  /** Kept until the op's backward has run. */
  readonly saves?: readonly Tensor[];
  readonly savesResult?: boolean;
  /** Sizes of further results that are only kept for the backward pass. */
  readonly keeps?: readonly number[];
  /** Sizes of buffers that the op needs while it runs. */
  readonly scratch?: readonly number[];
  /** Inputs stay, even where an op passed them on for good. */
  readonly lends?: boolean;
  /** Takes the gradient of the result and gives the inputs theirs; fresh ones unless stated. */
  readonly backward?: (gradient: Block) => void;
}

interface Node {
  readonly results: readonly Source[];
  saved: readonly Block[];
  readonly backward: (gradients: readonly (Block | undefined)[]) => void;
  readonly region: Region | undefined;
}

/** A part of the forward pass that keeps only its input, and is run again for the backward pass. */
interface Region {
  start: number;
  /** How many of its ops keep something. */
  savers: number;
  again: (() => void) | undefined;
}

/**
 * The forward and the backward pass of a model as PyTorch's autograd runs them, without the numbers:
 * only what memory each op takes, keeps and gives back, in the order in which it happens.
 */
export class Tape {
  readonly recorder: Recorder;
  /** Whether a backward pass will follow. */
  learns: boolean;
  /** Which thread runs: autograd's has library handles of its own. */
  thread: 'forward' | 'backward' = 'forward';
  /** Called when a part of the forward pass was run again. */
  onRunAgain: () => void = () => {};
  #nodes: Node[] = [];
  #region: Region | undefined;
  /** In a second run: how many ops that keep something are still to come. After them it ends. */
  #saversLeft: number | undefined;
  readonly #scopes: Tensor[][] = [[]];

  constructor(recorder: Recorder, learns: boolean) {
    this.recorder = recorder;
    this.learns = learns;
  }

  /** New memory that nothing was computed from. */
  fresh(elements: number, width: number): Tensor {
    return this.#tensor(elements, width, this.recorder.take(elements * width), undefined);
  }

  /** The same memory under another name, with the same gradient. */
  alias(tensor: Tensor, elements = tensor.elements): Tensor {
    const { width, block, source } = tensor;
    return this.#tensor(elements, width, this.recorder.hold(block), source);
  }

  /** The same memory, without a gradient. */
  detached(tensor: Tensor): Tensor {
    const { elements, width, block } = tensor;
    return this.#tensor(elements, width, this.recorder.hold(block), undefined);
  }

  run(op: Op): Tensor {
    const { recorder } = this;
    if (this.#saversLeft === 0)
      return this.#tensor(op.elements, op.width, recorder.take(0), undefined);
    const learns = this.learns && op.inputs.some(({ source }) => source !== undefined);
    if (learns && savesAnything(op)) this.#countSaver();
    const before = op.savesResult === true || (op.keeps?.length ?? 0) > 0;
    if (this.#saversLeft === 0 && !before) return this.#stopWith(op);
    const block = recorder.take(op.elements * op.width);
    const kept = (op.keeps ?? []).map((bytes) => recorder.take(bytes));
    recorder.scratch(op.scratch ?? []);
    const source = learns ? sourceOf(op.elements, op.width) : undefined;
    const result = this.#tensor(op.elements, op.width, block, source);
    if (source === undefined) for (const one of kept) recorder.drop(one);
    else {
      const saved = [...(op.saves ?? []), ...(op.savesResult === true ? [result] : [])];
      const backward = op.backward ?? (() => this.#giveFresh(op.inputs));
      this.#add([source], [...this.#keep(saved), ...this.#keepOwn(kept)], ([gradient]) => {
        if (gradient !== undefined) backward(gradient);
      });
    }
    if (op.lends !== true) this.#finish(op.inputs);
    return result;
  }

  /** Parts of a tensor that share its memory; their gradients are put together into one. */
  split(tensor: Tensor, sizes: readonly number[]): Tensor[] {
    const { width, block } = tensor;
    const learns = this.learns && tensor.source !== undefined && this.#saversLeft !== 0;
    const parts = sizes.map((elements) => {
      const source = learns ? sourceOf(elements, width) : undefined;
      return this.#tensor(elements, width, this.recorder.hold(block), source);
    });
    const sources = parts.flatMap(({ source }) => (source === undefined ? [] : [source]));
    if (learns) this.#add(sources, [], () => this.give(tensor, this.grad(tensor)));
    this.#finish([tensor]);
    return parts;
  }

  /** A new block for the gradient of a tensor. */
  grad(tensor: { readonly elements: number; readonly width: number }): Block {
    return this.recorder.take(tensor.elements * tensor.width);
  }

  /** Adds to the gradient of a tensor; the block is the tape's from then on. */
  give({ source }: Tensor, block: Block): void {
    const { recorder } = this;
    if (source === undefined) return recorder.drop(block);
    // Gradients of an earlier batch that are kept take the new ones up in place.
    if (source.earlier !== undefined) return recorder.drop(block);
    const before = source.collected;
    if (before === undefined) source.collected = block;
    // A parameter's first gradient is seen from elsewhere too, so the sum is new memory.
    else if (before.holders === 1 && !source.leaf) recorder.drop(block);
    else {
      source.collected = recorder.take(source.elements * source.width);
      recorder.drop(before);
      recorder.drop(block);
    }
    if (source.leaf) recorder.label(source.collected ?? block, 'gradients');
  }

  /** The gradient goes on as it is, into every input of the result's size and type. */
  pass(tensor: Tensor, gradient: Block): void {
    this.give(tensor, this.recorder.hold(gradient));
  }

  /** As a function call: what was made inside and is not the answer goes when it returns. */
  scope(body: () => Tensor): Tensor {
    this.#scopes.push([]);
    const answer = body();
    for (const tensor of this.#scopes.pop() ?? []) {
      if (tensor === answer) this.#scopes.at(-1)?.push(tensor);
      else this.drop(tensor);
    }
    return answer;
  }

  /** The argument of a function: its own until it returns, if the caller kept no name for it. */
  own(tensor: Tensor): Tensor {
    if (tensor.passing) {
      tensor.passing = false;
      this.#scopes.at(-1)?.push(tensor);
    }
    return tensor;
  }

  drop(tensor: Tensor): void {
    if (tensor.dropped) return;
    tensor.dropped = true;
    this.recorder.drop(tensor.block);
  }

  /** Runs a part that keeps only its input for the backward pass. */
  checkpoint(
    input: Tensor,
    body: (input: Tensor) => Tensor,
    alsoNeeds: readonly Tensor[] = [],
  ): Tensor {
    if (!this.learns) return body(input);
    const region: Region = { start: this.#nodes.length, savers: 0, again: undefined };
    this.#region = region;
    // Held past the end of any scope: the second run needs them.
    const blocks = [input, ...alsoNeeds].map(({ block }) => this.recorder.hold(block));
    const answer = body(input);
    this.#region = undefined;
    region.again = () => {
      this.drop(this.scope(() => body(input)));
      for (const block of blocks) this.recorder.drop(block);
    };
    return answer;
  }

  backward(loss: Tensor): void {
    this.thread = 'backward';
    if (loss.source !== undefined) this.give(loss, this.grad(loss));
    for (let node = this.#nodes.pop(); node !== undefined; node = this.#nodes.pop()) {
      if (node.region?.again !== undefined) this.#runAgain(node, node.region);
      const gradients = node.results.map(({ collected }) => collected);
      for (const result of node.results) result.collected = undefined;
      if (gradients.some((gradient) => gradient !== undefined)) node.backward(gradients);
      for (const block of gradients) if (block !== undefined) this.recorder.drop(block);
      for (const block of node.saved) this.recorder.drop(block);
    }
    this.thread = 'forward';
  }

  /** Replaces the tensors that the first run kept by those of the second run. */
  #runAgain(node: Node, region: Region): void {
    const { again } = region;
    region.again = undefined;
    const before = this.#nodes;
    this.#nodes = [];
    this.recorder.part = 'activations';
    this.#saversLeft = region.savers;
    again?.();
    this.#saversLeft = undefined;
    this.onRunAgain();
    this.recorder.part = 'temporary';
    this.#nodes.forEach(({ saved }, index) => {
      const at = region.start + index;
      const original = at === before.length ? node : before[at];
      if (original !== undefined) original.saved = saved;
    });
    this.#nodes = before;
  }

  #countSaver(): void {
    if (this.#region !== undefined) this.#region.savers += 1;
    else if (this.#saversLeft !== undefined) this.#saversLeft -= 1;
  }

  /** The last op of a second run: what it keeps is kept, and it is not carried out. */
  #stopWith(op: Op): Tensor {
    const source = sourceOf(op.elements, op.width);
    this.#add([source], this.#keep(op.saves ?? []), () => {});
    return this.#tensor(op.elements, op.width, this.recorder.take(0), undefined);
  }

  #giveFresh(inputs: readonly Tensor[]): void {
    for (const input of inputs) if (input.source) this.give(input, this.grad(input));
  }

  #add(results: readonly Source[], saved: readonly Block[], backward: Node['backward']): void {
    this.#nodes.push({ results, saved, backward, region: this.#region });
  }

  #keep(tensors: readonly Tensor[]): Block[] {
    if (this.#region !== undefined) return [];
    return tensors.map(({ block }) => this.recorder.hold(block));
  }

  #keepOwn(blocks: readonly Block[]): readonly Block[] {
    if (this.#region === undefined) return blocks;
    for (const block of blocks) this.recorder.drop(block);
    return [];
  }

  #finish(inputs: readonly Tensor[]): void {
    for (const input of inputs) if (input.passing) this.drop(input);
  }

  #tensor(elements: number, width: number, block: Block, source: Source | undefined): Tensor {
    const tensor: Tensor = { elements, width, block, source, passing: false, dropped: false };
    this.#scopes.at(-1)?.push(tensor);
    return tensor;
  }
}

function savesAnything(op: Op): boolean {
  return (op.saves?.length ?? 0) > 0 || (op.keeps?.length ?? 0) > 0 || op.savesResult === true;
}

function sourceOf(elements: number, width: number): Source {
  return { elements, width, leaf: false, collected: undefined };
}
