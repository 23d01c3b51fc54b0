import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compose, hydraFlags, yamlLeaves } from '../other-flags.js';

/** Hydra 1.3 makes of it what stands below: 64 x 2, and 96 x 4 with experiment=cifar. */
const project: Readonly<Record<string, string>> = {
  'train.py':
    'import hydra\n\n@hydra.main(version_base=None, config_path="conf", config_name="config")\ndef main(cfg): ...\n',
  'plain.py': 'import argparse\n',
  'tools/fit.py': 'import hydra\n@hydra.main(config_path="../conf")\ndef main(cfg): ...\n',
  'conf/config.yaml': `# main
defaults:
  - _self_
  - trainer: cpu
  - data: small   # a comment
  - model/encoder: big
  - optional local: default
  - experiment: null
  - base
  - override hydra/job_logging: disabled

trainer:
  max_epochs: 3
callbacks:
  - name: a
    batch_size: 99
`,
  'conf/base.yaml': 'lr: 0.1\neval:\n  batch_size: 7\n',
  'conf/trainer/cpu.yaml': 'accumulate_grad_batches: 2\nmax_epochs: 10\n',
  'conf/trainer/gpu.yaml': 'defaults:\n- cpu\naccumulate_grad_batches: 4\n',
  'conf/data/small.yaml': 'batch_size: 64\n',
  'conf/data/large.yaml': 'batch_size: 128\n',
  'conf/model/encoder/big.yaml': 'width: 512\n',
  'conf/experiment/cifar.yaml': `# @package _global_
defaults:
  - override /trainer: gpu
  - override /data: large
data:
  batch_size: 96
`,
  'conf/arguments.yaml': 'args:\n  per_device_train_batch_size: 16\n',
};

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-hydra-'));
  for (const [name, text] of Object.entries(project)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

const batch = 'data.batch_size={batch_size}';
const accumulation = 'trainer.accumulate_grad_batches={accumulation}';

describe('a program that is configured by Hydra', () => {
  it.each([
    ['train.py', [], [64, 2]],
    ['train.py', ['experiment=cifar'], [96, 4]],
    ['train.py', ['trainer=gpu', 'data=large'], [128, 4]],
    ['train.py', ['--config-name', 'config', '--config-path=conf'], [64, 2]],
    ['tools/fit.py', ['-cn', 'config.yaml', 'seed=3'], [64, 2]],
  ] as const)('is told its batch by overrides: %s %j', (script, words, [size, parts]) => {
    const command = ['python', script, ...words];
    expect(hydraFlags(command, folder)).toEqual({
      command: [...command, batch, accumulation],
      batchFlag: 'data.batch_size',
      batch: size,
      accumulation: parts,
    });
  });

  it('keeps an override that the command has, and adds the accumulation', () => {
    expect(hydraFlags(['python', '-m', 'train', 'data.batch_size=8'], folder)).toMatchObject({
      command: ['python', '-m', 'train', batch, accumulation],
      batch: 8,
      accumulation: 2,
    });
  });

  it('gets the accumulation that a trainer has, also where nothing sets it', () => {
    const command = ['python', 'train.py', '-cn', 'arguments'];
    expect(hydraFlags(command, folder)?.command.slice(command.length)).toEqual([
      'args.per_device_train_batch_size={batch_size}',
      '++args.gradient_accumulation_steps={accumulation}',
    ]);
  });

  it.each([
    [['python', 'plain.py', '--config-name', 'config']],
    [['python', 'missing.py']],
    [['python', 'train.py', '--config-name', 'base']],
    [['python', 'train.py', '--config-name', 'missing']],
    [['my-train', '--config-name', 'config']],
  ])('is not seen in %j', (command) => {
    expect(hydraFlags(command, folder)).toBeUndefined();
  });
});

describe('files of Hydra', () => {
  it('stand where their group, their package or their list says', () => {
    const files: Readonly<Record<string, string>> = {
      main: 'defaults:\n  - /data@train.loader: one\n  - data@other: one\n  - placed: one\n  - _self_\nown: 1\n',
      'data/one': 'batch_size: 4\nworkers: 2\n',
      'placed/one': '# @package model.head\nwidth: 3\n',
    };
    expect([...compose('main', new Map(), (name) => files[name])]).toEqual([
      ['train.loader.batch_size', 4],
      ['train.loader.workers', 2],
      ['other.batch_size', 4],
      ['other.workers', 2],
      ['model.head.width', 3],
      ['own', 1],
    ]);
  });

  it('that name each other without end are not followed without end', () => {
    expect(compose('a', new Map(), () => 'defaults:\n  - a\n  - b\nx: 1\n').get('x')).toBe(1);
  });

  it('of any text make no trouble', () => {
    const line = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 40 }),
      fc.constantFrom('defaults:', '- a: b', '  - _self_', 'a:', '  b: 3', '- override /x@y: z'),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), (lines) => {
        const text = lines.join('\n');
        for (const { path, value } of yamlLeaves(text).leaves) {
          expect(path.length).toBeGreaterThan(0);
          expect(value === undefined || value > 0).toBe(true);
        }
        compose('a', new Map(), () => text);
      }),
    );
  });
});
