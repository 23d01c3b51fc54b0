import { totalmem } from 'node:os';
import type { Settings } from '../../config/settings.js';
import { openEstimateWork } from '../../estimate/thread/open-estimate-work.js';
import type { AnswerMachine } from '../../plan/answers/machine.js';
import type { CliIo } from '../io.js';
import { gpusHere } from '../watching/gpus-here.js';
import { optionWording } from './option-wording.js';

/** This machine, for answers to those who type options. */
export function workloadMachine(
  settings: Settings,
  { environment, folder }: CliIo,
  { python, hub }: { readonly python?: string | undefined; readonly hub?: boolean | undefined },
): AnswerMachine {
  return {
    environment,
    folder,
    python,
    hub,
    gpus: settings.gpus,
    gpusHere: () => gpusHere(settings),
    hostBytes: totalmem(),
    work: openEstimateWork({ allCores: true }).work,
    wording: optionWording,
  };
}
