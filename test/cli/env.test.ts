import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkEnvironment } from '../../src/plan/environment/check.js';
import { environmentRules } from '../../src/plan/environment/rules.js';
import { useCommand } from './command.js';

const command = useCommand();

/** What the person who runs the tests has set must not be found; an empty one counts as not set. */
const blank = Object.fromEntries(
  [...environmentRules.map(({ name }) => name), 'PYTORCH_ALLOC_CONF', 'PYTORCH_HIP_ALLOC_CONF']
    .filter((name) => process.env[name] !== undefined)
    .map((name) => [name, '']),
);
const run = (argv: readonly string[], environment: Record<string, string> = {}) =>
  command.run(['env', ...argv], {
    environment: { ...blank, PLIMSOLL_SIMULATE: 'steady', ...environment },
  });

describe('plimsoll env', () => {
  it('answers what to set for the machine at hand, as JSON', async () => {
    const { stdout, stderr, exitCode } = await run(['--mode', 'production', '--json']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const answer = JSON.parse(stdout);
    expect(answer).toMatchObject({ mode: 'production', vendor: 'nvidia', gpus: 1 });
    expect(answer.cores).toBe(availableParallelism());
    expect(answer.settings[0]).toEqual({
      name: 'CUDA_LAUNCH_BLOCKING',
      action: 'set',
      value: '0',
      reason: expect.any(String),
    });
    const same = await run(['--mode', 'production', '--format', 'json']);
    expect(same.stdout).toBe(stdout);
  });

  it('writes lines that a shell can source, and that its own check accepts', async () => {
    for (const mode of ['production', 'debug'] as const) {
      const { stdout } = await run(['--mode', mode, '--format', 'shell']);
      const script = `${stdout}\nenv -0`;
      const shown = execFileSync('/bin/sh', ['-c', script], {
        env: { PATH: process.env['PATH'], NVIDIA_TF32_OVERRIDE: '0' },
        encoding: 'utf8',
      });
      const environment = Object.fromEntries(
        shown.split('\0').map((line) => [line.split('=')[0], line.slice(line.indexOf('=') + 1)]),
      );
      const context = { mode, vendor: 'nvidia', cores: availableParallelism(), gpus: 1 } as const;
      expect(checkEnvironment(environment, context)).toEqual([]);
    }
  });

  it('writes a .env file, and text for people', async () => {
    const dotenv = await run(['--mode', 'debug', '--format', 'dotenv']);
    expect(dotenv.stdout).toMatch(/^# .+\nCUDA_LAUNCH_BLOCKING=1\n/);
    const { stdout } = await run(['--mode', 'debug']);
    expect(stdout).toMatch(/^For debug \(1 GPU of NVIDIA; \d+ cores?\)\.\n\nSet:\n/);
    expect(stdout).toContain('Worth a thought:\n  PYTORCH_NO_CUDA_MEMORY_CACHING');
  });

  it('keeps to a budget on a card of the table or of the configuration', async () => {
    const known = await run(['--mode', 'production', '--gpu', 'h200', '--memory', '24GiB']);
    expect(known.stdout).toContain('expandable_segments:True,per_process_memory_fraction:0.1656');
    const config = join(command.folder(), 'cards.json');
    const gpus = [{ name: 'Ours', vendor: 'amd', capacityBytes: 40_000, contextBytes: 2_000 }];
    writeFileSync(config, JSON.stringify({ gpus }));
    const own = await run([
      '--mode',
      'debug',
      '--gpu',
      'ours',
      '--memory',
      '12000B',
      '--config',
      config,
      '--json',
    ]);
    expect(JSON.parse(own.stdout)).toMatchObject({ vendor: 'amd' });
    expect(own.stdout).toContain('"per_process_memory_fraction:0.25"');
    // The simulated card has 24 GiB.
    const found = await run(['--mode', 'production', '--memory', '12GiB', '--format', 'dotenv']);
    expect(found.stdout).toContain('per_process_memory_fraction:0.4633');
  });

  it('finds a debug setting that slipped into production: exit code 1', async () => {
    const { stdout, exitCode } = await run(['--mode', 'production', '--check', '--json'], {
      CUDA_LAUNCH_BLOCKING: '1',
    });
    expect(exitCode).toBe(1);
    const { ok, findings } = JSON.parse(stdout);
    expect(ok).toBe(false);
    expect(findings[0]).toEqual({
      name: 'CUDA_LAUNCH_BLOCKING',
      kind: 'debug-setting',
      severity: 'required',
      value: '1',
      reason: expect.any(String),
      fix: "export CUDA_LAUNCH_BLOCKING='0'",
    });
  });

  it('lets a plain environment pass, and says what could be better', async () => {
    const { stdout, exitCode } = await run(['--mode', 'production', '--check']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^The environment is fit for production: nothing must change\.\n/);
    expect(stdout).toContain('could change CUDA_DEVICE_ORDER  is not set (missing)');
  });

  it('shows nothing of an environment that a terminal would act on', async () => {
    const environment = { PYTORCH_CUDA_ALLOC_CONF: '\u001B]0;evil\u0007\u009B2J:x\nB' };
    for (const argv of [['--json'], []]) {
      const { stdout, exitCode } = await run(
        ['--mode', 'production', '--check', ...argv],
        environment,
      );
      expect(exitCode).toBe(1);
      expect(stdout).toContain('malformed');
      expect(stdout.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
    }
  });

  it.each([
    [[], "bad-usage: Required option '--mode <mode>' not specified."],
    [['--mode', 'test'], 'bad-option: --mode cannot be "test". It takes production, debug.'],
    [['--mode', 'debug', '--format', 'yaml'], 'bad-option: --format cannot be "yaml".'],
    [['--mode', 'debug', '--memory', '0'], 'bad-option: --memory cannot be "0".'],
    [['--mode', 'debug', '--gpu', 'a100'], 'ambiguous-gpu: "a100" may be "NVIDIA A100-SXM4-40GB"'],
    [['--mode', 'debug', '--gpu', 'none'], 'unknown-gpu: There is no GPU "none" in the table.'],
    [
      ['--mode', 'debug', '--gpu', 't4', '--memory', '1MiB'],
      'memory-too-small: A budget of 1.0 MiB',
    ],
    [['--mode', 'debug', '--json', '--format', 'shell'], 'bad-usage: --json and --format shell'],
    [['--mode', 'debug', '--check', '--format', 'dotenv'], 'bad-usage: --check answers as text'],
  ])('refuses %j', async (argv, message) => {
    const { stdout, stderr, exitCode } = await run(argv);
    expect(stderr).toContain(message);
    expect(stderr).toMatch(/^plimsoll: [a-z-]+: [^\n]+\n$/);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });
});
