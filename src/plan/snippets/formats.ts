/** Frameworks that a plan can be written down for, ready to paste. */
export const frameworks = [
  'trainer',
  'lightning',
  'accelerate',
  'deepspeed',
  'peft',
  'torchrun',
] as const;
export type Framework = (typeof frameworks)[number];

/** How people name them. */
export const frameworkNames: Readonly<Record<Framework, string>> = {
  trainer: 'the Trainer of transformers',
  lightning: 'Lightning',
  accelerate: 'accelerate',
  deepspeed: 'DeepSpeed',
  peft: 'peft',
  torchrun: 'torchrun',
};
