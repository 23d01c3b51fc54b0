import type { Optimizer } from '../../contract.js';
import { columnSumScratch } from '../ops/reduction.js';
import type { Net, Parameter } from './net.js';
import type { Block } from './recorder.js';
import { bytesIn } from './tensor.js';

/** bitsandbytes keeps smaller tensors in 32 bits, and a scale for each block of the others. */
const smallestQuantized = 4096;
const quantizedBlock = 256;

/** One step after another; the first makes the states. */
export class OptimizerSteps {
  readonly #net: Net;
  readonly #kind: Optimizer;
  readonly #trained: readonly Parameter[];
  #started = false;

  constructor(net: Net, kind: Optimizer) {
    this.#net = net;
    this.#kind = kind;
    this.#trained = net.parameters.filter(({ source }) => source !== undefined);
  }

  step(): void {
    const { recorder } = this.#net.tape;
    recorder.part = 'temporary';
    if (!this.#started) this.#start();
    this.#started = true;
    if (this.#kind === 'adamw') {
      // All square roots at once, for all parameters.
      recorder.scratch(this.#trained.map(bytesIn));
    } else if (this.#kind === 'adafactor') {
      for (const parameter of this.#trained) this.#factored(parameter);
    }
  }

  /** Gradients go before the next step begins. */
  zero(): void {
    for (const { source } of this.#trained) {
      if (source?.collected === undefined) continue;
      this.#net.tape.recorder.drop(source.collected);
      source.collected = undefined;
    }
  }

  #start(): void {
    for (const parameter of this.#trained) {
      for (const bytes of stateSizes[this.#kind](parameter)) this.#keep(bytes);
    }
  }

  #keep(bytes: number): Block {
    return this.#net.tape.recorder.take(bytes, 'optimizer');
  }

  /** One tensor after another; its whole estimate of the variance is there for a moment. */
  #factored(parameter: Parameter): void {
    const { recorder } = this.#net.tape;
    const whole = bytesIn(parameter);
    const columns = parameter.shape.at(-1) ?? 1;
    if (parameter.shape.length < 2) return recorder.scratch([whole, whole]);
    // The norm of each column, then the whole.
    recorder.scratch(columnSumScratch(parameter.elements / columns, columns));
    recorder.scratch([whole]);
  }
}

/** Bytes of each state tensor of one parameter. */
const stateSizes: Readonly<Record<Optimizer, (parameter: Parameter) => readonly number[]>> = {
  adamw: (parameter) => [bytesIn(parameter), bytesIn(parameter)],
  // Its step counters live on the GPU.
  'adamw-fused': (parameter) => [4, bytesIn(parameter), bytesIn(parameter)],
  sgd: () => [],
  'sgd-momentum': (parameter) => [bytesIn(parameter)],
  adafactor: ({ shape, elements, width }) => {
    if (shape.length < 2) return [elements * width];
    const columns = shape.at(-1) ?? 1;
    const rows = shape.at(-2) ?? 1;
    return [(elements / columns) * width, (elements / rows) * width];
  },
  'adamw-8bit': ({ elements }) => {
    if (elements < smallestQuantized) return [elements * 4, elements * 4];
    const scales = Math.ceil(elements / quantizedBlock) * 4;
    return [elements, scales, elements, scales];
  },
};
