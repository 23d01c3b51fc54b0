import { Failure } from '../../failure.js';
import type { PlanSettings } from '../fit/types.js';
import type { FromPretrainedArguments } from '../quantization/bits-and-bytes.js';
import { deepspeedConfig } from './deepspeed.js';
import type { Framework } from './formats.js';
import { accelerateSnippet, lightningSnippet, torchrunSnippet } from './loops.js';
import { peftSnippet } from './peft.js';
import { trainerSnippet } from './trainer.js';

/**
 * The settings of a plan, as a framework takes them. What only another one can do is a `Failure`.
 *
 * @example
 * planSnippet('accelerate', plan.settings); // from accelerate import Accelerator ...
 */
export function planSnippet(
  framework: Framework,
  settings: PlanSettings,
  loading?: FromPretrainedArguments,
): string {
  if (settings.optimizer === 'none') {
    throw unfit(
      `The plan is for inference, and ${framework} is for training.`,
      'Add --train, or leave --format out.',
    );
  }
  switch (framework) {
    case 'trainer':
      return trainerSnippet(settings);
    case 'lightning':
      return lightningSnippet(settings);
    case 'accelerate':
      return accelerateSnippet(settings);
    case 'deepspeed':
      return JSON.stringify(deepspeedConfig(settings), undefined, 2);
    case 'torchrun':
      return torchrunSnippet(settings);
    case 'peft':
    default:
      if (settings.lora === 'none') {
        throw unfit(
          'The plan trains the whole model, so there are no adapters to write down.',
          'Ask for adapters with --lora 16, or choose another --format.',
        );
      }
      return peftSnippet(settings.lora, settings, loading);
  }
}

function unfit(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'format-unfit', fact, next });
}
