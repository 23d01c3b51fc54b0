import type { EstimateMachine } from '../../estimate/estimate.js';
import { type ChosenGpu, type FoundGpu, gpuAtHand } from '../../estimate/gpu-at-hand.js';
import { findGpu, type GpuEntry } from '../../estimate/gpus.js';
import { fieldWording, type Wording } from './wording.js';

/** What an answer may touch of the machine it is made on. */
export interface AnswerMachine extends EstimateMachine {
  /** The GPUs of this machine, in their order; asked only where nobody named a card. */
  readonly gpusHere: () => Promise<readonly FoundGpu[]>;
  /** Cards that the configuration describes. */
  readonly gpus?: readonly GpuEntry[] | undefined;
  /** What the host has, for weights that wait there. */
  readonly hostBytes: number;
  /** How errors name what was asked for; as fields of JSON where it is left out. */
  readonly wording?: Wording | undefined;
}

export function wordingOf({ wording = fieldWording }: AnswerMachine): Wording {
  return wording;
}

/** The card that was named, or else the one at hand. */
export async function chosenGpu(
  named: string | undefined,
  { gpusHere, gpus }: AnswerMachine,
): Promise<ChosenGpu> {
  if (named !== undefined) return { gpu: findGpu(named, gpus), notes: [] };
  return gpuAtHand(await gpusHere(), gpus);
}
