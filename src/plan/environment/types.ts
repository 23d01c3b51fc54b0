import type { GpuVendor } from '../../estimate/cards/gpu-table.js';

export const environmentModes = ['production', 'debug'] as const;
export type EnvironmentMode = (typeof environmentModes)[number];

/** The device and job that the settings are for. */
export interface EnvironmentContext {
  readonly mode: EnvironmentMode;
  readonly vendor: GpuVendor;
  /** Processor cores that the job may use. */
  readonly cores: number;
  /** GPUs that the job uses; 0 where there is none. */
  readonly gpus: number;
  /** How much of each GPU the job may take; all of it when left out. */
  readonly budget?: MemoryBudget | undefined;
}

export interface MemoryBudget {
  readonly memoryBytes: number;
  readonly capacityBytes: number;
  /** The part of it for the CUDA context and loaded kernels. */
  readonly contextBytes: number;
}

/** One variable: what to do with it, and why. */
export type EnvironmentSetting =
  | {
      readonly name: string;
      readonly action: 'set';
      readonly value: string;
      readonly reason: string;
    }
  | { readonly name: string; readonly action: 'unset'; readonly reason: string }
  /** Helps in some cases, and costs something; not for everybody. */
  | {
      readonly name: string;
      readonly action: 'consider';
      readonly value: string;
      readonly reason: string;
    };

/**
 * - `debug-setting`: it slows production down, or blinds it.
 * - `missing`, `differs`: not as recommended.
 * - `conflict`: two variables contradict each other.
 * - `malformed`: PyTorch would refuse it, and the job would not start.
 * - `old-name`: it still works, with a warning.
 */
export type FindingKind =
  | 'debug-setting'
  | 'missing'
  | 'differs'
  | 'conflict'
  | 'malformed'
  | 'old-name';

/** Something in an environment that is not as it should be. */
export interface EnvironmentFinding {
  readonly name: string;
  readonly kind: FindingKind;
  /** `must`: do not start the job like this. */
  readonly severity: 'required' | 'advice';
  /** Its present value; absent if it is not set. Foreign text. */
  readonly value?: string;
  readonly reason: string;
  /** The shell command that fixes it. */
  readonly fix: string;
}
