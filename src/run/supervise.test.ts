import { describe, expect, it } from 'vitest';
import { nothingLeft } from './supervise.js';

describe('why there is no next attempt', () => {
  it('is a command without a batch, with the command to type', () => {
    expect(nothingLeft(['python', 'my train.py'], 'unknown')).toBe(
      "Nothing left to try: the command has no {batch_size}. Add it, by the options that the program has for it: plimsoll run --batch-size 32 -- python 'my train.py' --batch-size {batch_size} --accumulate {accumulation}",
    );
  });

  it('is a batch of one, with the settings that the command does not take yet', () => {
    expect(nothingLeft(['train', '{batch_size}', '{checkpointing}', '{device}'], 4)).toBe(
      'Nothing left to try: one sample at a time does not fit, and the command has no {precision}, {offload}. Turn on gradient checkpointing or bf16 in the program, or use a shorter sequence. Or add those that the program has an option for, such as: plimsoll run --batch-size 4 -- train {batch_size} {checkpointing} {device} --precision {precision}',
    );
  });

  it('is too little memory where every setting was lowered', () => {
    const all = ['{batch_size}', '{checkpointing}', '{precision}', '{offload}', '{device}'];
    expect(nothingLeft(all, 4)).toContain('every setting that the command takes was lowered');
  });
});
