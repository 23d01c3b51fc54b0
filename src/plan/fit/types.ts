import type {
  Estimate,
  Optimizer,
  Precision,
  QuantizationPreset,
  Workload,
} from '../../estimate/types.js';
import type { Wording } from '../../estimate/wording.js';

/** Parts that may wait in host memory. */
export const offloads = ['none', 'optimizer', 'weights'] as const;
export type Offload = (typeof offloads)[number];

/** Parts shared out over the GPUs: nothing, optimizer states, also gradients, also weights. */
export const zeroStages = [0, 1, 2, 3] as const;
export type ZeroStage = (typeof zeroStages)[number];

/** Concessions for memory, the smallest first. A plan makes a larger one only if nothing less fits. */
export const concessions = [
  /** The same training; only its speed changes. */
  'speed',
  /** Numbers are kept with fewer bits. */
  'numerics',
  /** Another way to train: another optimizer, or adapters instead of the model. */
  'training',
  'weights in 8 bits',
  'weights in 4 bits',
] as const;
export type Concession = (typeof concessions)[number];

/** How to run, but for the batch. */
export interface Configuration {
  readonly checkpointing: boolean;
  readonly precision: Precision;
  readonly optimizer: Optimizer;
  readonly loraRank?: number | undefined;
  readonly quantization?: QuantizationPreset | undefined;
  readonly offload: Offload;
  readonly zero: ZeroStage;
  readonly concession: Concession;
  /** In words for people; empty where nothing is. */
  readonly givesUp: readonly string[];
}

/** Settings of a plan. The effective batch is batch x accumulation x gpus. */
export interface PlanSettings {
  /** Samples that one GPU takes at a time. */
  readonly batch: number;
  /** How many of those come before one step of the optimizer. */
  readonly accumulation: number;
  readonly checkpointing: boolean;
  readonly precision: Precision;
  readonly quantization: QuantizationPreset | 'none';
  readonly offload: Offload;
  readonly optimizer: Optimizer | 'none';
  /** The rank of the adapters. */
  readonly lora: number | 'none';
  readonly gpus: number;
  readonly zero: ZeroStage;
}

/** `tightly`: the estimate fits, the upper end of its interval does not. */
export type Fit = 'surely' | 'tightly' | 'no';

/** Settings that were evaluated. All bytes are estimated, and of one GPU. */
export interface PlanOption {
  readonly settings: PlanSettings;
  readonly fits: boolean;
  readonly surely: boolean;
  readonly method: Estimate['method'];
  readonly peak: Estimate['peak'];
  /** Its need of host memory. */
  readonly hostBytes: number;
  /** Time for a sample, against the fastest configuration with nothing given up; a model, not a measurement. */
  readonly relativeCost: number;
  readonly concession: Concession;
  readonly givesUp: readonly string[];
}

export interface Plan extends Omit<PlanOption, 'method' | 'peak'> {
  readonly estimate: Estimate;
  /** The other options: those that fit first, then the least concession. */
  readonly alternatives: readonly PlanOption[];
  readonly notes: readonly string[];
}

/** Facts about the model and the card beside the estimates. */
export interface PlanFacts {
  /** Of each GPU, all that the process may take, its context included. */
  readonly capacityBytes: number;
  readonly gpus: number;
  /** Number of parameters if known, to rule options out without an estimate. */
  readonly parameters?: number | undefined;
  /** Layers that ZeRO 3 gathers one at a time. */
  readonly layers?: number | undefined;
  /** Tokens of a sequence, patches of an image: how much a sample gives the GPU to do. */
  readonly tokensPerSample: number;
  /** Cards before Ampere have no bf16. */
  readonly bfloat16: boolean;
  /** transformers builds it: checkpointing, adapters and quantization can be switched on. */
  readonly transformers: boolean;
  /** Tells configurations that a better estimate showed not to fit: they are not estimated again. */
  readonly isShown?: ((configuration: Configuration) => boolean) | undefined;
}

/** Settings that a program can be given at its start; `accumulation` comes with a smaller batch. */
export const changeableSettings = ['accumulation', 'checkpointing', 'precision'] as const;
export type ChangeableSetting = (typeof changeableSettings)[number];

/** Settings fixed by the user; the rest is open. */
export interface PlanWishes extends Partial<Workload> {
  readonly mode: Workload['mode'];
  /**
   * The only settings that a plan may choose; what is neither set nor named here is as an estimate
   * takes it. Where this is left out, all that was not set is open.
   */
  readonly mayChange?: readonly ChangeableSetting[] | undefined;
  readonly offload?: Offload | undefined;
  readonly zero?: ZeroStage | undefined;
}

/** How a plan names what it may have to. */
export type PlanWording = Wording<'mode' | 'batch' | 'quantization' | 'offload' | 'gpus'>;

/** Sources of estimates. */
export interface PlanEstimators {
  /** Decides. It may take seconds. */
  readonly judge: (workload: Workload) => Promise<Estimate>;
  /** Quick and rough: saves the judge's time. Answers undefined where it does not know. */
  readonly guide?: ((workload: Workload) => Promise<Estimate | undefined>) | undefined;
}
