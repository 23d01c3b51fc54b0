import { type ChosenGpu, type FoundGpu, gpuAtHand } from '../../estimate/cards/gpu-at-hand.js';
import { findGpu, type GpuEntry } from '../../estimate/cards/gpus.js';
import type { EstimateMachine } from '../../estimate/estimate.js';
import { checkArguments, madeBy } from '../../units/arguments.js';
import type { RequestWording } from './wording.js';

/** The parts of the machine that an answer may use. */
export interface AnswerMachine extends EstimateMachine {
  /** Whether the config.json of a model may be downloaded by its name; never unless asked for. */
  readonly hub?: boolean | undefined;
  /** The GPUs of this machine, in their order; asked only where no card was named. */
  readonly gpusHere: () => Promise<readonly FoundGpu[]>;
  /** Cards that the configuration describes. */
  readonly gpus?: readonly GpuEntry[] | undefined;
  /** Host memory, for offloaded weights. */
  readonly hostBytes: number;
  /** How errors and notes name what was asked for; who asks decides, so nothing is assumed. */
  readonly wording: RequestWording;
}

/** A program in JavaScript may give something else. */
export function checkMachine(owner: string, machine: AnswerMachine): void {
  checkArguments(owner, { machine }, { machine: madeBy('answerMachine()', 'wording') });
}

/** The card that was named, or else the one at hand. */
export async function chosenGpu(
  named: string | undefined,
  { gpusHere, gpus = [], wording }: AnswerMachine,
): Promise<ChosenGpu> {
  if (named !== undefined) return { gpu: findGpu(named, gpus), isHere: false, notes: [] };
  return gpuAtHand(await gpusHere(), gpus, wording);
}
