import { describe, expect, it } from 'vitest';
import { fillCommand, placeholdersOf, settingsVariables } from './placeholders.js';
import type { RunSettings } from './types.js';

const settings: RunSettings = {
  batch_size: 32,
  accumulation: 2,
  checkpointing: true,
  precision: 'bf16',
  offload: false,
  device: 'gpu:1',
};

describe('placeholders', () => {
  it('are filled in wherever they stand in a word, and other braces stay', () => {
    const command = ['x', '--b={batch_size}x{accumulation}', '{"a": {device}}', '{other}', '{}'];
    expect(fillCommand(command, settings, 3)).toEqual([
      'x',
      '--b=32x2',
      '{"a": gpu:1}',
      '{other}',
      '{}',
    ]);
    expect(placeholdersOf(command)).toEqual(new Set(['batch_size', 'accumulation', 'device']));
  });

  it('are variables, too', () => {
    expect(settingsVariables(settings, 3)).toEqual({
      PLIMSOLL_BATCH_SIZE: '32',
      PLIMSOLL_ACCUMULATION: '2',
      PLIMSOLL_CHECKPOINTING: 'true',
      PLIMSOLL_PRECISION: 'bf16',
      PLIMSOLL_OFFLOAD: 'false',
      PLIMSOLL_DEVICE: 'gpu:1',
      PLIMSOLL_TORCH_DEVICE: 'cuda:1',
      PLIMSOLL_ATTEMPT: '3',
    });
  });

  it('ask for the batch size where the command wants it', () => {
    const unknown = { ...settings, batch_size: 'unknown' } as const;
    expect(() => fillCommand(['{batch_size}'], unknown, 1)).toThrow(
      expect.objectContaining({ code: 'unknown-batch-size', exitCode: 2 }),
    );
    expect(settingsVariables(unknown, 1)).not.toHaveProperty('PLIMSOLL_BATCH_SIZE');
  });

  it('call the host cpu for PyTorch', () => {
    expect(fillCommand(['{torch_device}'], { ...settings, device: 'host' }, 1)).toEqual(['cpu']);
    const second = { ...settings, device: 'gpu:1' };
    expect(fillCommand(['{torch_device}'], second, 1)).toEqual(['cuda:1']);
    // A program that sees one device counts from there.
    expect(fillCommand(['{torch_device}'], second, 1, true)).toEqual(['cuda:0']);
    expect(settingsVariables(second, 1, true)).toMatchObject({ PLIMSOLL_TORCH_DEVICE: 'cuda:0' });
  });
});
