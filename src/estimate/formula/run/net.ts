import type { WrittenScores } from '../../../model/model.js';
import { elementsOf } from '../../../model/parameter-list.js';
import { MiB } from '../../../units/bytes.js';
import type { Block } from './recorder.js';
import type { Tape, Tensor } from './tape.js';

export interface Parameter extends Tensor {
  readonly shape: readonly number[];
  /** Added beside the model, not one of its own. */
  readonly adapter: boolean;
}

export interface NetSettings {
  readonly training: boolean;
  /** Bytes of a weight, as the model is built. */
  readonly width: number;
  /** Bytes of what autocast computes in; absent without autocast. */
  readonly autocast: number | undefined;
  readonly checkpointing: boolean;
  /** The loop holds what the model puts out until the next step has its own. */
  readonly keepsOutputs: boolean;
  /** Rank of the adapters; the model itself is then frozen. */
  readonly loraRank: number | undefined;
  /** How the matrices of linear layers are packed; absent: as everything else. */
  readonly packing: Packing | undefined;
  readonly workspaceBytes: number;
  /** The GPU has fused attention kernels for 16 bits. */
  readonly fusedAttention: boolean;
  /** Attention has no kernel of its own, and keeps its scores so. */
  readonly writtenScores: WrittenScores | undefined;
}

export interface Packing {
  readonly bytesPerParameter: number;
  /** Unpacked as a whole into `width` bytes an element before each product. */
  readonly unpacks: boolean;
}

/** A library of its own adds biases. */
const biasWorkspace = MiB;

/** The shared parts of a model: its parameters, its precision, and the tape it runs on. */
export class Net {
  readonly tape: Tape;
  readonly settings: NetSettings;
  readonly parameters: Parameter[] = [];
  readonly #casts = new Map<Tensor, Tensor>();
  readonly #held: Block[] = [];
  readonly #kept: Block[] = [];
  #output: Block | undefined;
  #lastOutput: Block | undefined;

  constructor(tape: Tape, settings: NetSettings) {
    this.tape = tape;
    this.settings = settings;
    tape.onRunAgain = () => this.forgetCasts();
  }

  get width(): number {
    return this.settings.width;
  }

  /** The type that linear layers compute in. */
  get low(): number {
    return this.settings.autocast ?? this.settings.width;
  }

  parameter(shape: readonly number[], options: ParameterOptions = {}): Parameter {
    const { width = this.width, adapter = false, frozen = false } = options;
    const trains =
      this.settings.training && !frozen && (adapter || this.settings.loraRank === undefined);
    const elements = elementsOf(shape);
    const block = this.tape.recorder.take(options.bytes ?? elements * width, 'weights');
    const source = trains ? { elements, width, leaf: true, collected: undefined } : undefined;
    const made = { elements, width, block, source, passing: false, dropped: false, shape, adapter };
    this.parameters.push(made);
    return made;
  }

  /** The tensor in another type; itself where it has it already. */
  cast(tensor: Tensor, width: number): Tensor {
    if (tensor.width === width) return tensor;
    return this.tape.run({ elements: tensor.elements, width, inputs: [tensor] });
  }

  /** As a function's argument that only this op will see. */
  castFor(tensor: Tensor, width: number): Tensor {
    if (tensor.width === width) return tensor;
    const { elements } = tensor;
    const copy = this.tape.run({ elements, width, inputs: [tensor], lends: true });
    copy.passing = true;
    return copy;
  }

  /** Autocast keeps its copies of weights until the forward pass is over. */
  weight(parameter: Tensor, width: number): Tensor {
    if (parameter.width === width) return parameter;
    const kept = this.#casts.get(parameter);
    if (kept !== undefined) return kept;
    const copy = this.cast(parameter, width);
    if (!this.tape.learns || parameter.source === undefined) {
      copy.passing = true;
      return copy;
    }
    this.#casts.set(parameter, copy);
    this.#held.push(this.tape.recorder.hold(copy.block));
    return copy;
  }

  /** Leaves the region of autocast. */
  forgetCasts(): void {
    for (const block of this.#held) this.tape.recorder.drop(block);
    this.#held.length = 0;
    this.#casts.clear();
  }

  /** Keeps a tensor until the step is over, as what a model returns. */
  keep(tensor: Tensor): Tensor {
    this.#kept.push(this.tape.recorder.hold(tensor.block));
    return tensor;
  }

  endStep(): void {
    for (const block of this.#kept) this.tape.recorder.drop(block);
    this.#kept.length = 0;
  }

  /** Marks a tensor that the loss is made from; the first of several is the output. */
  putOut(output: Tensor): void {
    if (this.settings.keepsOutputs) this.#output ??= this.tape.recorder.hold(output.block);
  }

  /** The forward pass is over: the loop's variable now holds the new output. */
  replaceOutput(): void {
    if (this.#lastOutput !== undefined) this.tape.recorder.drop(this.#lastOutput);
    this.#lastOutput = this.#output;
    this.#output = undefined;
  }

  /** Asks for the extra memory of the first matrix product. */
  product(fusesBias = false): void {
    const { recorder, thread } = this.tape;
    recorder.workspace(`blas ${thread}`, this.settings.workspaceBytes);
    if (fusesBias) recorder.workspace(`blas with bias ${thread}`, biasWorkspace);
  }

  /** A block of the model, whose insides are computed twice where checkpointing is on. */
  block(input: Tensor, body: (input: Tensor) => Tensor, alsoNeeds: readonly Tensor[] = []): Tensor {
    const { tape, settings } = this;
    if (!settings.checkpointing || !settings.training) return tape.scope(() => body(input));
    return tape.scope(() => tape.checkpoint(input, body, alsoNeeds));
  }
}

interface ParameterOptions {
  readonly width?: number;
  readonly frozen?: boolean;
  readonly adapter?: boolean;
  /** Bytes of the packed form. */
  readonly bytes?: number;
}
