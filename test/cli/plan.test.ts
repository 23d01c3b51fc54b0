import { chmodSync, cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PlanDocument } from '../../src/plan/answers/answer-plan.js';
import type { ProgramPlan } from '../../src/plan/programs/plan-program.js';
import { GiB } from '../../src/units/bytes.js';
import { fakePython } from '../support/fake-python.js';
import { needsTorch, tracingPython as python, tracingPython } from '../support/needs.js';
import { root } from '../support/project-files.js';
import { killWhen, useCommand } from './command.js';

const command = useCommand();
const gpt2 = join(root, 'bench/truth/configs/gpt2.json');

/**
 * In place of Python: a job whose memory can be added up by hand. 1 GiB of weights and of gradients,
 * two of states, half a GiB of activations a sample, an eighth with checkpointing; all of it half as
 * much in bf16. Ranks of FSDP2 share weights, gradients and states.
 */
const pretender = String.raw`
const { writeFileSync } = require('node:fs');
const MiB = 1024 ** 2;
const given = Object.fromEntries(process.argv.slice(2).flatMap((word, at, all) => {
  const [name, value = all[at + 1]] = word.replace(/^--/, '').split('=');
  return word.startsWith('--') ? [[name, value]] : [];
}));
if (process.env.PRETEND_CTRL_C) {
  process.kill(process.ppid, 'SIGINT');
  setTimeout(() => {}, 60_000);
} else {
  const half = given.precision === 'bf16' ? 0.5 : 1;
  const kept = 'checkpointing' in given ? 0.125 : 1;
  const lora = 'lora' in given;
  const ranks = given.parallel === 'fsdp2' ? Number(given.gpus) : 1;
  const lines = [{ plimsoll: 'trace', version: 1, torch: 'pretended' }, ['s', 0, '']];
  let id = 0;
  const alloc = (mebibytes, letter) => {
    id += 1;
    lines.push(['a', id, Math.round(mebibytes * MiB), 0, 0, letter]);
    return id;
  };
  const trained = (lora ? 8 : 1024 * half) / ranks;
  alloc((1024 * half) / ranks, 'w');
  lines.push(['m', 'built'], ['m', 'ready']);
  const samples = Array.from({ length: Number(given.batch) }, () => alloc(512 * half * kept, 'x'));
  const gradient = alloc(trained, 'g');
  alloc(trained, 'o');
  alloc(trained, 'o');
  for (const one of [...samples, gradient]) lines.push(['f', one]);
  lines.push({ end: true, parameters: 268435456, parameterBytes: 1024 * half * MiB, notes: [] });
  writeFileSync(given.output, lines.map((line) => JSON.stringify(line)).join('\n') + '\n');
}
`;

describe('plimsoll plan, with a pretended job in place of Python', () => {
  let pretended: string[] = [];
  beforeAll(() => {
    const path = join(command.folder(), 'pretender.cjs');
    writeFileSync(path, `#!${process.execPath}\n${pretender}`);
    chmodSync(path, 0o755);
    pretended = ['plan', gpt2, '--method', 'trace', '--python', path];
  });
  const answer = async (more: readonly string[]) => {
    const ended = await command.run([...pretended, ...more, '--json']);
    expect(ended.stderr).toBe('');
    return { ...JSON.parse(ended.stdout), exitCode: ended.exitCode };
  };

  it('answers as the contract says', async () => {
    const found = await answer(['--memory', '24GiB', '--train', '--batch', '16', '--seq', '128']);
    expect(Object.keys(found).slice(0, 4)).toEqual([
      'fits',
      'settings',
      'estimate',
      'alternatives',
    ]);
    expect(found).toMatchObject({
      fits: true,
      exitCode: 0,
      settings: {
        batch: 16,
        accumulation: 1,
        checkpointing: false,
        precision: 'amp-bf16',
        quantization: 'none',
        offload: 'none',
      },
      estimate: { method: 'trace', peak: { reservedBytes: 12 * 1024 ** 3 + 2 * 1024 ** 2 } },
      budget: { memoryBytes: 24 * 1024 ** 3 },
    });
    expect(found.alternatives.length).toBeGreaterThan(2);
    expect(found.alternatives[0]).toMatchObject({
      fits: true,
      relativeCost: expect.any(Number),
      settings: { batch: expect.any(Number) },
      peak: { leastCapacityBytes: expect.any(Number) },
    });
  });

  it('keeps the effective batch in a smaller memory', async () => {
    const found = await answer(['--allocator-memory', '9GiB', '--batch', '16', '--seq', '512']);
    expect(found.settings).toMatchObject({ batch: 8, accumulation: 2, checkpointing: false });
  });

  it('answers how many GPUs train the whole model where one trains adapters only', async () => {
    const job = ['--allocator-memory', '1GiB', '--train', '--batch', '1', '--seq', '128'];
    const found = await answer(job);
    expect(found.settings).toMatchObject({ gpus: 1, lora: 16 });
    // 4 GiB shared out over 8, and half a GiB of the one sample at most.
    expect(found.sharding).toMatchObject({ gpus: 8, needed: true, chosen: { fit: 'surely' } });
    const { stdout } = await command.run([...pretended, ...job]);
    expect(stdout).toContain('To train the whole model 8 such GPUs are needed.');
    const none = await answer(['--memory', '40MiB', '--train', '--batch', '1', '--seq', '128']);
    expect(none.sharding).toMatchObject({ gpus: 512, needed: true, tried: [{ fit: 'no' }] });
  });

  it('keeps everything with --max-batch but the batch', async () => {
    const settings = ['--seq', '128', '--precision', 'bf16', '--optimizer', 'adamw'];
    const found = await answer(['--allocator-memory', '8GiB', '--max-batch', ...settings]);
    // Two of 8 are states and weights in bf16, and a quarter for each sample.
    expect(found.settings).toMatchObject({ batch: 24, precision: 'bf16', optimizer: 'adamw' });
    expect(found).toMatchObject({ fits: true, exitCode: 0 });
  });

  it('prints lines to paste, and ends with those for the framework of the project', async () => {
    const job = ['--allocator-memory', '9GiB', '--batch', '16', '--seq', '512', '--train'];
    const trainer = await command.run([...pretended, ...job, '--format', 'trainer']);
    expect(trainer).toMatchObject({ stderr: '', exitCode: 0 });
    expect(trainer.stdout).toContain(
      '    per_device_train_batch_size=8,\n    gradient_accumulation_steps=2,',
    );
    const deepspeed = await command.run([...pretended, ...job, '--format', 'deepspeed']);
    expect(JSON.parse(deepspeed.stdout)).toMatchObject({ train_batch_size: 16 });
    const unknown = await command.run([...pretended, ...job]);
    expect(unknown.stdout).toContain('Ready to paste: add --format trainer, lightning,');
    const requirements = join(command.folder(), 'requirements.txt');
    writeFileSync(requirements, 'torch\naccelerate\n');
    try {
      const text = await command.run([...pretended, ...job]);
      expect(text.stdout).toMatch(
        /For accelerate, which requirements\.txt uses:\n\nfrom accelerate/,
      );
    } finally {
      rmSync(requirements);
    }
    const both = await command.run([...pretended, ...job, '--json', '--format', 'peft']);
    expect(both).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('contradict') });
    const none = await command.run([...pretended, ...job, '--format', 'peft']);
    expect(none).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('format-unfit') });
  });

  it('says no with exit code 1', async () => {
    const found = await answer(['--memory', '100MiB', '--batch', '4', '--seq', '128']);
    expect(found).toMatchObject({ fits: false, exitCode: 1 });
    const none = await answer(['--memory', '1GiB', '--max-batch', '--seq', '128']);
    expect(none).toMatchObject({ fits: false, exitCode: 1, settings: { batch: 1 } });
  });

  it('counts the context into a card and into --memory, and not into --allocator-memory', async () => {
    const job = ['--batch', '4', '--seq', '128'];
    const card = await answer(['--gpu', 't4', ...job]);
    const { memoryBytes, contextBytes, allocatorMemoryBytes } = card.budget;
    expect(memoryBytes).toBe(15 * GiB);
    expect(memoryBytes).toBe(contextBytes + allocatorMemoryBytes);
    expect(card.notes.join('\n')).toContain('The Tesla T4 has 15.0 GiB; its CUDA context takes');
    expect(card.settings.precision).toBe('amp-fp16');
    const memory = await answer(['--memory', '15GiB', ...job]);
    expect(memory.budget.memoryBytes).toBe(15 * GiB);
    expect(memory.notes.join('\n')).toMatch(/The CUDA context takes about \d+ MiB of the 15.0 GiB/);
    const allocator = await answer(['--allocator-memory', '15GiB', ...job]);
    expect(allocator.budget.allocatorMemoryBytes).toBe(15 * GiB);
    expect(allocator.notes.join('\n')).toContain("PyTorch's allocator may hold 15.0 GiB;");
  });

  it('takes what most people have where it is not told', async () => {
    const { notes, settings } = await answer(['--memory', '24GiB', '--train']);
    expect(notes.join('\n')).toContain('No --seq was given: 1024 is assumed.');
    expect(settings.batch).toBeGreaterThan(8);
  });

  it('draws it for people, writes a page, and saves how to load it', async () => {
    const html = join(command.folder(), 'plan.html');
    const job = ['--memory', '24GiB', '--batch', '4', '--seq', '128', '--html', html, '--save'];
    const environment = { PLIMSOLL_HOME: join(command.folder(), 'home') };
    const { stdout, exitCode } = await command.run([...pretended, ...job], { environment });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^It fits into 24\.0 GiB and needs /);
    expect(stdout).toContain('What else there is:');
    expect(readFileSync(html, 'utf8')).toContain('<title>Memory plan, gpt2.json</title>');
    const saved = /^Saved to (.*)\.$/m.exec(stdout)?.[1] ?? '';
    expect(JSON.parse(readFileSync(saved, 'utf8'))).toMatchObject({
      model: gpt2,
      preset: 'fp16',
      forTraining: true,
    });
  });

  it.each([
    [[], 'bad-usage: The memory budget is missing.'],
    [['--memory', 'much'], 'bad-option: --memory cannot be "much".'],
    [['--memory', '8GiB', '--zero', '4'], 'bad-option: --zero cannot be "4".'],
    [['--memory', '8GiB', '--zero', '2'], 'bad-usage: ZeRO shares a job out over several GPUs.'],
    [['--memory', '8GiB', '--offload', 'all'], 'bad-option: --offload cannot be "all".'],
    [['--memory', '8GiB', '--gpus', '3', '--batch', '4'], 'bad-usage: A batch of 4 cannot be'],
    [['--memory', '8GiB', '--train', '--mode', 'infer'], 'bad-usage: --train and --mode infer'],
    [['--memory', '8GiB', '--html', 'no/such/page.html'], 'cannot-write: '],
  ])('refuses %j', async (more, message) => {
    const { stdout, stderr, exitCode } = await command.run([...pretended, ...more]);
    expect(stderr).toContain(message);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });

  it.each([
    [['--memory', '8GiB', '--script', 'a.py', '--batch', '4'], '--batch does not reach the script'],
    [['--memory', '8GiB', '--script', 'a.py', '--max-batch'], '--max-batch does not reach'],
    [['--memory', '8GiB', '--script', 'a.py', '--save'], '--save keeps how transformers loads'],
    [['nowhere', '--memory', '8GiB'], 'unknown-model: '],
  ])('refuses %j', async (argv, message) => {
    const { stderr, exitCode } = await command.run(['plan', ...argv]);
    expect(stderr).toContain(message);
    expect(exitCode).toBe(2);
  });

  it('tells a script its batch where an argument asks for it', async () => {
    const script = [
      'plan',
      '--script',
      'train.py',
      '--arg',
      'batch={batch}',
      ...pretended.slice(4),
    ];
    const job = ['--allocator-memory', '8GiB', '--max-batch', '--precision', 'bf16', '--json'];
    const { stdout } = await command.run([...script, ...job]);
    expect(JSON.parse(stdout).settings.batch).toBe(24);
  });

  it('ends on Ctrl-C with what it started, and says nothing', async () => {
    const { stdout, stderr, exitCode } = await command.run(
      [...pretended, '--memory', '8GiB', '--batch', '4', '--seq', '128'],
      { environment: { PRETEND_CTRL_C: '1' } },
    );
    expect({ stdout, stderr, exitCode }).toEqual({ stdout: '', stderr: '', exitCode: 130 });
  });

  it('says what is missing where there is no Python', async () => {
    const argv = ['plan', gpt2, '--memory', '8GiB', '--method', 'trace', '--python', './none'];
    const { stderr, exitCode } = await command.run(argv);
    expect(stderr).toMatch(/^plimsoll: python-missing: /);
    expect(exitCode).toBe(3);
  });
});

describe('plimsoll plan, by formula', () => {
  const llama = join(root, 'bench/truth/configs/llama-2-7b.json');
  const formula = ['plan', llama, '--method', 'formula', '--json'];
  const answer = async (more: readonly string[]) => {
    const { stdout, stderr } = await command.run([...formula, ...more]);
    expect(stderr).toBe('');
    return JSON.parse(stdout);
  };

  it('rounds weights that are too large, and says how to load them', async () => {
    const job = ['--mode', 'infer', '--batch', '1', '--seq', '1024'];
    const roomy = await answer(['--memory', '24GiB', ...job]);
    expect(roomy.settings.quantization).toBe('none');
    expect(roomy).not.toHaveProperty('loading');
    const small = await answer(['--allocator-memory', '10GiB', ...job]);
    expect(small).toMatchObject({
      fits: true,
      settings: { quantization: 'int8' },
      loading: { quantization_config: { load_in_8bit: true }, device_map: 'auto' },
    });
    const tiny = await answer(['--allocator-memory', '4GiB', ...job]);
    expect(tiny.settings).toMatchObject({ quantization: 'int4_offload', offload: 'weights' });
    expect(tiny.loading.max_memory).toHaveProperty('cpu');
    expect(tiny.hostBytes).toBeGreaterThan(0);
  });

  it('shares a training out over GPUs that it does not fit alone', async () => {
    const job = ['--gpu', 'h100', '--batch', '64', '--seq', '1024', '--offload', 'none'];
    const { fits, settings, concession } = await answer(['--gpus', '8', ...job]);
    expect({ fits, concession }).toEqual({ fits: true, concession: 'speed' });
    expect(settings.zero).toBeGreaterThan(0);
    expect(settings.batch * settings.accumulation * settings.gpus).toBe(64);
    expect((await answer(job)).concession).not.toBe('speed');
  });
});

const program = ['train_small.py', '--batch-size', '{batch_size}', '--accumulate={accumulation}'];

function plan(...argv: readonly string[]) {
  return command.run([
    'plan',
    '--gpu',
    'h200',
    ...argv,
    '--',
    fakePython(command.folder()),
    ...program,
  ]);
}

describe('plimsoll plan -- python train.py', () => {
  it('finds the largest batch that surely fits, and prints the command to run', async () => {
    const { stdout, stderr, exitCode } = await plan('--allocator-memory', '1GiB', '--json');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const answer: ProgramPlan = JSON.parse(stdout);
    const { batch } = answer.settings;
    expect(answer).toMatchObject({
      fits: true,
      surely: true,
      settings: { accumulation: 1, precision: 'unknown', gpus: 1 },
      estimate: { method: 'trace' },
      budget: { allocatorMemoryBytes: 1024 ** 3 },
    });
    // (1024 - 100) / 10 MiB, less what the interval and rounding of segments take.
    expect(batch).toBeGreaterThan(80);
    expect(batch).toBeLessThan(93);
    expect(answer.alternatives.length).toBeLessThanOrEqual(4);
    const text = await plan('--allocator-memory', '1GiB');
    expect(text.stdout).toContain(`--batch-size ${batch} --accumulate=1`);
    expect(text.stdout).toContain('Other batches that were traced:');
  });

  it('keeps the effective batch by accumulation', async () => {
    const { stdout } = await plan('--allocator-memory', '1GiB', '--batch', '256', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      settings: { batch: 64, accumulation: 4 },
      fits: true,
    });
  });

  it('answers with exit code 1 where not one sample fits', async () => {
    const { stdout, exitCode } = await plan('--memory', '50MiB');
    expect(exitCode).toBe(1);
    expect(stdout).toContain('Nothing fits into 50.0 MiB');
  });

  it.each([
    [['plan', '--memory', '1GiB', '--', 'python', 'train.py'], 'where its batch goes'],
    [
      ['plan', '--memory', '1GiB', '--batch', '8', '--', 'python', 't.py', '{batch_size}'],
      '--batch is kept by accumulation',
    ],
    [['plan', '--seq', '8', '--', 'python', 't.py', '{batch_size}'], '--seq is for models'],
    [['plan', '--', 'python', 't.py', '{batch_size}'], 'The memory budget is missing'],
    [['plan', '--memory', '1GiB', '--', 'node', 't.js', '{batch_size}'], 'not a Python program'],
  ])('refuses what cannot be planned: %j', async (argv, fact) => {
    const { stderr, stdout, exitCode } = await command.run(argv);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toContain(fact);
  });

  it('ends at once when it is interrupted', async () => {
    const path = join(command.folder(), 'python3');
    writeFileSync(path, '#!/bin/sh\necho begun >&2\nexec sleep 1000\n');
    chmodSync(path, 0o755);
    const argv = ['plan', '--memory', '1GiB', '--verbose', '--', path, 't.py', '{batch_size}'];
    const { exitCode } = await command.run(argv, {
      onOutput: killWhen(({ stderr }) => stderr.includes('begun'), 'SIGINT'),
    });
    expect(exitCode).toBe(130);
  });

  it('traces a real program, and leaves its folder as it was', needsTorch, async () => {
    cpSync(
      join(root, 'test/fixtures/programs/train_small.py'),
      join(command.folder(), 'train_small.py'),
    );
    const argv = [
      'plan',
      '--allocator-memory',
      '300MiB',
      '--batch',
      '4096',
      '--json',
      '--',
      python,
    ];
    const { stdout, stderr, exitCode } = await command.run([...argv, ...program]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const { settings }: ProgramPlan = JSON.parse(stdout);
    expect(settings.batch * settings.accumulation).toBe(4096);
    expect([1024, 2048]).toContain(settings.batch);
    expect(existsSync(join(command.folder(), 'small.pt'))).toBe(false);
  });
});

/** 32 million parameters, most of them in the embedding: weights and states decide, not activations. */
const model = {
  model_type: 'gpt2',
  architectures: ['GPT2LMHeadModel'],
  n_layer: 2,
  n_embd: 512,
  n_head: 8,
  n_positions: 64,
  vocab_size: 50_257,
};

describe('plimsoll plan --gpus', { ...needsTorch, tags: 'rest' }, () => {
  it('says the same in its settings and in how the GPUs share the training', async () => {
    const asked =
      '--gpus 4 --batch 12 --seq 32 --allocator-memory 900MiB --gpu h200 --train --json';
    const config = join(command.folder(), 'config.json');
    writeFileSync(config, JSON.stringify(model));
    const words = ['plan', config, '--python', tracingPython, ...asked.split(' ')];
    const { stdout, stderr } = await command.run(words);
    expect(stderr).toBe('');
    const found: PlanDocument = JSON.parse(stdout);
    const { chosen, tried = [] } = found.sharding ?? {};
    expect(tried[0]).toMatchObject({ parallel: { way: 'ddp' }, fit: 'no' });
    expect(chosen).toMatchObject({ parallel: { way: 'fsdp2' }, fit: 'surely' });
    expect([found.fits, found.surely, found.estimate.method]).toEqual([true, true, 'trace']);
    expect(found.estimate.peak).toEqual(chosen?.peak);
    const { settings } = found;
    expect(settings.zero).toBe(chosen?.parallel.reshard === false ? 2 : 3);
    expect([settings.batch, settings.accumulation]).toEqual([chosen?.batch, chosen?.accumulation]);
    expect(settings.batch * settings.accumulation * settings.gpus).toBe(12);
    // DDP is "without ZeRO" there.
    const copies = found.alternatives.filter(({ settings: { zero } }) => zero === 0);
    expect(copies.map(({ fits }) => fits)).toEqual([false]);
  });
});
