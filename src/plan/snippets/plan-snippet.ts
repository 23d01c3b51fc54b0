import { Failure } from '../../failure.js';
import type { PlanSettings } from '../fit/types.js';
import type { FromPretrainedArguments } from '../quantization/bits-and-bytes.js';
import { deepspeedConfig } from './deepspeed.js';
import type { Framework } from './formats.js';
import { accelerateSnippet, lightningSnippet, torchrunSnippet } from './loops.js';
import { peftSnippet } from './peft.js';
import { trainerSnippet } from './trainer.js';

/** Whether the plan trains adapters and the lines of a framework cannot make them. */
export function hasAdaptersApart(framework: Framework, { lora }: PlanSettings): boolean {
  return lora !== 'none' && (framework === 'deepspeed' || framework === 'torchrun');
}

/**
 * The settings of a plan, as a framework takes them; lines of Python begin with the adapters, where the plan
 * has some. What only another framework can do is a `Failure`.
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
  const { lora } = settings;
  const adapters = lora === 'none' ? '' : `${peftSnippet(lora, settings, loading)}\n\n`;
  switch (framework) {
    case 'trainer':
      return adapters + trainerSnippet(settings);
    case 'lightning':
      return adapters + lightningSnippet(settings);
    case 'accelerate':
      return adapters + accelerateSnippet(settings);
    case 'deepspeed':
      return JSON.stringify(deepspeedConfig(settings), undefined, 2);
    case 'torchrun':
      return torchrunSnippet(settings);
    case 'peft':
    default:
      if (lora === 'none') {
        throw unfit(
          'The plan trains the whole model, so there are no adapters to write down.',
          'Ask for adapters with --lora 16, or choose another --format.',
        );
      }
      return peftSnippet(lora, settings, loading);
  }
}

function unfit(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'format-unfit', fact, next });
}
