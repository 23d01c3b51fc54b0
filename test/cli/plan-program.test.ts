import { chmodSync, cpSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ProgramPlan } from '../../src/plan/programs/plan-program.js';
import { fakePython } from '../support/fake-python.js';
import { needsTorch, tracingPython as python } from '../support/needs.js';
import { root } from '../support/project-files.js';
import { killWhen, useCommand } from './command.js';

const command = useCommand();

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
