import type { Optimizer } from '../../types.js';
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
    if (this.#kind === 'adafactor') {
      for (const parameter of this.#trained) this.#factored(parameter);
    }
    const copies = Array.from({ length: stepCopies[this.#kind] }, () => this.#trained.map(bytesIn));
    recorder.scratch(copies.flat());
  }

  /** Gradients go before the next step begins. */
  zero(): void {
    for (const { source } of this.#trained) {
      for (const block of [source?.collected, source?.earlier]) {
        if (block !== undefined) this.#net.tape.recorder.drop(block);
      }
      if (source !== undefined) Object.assign(source, { collected: undefined, earlier: undefined });
    }
  }

  /** Gradients stay for the next batch of the same step. */
  keepGradients(): void {
    for (const { source } of this.#trained) {
      if (source?.collected === undefined) continue;
      source.earlier = source.collected;
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

/**
 * Copies of all parameters that a step makes for a moment: PyTorch takes the square root (or the
 * absolute value) of all of them at once. Adagrad and Adadelta need the numerator beside it. What is
 * fused, or works in place, makes none.
 */
const stepCopies: Readonly<Record<Optimizer, number>> = {
  adamw: 1,
  'adamw-fused': 0,
  'adamw-8bit': 0,
  adam: 1,
  'adam-fused': 0,
  adamax: 1,
  nadam: 1,
  radam: 1,
  rmsprop: 1,
  adagrad: 2,
  adadelta: 2,
  adafactor: 0,
  sgd: 0,
  'sgd-momentum': 0,
};

const oneState = (parameter: Parameter) => [bytesIn(parameter)];
const twoStates = (parameter: Parameter) => [bytesIn(parameter), bytesIn(parameter)];
/** Step counters of a fused optimizer live on the GPU. */
const fusedStates = (parameter: Parameter) => [4, ...twoStates(parameter)];

/** Bytes of each state tensor of one parameter. */
const stateSizes: Readonly<Record<Optimizer, (parameter: Parameter) => readonly number[]>> = {
  adamw: twoStates,
  'adamw-fused': fusedStates,
  adam: twoStates,
  'adam-fused': fusedStates,
  adamax: twoStates,
  nadam: twoStates,
  radam: twoStates,
  rmsprop: oneState,
  adagrad: oneState,
  adadelta: twoStates,
  sgd: () => [],
  'sgd-momentum': oneState,
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
