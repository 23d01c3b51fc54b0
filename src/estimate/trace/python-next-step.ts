import type { EstimateSetting, Wording } from '../wording.js';

type NextStep = (wording: Wording) => string;

/** The Python part knows its own arguments alone; where a next step names a setting, it is here. */
const nextSteps: ReadonlyMap<string, NextStep> = new Map<string, NextStep>([
  [
    'op-not-traced',
    ({ example }) => `Take ${example('method', 'formula')}, or measure it on a GPU.`,
  ],
  ['lora-refused', leaveOut('lora')],
  ['no-checkpointing', leaveOut('checkpointing')],
  ['quantization-on-host', leaveOut('quantization')],
  [
    'quantization-by-memory',
    ({ example }) => `Take ${example('quantization', 'int4_double')}, which keeps all of it there.`,
  ],
  ['quantization-not-here', leaveOut('quantization')],
  [
    'quantized-not-trained',
    ({ example }) => `Add ${example('lora', 16)}, or take ${example('mode', 'infer')}.`,
  ],
  ['no-target', leaveOut('targetSeq')],
  ['nothing-to-train', ({ example }) => `Take ${example('mode', 'infer')}.`],
  [
    'no-loss',
    ({ name }) =>
      `Name a class with a head in the config's architectures, or write a ${name('script')}.`,
  ],
  [
    'inputs-unknown',
    ({ name }) =>
      `If it is a part of a model, name the config of the whole. Else write a workload() for ${name('script')}.`,
  ],
  ['no-tensor-plan', ({ example }) => `Take ${example('parallel', 'fsdp2')}.`],
  [
    'no-tensor-style',
    ({ example }) => `Take ${example('parallel', 'fsdp2')}, or a later transformers.`,
  ],
  ['layers-not-even', ({ name }) => `Choose a ${name('tp')} that divides them.`],
  ['heads-not-even', ({ name }) => `Choose a ${name('tp')} that divides both.`],
  [
    'ranks-not-even',
    ({ name }) => `Choose ${name('tp')} and ${name('nodes')} so that they divide ${name('gpus')}.`,
  ],
  ['script-missing', ({ name }) => `Check the path of ${name('script')}.`],
  // Only the command estimates programs, so its option may be named.
  ['program-ended', () => 'Run it with --verbose to see what it prints.'],
  // It is a temporary file of ours.
  ['output-unwritable', () => 'Make room for temporary files.'],
]);

/**
 * What to do about a failure of the Python part, by its code; undefined where its own words serve
 * every reader.
 *
 * @example
 * pythonNextStep('no-checkpointing', callWording); // 'Leave checkpointing out.'
 */
export function pythonNextStep(code: string, wording: Wording): string | undefined {
  return nextSteps.get(code)?.(wording);
}

function leaveOut(setting: EstimateSetting): NextStep {
  return ({ name }) => `Leave ${name(setting)} out.`;
}
