import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { fillCommand, placeholdersOf } from '../placeholders.js';
import { type Ending, keptOptions, whatToType } from '../supervise.js';
import type { Attempt } from '../types.js';
import { adaptable } from './adaptable.js';
import {
  type AdaptedConfig,
  configText,
  tellsAccumulation,
  yamlFiles,
  yamlSettings,
} from './adapted-config.js';
import { knownFlags } from './known-flags.js';

const train = (...words: string[]) => ['python', 'train.py', ...words];
const attempt: Attempt = {
  number: 1,
  settings: {
    batch_size: 'unknown',
    accumulation: 1,
    checkpointing: false,
    precision: 'fp32',
    offload: false,
    device: 'gpu:0',
  },
  command: [],
  startedAt: '',
  endedAt: '',
  exitCode: 1,
  outOfMemory: {
    kind: 'cuda',
    askedBytes: 'unknown',
    freeBytes: 'unknown',
    totalBytes: 8 * GiB,
    message: '',
  },
  rungs: [],
  peakBytes: 8 * GiB,
  source: 'measured',
  peakFrom: 'sdk',
  snapshot: null,
  limit: { bytes: 'none', by: 'none', why: '' },
};
const ending: Ending = {
  command: train(),
  attempt,
  limitBytes: 8 * GiB,
  baseBytes: 'unknown',
  files: [],
  options: [],
};

describe('options of usual programs', () => {
  it.each([
    [train('--batch-size', '8'), train('--batch-size', '{batch_size}'), 8, 1],
    [train('--batch_size=12'), train('--batch_size={batch_size}'), 12, 1],
    [train('-b', '256', '--lr', '1'), train('-b', '{batch_size}', '--lr', '1'), 256, 1],
    [train('trainer.batch_size=8'), train('trainer.batch_size={batch_size}'), 8, 1],
    [
      train('--batch_size=12', '--gradient_accumulation_steps=5'),
      train('--batch_size={batch_size}', '--gradient_accumulation_steps={accumulation}'),
      12,
      5,
    ],
    [
      train('--per_device_train_batch_size', '8', '--per_device_eval_batch_size', '64'),
      train(
        '--per_device_train_batch_size',
        '{batch_size}',
        '--per_device_eval_batch_size',
        '64',
        '--gradient_accumulation_steps',
        '{accumulation}',
      ),
      8,
      1,
    ],
    [
      train('--train_batch_size', '64', '--micro_batch_size', '4'),
      train('--train_batch_size', '64', '--micro_batch_size', '{batch_size}'),
      4,
      1,
    ],
    [
      train('--batch-size', '8', '--batch-size', '16'),
      train('--batch-size', '8', '--batch-size', '{batch_size}'),
      16,
      1,
    ],
  ])('%j', (command, expected, batch, accumulation) => {
    expect(knownFlags(command)).toMatchObject({ command: expected, batch, accumulation });
  });

  it.each([
    [train()],
    [train('--batch-size')],
    [train('--batch-size', 'auto')],
    [train('--batch-size', '0')],
    [train('--eval_batch_size', '8')],
    [['sort', '-b', '8']],
    [['batch_size=8']],
    [train('--batch-size', '99999999')],
  ])('are not seen in %j', (command) => {
    expect(knownFlags(command)).toBeUndefined();
  });

  it('are the same command again when they are filled in as they were', () => {
    const word = fc.oneof(
      fc.string(),
      fc.constantFrom(
        '--batch-size',
        '-b',
        '--batch_size=7',
        'a.b.batch_size=3',
        '4',
        '--grad-accum',
        'x.py',
      ),
    );
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 12 }), (command) => {
        const clean = command.filter((one) => !/[{}]/.test(one));
        const flags = knownFlags(clean);
        if (flags === undefined) return;
        const settings = {
          ...attempt.settings,
          batch_size: flags.batch,
          accumulation: flags.accumulation,
        };
        const filled = fillCommand(flags.command, settings, 1);
        expect(filled.slice(0, clean.length)).toEqual(clean);
        expect(placeholdersOf(flags.command).has('batch_size')).toBe(true);
      }),
    );
  });

  it('are needed for --adapt', () => {
    expect(adaptable(train('-b', '8'))).toMatchObject({ batchSize: 8, accumulation: 1 });
    expect(() => adaptable(train())).toThrow('No option of the command or of its script');
    expect(() => adaptable(train('--size', '{batch_size}'))).toThrow('has nothing to change');
  });
});

describe('YAML files', () => {
  const text = '# training\ntrainer:\n  batch-size: 16 # samples\n  grad_accum: 2\n  b: 3\n';

  it('tell their batch, with the lines', () => {
    expect(yamlSettings(text)).toEqual({
      batch: { line: 3, key: 'batch-size', value: 16 },
      accumulation: { line: 4, key: 'grad_accum', value: 2 },
    });
    expect(yamlSettings('batch_size: ${other}\n')).toBeUndefined();
    expect(yamlFiles(train('--config=a.yaml', 'b.yml', '-c', 'c.json'))).toEqual([
      'a.yaml',
      'b.yml',
    ]);
  });

  it('are changed in the lines of the batch alone, and told their accumulation', () => {
    const settings = { ...attempt.settings, batch_size: 4, accumulation: 8 };
    expect(configText(config('a.yaml', text), settings)).toBe(
      '# training\ntrainer:\n  batch-size: 4 # samples\n  grad_accum: 8\n  b: 3\n',
    );
    const own = config('b.yaml', 'data: 16\n  per_device_train_batch_size: 16\nend: 1');
    expect(configText(own, settings)).toBe(
      'data: 16\n  per_device_train_batch_size: 4\n  gradient_accumulation_steps: 8\nend: 1',
    );
    expect([own, config('c.yaml', 'batch_size: 2')].map(tellsAccumulation)).toEqual([true, false]);
  });

  it('are what --adapt changes where the command has no option for it', () => {
    const files = [config('a.yaml', text)];
    expect(adaptable(train('a.yaml'), files)).toMatchObject({
      command: train('a.yaml'),
      batchSize: 16,
      accumulation: 2,
      config: files[0],
    });
    expect(adaptable(train('a.yaml', '-b', '4'), files)).toMatchObject({ batchSize: 4 });
  });

  it('of any text make no trouble', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (any) => {
        const found = yamlSettings(any);
        expect(found === undefined || found.batch.value > 0).toBe(true);
      }),
    );
  });
});

describe('what to type', () => {
  it('is the command with what would fit, and the one that does it by itself', () => {
    const command = train('--batch_size=12', '--gradient_accumulation_steps=5');
    expect(whatToType({ ...ending, command })?.words).toBe(
      '6 x 10 may fit (estimated): 12 needed more than the 8.0 GiB there are. Type: python train.py --batch_size=6 --gradient_accumulation_steps=10. Or let it be done: plimsoll run --adapt -- python train.py --batch_size=12 --gradient_accumulation_steps=5. What fits, by a trace of the program: plimsoll plan --memory 8GiB --batch 60 -- python train.py --batch_size={batch_size} --gradient_accumulation_steps={accumulation}',
    );
    const settings = { ...attempt.settings, device: 'host' };
    const onHost = whatToType({ ...ending, command, attempt: { ...attempt, settings } });
    expect(onHost?.words).not.toContain('trace');
  });

  it('is the override of a program that is configured by Hydra', () => {
    const command = train('--config-name', 'large');
    const hydra = {
      command: [...command, 'trainer.batch_size={batch_size}', 'trainer.accumulate={accumulation}'],
      batchFlag: 'trainer.batch_size',
      batch: 8,
      accumulation: 1,
    };
    expect(whatToType({ ...ending, command, other: { hydra } })?.words).toContain(
      'Type: python train.py --config-name large trainer.batch_size=4 trainer.accumulate=2. Or let it be done: plimsoll run --adapt -- python train.py --config-name large.',
    );
    expect(adaptable(command, [], { hydra })).toMatchObject({
      command: hydra.command,
      batchSize: 8,
    });
  });

  it('says that the batch shrinks where the command has no accumulation, and what held the memory', () => {
    const snapshot = { file: 'x', findings: ['Activations of layer 3 hold 5.0 GiB.'] };
    const said = whatToType({
      ...ending,
      command: train('-b', '8'),
      attempt: { ...attempt, snapshot },
    })?.words;
    expect(said).toContain('Type: python train.py -b 4 (the effective batch is then 4');
    expect(said).toContain('What held the memory: Activations of layer 3');
  });

  it('keeps what was said of memory and device', () => {
    const { settings } = attempt;
    const stated = { memoryBytes: 8 * GiB, contextBytes: MiB };
    const options = keptOptions({ ...stated, pinnedDevice: true, settings });
    const command = train('-b', '8', '--name', 'a run');
    expect(whatToType({ ...ending, command, options })?.tryNext).toBe(
      "plimsoll run --adapt --memory 8GiB --device gpu:0 -- python train.py -b 8 --name 'a run'",
    );
    const memory = keptOptions({ memoryBytes: 1_000, pinnedDevice: false, settings });
    expect(memory).toEqual(['--allocator-memory', '1000']);
    expect(whatToType({ ...ending, command, options, memory })?.words).toContain(
      'plimsoll plan --allocator-memory 1000 --batch 8',
    );
    const onHost = { ...settings, device: 'host' };
    expect(keptOptions({ memoryBytes: 1_000, pinnedDevice: false, settings: onHost })).toEqual([
      '--memory',
      '1000',
    ]);
    expect(keptOptions({ memoryBytes: null, pinnedDevice: false, settings })).toEqual([]);
  });

  it('names the lines of a file', () => {
    const files = [config('a.yaml', 'batch_size: 8\n')];
    expect(whatToType({ ...ending, command: train('a.yaml'), files })?.words).toContain(
      'In a.yaml, set line 1 to batch_size: 4, and accumulate 2 of them, by the setting that the program has for it. Or let it be done, in a copy: plimsoll run --adapt -- python train.py a.yaml',
    );
  });

  it('names the accumulation that a trainer has, also where a file does not set it', () => {
    const files = [config('a.yaml', 'per_device_train_batch_size: 8\n')];
    expect(whatToType({ ...ending, command: train('a.yaml'), files })?.words).toContain(
      'set line 1 to per_device_train_batch_size: 4, and add gradient_accumulation_steps: 2.',
    );
  });

  it('is something else to turn on where the batch is one', () => {
    expect(whatToType({ ...ending, command: train('-b', '1') })?.words).toContain(
      'as small as it can be (-b 1)',
    );
    expect(whatToType(ending)).toBeUndefined();
  });
});

function config(file: string, text: string): AdaptedConfig {
  return { file, text, ...(yamlSettings(text) ?? fail()) };
}

function fail(): never {
  throw new Error('the text sets a batch');
}
